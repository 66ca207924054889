"""None"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from envguard.facts.binary import CodeCount, CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Platform
from envguard.facts.published import Published, TorchWheel
from envguard.facts.versions import Backend, CodeTarget, ComputeCapability
from envguard.matrix.drift import (
    Drift,
    compare_release,
    compare_wheel,
    gpu_requirements,
    missing_releases,
    triton_marker,
)
from envguard.matrix.packages import PackageTable
from envguard.matrix.reading import Document

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix


ROW = {
    "version": "1.2.0",
    "released": "2026-01-05",
    "python": ">=3.10",
    "pythons": "cp310 cp311 cp313t",
    "requires": {"torch": "==2.8.0", "numpy": ""},
    "extras": {"deepspeed": ">=0.14"},
    "cuda": "12.8",
    "source": "s",
    "confidence": "metadata",
}
TABLE = PackageTable(
    Document(
        "packages/demo.toml",
        {
            "name": "demo",
            "releases": "all",
            "release": [ROW],
            "sources": {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}},
        },
    )
)
PUBLISHED = Published(
    name="demo",
    version=Version("1.2.0"),
    requires_python=">=3.10",
    requires=(
        "torch==2.8.0",
        "numpy",
        "pillow!=8.3.*,>=5.3.0",
        'nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"',
        'deepspeed>=0.14; extra == "deepspeed"',
    ),
    wheels=(
        "demo-1.2.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "demo-1.2.0-cp311-cp311-win_amd64.whl",
        "demo-1.2.0-cp313-cp313t-manylinux_2_28_x86_64.whl",
    ),
    released="2026-01-05",
)


def drift_of_index(published: Published) -> list[tuple[str, str, str]]:
    (release,) = TABLE.releases
    return [(d.field, d.stated, d.found) for d in compare_release(TABLE, release, published)]


def test_a_row_that_agrees_has_no_drift() -> None:
    assert drift_of_index(PUBLISHED) == []


def test_another_pin_is_drift() -> None:
    requires = ("torch==2.8.1", *PUBLISHED.requires[1:])
    assert drift_of_index(replace(PUBLISHED, requires=requires)) == [
        ("requires.torch", "==2.8.0", "==2.8.1")
    ]


def test_a_requirement_that_is_gone_is_drift() -> None:
    requires = PUBLISHED.requires[1:]
    found = drift_of_index(replace(PUBLISHED, requires=requires))
    assert found == [("requires.torch", "==2.8.0", "no requirement")]


def test_a_requirement_that_moved_into_an_extra_is_none() -> None:
    requires = ('torch==2.8.0; extra == "srt"', *PUBLISHED.requires[1:])
    assert drift_of_index(replace(PUBLISHED, requires=requires)) == []


def test_one_of_several_markers_is_enough() -> None:
    requires = (
        'torch==2.8.0; python_version < "3.13"',
        'torch>=2.9; python_version >= "3.13"',
        *PUBLISHED.requires[1:],
    )
    assert drift_of_index(replace(PUBLISHED, requires=requires)) == []


def test_another_python_is_drift() -> None:
    found = drift_of_index(replace(PUBLISHED, requires_python=">=3.11"))
    assert found == [("python", ">=3.10", ">=3.11")]


def test_another_cuda_major_is_drift_and_a_patch_is_not() -> None:
    requires = tuple(r.replace("cu12==12.8.90", "cu13==13.0.1") for r in PUBLISHED.requires)
    assert drift_of_index(replace(PUBLISHED, requires=requires)) == [("cuda", "12.8", "13.0.1")]
    toolkit = (*PUBLISHED.requires[:3], "cuda-toolkit[cublas]==12.8.1", PUBLISHED.requires[4])
    assert drift_of_index(replace(PUBLISHED, requires=toolkit)) == []


def test_another_extra_is_drift() -> None:
    requires = PUBLISHED.requires[:-1]
    found = drift_of_index(replace(PUBLISHED, requires=requires))
    assert found == [("extras.deepspeed", ">=0.14", "no requirement")]


def test_another_set_of_wheels_is_drift() -> None:
    wheels = (*PUBLISHED.wheels[:2], "demo-1.2.0-cp39-abi3-manylinux_2_28_x86_64.whl")
    found = drift_of_index(replace(PUBLISHED, wheels=wheels))
    assert found == [("pythons", "cp310 cp311 cp313t", "cp310 cp311 cp39-abi3")]


def test_the_old_memory_flag_of_a_tag_is_none() -> None:
    wheels = (*PUBLISHED.wheels, "demo-1.2.0-cp310-cp310m-manylinux1_x86_64.whl")
    assert drift_of_index(replace(PUBLISHED, wheels=wheels)) == []


def test_a_withdrawn_release_and_another_date_are_drift() -> None:
    found = drift_of_index(replace(PUBLISHED, is_yanked=True, released="2026-01-06"))
    assert found == [("released", "2026-01-05", "2026-01-06"), ("yanked", "False", "True")]


def test_what_nobody_says_about_withdrawing_is_no_drift() -> None:
    assert drift_of_index(replace(PUBLISHED, is_yanked=None)) == []


def test_files_that_were_not_listed_are_not_compared() -> None:
    assert drift_of_index(replace(PUBLISHED, wheels=(), released="", is_yanked=True)) == []


def test_newer_releases_have_no_row() -> None:
    versions = [Version(v) for v in ("1.1.0", "1.2.0", "1.3.0", "2.0.0rc1")]
    (found,) = missing_releases(TABLE, versions)
    assert found == Drift("packages/demo.toml", "1.3.0", "row", "", "published, has no row")
    assert str(found) == "packages/demo.toml: 1.3.0: row: '', found 'published, has no row'"


LINUX = ' ; platform_system == "Linux" and platform_machine == "x86_64"'
FULL = ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0))
CUDA = CompiledFile(
    "torch/lib/libtorch_cuda.so",
    cubin=(
        *(CodeCount(ComputeCapability(*pair), "", 341) for pair in FULL),
        CodeCount(ComputeCapability(9, 0), "a", 2),
    ),
    ptx=(),
    glibc="2.14",
)
PYTHON = CompiledFile(
    "torch/lib/libtorch_python.so",
    glibc="2.17",
    cxx11_abi=False,
    arch_flags=tuple(CodeTarget.parse(f"sm_{a}{b}") for a, b in FULL),
)
# torch 2.6.0 as PyPI has it.
WHEEL = TorchWheel(
    file="torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl",
    version=Version("2.6.0"),
    platform=Platform.parse("linux-x86_64"),
    python="cp311",
    tags=("manylinux1_x86_64",),
    build_tag="",
    requires_python=">=3.9.0",
    requires=(
        "filelock",
        f"nvidia-cuda-nvrtc-cu12 (==12.4.127){LINUX}",
        f"nvidia-cuda-runtime-cu12 (==12.4.127){LINUX}",
        f"nvidia-cuda-cupti-cu12 (==12.4.127){LINUX}",
        f"nvidia-cudnn-cu12 (==9.1.0.70){LINUX}",
        f"nvidia-cublas-cu12 (==12.4.5.8){LINUX}",
        f"nvidia-cufft-cu12 (==11.2.1.3){LINUX}",
        f"nvidia-curand-cu12 (==10.3.5.147){LINUX}",
        f"nvidia-cusolver-cu12 (==11.6.1.9){LINUX}",
        f"nvidia-cusparse-cu12 (==12.3.1.170){LINUX}",
        f"nvidia-cusparselt-cu12 (==0.6.2){LINUX}",
        f"nvidia-nccl-cu12 (==2.21.5){LINUX}",
        f"nvidia-nvtx-cu12 (==12.4.127){LINUX}",
        f"nvidia-nvjitlink-cu12 (==12.4.127){LINUX}",
        f"triton (==3.2.0){LINUX}",
        'optree (>=0.13.0) ; extra == "optree"',
    ),
    backend=Backend.parse("cu124"),
    commit="2236df1770800ffea5697b11b0bb0d910b2e59e1",
    libraries=(CUDA, PYTHON),
)


# torch 1.3.1 likewise: NVIDIA's libraries are inside, their code is counted with torch's own.
EARLY = TorchWheel(
    file="torch-1.3.1-cp36-cp36m-manylinux1_x86_64.whl",
    version=Version("1.3.1"),
    platform=Platform.parse("linux-x86_64"),
    python="cp36",
    tags=("manylinux1_x86_64",),
    build_tag="",
    requires_python=">=2.7, !=3.0.*, !=3.1.*, !=3.2.*, !=3.3.*, !=3.4.*",
    requires=("numpy",),
    backend=Backend.parse("cu101"),
    commit="ee77ccbb6da4e2efd83673e798acf7081bc03564",
    libraries=(
        CompiledFile(
            "torch/lib/libtorch.so",
            cubin=tuple(
                CodeCount(ComputeCapability(*pair), "", count)
                for pair, count in (
                    ((3, 5), 377),
                    ((3, 7), 390),
                    ((5, 0), 731),
                    ((6, 0), 734),
                    ((6, 1), 597),
                    ((7, 0), 755),
                    ((7, 5), 684),
                )
            ),
            ptx=(CodeCount(ComputeCapability(3, 7), "", 329),),
            glibc="2.14",
            cxx11_abi=False,
        ),
        CompiledFile("torch/lib/libtorch_python.so", glibc="2.14", arch_flags=()),
    ),
)


def drift(matrix: Matrix, wheel: TorchWheel) -> list[str]:
    return [str(found) for found in compare_wheel(matrix, wheel) if found.drifts]


def test_a_published_wheel_agrees_in_every_field(matrix: Matrix) -> None:
    found = compare_wheel(matrix, WHEEL)
    assert [str(one) for one in found if not one.agrees] == []
    assert [(one.row.split()[0], one.field) for one in found] == [
        ("release", "requires_python"),
        ("release", "triton"),
        ("release", "cudnn"),
        ("release", "nccl"),
        ("pypi", "backend"),
        ("pypi", "pythons"),
        ("pypi", "glibc"),
        ("pypi", "cxx11_abi"),
        ("wheel_tag", "tags"),
        ("wheel_tag", "build_tags"),
        ("build", "targets"),
        ("build", "cubins"),
        ("build", "ptx"),
        ("requires", "requires"),
        ("requires", "triton_marker"),
        ("requires", "commit"),
        ("fatbin", "code"),
    ]


def requiring(old: str, new: str) -> TorchWheel:
    return replace(WHEEL, requires=tuple(line.replace(old, new) for line in WHEEL.requires))


PYPI = "torch.toml: pypi 2.6.0 linux-x86_64: "


@pytest.mark.parametrize(
    ("wheel", "lines"),
    [
        (replace(WHEEL, python="cp399"), [f"{PYPI}pythons: 'cp39 cp310 cp311 cp312 cp313', found"]),
        (replace(WHEEL, tags=("manylinux_2_28_x86_64",)), ["wheel_tag 2.6.0 linux-x86_64: tags"]),
        (replace(WHEEL, build_tag="2"), ["build_tags: '', found '2'"]),
        (replace(WHEEL, commit="0" * 40), ["requires 2.6.0 linux-x86_64: commit: '2236df"]),
        (
            replace(WHEEL, libraries=(CUDA, replace(PYTHON, glibc="2.28"))),
            [f"{PYPI}glibc: '2.17', found '2.28'"],
        ),
        (
            replace(WHEEL, libraries=(CUDA, replace(PYTHON, cxx11_abi=True))),
            [f"{PYPI}cxx11_abi: 'false', found 'true'"],
        ),
        (
            requiring("(==3.2.0)", "(==3.2.1)"),
            ["release 2.6.0: triton: '==3.2.0', found '==3.2.1'", "requires: 'nvidia-cublas-cu12"],
        ),
        (
            requiring("(==9.1.0.70)", "(==9.1.0.71)"),
            ["release 2.6.0: cudnn: '9.1.0.70', found '9.1.0.71'", "requires: 'nvidia-cublas-cu12"],
        ),
        (
            replace(WHEEL, version=Version("2.99.0")),
            ["torch.toml: release 2.99.0: row: '', found 'published as torch-2.6.0-cp311"],
        ),
    ],
)
def test_drift_names_table_row_and_field(
    matrix: Matrix, wheel: TorchWheel, lines: list[str]
) -> None:
    found = drift(matrix, wheel)
    assert len(found) == len(lines)
    for line, words in zip(found, lines, strict=True):
        assert words in line


def test_another_architecture_in_full_is_drift(matrix: Matrix) -> None:
    assert CUDA.cubin is not None
    more = (*CUDA.cubin, CodeCount(ComputeCapability(12, 0), "", 341))
    wheel = replace(WHEEL, libraries=(replace(CUDA, cubin=more), PYTHON))
    cubins, code = drift(matrix, wheel)
    assert cubins.endswith("found 'sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 sm_120'")
    assert code.startswith("torch_libs.toml: fatbin 2.6.0 linux-x86_64: code: 'sm_50=341 ")


def test_ptx_that_no_row_states_is_drift(matrix: Matrix) -> None:
    text = (CodeCount(ComputeCapability(9, 0), "", 341),)
    wheel = replace(WHEEL, libraries=(replace(CUDA, ptx=text), PYTHON))
    assert "ptx: '', found 'compute_90'" in drift(matrix, wheel)[0]


def test_a_missing_architecture_string_is_drift(matrix: Matrix) -> None:
    wheel = replace(WHEEL, libraries=(CUDA, replace(PYTHON, arch_flags=())))
    assert [line.rpartition(", ")[2] for line in drift(matrix, wheel)] == ["found ''"]


def test_an_early_wheel_agrees_whatever_nvidia_s_libraries_in_it_hold(matrix: Matrix) -> None:
    assert drift(matrix, EARLY) == []


def test_a_stated_target_that_an_early_wheel_lacks_is_drift(matrix: Matrix) -> None:
    library, python = EARLY.libraries
    assert library.cubin is not None
    fewer = replace(library, cubin=library.cubin[:-1], ptx=())
    cubins, ptx, _ = drift(matrix, replace(EARLY, libraries=(fewer, python)))
    assert cubins.endswith("found 'sm_37 sm_50 sm_60 sm_61 sm_70'")
    assert ptx.endswith("ptx: 'compute_37', found ''")


def unread(reason: GapReason) -> TorchWheel:
    gap = Gap("file", reason, "binary", "its 543.3 MiB were left where they are")
    return replace(WHEEL, libraries=(CompiledFile(CUDA.path, gaps=(gap,)), PYTHON))


@pytest.mark.parametrize(
    ("reason", "asked"), [(GapReason.NOT_ASKED, False), (GapReason.UNREADABLE, True)]
)
def test_what_was_not_read_is_neither_agreement_nor_drift(
    matrix: Matrix, reason: GapReason, asked: bool
) -> None:
    missing = [one for one in compare_wheel(matrix, unread(reason)) if not one.agrees]
    assert [one.field for one in missing] == ["cubins", "ptx", "code"]
    assert not any(one.drifts for one in missing)
    assert {one.is_asked_for for one in missing} == {asked}
    assert str(missing[2]) == (
        "torch_libs.toml: fatbin 2.6.0 linux-x86_64: code: "
        "libtorch_cuda.so: its 543.3 MiB were left where they are"
    )


def test_glibc_below_the_row_says_nothing_while_a_library_is_unread(matrix: Matrix) -> None:
    wheel = unread(GapReason.NOT_ASKED)
    low = replace(wheel, libraries=(wheel.libraries[0], replace(PYTHON, glibc="2.14")))
    high = replace(wheel, libraries=(wheel.libraries[0], replace(PYTHON, glibc="2.28")))
    assert drift(matrix, low) == []
    assert drift(matrix, high) == [f"{PYPI}glibc: '2.17', found '2.28'"]


def test_requirements_on_gpu_packages_are_picked_out() -> None:
    found = gpu_requirements(
        ("numpy", "nvidia-cudnn-cu13==9", "Triton~=3.8.0; python_version < '3.15'", "not a (name")
    )
    assert [r.name for r in found] == ["nvidia-cudnn-cu13", "Triton"]
    assert triton_marker(found) == 'python_version < "3.15"'
    assert triton_marker([Requirement("triton==3.9.0")]) == ""
