"""The driver and GPUs as ``nvidia-smi`` prints them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu
from envguard.facts.nvidia_smi_text import (
    SmiText,
    parse_nvidia_smi,
    parse_nvidia_smi_csv,
)
from envguard.facts.sentences import say
from envguard.probe.answers import SourceAnswer, read_driver, read_gpus

if TYPE_CHECKING:
    from envguard.probe.child import ChildResult
    from envguard.probe.start import SmiChildren

PROBE = "nvidia-smi"
_FIELDS = ("name", "capability", "memory_bytes", "uuid", "pci_bus_id")


def absent_nvidia_smi() -> SourceAnswer:
    """What is said where there is no nvidia-smi to ask."""
    return SourceAnswer(PROBE, gaps=_gaps(GapReason.ABSENT, "nvidia-smi is not on PATH"))


def collect_nvidia_smi(children: SmiChildren) -> SourceAnswer:
    """Wait for both calls and put them together; the CSV wins where both state a fact."""
    table_result, csv_result = children.table.collect(), children.csv.collect()
    table = parse_nvidia_smi(f"{table_result.stdout}\n{table_result.stderr}")
    csv = parse_nvidia_smi_csv(f"{csv_result.stdout}\n{csv_result.stderr}")
    driver = Driver(
        version=csv.driver or table.driver,
        cuda=table.cuda,
        user_mode_version=table.tool,
        is_loaded=True if csv.driver or table.driver else None,
    )
    gpus = csv.gpus if csv.gpus is not None else _whole_names(table)
    readings = read_driver(driver, PROBE) + (read_gpus(gpus, PROBE) if gpus is not None else ())
    gaps = _missing(table, table_result, driver.cuda is None, "machine.driver.cuda")
    gaps += _missing(csv, csv_result, driver.version is None, "machine.driver.version")
    gaps += _missing(csv, csv_result, gpus is None, "machine.gpus")
    return SourceAnswer(PROBE, driver, gpus, readings, (*gaps, *_field_gaps(gpus or ())))


def _whole_names(table: SmiText) -> tuple[Gpu, ...] | None:
    """The table's GPUs, without the names that it cut: the rest may be another product's name."""
    if table.gpus is None:
        return None
    return tuple(
        replace(gpu, name=None) if gpu.index in table.cut_names else gpu for gpu in table.gpus
    )


def _field_gaps(gpus: tuple[Gpu, ...]) -> tuple[Gap, ...]:
    detail = "nvidia-smi does not state it, or cuts it short"
    return tuple(
        Gap(f"machine.gpus[{gpu.index}].{name}", GapReason.UNREADABLE, PROBE, detail)
        for gpu in gpus
        for name in _FIELDS
        if getattr(gpu, name) is None
    )


def _gaps(reason: GapReason, detail: str) -> tuple[Gap, ...]:
    facts = ("machine.driver.version", "machine.driver.cuda", "machine.gpus")
    return tuple(Gap(fact, reason, PROBE, detail) for fact in facts)


def _missing(text: SmiText, result: ChildResult, is_missing: bool, fact: str) -> tuple[Gap, ...]:
    if not is_missing:
        return ()
    if result.reason is not None:
        return (Gap(fact, result.reason, PROBE, result.detail),)
    if text.complaint is not None:
        return (Gap(fact, text.complaint.reason, PROBE, text.complaint.words),)
    detail = say("its output does not state it (exit status {status})", status=result.status)
    return (Gap(fact, GapReason.UNREADABLE, PROBE, detail),)
