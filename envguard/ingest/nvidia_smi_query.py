"""``nvidia-smi -q`` as text and as XML: two spellings of one tree."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason, read_driver, read_gpus
from envguard.facts.machine import Driver, Gpu, Machine, MigDevice, Reading
from envguard.facts.sentences import say
from envguard.ingest.report_part import (
    MAX_PARTS,
    ReportPart,
    cuda_or_none,
    driver_or_none,
    spans_of,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

QUERY = "nvidia-smi -q"
XML = "nvidia-smi -q -x"
_MAX_GPUS = 1024
_MAX_DEPTH = 64
_BANNER = "==============NVSMI LOG=============="
_GPU = re.compile(
    r"GPU ((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}[.:][0-9A-Fa-f]{1,2})"
)
_MEMORY = re.compile(r"([0-9]{1,9}) ?Mi?B")
_UNKNOWN = frozenset({"", "N/A", "None", "Not Found", "Unknown Error", "ERR!", "GPU is lost"})
# What is kept of a GPU's tree: path -> short name. XML spells it with underscores, the text
# with words; both are lowered to the same.
_KEPT = {
    "product_name": "name",
    "product_architecture": "architecture",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "fb_memory_usage/total": "memory",
    "memory_usage/total": "memory",
    "mig_mode/current": "mig",
    "mig_mode/current_mig": "mig",
    "gpu_virtualization_mode/virtualization_mode": "virtual",
    "vgpu_software_licensed_product/license_status": "licence",
    "grid_licensed_product/license_status": "licence",
    "fabric/state": "fabric",
    "fabric/status": "fabric_status",
}
_MIG_MEMORY = ("mig_device/fb_memory_usage/total", "mig_devices/mig_device/fb_memory_usage/total")
_DRIVER = ("kmd_version", "driver_version")
_CUDA = ("cuda_umd_version", "cuda_version")


@dataclass(slots=True)
class _Log:
    """One answer: top-level fields and a flat tree for each GPU."""

    top: dict[str, str] = field(default_factory=dict)
    gpus: list[dict[str, str]] = field(default_factory=list)
    migs: dict[int, list[int]] = field(default_factory=dict)

    def keep(self, path: str, value: str) -> None:
        """Take a value if it is one that is needed; the first of a name counts."""
        if not self.gpus:
            if "/" not in path and path in {*_DRIVER, *_CUDA, "attached_gpus"}:
                self.top.setdefault(path, value)
        elif path in _MIG_MEMORY:
            if match := _MEMORY.fullmatch(value):
                self.migs.setdefault(len(self.gpus) - 1, []).append(int(match[1]) * 1024**2)
        elif path in _KEPT:
            self.gpus[-1].setdefault(_KEPT[path], value)

    def start_gpu(self, bus: str) -> None:
        """Begin the next GPU."""
        if len(self.gpus) < _MAX_GPUS:
            self.gpus.append({"bus": bus})


def parse_smi_query(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read every ``nvidia-smi -q`` text among the lines.

    Args:
        lines: Cleaned lines; depth is told by indentation.
    """
    starts = [i for i, line in enumerate(lines) if _BANNER in line[:100]][:MAX_PARTS]
    spans = spans_of(starts, len(lines))
    logs = [(start, _read_text(lines[start + 1 : end])) for start, end in spans]
    return tuple(_part(start, log, QUERY) for start, log in logs if log.top or log.gpus)


def _read_text(lines: Iterable[str]) -> _Log:
    log = _Log()
    stack: list[tuple[int, str]] = []
    blanks = 0
    for line in lines:
        stripped = line.strip()[:300]
        blanks = 0 if stripped else blanks + 1
        if not stripped:
            continue
        if gpu := _GPU.fullmatch(stripped):
            log.start_gpu(gpu[1])
            stack = []
            continue
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        label, colon, value = stripped.partition(" : ")
        if not colon and " : " not in line and blanks == 0 and stripped.startswith(("|", "+", "$")):
            break  # another program's output
        key = "_".join(label.lower().replace(":", "").split())
        if colon:
            log.keep("/".join([*(name for _, name in stack), key]), value.strip())
        elif len(stack) < _MAX_DEPTH:
            stack.append((indent, key))
    return log


def find_xml(text: str) -> str | None:
    """The first ``<nvidia_smi_log>`` element of a text, prologue included; None without one."""
    start = text.find("<nvidia_smi_log>")
    if start < 0:
        return None
    prologue = text.rfind("<!DOCTYPE", max(0, start - 2000), start)
    end = text.find("</nvidia_smi_log>", start)
    stop = len(text) if end < 0 else end + len("</nvidia_smi_log>")
    return text[prologue if prologue >= 0 else start : stop]


