"""Crashes of native code whose place or cure is known: libcuda, shadowed libraries, transports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.exits import SIGABRT, SIGSEGV
from envguard.crash.rules.model import Outcome, make_finding
from envguard.crash.rules.nccl import TRANSPORT
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

LIBCUDA = Outcome(
    "CRS055",
    "libcuda-crash",
    "the process crashed inside the driver's library",
    "The kernel names libcuda as the place of the crash: the user-mode driver, not torch.",
    "reinstall the driver, look for a second libcuda (compat packages, containers), and run "
    "`envguard check`",
    ("envguard", "check"),
)
SHADOWED = Outcome(
    "CRS025",
    "ld-library-path-shadow",
    "libraries on LD_LIBRARY_PATH stand before the ones that torch brought",
    "LD_LIBRARY_PATH is searched before the wheel's own folders; mixed CUDA or cuDNN libraries "
    "crash in their first call.",
    "unset LD_LIBRARY_PATH, or take the folders of CUDA and cuDNN out of it",
    ("env", "-u", "LD_LIBRARY_PATH", "python", "-c", "import torch"),
)
_OF_CUDA = re.compile(r"cuda|cudnn|tensorrt", re.IGNORECASE)

_STANDSTILL = (
    "nccl-watchdog",
    "nccl-frame",
    "nccl-error-in",
    "nccl-cuda-failure",
    "hang-words",
    "illegal-access",
    "launch-failure",
)


def check_libcuda_crash(case: Case) -> Iterator[Finding]:
    """The kernel's line about a segfault names libcuda."""
    hit = case.log.first("kernel-segfault")
    if hit is not None and hit.groups.get("lib", "").startswith("libcuda.so"):
        yield make_finding(case, LIBCUDA, Status.FAIL, (hit,))


def check_shadowed_libraries(case: Case) -> Iterator[Finding]:
    """A crash in cuDNN with CUDA folders on LD_LIBRARY_PATH, or one that its absence cured."""
    cured = case.hits("ld-path-cure")
    if cured:
        yield make_finding(case, SHADOWED, Status.FAIL, (*cured, *case.hits("shell-death")))
        return
    if case.signal not in {SIGSEGV, SIGABRT} or not case.log.has("convolution-words"):
        return
    path = case.facts.machine.variable("LD_LIBRARY_PATH") or _stated_path(case)
    if path and _OF_CUDA.search(path):
        more = (Evidence("LD_LIBRARY_PATH", path, "the subject"),)
        hits = case.hits("convolution-words", "shell-death", "ld-path-words")
        yield make_finding(case, SHADOWED, Status.FAIL, hits, more=more)


def _stated_path(case: Case) -> str:
    hit = case.log.first("ld-path-words")
    return hit.groups.get("value", "") if hit is not None else ""


def check_transport(case: Case) -> Iterator[Finding]:
    """A crash or hang that ends when NCCL's transport between the GPUs is left out."""
    hits = case.hits("nccl-transport-words", "nccl-transport-cure")
    if hits and (case.signal is not None or case.log.has(*_STANDSTILL)):
        yield make_finding(case, TRANSPORT, Status.FAIL, (*hits, *case.hits("nccl-frame")))
