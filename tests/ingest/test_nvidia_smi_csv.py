from __future__ import annotations

from envguard.facts.versions import ComputeCapability
from envguard.ingest.detect import load_text
from tests.ingest.samples import load

MIB = 1024 * 1024


def test_heading_names_the_columns() -> None:
    machine = load("smi_csv.txt").machine
    assert str(machine.driver.version) == "570.195.03"
    first, second = machine.gpus or ()
    assert first.name == "NVIDIA L40S"
    assert first.capability == ComputeCapability(8, 9)
    assert first.memory_bytes == 46068 * MIB
    assert first.pci_bus_id == "00000000:17:00.0"
    assert first.mig_enabled is None
    assert second.index == 1


def test_command_line_names_the_columns() -> None:
    machine = load("smi_csv_by_command.txt").machine
    assert [(g.index, g.name, g.memory_bytes) for g in machine.gpus or ()] == [
        (0, "Tesla T4", 15360 * MIB),
        (1, "Tesla T4", 15360 * MIB),
    ]


def test_unknown_cells_are_not_known() -> None:
    heading = "name, compute_cap, memory.total [MiB]"
    rows = "[Unknown Error], [N/A], [Not Supported]\nT4, 7.5, 15360 MiB\n"
    machine = load_text(f"{heading}\n{rows}", "x").machine
    assert [(g.name, g.memory_bytes) for g in machine.gpus or ()] == [("T4", 15360 * MIB)]
