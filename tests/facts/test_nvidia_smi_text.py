"""Texts of nvidia-smi from a dozen years: tables, CSV, lists and complaints."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.facts.gaps import GapReason
from envguard.facts.nvidia_smi_text import (
    SmiText,
    find_complaint,
    parse_nvidia_smi,
    parse_nvidia_smi_csv,
)
from envguard.facts.versions import ComputeCapability

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "nvidia_smi"
MIB = 1024**2


def sample(name: str) -> SmiText:
    return parse_nvidia_smi((SAMPLES / f"{name}.txt").read_text())


HEADERS = [
    ("r331-two-keplers", "331.89", None, "331.89"),
    ("r470-cut-names", "470.57.02", "11.4", "470.57.02"),
    ("r525-mig", "525.85.12", "12.0", "525.85.12"),
    ("r545-wsl-cuda-error", "546.33", None, "545.36"),
    ("r546-windows", "546.12", "12.3", "546.12"),
    ("r580-unified-memory", "580.95.05", "13.0", "580.95.05"),
    ("r610-two-blackwells", "610.43.02", "13.3", "610.43.02"),
]


@pytest.mark.parametrize(("name", "driver", "cuda", "tool"), HEADERS)
def test_headers_of_all_ages_are_read(name: str, driver: str, cuda: str | None, tool: str) -> None:
    text = sample(name)
    assert str(text.driver) == driver
    assert text.cuda is None if cuda is None else str(text.cuda) == cuda
    assert str(text.tool) == tool
    assert text.complaint is None


ROWS = [
    ("r331-two-keplers", 0, "Tesla K40m", "0000:02:00.0", 11519, None),
    ("r331-two-keplers", 1, "GeForce GTX 680", "0000:83:00.0", 4095, None),
    ("r525-mig", 0, "NVIDIA A40", "00000000:4F:00.0", 46068, None),
    ("r546-windows", 0, "NVIDIA GeForce RTX 4090", "00000000:01:00.0", 24564, None),
    ("r580-unified-memory", 0, "NVIDIA GB10", "0000000F:01:00.0", None, None),
    ("r610-two-blackwells", 0, "NVIDIA B200", "00000000:63:00.0", 183359, False),
    ("r610-two-blackwells", 1, "NVIDIA B200", "00000000:68:00.0", 183359, False),
]


@pytest.mark.parametrize(("name", "index", "gpu", "bus", "mebibytes", "mig"), ROWS)
def test_rows_of_all_ages_are_read(
    name: str, index: int, gpu: str, bus: str, mebibytes: int | None, mig: bool | None
) -> None:
    gpus = sample(name).gpus
    assert gpus is not None
    found = gpus[index]
    assert (found.index, found.name, found.pci_bus_id) == (index, gpu, bus)
    assert found.memory_bytes == (None if mebibytes is None else mebibytes * MIB)
    assert found.mig_enabled is mig


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("r331-two-keplers", ()),
        ("r470-cut-names", (0, 1)),
        ("r525-mig", (1,)),
        ("r545-wsl-cuda-error", (0,)),
    ],
)
def test_names_that_the_table_cut_are_marked(name: str, cut: tuple[int, ...]) -> None:
    assert sample(name).cut_names == cut


def test_mig_instances_belong_to_their_gpu() -> None:
    gpus = sample("r525-mig").gpus
    assert gpus is not None
    assert [gpu.mig_enabled for gpu in gpus] == [None, True]
    assert [len(gpu.mig_devices) for gpu in gpus] == [0, 2]
    assert {device.memory_bytes for device in gpus[1].mig_devices} == {19968 * MIB}


COMPLAINTS = [
    ("Failed to initialize NVML: Driver/library version mismatch", GapReason.MISMATCH),
    ("Failed to initialize NVML: Driver Not Loaded", GapReason.ABSENT),
    ("Failed to initialize NVML: Insufficient Permissions", GapReason.FORBIDDEN),
    ("Failed to initialize NVML: GPU access blocked by the operating system", GapReason.FORBIDDEN),
    ("Failed to initialize NVML: Unknown Error", GapReason.UNREADABLE),
    (
        "Unable to determine the device handle for GPU0000:65:00.0: GPU is lost",
        GapReason.UNREADABLE,
    ),
    ("bash: /usr/bin/nvidia-smi: Permission denied", GapReason.FORBIDDEN),
    ("No devices were found", GapReason.ABSENT),
]


@pytest.mark.parametrize(("line", "reason"), COMPLAINTS)
def test_complaints_say_why_in_their_own_words(line: str, reason: GapReason) -> None:
    complaint = find_complaint(f"Sun Nov 29 2026\n  {line}  \nNVML library version: 550.54\n")
    assert complaint is not None
    assert (complaint.reason, complaint.words) == (reason, line)


def test_no_devices_is_an_empty_list_and_another_complaint_none() -> None:
    assert parse_nvidia_smi("No devices were found\n").gpus == ()
    assert parse_nvidia_smi("Failed to initialize NVML: Unknown Error\n").gpus is None


@pytest.mark.parametrize("text", ["", "hello\n", "| a | b | c |\n", "Driver Version: later\n"])
def test_another_text_states_nothing(text: str) -> None:
    assert parse_nvidia_smi(text) == SmiText()


CSV = """\
0, Tesla T4, GPU-aaaa, 470.57.02, 7.5, 15109, 00000000:00:1E.0
1, [N/A], GPU-bbbb, [Not Supported], N/A, [Unknown Error], ERR!
"""


def test_csv_is_read_and_its_unknowns_stay_unknown() -> None:
    text = parse_nvidia_smi_csv(CSV)
    assert str(text.driver) == "470.57.02"
    assert text.gpus is not None
    first, second = text.gpus
    assert first.name == "Tesla T4"
    assert first.capability == ComputeCapability(7, 5)
    assert first.memory_bytes == 15109 * MIB
    assert first.pci_bus_id == "00000000:00:1E.0"
    assert second.uuid == "GPU-bbbb"
    unknown = (second.name, second.capability, second.memory_bytes, second.pci_bus_id)
    assert unknown == (None, None, None, None)


def test_a_refused_query_states_nothing() -> None:
    text = parse_nvidia_smi_csv('Field "compute_cap" is not a valid field to query.\n\n')
    assert text == SmiText()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(HEADERS), st.data())
def test_a_damaged_table_is_read_as_far_as_it_goes(
    header: tuple[str, str, str | None, str], data: st.DataObject
) -> None:
    text = (SAMPLES / f"{header[0]}.txt").read_text()
    at = data.draw(st.integers(0, len(text)))
    damaged = (
        text[:at] + data.draw(st.text(max_size=20)) + text[at + data.draw(st.integers(0, 200)) :]
    )
    parse_nvidia_smi(damaged)
    parse_nvidia_smi_csv(damaged)
