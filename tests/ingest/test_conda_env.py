"""What conda and pixi are asked for."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Accelerator, Environment, Manager
from envguard.facts.gaps import GapReason
from envguard.facts.machine import Platform
from envguard.ingest.conda_env import parse_conda_spec
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile

LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.11"), is_python_stated=False)


def load(text: str, name: str = "environment.yml") -> Environment:
    return load_lockfile(name, text, target=LINUX).environment


def torch(environment: Environment) -> tuple[str, Accelerator | None, str]:
    build = environment.torch
    assert build is not None
    return str(build.version), build.accelerator, str(build.cuda)


@pytest.mark.parametrize(
    ("text", "version", "bound", "build"),
    [
        ("pytorch=2.1.0", "2.1.0", "==2.1.0.*", ""),
        ("pytorch==2.1", "2.1", "==2.1.*", ""),
        ("pytorch=2.1", "None", "==2.1.*", ""),
        ("pytorch", "None", "", ""),
        ("pytorch>=2.1,<2.3", "None", "<2.3,>=2.1", ""),
        ("pytorch 2.1.*", "None", "==2.1.*", ""),
        ("pytorch::pytorch=2.1.0=py3.10_cuda11.8*", "2.1.0", "==2.1.0.*", "py3.10_cuda11.8*"),
        ("conda-forge/linux-64::pytorch=2.1.0=*cuda120*", "2.1.0", "==2.1.0.*", "*cuda120*"),
        ("pytorch=2.1|2.2", "None", "", ""),
    ],
)
def test_specs(text: str, version: str, bound: str, build: str) -> None:
    spec = parse_conda_spec(text, 1, "e.yml:1")
    found = (spec.name, str(spec.version), str(spec.bound), spec.build)
    assert found == ("torch", version, bound, build)


HEAD = "dependencies:\n  - python=3.10\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["pytorch=2.1.0", "pytorch-cuda=11.8"], ("2.1.0", Accelerator.CUDA, "11.8")),
        (["pytorch=1.12.1", "cudatoolkit=11.3"], ("1.12.1", Accelerator.CUDA, "11.3")),
        (["pytorch=2.4.0", "cuda-version=12.4"], ("2.4.0", Accelerator.CUDA, "12.4")),
        (["pytorch=2.4.0", "cuda-version=12"], ("2.4.0", None, "None")),
        (["pytorch=2.4.0", "cpuonly"], ("2.4.0", Accelerator.CPU, "None")),
        (["pytorch=2.4.0=cuda126_py311h_300"], ("2.4.0", Accelerator.CUDA, "12.6")),
        (["pytorch=2.4.0=cpu_py311h_300"], ("2.4.0", Accelerator.CPU, "None")),
        (["pytorch=2.4.0"], ("2.4.0", None, "None")),
        (["pip", "pip:\n    - torch==2.4.0+cu121"], ("2.4.0+cu121", Accelerator.CUDA, "12.1")),
    ],
)
def test_the_build_behind_an_environment_file(
    lines: list[str], expected: tuple[str, Accelerator | None, str]
) -> None:
    environment = load(HEAD + "".join(f"  - {line}\n" for line in lines))
    assert torch(environment) == expected
    assert environment.manager is Manager.CONDA
    assert environment.interpreter is not None
    assert str(environment.interpreter.version) == "3.10"


def test_the_pip_section_is_read_as_pip_reads_it() -> None:
    text = HEAD + "  - pip:\n    - --extra-index-url https://download.pytorch.org/whl/cu121\n"
    environment = load(text + "    - torch==2.4.0\n    - -e .\n")
    assert environment.indexes == ("", "https://download.pytorch.org/whl/cu121")
    assert [(d.name, d.line) for d in environment.distributions or ()] == [
        ("local-project", 6),
        ("python", 2),
        ("torch", 5),
    ]


def test_explicit_lists_name_every_build() -> None:
    text = (
        "@EXPLICIT\nhttps://conda.example/pytorch/linux-64/"
        "pytorch-2.0.1-py3.10_cuda11.7_cudnn8.5.0_0.tar.bz2#abc\n"
    )
    assert torch(load(text, "list.txt")) == ("2.0.1", Accelerator.CUDA, "11.7")
    with pytest.raises(InputError, match=r"list\.txt:2: 'numpy' is not a package's address"):
        load("@EXPLICIT\nnumpy\n", "list.txt")


PIXI = """
[workspace]
platforms = ["linux-64"]
[dependencies]
python = "3.11.*"
pytorch = { version = "2.4.1", build = "*cuda126*" }
[pypi-dependencies]
xx = "==0.6.0"
here = { path = ".", editable = true }
[target.linux-64.dependencies]
numpy = "<2"
[target.win-64.dependencies]
winonly = "*"
"""


def test_pixi_projects() -> None:
    environment = load(PIXI, "pixi.toml")
    assert torch(environment) == ("2.4.1", Accelerator.CUDA, "12.6")
    names = {d.name for d in environment.distributions or ()}
    assert names == {"python", "torch", "xx", "local-project", "numpy"}


def test_pixi_locks() -> None:
    text = """version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: https://conda.example/linux-64/pytorch-2.5.1-cuda126_py312h_306.conda
      - pypi: https://files.example/einops-0.8.0-py3-none-any.whl
packages: []
"""
    environment = load(text, "pixi.lock")
    assert torch(environment) == ("2.5.1", Accelerator.CUDA, "12.6")
    other = text.replace("linux-64:", "osx-arm64:")
    gap = next(
        g
        for g in load_lockfile("pixi.lock", other, target=LINUX).gaps
        if g.fact == "environment.platform"
    )
    assert gap.reason is GapReason.MISMATCH


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\n", "has no list of dependencies"),
        ("dependencies:\n- a @ b\n", r"environment\.yml:2: 'a @ b' is not a requirement"),
        ("dependencies: &x\n- a\n", r"environment\.yml:1"),
    ],
)
def test_errors_name_file_and_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(text)


@settings(deadline=None)
@given(st.text(alphabet="pytorch=<>.,*2[]' :_/-#", max_size=60))
def test_any_spec_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        parse_conda_spec(text, 1, "e.yml:1")
