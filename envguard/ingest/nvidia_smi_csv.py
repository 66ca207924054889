"""``nvidia-smi --query-gpu=... --format=csv``: columns named by heading or command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.facts.facts import Facts
from envguard.facts.machine import Driver, Gpu, Machine
from envguard.facts.readings import read_driver, read_gpus
from envguard.facts.versions import ComputeCapability, DriverVersion
from envguard.ingest.part import Part, driver_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = "nvidia-smi --query-gpu"
_MAX_LINE = 2000
_MAX_GPUS = 1024
_COLUMN = re.compile(r"([a-z][a-z_]*(?:\.[a-z_0-9]+)*)(?: \[[^\[\]]{1,10}\])?")
_COMMAND = re.compile(r"--query-gpu[= ]([a-z_.,0-9]+)")
_NUMBER = re.compile(r"[0-9]{1,4}")
_MEMORY = re.compile(r"([0-9]{1,9})(?: (MiB|MB|GiB))?")
_UNITS = {None: 1024**2, "MiB": 1024**2, "MB": 1024**2, "GiB": 1024**3}
_UNKNOWN = ("N/A", "NOT SUPPORTED", "UNKNOWN ERROR", "ERR!", "INSUFFICIENT PERMISSIONS")
# One of these makes a line of names a heading of this query.
_TELLING = frozenset(
    {"name", "gpu_name", "uuid", "gpu_uuid", "driver_version", "compute_cap", "memory.total"}
)


@dataclass(frozen=True, slots=True)
class _Row:
    gpu: Gpu
    driver: DriverVersion | None


def parse_smi_csv(lines: Sequence[str]) -> tuple[Part, ...]:
    """Read the first such answer in a text.

    Args:
        lines: Cleaned lines.

    Returns:
        One part, or none. Cells such as ``[N/A]`` are not known.
    """
    for number, line in enumerate(lines):
        columns = _columns(line)
        if columns is None:
            continue
        rows = _rows(columns, lines[number + 1 : number + 2 + _MAX_GPUS])
        if rows:
            return (_part(number, rows),)
    return ()


def _columns(line: str) -> tuple[str, ...] | None:
    if len(line) > _MAX_LINE:
        return None
    if command := _COMMAND.search(line):
        return tuple(command[1].split(","))
    cells = [_COLUMN.fullmatch(cell.strip()) for cell in line.split(",")]
    names = tuple(cell[1] for cell in cells if cell)
    is_heading = len(names) == len(cells) and _TELLING & set(names)
    return names if is_heading and (len(names) > 1 or "," in line or names[0] != "name") else None


def _rows(columns: tuple[str, ...], lines: Sequence[str]) -> list[_Row]:
    rows: list[_Row] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")] if len(line) <= _MAX_LINE else []
        if len(cells) != len(columns) or not cells[0] or _columns(line) is not None:
            if rows or line.strip():
                break
            continue
        rows.append(_row(dict(zip(columns, cells, strict=True)), len(rows)))
    return [row for row in rows if row.gpu.name or row.gpu.uuid or row.driver]


def _row(cells: Mapping[str, str], position: int) -> _Row:
    known = {k: v for k, v in cells.items() if v.strip("[]").upper() not in _UNKNOWN}
    number = known.get("index", "")
    try:
        capability = ComputeCapability.parse(known.get("compute_cap", ""))
    except ValueError:
        capability = None
    mode = known.get("mig.mode.current")
    gpu = Gpu(
        index=int(number) if _NUMBER.fullmatch(number) else position,
        name=known.get("name") or known.get("gpu_name"),
        capability=capability,
        memory_bytes=_memory(known.get("memory.total", "")),
        uuid=known.get("uuid") or known.get("gpu_uuid"),
        pci_bus_id=known.get("pci.bus_id") or known.get("gpu_bus_id"),
        mig_enabled=None if mode is None else mode == "Enabled",
    )
    return _Row(gpu, driver_or_none(known.get("driver_version", "")))


def _memory(text: str) -> int | None:
    match = _MEMORY.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def _part(line: int, rows: Sequence[_Row]) -> Part:
    version = next((row.driver for row in rows if row.driver), None)
    driver = Driver(version=version, is_loaded=True if version else None)
    gpus = tuple(row.gpu for row in rows)
    readings = read_driver(driver, SOURCE) + read_gpus(gpus, SOURCE)
    return Part(line, Facts(Machine(driver=driver, gpus=gpus, readings=readings)))
