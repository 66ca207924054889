"""NVML's answers, its failures, and how it can hang or crash."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import MigDevice, Reading
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from envguard.probe.child import ChildResult
from envguard.probe.nvml import collect_nvml, parse_nvml
from envguard.probe.start import start_nvml
from tests.stubs.machine import A100, GIB, T4, StubInstance, StubMachine

if TYPE_CHECKING:
    from envguard.probe.answers import SourceAnswer


def ask(machine: StubMachine, *, timeout_s: float = 20.0) -> SourceAnswer:
    return collect_nvml(start_nvml(machine.options(timeout_s=timeout_s)))


def gap_of(said: SourceAnswer, fact: str) -> Gap:
    (gap,) = [gap for gap in said.gaps if gap.fact == fact]
    return gap


def test_driver_and_gpus_are_read(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100, T4, driver="550.54.15", cuda=12040)
    said = ask(stub_machine)
    assert said.driver.version == DriverVersion.parse("550.54.15")
    assert said.driver.cuda == CudaVersion(12, 4)
    assert said.driver.user_mode_version == DriverVersion.parse("550.54.15")
    assert said.driver.is_loaded is True
    assert said.gaps == ()
    assert said.gpus is not None
    first, second = said.gpus
    assert (first.index, first.name) == (0, "NVIDIA A100-SXM4-40GB")
    assert first.capability == ComputeCapability(8, 0)
    assert first.memory_bytes == 40 * GIB
    assert first.uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert first.pci_bus_id == "00000000:07:00.0"
    assert first.is_virtual is False
    assert (second.index, second.name) == (1, "Tesla T4")
    assert second.capability == ComputeCapability(7, 5)


def test_every_word_of_nvml_becomes_a_reading(stub_machine: StubMachine) -> None:
    stub_machine.nvml(T4, driver="470.256.02", cuda=11040)
    said = ask(stub_machine)
    assert Reading("driver.version", "470.256.02", "nvml") in said.readings
    assert Reading("driver.cuda", "11.4", "nvml") in said.readings
    assert Reading("gpu.count", "1", "nvml") in said.readings
    assert Reading("gpu[0].capability", "7.5", "nvml") in said.readings
    assert Reading("gpu[0].memory_bytes", "16106127360", "nvml") in said.readings


def test_no_gpus_is_known_to_be_none(stub_machine: StubMachine) -> None:
    stub_machine.nvml()
    assert ask(stub_machine).gpus == ()


# Code, its name in nvml.h, and what it means for a reader.
INIT_CODES = [
    (1, "NVML_ERROR_UNINITIALIZED", GapReason.UNREADABLE),
    (2, "NVML_ERROR_INVALID_ARGUMENT", GapReason.UNREADABLE),
    (3, "NVML_ERROR_NOT_SUPPORTED", GapReason.ABSENT),
    (4, "NVML_ERROR_NO_PERMISSION", GapReason.FORBIDDEN),
    (5, "NVML_ERROR_ALREADY_INITIALIZED", GapReason.UNREADABLE),
    (6, "NVML_ERROR_NOT_FOUND", GapReason.ABSENT),
    (7, "NVML_ERROR_INSUFFICIENT_SIZE", GapReason.UNREADABLE),
    (8, "NVML_ERROR_INSUFFICIENT_POWER", GapReason.UNREADABLE),
    (9, "NVML_ERROR_DRIVER_NOT_LOADED", GapReason.ABSENT),
    (10, "NVML_ERROR_TIMEOUT", GapReason.TIMED_OUT),
    (11, "NVML_ERROR_IRQ_ISSUE", GapReason.UNREADABLE),
    (12, "NVML_ERROR_LIBRARY_NOT_FOUND", GapReason.ABSENT),
    (13, "NVML_ERROR_FUNCTION_NOT_FOUND", GapReason.ABSENT),
    (14, "NVML_ERROR_CORRUPTED_INFOROM", GapReason.UNREADABLE),
    (15, "NVML_ERROR_GPU_IS_LOST", GapReason.UNREADABLE),
    (16, "NVML_ERROR_RESET_REQUIRED", GapReason.UNREADABLE),
    (17, "NVML_ERROR_OPERATING_SYSTEM", GapReason.FORBIDDEN),
    (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", GapReason.MISMATCH),
    (19, "NVML_ERROR_IN_USE", GapReason.UNREADABLE),
    (20, "NVML_ERROR_MEMORY", GapReason.UNREADABLE),
    (21, "NVML_ERROR_NO_DATA", GapReason.ABSENT),
    (22, "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED", GapReason.ABSENT),
    (23, "NVML_ERROR_INSUFFICIENT_RESOURCES", GapReason.UNREADABLE),
    (24, "NVML_ERROR_FREQ_NOT_SUPPORTED", GapReason.ABSENT),
    (25, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", GapReason.MISMATCH),
    (26, "NVML_ERROR_DEPRECATED", GapReason.ABSENT),
    (27, "NVML_ERROR_NOT_READY", GapReason.UNREADABLE),
    (28, "NVML_ERROR_GPU_NOT_FOUND", GapReason.ABSENT),
    (29, "NVML_ERROR_INVALID_STATE", GapReason.UNREADABLE),
    (30, "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED", GapReason.ABSENT),
    (999, "NVML_ERROR_UNKNOWN", GapReason.UNREADABLE),
    (31, "NVML error 31", GapReason.UNREADABLE),
    (-3, "NVML error -3", GapReason.UNREADABLE),
]


@pytest.mark.parametrize(("code", "name", "reason"), INIT_CODES, ids=lambda v: str(v))
def test_each_code_of_a_failed_start_says_why(
    stub_machine: StubMachine, code: int, name: str, reason: GapReason
) -> None:
    stub_machine.nvml(A100, do={"nvmlInitWithFlags": str(code)})
    said = ask(stub_machine)
    assert said.gpus is None
    for fact in ("machine.driver.version", "machine.driver.cuda", "machine.gpus"):
        gap = gap_of(said, fact)
        assert gap.reason is reason
        assert gap.detail == name or gap.detail.startswith(f"{name}: ")


def test_a_driver_that_is_not_loaded_is_known_to_be_absent(stub_machine: StubMachine) -> None:
    stub_machine.nvml(do={"nvmlInitWithFlags": "9"})
    assert ask(stub_machine).driver.is_loaded is False


def test_a_library_of_another_release_leaves_the_driver_unknown(stub_machine: StubMachine) -> None:
    stub_machine.nvml(do={"nvmlInitWithFlags": "18"})
    said = ask(stub_machine)
    assert said.driver.is_loaded is None
    assert "different releases" in gap_of(said, "machine.gpus").detail


def test_a_missing_library_is_absent() -> None:
    words = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
    line = f"{{'kind': 'driver', 'errors': {{'library': 12}}, 'words': '{words}'}}\n"
    gap = gap_of(parse_nvml(ChildResult("python", 0, line)), "machine.gpus")
    assert gap.reason is GapReason.ABSENT
    assert gap.detail.startswith("NVML_ERROR_LIBRARY_NOT_FOUND: libnvidia-ml.so.1")


def test_a_library_that_is_no_library_is_unreadable(stub_machine: StubMachine) -> None:
    library = stub_machine.lib / "libnvidia-ml.so.1"
    library.unlink()
    library.write_bytes(b"\x7fELF, but not really a library at all" * 40)
    gap = gap_of(ask(stub_machine), "machine.gpus")
    assert gap.reason is GapReason.UNREADABLE
    assert "libnvidia-ml.so.1" in gap.detail


# What each call fails to give, when it fails for one GPU of two.
CALLS = [
    ("nvmlDeviceGetName", "name"),
    ("nvmlDeviceGetUUID", "uuid"),
    ("nvmlDeviceGetCudaComputeCapability", "capability"),
    ("nvmlDeviceGetMemoryInfo", "memory_bytes"),
    ("nvmlDeviceGetPciInfo_v3", "pci_bus_id"),
    ("nvmlDeviceGetVirtualizationMode", "is_virtual"),
    ("nvmlDeviceGetMigMode", "mig_enabled"),
]


@pytest.mark.parametrize(("function", "field"), CALLS)
def test_a_call_that_fails_for_one_gpu_leaves_only_that_field_unknown(
    stub_machine: StubMachine, function: str, field: str
) -> None:
    stub_machine.nvml(A100, T4, do={f"{function}:1": "999"})
    said = ask(stub_machine)
    assert said.gpus is not None
    assert getattr(said.gpus[0], field) is not None
    assert getattr(said.gpus[1], field) is None
    assert said.gaps == (
        Gap(
            f"machine.gpus[1].{field}",
            GapReason.UNREADABLE,
            "nvml",
            "NVML_ERROR_UNKNOWN: the driver gives no reason; often the device cgroup of a "
            "container was reloaded",
        ),
    )


@pytest.mark.parametrize(("function", "field"), CALLS)
def test_a_library_too_old_for_a_call_leaves_only_that_field_unknown(
    stub_machine: StubMachine, function: str, field: str
) -> None:
    stub_machine.nvml(A100, without=(function,))
    said = ask(stub_machine)
    assert said.gpus is not None
    assert getattr(said.gpus[0], field) is None
    gap = gap_of(said, f"machine.gpus[0].{field}")
    assert gap.reason is GapReason.ABSENT
    assert gap.detail.startswith("NVML_ERROR_FUNCTION_NOT_FOUND: ")
    assert len(said.gaps) == 1


def test_a_library_without_the_cuda_call_still_gives_driver_and_gpus(
    stub_machine: StubMachine,
) -> None:
    stub_machine.nvml(T4, driver="390.157", without=("nvmlSystemGetCudaDriverVersion_v2",))
    said = ask(stub_machine)
    assert said.driver.version == DriverVersion.parse("390.157")
    assert said.driver.cuda is None
    assert gap_of(said, "machine.driver.cuda").reason is GapReason.ABSENT
    assert said.gpus is not None
    assert said.gpus[0].name == "Tesla T4"


def test_a_lost_gpu_keeps_the_others(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100, T4, A100, do={"nvmlDeviceGetHandleByIndex_v2:1": "15"})
    said = ask(stub_machine)
    assert said.gpus is not None
    assert [gpu.name for gpu in said.gpus] == [A100.name, None, A100.name]
    assert gap_of(said, "machine.gpus[1]").detail == (
        "NVML_ERROR_GPU_IS_LOST: the GPU has fallen off the bus"
    )


def test_a_forbidden_gpu_keeps_the_others(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100, T4, do={"nvmlDeviceGetHandleByIndex_v2:0": "4"})
    said = ask(stub_machine)
    assert said.gpus is not None
    assert said.gpus[1].name == "Tesla T4"
    assert gap_of(said, "machine.gpus[0]").reason is GapReason.FORBIDDEN


def test_a_count_that_fails_is_not_no_gpus(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100, do={"nvmlDeviceGetCount_v2": "999"})
    said = ask(stub_machine)
    assert said.gpus is None
    assert said.driver.version is not None
    assert gap_of(said, "machine.gpus").reason is GapReason.UNREADABLE


def test_mig_instances_are_listed_with_their_profiles(stub_machine: StubMachine) -> None:
    small = StubInstance("MIG-aaaaaaaa-1111-2222-3333-444444444444")
    large = StubInstance(
        "MIG-bbbbbbbb-1111-2222-3333-444444444444",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        20 * GIB,
    )
    stub_machine.nvml(replace(A100, mig=True, instances=(small, large)))
    said = ask(stub_machine)
    assert said.gaps == ()
    assert said.gpus is not None
    assert said.gpus[0].mig_enabled is True
    assert said.gpus[0].mig_devices == (
        MigDevice("MIG-aaaaaaaa-1111-2222-3333-444444444444", "1g.5gb", 5 * GIB),
        MigDevice("MIG-bbbbbbbb-1111-2222-3333-444444444444", "3g.20gb", 20 * GIB),
    )


def test_mig_mode_without_instances_is_enabled_and_empty(stub_machine: StubMachine) -> None:
    stub_machine.nvml(replace(A100, mig=True))
    said = ask(stub_machine)
    assert said.gpus is not None
    assert (said.gpus[0].mig_enabled, said.gpus[0].mig_devices) == (True, ())


def test_a_gpu_that_cannot_do_mig_has_it_off_without_gap(stub_machine: StubMachine) -> None:
    stub_machine.nvml(replace(T4, mig=None))
    said = ask(stub_machine)
    assert said.gpus is not None
    assert said.gpus[0].mig_enabled is False
    assert said.gaps == ()


@pytest.mark.parametrize(
    ("mode", "is_virtual"), [(0, False), (1, False), (2, True), (3, False), (4, False)]
)
def test_only_a_guests_share_of_a_gpu_is_virtual(
    stub_machine: StubMachine, mode: int, is_virtual: bool
) -> None:
    stub_machine.nvml(replace(A100, virtualization=mode))
    said = ask(stub_machine)
    assert said.gpus is not None
    assert said.gpus[0].is_virtual is is_virtual


def test_a_gpu_without_memory_of_its_own_has_a_gap(stub_machine: StubMachine) -> None:
    stub_machine.nvml(replace(A100, name="NVIDIA GB10", capability="12.1", memory=None))
    said = ask(stub_machine)
    assert said.gpus is not None
    assert said.gpus[0].capability == ComputeCapability(12, 1)
    assert gap_of(said, "machine.gpus[0].memory_bytes").reason is GapReason.ABSENT


def test_numbers_out_of_range_are_a_gap(stub_machine: StubMachine) -> None:
    stub_machine.nvml(replace(A100, capability="-1.0"), cuda=2_000_000_000)
    said = ask(stub_machine)
    assert said.gpus is not None
    assert said.gpus[0].capability is None
    assert gap_of(said, "machine.gpus[0].capability").detail == "undecodable answer"
    assert said.driver.cuda is None
    assert gap_of(said, "machine.driver.cuda").detail == "it reports cuda 2000000000"


def test_a_name_that_is_no_text_is_a_gap(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100)
    script = stub_machine.folder / "libnvidia-ml.so.1.txt"
    script.write_bytes(script.read_bytes().replace(b"NVIDIA A100", b"NVIDIA \xff\xfe"))
    said = ask(stub_machine)
    assert gap_of(said, "machine.gpus[0].name").detail == "undecodable answer"


def test_a_hang_at_start_is_timed_out(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100, do={"nvmlInitWithFlags": "hang"})
    said = ask(stub_machine, timeout_s=1.0)
    gap = gap_of(said, "machine.gpus")
    assert gap.reason is GapReason.TIMED_OUT
    assert gap.detail.endswith("gave no answer within 1 s")


@pytest.mark.parametrize(("word", "signal"), [("segfault", "SIGSEGV"), ("abort", "SIGABRT")])
def test_a_crash_at_start_names_the_signal(
    stub_machine: StubMachine, word: str, signal: str
) -> None:
    stub_machine.nvml(A100, do={"nvmlInitWithFlags": word})
    gap = gap_of(ask(stub_machine), "machine.driver.version")
    assert gap.reason is GapReason.CRASHED
    assert gap.detail.endswith(f"was ended by {signal}")


@pytest.mark.parametrize(
    ("word", "reason"), [("segfault", GapReason.CRASHED), ("hang", GapReason.TIMED_OUT)]
)
def test_what_was_read_before_a_crash_or_hang_is_kept(
    stub_machine: StubMachine, word: str, reason: GapReason
) -> None:
    stub_machine.nvml(A100, T4, A100, do={"nvmlDeviceGetName:1": word})
    said = ask(stub_machine, timeout_s=2.0)
    assert said.driver.version == DriverVersion.parse("550.54.15")
    assert said.gpus is not None
    assert [gpu.name for gpu in said.gpus] == [A100.name, None, None]
    assert gap_of(said, "machine.gpus[1]").reason is reason
    assert gap_of(said, "machine.gpus[2]").reason is reason


def test_a_library_that_ends_the_process_is_a_gap(stub_machine: StubMachine) -> None:
    stub_machine.nvml(do={"nvmlInitWithFlags": "exit"})
    said = ask(stub_machine)
    assert said.gpus is None
    assert gap_of(said, "machine.gpus").reason is GapReason.UNREADABLE


def test_the_state_of_an_nvswitch_fabric_is_read(stub_machine: StubMachine) -> None:
    joined, waiting = replace(A100, fabric="3:0"), replace(A100, fabric="2:0")
    refused = replace(A100, fabric="3:999")
    stub_machine.nvml(joined, waiting, refused, A100)
    said = ask(stub_machine)
    states = [r for r in said.readings if "fabric" in r.fact]
    assert states == [
        Reading("gpu[0].fabric", "Completed", "nvml"),
        Reading("gpu[0].fabric_status", "Success", "nvml"),
        Reading("gpu[1].fabric", "In Progress", "nvml"),
        Reading("gpu[2].fabric", "Completed", "nvml"),
        Reading("gpu[2].fabric_status", "NVML_ERROR_UNKNOWN", "nvml"),
    ]
    assert said.gaps == ()


def test_a_driver_that_knows_no_fabric_leaves_no_gap(stub_machine: StubMachine) -> None:
    stub_machine.nvml(A100, without=("nvmlDeviceGetGpuFabricInfo",))
    said = ask(stub_machine)
    assert said.gaps == ()
    assert not [r for r in said.readings if "fabric" in r.fact]


@pytest.mark.parametrize(("licensed", "words"), [(True, "Licensed"), (False, "Unlicensed")])
def test_the_licence_of_a_vgpu_is_read(
    stub_machine: StubMachine, licensed: bool, words: str
) -> None:
    stub_machine.nvml(replace(A100, virtualization=2, licensed=licensed))
    assert Reading("gpu[0].licence", words, "nvml") in ask(stub_machine).readings


def test_a_passed_through_gpu_is_not_asked_for_a_licence(stub_machine: StubMachine) -> None:
    stub_machine.nvml(replace(A100, virtualization=1, licensed=False))
    assert not [r for r in ask(stub_machine).readings if "licence" in r.fact]
