from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.facts.environment import Accelerator, BuildOrigin, Manager
from envguard.facts.gaps import GapReason
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CudaVersion
from envguard.ingest.collect_env import gcc_version
from envguard.ingest.detect import load_text
from tests.ingest.samples import load

if TYPE_CHECKING:
    from envguard.facts.facts import Facts

LINUX = Platform(OperatingSystem.LINUX, "x86_64")
HEAD = "PyTorch version: 2.2.1+cu121\nIs debug build: False\nCUDA used to build PyTorch: 12.1\n"


def names(facts: Facts) -> list[str | None]:
    assert facts.machine.gpus is not None
    return [gpu.name for gpu in facts.machine.gpus]


def versions(facts: Facts) -> dict[str, str]:
    assert facts.environment is not None
    return {d.name: str(d.version) for d in facts.environment.distributions or ()}


def reason(facts: Facts, fact: str) -> GapReason | None:
    gap = facts.gap(fact)
    return gap.reason if gap else None


def test_first_form_lists_gpus_and_bracketed_packages() -> None:
    facts = load("collect_env_1_0_linux.txt")
    machine, environment = facts.machine, facts.environment
    assert environment is not None
    assert environment.torch is not None
    assert names(facts) == ["Tesla V100-SXM2-16GB"] * 4
    assert str(machine.driver.version) == "410.79"
    assert machine.toolkit.nvcc == CudaVersion(9, 0)
    assert str(machine.toolkit.gcc) == "5.4.0"
    assert environment.torch.version == Version("1.0.0")
    assert environment.torch.cuda == CudaVersion(10, 0)
    assert environment.torch.origin is BuildOrigin.REPORT
    assert environment.manager is Manager.CONDA
    assert versions(facts)["numpy"] == "1.15.4"
    assert environment.interpreter is not None
    assert environment.interpreter.version == Version("3.6")


def test_windows_10_with_nothing_of_python_collected() -> None:
    facts = load("collect_env_1_5_windows.txt")
    assert facts.environment is not None
    assert facts.machine.host.platform == Platform(OperatingSystem.WINDOWS, "x86_64")
    assert facts.machine.host.os_release == "Microsoft Windows 10 Home"
    assert names(facts) == ["Quadro P1000"]
    assert facts.environment.distributions is None
    assert reason(facts, "environment.distributions") is GapReason.UNREADABLE


def test_names_without_numbers_are_numbered_in_order() -> None:
    facts = load("collect_env_bare_names.txt")
    assert [(g.index, g.name) for g in facts.machine.gpus or ()] == [
        (0, "Tesla V100-SXM2-16GB"),
        (1, "Tesla V100-SXM2-16GB"),
    ]
    assert str(facts.machine.driver.version) == "450.80.02"
    assert facts.machine.host.os_release == "CentOS Linux release 7.9.2009 (Core)"


def test_conda_records_do_not_double_what_pip_lists() -> None:
    facts = load("collect_env_2_1_conda.txt")
    assert facts.environment is not None
    assert versions(facts) == {
        "blas": "1.0",
        "numpy": "1.26.0",
        "pytorch-cuda": "12.1",
        "torch": "2.1.0",
        "torchvision": "0.16.0",
        "triton": "2.1.0",
    }
    assert facts.environment.manager is Manager.CONDA
    assert facts.machine.host.kernel == "5.15.0-1037-aws"
    assert facts.machine.host.is_wsl is False
    assert facts.machine.host.glibc == Version("2.35")


def test_glibc_of_an_old_interpreter_is_only_a_bound() -> None:
    facts = load("collect_env_old_libc.txt")
    assert facts.machine.host.glibc is None
    gap = facts.gap("machine.host.glibc")
    assert gap is not None
    assert gap.reason is GapReason.UNREADABLE
    assert "2.10" in gap.detail


@pytest.mark.parametrize(
    ("python", "libc", "platform", "expected"),
    [
        ("3.8.10", "glibc-2.31", "Linux-5.4.0-x86_64-with-glibc2.29", "2.31"),
        ("3.9.7", "N/A", "Linux-5.4.0-x86_64-with-glibc2.31", "2.31"),
        ("3.8.10", "N/A", "Linux-5.4.0-x86_64-with-glibc2.29", None),
        ("3.12.1", "N/A", "Linux-6.1.0-x86_64-with-musl", None),
    ],
)
def test_glibc_is_taken_where_python_asks_the_library(
    python: str, libc: str, platform: str, expected: str | None
) -> None:
    text = f"{HEAD}Libc version: {libc}\nPython version: {python}\nPython platform: {platform}\n"
    glibc = load_text(text, "x").machine.host.glibc
    assert (str(glibc) if glibc else None) == expected


