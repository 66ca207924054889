"""None"""

from __future__ import annotations

import pytest

from envguard.checks.pairing import (
    check_built_for_torch,
    check_companion_cuda,
    check_nvidia_packages,
)
from envguard.facts.environment import Manager
from tests.checks.beside import distribution, facts_of, findings, said

VISION = ("ABI001", "vision-torch-mismatch")
OTHER = ("ABI002", "abi-torch-version")


@pytest.mark.parametrize(
    ("torch", "package", "answer"),
    [
        ("2.8.0+cu128", "torchvision==0.21.0", (*VISION, "fail")),
        ("2.8.0+cu128", "torchvision==0.23.0", None),
        ("2.5.1+cu124", "torchvision==0.20.0", (*VISION, "warn")),  # another patch
        ("2.15.0", "torchvision==0.29.1", None),  # stable ABI, any later torch
        ("2.15.0", "torchvision==0.29.0", (*VISION, "warn")),  # stable ABI, exact requirement
        ("2.13.0", "torchvision==0.29.1", (*VISION, "fail")),  # older than it was built for
        ("2.9.1+cu128", "torchaudio==2.8.0", (*OTHER, "fail")),
        ("2.14.1", "torchaudio==2.11.0", None),
        ("2.8.0+cu128", "xformers==0.0.31.post1", (*OTHER, "fail")),
        ("2.13.0", "xformers==0.0.35", None),
        ("2.12.0", "vllm==0.22.0", (*OTHER, "fail")),
        ("2.15.0", "vllm==0.28.0", (*OTHER, "warn")),  # stable ABI, exact requirement
        ("2.6.0", "torchcodec==0.5", (*OTHER, "fail")),
        ("2.7.1", "torchcodec==0.5", None),
        ("2.9.1", "torchao==0.14.1", (*OTHER, "warn")),  # goes on in Python
        ("2.9.0", "torchao==0.14.1", None),
        ("2.9.0", "torchao==0.12.0", (*OTHER, "fail")),  # ends the process
        ("2.4.0+cu121", "torchtext==0.18.0", (*OTHER, "warn")),  # inferred
        ("2.9.0", "accelerate==1.10.0", None),
        ("2.1.0", "bitsandbytes==0.48.0", None),  # no link to libtorch
    ],
)
def test_compiled_packages_beside_torch(
    torch: str, package: str, answer: tuple[str, str, str] | None
) -> None:
    found = said(check_built_for_torch, facts_of(f"torch=={torch}", package))
    assert found == ([answer] if answer else [])


def test_the_remedy_is_the_release_for_this_torch_from_its_index() -> None:
    facts = facts_of("torch==2.8.0+cu128", "torchvision==0.21.0", manager=Manager.UV)
    (finding,) = findings(check_built_for_torch, facts)
    assert finding.remedy is not None
    assert finding.remedy.command == (
        *("uv", "pip", "install", "torchvision==0.23.0+cu128"),
        *("--index-url", "https://index.example/cu128"),
    )
    assert finding.source is not None
    assert "torchvision-0.21.0-" in finding.source.url


def test_pypi_builds_are_mended_from_the_default_index() -> None:
    (finding,) = findings(check_built_for_torch, facts_of("torch==2.8.0", "torchvision==0.21.0"))
    assert finding.remedy is not None
    assert finding.remedy.command[-1] == "torchvision==0.23.0"


def test_a_package_without_a_release_for_this_torch_says_what_it_wants() -> None:
    (finding,) = findings(check_built_for_torch, facts_of("torch==2.12.0", "vllm==0.6.3.post1"))
    assert finding.remedy is not None
    assert finding.remedy.command == ()
    assert "torch==2.4.0" in finding.remedy.text


def test_the_torch_that_is_imported_counts_and_not_the_one_in_the_metadata() -> None:
    facts = facts_of("torch==2.6.0+cu124", "torchvision==0.23.0")
    assert said(check_built_for_torch, facts) == [(*VISION, "fail")]


@pytest.mark.parametrize("torch", ["2.9.0.dev20250801+cu128", "2.6.0a0+ecf3bae40a.nv25.1"])
def test_nightlies_and_vendors_builds_are_not_judged(torch: str) -> None:
    assert said(check_built_for_torch, facts_of(f"torch=={torch}", "torchvision==0.21.0")) == []


