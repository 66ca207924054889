"""The guards of the test suite themselves: they must catch what they are for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SUITE = Path(__file__).resolve().parents[1]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(SUITE)!r})
from tests.conftest import *
"""


def outcomes(pytester: pytest.Pytester, test: str) -> dict[str, int]:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    gpu: x\n    network: x\n")
    pytester.makepyfile(test)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider").parseoutcomes()


@pytest.mark.parametrize("library", ["libnvidia-ml.so.1", "libcuda.so.1"])
@pytest.mark.skipif(sys.platform != "linux", reason="the guard libraries are Linux ones")
def test_loading_a_driver_library_in_a_child_fails_the_test(
    pytester: pytest.Pytester, library: str
) -> None:
    test = f"""
    import subprocess, sys
    def test_it():
        subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('{library}')"])
    """
    assert outcomes(pytester, test) == {"passed": 1, "errors": 1}


def test_running_nvidia_smi_fails_the_test(pytester: pytest.Pytester) -> None:
    test = """
    import subprocess
    def test_it():
        subprocess.run(["nvidia-smi"])
    """
    assert outcomes(pytester, test) == {"passed": 1, "errors": 1}


def test_connecting_beyond_loopback_fails_the_test(pytester: pytest.Pytester) -> None:
    test = """
    import socket
    def test_it():
        with socket.socket() as s:
            s.connect(("192.0.2.1", 80))
    """
    assert outcomes(pytester, test) == {"failed": 1, "errors": 1}


def test_a_swallowed_attempt_still_fails_the_test(pytester: pytest.Pytester) -> None:
    test = """
    import contextlib, socket
    def test_it():
        with contextlib.suppress(Exception), socket.socket() as s:
            s.connect(("192.0.2.1", 80))
    """
    assert outcomes(pytester, test) == {"passed": 1, "errors": 1}


def test_loopback_is_free(pytester: pytest.Pytester) -> None:
    test = """
    import socket
    def test_it():
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()):
                pass
    """
    assert outcomes(pytester, test) == {"passed": 1}


def test_a_machine_without_driver_is_no_trespass(pytester: pytest.Pytester) -> None:
    test = """
    from envguard.probe import ProbeOptions, probe_machine
    def test_it(no_driver):
        machine, gaps = probe_machine(ProbeOptions(all_sources=True))
        assert not machine.gpus
        assert "NVML_ERROR_DRIVER_NOT_LOADED" in str(gaps)
        assert "couldn't communicate" in str(gaps)
    """
    assert outcomes(pytester, test) == {"passed": 1}
