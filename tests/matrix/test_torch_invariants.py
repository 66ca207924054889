"""Each invariant of the torch tables is broken in a copy and must be reported, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.errors import MatrixError
from envguard.matrix.loader import Matrix
from envguard.matrix.verify import verify
from tests.matrix.conftest import row_of

if TYPE_CHECKING:
    from tests.matrix.conftest import Break

Case = tuple[str, str, str, str]

CU128 = 'torch = "2.11.0", platform = "linux-x86_64", backends = "cu128", targets = "sm_75'
CU130 = 'torch = "2.11.0", platform = "linux-x86_64", backends = "cu130", targets = "sm_75'
CASES: list[Case] = [
    (
        "torch.toml",
        CU130,
        CU130.replace("sm_75", "sm_70 sm_75"),
        "torch.toml: build[N].targets[0]: CUDA 13.0 no longer compiles for 7.0",
    ),
    (
        "torch.toml",
        CU128 + " sm_80 sm_86 sm_90 sm_100 sm_120",
        CU128 + " sm_80 sm_86 sm_90 sm_100 sm_110 sm_120",
        "torch.toml: build[N].targets[5]: CUDA 12.8 does not know Thor yet",
    ),
    (
        "torch.toml",
        CU128 + " sm_80",
        CU128 + " sm_77 sm_80",
        "torch.toml: build[N].targets[1]: 7.7 is of no generation",
    ),
    (
        "torch.toml",
        CU128 + " sm_80",
        CU128 + " sm_80 sm_80",
        "torch.toml: build[N].targets: expected each once, cubins before PTX, rising",
    ),
    (
        "torch.toml",
        CU128 + " sm_80",
        CU128.replace("sm_75", "sm_80 sm_75"),
        "torch.toml: build[N].targets: expected each once, cubins before PTX, rising",
    ),
    (
        "torch.toml",
        'torch = "2.11.0", platform = "linux-x86_64", backends = "cu129"',
        'torch = "2.11.0", platform = "linux-x86_64", backends = "cu118"',
        "torch.toml: build[N].backends: 2.11.0+cu118 is not published for linux-x86_64",
    ),
    (
        "torch.toml",
        'torch = "2.11.0", platform = "linux-x86_64", backends = "cu129"',
        'torch = "2.11.0", platform = "linux-x86_64", backends = "cpu"',
        "torch.toml: build[N].backends: a CPU build has no code targets",
    ),
    (
        "torch.toml",
        'torch = "2.6.0", platform = "linux-aarch64", backends = "cu126", verified = false',
        'torch = "2.6.0", platform = "linux-aarch64", backends = "cu128", verified = false',
        "torch.toml: exception[N].backends: 2.6.0+cu128 is not published for linux-aarch64",
    ),
    (
        "torch.toml",
        'platform = "linux-x86_64", backends = "cpu cu102 cu113 cu116"',
        'platform = "linux-x86_64", backends = "cpu cu113 cu116"',
        "torch.toml: pypi[21].backend: cu102 of 1.12.0 is not on the index for linux-x86_64",
    ),
    (
        "torch.toml",
        'platform = "linux-x86_64", backends = "cpu cu102 cu113 cu116"',
        'platform = "linux-x86_64", backends = "cu102 cu113 cu116"',
        "torch.toml: index[N].backends: the index always holds a CPU build",
    ),
    (
        "torch.toml",
        'platform = "linux-x86_64", backends = "cpu cu102 cu113 cu116"',
        'platform = "linux-x86_64", backends = "cpu cu113 cu102 cu116"',
        "torch.toml: index[N].backends: expected each once, cpu first, rising",
    ),
    (
        "torch.toml",
        'version = "2.13.0", released = "2026-07-08"',
        'version = "2.13.0", released = "soon"',
        "torch.toml: release[N].released: Invalid isoformat string: 'soon'",
    ),
    (
        "torch.toml",
        'version = "2.13.0", released',
        'version = "2.13.1", released',
        "torch.toml: release[N].version: PyPI's wheels of 2.13.1 are missing",
    ),
    (
        "torch.toml",
        'version = "1.12.1", released',
        'version = "1.12.2", released',
        "torch.toml: pypi[21].torch[1]: 1.12.1 has no release row",
    ),
    (
        "torch.toml",
        'backend = "cu102", pythons = "cp37 cp38',
        'backend = "cu102", pythons = "cp35 cp37 cp38',
        "torch.toml: pypi[N].pythons[0]: 1.11.0 requires Python >=3.7.0",
    ),
    (
        "torch.toml",
        'backend = "cu102", pythons = "cp37 cp38',
        'backend = "cu102", pythons = "cp38 cp37',
        "torch.toml: pypi[N].pythons: expected each once, rising",
    ),
    (
        "torch.toml",
        'backend = "cu102", pythons = "cp37 cp38',
        'backend = "cu102", pythons = "cp37 pp38',
        "torch.toml: pypi[N].pythons[1]: 'pp38' is not a CPython tag",
    ),
    (
        "torch_libs.toml",
        'version = "0.26.0", torch = "==2.11.0"',
        'version = "0.26.0", torch = "==2.10.0"',
        "torch.toml: release[45].torchvision[0]: torchvision 0.26.0 requires torch==2.10.0",
    ),
    (
        "torch.toml",
        'torchvision = "0.26.0"',
        'torchvision = "0.26.9"',
        "torch.toml: release[N].torchvision[0]: torchvision 0.26.9 is not recorded",
    ),
    (
        "torch_libs.toml",
        'series = "2.11", backend = "cu130", cudnn = "9.19.0.56"',
        'series = "2.11", backend = "cu130", cudnn = "9.17.1.4"',
        "torch.toml: release[45].cudnn: 9.19.0.56 here, 9.17.1.4 among the libraries of cu130",
    ),
    (
        "torch_libs.toml",
        'file = "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl", cubins = { sm_75 = 444, ',
        'file = "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl", cubins = { ',
        "torch_libs.toml: fatbin[N].cubins: sm_75 is recorded but not in the wheel",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "problem"), CASES)
def test_a_broken_invariant_is_reported_with_its_place(
    broken: Break, name: str, old: str, new: str, problem: str
) -> None:
    folder = broken(name, old, new)
    place = problem.replace("[N]", f"[{row_of(folder / name, new.splitlines()[0])}]")
    assert place in verify(Matrix.load(folder))


def test_a_build_for_an_unknown_cuda_is_reported(broken: Break) -> None:
    broken("torch.toml", "cu102 cu110", "cu102 cu107")
    folder = broken("torch.toml", 'backends = "cu110", targets', 'backends = "cu107", targets')
    row = row_of(folder / "torch.toml", 'backends = "cu107", targets')
    problem = f"torch.toml: build[{row}].backends: no driver is recorded for 10.7"
    assert problem in verify(Matrix.load(folder))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            CU128,
            CU128.replace("sm_75", "sm_x5"),
            r"torch\.toml: build\[\d+\]\.targets\[0\]: 'sm_x5' is not a code target",
        ),
        (
            CU128,
            CU128.replace("cu128", "cu126"),
            r"torch\.toml: build\[\d+\]\.backends: 2\.11\.0\+cu126 linux-x86_64 is stated twice",
        ),
        (
            'version = "1.12.1"',
            'version = "1.12.0"',
            r"torch\.toml: release\[21\]\.version: 1\.12\.0 is stated twice",
        ),
        (
            '"1.12.0 1.12.1", platform = "linux-x86_64", backend = "cu102"',
            '"1.12.0 1.12.1", platform = "linux-aarch64", backend = "cu102"',
            r"torch\.toml: pypi\[22\]\.torch: 1\.12\.0 is stated twice for linux-aarch64",
        ),
        (
            'unknown = "cxx11_abi glibc"',
            'unknown = "cxx11_abi targets"',
            r"torch\.toml: exception\[10\]\.unknown\[1\]: 'targets' is none of",
        ),
        (
            'platform = "linux-x86_64", backend = "cu102"',
            'platform = "beos-x86_64", backend = "cu102"',
            r"torch\.toml: pypi\[\d+\]\.platform: 'beos-x86_64' is not a platform",
        ),
    ],
)
def test_what_contradicts_itself_does_not_load(
    broken: Break, old: str, new: str, problem: str
) -> None:
    matrix = Matrix.load(broken("torch.toml", old, new))
    with pytest.raises(MatrixError, match=problem):
        matrix.torch.builds()
