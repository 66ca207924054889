"""Reads what ``nvidia-smi`` prints: its table, its CSV, its ``-L`` list and its complaints."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.gaps import GapReason
from envguard.facts.machine import Gpu, MigDevice
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIB = 1024 * 1024
_MAX_ROW = 400  # tables are 80 to 100 characters wide
# The columns of CSV_QUERY, in this order.
CSV_COLUMNS = (
    "index",
    "name",
    "uuid",
    "driver_version",
    "compute_cap",
    "memory.total",
    "pci.bus_id",
)
_DRIVER = re.compile(r"(?:Driver|KMD) Version\s*:\s*([^\s|]+)")
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*([^\s|]+)")
_TOOL = re.compile(r"NVIDIA-SMI(?: version)?\s{0,20}:?\s{1,20}([0-9]+(?:\.[0-9]+)+)")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_NUMBER = re.compile(r"[0-9]{1,4}")
_MEBIBYTES = re.compile(r"[0-9]{1,9}")
_MODES = frozenset({"On", "Off", "N/A", "WDDM", "TCC", "MCDM", "ERR!"})
_MEMORY = re.compile(r"[0-9]{1,9}MiB/([0-9]{1,9})MiB")
_LISTED = re.compile(r"GPU ([0-9]{1,4}): (.+?) ?(?:\(UUID: ?([^\s()]+)\))?$")
_LISTED_MIG = re.compile(r"MIG (\S{1,40}) Device [0-9]{1,3}: ?\(UUID: ?([^\s()]+)\)")
_UNKNOWN = frozenset({"N/A", "[N/A]", "[NOT SUPPORTED]", "[UNKNOWN ERROR]", "ERR!", "[ERR!]", ""})

# What nvidia-smi says instead of an answer -> why; the first that occurs counts.
_COMPLAINTS = (
    ("driver/library version mismatch", GapReason.MISMATCH),
    ("couldn't communicate with the nvidia driver", GapReason.ABSENT),
    ("driver not loaded", GapReason.ABSENT),
    ("couldn't find libnvidia-ml", GapReason.ABSENT),
    ("nvml shared library not found", GapReason.ABSENT),
    ("no devices were found", GapReason.ABSENT),
    ("no devices found", GapReason.ABSENT),
    ("insufficient permissions", GapReason.FORBIDDEN),
    ("permission denied", GapReason.FORBIDDEN),
    ("gpu access blocked by the operating system", GapReason.FORBIDDEN),
    ("operating system has blocked", GapReason.FORBIDDEN),
    ("unable to determine the device handle", GapReason.UNREADABLE),
    ("gpu is lost", GapReason.UNREADABLE),
    ("failed to initialize nvml", GapReason.UNREADABLE),
    ("unknown error", GapReason.UNREADABLE),
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why nvidia-smi gave no answer, with its own words."""

    reason: GapReason
    words: str


@dataclass(frozen=True, slots=True)
class SmiText:
    """What one nvidia-smi text says; None is not stated or not known.

    Args:
        driver: Version of the kernel-mode driver (``Driver Version``, later ``KMD Version``).
        cuda: Newest CUDA of the user-mode driver (``CUDA Version``, ``CUDA UMD Version``).
        tool: Version of nvidia-smi, which comes with the user-mode libraries.
        gpus: The GPUs listed; empty when it says that there are none.
        complaint: What it says instead of an answer.
        cut_names: Indices of the GPUs whose name the table cut: it ended in ``...``.
    """

    driver: DriverVersion | None = None
    cuda: CudaVersion | None = None
    tool: DriverVersion | None = None
    gpus: tuple[Gpu, ...] | None = None
    complaint: Complaint | None = None
    cut_names: tuple[int, ...] = ()

    @property
    def is_name_cut(self) -> bool:
        """Whether some name is not whole."""
        return bool(self.cut_names)


def parse_nvidia_smi(text: str) -> SmiText:
    """Read the table that ``nvidia-smi`` prints without options; old and new headers.

    Names that the table cut (``Tesla V100-SXM2...``) lose the dots and are marked.

    Args:
        text: Whole output, possibly with other text around it.

    Returns:
        What it states; everything None when it is no nvidia-smi output.
    """
    gpus = _table_gpus(text)
    complaint = find_complaint(text)
    if gpus is None and complaint and "no devices" in complaint.words.lower():
        gpus = ()
    cut = tuple(g.index for g in gpus or () if g.name and g.name.endswith("..."))
    return SmiText(
        driver=_driver(_DRIVER.search(text)),
        cuda=_cuda(_CUDA.search(text)),
        tool=_driver(_TOOL.search(text)),
        gpus=None if gpus is None else tuple(_uncut(gpu) for gpu in gpus),
        complaint=complaint,
        cut_names=cut,
    )


def find_complaint(text: str) -> Complaint | None:
    """The first line that says that nvidia-smi failed, and why; None when none does.

    Rows of a table do not count: Windows lists processes as ``Insufficient Permissions``.
    """
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            continue
        low = line.lower()
        for words, reason in _COMPLAINTS:
            if words in low:
                return Complaint(reason, line.strip())
    return None


def _driver(match: re.Match[str] | None) -> DriverVersion | None:
    try:
        return DriverVersion.parse(match[1]) if match else None
    except ValueError:
        return None


def _cuda(match: re.Match[str] | None) -> CudaVersion | None:
    try:
        return CudaVersion.parse(match[1]) if match else None
    except ValueError:
        return None


