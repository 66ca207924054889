from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.checks.host import check_library_path, check_preload
from tests.checks.sample import (
    H100,
    distribution,
    environment,
    facts,
    machine,
    run,
    said,
    torch_build,
)

if TYPE_CHECKING:
    from envguard.facts.environment import Environment

CU124 = environment(
    torch_build("2.5.1+cu124"),
    distribution("torch", "2.5.1+cu124"),
    distribution("nvidia-nvjitlink-cu12", "12.4.127"),
    distribution("nvidia-cudnn-cu12", "9.1.0.70"),
)
FOLDER = "/usr/local/cuda-12.1/lib64"


def shadow(*names: str, env: Environment = CU124) -> list[tuple[str, str, str]]:
    on = machine(H100, variables={"LD_LIBRARY_PATH": FOLDER})
    files = tuple(f"{FOLDER}/{name}" for name in names)
    return said(check_library_path, facts(replace(on, library_path_files=files), env))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("libnvJitLink.so.12.1.105", "fail"),  # libcusparse asks for symbols of 12.4 by name
        ("libnvJitLink.so.12.4.99", "warn"),
        ("libnvJitLink.so.12.4.127", None),
        ("libnvJitLink.so.12.8.61", None),
        ("libnvJitLink.so.13.0.39", None),  # another soname: the loader passes it over
        ("libnvJitLink.so.12", None),  # says nothing; what it links to is listed too
        ("libcudnn_ops.so.9.0.0", "warn"),
        ("libcudnn.so.8.9.7", None),
        ("libcublas.so.12.1.3.1", None),  # libtorch finds its own by DT_RPATH first
        ("libcudart.so.12.1.105", None),
    ],
)
def test_older_copies_before_those_of_the_wheels(name: str, status: str | None) -> None:
    expected = [("HST004", "ld-library-path-shadow", status)] if status else []
    assert shadow(name) == expected


def test_the_versions_are_said() -> None:
    on = machine(H100, variables={"LD_LIBRARY_PATH": FOLDER})
    path = f"{FOLDER}/libnvJitLink.so.12.1.105"
    (finding,) = run(check_library_path, facts(replace(on, library_path_files=(path,)), CU124))
    assert finding.detail.startswith(f"{path} is 12.1.105, the wheel's is 12.4.127.")


def test_without_wheels_there_is_nothing_to_shadow() -> None:
    bare = environment(torch_build("2.5.1+cu124"), distribution("torch", "2.5.1+cu124"))
    assert shadow("libnvJitLink.so.12.1.105", env=bare) == []
    cpu = environment(torch_build("2.5.1+cpu"), distribution("nvidia-nvjitlink-cu12", "12.4.127"))
    assert shadow("libnvJitLink.so.12.1.105", env=cpu) == []


def test_cuda_13_wheels_have_no_suffix() -> None:
    env = environment(torch_build("2.11.0+cu130"), distribution("nvidia-nvjitlink", "13.0.88"))
    assert shadow("libnvJitLink.so.13.0.39", env=env) == [
        ("HST004", "ld-library-path-shadow", "warn")
    ]


def test_a_path_that_was_not_listed_is_not_judged() -> None:
    assert said(check_library_path, facts(env=CU124)) == []


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("/usr/lib/libnccl.so.2", "nccl-shadowed"),
        (
            "/usr/local/cuda/lib64/libcudart.so.12 /usr/lib/libtcmalloc.so.4",
            "ld-library-path-shadow",
        ),
        ("/usr/lib/libtcmalloc.so.4:/usr/lib/libiomp5.so", None),
        ("", None),
    ],
)
def test_preloaded_libraries(value: str, cause: str | None) -> None:
    on = machine(H100, variables={"LD_PRELOAD": value})
    expected = [("HST005", cause, "warn")] if cause else []
    assert said(check_preload, facts(on)) == expected