def test_a_release_that_is_not_recorded_is_not_judged() -> None:
    facts = facts_of("torch==2.8.0+cu128", "torchvision==0.99.0", "vllm==99.0")
    assert said(check_built_for_torch, facts) == []


def test_other_vendors_builds_are_not_judged() -> None:
    facts = facts_of("torch==2.8.0+rocm6.4", "torchvision==0.21.0")
    assert said(check_built_for_torch, facts) == []


def test_a_finding_points_at_the_line_of_a_lockfile() -> None:
    vision = distribution("torchvision==0.21.0", line=42)
    (finding,) = findings(check_built_for_torch, facts_of("torch==2.8.0+cu128", vision))
    assert finding.line == 42


INDEX = ("ABI005", "companion-from-other-index")
MAJOR = ("ABI003", "cudart-major-mismatch")


@pytest.mark.parametrize(
    ("torch", "package", "answer"),
    [
        ("2.11.0+cu126", "torchvision==0.26.0", (*INDEX, "fail")),  # PyPI's is cu130
        ("2.11.0+cu126", "torchvision==0.26.0+cu126", None),
        ("2.11.0", "torchvision==0.26.0", None),
        ("2.8.0+cu126", "torchaudio==2.8.0", (*INDEX, "fail")),  # compares minors
        ("2.8.0+cu126", "torchaudio==2.8.0+cu128", (*INDEX, "fail")),
        ("2.8.0+cu126", "torchvision==0.23.0", None),  # compares majors, PyPI's is cu128
        (
            "2.8.0+cu126",
            "torchvision==0.23.0+cu128",
            ("ABI009", "companion-of-same-major", "ok"),
        ),
        ("2.0.1+cu118", "torchvision==0.15.2+cu117", (*INDEX, "fail")),  # compared minors then
        ("2.2.1+cu121", "torchaudio==2.2.1+rocm5.7", (*INDEX, "fail")),
        ("2.5.1+cu124", "torchvision==0.20.1+cpu", ("ABI004", "vision-cpu-build", "fail")),
        ("2.5.1+cu124", "torchaudio==2.5.1+cpu", (*INDEX, "warn")),
        ("2.11.0+cu129", "vllm==0.21.0", (*MAJOR, "fail")),
        ("2.11.0+cu129", "vllm==0.21.0+cu129", None),
        ("2.11.0", "vllm==0.21.0", None),
        ("2.13.0", "xformers==0.0.35", (*MAJOR, "fail")),
        ("2.13.0+cu130", "xformers==0.0.35+cu130", None),
        ("2.11.0+cu126", "torchao==0.17.0", (*MAJOR, "warn")),  # goes on in Python
        ("2.9.0+cu128", "torchcodec==0.8.0", None),  # PyPI's is a CPU build, as intended
        ("2.8.0+cu129", "bitsandbytes==0.47.0", None),
        ("2.11.0", "bitsandbytes==0.47.0", (*MAJOR, "fail")),
        ("2.15.0", "bitsandbytes==0.49.2", ("ABI003", "cuda-library-missing", "fail")),
        ("2.8.0+cu129", "bitsandbytes==0.50.0", None),  # takes one of the same major
    ],
)
def test_companions_beside_a_cuda_build(
    torch: str, package: str, answer: tuple[str, str, str] | None
) -> None:
    found = said(check_companion_cuda, facts_of(f"torch=={torch}", package))
    assert found == ([answer] if answer else [])


def test_conda_builds_carry_no_label_and_are_not_taken_for_pypis() -> None:
    vision = distribution("torchvision==0.26.0", installer="conda")
    facts = facts_of("torch==2.11.0", vision, manager=Manager.CONDA, cuda="12.6")
    assert said(check_companion_cuda, facts) == []


def test_other_platforms_have_other_wheels_on_pypi() -> None:
    facts = facts_of("torch==2.11.0+cu126", "torchvision==0.26.0", platform="linux-aarch64")
    assert said(check_companion_cuda, facts) == []


