"""Reads what ``nvidia-smi`` prints: its table, its CSV, its ``-L`` list and its complaints."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envguard.facts.gaps import GapReason
from envguard.facts.machine import Gpu, MigDevice
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIB = 1024 * 1024
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
_TOOL = re.compile(r"NVIDIA-SMI(?: version)?\s*:?\s+([0-9]+(?:\.[0-9]+)+)")
_NAME_ROW = re.compile(
    r"\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*\|"
    r"\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|N/A)\s"
)
_MEMORY_ROW = re.compile(r"\|\s*[^|]*\|\s*\d+\s*MiB\s*/\s*(\d+)\s*MiB\s*\|")
_MIG_ROW = re.compile(r"^\|[^|]*\|[^|]*\|\s*(Enabled|Disabled)\*?\s*\|\s*$")
_LISTED = re.compile(r"GPU\s+(\d+):\s+(.+?)\s*(?:\(UUID:\s*(\S+?)\))?\s*$")
_LISTED_MIG = re.compile(r"MIG\s+(\S+)\s+Device\s+\d+:\s*\(UUID:\s*(\S+?)\)")
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
        is_name_cut: Some names end in ``...``: the table cuts long ones.
    """

    driver: DriverVersion | None = None
    cuda: CudaVersion | None = None
    tool: DriverVersion | None = None
    gpus: tuple[Gpu, ...] | None = None
    complaint: Complaint | None = None
    is_name_cut: bool = False


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
    cut = any(gpu.name and gpu.name.endswith("...") for gpu in gpus or ())
    return SmiText(
        driver=_driver(_DRIVER.search(text)),
        cuda=_cuda(_CUDA.search(text)),
        tool=_driver(_TOOL.search(text)),
        gpus=None if gpus is None else tuple(_uncut(gpu) for gpu in gpus),
        complaint=complaint,
        is_name_cut=cut,
    )


def find_complaint(text: str) -> Complaint | None:
    """The first line that says that nvidia-smi failed, and why; None when none does."""
    for line in text.splitlines():
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
    for line in text.splitlines():
        row = _NAME_ROW.search(line)
        if row:
            bus = None if row[3] == "N/A" else row[3].upper()
            gpus.append(Gpu(int(row[1]), name=row[2], pci_bus_id=bus))
            continue
        if gpus and gpus[-1].memory_bytes is None and (row := _MEMORY_ROW.search(line)):
            gpus[-1] = replace(gpus[-1], memory_bytes=int(row[1]) * _MIB)
        elif gpus and gpus[-1].mig_enabled is None and (row := _MIG_ROW.match(line)):
            gpus[-1] = replace(gpus[-1], mig_enabled=row[1] == "Enabled")
        elif "Processes:" in line or "MIG devices:" in line:
            break
    return tuple(gpus) if gpus else None


def parse_nvidia_smi_csv(text: str) -> SmiText:
    """Read ``--query-gpu=<CSV_COLUMNS> --format=csv,noheader,nounits``.

    A column that this driver does not know makes nvidia-smi print an error for the whole
    query; then nothing is stated.

    Args:
        text: One line per GPU; memory in MiB. ``[N/A]`` and the like are not known.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    full = [row for row in rows if len(row) == len(CSV_COLUMNS) and row[0].isdecimal()]
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
        memory_bytes=int(memory) * _MIB if memory.isdecimal() else None,
        uuid=values.get("uuid"),
        pci_bus_id=values.get("pci.bus_id"),
    )


def parse_nvidia_smi_list(text: str) -> tuple[Gpu, ...]:
    """Read ``nvidia-smi -L``: names and UUIDs, with the MIG devices below each GPU."""
    gpus: list[Gpu] = []
    for line in text.splitlines():
        mig = _LISTED_MIG.search(line)
        if mig and gpus:
            devices = (*gpus[-1].mig_devices, MigDevice(mig[2], mig[1]))
            gpus[-1] = replace(gpus[-1], mig_devices=devices, mig_enabled=True)
        elif row := _LISTED.search(line):
            gpus.append(Gpu(int(row[1]), name=row[2], uuid=row[3]))
    return tuple(gpus)
