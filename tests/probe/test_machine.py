"""Everything together: precedence, disagreement, known absence, and the document's round trip."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pytest

from envguard.errors import InputError
from envguard.facts.facts import Facts, facts_document, parse_facts_document
from envguard.facts.gaps import GapReason
from envguard.facts.machine import KernelModule, Reading
from envguard.facts.versions import CudaVersion, DriverVersion
from envguard.probe import probe_facts, probe_machine, start_probe
from tests.probe.environments import StubEnvironment
from tests.stubs.machine import A100, T4, StubMachine

if TYPE_CHECKING:
    from pathlib import Path


VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.144.03  Release Build\n"
INFORMATION = "Model: \t {name}\nGPU UUID: \t {uuid}\nBus Location: \t {bus}\n"


def healthy(machine: StubMachine) -> StubMachine:
    """A machine with two different GPUs on which all sources agree."""
    machine.write("/proc/driver/nvidia/version", VERSION)
    for gpu in (A100, T4):
        bus = gpu.bus.removeprefix("0000").lower()
        text = INFORMATION.format(name=gpu.name, uuid=gpu.uuid, bus=bus)
        machine.write(f"/proc/driver/nvidia/gpus/{bus}/information", text)
        machine.write(f"/sys/bus/pci/devices/{bus}/vendor", "0x10de\n")
        machine.write(f"/sys/bus/pci/devices/{bus}/class", "0x030200\n")
    machine.write("/sys/module/nvidia/version", "550.144.03\n")
    machine.write("/proc/meminfo", "MemTotal: 1024 kB\n")
    machine.write("/etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.4 LTS"\n')
    (machine.root / "dev" / "shm").mkdir(parents=True)
    machine.nvml(A100, T4, driver="550.144.03", cuda=12040)
    machine.libcuda(cuda=12040, release="550.144.03")
    return machine


def words(readings: tuple[Reading, ...], fact: str) -> dict[str, str]:
    return {r.probe: r.value for r in readings if r.fact == fact}


def test_a_healthy_machine_has_gaps_only_for_what_was_not_asked(stub_machine: StubMachine) -> None:
    machine, gaps = probe_machine(healthy(stub_machine).options())
    assert machine.driver.version == DriverVersion.parse("550.144.03")
    assert machine.driver.user_mode_version == DriverVersion.parse("550.144.03")
    assert machine.driver.cuda == CudaVersion(12, 4)
    assert machine.driver.kernel_module is KernelModule.OPEN
    assert machine.driver.is_loaded is True
    assert machine.gpus is not None
    assert [gpu.name for gpu in machine.gpus] == [A100.name, T4.name]
    assert {(gap.fact, gap.reason) for gap in gaps} == {
        ("machine.toolkit.nvcc", GapReason.ABSENT),
        ("machine.toolkit.gcc", GapReason.NOT_ASKED),
        ("machine.toolkit.ninja", GapReason.NOT_ASKED),
    }


def test_every_source_keeps_its_own_word(stub_machine: StubMachine) -> None:
    machine, _ = probe_machine(healthy(stub_machine).options())
    version = "550.144.03"
    assert words(machine.readings, "driver.version") == {
        "procfs": version,
        "sysfs": version,
        "nvml": version,
    }
    assert words(machine.readings, "driver.cuda") == {"libcuda": "12.4", "nvml": "12.4"}
    assert words(machine.readings, "gpu.count") == {"nvml": "2", "pci": "2", "procfs": "2"}
    assert list(machine.readings) == sorted(
        machine.readings, key=lambda r: (r.fact, r.probe, r.value)
    )


def test_procfs_gpus_get_the_index_of_their_address(stub_machine: StubMachine) -> None:
    healthy(stub_machine)
    stub_machine.nvml(T4, driver="550.144.03")  # a container that was given the second GPU alone
    machine, _ = probe_machine(stub_machine.options())
    assert words(machine.readings, "gpu[0].name")["nvml"] == "Tesla T4"
    assert "Tesla T4" in {
        r.value for r in machine.readings if (r.fact, r.probe) == ("gpu[0].name", "procfs")
    }


def test_the_kernels_own_word_wins_over_the_librarys(stub_machine: StubMachine) -> None:
    healthy(stub_machine).nvml(A100, driver="535.104.05", cuda=12020)
    machine, _ = probe_machine(stub_machine.options())
    assert machine.driver.version == DriverVersion.parse("550.144.03")
    assert words(machine.readings, "driver.version")["nvml"] == "535.104.05"


def test_the_library_that_programs_load_wins_over_nvml(stub_machine: StubMachine) -> None:
    healthy(stub_machine).libcuda(cuda=13000, release="580.65.06")
    machine, _ = probe_machine(stub_machine.options())
    assert machine.driver.cuda == CudaVersion(13, 0)
    assert machine.driver.user_mode_version == DriverVersion.parse("580.65.06")
    assert words(machine.readings, "driver.cuda") == {"libcuda": "13.0", "nvml": "12.4"}


def test_nvmls_cuda_stands_in_for_a_crashed_libcuda(stub_machine: StubMachine) -> None:
    healthy(stub_machine).libcuda(do={"load": "segfault"})
    machine, gaps = probe_machine(stub_machine.options())
    assert machine.driver.cuda == CudaVersion(12, 4)
    assert ("libcuda", GapReason.CRASHED) in {(gap.probe, gap.reason) for gap in gaps}


def test_a_library_of_another_release_is_a_mismatch_and_the_kernel_still_known(
    stub_machine: StubMachine,
) -> None:
    healthy(stub_machine).nvml(do={"nvmlInitWithFlags": "18"})
    machine, gaps = probe_machine(stub_machine.options())
    assert machine.gpus is None
    assert machine.driver.version == DriverVersion.parse("550.144.03")
    assert machine.driver.is_loaded is True
    reasons = {gap.fact: gap.reason for gap in gaps if gap.probe == "nvml"}
    assert reasons["machine.gpus"] is GapReason.MISMATCH


def test_what_the_kernel_drives_is_not_what_a_container_may_use(
    stub_machine: StubMachine,
) -> None:
    healthy(stub_machine).nvml(do={"nvmlInitWithFlags": "12"})
    machine, gaps = probe_machine(stub_machine.options())
    assert machine.gpus is None
    assert words(machine.readings, "gpu.count") == {"pci": "2", "procfs": "2"}
    assert "machine.gpus" in {gap.fact for gap in gaps}


def test_no_driver_and_an_empty_bus_is_known_to_be_no_gpu(stub_machine: StubMachine) -> None:
    stub_machine.write("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n")
    stub_machine.write("/sys/module/ext4/refcnt", "1\n")
    machine, _ = probe_machine(stub_machine.options())
    assert machine.gpus == ()
    assert machine.driver.is_loaded is False


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sys/bus/pci/devices/0000:07:00.0/class", "0x030200\n"),  # a GPU without driver
        ("/dev/dxg", ""),  # WSL
        ("/proc/device-tree/model", "NVIDIA Jetson Orin Nano"),
    ],
)
def test_without_driver_but_with_a_way_to_have_a_gpu_nothing_is_known(
    stub_machine: StubMachine, path: str, text: str
) -> None:
    vendor = "0x10de" if path.endswith("class") else "0x8086"
    stub_machine.write("/sys/bus/pci/devices/0000:07:00.0/vendor", f"{vendor}\n")
    stub_machine.write(path, text)
    machine, gaps = probe_machine(stub_machine.options())
    assert machine.gpus is None
    assert "machine.gpus" in {gap.fact for gap in gaps}


def test_without_a_list_of_the_bus_nothing_is_known(stub_machine: StubMachine) -> None:
    machine, _ = probe_machine(stub_machine.options())
    assert machine.gpus is None


def test_visibility_follows_the_variable(stub_machine: StubMachine) -> None:
    healthy(stub_machine).environ |= {
        "CUDA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    machine, _ = probe_machine(stub_machine.options())
    assert [gpu.name for gpu in machine.selected_gpus] == ["Tesla T4"]
    assert machine.variable("CUDA_VISIBLE_DEVICES") == "1"


def test_children_that_were_started_before_are_used(stub_machine: StubMachine) -> None:
    options = healthy(stub_machine).options()
    started = start_probe(options)
    assert started.nvml.collect().status == 0
    stub_machine.nvml(do={"nvmlInitWithFlags": "abort"})  # too late for the child above
    machine, _ = probe_machine(options, started=started)
    assert "nvml" in {r.probe for r in machine.readings}


def test_a_facts_document_survives_the_round_trip(
    stub_machine: StubMachine, tmp_path: Path
) -> None:
    env = StubEnvironment(tmp_path / "env").make()
    env.install("torch", "2.7.1+cu128")
    env.install_torch()
    env.install("apex", "0.1-dev-build")
    healthy(stub_machine).environ["LD_LIBRARY_PATH"] += ":/lib/\udcff"
    facts = probe_facts(env.python, options=stub_machine.options(all_sources=True))
    document = json.dumps(facts_document(facts), ensure_ascii=False).encode("utf-8")
    assert parse_facts_document(json.loads(document), "facts.json") == facts
    assert facts.taken_at == "2026-11-29T00:00:00Z"


def test_facts_are_the_same_twice(stub_machine: StubMachine, tmp_path: Path) -> None:
    env = StubEnvironment(tmp_path / "env").make()
    env.install("numpy", "2.1.3")
    options = healthy(stub_machine).options()

    def settled(facts: Facts) -> Facts:
        limits = replace(facts.machine.limits, shm_bytes=None)
        return replace(facts, machine=replace(facts.machine, limits=limits))

    first = probe_facts(env.python, options=options)
    assert settled(probe_facts(env.python, options=options)) == settled(first)


def test_an_interpreter_that_does_not_exist_is_refused(stub_machine: StubMachine) -> None:
    stub_machine.nvml(do={"nvmlInitWithFlags": "hang"})
    with pytest.raises(InputError, match="does not exist"):
        probe_facts("/nowhere/python", options=stub_machine.options())
    running = [p.cmdline() for p in psutil.Process().children() if p.status() != "zombie"]
    assert not [argv for argv in running if "_nvml_child.py" in " ".join(argv)]


def test_everything_hanging_takes_one_time_limit_and_no_more(stub_machine: StubMachine) -> None:
    stub_machine.nvml(do={"nvmlInitWithFlags": "hang"})
    stub_machine.libcuda(do={"load": "hang"})
    home = stub_machine.folder / "cuda" / "bin"
    home.mkdir(parents=True)
    (home / "nvcc").write_text("#!/bin/sh\nwhile :; do /bin/sleep 60; done\n")
    (home / "nvcc").chmod(0o755)
    stub_machine.environ["CUDA_HOME"] = str(home.parent)
    _, gaps = probe_machine(stub_machine.options(timeout_s=1.5))
    late = {gap.probe for gap in gaps if gap.reason is GapReason.TIMED_OUT}
    assert late == {"nvml", "libcuda", "toolkit"}