def parse_smi_xml(text: str, where: str, line: int = 0) -> ReportPart:
    """Read ``nvidia-smi -q -x``.

    The external DTD that its DOCTYPE names is never fetched; a document that declares entities
    or anything else of its own is refused.

    Args:
        text: The document, from the DOCTYPE or the root element on.
        where: Name of the file, for messages.
        line: Number of its first line.

    Raises:
        InputError: Not well-formed, or with declarations that nvidia-smi does not write.
    """
    from xml.parsers import expat

    log = _Log()
    reader = _XmlReader(log, where)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.start_doctype
    parser.EntityDeclHandler = reader.refuse_entity
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    try:
        parser.Parse(text, True)
    except expat.ExpatError as err:
        place = f"{where}:{line + err.lineno}"
        raise InputError(f"{place}: not well-formed XML: {expat.ErrorString(err.code)}") from err
    return _part(line, log, XML)


class _XmlReader:
    """Follows the elements; keeps nothing but what the log keeps."""

    def __init__(self, log: _Log, where: str) -> None:
        self.log = log
        self.where = where
        self.path: list[str] = []
        self.text = ""

    def start_doctype(self, name: str, system: str | None, public: str | None, inner: int) -> None:
        """Nvidia-smi names its DTD and declares nothing inside."""
        if inner:
            raise InputError(f"{self.where}: the document type declares something of its own")

    def refuse_entity(self, name: str, *_: object) -> None:
        """Entities can grow without bound."""
        raise InputError(f"{self.where}: the document declares the entity {name[:40]!r}")

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        if len(self.path) >= _MAX_DEPTH:
            raise InputError(f"{self.where}: elements are nested deeper than {_MAX_DEPTH}")
        self.path.append(name)
        self.text = ""
        if self.path == ["nvidia_smi_log", "gpu"]:
            self.log.start_gpu(attributes.get("id", ""))

    def end(self, name: str) -> None:
        """An element ends: its text is a value if it held no element."""
        inner = self.path[2 if self.path[1:2] == ["gpu"] else 1 :]
        if inner:
            self.log.keep("/".join(inner), self.text.strip())
        self.path.pop()
        self.text = ""

    def characters(self, text: str) -> None:
        """A piece of text; values are short."""
        if len(self.text) < 300:
            self.text += text[:300]


def _part(line: int, log: _Log, source: str) -> ReportPart:
    driver_text = next((log.top[key] for key in _DRIVER if _has_number(log.top, key)), "")
    cuda_text = next((log.top[key] for key in _CUDA if _has_number(log.top, key)), "")
    version = driver_or_none(driver_text)
    driver = Driver(version=version, cuda=cuda_or_none(cuda_text), is_loaded=bool(version) or None)
    listed = [gpu for gpu in log.gpus if _known(gpu, "name") or _known(gpu, "uuid") or gpu["bus"]]
    gpus = tuple(_gpu(i, gpu, log.migs.get(i, [])) for i, gpu in enumerate(listed))
    is_none = log.top.get("attached_gpus") == "0"
    found = gpus if gpus or is_none else None
    gaps = () if found is not None else (_no_gpus(source),)
    if driver.cuda is None and version is not None:
        detail = say(
            "no libcuda answered (CUDA Version: {cuda})",
            cuda=log.top.get("cuda_version", "not stated"),
        )
        gaps = (*gaps, Gap("machine.driver.cuda", GapReason.ABSENT, source, detail))
    readings = read_driver(driver, source)
    if found is not None:
        readings += read_gpus(found, source) + _states(listed, source)
    return ReportPart(line, Facts(Machine(driver=driver, gpus=found, readings=readings), gaps=gaps))


def _has_number(top: Mapping[str, str], key: str) -> bool:
    return top.get(key, "")[:1].isdigit()


def _no_gpus(source: str) -> Gap:
    return Gap("machine.gpus", GapReason.UNREADABLE, source, "no GPU is listed")


def _known(gpu: Mapping[str, str], name: str) -> str | None:
    value = gpu.get(name, "")
    return None if value in _UNKNOWN else value


def _gpu(index: int, found: Mapping[str, str], migs: Sequence[int]) -> Gpu:
    memory = _MEMORY.fullmatch(found.get("memory", ""))
    mig, virtual = found.get("mig"), found.get("virtual", "")
    return Gpu(
        index=index,
        name=_known(found, "name"),
        memory_bytes=int(memory[1]) * 1024**2 if memory else None,
        uuid=_known(found, "uuid"),
        pci_bus_id=found["bus"].upper() or None,
        mig_enabled=None if mig is None else mig == "Enabled",
        mig_devices=tuple(MigDevice("", memory_bytes=size) for size in migs),
        is_virtual=None if not virtual else virtual.upper() == "VGPU",
    )


def _states(listed: Iterable[Mapping[str, str]], source: str) -> tuple[Reading, ...]:
    """States that a GPU value has no field for: vGPU licence, NVLink fabric, architecture."""
    names = ("architecture", "licence", "fabric", "fabric_status")
    return tuple(
        Reading(f"gpu[{index}].{name}", value, source)
        for index, gpu in enumerate(listed)
        for name in names
        if (value := _known(gpu, name))
    )
