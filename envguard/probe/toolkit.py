"""The CUDA toolkit and compilers that building an extension would use."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Toolkit
from envguard.facts.sentences import say
from envguard.facts.variables import printable
from envguard.facts.versions import CudaVersion
from envguard.files import read_bounded, read_utf8
from envguard.probe.child import Child, ChildResult

if TYPE_CHECKING:
    from envguard.probe.probe_options import ProbeOptions

PROBE = "toolkit"
_MOST_BYTES = 4 * 1024 * 1024
_RELEASE = r"release ([0-9]{1,3}\.[0-9]{1,3})"
_VERSION_TEXT = r"CUDA Version ([0-9]{1,3}\.[0-9]{1,3})"
_DOTTED = r"[0-9]{1,9}(?:\.[0-9]{1,9})+"
_NVCC = "nvcc.exe" if sys.platform == "win32" else "nvcc"


class ToolkitProbe(NamedTuple):
    """A toolkit as far as files tell, and the children that tell the rest."""

    toolkit: Toolkit
    nvcc: Child | None = None
    gcc: Child | None = None
    ninja: Child | None = None
    gaps: tuple[Gap, ...] = ()


def start_toolkit(options: ProbeOptions) -> ToolkitProbe:
    """Find the toolkit; start nvcc only where no file states its version.

    The compilers are asked only with ``all_sources``: each costs a process, and only building
    needs them.
    """
    home = find_cuda_home(options)
    nvcc = _find_nvcc(home)
    if nvcc is None:
        looked = say("no nvcc in {folder}", folder=printable(home)) if home else ""
        detail = looked or "no CUDA_HOME, no nvcc on PATH"
        gap = Gap("machine.toolkit.nvcc", GapReason.ABSENT, PROBE, detail)
        toolkit = Toolkit(cuda_home=printable(home) if home else None)
        return _with_compilers(ToolkitProbe(toolkit, gaps=(gap,)), options)
    release = read_release(Path(nvcc).parent.parent)
    child = None if release else _start([nvcc, "--version"], options)
    toolkit = Toolkit(nvcc=release, nvcc_path=printable(nvcc), cuda_home=printable(home or ""))
    return _with_compilers(ToolkitProbe(toolkit, nvcc=child), options)


def _with_compilers(probe: ToolkitProbe, options: ProbeOptions) -> ToolkitProbe:
    if not options.all_sources:
        skipped = tuple(
            Gap(f"machine.toolkit.{name}", GapReason.NOT_ASKED, PROBE) for name in ("gcc", "ninja")
        )
        return probe._replace(gaps=(*probe.gaps, *skipped))
    compiler = options.environ.get("CXX") or "c++"
    return probe._replace(
        gcc=_start([*compiler.split(), "-dumpfullversion", "-dumpversion"], options),
        ninja=_start(["ninja", "--version"], options),
    )


def _start(argv: list[str], options: ProbeOptions) -> Child:
    program = options.which(argv[0]) or argv[0]
    return Child([program, *argv[1:]], environ=options.environ, timeout_s=options.timeout_s)


def find_cuda_home(options: ProbeOptions) -> str | None:
    """The toolkit folder, in the order in which torch's extension builder looks.

    ``CUDA_HOME``, ``CUDA_PATH``, the parent of the nvcc on PATH, then ``/usr/local/cuda``.
    A variable counts even where its folder does not exist: torch believes it too.

    Returns:
        The folder; None when none of these gives one.

    Source: torch/utils/cpp_extension.py, ``_find_cuda_home``.
    """
    stated = options.environ.get("CUDA_HOME") or options.environ.get("CUDA_PATH")
    if stated:
        return stated
    nvcc = options.which("nvcc")
    if nvcc is not None:
        return str(Path(nvcc).parent.parent)
    if sys.platform == "win32":
        return None
    usual = options.path("/usr/local/cuda")
    return str(usual) if usual.is_dir() else None


def _find_nvcc(home: str | None) -> str | None:
    """The nvcc that torch would call: the one below its CUDA_HOME, else none."""
    if home is None:
        return None
    path = Path(home) / "bin" / _NVCC
    return str(path) if os.access(path, os.X_OK) else None


def read_release(home: Path) -> CudaVersion | None:
    """The release of nvcc as the toolkit's own files state it, without running it.

    Args:
        home: The toolkit folder with ``version.json`` (from CUDA 11.1) or ``version.txt``.
    """
    return _json_release(home / "version.json") or _text_release(home / "version.txt")


def _json_release(path: Path) -> CudaVersion | None:
    try:
        document = json.loads(read_utf8(path, _MOST_BYTES))
    except (InputError, ValueError, RecursionError):
        return None
    for name in ("cuda_nvcc", "cuda"):
        entry = document.get(name) if isinstance(document, dict) else None
        version = entry.get("version") if isinstance(entry, dict) else None
        try:
            return CudaVersion.parse(version if isinstance(version, str) else "")
        except ValueError:
            continue
    return None


def _text_release(path: Path) -> CudaVersion | None:
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8", "replace")
        match = re.search(_VERSION_TEXT, text)
    except InputError:
        return None
    return CudaVersion.parse(match[1]) if match else None


def parse_nvcc_version(text: str) -> CudaVersion | None:
    """Read ``nvcc --version``: the number after ``release``; None when there is none."""
    match = re.search(_RELEASE, text)
    return CudaVersion.parse(match[1]) if match else None


def parse_dotted_version(text: str) -> Version | None:
    """The first dotted number of a compiler's or ninja's answer; None when there is none."""
    match = re.search(_DOTTED, text)
    try:
        return Version(match[0]) if match else None
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


def collect_toolkit(probe: ToolkitProbe) -> tuple[Toolkit, tuple[Gap, ...]]:
    """Wait for the children and complete the toolkit."""
    toolkit, gaps = probe.toolkit, list(probe.gaps)
    if probe.nvcc is not None:
        result = probe.nvcc.collect()
        toolkit = replace(toolkit, nvcc=parse_nvcc_version(result.stdout))
        gaps += _gaps_of("nvcc", result, toolkit.nvcc)
    if probe.gcc is not None:
        result = probe.gcc.collect()
        toolkit = replace(toolkit, gcc=parse_dotted_version(result.stdout))
        gaps += _gaps_of("gcc", result, toolkit.gcc)
    if probe.ninja is not None:
        result = probe.ninja.collect()
        toolkit = replace(toolkit, ninja=parse_dotted_version(result.stdout))
        gaps += _gaps_of("ninja", result, toolkit.ninja)
    return toolkit, tuple(gaps)


def _gaps_of(name: str, result: ChildResult, value: object) -> list[Gap]:
    if value is not None:
        return []
    reason = result.reason or GapReason.UNREADABLE
    detail = result.detail or say(
        "{program} says: {last_words}", program=result.program, last_words=result.last_words[:200]
    )
    return [Gap(f"machine.toolkit.{name}", reason, PROBE, detail)]
