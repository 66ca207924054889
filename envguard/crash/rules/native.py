"""Crashes of native code whose place or cure is known, and bugs of releases."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.breaks import known_values
from envguard.conditions import bug_holds
from envguard.crash.cause_findings import line_evidence, make_finding
from envguard.crash.exits import SIGABRT, SIGBUS, SIGILL, SIGSEGV
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.causes import NativeBug
    from envguard.signatures import SignatureMatch


_OF_CUDA = re.compile(r"cuda|cudnn|tensorrt", re.IGNORECASE)

_FRAMES = ("n", "n5")
_DEEPEST = 8
_LIBRARIES = ("lib", "lib2", "lib3", "lib4", "lib5", "lib6", "lib7")
# Frames of whoever caught the signal, and of the C library, which fails on what it is given.
_PASSED_OVER = re.compile(
    r"lib(?:pthread|c|m|dl|rt|SegFault|backtrace|gcc_s|stdc\+\+|uc[sm]|open-(?:rte|pal)|mpi)"
    r"(?:[-.]|$)|ld-linux|linux-vdso|ntdll\.dll|ucrtbase\.dll|msvcp|vcruntime|"
    r"_Py_Dump|faulthandler|libglog|libjvm"
)
_OF_DRIVER = re.compile(
    r"lib(?:cuda|cudadebugger|nvidia-(?:ml|ptxjitcompiler|nvvm|gpucomp|eglcore))\.so|"
    r"nv(?:cuda(?:64)?|cuda64_\w+|ml)\.dll",
    re.IGNORECASE,
)
_CRASHES = frozenset({SIGSEGV, SIGBUS, SIGILL, SIGABRT})


def crash_library(case: Case) -> tuple[SignatureMatch, str] | None:
    """The line and the name of the library in which native code crashed.

    The kernel's line is believed first; then a backtrace, the frame nearest to the crash that is
    not of the signal's handler or of the C library.

    Returns:
        None where no process died in native code, or where nothing names a library.
    """
    for hit in case.log.all("kernel-segfault", "kernel-trap"):
        if name := _library(hit):
            return hit, name
    if case.signal not in _CRASHES:
        return None
    stop = case.log.first("debugger-signal", "caught-signal", "faulthandler-segv")
    frames = list(case.log.all("native-frame"))
    after = [hit for hit in frames if stop is not None and hit.order >= stop.order]
    for hit in after or frames:
        if (hit.number(*_FRAMES) or 0) > _DEEPEST:
            return None
        if name := _library(hit):
            return hit, name
    return None


def _path(hit: SignatureMatch) -> str:
    return next((hit.groups[name] for name in _LIBRARIES if name in hit.groups), "")


def _library(hit: SignatureMatch) -> str:
    """The name of the library of a line; empty for one that is passed over."""
    name = re.split(r"[/\\]", _path(hit))[-1]
    return "" if not name or _PASSED_OVER.search(name) or "_Py_Dump" in hit.text else name


def check_libcuda_crash(case: Case) -> Iterator[Finding]:
    """The kernel's line about a segfault, or the top of a backtrace, names the driver's library."""
    found = crash_library(case)
    if found is not None and _OF_DRIVER.match(found[1]):
        more = (Evidence("library", found[1], found[0].place),)
        yield make_finding(case, "libcuda-crash", Status.FAIL, (found[0],), more=more)


def check_shadowed_libraries(case: Case) -> Iterator[Finding]:
    """A crash in cuDNN with CUDA folders on LD_LIBRARY_PATH, or one that its absence cured."""
    cured = case.matches("ld-path-cure")
    if cured:
        yield make_finding(
            case,
            "ld-library-path-shadow.shadowed",
            Status.FAIL,
            (*cured, *case.matches("shell-death")),
        )
        return
    if case.signal not in {SIGSEGV, SIGABRT} or not case.log.has("convolution-words"):
        return
    path = case.facts.machine.variable("LD_LIBRARY_PATH") or _stated_path(case)
    if path and _OF_CUDA.search(path):
        more = (Evidence("LD_LIBRARY_PATH", path, "the subject"),)
        hits = case.matches("convolution-words", "shell-death", "ld-path-words")
        yield make_finding(case, "ld-library-path-shadow.shadowed", Status.FAIL, hits, more=more)


def _stated_path(case: Case) -> str:
    hit = case.log.first("ld-path-words")
    return hit.groups.get("value", "") if hit is not None else ""


def check_foreign_torch(case: Case) -> Iterator[Finding]:
    """A crash in torch's Python library that does not lie where torch is installed."""
    if case.signal not in _CRASHES:
        return
    for hit in case.log.all("native-frame"):
        path = _path(hit)
        folder, _, name = path.replace("\\", "/").rpartition("/")
        if name == "libtorch_python.so" and folder and not folder.endswith("/torch/lib"):
            more = (Evidence("library", path, hit.place),)
            yield make_finding(
                case, "ld-library-path-shadow.other-torch", Status.FAIL, (hit,), more=more
            )
            return


def check_known_bugs(case: Case) -> Iterator[Finding]:
    """Every row whose signal, words, GPU and versions all are those of the crash."""
    for bug in case.matrix.causes.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and bug_holds(bug, known_values(case.facts)):
            yield bug_finding(bug, case, hits, Status.FAIL)


def shown_by(bug: NativeBug, case: Case) -> tuple[SignatureMatch, ...] | None:
    """The lines that show a bug; None when the crash is another."""
    if case.signal != bug.signal:
        return None
    hits = case.matches(bug.signature) if bug.signature else ()
    if bug.signature and not hits:
        return None
    process_exit = case.root_exit.match if case.root_exit is not None else None
    return (*hits, process_exit) if process_exit is not None else hits


def bug_finding(
    bug: NativeBug, case: Case, hits: tuple[SignatureMatch, ...], status: Status
) -> Finding:
    """The finding of a row, with its own words."""
    is_of_vendor = bug.cause == "vendor-lib-bug"
    message = case.matrix.causes.message(
        "vendor-lib-bug.vendor" if is_of_vendor else "torch-release-bug"
    )
    versions = known_values(case.facts).versions
    stated = tuple(
        Evidence(name, str(versions[name]), "the subject") for name in bug.when if name in versions
    )
    finding = Finding(
        code=message.code,
        cause=message.cause,
        status=status,
        title=bug.title,
        detail=bug.text,
        evidence=(*line_evidence(case, hits), *stated),
        remedy=Remedy(bug.fix, bug.command),
        source=bug.provenance.source,
        line=hits[0].line if hits else None,
    )
    return (
        finding
        if status is Status.FAIL
        else replace(finding, title=say("maybe: {cause}", cause=bug.title))
    )
