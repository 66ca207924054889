"""Guards for every test: no real NVIDIA driver, no network; and machines made of stubs."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.stubs.compile import CUDA, NVML, build_library, compiler
from tests.stubs.machine import StubMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")  # noqa: S104 # compared, not bound
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NOWHERE = "http://127.0.0.1:9"  # the discard port: refused at once
_SMI = """#!/bin/sh
echo "the real nvidia-smi was run" >> "$ENVGUARD_TRESPASS_FILE"
exit 97
"""


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> None:
    """Tests send signals: what a nohup above them ignores would be ignored by every child."""
    for name in ("SIGHUP", "SIGTERM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def stub_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled stubs are kept for the session."""
    return tmp_path_factory.mktemp("stub-libraries")


@pytest.fixture(scope="session")
def guard_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries and a program that stand before the real ones and tell on whoever uses them."""
    folder = tmp_path_factory.mktemp("guard")
    (folder / "bin").mkdir()
    (folder / "lib").mkdir()
    smi = folder / "bin" / "nvidia-smi"
    smi.write_text(_SMI)
    smi.chmod(0o755)
    if compiler() and sys.platform == "linux":
        for name in (NVML, CUDA):
            build_library("guard.c", folder / "lib" / name)
    return folder


@pytest.fixture(autouse=True)
def no_real_driver(
    request: pytest.FixtureRequest, guard_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail a test that reaches a real NVML, libcuda or nvidia-smi, unless it is marked ``gpu``.

    A test that runs a command on this machine uses ``no_driver`` or ``stub_machine``.
    """
    if request.node.get_closest_marker("gpu"):
        yield
        return
    trespasses = guard_folder / "trespasses"
    trespasses.unlink(missing_ok=True)
    monkeypatch.setenv("ENVGUARD_TRESPASS_FILE", str(trespasses))
    monkeypatch.setenv("PATH", f"{guard_folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    libraries = [str(guard_folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, libraries)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    if trespasses.exists():
        words = sorted(set(trespasses.read_text().splitlines()))
        pytest.fail(f"{'; '.join(words)}; use the fixture no_driver or stub_machine")


@pytest.fixture(autouse=True)
def no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that connects beyond loopback, unless it is marked ``network``.

    Programs that a test runs are sent to a proxy that does not exist.
    """
    if request.node.get_closest_marker("network"):
        yield
        return
    reached: list[str] = []
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, _guarded(name, reached))
    for name in _PROXIES:
        monkeypatch.setenv(name, _NOWHERE)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "localhost,127.0.0.1,::1")
    yield
    if reached:
        pytest.fail(f"this test reached for the network: {', '.join(reached)}")


def _guarded(name: str, reached: list[str]) -> Callable[..., Any]:
    real = getattr(socket.socket, name)

    def guard(self: socket.socket, *args: Any) -> Any:
        address = args[-1]
        if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
            reached.append(f"{address[0]}:{address[1]}")
            raise RuntimeError(f"unmarked tests may not reach {address[0]}")
        return real(self, *args)

    return guard


@pytest.fixture
def stub_machine(tmp_path: Path, stub_libraries: Path) -> StubMachine:
    """A machine made of files, without driver until one is added; skips without a C compiler."""
    if compiler() is None or sys.platform != "linux":
        pytest.skip("stub libraries need Linux and a C compiler")
    return StubMachine(tmp_path / "machine", stub_libraries)


@pytest.fixture
def no_driver(stub_machine: StubMachine, monkeypatch: pytest.MonkeyPatch) -> StubMachine:
    """Make this process and its children see a machine without NVIDIA driver.

    More can be added to the machine that is returned: scripts are read when a child asks.
    """
    for name, value in stub_machine.environ.items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    script = stub_machine.program(
        "nvidia-smi",
        'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver." '
        "&& exit 9",
    )
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    return stub_machine
