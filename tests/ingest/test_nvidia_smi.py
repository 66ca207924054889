"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.gaps import GapReason
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.ingest.detect import load_text
from tests.ingest.samples import load, report

if TYPE_CHECKING:
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu


MIB = 1024 * 1024


def gpus(facts: Facts) -> tuple[Gpu, ...]:
    assert facts.machine.gpus is not None
    return facts.machine.gpus


def test_oldest_table_has_no_cuda_field() -> None:
    facts = load("smi_331_table.txt")
    assert str(facts.machine.driver.version) == "331.62"
    assert [(g.index, g.name, g.memory_bytes) for g in gpus(facts)] == [
        (0, "GeForce GTX 680", 4095 * MIB),
        (1, "GeForce GTX 680", 4095 * MIB),
    ]
    gap = facts.gap("machine.driver.cuda")
    assert gap is not None
    assert gap.reason is GapReason.NOT_ASKED


def test_cut_names_keep_their_dots_and_have_a_gap() -> None:
    facts = load("smi_510_mig_table.txt")
    assert [g.name for g in gpus(facts)] == ["NVIDIA A100-SXM...", "NVIDIA A100-SXM..."]
    assert facts.machine.driver.cuda == CudaVersion(11, 6)
    gap = facts.gap("machine.gpus[1].name")
    assert gap is not None
    assert gap.reason is GapReason.UNREADABLE


def test_mig_rows_belong_to_their_gpu() -> None:
    first, second = gpus(load("smi_510_mig_table.txt"))
    assert first.mig_enabled is False
    assert first.mig_devices == ()
    assert second.mig_enabled is True
    assert [device.memory_bytes for device in second.mig_devices] == [19968 * MIB, 19968 * MIB]


def test_table_of_driver_550() -> None:
    facts = load("smi_550_table.txt")
    assert str(facts.machine.driver.version) == "550.127.05"
    assert facts.machine.driver.cuda == CudaVersion(12, 4)
    assert facts.machine.driver.is_loaded is True
    assert [(g.name, g.memory_bytes, g.pci_bus_id) for g in gpus(facts)] == [
        ("NVIDIA H100 80GB HBM3", 81559 * MIB, "00000000:4F:00.0"),
        ("NVIDIA H100 80GB HBM3", 81559 * MIB, "00000000:52:00.0"),
    ]


def test_table_of_driver_610_says_kmd_and_umd() -> None:
    facts = load("smi_610_table.txt")
    assert str(facts.machine.driver.version) == "610.43.02"
    assert facts.machine.driver.cuda == CudaVersion(13, 3)


def test_windows_table_states_the_driver_model_in_place_of_persistence() -> None:
    facts = load("smi_576_windows_table.txt")
    assert [g.name for g in gpus(facts)] == ["NVIDIA GeForce RTX 5090"]
    assert facts.gap("machine.gpus") is None


def test_err_in_the_banner_is_a_gap_and_the_tools_version_no_mismatch() -> None:
    facts = load("smi_545_wsl_table.txt")
    assert str(facts.machine.driver.version) == "546.80"
    assert facts.machine.driver.user_mode_version is None
    gap = facts.gap("machine.driver.cuda")
    assert gap is not None
    assert gap.reason is GapReason.ABSENT


def test_mismatch_is_said_for_driver_and_gpus() -> None:
    facts = load("smi_mismatch.txt")
    assert str(facts.machine.driver.user_mode_version) == "570.133"
    for fact in ("machine.driver.version", "machine.driver.cuda", "machine.gpus"):
        gap = facts.gap(fact)
        assert gap is not None
        assert gap.reason is GapReason.MISMATCH


def test_no_driver_is_absent() -> None:
    facts = load("smi_no_driver.txt")
    assert facts.machine.driver.is_loaded is False
    gap = facts.gap("machine.driver.version")
    assert gap is not None
    assert gap.reason is GapReason.ABSENT


def test_no_devices_is_known_to_be_none() -> None:
    facts = load("smi_no_devices.txt")
    assert facts.machine.gpus == ()
    assert facts.gap("machine.gpus") is None


def test_list_gives_uuids_and_mig_profiles() -> None:
    first, second = gpus(load("smi_list_mig.txt"))
    assert first.uuid == "GPU-7fdaf0a5-179b-f636-d15d-daf243e3ff16"
    assert [(d.uuid[:12], d.profile) for d in first.mig_devices] == [
        ("MIG-feb88891", "1g.10gb"),
        ("MIG-a25704ba", "1g.10gb"),
    ]
    assert second.mig_devices == ()


def test_list_completes_the_cut_names_of_a_table() -> None:
    text = report("smi_510_mig_table.txt") + "\n" + report("smi_list_mig.txt")
    facts = load_text(text, "x")
    assert [g.name for g in gpus(facts)] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert facts.gap("machine.gpus[0].name") is None
    assert gpus(facts)[0].memory_bytes == 81920 * MIB
    assert gpus(facts)[0].uuid == "GPU-7fdaf0a5-179b-f636-d15d-daf243e3ff16"


def test_complaint_of_another_program_is_none() -> None:
    text = report("smi_550_table.txt") + "\nRuntimeError: CUDA error: unknown error\n"
    assert load_text(text, "x").machine.gpus == load("smi_550_table.txt").machine.gpus


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
