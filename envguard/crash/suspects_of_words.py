"""What words leave to suspect when they do not name a cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.gpu_code import is_served
from envguard.crash.suspects_of_devices import suspect_devices
from envguard.crash.suspicion import Suspect, suspect
from envguard.crash.trouble import last_trouble, own_exceptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

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
