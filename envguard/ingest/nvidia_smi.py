"""What ``nvidia-smi`` prints without options, with ``-L``, and with ``--query-gpu``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason, read_driver, read_gpus
from envguard.facts.machine import Driver, Gpu, Machine
from envguard.facts.nvidia_smi_text import (
    SmiText,
    find_complaint,
    parse_nvidia_smi,
    parse_nvidia_smi_list,
)
from envguard.facts.sentences import say
from envguard.facts.versions import ComputeCapability, DriverVersion
from envguard.ingest.report_part import MAX_PARTS, ReportPart, driver_or_none, spans_of
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


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


def parse_smi_csv(lines: Sequence[str]) -> tuple[ReportPart, ...]:
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


def _part(line: int, rows: Sequence[_Row]) -> ReportPart:
    version = next((row.driver for row in rows if row.driver), None)
    driver = Driver(version=version, is_loaded=True if version else None)
    gpus = tuple(row.gpu for row in rows)
    readings = read_driver(driver, SOURCE) + read_gpus(gpus, SOURCE)
    return ReportPart(line, Facts(Machine(driver=driver, gpus=gpus, readings=readings)))


TABLE = "nvidia-smi"
LIST = "nvidia-smi -L"
_MAX_TABLE = 20_000
_MAX_ROW = 400
_BANNER = re.compile(r"\|\s{0,5}NVIDIA-SMI\s")
_LISTED = re.compile(r"\s*(?:GPU\s+[0-9]{1,4}:|MIG\s+\S+\s+Device\s).*\(UUID: ?[^()]+\)\s*$")
_LIBRARY = re.compile(r"NVML library version:? ([0-9.]{3,20})")
# Beginnings of the lines in which nvidia-smi says that it cannot answer; the same words
# elsewhere in a report are another program's.
_COMPLAINTS = (
    "failed to initialize nvml",
    "nvidia-smi has failed",
    "nvidia-smi couldn't find",
    "no devices were found",
    "no devices found",
    "unable to determine the device handle",
)
_MISSING = ("machine.driver.version", "machine.driver.cuda", "machine.gpus")


def parse_smi_tables(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read every ``nvidia-smi`` table in a text.

    Args:
        lines: Cleaned lines.

    Returns:
        One part for each table. A name that the table cut keeps its dots, with a gap.
    """
    starts = [i for i, line in enumerate(lines) if _BANNER.match(line.lstrip()[:80])][:MAX_PARTS]
    return tuple(
        _table_part(start, lines[start : min(end, start + _MAX_TABLE)])
        for start, end in spans_of(starts, len(lines))
    )


def _table_part(line: int, rows: Sequence[str]) -> ReportPart:
    text = "\n".join(row.strip() for row in rows if len(row) <= _MAX_ROW and "|" in row)
    has_cuda_field = "CUDA" in rows[0]  # before driver 410 the banner had none
    return _make_part(line, parse_nvidia_smi(text), TABLE, has_cuda_field=has_cuda_field)


def _make_part(line: int, said: SmiText, source: str, *, has_cuda_field: bool) -> ReportPart:
    # Under WSL the tool has a Linux version and the driver a Windows one; elsewhere a table
    # is only printed where both agree, so that a difference tells nothing of a mismatch.
    driver = Driver(
        version=said.driver,
        cuda=said.cuda,
        user_mode_version=said.tool if said.tool == said.driver else None,
        is_loaded=True if said.driver else None,
    )
    gpus = None if said.gpus is None else tuple(_with_dots(g, said) for g in said.gpus)
    gaps = [_cut(gpu, source) for gpu in gpus or () if gpu.index in said.cut_names]
    if said.cuda is None:
        detail = (
            "no libcuda answered" if has_cuda_field else "this nvidia-smi prints no CUDA version"
        )
        reason = GapReason.ABSENT if has_cuda_field else GapReason.NOT_ASKED
        gaps.append(Gap("machine.driver.cuda", reason, source, detail))
    if gpus is None:
        detail = "no GPU is listed"
        gaps.append(Gap("machine.gpus", GapReason.UNREADABLE, source, detail))
    readings = read_driver(driver, source) + (() if gpus is None else read_gpus(gpus, source))
    machine = Machine(driver=driver, gpus=gpus, readings=readings)
    return ReportPart(line, Facts(machine, gaps=tuple(gaps)))


def _with_dots(gpu: Gpu, said: SmiText) -> Gpu:
    return replace(gpu, name=f"{gpu.name}...") if gpu.index in said.cut_names else gpu


def _cut(gpu: Gpu, source: str) -> Gap:
    detail = say("the table cuts the name: {name}", name=gpu.name)
    return Gap(f"machine.gpus[{gpu.index}].name", GapReason.UNREADABLE, source, detail)


def parse_smi_lists(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read the ``nvidia-smi -L`` list of a text: the first, where it is repeated."""
    listed = [(i, line) for i, line in enumerate(lines) if _is_listed(line)]
    rows: list[str] = []
    seen: set[str] = set()
    for _, line in listed:
        number = line.split(":")[0].strip()
        if number in seen:
            break
        if number.startswith("GPU"):
            seen.add(number)
        rows.append(line)
    gpus = parse_nvidia_smi_list("\n".join(rows))
    if not gpus:
        return ()
    machine = Machine(gpus=gpus, readings=read_gpus(gpus, LIST))
    return (ReportPart(listed[0][0], Facts(machine)),)


def _is_listed(line: str) -> bool:
    return len(line) <= _MAX_ROW and "(UUID:" in line and _LISTED.match(line) is not None


def parse_smi_complaints(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read nvidia-smi's own word on why it cannot answer: gaps, or that there is no GPU."""
    for number, line in enumerate(lines):
        words = line.strip()[:_MAX_ROW]
        if words.lower().startswith(_COMPLAINTS):
            return (_complaint_part(number, words, lines[number + 1 : number + 3]),)
    return ()


def _complaint_part(number: int, words: str, following: Iterable[str]) -> ReportPart:
    complaint = find_complaint(words)
    library = _library(following)
    if complaint is not None and "no devices" in words.lower():
        return ReportPart(number, Facts(Machine(gpus=(), readings=read_gpus((), TABLE))))
    reason = complaint.reason if complaint else GapReason.UNREADABLE
    detail = (
        say("{message}; NVML library version: {library}", message=words, library=library)
        if library
        else words
    )
    if words.lower().startswith("unable to determine"):
        gaps: tuple[Gap, ...] = (Gap("machine.gpus", reason, TABLE, detail),)
    else:
        gaps = tuple(Gap(fact, reason, TABLE, detail) for fact in _MISSING)
    is_unloaded = "couldn't communicate" in words.lower()
    driver = Driver(user_mode_version=library, is_loaded=False if is_unloaded else None)
    return ReportPart(
        number, Facts(Machine(driver=driver, readings=read_driver(driver, TABLE)), None, gaps)
    )


def _library(lines: Iterable[str]) -> DriverVersion | None:
    match = _LIBRARY.search(" ".join(lines))
    return driver_or_none(match[1]) if match else None
