"""Real wheels: what they hold, and what torch and the real loader then say.

``pip download --no-deps -d FOLDER torch==2.14.1 torchvision==0.28.0`` (and ``torchvision==0.29.1``)
with CPython 3.11 on x86_64 fills the folder that ``ENVGUARD_TEST_WHEELS`` names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.binary.environment import read_environment
from envguard.binary.inspect import inspect_subjects
from envguard.facts.binary import LinkFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.binary import BinaryFacts, CompiledFile, LinkProblem


pytestmark = [
    pytest.mark.wheels,
    pytest.mark.skipif(sys.platform != "linux", reason="wheels for Linux"),
]

CHECK_CUDA = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"
FULL = {"7.5", "8.0", "8.6", "9.0", "10.0", "12.0"}


def wheel(name: str) -> Path:
    folder = os.environ.get("ENVGUARD_TEST_WHEELS")
    if not folder:
        pytest.skip("ENVGUARD_TEST_WHEELS names no folder of wheels")
    found = sorted(Path(folder).glob(f"{name}-*x86_64.whl"))
    if not found:
        pytest.skip(f"no wheel of {name} in ENVGUARD_TEST_WHEELS")
    return found[0]


@pytest.fixture(scope="module")
def torch_files() -> dict[str, CompiledFile]:
    found = inspect_subjects([str(wheel("torch-2.14.1"))])
    assert found.is_complete
    return {file.path: file for file in found.files}


def counts(file: CompiledFile) -> dict[str, int]:
    return {f"{c.capability}{c.suffix}": c.count for c in file.cubin or ()}


def test_libtorch_cuda_serves_six_architectures_in_full(
    torch_files: dict[str, CompiledFile],
) -> None:
    library = torch_files["torch/lib/libtorch_cuda.so"]
    found = counts(library)
    assert {target for target, count in found.items() if count == 475} == FULL
    assert {target: count for target, count in found.items() if count != 475} == {
        "8.9": 1,
        "9.0a": 4,
        "10.0a": 59,
        "10.3f": 59,
        "12.0a": 1,
        "12.1a": 1,
    }
    assert library.ptx == ()
    assert (library.cuda_major, library.cxx11_abi) == (13, True)


def test_its_linear_algebra_lacks_the_oldest_architecture(
    torch_files: dict[str, CompiledFile],
) -> None:
    found = counts(torch_files["torch/lib/libtorch_cuda_linalg.so"])
    assert set(found) == FULL - {"7.5"}
    assert set(found.values()) == {65}


def test_what_the_build_states_about_itself(torch_files: dict[str, CompiledFile]) -> None:
    flags = torch_files["torch/lib/libtorch_python.so"].arch_flags
    assert [str(flag) for flag in flags or ()] == [
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_90",
        "sm_100",
        "sm_120",
    ]


@pytest.mark.parametrize(
    ("name", "library", "stable"),
    [
        ("torchvision-0.28.0", "torchvision/_C.so", False),
        ("torchvision-0.29.1", "torchvision/_C_stable.so", True),
    ],
)
def test_which_torchvision_uses_the_stable_abi(name: str, library: str, stable: bool) -> None:
    files = {file.path: file for file in inspect_subjects([str(wheel(name))]).files}
    assert files[library].stable_abi is stable
    assert files[library].cuda_major == 13


@pytest.fixture(scope="module")
def unpacked_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    site = tmp_path_factory.mktemp("wheels") / "python3.11/site-packages"
    unpack(wheel("torch-2.14.1"), site)
    yield site
    shutil.rmtree(site)


def unpack(path: Path, site: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if ".so" in name or name in {"torch/__init__.py", "torch/version.py"}:
                archive.extract(name, site)


def beside(site: Path, name: str, torch: Path) -> BinaryFacts:
    unpack(wheel(name), site)
    return read_environment((site, torch.parent), torch, {}, None)


def missing_symbols(facts: BinaryFacts, module: str) -> list[LinkProblem]:
    return [
        problem
        for problem in facts.links
        if problem.module.endswith(module) and problem.fault is LinkFault.MISSING_SYMBOL
    ]


def test_an_older_torchvision_misses_a_symbol_of_a_newer_torch(
    unpacked_torch: Path, tmp_path: Path
) -> None:
    facts = beside(tmp_path / "python3.11/site", "torchvision-0.28.0", unpacked_torch / "torch")
    for module in ("torchvision/_C.so", "torchvision/image.so"):
        (problem,) = missing_symbols(facts, module)
        assert problem.name == CHECK_CUDA
        assert (
            problem.message
            == f"{tmp_path}/python3.11/site/{module}: undefined symbol: {CHECK_CUDA}"
        )


def test_a_torchvision_of_the_stable_abi_misses_none(unpacked_torch: Path, tmp_path: Path) -> None:
    facts = beside(tmp_path / "python3.11/site", "torchvision-0.29.1", unpacked_torch / "torch")
    assert missing_symbols(facts, "torchvision/_C_stable.so") == []
    assert missing_symbols(facts, "torchvision/image_stable.so") == []


@pytest.mark.torch
@pytest.mark.parametrize("name", ["torchvision-0.28.0", "torchvision-0.29.1"])
def test_predictions_beside_a_cpu_torch_are_what_the_loader_says(name: str, tmp_path: Path) -> None:
    python = os.environ.get("ENVGUARD_TEST_TORCH_PYTHON")
    if not python:
        pytest.skip("ENVGUARD_TEST_TORCH_PYTHON names no interpreter with torch")
    where = "import torch; print(torch.__path__[0])"
    torch = Path(run(python, where).strip())
    site = tmp_path / "python3.11/site"
    facts = beside(site, name, torch)
    modules = sorted(site.glob("torchvision/*.so"))
    assert len(modules) == 2
    for module in modules:
        first = [p.message for p in facts.links if p.module == str(module) and p.is_first]
        said = run(
            python,
            "import sys, ctypes, torch\n"
            "try: ctypes.CDLL(sys.argv[1])\n"
            "except OSError as err: print(err, end='')",
            str(module),
        )
        assert [said] == (first or [""])


def run(python: str, code: str, *arguments: str) -> str:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout
