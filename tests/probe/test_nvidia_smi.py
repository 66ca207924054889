"""nvidia-smi as a program: its two calls, its complaints, and when it is asked at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import GapReason
from envguard.facts.machine import Reading
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from envguard.probe import probe_machine
from envguard.probe.nvidia_smi import collect_nvidia_smi
from envguard.probe.start import start_nvidia_smi
from tests.stubs.machine import A100, GIB, StubMachine

if TYPE_CHECKING:
    from envguard.probe.answers import SourceAnswer

HEADER = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
"""
NEW_HEADER = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
"""
ROWS = """\
|   0  NVIDIA GeForce RTX 3080 ...    Off |   00000000:01:00.0 Off |                  N/A |
| N/A   40C    P0             15W /   80W |      14MiB /  16384MiB |      6%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA L4                      On  |   00000000:02:00.0 Off |                    0 |
| N/A   40C    P0             15W /   72W |      14MiB /  23034MiB |      6%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
CSV = """\
0, NVIDIA A100-SXM4-80GB, GPU-4d4d4d4d-aaaa, 580.95.05, 8.0, 81920, 00000000:07:00.0
1, NVIDIA GB10, GPU-5e5e5e5e-bbbb, 580.95.05, 12.1, [N/A], 0000000F:01:00.0
"""


def install(machine: StubMachine, table: str, csv: str, *, status: int = 0) -> None:
    machine.write("/table", table)
    machine.write("/csv", csv)
    machine.program(
        "nvidia-smi",
        f'case "$1" in --query-gpu=*) /bin/cat {machine.root}/csv;; '
        f"*) /bin/cat {machine.root}/table;; esac; exit {status}",
    )


def ask(machine: StubMachine, *, timeout_s: float = 20.0) -> SourceAnswer:
    children = start_nvidia_smi(machine.options(timeout_s=timeout_s))
    assert children is not None
    return collect_nvidia_smi(children)


@pytest.mark.parametrize(
    ("header", "driver", "cuda"),
    [(HEADER, "580.95.05", "13.0"), (NEW_HEADER, "610.43.02", "13.3")],
)
def test_old_and_new_headers_are_read(
    stub_machine: StubMachine, header: str, driver: str, cuda: str
) -> None:
    install(stub_machine, header + ROWS, CSV.replace("580.95.05", driver))
    said = ask(stub_machine)
    assert said.driver.version == DriverVersion.parse(driver)
    assert said.driver.cuda == CudaVersion.parse(cuda)
    assert said.driver.user_mode_version == DriverVersion.parse(driver)


def test_the_csv_lists_whole_names_and_uuids(stub_machine: StubMachine) -> None:
    install(stub_machine, HEADER, CSV)
    said = ask(stub_machine)
    assert said.gpus is not None
    first, second = said.gpus
    assert first.name == "NVIDIA A100-SXM4-80GB"
    assert first.uuid == "GPU-4d4d4d4d-aaaa"
    assert first.capability == ComputeCapability(8, 0)
    assert first.memory_bytes == 80 * GIB
    assert second.memory_bytes is None
    assert [gap.fact for gap in said.gaps] == ["machine.gpus[1].memory_bytes"]


def test_the_table_stands_in_for_a_csv_that_an_old_driver_refuses(
    stub_machine: StubMachine,
) -> None:
    install(stub_machine, HEADER + ROWS, 'Field "compute_cap" is not a valid field to query.\n')
    said = ask(stub_machine)
    assert said.driver.version == DriverVersion.parse("580.95.05")
    assert said.gpus is not None
    assert [gpu.name for gpu in said.gpus] == [None, "NVIDIA L4"]
    assert said.gpus[1].memory_bytes == 23034 * 1024**2
    assert "machine.gpus[0].name" in {gap.fact for gap in said.gaps}
    assert "machine.gpus[1].capability" in {gap.fact for gap in said.gaps}


COMPLAINTS = [
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
        "that the latest NVIDIA driver is installed and running.",
        GapReason.ABSENT,
    ),
    ("Failed to initialize NVML: Driver/library version mismatch", GapReason.MISMATCH),
    ("Failed to initialize NVML: Insufficient Permissions", GapReason.FORBIDDEN),
    ("Failed to initialize NVML: Unknown Error", GapReason.UNREADABLE),
    (
        "Unable to determine the device handle for GPU0000:65:00.0: Unknown Error",
        GapReason.UNREADABLE,
    ),
    (
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.",
        GapReason.ABSENT,
    ),
]


