"""What a torch version's local label says about the build."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator
from envguard.facts.versions import Backend, CudaVersion

if TYPE_CHECKING:
    from packaging.version import Version

_INDEX_LABEL = re.compile(r"/(cu[0-9]{2,4}|cpu|rocm[0-9.]+|xpu)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Label:
    """The accelerator and CUDA that a label names; both None when it names neither."""

    accelerator: Accelerator | None = None
    cuda: CudaVersion | None = None


def parse_label(text: str) -> Label:
    """Read ``cu128``, ``cpu``, ``cpu.cxx11.abi``, ``cu118.with.pypi.cudnn``, ``rocm6.3``, ``xpu``.

    Returns:
        An empty label for anything else (``git1a2b3c``, ``nv24.5``).
    """
    head = text.lower().split(".")[0]
    if head.startswith("rocm"):
        return Label(Accelerator.ROCM)
    if head == "xpu":
        return Label(Accelerator.XPU)
    try:
        backend = Backend.parse(head)
    except ValueError:
        return Label()
    return Label(Accelerator.CUDA if backend.cuda else Accelerator.CPU, backend.cuda)


def label_of_version(version: Version | None) -> Label:
    """What the local part of a version says (``2.7.1+cu128``)."""
    return parse_label(version.local) if version is not None and version.local else Label()


def label_of_url(url: str) -> Label:
    """What an index or wheel URL of the PyTorch layout says (``.../whl/cu128/torch/...``)."""
    decoded = url.replace("%2B", "+").replace("%2b", "+")
    filename = decoded.rsplit("/", 1)[-1]
    if filename.endswith(".whl") and "+" in filename:
        found = parse_label(filename.split("+", 1)[1].split("-", 1)[0])
        if found.accelerator is not None:
            return found
    match = _INDEX_LABEL.search(decoded)
    return parse_label(match[1]) if match else Label()
