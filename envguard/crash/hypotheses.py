"""Hypotheses where nothing is established: ranked, each with one experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.breaks import known_values
from envguard.conditions import bug_holds
from envguard.crash.case import last_trouble, own_exceptions, went_on, worked_after
from envguard.crash.exits import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTERM
from envguard.crash.findings import Suspect, suspect, suspect_finding
from envguard.crash.phases import Phase
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.gpu_code import is_served
from envguard.crash.rules.host_memory import no_kill_was_counted
from envguard.crash.rules.native import bug_finding, crash_library, shown_by
from envguard.crash.rules.packages import suspect_breaks
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.crash.case import Case


_SMI = ("nvidia-smi",)


def suspect_devices(case: Case) -> Iterator[Suspect]:
    """Hypotheses from words about NVML, error 801 and kernels that are not found."""
    yield from _nvml(case)
    if case.log.has("operation-not-supported"):
        yield from _not_supported()
    if case.log.has("named-symbol"):
        yield from _no_symbol()


def _nvml(case: Case) -> Iterator[Suspect]:
    words = ("nvml-not-started", "nvml-missing")
    hits = case.hits(*words)
    if not hits or worked_after(case, hits[-1]):
        return
    place = "run nvidia-smi in the same place"
    yield suspect("no-gpu-visible", place=place)
    yield suspect("nvml-cgroup-reload", place=place)
    yield suspect("nvml-kernel-userspace-mismatch", place=place)
    yield suspect("nvml-missing-tegra")


def _not_supported() -> Iterator[Suspect]:
    yield suspect("vgpu-feature-gap")
    yield suspect("minor-compat-feature-gap")


def _no_symbol() -> Iterator[Suspect]:
    yield suspect("extension-lacks-code-for-gpu")
    yield suspect("jetson-needs-l4t-build.board-package")


def suspect_extensions(case: Case) -> Iterator[Suspect]:
    """Compiled code that did not load, where nothing says why."""
    if case.log.has("extension-warning"):
        yield suspect("extension-not-loaded")


_AGAIN = ("envguard", "run", "--")
_NO_WORD = "no word of the kernel or of a limit in this log"
_FAULTHANDLER = ("env", "PYTHONFAULTHANDLER=1")


def suspect_kill(case: Case) -> Iterator[Suspect]:
    """SIGKILL without evidence: memory by phase, a limit, the machine, someone else."""
    counted = no_kill_was_counted(case)
    against = "the memory cgroup counted no kill during this run" if counted else _NO_WORD
    outside = suspect(
        "killed-from-outside", against="" if counted else "no words of a scheduler in this log"
    )
    if counted:
        yield outside
    yield from _by_phase(case, against)
    yield suspect("container-memory-limit", against=against)
    yield suspect("host-memory-exhausted.kill", against=against)
    if case.phase is None:
        yield suspect("host-oom-load")
    if not counted:
        yield outside


def _by_phase(case: Case, against: str) -> Iterator[Suspect]:
    has_offload = case.log.has("offload-words", "deepspeed-words")
    if case.phase is Phase.TRAIN:
        yield suspect("host-oom-growth", against=against)
    if has_offload and case.phase in {Phase.TRAIN, Phase.INIT, None}:
        yield suspect("host-oom-optimizer-offload", against=against)


def suspect_segfault(case: Case) -> Iterator[Suspect]:
    """SIGSEGV: the library that is named, shadowed libraries, an extension, NCCL's transport."""
    early = case.phase in {Phase.IMPORT, Phase.INIT, None}
    found = crash_library(case)
    where = f" in {found[1]}" if found else ""
    if _is_in_nccl(case):
        yield _transport("NCCL stands in the stack")
    if case.log.has("convolution-words") or "cudnn" in where:
        yield _shadow("it crashed in cuDNN, the library that is most often found twice")
    yield suspect("unknown-segfault", where=where)
    if case.log.has("deepspeed-words") and case.phase is Phase.INIT:
        yield suspect("shm-too-small.segfault")
        if not _is_in_nccl(case):
            yield _transport("the ranks were being joined")
    if early and not case.log.has("convolution-words"):
        yield _shadow("it crashed at the start")
    yield suspect("extension-crash", against="" if early else "it ran for a while")


def _is_in_nccl(case: Case) -> bool:
    found = crash_library(case)
    return case.log.has("nccl-frame") or (found is not None and "nccl" in found[1])


