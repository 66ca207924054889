"""Reads ``torch/version.py`` as text; torch is never imported."""

from __future__ import annotations

import ast

from packaging.version import Version

from envguard.facts.environment import Accelerator, BuildOrigin, TorchBuild, label_of_version
from envguard.facts.versions import CudaVersion

_NAMES = frozenset({"__version__", "cuda", "hip", "xpu", "git_version"})


def parse_version_file(text: str) -> dict[str, str | None]:
    """Read the assignments of literals in ``torch/version.py``.

    Args:
        text: Whole file.

    Returns:
        ``__version__``, ``cuda``, ``hip``, ``xpu`` and ``git_version`` as far as the file
        assigns a string or None to them; anything computed is left out.
    """
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        target, _, expression = line.partition("=")
        name = target.partition(":")[0].rstrip()
        if name not in _NAMES:
            continue
        try:
            value = ast.literal_eval(expression.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue  # TypeError: {[]: 1}
        if isinstance(value, str):  # an escape can make half a character, which nothing can print
            found[name] = value.encode("utf-8", "replace").decode()
        elif value is None:
            found[name] = None
    return found


def build_of(found: dict[str, str | None], location: str) -> TorchBuild | None:
    """The torch build that a version file describes.

    Args:
        found: The assignments.
        location: Folder of the package.

    Returns:
        The build; None when the file states no usable version.
    """
    try:
        version = Version(found.get("__version__") or "")
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None
    try:
        cuda = CudaVersion.parse(found.get("cuda") or "")
    except ValueError:
        cuda = None
    return TorchBuild(
        version=version,
        accelerator=_accelerator(found, version),
        cuda=cuda,
        origin=BuildOrigin.VERSION_FILE,
        git_version=found.get("git_version"),
        location=location,
    )


def _accelerator(found: dict[str, str | None], version: Version) -> Accelerator | None:
    if found.get("cuda"):
        return Accelerator.CUDA
    if found.get("hip"):
        return Accelerator.ROCM
    if found.get("xpu"):
        return Accelerator.XPU
    if "cuda" in found:
        return Accelerator.CPU  # it states ``cuda = None``, as builds for MPS do too
    return label_of_version(version).accelerator