def test_wsl_is_told_by_its_kernel() -> None:
    facts = load("collect_env_wsl.txt")
    assert facts.machine.host.is_wsl is True
    assert facts.machine.host.platform == LINUX
    assert str(facts.machine.driver.version) == "551.88"
    assert facts.machine.toolkit.nvcc == CudaVersion(12, 4)


def test_tegra_is_told_by_its_kernel() -> None:
    text = f"{HEAD}Python platform: Linux-5.15.136-tegra-aarch64-with-glibc2.35\n"
    facts = load_text(text, "x")
    assert facts.machine.host.jetson == "NVIDIA Tegra"
    assert facts.machine.host.platform == Platform(OperatingSystem.LINUX, "aarch64")


def test_macos_is_a_cpu_build_with_a_reason_for_no_gpu() -> None:
    facts = load("collect_env_macos.txt")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.machine.host.platform == Platform(OperatingSystem.MACOS, "aarch64")
    assert facts.environment.torch.accelerator is Accelerator.CPU
    assert facts.machine.gpus is None
    assert reason(facts, "machine.gpus") is GapReason.ABSENT
    assert reason(facts, "machine.driver.version") is GapReason.ABSENT


def test_windows_11_states_its_processor_in_the_python_line() -> None:
    facts = load("collect_env_windows_11.txt")
    assert facts.environment is not None
    assert facts.environment.interpreter is not None
    assert facts.machine.host.platform == Platform(OperatingSystem.WINDOWS, "x86_64")
    assert names(facts) == ["NVIDIA GeForce RTX 5090"]
    assert facts.environment.interpreter.implementation == "cpython"
    assert facts.environment.interpreter.is_free_threaded is False


def test_rocm_build_is_told_and_its_gpu_is_not_taken_for_nvidia() -> None:
    facts = load("collect_env_rocm.txt")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.environment.torch.accelerator is Accelerator.ROCM
    assert facts.environment.torch.cuda is None
    assert facts.machine.gpus is None
    gap = facts.gap("machine.gpus")
    assert gap is not None
    assert gap.detail.startswith("not an NVIDIA GPU: AMD Instinct")


def test_could_not_collect_cuda_is_a_cpu_build_where_the_driver_answered() -> None:
    facts = load("collect_env_cpu_build_beside_gpu.txt")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.environment.torch.accelerator is Accelerator.CPU
    assert names(facts) == ["NVIDIA GeForce RTX 3090"]


def test_torch_that_cannot_be_imported_is_known_from_metadata() -> None:
    facts = load("collect_env_not_importable.txt")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert str(facts.environment.torch.version) == "2.4.0+cu121"
    assert facts.environment.torch.origin is BuildOrigin.METADATA
    assert reason(facts, "environment.torch.imported") is GapReason.ABSENT


def test_nvml_mismatch_in_place_of_the_gpus_is_a_mismatch() -> None:
    facts = load("collect_env_nvml_mismatch.txt")
    assert facts.machine.gpus is None
    assert facts.machine.driver.version is None
    assert str(facts.machine.driver.user_mode_version) == "570.133"
    for fact in ("machine.driver.version", "machine.gpus"):
        gap = facts.gap(fact)
        assert gap is not None
        assert gap.reason is GapReason.MISMATCH
        assert "Driver/library version mismatch" in gap.detail
        assert "570.133" in gap.detail


def test_mig_devices_stand_below_their_gpu() -> None:
    (gpu,) = load("collect_env_mig.txt").machine.gpus or ()
    assert gpu.mig_enabled is True
    assert [device.profile for device in gpu.mig_devices] == ["3g.40gb", "3g.40gb"]


def test_vllm_form_with_sections_topology_and_variables() -> None:
    facts = load("collect_env_vllm.txt")
    machine = facts.machine
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert str(facts.environment.torch.version) == "2.7.0+cu126"
    assert facts.environment.manager is Manager.UV
    assert versions(facts)["vllm"] == "0.9.2"
    assert str(machine.driver.version) == "535.54.03"
    assert machine.host.kernel == "4.18.0-240.el8.x86_64"
    assert machine.variable("LD_LIBRARY_PATH") == "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"
    assert machine.variable("NVIDIA_REQUIRE_CUDA") is not None
    assert machine.variable("HF_TOKEN") is None
    assert [gpu.is_visible for gpu in machine.gpus or ()] == [False, False, True, True]


def test_imported_torch_goes_before_metadata_which_are_kept() -> None:
    text = (
        f"{HEAD}Versions of relevant libraries:\n[pip3] torch==2.8.0\n[conda] Could not collect\n"
    )
    facts = load_text(text, "x")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert str(facts.environment.torch.version) == "2.2.1+cu121"
    assert versions(facts)["torch"] == "2.8.0"


