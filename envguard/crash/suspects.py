"""Hypotheses where the evidence does not carry a cause: ranked, each with one experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import (
    SIGABRT,
    SIGBUS,
    SIGFPE,
    SIGILL,
    SIGKILL,
    SIGSEGV,
    SIGTERM,
)
from envguard.crash.phases import Phase
from envguard.crash.rules import host_memory as host
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.driver import CPU_BUILD, NO_GPU, TOO_OLD
from envguard.crash.rules.gpu_code import NEW_GPU, OLD_GPU
from envguard.crash.rules.model import Outcome, make_finding
from envguard.crash.rules.nccl import TRANSPORT
from envguard.facts.findings import Finding, Remedy, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_SHADOW = Outcome(
    "CRS025",
    "ld-library-path-shadow",
    "libraries on LD_LIBRARY_PATH stand before the ones that torch brought",
    "Mixed CUDA or cuDNN versions crash in their first call.",
    "run the same command with LD_LIBRARY_PATH unset and nothing else changed",
    ("env", "-u", "LD_LIBRARY_PATH"),
)
_SEGFAULT = Outcome(
    "CRS090",
    "unknown-segfault",
    "native code crashed (SIGSEGV), and nothing tells where",
    "A signal of this kind comes from a library, not from Python code.",
    "run it again with PYTHONFAULTHANDLER=1: the first frame inside a library names it",
    ("env", "PYTHONFAULTHANDLER=1"),
)
_EXTENSION = Outcome(
    "CRS093",
    "extension-crash",
    "a compiled extension that does not belong to this torch",
    "An extension of another build can load and crash later.",
    "import torch and multiply two matrices on the GPU: if that passes, an extension is it",
    ("envguard", "smoke"),
)
_KILLED = Outcome(
    "CRS094",
    "killed-from-outside",
    "someone else killed it: a batch system, a container runtime, a person",
    "SIGKILL never comes from the program or from CUDA.",
    "compare the run time with the time limit and ask sacct, or kubectl describe pod, for the "
    "reason",
)
_ABORT = Outcome(
    "CRS095",
    "native-abort",
    "native code aborted (SIGABRT)",
    "An uncaught C++ exception, glibc's heap check, or NCCL's watchdog; the last lines of stderr "
    "say which.",
    "run it again with PYTHONFAULTHANDLER=1 and keep all of stderr",
    ("env", "PYTHONFAULTHANDLER=1"),
)
_ILL = Outcome(
    "CRS096",
    "cpu-lacks-instructions",
    "a library used an instruction that this processor does not have",
    "It was built for a newer processor (AVX512, AMX), or a file is damaged.",
    "import the packages one by one; the one that dies is it",
)
_EXCEPTION = Outcome(
    "CRS091",
    "python-exception",
    "the program raised {type}",
    "envguard knows no cause for this exception.",
    "read the traceback from its last line upwards",
)
_NOTHING = Outcome(
    "CRS092",
    "no-evidence",
    "it failed and the log does not say of what",
    "No words that envguard knows are in it.",
    "run it again under `envguard run`, which keeps the ending, the phase and the memory",
    ("envguard", "run", "--"),
)
_TERM = Outcome(
    "CRS072",
    "sigterm-from-supervisor",
    "it was asked to stop (SIGTERM)",
    "Another rank failed first, or a scheduler or container runtime stopped it.",
    "look for the rank that ended first; its log holds the cause",
)
_BUSY = Outcome(
    "CRS064",
    "gpu-busy",
    "another process holds the GPU exclusively",
    "",
    "look for old processes and set the compute mode to default",
    ("nvidia-smi", "-q", "-d", "COMPUTE"),
)
_LICENCE = Outcome(
    "CRS011",
    "vgpu-licence",
    "if it is a virtual GPU: its licence is missing",
    "",
    "look at 'License Status'",
    ("nvidia-smi", "-q"),
)
_WSL = Outcome(
    "CRS068",
    "wsl-driver-shadow",
    "a Linux driver inside WSL stands before the one of Windows",
    "Under WSL libcuda comes from Windows, in /usr/lib/wsl/lib; a driver package installed inside "
    "hides it.",
    "look which libcuda is found; remove Linux driver packages, update the Windows driver and WSL",
    ("ldconfig", "-p"),
)
_WRONG_INSTALL = Outcome(
    "CRS099",
    "wrong-install-active",
    "another installation of torch than the one meant was imported",
    "",
    "print what the failing interpreter has",
    (
        "python",
        "-c",
        "import torch; print(torch.__file__, torch.__version__, torch.cuda.get_arch_list())",
    ),
)


def suspect_causes(case: Case) -> Iterator[Finding]:
    """The hypotheses for a case without an established cause, the likeliest first.

    Returns:
        Findings of status unknown; nothing when nothing went wrong.
    """
    yield from _of_words(case)
    match case.signal:
        case n if n == SIGKILL:
            yield from _of_kill(case)
        case n if n == SIGSEGV:
            yield from _of_segfault(case)
        case n if n == SIGBUS:
            yield from _of_bus(case)
        case n if n == SIGABRT:
            yield _suspect(case, _ABORT, "-6", "", "heap-corruption", "terminate-called")
        case n if n in {SIGILL, SIGFPE}:
            yield _suspect(case, _ILL, "-4 or -8", "")
        case n if n == SIGTERM:
            yield _suspect(case, _TERM, "-15", "nothing in the log failed earlier")
        case _:
            yield from _of_exception(case)


def _suspect(case: Case, outcome: Outcome, speaks: str, against: str, *ids: str) -> Finding:
    """A hypothesis: what speaks for it, what against, and the one thing to change."""
    said = f"For it: {speaks}." if speaks else ""
    said += f" Against it: {against}." if against else ""
    finding = make_finding(case, outcome, Status.UNKNOWN, case.hits(*ids), detail=said.strip())
    if finding.remedy is None:
        return finding
    from dataclasses import replace

    return replace(finding, remedy=Remedy(finding.remedy.text, finding.remedy.command))


def _of_words(case: Case) -> Iterator[Finding]:
    if case.log.has("devices-unavailable"):
        words = ("devices-unavailable",)
        yield _suspect(
            case, _BUSY, "CUDA error 46 is exclusive mode or a stuck process", "", *words
        )
        yield _suspect(case, _LICENCE, "nvidia-smi looks well all the same", "", *words)
    if case.log.has("not-available-words"):
        yield from _of_no_gpu(case)
    if case.log.has("capability-words") and not case.log.has("no-kernel-image"):
        words = ("capability-words",)
        yield _suspect(case, _WRONG_INSTALL, "builds with code for most GPUs exist", "", *words)
        yield _suspect(case, OLD_GPU, "the words say that code is missing", "", *words)
        yield _suspect(case, NEW_GPU, "the words say that code is missing", "", *words)


def _of_no_gpu(case: Case) -> Iterator[Finding]:
    words = ("not-available-words",)
    if case.log.has("wsl-words") or case.facts.machine.host.is_wsl:
        yield _suspect(case, _WSL, "it runs under WSL", "", *words)
    yield _suspect(case, NO_GPU, "is_available() is False", "the driver is not known", *words)
    yield _suspect(case, CPU_BUILD, "a CPU build says the same", "its label is not known", *words)
    yield _suspect(case, TOO_OLD, "an old driver says the same", "it also warns, as a rule", *words)


def _of_kill(case: Case) -> Iterator[Finding]:
    memory, speaks = host.OPTIMIZER, "SIGKILL without another word is most often host memory"
    if case.phase is Phase.TRAIN:
        memory, speaks = host.GROWTH, "it ran for a while before it was killed"
    against = "no word of the kernel or the cgroup in this log"
    yield _suspect(case, host.EXHAUSTED, speaks, against)
    if case.log.has("deepspeed-words", "offload-words") or case.phase is Phase.TRAIN:
        yield _suspect(case, memory, f"the phase is {_phase_word(case)}", against, "offload-words")
    yield _suspect(case, host.CONTAINER, "a container or job limit ends it the same way", against)
    yield _suspect(case, _KILLED, "a scheduler's kill looks the same", "no such words in this log")


def _phase_word(case: Case) -> str:
    return case.phase.value if case.phase else "not known"


def _of_segfault(case: Case) -> Iterator[Finding]:
    lib = case.log.first("kernel-segfault")
    named = lib.groups.get("lib", "") if lib is not None else ""
    if "nccl" in named or case.log.has("nccl-frame"):
        yield _suspect(
            case, TRANSPORT, "NCCL stands in the stack", "", "kernel-segfault", "nccl-frame"
        )
    early = case.phase in {Phase.IMPORT, Phase.INIT, None}
    if case.log.has("convolution-words"):
        yield _suspect(case, _SHADOW, "it crashed in cuDNN", "", "convolution-words", "shell-death")
    yield _suspect(
        case, _SEGFAULT, "SIGSEGV", "", "kernel-segfault", "faulthandler-segv", "shell-death"
    )
    if case.log.has("deepspeed-words") and case.phase is Phase.INIT:
        yield _suspect(
            case, shm.SHM, "several ranks start in a container", "that is SIGBUS as a rule"
        )
        yield _suspect(case, TRANSPORT, "the ranks were being joined", "")
    if early and not case.log.has("convolution-words"):
        yield _suspect(case, _SHADOW, "it crashed at the start", "LD_LIBRARY_PATH is not known")
    yield _suspect(case, _EXTENSION, "native code crashed", "" if early else "it ran for a while")


def _of_bus(case: Case) -> Iterator[Finding]:
    size, hit = shm.shm_size(case)
    ids = ("dl-bus", "caught-signal")
    large = size is not None and size > 2**33
    storage = _suspect(
        case, shm.STORAGE, "mapped data that cannot be read gives the same signal", "", *ids
    )
    if large:
        yield storage
    against = (
        f"it holds {hit.groups.get('size', 'enough')}" if large and hit else "its size is not known"
    )
    yield _suspect(case, shm.SHM, "the message of torch itself guesses it", against, *ids)
    if not large:
        yield storage


def _of_exception(case: Case) -> Iterator[Finding]:
    hit = _own_exception(case)
    if hit:
        yield _suspect(case, _EXCEPTION, "", "", "python-exception")
    elif case.exit_code not in {0, None}:
        yield make_finding(case, _NOTHING, Status.UNKNOWN)


_OF_LAUNCHERS = ("ChildFailedError", "CalledProcessError", "ProcessExitedException")


def _own_exception(case: Case) -> bool:
    return any(
        not hit.groups["type"].endswith(_OF_LAUNCHERS) for hit in case.log.all("python-exception")
    )
