"""Logs about code that a GPU lacks: torch's warnings since 1.0, lists, several GPUs, boards."""

from __future__ import annotations

import pytest

from envguard.facts.findings import Status
from tests.crash.logs import report_of
from tests.crash.rules.test_driver import STEP, hypotheses, stated

ERROR = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
TOO_OLD = "    PyTorch no longer supports this GPU because it is too old.\n"
OLD_WARNINGS = {
    "1.0, without a minimum": (
        "    Found GPU0 GeForce GTX 670M which is of cuda capability 2.1.\n"
        f"{TOO_OLD}\n  warnings.warn(old_gpu_warn % (d, name, major, capability[1]))\n"
    ),
    "1.5": (
        "    Found GPU0 GeForce GT 750M which is of cuda capability 3.0.\n"
        f"{TOO_OLD}    The minimum cuda capability that we support is 3.5.\n"
    ),
    "1.8, not filled in": (
        "    Found GPU%d %s which is of cuda capability %d.%d.\n"
        f"{TOO_OLD}    The minimum cuda capability supported by this library is %d.%d.\n"
    ),
    "1.9 and later": (
        "    Found GPU0 NVIDIA GTX TITAN Black which is of cuda capability 3.5.\n"
        f"{TOO_OLD}    The minimum cuda capability supported by this library is 3.7.\n"
    ),
    "2.7": (
        "    Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\n"
        f"{TOO_OLD}    The minimum cuda capability supported by this library is 7.5.\n"
    ),
    "2.9, a range": (
        "    Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\n"
        "    Minimum and Maximum cuda capability supported by this version of PyTorch is\n"
        "    (7.5) - (12.0)\n"
    ),
    "2.11 and later": (
        "UserWarning: Found GPU0 Tesla V100-PCIE-32GB which is of compute capability (CC) 7.0.\n"
        "The following list shows the CCs this version of PyTorch was built for and the hardware "
        "CCs it supports:\n"
        "- 7.5 which supports hardware CC >=7.5,<8.0\n"
        "- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}\n"
        "- 12.0 which supports hardware CC >=12.0,<13.0\n"
        "Your installed torch==2.13.0+cu130 does not include kernels for this GPU. Reinstall\n"
    ),
    "a list": (
        "NVIDIA GeForce GTX 1080 Ti with CUDA capability sm_61 is not compatible with the current "
        "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_75 sm_80 "
        "sm_86 sm_90 sm_100 sm_120 compute_120.\n"
    ),
    "the words of a program": (
        "GPU Tesla P40 (sm_61) is not supported by this PyTorch build. Supported architectures: "
        "sm_75, sm_80, sm_86, sm_90\n"
    ),
}


@pytest.mark.parametrize("name", OLD_WARNINGS)
def test_the_warning_about_an_old_gpu_in_each_form(name: str) -> None:
    assert report_of(OLD_WARNINGS[name]).root_cause == "arch-missing-old-gpu"
    assert report_of(OLD_WARNINGS[name] + ERROR).root_cause == "arch-missing-old-gpu"


@pytest.mark.parametrize("name", OLD_WARNINGS)
def test_a_run_that_trains_after_the_warning_did_not_fail_of_it(name: str) -> None:
    report = report_of(OLD_WARNINGS[name] + STEP)
    assert report.verdict is Status.WARN
    assert not [f for f in report.findings if f.status is Status.FAIL]


def test_the_warning_about_an_amd_gpu_means_nothing() -> None:
    text = (
        "    Found GPU0 Vega 10 XT [Radeon RX Vega 64] which is of cuda capability 3.0.\n"
        f"{TOO_OLD}    The minimum cuda capability that we support is 3.5.\n"
    )
    assert report_of(text, exit_code=0).verdict is Status.OK


NEW_WARNINGS = [
    "UserWarning: Found GPU0 NVIDIA B300 which is of compute capability (CC) 10.3.\n"
    "The following list shows the CCs this version of PyTorch was built for and the hardware "
    "CCs it supports:\n- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}\n"
    "- 9.0 which supports hardware CC >=9.0,<10.0\n",
    "NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible with the current "
    "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_60 "
    "sm_70 sm_75 sm_80 sm_86 sm_90.\n",
    "NVIDIA GeForce RTX 4090 with CUDA capability sm_89 is not compatible with the current "
    "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_37 sm_50 "
    "sm_60 sm_70.\n",
    f"PyTorch CUDA Arch List: ['sm_37', 'sm_50', 'sm_60', 'sm_70', 'sm_75']\n"
    f"PyTorch Current Device Capability: (8, 6)\n{ERROR}",
    "RuntimeError: NVIDIA H100 (sm_90) is not supported by this PyTorch build\n",
]


@pytest.mark.parametrize("text", NEW_WARNINGS)
def test_a_list_that_ends_below_the_gpu_is_of_an_older_build(text: str) -> None:
    assert report_of(text).root_cause == "arch-missing-new-gpu"


