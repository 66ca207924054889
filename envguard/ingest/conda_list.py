"""``conda list`` and ``mamba list``: names, versions, and the builds that name CUDA."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
    label_of_version,
)
from envguard.facts.facts import Facts
from envguard.facts.versions import CudaVersion
from envguard.ingest.pip_list import build_of_metadata, normalise_name, sort_distributions
from envguard.ingest.report_part import ReportPart, version_or_none
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HEADING = re.compile(r"#? ?Name +Version +Build(?: +Channel)?")
_PREFACE = re.compile(
    r'(?:# packages in|List of packages in) environment(?: at)?:? ?"?([^":]+)"?:?'
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_PRIVATE = re.compile(r"_[A-Za-z0-9._-]{1,100}")  # _libgcc_mutex and its like hold nothing
_EXPORTED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]{0,100})=([^=\s]{1,60})=([^=\s]{1,100})")
_RULE = re.compile(r"[─━=-]{5,}")
# Conda's name for a Python distribution that has another one.
_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "torchtriton": "triton"}
_CUDA_BUILD = re.compile(r"cuda_?(?:([0-9]{1,2})\.([0-9]{1,2})|([0-9]{2})([0-9]))")


@dataclass(frozen=True, slots=True)
class CondaRow:
    """One row: the distribution, and conda's build string."""

    distribution: Distribution
    build: str


def parse_conda_list(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read the first list in a text, as ``conda list`` or ``conda list --export`` print it.

    Args:
        lines: Cleaned lines.

    Returns:
        One part, or none. Conda's libraries that are no Python distributions are listed too,
        under conda's names.
    """
    start = next((i for i, line in enumerate(lines) if _HEADING.fullmatch(_joined(line))), None)
    if start is None:
        return _parse_export(lines)
    rows: list[CondaRow] = []
    for line in lines[start + 1 :]:
        row = conda_row(line)
        if row is not None:
            rows.append(row)
        elif _PRIVATE.fullmatch(line.split()[0] if line.strip() else ""):
            continue
        elif rows or (line.strip() and not _RULE.fullmatch(line.strip())):
            break  # a rule or a blank line may stand between heading and rows
    return (_part(start, rows, _prefix(lines[max(0, start - 4) : start])),) if rows else ()


def _joined(line: str) -> str:
    return " ".join(line.split()) if len(line) < 200 else ""


def _prefix(lines: Iterable[str]) -> str | None:
    for line in lines:
        if match := _PREFACE.fullmatch(_joined(line)):
            return match[1].strip()
    return None


def _parse_export(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    start = 0
    rows: list[CondaRow] = []
    for number, line in enumerate(lines):
        match = _EXPORTED.fullmatch(line.strip())
        if match and (row := conda_row(" ".join(match.groups()))):
            start = start if rows else number
            rows.append(row)
    return (_part(start, rows, None),) if rows else ()


def conda_row(text: str) -> CondaRow | None:
    """Read ``pytorch  2.1.0  py3.10_cuda12.1_cudnn8.9.2_0  pytorch``.

    Returns:
        None for what is no row: a heading, a comment, words.
    """
    words = text.split() if len(text) < 400 else []
    if not 2 <= len(words) <= 5 or not _NAME.fullmatch(words[0]):
        return None
    version = version_or_none(words[1])
    if version is None and not words[1][:1].isdigit():
        return None
    build = words[2] if len(words) > 2 else ""
    is_pip = build.startswith("pypi") or (len(words) > 3 and words[3] == "pypi")
    name = normalise_name(words[0])
    distribution = Distribution(
        name=name if is_pip else _NAMES.get(name, name),
        version=version,
        installer="pip" if is_pip else "conda",
    )
    return CondaRow(distribution, build)


def torch_of_conda(texts: Iterable[str]) -> TorchBuild | None:
    """The torch build among rows that conda installed; None when there is none."""
    return _torch([row for text in texts if (row := conda_row(text))])


def _torch(rows: Sequence[CondaRow]) -> TorchBuild | None:
    row = next((row for row in rows if row.distribution.name == "torch"), None)
    if row is None:
        return None
    if row.distribution.installer == "pip":
        return build_of_metadata(row.distribution)
    accelerator, cuda = _of_build(row)
    return TorchBuild(row.distribution.version, accelerator, cuda, BuildOrigin.METADATA)


def python_name(name: str) -> str:
    """The name that Python knows one of conda's packages by."""
    return _NAMES.get(name, name)


def accelerator_of_build(build: str) -> tuple[Accelerator | None, CudaVersion | None]:
    """What ``py3.10_cuda12.1_cudnn8.9.2_0``, ``cuda118_py310h..`` or ``cpu_py39h..`` tell.

    Args:
        build: A build string, or a pattern of some; empty tells nothing.
    """
    if match := _CUDA_BUILD.search(build):
        major, minor = match[1] or match[3], match[2] or match[4]
        return Accelerator.CUDA, CudaVersion(int(major), int(minor))
    if re.search(r"(?:^|[_*])cpu(?:[_*]|$)", build):
        return Accelerator.CPU, None
    return None, None


def _of_build(row: CondaRow) -> tuple[Accelerator | None, CudaVersion | None]:
    found = accelerator_of_build(row.build)
    if found[0] is not None:
        return found
    label = label_of_version(row.distribution.version)
    return label.accelerator, label.cuda


def _part(line: int, rows: Sequence[CondaRow], prefix: str | None) -> ReportPart:
    python = next((r.distribution.version for r in rows if r.distribution.name == "python"), None)
    by_conda = any(row.distribution.installer == "conda" for row in rows)
    interpreter = Interpreter(version=python, prefix=prefix, is_conda=True)
    environment = Environment(
        interpreter=interpreter if by_conda else replace(interpreter, is_conda=None),
        distributions=sort_distributions(row.distribution for row in rows),
        torch=_torch(rows),
        manager=Manager.CONDA if by_conda else None,
    )
    return ReportPart(line, Facts(environment=environment), lists_all=True)