def test_pip_and_conda_with_different_versions_are_both_kept_pip_first() -> None:
    text = f"{HEAD}[pip3] torch==2.8.0\n[conda] pytorch  2.2.1  py3.10_cuda12.1_0  pytorch\n"
    facts = load_text(text, "x")
    assert facts.environment is not None
    found = facts.environment.distributions or ()
    assert [(d.name, str(d.version), d.installer) for d in found] == [
        ("torch", "2.8.0", None),
        ("torch", "2.2.1", "conda"),
    ]


def test_nightly_keeps_its_label() -> None:
    text = HEAD.replace("2.2.1+cu121", "2.1.0.dev20230727+cu118").replace("12.1", "11.8")
    facts = load_text(text, "x")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert str(facts.environment.torch.version) == "2.1.0.dev20230727+cu118"
    assert facts.environment.torch.cuda == CudaVersion(11, 8)


def test_stated_cuda_is_authoritative_and_the_version_keeps_its_label() -> None:
    facts = load_text(HEAD.replace("12.1", "12.4"), "x")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.environment.torch.cuda == CudaVersion(12, 4)
    assert facts.environment.torch.version == Version("2.2.1+cu121")


def test_xpu_build_is_told_by_its_label() -> None:
    text = "PyTorch version: 2.8.0+xpu\nCUDA used to build PyTorch: None\n"
    facts = load_text(text, "x")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.environment.torch.accelerator is Accelerator.XPU


def test_labels_of_an_issue_form_do_not_overrule_the_report() -> None:
    form = " - OS: Linux\n - Python version: 3.8\n"
    own = f"{HEAD}OS: Ubuntu 22.04 LTS (x86_64)\nPython version: 3.10.12\n"
    facts = load_text(f"{form}{own}OS: windows 10 works\n", "x")
    assert facts.environment is not None
    assert facts.environment.interpreter is not None
    assert facts.environment.interpreter.version == Version("3.10.12")
    assert facts.machine.host.os_release == "Ubuntu 22.04 LTS"


def test_second_report_leaves_readings_only() -> None:
    first = f"{HEAD}Nvidia driver version: 535.104.05\n"
    second = f"{HEAD}Nvidia driver version: 470.82.01\n"
    facts = load_text(f"{first}\n{second}", "x")
    assert str(facts.machine.driver.version) == "535.104.05"
    readings = [r.value for r in facts.machine.readings if r.fact == "driver.version"]
    assert readings == ["535.104.05", "470.82.01"]


def test_prose_below_an_empty_list_is_no_gpu() -> None:
    text = f"{HEAD}GPU models and configuration: \n\nAny help is welcome\n"
    facts = load_text(text, "x")
    assert facts.machine.gpus is None
    assert reason(facts, "machine.gpus") is GapReason.UNREADABLE


def test_what_the_form_lacks_is_said_not_to_be_stated() -> None:
    facts = load_text(HEAD, "report.txt")
    for fact in ("machine.driver.version", "machine.driver.cuda", "machine.gpus"):
        gap = facts.gap(fact)
        assert gap is not None
        assert gap.reason is GapReason.NOT_ASKED
        assert "report.txt" in gap.detail


def test_availability_is_a_reading() -> None:
    facts = load("collect_env_1_0_linux.txt")
    assert ("torch.cuda.is_available", "True") in [
        (r.fact, r.value) for r in facts.machine.readings
    ]


def test_free_threaded_python_is_told() -> None:
    version = "3.13.5 experimental free-threading build (main, Jun 11 2025) [GCC 14.2.0]"
    facts = load_text(f"{HEAD}Python version: {version} (64-bit runtime)\n", "x")
    assert facts.environment is not None
    assert facts.environment.interpreter is not None
    assert facts.environment.interpreter.python_tag == "cp313t"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0", "9.4.0"),
        ("(GCC) 8.5.0 20210514 (Red Hat 8.5.0-10)", "8.5.0"),
        ("(conda-forge gcc 12.3.0-3) 12.3.0", "12.3.0"),
        ("(x86_64-posix-seh-rev0, Built by MinGW-W64 project) 8.1.0", "8.1.0"),
        ("(Debian 10.2.1-6) 10.2.1 20210110", "10.2.1"),
        ("9.3.0", "9.3.0"),
        ("(SUSE Linux 7.5.0", "7.5.0"),
        ("Could not collect", None),
    ],
)
def test_gcc_version_is_the_number_after_the_vendor(text: str, expected: str | None) -> None:
    version = gcc_version(text)
    assert (str(version) if version else None) == expected


def test_wsl_and_tegra_are_told_without_a_kernel_too() -> None:
    wsl = load_text(f"{HEAD}OS: Ubuntu 22.04 in WSL2 (x86_64)\n", "x").machine.host
    assert wsl.is_wsl is True
    tegra = load_text(f"{HEAD}GPU models and configuration: GPU 0: Orin (nvgpu)\n", "x").machine
    assert tegra.host.jetson == "NVIDIA Tegra"
