"""DeepSpeed's ``ds_report``: torch, toolkit, DeepSpeed itself and the size of /dev/shm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Distribution,
    Environment,
    TorchBuild,
    label_of_version,
)
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Limits, Machine, Toolkit
from envguard.ingest.pip_list import sort_distributions
from envguard.ingest.report_part import ReportPart, cuda_or_none, version_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.version import Version

SOURCE = "ds_report"
_LINE = re.compile(r"([a-z][a-z_ ()/.]{3,40}?) ?\.{2,60} ?(.*)")
_PATH = re.compile(r"\[?['\"]?([^'\"\[\]]{1,1000})")
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT]?B)")
_POWERS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}
_LABELS = frozenset(
    {
        "torch install path",
        "torch version",
        "torch cuda version",
        "torch hip version",
        "nvcc version",
        "deepspeed install path",
        "deepspeed info",
        "deepspeed wheel compiled w.",
        "shared memory (/dev/shm) size",
    }
)


def parse_ds_report(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read the first report in a text.

    Args:
        lines: Cleaned lines.

    Returns:
        One part, or none. ``nvcc version`` is the toolkit's, ``torch cuda version`` is what
        torch was built with.
    """
    fields: dict[str, str] = {}
    first = 0
    for number, line in enumerate(lines):
        if ".." not in line or len(line) > 1200:
            continue
        match = _LINE.fullmatch(" ".join(line.split()))
        label = match[1].strip() if match else ""
        if match and label in _LABELS and label not in fields:
            first = first if fields else number
            fields[label] = match[2].strip()
    if not {"torch version", "deepspeed info"} & fields.keys():
        return ()
    return (_part(first, fields),)


def _part(line: int, fields: Mapping[str, str]) -> ReportPart:
    torch = _torch(fields)
    listed = (("torch", _version(fields, "torch version")), ("deepspeed", _deepspeed(fields)))
    distributions = [Distribution(name, version) for name, version in listed if version]
    nvcc = cuda_or_none(fields.get("nvcc version", ""))
    machine = Machine(toolkit=Toolkit(nvcc=nvcc), limits=Limits(shm_bytes=_shm(fields)))
    detail = "ds_report names torch and deepspeed only"
    gaps = [Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail)]
    if nvcc is None and "nvcc version" in fields:
        words = fields["nvcc version"][:100]
        gaps.append(Gap("machine.toolkit.nvcc", GapReason.ABSENT, SOURCE, words))
    environment = Environment(distributions=sort_distributions(distributions), torch=torch)
    return ReportPart(line, Facts(machine, environment, tuple(gaps)))


def _version(fields: Mapping[str, str], label: str) -> Version | None:
    return version_or_none(fields.get(label, ""))


def _deepspeed(fields: Mapping[str, str]) -> Version | None:
    return version_or_none(fields.get("deepspeed info", "").partition(",")[0].strip())


def _torch(fields: Mapping[str, str]) -> TorchBuild | None:
    version = version_or_none(fields.get("torch version", ""))
    if version is None:
        return None
    cuda = cuda_or_none(fields.get("torch cuda version", ""))
    hip = fields.get("torch hip version", "None")
    label = label_of_version(version)
    if cuda is not None:
        accelerator: Accelerator | None = Accelerator.CUDA
    elif hip not in {"None", ""}:
        accelerator = Accelerator.ROCM
    elif fields.get("torch cuda version") == "None":
        accelerator = label.accelerator or Accelerator.CPU
    else:
        accelerator, cuda = label.accelerator, label.cuda
    path = _PATH.match(fields.get("torch install path", ""))
    return TorchBuild(
        version=version,
        accelerator=accelerator,
        cuda=cuda,
        origin=BuildOrigin.REPORT,
        location=path[1] if path else None,
    )


def _shm(fields: Mapping[str, str]) -> int | None:
    """The size of /dev/shm; DeepSpeed divides by 1024 and says KB, MB, GB."""
    match = _SIZE.match(fields.get("shared memory (/dev/shm) size", ""))
    return int(float(match[1]) * 1024 ** _POWERS[match[2]]) if match else None
