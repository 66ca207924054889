"""One server, one matrix and one uv for all tests of locks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from envguard.cli.main import main
from envguard.facts.machine import Driver, Gpu, Host, Machine, Platform
from envguard.facts.versions import ComputeCapability, DriverVersion
from envguard.lock.companions import torch_family
from envguard.lock.package_index import IndexSettings
from envguard.lock.project import Problem
from envguard.lock.request import LockRequest, Target, parse_arguments
from envguard.lock.uv import Uv, find_uv
from envguard.matrix.loader import Matrix
from tests.loopback.index import LoopbackIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Lock = Callable[..., int]

LINUX = Platform.parse("linux-x86_64")
V100 = ("--gpu", "Tesla V100", "--driver", "535.104.05", "--glibc", "2.31")
TARGET = ("--platform", "linux-x86_64", "--python-version", "3.12")


@pytest.fixture(scope="session")
def index() -> Iterator[LoopbackIndex]:
    with LoopbackIndex() as server:
        yield server


@pytest.fixture(scope="session")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which uv has nothing but what the tests give it."""
    home = tmp_path_factory.mktemp("home")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "UV_CACHE_DIR": str(home / "cache"),
        "UV_HTTP_RETRIES": "0",
        "NO_PROXY": "127.0.0.1",
        "HTTP_PROXY": "http://127.0.0.1:9",  # the discard port: nothing beyond loopback is read
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


@pytest.fixture(scope="session")
def uv(environ: dict[str, str]) -> Uv:
    return find_uv(environ)


@pytest.fixture
def fresh_uv(environ: dict[str, str], tmp_path: Path) -> Uv:
    """A uv that has never read an index."""
    return find_uv({**environ, "UV_CACHE_DIR": str(tmp_path / "fresh-cache")})


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return Matrix.load()


@pytest.fixture
def lock(
    index: LoopbackIndex, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Lock:
    """Run the command in an empty folder against the loopback indexes."""
    for name, value in environ.items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    for name in ("ENVGUARD_TORCH_INDEX", "ENVGUARD_UV", "UV_CUDA_DRIVER_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENVGUARD_CACHE_DIR", str(tmp_path / "envguard-cache"))
    monkeypatch.setenv("ENVGUARD_RELEASE_BASE", index.releases)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def run(*words: str) -> int:
        return main(["lock", "--torch-index", index.torch, "--index-url", index.default, *words])

    return run


@pytest.fixture
def problem(index: LoopbackIndex, matrix: Matrix) -> Problem:
    return Problem(
        requirements=(Requirement("torch==2.14.1+cu126"),),
        torch_index=f"{index.address}/whl/cu126",
        target=Target(LINUX, Version("3.12"), Version("2.31")),
        family=torch_family(matrix),
        default_index=index.default,
    )


def v100(driver: str = "535.104.05", glibc: str = "2.31") -> Machine:
    return Machine(
        host=Host(platform=LINUX, glibc=Version(glibc)),
        driver=Driver(version=DriverVersion.parse(driver)),
        gpus=(Gpu(0, "Tesla V100-SXM2-16GB", ComputeCapability(7, 0)),),
    )


def h100(driver: str = "580.65.06") -> Machine:
    return Machine(
        host=Host(platform=LINUX, glibc=Version("2.35")),
        driver=Driver(version=DriverVersion.parse(driver)),
        gpus=(Gpu(0, "H100 PCIe", ComputeCapability(9, 0)),),
    )


def ask(
    index: LoopbackIndex,
    *words: str,
    machines: tuple[Machine, ...] = (),
    target: Target | None = None,
    torch: str = "",
) -> LockRequest:
    """A request to the loopback indexes for Linux, Python 3.12 and glibc 2.31."""
    return LockRequest(
        requirements=parse_arguments(words),
        target=target or Target(LINUX, Version("3.12"), Version("2.31")),
        machines=machines,
        indexes=IndexSettings(torch or index.torch, index.default),
    )
