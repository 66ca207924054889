"""Each invariant is broken in a copy of the tables and must be reported, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.errors import MatrixError
from envguard.matrix.loader import Matrix
from envguard.matrix.verify import TABLES, verify
from tests.matrix.conftest import ROOT, row_of

if TYPE_CHECKING:
    from tests.matrix.conftest import Break


Case = tuple[str, str, str, str]

DRIVERS: list[Case] = [
    (  # the minimum driver falls as CUDA rises
        "drivers.toml",
        'toolkit = "12.8.0", linux = "570.26"',
        'toolkit = "12.8.0", linux = "560.26"',
        "drivers.toml: toolkit_driver[N].linux: 560.26 is below 560.35.05, that of 12.6.3",
    ),
    (
        "drivers.toml",
        'toolkit = "12.8.0", linux = "570.26", windows = "570.65"',
        'toolkit = "12.8.0", linux = "570.26", windows = "560.65"',
        "drivers.toml: toolkit_driver[N].windows: 560.65 is below 561.17, that of 12.6.3",
    ),
    (  # a toolkit's driver is of a branch that supports another CUDA
        "drivers.toml",
        'toolkit = "12.9.0", linux = "575.51.03"',
        'toolkit = "12.9.0", linux = "570.512"',
        "drivers.toml: toolkit_driver[N].linux: branch 570 is that of 12.8",
    ),
    (
        "drivers.toml",
        'major = 12, linux = "525.60.13"',
        'major = 12, linux = "425.60.13"',
        "drivers.toml: minor_version_compat[N].linux: 425.60.13 is below 450.80.02, that of 11",
    ),
    (
        "uv.toml",
        'backend = "cu120", linux = "525.60.13"',
        'backend = "cu120", linux = "425.60.13"',
        "uv.toml: uv_driver[N].linux: 425.60.13 is below 450.80.2, that of cu118",
    ),
    (  # a branch does not support more than the one before it
        "drivers.toml",
        'branch = 575, windows = [576, 576], cuda = "12.9"',
        'branch = 575, windows = [576, 576], cuda = "12.7"',
        "drivers.toml: driver_branch[N].cuda: 12.7 is not above 12.8",
    ),
    (
        "drivers.toml",
        "branch = 575, windows = [576, 576]",
        "branch = 575, windows = [572, 576]",
        "drivers.toml: driver_branch[N].windows: overlaps branch 570",
    ),
    (
        "drivers.toml",
        'name = "Pascal", first = "6.0", last = "6.2"',
        'name = "Pascal", first = "6.0", last = "7.0"',
        "drivers.toml: generation[N].first: overlaps Volta",
    ),
    (
        "drivers.toml",
        'last = "11.0", aliases = "10.1"',
        'last = "11.0", aliases = "10.3"',
        "drivers.toml: generation[N].aliases: overlaps Blackwell Ultra B300",
    ),
    (
        "drivers.toml",
        'name = "Kepler", first = "3.0", last = "3.7"',
        'name = "Kepler", first = "3.0", last = "2.9"',
        "drivers.toml: generation[N].last: 2.9 is below 3.0",
    ),
]
GPUS: list[Case] = [
    (
        "gpus.toml",
        'name = "GeForce RTX 3090", capability = "8.6"',
        'name = "GeForce RTX 3090", capability = "8.7"',
        "gpus.toml: gpu[N].capability: 8.7 is of no generation",
    ),
    (
        "gpus.toml",
        '"consumer", chip = "GA102", source = "nv-cc pciids open-gpu", confidence = "doc" },\n'
        '  { name = "GeForce RTX 3090 Ti"',
        '"consumer", chip = "AD102", source = "nv-cc pciids open-gpu", confidence = "doc" },\n'
        '  { name = "GeForce RTX 3090 Ti"',
        "gpus.toml: gpu[N].chip: AD102 is 8.9, not 8.6",
    ),
    (
        "gpus.toml",
        'name = "GeForce RTX 3090"',
        'name = "NVIDIA GPU"',
        "gpus.toml: gpu[N].name: 'NVIDIA GPU' does not find itself",
    ),
]
GENERAL: list[Case] = [
    (
        "drivers.toml",
        'toolkit = "12.9.1", linux = "575.57.08"',
        'toolkit = "12.9.0", linux = "575.57.08"',
        "drivers.toml: toolkit_driver[N].toolkit: '12.9.0' is stated twice",
    ),
    (
        "gpus.toml",
        'name = "GeForce RTX 3070 Ti", capability = "8.6", segment = "consumer", chip = "GA102"',
        'name = "GeForce RTX 3070", capability = "8.6", segment = "consumer", chip = "GA102"',
        "gpus.toml: gpu[N].name: 'GeForce RTX 3070' is stated twice",
    ),
    (
        "drivers.toml",
        'toolkit = "12.8.1"',
        'toolkit = "12.7.9"',
        "drivers.toml: toolkit_driver[N].toolkit: stands out of order",
    ),
    (
        "torch.toml",
        'torch = "2.11.0", platform = "linux-x86_64", backends = "cu128"',
        'torch = "2.10.0", platform = "linux-x86_64", backends = "cu999"',
        "torch.toml: build[N].torch: stands out of order",
    ),
    (
        "drivers.toml",
        'cuda = "12.8", source = "nv-table3"',
        'cuda = "12.8", source = "nv-table4"',
        "drivers.toml: driver_branch[N].source[0]: 'nv-table4' is not among the sources",
    ),
    (
        "toolkits.toml",
        'gcc_max = 9, source = "torch-cppext", confidence = "metadata"',
        'gcc_max = 9, source = "torch-cppext"',
        "toolkits.toml: host_compiler[N].confidence: is missing",
    ),
    (
        "torch_libs.toml",
        'compares = "minor", source = "pypi-tvta", confidence = "metadata"',
        'compares = "minor", confidence = "metadata"',
        "torch_libs.toml: cuda_match[N].source: is missing",
    ),
    (
        "uv.toml",
        "[sources]",
        '[sources]\nspare = { url = "https://docs.example/", checked = "2026-11-29" }',
        "uv.toml: sources.spare: no row names this source",
    ),
    (
        "uv.toml",
        'checked = "2026-11-29"',
        'checked = "2026-12-01"',
        "uv.toml: sources.uv-backend.checked: 2026-12-01 is after 2026.11.30",
    ),
    (
        "manifest.toml",
        'data_version = "2026.11.30"',
        'data_version = "newest"',
        "manifest.toml: data_version: 'newest' is not a date such as 2026.11.29",
    ),
]


def test_the_shipped_tables_hold(matrix: Matrix) -> None:
    assert verify(matrix) == ()


@pytest.mark.parametrize(("name", "old", "new", "problem"), [*DRIVERS, *GPUS, *GENERAL])
def test_a_broken_invariant_is_reported_with_its_place(
    broken: Break, name: str, old: str, new: str, problem: str
) -> None:
    folder = broken(name, old, new)
    place = problem.replace("[N]", f"[{row_of(folder / name, new.splitlines()[0])}]")
    assert place in verify(Matrix.load(folder))


def test_a_table_that_does_not_load_is_one_problem(broken: Break) -> None:
    folder = broken("drivers.toml", 'linux = "570.26"', "linux = 570.26")
    assert verify(Matrix.load(folder)) == (
        "drivers.toml: toolkit_driver[41].linux: expected a string, found a number",
    )


def test_a_missing_table_is_one_problem(broken: Break) -> None:
    folder = broken("uv.toml", "# How", "# How")
    for form in ("uv.toml", "uv.json"):
        (folder / form).unlink()
    assert verify(Matrix.load(folder)) == ("uv.toml: cannot be read: No such file or directory",)


def test_every_array_that_ships_is_checked(matrix: Matrix) -> None:
    for name, arrays in TABLES.items():
        data = matrix.document(name).data
        shipped = {
            key
            for key, rows in data.items()
            if isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
        }
        assert set(arrays) == shipped, name


def test_several_broken_tables_are_all_reported(broken: Break) -> None:
    broken("gpus.toml", 'name = "GeForce RTX 3090"', 'name = "NVIDIA GPU"')
    folder = broken("drivers.toml", 'toolkit = "12.9.1"', 'toolkit = "12.9.0"')
    problems = verify(Matrix.load(folder))
    assert {problem.split(":")[0] for problem in problems} == {"drivers.toml", "gpus.toml"}


def test_the_copy_that_tests_break_is_sound(broken: Break) -> None:
    folder = broken("uv.toml", "# How", "# How")
    assert verify(Matrix.load(folder)) == ()
    assert verify(Matrix.load(ROOT / "compat_matrix")) == ()


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
def test_a_broken_invariant_of_torch_is_reported_with_its_place(
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


def test_the_shipped_tables_of_packages_hold(matrix: Matrix) -> None:
    problems = [line for line in verify(matrix) if line.startswith(("packages", "deeps", "breaks"))]
    assert problems == []


BROKEN = [
    (
        "breaks.toml",
        'shows = "ds-no-sync"',
        'shows = "ds-no-such"',
        "breaks.toml: tf-ds-no-sync: shows: there is no signature ds-no-such",
    ),
    (
        "packages/torchvision.toml",
        'requires = { numpy = "", torch = "==2.8.0" }',
        'requires = { numpy = "", torch = "==2.7.0" }',
        "packages/torchvision.toml: 0.23.0: torch==2.7.0, torch_libs.toml says torch==2.8.0",
    ),
    (
        "packages/torchaudio.toml",
        'torch = "==2.10.0" }, cuda = "12.8"',
        'torch = "==2.10.0" }, cuda = "13.0"',
        "packages/torchaudio.toml: 2.10.0: CUDA 13.0, torch_libs.toml says cu128",
    ),
    (
        "packages/xformers.toml",
        'torch = "==2.7.0"',
        'torch = "==2.7.9"',
        "packages/xformers.toml: 0.0.30: no torch 2.7.9",
    ),
    (
        "packages/vllm.toml",
        'name = "vllm"',
        'name = "vlm"',
        "packages/vllm.toml: name: expected 'vllm'",
    ),
    (
        "packages/peft.toml",
        'version = "0.2.0"',
        'version = "0.20.0"',
        "stands after",
    ),
    (
        "packages/triton.toml",
        "[sources]\n",
        '[sources]\nelsewhere = { url = "https://docs.example/", checked = "2026-11-29" }\n',
        "packages/triton.toml: sources.elsewhere: no row names this source",
    ),
    (
        "packages/torchvision.toml",
        '{ versions = "<0.29.0", abi = "classic"',
        '{ versions = "<=0.29.0", abi = "classic"',
        "packages/torchvision.toml: range: two of them contradict for 0.29.0",
    ),
    (
        "breaks.toml",
        'fix = { deepspeed = ">=0.8.2" }',
        'fix = { deepspeed = ">=0.8.1" }',
        "breaks.toml: ds-torch-six: fix: deepspeed>=0.8.1 is among the broken ones",
    ),
    (
        "breaks.toml",
        'id = "ds-torch-six"',
        'id = "a-first"',
        "stands out of order, or twice",
    ),
    (
        "deepspeed.toml",
        'minors = "12.0 12.1 12.2 12.3 12.4 12.5 12.6 12.8"',
        'minors = "12.0 12.1 12.2 12.3 12.4 12.5 12.8"',
        "deepspeed.toml: 0.16.4: minors: 12.6 of 0.16.3 is gone",
    ),
    (
        "packages/sgl-kernel.toml",
        'source = "elf"',
        'source = "hearsay"',
        "'hearsay' is not among the sources",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "problem"), BROKEN)
def test_a_broken_table_is_named(
    broken: Break, name: str, old: str, new: str, problem: str
) -> None:
    folder = broken(name, old, new)
    assert any(problem in line for line in verify(Matrix.load(folder)))
