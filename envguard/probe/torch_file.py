"""Reads ``torch/version.py`` as text; torch is never imported."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from envguard.facts.environment import Accelerator, BuildOrigin, TorchBuild
from envguard.facts.torch_label import label_of_version
from envguard.facts.versions import CudaVersion

_ASSIGNMENT = re.compile(
    r"^(__version__|cuda|hip|xpu|git_version)\s*(?::[^=\n]+)?=\s*(.+?)\s*$", re.M
)


@dataclass(frozen=True, slots=True)
class VersionFile:
    """The assignments of ``torch/version.py``; None where a name is absent or None."""

    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None
    git_version: str | None = None
    names_cuda: bool = False


def parse_version_file(text: str) -> VersionFile:
    """Read the assignments of literals; anything computed is left out.

    Args:
        text: Whole file.
    """
    values: dict[str, object] = {}
    for name, expression in _ASSIGNMENT.findall(text):
        try:
            values[name] = ast.literal_eval(expression)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    words = {name: value for name, value in values.items() if isinstance(value, str)}
    return VersionFile(
        version=words.get("__version__"),
        cuda=words.get("cuda"),
        hip=words.get("hip"),
        xpu=words.get("xpu"),
        git_version=words.get("git_version"),
        names_cuda="cuda" in values,
    )


def build_of(found: VersionFile, location: str) -> TorchBuild | None:
    """The torch build that a version file describes.

    Args:
        found: The assignments.
        location: Folder of the package.

    Returns:
        The build; None when the file states no usable version.
    """
    try:
        version = Version(found.version or "")
    except InvalidVersion:
        return None
    try:
        cuda = CudaVersion.parse(found.cuda or "")
    except ValueError:
        cuda = None
    return TorchBuild(
        version=version,
        accelerator=_accelerator(found, version),
        cuda=cuda,
        origin=BuildOrigin.VERSION_FILE,
        git_version=found.git_version,
        location=location,
    )


def _accelerator(found: VersionFile, version: Version) -> Accelerator | None:
    if found.cuda:
        return Accelerator.CUDA
    if found.hip:
        return Accelerator.ROCM
    if found.xpu:
        return Accelerator.XPU
    if found.names_cuda:
        return Accelerator.CPU  # it states ``cuda = None``; MPS builds do so too
    return label_of_version(version).accelerator
