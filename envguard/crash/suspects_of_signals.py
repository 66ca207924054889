"""What a signal leaves to suspect when nothing else is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.phases import Phase
from envguard.crash.rules import host_memory as host
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.measured import no_kill_was_counted
from envguard.crash.rules.model import Outcome
from envguard.crash.rules.native import crash_library
from envguard.crash.rules.nccl import TRANSPORT
from envguard.crash.suspicion import Suspicion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

SHADOW = Outcome(
    "CRS025",
    "ld-library-path-shadow",
    "libraries on LD_LIBRARY_PATH stand before the ones that torch brought",
    "Mixed CUDA or cuDNN versions crash in their first call.",
    "unset LD_LIBRARY_PATH",
)
SEGFAULT = Outcome(
    "CRS090",
    "unknown-segfault",
    "native code crashed (SIGSEGV), and nothing tells where",
    "A signal of this kind comes from a library, not from Python code.",
    "find the library first",
)
EXTENSION = Outcome(
    "CRS093",
    "extension-crash",
    "a compiled extension that does not belong to this torch crashed",
    "An extension of another build can load and crash later.",
    "reinstall it for this torch",
)
KILLED = Outcome(
    "CRS094",
    "killed-from-outside",
    "someone else killed it: a batch system, a container runtime, a person",
    "SIGKILL never comes from the program or from CUDA.",
    "ask for the reason",
)
ABORT = Outcome(
    "CRS095",
    "native-abort",
    "native code aborted (SIGABRT)",
    "An uncaught C++ exception, glibc's heap check, or NCCL's watchdog.",
    "read the last lines of stderr",
)
ILLEGAL = Outcome(
    "CRS096",
    "cpu-lacks-instructions",
    "a library used an instruction that this processor does not have",
    "It was built for a newer processor (AVX512, AMX), or a file is damaged.",
    "take a build for this processor",
)
TERM = Outcome(
    "CRS072",
    "sigterm-from-supervisor",
    "it was asked to stop (SIGTERM)",
    "Another rank failed first, or a scheduler or container runtime stopped it.",
    "look for the rank that ended first",
)
_AGAIN = ("envguard", "run", "--")
_NO_WORD = "no word of the kernel or of a limit in this log"
_FAULTHANDLER = ("env", "PYTHONFAULTHANDLER=1")


def suspect_kill(case: Case) -> Iterator[Suspicion]:
    """SIGKILL without evidence: memory by phase, a limit, the machine, someone else."""
    counted = no_kill_was_counted(case)
    against = "the memory cgroup counted no kill during this run" if counted else _NO_WORD
    outside = Suspicion(
        KILLED,
        "a scheduler's or a person's kill looks the same",
        "" if counted else "no words of a scheduler in this log",
        "compare the run time with the time limit, and ask sacct or kubectl describe pod for the "
        "reason",
    )
    if counted:
        yield outside
    yield from _by_phase(case, against)
    yield Suspicion(
        host.CONTAINER,
        "a container's or job's memory limit ends it in the same way",
        against,
        "raise the memory limit alone, and run the same command again: if it lives, that was it",
        _AGAIN,
    )
    yield Suspicion(
        host.EXHAUSTED,
        "SIGKILL without another word is most often the kernel's memory killer",
        against,
        "run the same command again under `envguard run`, and look at `dmesg -T` afterwards: a "
        "line 'Killed process' with its pid decides",
        _AGAIN,
    )
    if case.phase is None:
        yield Suspicion(
            host.LOAD,
            "loading and saving are where host memory peaks",
            "the phase is not known",
            "state the phase (--phase load, --phase save), or run again under `envguard run`",
            _AGAIN,
        )
    if not counted:
        yield outside


def _by_phase(case: Case, against: str) -> Iterator[Suspicion]:
    has_offload = case.log.has("offload-words", "deepspeed-words")
    if case.phase is Phase.TRAIN:
        yield Suspicion(
            host.GROWTH,
            "it trained for a while before it was killed",
            against,
            "run again with num_workers=0 and nothing else changed",
        )
    if has_offload and case.phase in {Phase.TRAIN, Phase.INIT, None}:
        yield Suspicion(
            host.OPTIMIZER,
            "DeepSpeed takes part, and offload is what it needs host memory for",
            against,
            "run again with offload_optimizer set to none and nothing else changed: then the GPU "
            "runs out instead, with a message",
            ids=("offload-words", "deepspeed-words"),
        )


def suspect_segfault(case: Case) -> Iterator[Suspicion]:
    """SIGSEGV: the library that is named, shadowed libraries, an extension, NCCL's transport."""
    early = case.phase in {Phase.IMPORT, Phase.INIT, None}
    found = crash_library(case)
    where = f" in {found[1]}" if found else ""
    if _is_in_nccl(case):
        yield _transport("NCCL stands in the stack")
    if case.log.has("convolution-words") or "cudnn" in where:
        yield _shadow("it crashed in cuDNN, the library that is most often found twice")
    yield Suspicion(
        SEGFAULT,
        f"the process died of SIGSEGV{where}",
        "",
        "run it again with PYTHONFAULTHANDLER=1 and nothing else changed: the first frame in a "
        "library names it",
        _FAULTHANDLER,
        ("kernel-segfault", "native-frame", "faulthandler-segv", "shell-death"),
    )
    if case.log.has("deepspeed-words") and case.phase is Phase.INIT:
        yield Suspicion(
            shm.SHM,
            "several ranks were started, perhaps in a container",
            "a full /dev/shm is SIGBUS as a rule",
            "look at `df -h /dev/shm`, and run again with --shm-size=8g and nothing else changed",
            ("df", "-h", shm.SHM_FOLDER),
        )
        if not _is_in_nccl(case):
            yield _transport("the ranks were being joined")
    if early and not case.log.has("convolution-words"):
        yield _shadow("it crashed at the start")
    yield Suspicion(
        EXTENSION,
        "native code crashed",
        "" if early else "it ran for a while",
        "import torch and multiply two matrices on the GPU: if that passes, an extension is it",
        ("envguard", "smoke"),
    )


