from __future__ import annotations

import pytest

from envguard.binary.library import Library
from envguard.binary.modules import is_importable, loads_by_itself, several_builds
from tests.binary.build import Workshop, needs_compiler


@pytest.mark.parametrize(
    ("tag", "python", "expected"),
    [
        (None, "311", True),
        ("abi3", "311", True),
        ("cpython-311-x86_64-linux-gnu", "311", True),
        ("cpython-310-x86_64-linux-gnu", "311", False),
        ("cpython-313t-x86_64-linux-gnu", "313", False),
        ("cpython-313t-x86_64-linux-gnu", "313t", True),
        ("cpython-310-x86_64-linux-gnu", None, True),
        ("mpich", "311", False),
        ("pypy310-pp73-x86_64-linux-gnu", "311", False),
    ],
)
def test_suffixes_that_an_interpreter_imports(tag: str | None, python: str, expected: bool) -> None:
    assert is_importable(tag, python) is expected


@needs_compiler
@pytest.mark.parametrize(
    ("name", "defines", "expected"),
    [
        ("ext.cpython-311-x86_64-linux-gnu.so", "PyInit_ext", True),
        ("libtriton.so", "PyInit_libtriton", True),
        ("ext.so", "PyInit_other", False),
        ("ext.so.1", "PyInit_ext", False),
        ("libhelper.so", "helper", False),
        ("MPI.mpich.cpython-311-x86_64-linux-gnu.so", "PyInit_MPI", False),
        ("ext.cpython-312-x86_64-linux-gnu.so", "PyInit_ext", False),
    ],
)
def test_modules_that_an_import_loads(
    workshop: Workshop, name: str, defines: str, expected: bool
) -> None:
    path = workshop.library(name, f'extern "C" void *{defines}() {{ return 0; }}')
    assert loads_by_itself(str(path), Library(str(path)), "311") is expected


@needs_compiler
def test_a_library_that_needs_torch_but_registers_nothing_waits_for_others(
    workshop: Workshop,
) -> None:
    c10 = workshop.library("libc10.so")
    path = workshop.library("libdecoder.so", needs=[c10])
    assert not loads_by_itself(str(path), Library(str(path)), "311")
    path = workshop.library("_C.so", needs=[c10])
    assert loads_by_itself(str(path), Library(str(path)), "311")


def test_builds_that_differ_in_digits_are_alternatives() -> None:
    paths = [
        "/s/codec/lib_core4.so",
        "/s/codec/lib_core7.so",
        "/s/kernel/sm90/ops.abi3.so",
        "/s/kernel/sm100/ops.abi3.so",
        "/s/other/_C.so",
        "/s/another/_C.so",
        "/s/other/_C_flashattention.so",
    ]
    assert several_builds(paths) == set(paths[:4])