def _transport(speaks: str) -> Suspect:
    return suspect("nccl-intra-node-transport.transport", speaks=speaks)


def _shadow(speaks: str) -> Suspect:
    return suspect("ld-library-path-shadow.shadow", speaks=speaks)


def suspect_bus(case: Case) -> Iterator[Suspect]:
    """SIGBUS: shared memory or the storage behind a mapping; the size of /dev/shm orders them."""
    size, _ = shm.shm_size(case)
    is_large = size is not None and size > shm.LARGE
    place = f"it holds {size / 2**30:.0f} GiB" if is_large and size else "its size is not known"
    small = suspect(
        "shm-too-small",
        speaks="torch's own message guesses it"
        if case.log.has("dl-bus")
        else "most SIGBUS come from it",
        against=place,
    )
    storage = suspect("sigbus-from-mmap-storage")
    yield from (storage, small) if is_large else (small, storage)


def suspect_abort(case: Case) -> Iterator[Suspect]:
    """SIGABRT: whoever called abort said so on stderr."""
    yield suspect("native-abort")


def suspect_illegal(case: Case) -> Iterator[Suspect]:
    """SIGILL and SIGFPE."""
    yield suspect("cpu-lacks-instructions")


def suspect_term(case: Case) -> Iterator[Suspect]:
    """SIGTERM: it follows from something else."""
    yield suspect("sigterm-from-supervisor.term")


_SHOW_TORCH = (
    "python",
    "-c",
    "import torch; print(torch.__file__, torch.__version__, torch.cuda.get_arch_list())",
)
_CODE_WORDS = ("capability-words", "arch-complaint")
_PEER_WORDS = ("nccl-peer-closed", "nccl-remote", "store-timeout")


def suspect_words(case: Case) -> Iterator[Suspect]:
    """Hypotheses from words, the likeliest first."""
    if case.log.has("devices-unavailable"):
        yield from _unavailable()
    if case.log.has("not-available-words", "cuda-unknown-999"):
        yield from _no_gpu(case)
    if case.log.has(*_CODE_WORDS) and not (case.log.has("no-kernel-image") or is_served(case)):
        yield from _missing_code()
    if case.log.has("cuda-oom-bare"):
        yield from _bare_memory_error(case)
    yield from suspect_devices(case)
    yield from _nccl(case)
    yield from _cuda_error(case)


def _unavailable() -> Iterator[Suspect]:
    yield suspect("gpu-busy")
    yield suspect("vgpu-licence")


def _no_gpu(case: Case) -> Iterator[Suspect]:
    if case.log.has("wsl-words") or case.facts.machine.host.is_wsl:
        yield suspect("wsl-driver-shadow")
    yield suspect("no-gpu-visible.no-gpu")
    yield suspect("cpu-wheel-selected")
    yield suspect("driver-too-old-for-cuda")


def _missing_code() -> Iterator[Suspect]:
    for cause in ("wrong-install-active", "arch-missing-old-gpu", "arch-missing-new-gpu"):
        yield suspect(cause, lines=_CODE_WORDS)


def _bare_memory_error(case: Case) -> Iterator[Suspect]:
    no_figure = "the message names no size, so it is not torch's allocator"
    pinned = suspect("pinned-host-memory-limit", no_figure=no_figure)
    if case.log.has("offload-words"):
        yield pinned
    yield suspect("gpu-memory-taken.taken-maybe", no_figure=no_figure)
    if not case.log.has("offload-words"):
        yield pinned
    yield suspect("gpu-oom-states-plus-activations")


def _nccl(case: Case) -> Iterator[Suspect]:
    if case.log.has(*_PEER_WORDS):
        yield suspect("peer-failed-first")
    hit = case.log.first("nccl-error-in")
    row = case.table.nccl_error(hit.groups["err"]) if hit is not None else None
    if row is not None:
        yield suspect("nccl-error", name=row.name, note=row.note)


def _cuda_error(case: Case) -> Iterator[Suspect]:
    """An error of the table that no rule speaks of."""
    for hit in case.log.all("cuda-error-words"):
        words = (hit.groups.get(name) for name in ("string", "string2", "name", "code"))
        rows = (case.table.cuda_error(text) for text in words if text)
        row = next((row for row in rows if row is not None), None)
        if row is None or row.name in {"cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable"}:
            continue
        note = f": {row.note}" if row.note else ""
        yield suspect("cuda-runtime-error", code=row.code, name=row.name, note=note)
        return