def _uncut(gpu: Gpu) -> Gpu:
    if gpu.name is None or not gpu.name.endswith("..."):
        return gpu
    return replace(gpu, name=gpu.name.removesuffix("...").rstrip())


def _table_gpus(text: str) -> tuple[Gpu, ...] | None:
    """The GPUs of the table: a row with name and bus, one with memory, one with the MIG mode."""
    gpus: list[Gpu] = []
    has_mig_rows = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|", 6)][1:]
        if "Processes:" in line:
            break
        if "MIG devices:" in line:
            has_mig_rows = True
        elif len(cells) < 4 or len(line) > _MAX_ROW:
            continue
        elif has_mig_rows:
            _add_mig_row(gpus, cells)
        elif (gpu := _name_row(cells)) is not None:
            gpus.append(gpu)
        elif gpus:
            gpus[-1] = _with_row(gpus[-1], cells)
    return tuple(gpus) if gpus else None


def _name_row(cells: list[str]) -> Gpu | None:
    """``|   0  NVIDIA A40          On  |   00000000:4F:00.0 Off |                    0 |``."""
    words, bus = cells[0].split(), cells[1].partition(" ")[0]
    if len(words) < 3 or not _NUMBER.fullmatch(words[0]) or words[-1] not in _MODES:
        return None
    if not _BUS.fullmatch(bus) and bus != "N/A":
        return None
    text = " ".join(words[1:-1])
    name = text if _is_known(text) else None
    return Gpu(int(words[0]), name=name, pci_bus_id=None if bus == "N/A" else bus.upper())


def _with_row(gpu: Gpu, cells: list[str]) -> Gpu:
    """A GPU with what a row below its name states: total memory, or the MIG mode."""
    memory = _MEMORY.fullmatch("".join(cells[1].split()))
    if memory and gpu.memory_bytes is None:
        return replace(gpu, memory_bytes=int(memory[1]) * _MIB)
    mode = cells[2].removesuffix("*")
    if mode in {"Enabled", "Disabled"} and gpu.mig_enabled is None:
        return replace(gpu, mig_enabled=mode == "Enabled")
    return gpu


def _add_mig_row(gpus: list[Gpu], cells: list[str]) -> None:
    """``|  1    3   0   0  |  14366MiB / 19968MiB | ...``: the table names no UUID."""
    words = cells[0].split()
    memory = _MEMORY.match("".join(cells[1].split()))
    if len(words) != 4 or not memory or not all(_NUMBER.fullmatch(word) for word in words):
        return
    device = MigDevice("", memory_bytes=int(memory[1]) * _MIB)
    for position, gpu in enumerate(gpus):
        if gpu.index == int(words[0]):
            gpus[position] = replace(gpu, mig_devices=(*gpu.mig_devices, device))


def parse_nvidia_smi_csv(text: str) -> SmiText:
    """Read ``--query-gpu=<CSV_COLUMNS> --format=csv,noheader,nounits``.

    A column that this driver does not know makes nvidia-smi print an error for the whole
    query; then nothing is stated.

    Args:
        text: One line per GPU; memory in MiB. ``[N/A]`` and the like are not known.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    full = [row for row in rows if len(row) == len(CSV_COLUMNS) and _NUMBER.fullmatch(row[0])]
    complaint = find_complaint(text)
    if not full:
        none = complaint is not None and "no devices" in complaint.words.lower()
        return SmiText(gpus=() if none else None, complaint=complaint)
    drivers = {row[3] for row in full if _is_known(row[3])}
    return SmiText(
        driver=_first_driver(drivers),
        gpus=tuple(_csv_gpu(row) for row in full),
        complaint=complaint,
    )


def _is_known(cell: str) -> bool:
    return cell.upper() not in _UNKNOWN


def _first_driver(texts: Iterable[str]) -> DriverVersion | None:
    for text in texts:
        try:
            return DriverVersion.parse(text)
        except ValueError:
            continue
    return None


def _csv_gpu(row: list[str]) -> Gpu:
    values = {name: cell for name, cell in zip(CSV_COLUMNS, row, strict=True) if _is_known(cell)}
    try:
        capability = ComputeCapability.parse(values.get("compute_cap", ""))
    except ValueError:
        capability = None
    memory = values.get("memory.total", "")
    return Gpu(
        index=int(row[0]),
        name=values.get("name"),
        capability=capability,
        memory_bytes=int(memory) * _MIB if _MEBIBYTES.fullmatch(memory) else None,
        uuid=values.get("uuid"),
        pci_bus_id=values.get("pci.bus_id"),
    )


def parse_nvidia_smi_list(text: str) -> tuple[Gpu, ...]:
    """Read ``nvidia-smi -L``: names and UUIDs, with the MIG devices below each GPU."""
    gpus: list[Gpu] = []
    for row_text in text.splitlines():
        line = " ".join(row_text.split()) if len(row_text) <= _MAX_ROW else ""
        mig = _LISTED_MIG.search(line)
        if mig and gpus:
            devices = (*gpus[-1].mig_devices, MigDevice(mig[2], mig[1]))
            gpus[-1] = replace(gpus[-1], mig_devices=devices, mig_enabled=True)
        elif row := _LISTED.search(line):
            gpus.append(Gpu(int(row[1]), name=row[2], uuid=row[3]))
    return tuple(gpus)
