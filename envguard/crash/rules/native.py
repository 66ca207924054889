"""Crashes of native code whose place or cure is known, and bugs of releases."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.breaks import known_values
from envguard.conditions import bug_holds
from envguard.crash.cause_findings import RaisedHypothesis, line_evidence, make_finding
from envguard.crash.exits import SIGABRT, SIGBUS, SIGILL, SIGSEGV
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import fill, say
from envguard.matrix.file_owners import OwnerRole, OwnerRow
from envguard.signatures import SignatureMatch
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.causes import NativeBug


_OF_CUDA = re.compile(r"cuda|cudnn|tensorrt", re.IGNORECASE)

_FRAMES = ("n", "n5", "n9")
_DEEPEST = 8
_LIBRARIES = ("lib", "lib2", "lib3", "lib4", "lib5", "lib6", "lib7", "lib8", "lib9")
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


@dataclass(frozen=True, slots=True)
class CrashSite:
    """The foreign code in which a process crashed: compiled code that is not torch's own.

    Args:
        hit: The line that names it.
        package: Distribution, or what it is part of.
        place: The function or library, as the line names it.
        row: What the tables know of the package; None for nothing.
        module: Name to import it by; empty where it is none.
    """

    hit: SignatureMatch
    package: str
    place: str
    row: OwnerRow | None
    module: str


def crash_site(case: Case) -> CrashSite | None:
    """Where a process crashed, if that is in nobody's code of torch, Python or the system.

    Believed in this order: the kernel's line; the frames of a native backtrace nearest to the
    crash; the Python frame that called native code, from faulthandler.

    Returns:
        None where no process died in native code, and where nothing names such a place.
    """
    for hit in case.log.all("kernel-segfault", "kernel-trap"):
        if (site := _site_of_library(hit, case)) is not None:
            return site
    if case.signal not in _CRASHES:
        return None
    return _site_of_frames(case) or _site_of_python(case)


def _site_of_frames(case: Case) -> CrashSite | None:
    stop = case.log.first("debugger-signal", "caught-signal", "faulthandler-segv")
    frames = list(case.log.all("native-frame", "native-function"))
    after = [hit for hit in frames if stop is not None and hit.order >= stop.order]
    near = (hit for hit in after or frames if (hit.number(*_FRAMES) or 0) <= _DEEPEST)
    sites = (
        _site_of_function(hit, case) if hit.id == "native-function" else _site_of_library(hit, case)
        for hit in near
    )
    return next((site for site in sites if site is not None), None)


def _site_of_library(hit: SignatureMatch, case: Case) -> CrashSite | None:
    path = _path(hit)
    if not path or not _library(hit):
        return None
    row = case.matrix.owners.owner_of_file(path)
    if row is None and case.matrix.owners.library(path) is not None:
        return None  # a library of the system's
    if row is not None and row.role is not OwnerRole.FOREIGN:
        return None
    name = re.split(r"[/\\]", path)[-1]
    if row is None and not is_extension_name(name):
        return None
    package = case.matrix.owners.package_of_file(path) or name
    return CrashSite(hit, package, name, row, row.modules[0] if row and row.modules else "")


def is_extension_name(name: str) -> bool:
    """Whether the name of a file is that of a library, not of a program (``python3.11``)."""
    return re.search(r"\.(?:so|pyd|dll)\b", name) is not None


def _site_of_function(hit: SignatureMatch, case: Case) -> CrashSite | None:
    """A function of a namespace that is a package's: ``decord::VideoReader::NextFrame``."""
    function = hit.groups.get("function") or hit.groups["function2"]
    row = case.matrix.owners.owner(function.partition("::")[0])
    if row is None or row.role is not OwnerRole.FOREIGN:
        return None
    return CrashSite(hit, row.package, function, row, row.modules[0] if row.modules else "")


# Python's and torch's frames that only hand on to what they were asked to call.
_HANDS_ON = re.compile(
    r"<frozen |importlib|[/\\]ctypes[/\\]|[/\\](?:threading|concurrent|multiprocessing|runpy)"
    r"|torch[/\\](?:_ops|library|_library|autograd[/\\]function|utils[/\\](?:_contextlib|data))"
    r"|triton[/\\]runtime[/\\](?:jit|autotuner)"
)


def innermost_frame(case: Case) -> SignatureMatch | None:
    """The Python frame that called the native code in which the process crashed.

    Returns:
        Of the stack that faulthandler printed for the thread that crashed, the first frame that
        does not only hand on; None where there is no such stack.
    """
    fatal = case.log.first("faulthandler-segv")
    if fatal is None:
        return None
    stacks = [hit for hit in case.log.all("thread-stack") if hit.order > fatal.order]
    current = [hit for hit in stacks if "current" in hit.groups] or stacks
    if len(current) != 1:
        return None  # one of several threads: which is not told
    last = min((h.order for h in stacks if h.order > current[0].order), default=_NO_LINE)
    frames = [h for h in case.log.all("crash-frame") if current[0].order < h.order < last]
    return next((h for h in frames if not _HANDS_ON.search(h.groups["path"])), None)


_NO_LINE = sys.maxsize


def _site_of_python(case: Case) -> CrashSite | None:
    hit = innermost_frame(case)
    if hit is None:
        return None
    path = hit.groups["path"]
    package = case.matrix.owners.package_of_file(path)
    row = case.matrix.owners.owner_of_file(path)
    if not package or (row is not None and row.role is not OwnerRole.FOREIGN):
        return None
    module = re.split(r"(?:site|dist)-packages[/\\]", path)[-1]
    module = re.split(r"[/\\.]", module)[0]
    return CrashSite(hit, package, f"{module}.{hit.groups['function']}", row, module)


_OF_COLLECTIVES = re.compile(r"torch[/\\]distributed[/\\](?:distributed_c10d|c10d_logger)|nccl")


def is_in_collective(case: Case) -> bool:
    """Whether the innermost Python frame is one of torch's collectives, or of an NCCL binding."""
    hit = innermost_frame(case)
    return hit is not None and _OF_COLLECTIVES.search(hit.groups["path"]) is not None


def hypotheses_of_site(case: Case) -> Iterator[RaisedHypothesis]:
    """The package in whose native code it crashed, where the stack names one."""
    site = crash_site(case)
    if site is None:
        return
    found = case.facts.environment.distribution(site.package) if case.facts.environment else None
    version = found.version if found is not None else None
    torch = known_values(case.facts).versions.get("torch")
    values = {
        "package": site.package,
        "place": site.place,
        "version": say(" {version}", version=version) if version else "",
        "torch": say("torch {version}", version=torch) if torch else "this torch",
        "cure": say("; {cure}", cure=site.row.cure) if site.row and site.row.cure else "",
        "lines": (site.hit.id,),
        "command": ("python", "-X", "faulthandler", "-c", f"import {site.module}")
        if site.module
        else (),
    }
    is_built = site.row is not None and site.row.built_for_torch
    name = "extension-crash.for-torch" if is_built else "extension-crash.site"
    row = case.matrix.causes.message(name)
    message = replace(
        row, title=fill(row.title, values), detail=fill(row.detail, values), remedy=row.remedy
    )
    yield RaisedHypothesis(name, values, message)


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