def suspect_exception(case: Case) -> Iterator[Suspect]:
    """A Python exception that no rule knows, or nothing at all."""
    own = own_exceptions(case)
    if own:
        yield suspect("python-exception", text=f"{own[-1].text[:160]!r}")
    elif case.exit_code not in {0, None} and last_trouble(case) is None:
        yield suspect("no-evidence", exit_code=case.exit_code)


_NCCL = ("nccl-frame", "nccl-words", "nccl-error-in", "nccl-watchdog", "nccl-collective-trace")


def suspect_bugs(case: Case) -> Iterator[Finding]:
    """Known bugs whose crash this is, where GPU or versions are not known."""
    for bug in case.matrix.causes.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and bug_holds(bug, known_values(case.facts)) is None:
            yield bug_finding(bug, case, hits, Status.UNKNOWN)


def suspect_ends(case: Case) -> Iterator[Suspect]:
    """Hypotheses about hangs, and about workers and files that are gone."""
    hang = case.log.first("hang-words")
    if hang is not None and case.signal is None and not went_on(case, hang):
        yield from _hang(case)
    asked = case.log.last("sigterm-words")
    if asked is not None and case.signal is None and not went_on(case, asked):
        yield from _asked(case)
    if case.log.has("nccl-transport-words") and not case.log.has("nccl-transport-cure"):
        yield from _without_nccl()
    if case.log.has("worker-vanished"):
        yield from _lost_worker()
    if case.log.has("shm-vanished"):
        yield from _lost_memory()
    if case.log.has("zero-shard-missing"):
        yield from _lost_shards()


def _without_nccl() -> Iterator[Suspect]:
    yield suspect("nccl-intra-node-transport")


def _hang(case: Case) -> Iterator[Suspect]:
    if not case.log.has(*_NCCL):
        return
    if not case.log.has("nccl-transport-named"):  # else it was tried, and was no cure
        yield suspect("nccl-intra-node-transport.hang")
    yield suspect("nccl-watchdog-abort")


def _asked(case: Case) -> Iterator[Suspect]:
    if own_exceptions(case):
        return
    yield suspect("sigterm-from-supervisor")


def _lost_worker() -> Iterator[Suspect]:
    yield suspect("host-memory-exhausted")


def _lost_memory() -> Iterator[Suspect]:
    yield suspect("shm-removed-by-logind")
    yield suspect("shm-removed-by-other")


def _lost_shards() -> Iterator[Suspect]:
    yield suspect("zero-layout-changed")
    yield suspect("checkpoint-incomplete")


def suspect_trouble(case: Case) -> Iterator[Suspect]:
    """An error that no rule knows, where nothing better is suspected."""
    hit = last_trouble(case)
    if hit is None or case.signal is not None:
        return
    yield suspect("unknown-error", text=f"{hit.text[:160]!r}", lines=(hit.id,))


_BY_SIGNAL: dict[int, Callable[[Case], Iterator[Suspect]]] = {
    SIGKILL: suspect_kill,
    SIGSEGV: suspect_segfault,
    SIGBUS: suspect_bus,
    SIGABRT: suspect_abort,
    SIGILL: suspect_illegal,
    SIGFPE: suspect_illegal,
    SIGTERM: suspect_term,
}


def suspect_causes(case: Case) -> Iterator[Finding]:
    """The hypotheses for a case without an established cause, the likeliest first.

    What words say comes before what the signal leaves open, and an exception that nothing
    explains comes last.

    Returns:
        Findings of status unknown; nothing when nothing went wrong.
    """
    seen: set[str] = set()
    of_signal = _BY_SIGNAL.get(case.signal or 0, suspect_exception)
    for finding in suspect_bugs(case):
        seen.add(finding.cause)
        yield finding
    for raised in (
        *suspect_breaks(case),
        *suspect_ends(case),
        *suspect_words(case),
        *suspect_extensions(case),
        *of_signal(case),
    ):
        cause = raised.said(case).cause
        if cause not in seen:
            seen.add(cause)
            yield suspect_finding(case, raised)
    if not seen:
        yield from (suspect_finding(case, last) for last in suspect_trouble(case))
