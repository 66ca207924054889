"""Finds the fields of ``collect_env`` reports in lines: names, values and what continues them."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from envguard.ingest.plain_text import is_blank
from envguard.ingest.report_part import MAX_PARTS
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

# Label as printed, in lower case -> short name here.
_LABELS = {
    "pytorch version": "torch",
    "is debug build": "debug",
    "cuda used to build pytorch": "cuda",
    "rocm used to build pytorch": "rocm",
    "xpu used to build pytorch": "xpu",
    "os": "os",
    "gcc version": "gcc",
    "clang version": "clang",
    "cmake version": "cmake",
    "libc version": "libc",
    "python version": "python",
    "python platform": "platform",
    "is cuda available": "available",
    "cuda runtime version": "nvcc",
    "cuda_module_loading set to": "loading",
    "gpu models and configuration": "gpus",
    "nvidia driver version": "driver",
    "cudnn version": "cudnn",
    "hip runtime version": "hip",
    "miopen runtime version": "miopen",
    "is xpu available": "has_xpu",
    "is xnnpack available": "xnnpack",
    "caching allocator config": "allocator",
    "architecture": "architecture",
    "vllm version": "vllm",
    "rocm version": "rocm_tool",
    "versions of relevant libraries": "libraries",
}
# Two of these make a report; other labels are common words.
_SIGNATURE = frozenset(
    {"torch", "debug", "cuda", "rocm", "available", "nvcc", "gpus", "driver", "libraries"}
)
_MAX_LABEL = 60
_MAX_CONTINUATION = 1200
_STARTS = ("collecting environment information",)
_BULLETS = " \t-*•|_"
_PACKAGE = re.compile(r"[ \t]*\[(pip3?|conda|uv)\][ \t]+(\S.*)")
_VARIABLE = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Z][A-Z0-9_]{1,60})=(.*)")
_GPU_LINE = re.compile(r"[ \t]*(?:GPU[ \t]?[0-9]|MIG[ \t]+\S+[ \t]+Device)")
_NVML_LINE = re.compile(r"[ \t]*NVML library version")
_DRIVER_LINE = re.compile(r"[ \t]*[1-9][0-9]{2}(?:\.[0-9]+)+[ \t]*")


@dataclass(slots=True)
class Block:
    """The fields of one report.

    Args:
        line: Number of its first line.
        fields: Short name -> the value and the lines that continue it.
        packages: Tag (``pip3``, ``conda``) and text of each package line.
        variables: Environment variables that it lists.
        has_uv: It says that uv manages the environment.
    """

    line: int
    fields: dict[str, list[str]] = field(default_factory=dict)
    packages: list[tuple[str, str]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    has_uv: bool = False

    @property
    def is_report(self) -> bool:
        """Whether enough of the fields are there."""
        return len(self.fields.keys() & _SIGNATURE) >= 2

    def text(self, name: str) -> str:
        """The value on the field's own line; empty when the report lacks the field."""
        return self.fields.get(name, [""])[0]


@dataclass(slots=True)
class _Reader:
    """Where the reading stands; labels before the report itself count only provisionally."""

    block: Block
    is_inside: bool = False
    provisional: set[str] = field(default_factory=set)
    open_field: str | None = None
    takes_names: bool = False
    finished: list[Block] = field(default_factory=list)

    def start(self, number: int) -> None:
        """Begin another report, unless the current one has no torch line yet."""
        if "torch" in self.block.fields and len(self.finished) < MAX_PARTS:
            self.finished.append(self.block)
            self.block = Block(number)
            self.provisional = set()
        self.is_inside = True
        self.open_field = None


def split_blocks(lines: Iterable[str]) -> tuple[Block, ...]:
    """The reports in a text, in order; words around them are passed over.

    A label that stands before the report (an issue form's own ``OS:``) is overruled by the
    report's, and one that follows it is passed over.

    Args:
        lines: Cleaned lines.
    """
    reader = _Reader(Block(0))
    for number, line in enumerate(lines):
        if is_blank(line):
            _close_at_blank(reader)
        elif line.strip().lower().startswith(_STARTS):
            reader.start(number)
        elif not (_take_package(reader, line) or _take_field(reader, number, line)):
            _take_other(reader, line)
    found = [*reader.finished, reader.block]
    return tuple(block for block in found if block.is_report)


def _close_at_blank(reader: _Reader) -> None:
    """A blank line ends a list, yet not before its first entry; words below are no names."""
    name = reader.open_field
    reader.takes_names = False
    if name is not None and any(text for text in reader.block.fields[name]):
        reader.open_field = None


def _take_package(reader: _Reader, line: str) -> bool:
    match = _PACKAGE.fullmatch(line)
    if match is None:
        return False
    reader.open_field = None
    reader.block.packages.append((match[1], match[2].rstrip()))
    return True


def _take_field(reader: _Reader, number: int, line: str) -> bool:
    label, colon, value = line[: _MAX_LABEL + 1].partition(":")
    name = _LABELS.get(label.strip(_BULLETS).lower())
    if not colon and line.strip().lower() == "versions of relevant libraries":
        name = "libraries"  # a section heading in vLLM's form
    if name is None:
        return False
    value = line.partition(":")[2].strip().strip("*").strip()
    if name == "torch" and "torch" in reader.block.fields:
        reader.start(number)
    if not reader.block.fields:
        reader.block.line = number
    reader.is_inside = reader.is_inside or name == "torch"
    _store(reader, name, value)
    return True


def _store(reader: _Reader, name: str, value: str) -> None:
    fields = reader.block.fields
    reader.open_field = None
    if name == "driver" and name in fields and reader.is_inside:
        fields[name].append(value)  # one line for each GPU
    elif name not in fields or name in reader.provisional:
        fields[name] = [value]
        reader.open_field = name if name in {"gpus", "driver"} else None
        reader.takes_names = value == ""
        reader.provisional.discard(name)
        if not reader.is_inside:
            reader.provisional.add(name)


def _take_other(reader: _Reader, line: str) -> None:
    """A line without a label: it continues a list, names a variable, or is passed over."""
    name = reader.open_field
    if name is not None:
        values = reader.block.fields[name]
        if _continues(reader, name, line) and len(values) < _MAX_CONTINUATION:
            values.append(line)
            return
        reader.open_field = None
    if match := _VARIABLE.fullmatch(line):
        reader.block.variables.setdefault(match[1], match[2].strip())
    elif line.strip() == "uv is set":
        reader.block.has_uv = True


def _continues(reader: _Reader, name: str, line: str) -> bool:
    if name == "driver":
        return _DRIVER_LINE.fullmatch(line) is not None
    if _GPU_LINE.match(line) or _NVML_LINE.match(line):
        return True
    # names without numbers stand directly below an empty value only
    return reader.takes_names and not line.lstrip().startswith(("=", "[", "GPU Topo", "GPU topo"))