FALSE_ALARMS = [
    "GPU not supported by this PyTorch build\n"
    "NVIDIA GeForce RTX 4060 (sm_89) is not supported by this PyTorch build. Supported "
    "architectures: sm_61, sm_70, sm_75, sm_80, sm_86, sm_90, sm_100, sm_120.\nRunning on CPU\n",
    "torch.cuda.get_arch_list() :\n\nsm_50 sm_60 sm_61 sm_70 sm_75 sm_80 sm_86 sm_90\n\n"
    "WARNING: NVIDIA GeForce RTX 4080 is compute capability sm_89, but this install's PyTorch only "
    "has kernels for sm_50 sm_60 sm_61 sm_70 sm_75 sm_80 sm_86 sm_90. Generation will fail\n",
    "['sm_50', 'sm_60', 'sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_90']\n"
    "RTX 3080 Ti: sm_86 is not supported, falling back\n",
    "GPU NVIDIA GB10 (sm_121) not in the supported arch list ['sm_80', 'sm_90', 'sm_120']\n",
    "Tesla P40 (sm_61) is not supported by this build: it has sm_50, sm_60, sm_70\n",
]


@pytest.mark.parametrize("text", FALSE_ALARMS)
def test_a_listed_target_of_the_same_major_serves_the_gpu(text: str) -> None:
    report = report_of(text)
    assert report.verdict is Status.OK
    assert report.findings[0].cause == "arch-false-positive-warning"


def test_an_error_beside_a_list_that_serves_the_gpu_is_an_extensions() -> None:
    text = f"arch_list: ['sm_75', 'sm_80', 'sm_86', 'sm_90']\n{ERROR}"
    facts = stated("NVIDIA GeForce RTX 4090")
    assert report_of(text, facts=facts).root_cause == "extension-lacks-code-for-gpu"


def test_a_board_does_not_run_its_majors_code() -> None:
    text = f"arch_list: ['sm_80', 'sm_90', 'sm_100', 'sm_120']\n{ERROR}"
    facts = stated("Jetson AGX Orin", platform="linux-aarch64")
    assert report_of(text, facts=facts).root_cause == "jetson-needs-l4t-build"


def test_a_claim_without_a_list_is_not_believed_of_a_gpu_that_builds_serve_by_a_lower_minor() -> (
    None
):
    found = hypotheses("RTX 4060 (sm_89) is not supported by this PyTorch build\n")
    assert "wrong-install-active" in found


def test_several_gpus_of_which_one_has_no_code() -> None:
    text = "RuntimeError: parallel_for failed: cudaErrorNoKernelImageForDevice: no kernel image\n"
    kepler = stated("Tesla K80", "Tesla K40c", pins=("torch==1.3.1",))
    mixed = stated("Tesla P100-PCIE-16GB", "NVIDIA A100-SXM4-80GB")
    assert report_of(text, facts=kepler).root_cause == "mixed-gpus-arch"
    assert report_of(text, facts=mixed).root_cause == "mixed-gpus-arch"
    listed = f"arch_list: ['sm_75', 'sm_80']\n{text}"
    (found,) = [f for f in report_of(listed, facts=mixed).findings if f.status is Status.FAIL]
    assert found.cause == "mixed-gpus-arch"
    assert any("6.0 (Tesla P100-PCIE-16GB)" in item.value for item in found.evidence)


@pytest.mark.parametrize(
    "gpus",
    [("NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 3090"), ("Tesla P100-PCIE-16GB", "Tesla P40")],
)
def test_gpus_that_builds_serve_together_are_not_called_mixed(gpus: tuple[str, str]) -> None:
    assert report_of(ERROR, facts=stated(*gpus)).root_cause != "mixed-gpus-arch"


def test_a_package_that_is_made_for_newer_gpus_only() -> None:
    facts = stated(
        "Tesla P100-PCIE-16GB", pins=("torch==2.5.1+cu124", "vllm==0.7.3"), driver="550.90.07"
    )
    (found,) = [f for f in report_of(ERROR, facts=facts).findings if f.status is Status.FAIL]
    assert found.cause == "arch-missing-old-gpu"
    assert found.package == "vllm"


SYMBOL = "Error named symbol not found at line 233 in file /src/csrc/ops.cu\n"


def test_kernels_that_are_not_found_on_a_board_are_of_a_wheel_for_servers() -> None:
    facts = stated(
        "NVIDIA Jetson Orin Nano Super",
        pins=("torch==2.5.0a0+872d972e41.nv24.08", "bitsandbytes==0.46.1"),
        platform="linux-aarch64",
    )
    report = report_of(SYMBOL, facts=facts)
    assert report.root_cause == "jetson-needs-l4t-build"
    assert report_of(f"JetPack 6.2\n{SYMBOL}").root_cause == "jetson-needs-l4t-build"
    assert hypotheses(SYMBOL)[0] == "extension-lacks-code-for-gpu"


@pytest.mark.parametrize(
    "text",
    [
        "flash attention needs compute capability 8.0 or newer, using sdpa\n",
        "nvcc -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90\n",
        "TORCH_CUDA_ARCH_LIST=8.0;9.0\nsupported archs: sm_80 sm_90\n",
        "bf16 is not supported, using fp16\n",
    ],
)
def test_words_about_code_in_a_healthy_run(text: str) -> None:
    assert report_of(f"{text}{STEP}", exit_code=0).verdict is Status.OK
    assert report_of(text, exit_code=0).verdict is Status.OK
