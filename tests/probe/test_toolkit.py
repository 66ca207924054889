"""The CUDA toolkit in torch's own order, and the compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.versions import CudaVersion
from envguard.probe.toolkit import (
    collect_toolkit,
    find_cuda_home,
    parse_dotted_version,
    parse_nvcc_version,
    read_release,
    start_toolkit,
)

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.machine import Toolkit
    from tests.stubs.machine import StubMachine

NVCC = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2024 NVIDIA Corporation
Built on Thu_Mar_28_02:18:24_PDT_2024
Cuda compilation tools, release 12.4, V12.4.131
Build cuda_12.4.r12.4/compiler.34097967_0
"""
VERSION_JSON = (
    '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}, "cuda_nvcc": {"version": "12.8.93"}}'
)


def ask(machine: StubMachine, *, all_sources: bool = False) -> tuple[Toolkit, tuple[Gap, ...]]:
    return collect_toolkit(start_toolkit(machine.options(all_sources=all_sources)))


def install(folder: Path, answer: str = "exit 1") -> Path:
    nvcc = folder / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\n{answer}\n")
    nvcc.chmod(0o755)
    return folder


def say(text: str) -> str:
    return f"/bin/cat <<'END'\n{text}END"


def test_cuda_home_comes_before_cuda_path_path_and_usr_local(stub_machine: StubMachine) -> None:
    usual = install(stub_machine.root / "usr/local/cuda")
    assert find_cuda_home(stub_machine.options()) == str(usual)
    on_path = install(stub_machine.folder / "on-path")
    stub_machine.environ["PATH"] += f":{on_path / 'bin'}"
    assert find_cuda_home(stub_machine.options()) == str(on_path)
    stub_machine.environ["CUDA_PATH"] = "/by/path"
    assert find_cuda_home(stub_machine.options()) == "/by/path"
    stub_machine.environ["CUDA_HOME"] = "/by/home"
    assert find_cuda_home(stub_machine.options()) == "/by/home"


def test_an_empty_variable_does_not_count(stub_machine: StubMachine) -> None:
    stub_machine.environ |= {"CUDA_HOME": "", "CUDA_PATH": ""}
    assert find_cuda_home(stub_machine.options()) is None


def test_a_toolkits_file_saves_running_nvcc(stub_machine: StubMachine) -> None:
    home = install(stub_machine.folder / "cuda", "kill -9 $$")
    (home / "version.json").write_text(VERSION_JSON)
    stub_machine.environ["CUDA_HOME"] = str(home)
    toolkit, _ = ask(stub_machine)
    assert toolkit.nvcc == CudaVersion(12, 8)
    assert toolkit.nvcc_path == str(home / "bin" / "nvcc")
    assert toolkit.cuda_home == str(home)


def test_nvcc_is_run_where_no_file_states_its_version(stub_machine: StubMachine) -> None:
    home = install(stub_machine.folder / "cuda", say(NVCC))
    stub_machine.environ["CUDA_HOME"] = str(home)
    toolkit, _ = ask(stub_machine)
    assert toolkit.nvcc == CudaVersion(12, 4)


def test_a_nvcc_that_dies_is_a_crash(stub_machine: StubMachine) -> None:
    stub_machine.environ["CUDA_HOME"] = str(install(stub_machine.folder / "cuda", "kill -11 $$"))
    toolkit, gaps = ask(stub_machine)
    assert toolkit.nvcc is None
    assert gaps[-1] == Gap(
        "machine.toolkit.nvcc", GapReason.CRASHED, "toolkit", "nvcc was ended by SIGSEGV"
    )


def test_a_nvcc_that_says_something_else_is_unreadable(stub_machine: StubMachine) -> None:
    stub_machine.environ["CUDA_HOME"] = str(install(stub_machine.folder / "cuda", "echo hello"))
    _, gaps = ask(stub_machine)
    assert gaps[-1].detail == "nvcc says: hello"


def test_a_home_without_nvcc_is_named(stub_machine: StubMachine) -> None:
    stub_machine.environ["CUDA_HOME"] = "/nowhere"
    toolkit, gaps = ask(stub_machine)
    assert toolkit.cuda_home == "/nowhere"
    assert gaps[0].detail == "no nvcc in /nowhere"
    assert gaps[0].reason is GapReason.ABSENT


def test_compilers_are_asked_only_with_all_sources(stub_machine: StubMachine) -> None:
    stub_machine.program("c++", "echo 13.2.0")
    stub_machine.program("ninja", "echo 1.11.1.git.kitware.jobserver-1")
    toolkit, gaps = ask(stub_machine)
    assert (toolkit.gcc, toolkit.ninja) == (None, None)
    reasons = {gap.fact: gap.reason for gap in gaps}
    assert reasons["machine.toolkit.gcc"] is GapReason.NOT_ASKED
    toolkit, _ = ask(stub_machine, all_sources=True)
    assert toolkit.gcc == Version("13.2.0")
    assert toolkit.ninja == Version("1.11.1")


def test_the_compiler_that_cxx_names_is_asked(stub_machine: StubMachine) -> None:
    stub_machine.program("g++-11", 'echo "11.4.0 $*"')
    stub_machine.environ["CXX"] = "g++-11 -m64"
    toolkit, _ = ask(stub_machine, all_sources=True)
    assert toolkit.gcc == Version("11.4.0")


def test_missing_compilers_are_absent(stub_machine: StubMachine) -> None:
    _, gaps = ask(stub_machine, all_sources=True)
    reasons = {gap.fact: gap.reason for gap in gaps}
    assert reasons["machine.toolkit.gcc"] is GapReason.ABSENT
    assert reasons["machine.toolkit.ninja"] is GapReason.ABSENT


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("version.json", VERSION_JSON, CudaVersion(12, 8)),
        ("version.json", '{"cuda": {"version": "11.1.0"}}', CudaVersion(11, 1)),
        ("version.txt", "CUDA Version 10.2.89\n", CudaVersion(10, 2)),
        ("version.json", "[]", None),
        ("version.json", '{"cuda": 12}', None),
        ("version.json", '{"cuda": {"version": 12.8}}', None),
        ("version.json", "{" * 5000, None),
        ("version.txt", "no version\n", None),
    ],
)
def test_release_files_are_read(
    tmp_path: Path, name: str, text: str, expected: CudaVersion | None
) -> None:
    (tmp_path / name).write_text(text)
    assert read_release(tmp_path) == expected


def test_nvcc_text_is_read() -> None:
    assert parse_nvcc_version(NVCC) == CudaVersion(12, 4)
    assert parse_nvcc_version("release notes") is None


def test_the_first_dotted_number_is_a_version() -> None:
    assert parse_dotted_version("c++ (Debian 12.2.0-14) 12.2.0\n") == Version("12.2.0")
    assert parse_dotted_version("none") is None