@pytest.mark.parametrize(("words", "reason"), COMPLAINTS)
def test_each_complaint_says_why(stub_machine: StubMachine, words: str, reason: GapReason) -> None:
    install(stub_machine, words + "\n", words + "\n", status=9)
    said = ask(stub_machine)
    assert said.gpus is None
    assert {(gap.fact, gap.reason, gap.detail) for gap in said.gaps} == {
        ("machine.driver.version", reason, words),
        ("machine.driver.cuda", reason, words),
        ("machine.gpus", reason, words),
    }


def test_no_devices_is_known_to_be_none(stub_machine: StubMachine) -> None:
    install(stub_machine, "No devices were found\n", "No devices were found\n", status=6)
    assert ask(stub_machine).gpus == ()


def test_a_cuda_version_that_is_an_error_is_unknown(stub_machine: StubMachine) -> None:
    install(stub_machine, HEADER.replace("13.0", "ERR!") + ROWS, CSV)
    said = ask(stub_machine)
    assert said.driver.cuda is None
    assert said.driver.version is not None
    assert [gap.fact for gap in said.gaps][:1] == ["machine.driver.cuda"]


def test_a_process_named_insufficient_permissions_is_no_complaint(
    stub_machine: StubMachine,
) -> None:
    row = "|    0   N/A  N/A      1752    C+G   Insufficient Permissions        N/A      |\n"
    install(stub_machine, HEADER.replace("13.0", "N/A") + ROWS + row, CSV)
    (gap, *_) = ask(stub_machine).gaps
    assert (gap.fact, gap.reason) == ("machine.driver.cuda", GapReason.UNREADABLE)


def test_a_hang_is_timed_out(stub_machine: StubMachine) -> None:
    stub_machine.program("nvidia-smi", "while :; do /bin/sleep 60; done")
    said = ask(stub_machine, timeout_s=1.0)
    assert {gap.reason for gap in said.gaps} == {GapReason.TIMED_OUT}


def test_a_crash_is_named(stub_machine: StubMachine) -> None:
    stub_machine.program("nvidia-smi", "kill -SEGV $$")
    said = ask(stub_machine)
    assert {gap.detail for gap in said.gaps} == {"nvidia-smi was ended by SIGSEGV"}


def test_without_the_program_nothing_is_started(stub_machine: StubMachine) -> None:
    assert start_nvidia_smi(stub_machine.options()) is None


def test_wsl_keeps_it_outside_path(stub_machine: StubMachine) -> None:
    script = stub_machine.write("/usr/lib/wsl/lib/nvidia-smi", f"#!/bin/sh\n/bin/cat <<E\n{CSV}E\n")
    script.chmod(0o755)
    said = ask(stub_machine)
    assert said.gpus is not None
    assert len(said.gpus) == 2


def test_it_is_not_asked_where_nvml_gave_a_full_answer(stub_machine: StubMachine) -> None:
    install(stub_machine, HEADER + ROWS, CSV)
    stub_machine.nvml(A100)
    machine, _ = probe_machine(stub_machine.options())
    assert "nvidia-smi" not in {reading.probe for reading in machine.readings}


def test_it_is_asked_with_all_sources(stub_machine: StubMachine) -> None:
    install(stub_machine, HEADER + ROWS, CSV)
    stub_machine.nvml(A100)
    machine, _ = probe_machine(stub_machine.options(all_sources=True))
    assert Reading("driver.version", "580.95.05", "nvidia-smi") in machine.readings
    assert machine.gpus is not None
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA A100-SXM4-40GB"]


def test_it_stands_in_where_nvml_failed(stub_machine: StubMachine) -> None:
    install(stub_machine, HEADER + ROWS, CSV)
    stub_machine.nvml(do={"nvmlInitWithFlags": "abort"})
    machine, gaps = probe_machine(stub_machine.options())
    assert machine.gpus is not None
    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA A100-SXM4-80GB", "NVIDIA GB10"]
    assert machine.driver.version == DriverVersion.parse("580.95.05")
    assert ("nvml", GapReason.CRASHED) in {(gap.probe, gap.reason) for gap in gaps}


def test_it_is_not_asked_where_nvml_hung(stub_machine: StubMachine) -> None:
    install(stub_machine, HEADER + ROWS, CSV)
    stub_machine.nvml(do={"nvmlInitWithFlags": "hang"})
    machine, _ = probe_machine(stub_machine.options(timeout_s=1.0))
    assert machine.gpus is None
    assert "nvidia-smi" not in {reading.probe for reading in machine.readings}


def test_its_absence_is_said_where_all_sources_were_asked_for(stub_machine: StubMachine) -> None:
    _, gaps = probe_machine(stub_machine.options(all_sources=True))
    words = {gap.detail for gap in gaps if gap.probe == "nvidia-smi"}
    assert words == {"nvidia-smi is not on PATH"}