def test_a_wheel_from_elsewhere_is_not_taken_for_pypis() -> None:
    vllm = distribution("vllm==0.21.0", url="https://wheels.example/vllm-0.21.0-cp38-abi3-any.whl")
    assert said(check_companion_cuda, facts_of("torch==2.11.0+cu129", vllm)) == []


def test_a_mirror_of_the_simple_index_is_taken_for_pypi() -> None:
    vllm = distribution("vllm==0.21.0", index_url="https://index.example/simple/")
    assert said(check_companion_cuda, facts_of("torch==2.11.0+cu129", vllm)) == [(*MAJOR, "fail")]


def test_the_index_that_a_lock_names_says_what_a_build_is_for() -> None:
    vision = distribution("torchvision==0.23.0", index_url="https://mirror.example/whl/cpu")
    facts = facts_of("torch==2.8.0+cu128", vision)
    assert said(check_companion_cuda, facts) == [("ABI004", "vision-cpu-build", "fail")]


def test_the_remedy_names_the_label_because_pip_is_content_without_one() -> None:
    (finding,) = findings(
        check_companion_cuda, facts_of("torch==2.11.0+cu126", "torchvision==0.26.0")
    )
    assert finding.remedy is not None
    assert finding.remedy.command[-3:] == (
        "torchvision==0.26.0+cu126",
        "--index-url",
        "https://index.example/cu126",
    )


def test_a_package_that_is_on_no_pytorch_index_gets_no_command() -> None:
    (finding,) = findings(check_companion_cuda, facts_of("torch==2.11.0+cu129", "vllm==0.21.0"))
    assert finding.remedy is not None
    assert finding.remedy.command == ()


def test_the_newest_bitsandbytes_is_not_needed_only_one_with_the_library() -> None:
    (finding,) = findings(check_companion_cuda, facts_of("torch==2.11.0", "bitsandbytes==0.47.0"))
    assert finding.remedy is not None
    assert finding.remedy.command[-1] == "bitsandbytes>=0.48.0"


MIXED = ("ABI006", "mixed-cuda-major-packages", "warn")


@pytest.mark.parametrize(
    ("packages", "is_mixed"),
    [
        (("nvidia-cudnn-cu12==9.1.0.70", "nvidia-cublas-cu12==12.4.5.8"), False),
        (("nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu13==9.19.0.56"), True),
        (("nvidia-cublas-cu12==12.4.5.8", "nvidia-cublas==13.0.2.14"), True),
        (
            ("nvidia-cudnn-cu13==9.19.0.56", "cuda-toolkit==13.0.2", "nvidia-cufft==12.0.0.61"),
            False,
        ),
        (("nvidia-nccl-cu11==2.14.3", "nvidia-cublas-cu12==12.4.5.8"), True),
        (("nvidia-ml-py==12.560.30", "nvidia-cudnn-cu13==9.19.0.56"), False),
    ],
)
def test_nvidia_packages_of_two_majors(packages: tuple[str, ...], *, is_mixed: bool) -> None:
    found = said(check_nvidia_packages, facts_of("torch==2.6.0", *packages))
    assert found == ([MIXED] if is_mixed else [])


def test_packages_with_the_same_files_are_named_and_the_strangers_removed() -> None:
    facts = facts_of(
        "torch==2.6.0+cu124",
        "nvidia-cudnn-cu12==9.1.0.70",
        "nvidia-cudnn-cu13==9.19.0.56",
        "nvidia-cublas==13.0.2.14",
    )
    (finding,) = findings(check_nvidia_packages, facts)
    assert "nvidia-cudnn of both majors install the same files" in finding.detail
    assert finding.remedy is not None
    assert finding.remedy.command[-2:] == ("nvidia-cublas", "nvidia-cudnn-cu13")


@pytest.mark.parametrize(
    ("torch", "companion", "library"),
    [
        ("torch==2.6.0+cu124", "torchvision==0.21.0+cu118", "libcudart.so.11.0"),
        ("torch==2.6.0+cu118", "torchvision==0.21.0+cu124", "libcudart.so.12"),
    ],
)
def test_the_library_that_is_missing_has_the_name_that_the_loader_prints(
    torch: str, companion: str, library: str
) -> None:
    (finding,) = findings(check_companion_cuda, facts_of(torch, companion))
    assert f"It needs {library}, " in finding.detail
