"""What words leave to suspect when they do not name a cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.driver import CPU_BUILD, NO_GPU, TOO_OLD, WSL
from envguard.crash.rules.gpu_code import NEW_GPU, OLD_GPU, is_served
from envguard.crash.rules.gpu_memory import STATES, TAKEN_MAYBE
from envguard.crash.rules.model import Outcome
from envguard.crash.suspects_of_devices import suspect_devices
from envguard.crash.suspicion import Suspicion
from envguard.crash.trouble import last_trouble, own_exceptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

EXCEPTION = Outcome(
    "CRS091",
    "python-exception",
    "the program raised {type}",
    "envguard knows no cause for this exception.",
    "read the traceback from its last line upwards",
)
NOTHING = Outcome(
    "CRS092",
    "no-evidence",
    "it failed and the log does not say of what",
    "No words that envguard knows are in it.",
    "keep more of it next time",
)
BUSY = Outcome(
    "CRS064",
    "gpu-busy",
    "another process holds the GPU exclusively",
    "CUDA error 46 is exclusive mode, a stuck process or MPS.",
    "end it, or set the compute mode to default",
)
LICENCE = Outcome(
    "CRS011",
    "vgpu-licence",
    "the virtual GPU has no licence",
    "An unlicensed vGPU refuses CUDA contexts; nvidia-smi looks well.",
    "point nvidia-gridd to the licence server",
)
WRONG_INSTALL = Outcome(
    "CRS099",
    "wrong-install-active",
    "another installation of torch than the one meant was imported",
    "Two installations, or a folder on PYTHONPATH.",
    "remove the other one",
)
PINNED = Outcome(
    "CRS048",
    "pinned-host-memory-limit",
    "page-locking host memory failed; the GPU's memory is not full",
    "cudaHostAlloc fails with the words of a full GPU.",
    "pin less",
)
CUDA_ERROR = Outcome(
    "CRS069",
    "cuda-runtime-error",
    "the CUDA runtime reported an error",
    "The error alone does not name a cause.",
    "look at what was called",
)
PEER = Outcome(
    "CRS079",
    "peer-failed-first",
    "another rank failed first, and this log is not of that one",
    "NCCL and the store only report that the other side is gone.",
    "read the log of the rank that ended first",
)
NCCL_RESULT = Outcome(
    "CRS078",
    "nccl-error",
    "NCCL reported an error",
    "The result alone does not name a cause.",
    "run with NCCL_DEBUG=INFO",
)
_SHOW_TORCH = (
    "python",
    "-c",
    "import torch; print(torch.__file__, torch.__version__, torch.cuda.get_arch_list())",
)
_CODE_WORDS = ("capability-words", "arch-complaint")
_PEER_WORDS = ("nccl-peer-closed", "nccl-remote", "store-timeout")


def suspect_words(case: Case) -> Iterator[Suspicion]:
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


def _unavailable() -> Iterator[Suspicion]:
    words = ("devices-unavailable",)
    yield Suspicion(
        BUSY,
        "that is what CUDA error 46 means as a rule",
        "",
        "look at the compute mode and at old processes",
        ("nvidia-smi", "-q", "-d", "COMPUTE,PIDS"),
        words,
    )
    yield Suspicion(
        LICENCE,
        "on a virtual GPU a missing licence looks like this",
        "whether the GPU is virtual is not known",
        "look at 'License Status'",
        ("nvidia-smi", "-q"),
        words,
    )


def _no_gpu(case: Case) -> Iterator[Suspicion]:
    words = ("not-available-words", "cuda-unknown-999")
    if case.log.has("wsl-words") or case.facts.machine.host.is_wsl:
        yield Suspicion(
            WSL,
            "it runs under WSL",
            "",
            "look which libcuda is found first: it has to be the one in /usr/lib/wsl/lib",
            ("ldconfig", "-p"),
            (*words, "wsl-words"),
        )
    yield Suspicion(
        NO_GPU,
        "torch sees no GPU",
        "whether there is a driver is not known",
        "run nvidia-smi in the same place",
        ("nvidia-smi",),
        words,
    )
    yield Suspicion(
        CPU_BUILD,
        "a CPU build says the same",
        "the build's label is not known",
        "print what torch was built for: None is a CPU build",
        ("python", "-c", "import torch; print(torch.version.cuda)"),
        words,
    )
    yield Suspicion(
        TOO_OLD,
        "a driver that is too old says the same",
        "torch warns about it as a rule",
        "compare the driver with the build",
        ("envguard", "check"),
        words,
    )


def _missing_code() -> Iterator[Suspicion]:
    words = _CODE_WORDS
    again = "print which torch is imported and what it holds code for"
    yield Suspicion(
        WRONG_INSTALL,
        "most builds hold code for most GPUs",
        "which torch was imported is not known",
        again,
        _SHOW_TORCH,
        words,
    )
    for outcome in (OLD_GPU, NEW_GPU):
        yield Suspicion(
            outcome, "the words say that code is missing", "", again, _SHOW_TORCH, words
        )


def _bare_memory_error(case: Case) -> Iterator[Suspicion]:
    words = ("cuda-oom-bare",)
    no_figure = "the message names no size, so it is not torch's allocator"
    pinned = Suspicion(
        PINNED,
        f"{no_figure}; offload and pinned buffers use cudaHostAlloc",
        "",
        "run again with pin_memory set to False and nothing else changed; look at `ulimit -l`",
        ids=words,
    )
    if case.log.has("offload-words"):
        yield pinned
    yield Suspicion(
        TAKEN_MAYBE,
        f"{no_figure}: creating a context on a full GPU says this",
        "",
        "look who holds the GPU's memory before it starts",
        ("nvidia-smi",),
        words,
    )
    if not case.log.has("offload-words"):
        yield pinned
    yield Suspicion(
        STATES,
        "the GPU may be full of this very program",
        "then torch's allocator would have said so",
        "run again with half the micro-batch and nothing else changed",
        ids=words,
    )


def _nccl(case: Case) -> Iterator[Suspicion]:
    if case.log.has(*_PEER_WORDS):
        yield Suspicion(
            PEER,
            "a connection was closed from the other side",
            "",
            "collect the logs of all ranks, and read first the one that ended first",
            ids=_PEER_WORDS,
        )
    hit = case.log.first("nccl-error-in")
    row = case.table.nccl_error(hit.groups["err"]) if hit is not None else None
    if row is not None:
        yield Suspicion(
            NCCL_RESULT,
            f"{row.name}: {row.note}",
            "",
            "run again with NCCL_DEBUG=INFO and read the first line with WARN",
            ("env", "NCCL_DEBUG=INFO"),
            ("nccl-error-in",),
        )


def _cuda_error(case: Case) -> Iterator[Suspicion]:
    """An error of the table that no rule speaks of."""
    for hit in case.log.all("cuda-error-words"):
        words = (hit.groups.get(name) for name in ("string", "string2", "name", "code"))
        rows = (case.table.cuda_error(text) for text in words if text)
        row = next((row for row in rows if row is not None), None)
        if row is None or row.name in {"cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable"}:
            continue
        note = f": {row.note}" if row.note else ""
        yield Suspicion(
            CUDA_ERROR,
            f"error {row.code}, {row.name}{note}",
            "",
            "run again with CUDA_LAUNCH_BLOCKING=1 and nothing else changed: the traceback then "
            "shows the call",
            ("env", "CUDA_LAUNCH_BLOCKING=1"),
            ("cuda-error-words",),
        )
        return


def suspect_exception(case: Case) -> Iterator[Suspicion]:
    """A Python exception that no rule knows, or nothing at all."""
    own = own_exceptions(case)
    if own:
        yield Suspicion(
            EXCEPTION,
            f"the log ends a traceback with {own[-1].text[:160]!r}",
            "",
            "read the traceback from its last line upwards to the first line of your own code",
            ids=("python-exception",),
        )
    elif case.exit_code not in {0, None} and last_trouble(case) is None:
        yield Suspicion(
            NOTHING,
            f"the exit status is {case.exit_code}",
            "",
            "run it again under `envguard run`, which keeps the ending, the phase and the memory",
            ("envguard", "run", "--"),
        )