def _is_in_nccl(case: Case) -> bool:
    found = crash_library(case)
    return case.log.has("nccl-frame") or (found is not None and "nccl" in found[1])


def _transport(speaks: str) -> Suspicion:
    return Suspicion(
        TRANSPORT,
        speaks,
        "",
        "run again with NCCL_P2P_DISABLE=1 and nothing else changed; then with NCCL_SHM_DISABLE=1 "
        "instead",
        ("env", "NCCL_P2P_DISABLE=1"),
        ("kernel-segfault", "nccl-frame"),
    )


def _shadow(speaks: str) -> Suspicion:
    return Suspicion(
        SHADOW,
        speaks,
        "what LD_LIBRARY_PATH held is not known",
        "run the same command with LD_LIBRARY_PATH unset and nothing else changed",
        ("env", "-u", "LD_LIBRARY_PATH"),
        ("convolution-words", "ld-path-words"),
    )


def suspect_bus(case: Case) -> Iterator[Suspicion]:
    """SIGBUS: shared memory or the storage behind a mapping; the size of /dev/shm orders them."""
    size, _ = shm.shm_size(case)
    is_large = size is not None and size > shm.LARGE
    ids = ("dl-bus", "caught-signal", "shm-size")
    place = f"it holds {size / 2**30:.0f} GiB" if is_large and size else "its size is not known"
    small = Suspicion(
        shm.SHM,
        "torch's own message guesses it" if case.log.has("dl-bus") else "most SIGBUS come from it",
        place,
        "look at `df -h /dev/shm` while it runs; run again with --shm-size=8g and nothing else "
        "changed",
        ("df", "-h", shm.SHM_FOLDER),
        ids,
    )
    storage = Suspicion(
        shm.STORAGE,
        "mapped data that cannot be read gives the same signal",
        "",
        "run again with the data on a local disk and nothing else changed",
        ids=ids,
    )
    yield from (storage, small) if is_large else (small, storage)


def suspect_abort(case: Case) -> Iterator[Suspicion]:
    """SIGABRT: whoever called abort said so on stderr."""
    yield Suspicion(
        ABORT,
        "the process died of SIGABRT",
        "",
        "run it again with PYTHONFAULTHANDLER=1, and keep all of stderr: the lines before the "
        "abort say who called it",
        _FAULTHANDLER,
        ("heap-corruption", "terminate-called", "faulthandler-segv"),
    )


def suspect_illegal(case: Case) -> Iterator[Suspicion]:
    """SIGILL and SIGFPE."""
    yield Suspicion(
        ILLEGAL,
        "the process died of an illegal instruction or an arithmetic trap",
        "",
        "import the packages one after the other: the one that dies is it",
        ids=("kernel-trap", "shell-death", "faulthandler-segv"),
    )


def suspect_term(case: Case) -> Iterator[Suspicion]:
    """SIGTERM: it follows from something else."""
    yield Suspicion(
        TERM,
        "the process died of SIGTERM",
        "nothing in this log failed earlier",
        "look at the logs of the other ranks and at the scheduler's for what happened just before",
    )
