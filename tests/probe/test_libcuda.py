"""The user-mode driver: its version, forward compatibility, stubs, crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Reading
from envguard.facts.versions import CudaVersion, DriverVersion
from envguard.probe.child import ChildResult
from envguard.probe.libcuda import collect_libcuda, parse_libcuda
from envguard.probe.start import start_libcuda
from tests.stubs.machine import GIB, StubGpu, StubMachine

if TYPE_CHECKING:
    from envguard.probe.answers import SourceAnswer

H100 = StubGpu(
    "NVIDIA H100 80GB HBM3", "9.0", 80 * GIB, "0123456789abcdef0123456789abcdef", "", None
)


def ask(machine: StubMachine, *, timeout_s: float = 20.0, cuda_init: bool = False) -> SourceAnswer:
    options = machine.options(timeout_s=timeout_s, cuda_init=cuda_init)
    return collect_libcuda(start_libcuda(options))


def only_gap(said: SourceAnswer) -> Gap:
    (gap,) = said.gaps
    return gap


def test_the_cuda_version_is_read_without_init(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(cuda=12080, do={"cuInit": "abort"})
    said = ask(stub_machine)
    assert said.driver.cuda == CudaVersion(12, 8)
    assert said.driver.compat_libcuda is None
    assert said.gaps == ()


def test_the_release_is_in_the_name_of_the_real_file(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(cuda=12080, release="570.124.06")
    said = ask(stub_machine)
    assert said.driver.user_mode_version == DriverVersion.parse("570.124.06")
    path = str(stub_machine.lib / "libcuda.so.570.124.06")
    assert Reading("driver.libcuda", path, "libcuda") in said.readings


@pytest.mark.parametrize("folder", ["compat", "cuda-compat", "compat_orin"])
def test_a_forward_compatibility_library_is_recognised_and_tried(
    stub_machine: StubMachine, folder: str
) -> None:
    stub_machine.libcuda(
        cuda=13000,
        release="580.65.06",
        do={"cuInit": "804"},
        errors={804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
    )
    moved = stub_machine.lib.rename(stub_machine.folder / folder)
    stub_machine.environ["LD_LIBRARY_PATH"] = str(moved)
    said = ask(stub_machine)
    assert said.driver.compat_libcuda == str(moved / "libcuda.so.580.65.06")
    assert said.driver.cuda == CudaVersion(13, 0)
    words = "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)"
    assert Reading("driver.cuda_init", words, "libcuda") in said.readings


def test_init_lists_the_devices_in_cudas_own_order(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(H100, cuda=12080)
    said = ask(stub_machine, cuda_init=True)
    assert said.gpus is None
    words = {r.fact: r.value for r in said.readings}
    assert words["driver.cuda_init"] == "CUDA_SUCCESS (0)"
    assert words["cuda.count"] == "1"
    assert words["cuda[0].name"] == "NVIDIA H100 80GB HBM3"
    assert words["cuda[0].capability"] == "9.0"
    assert words["cuda[0].memory_bytes"] == "85899345920"
    assert words["cuda[0].uuid"] == "GPU-01234567-89ab-cdef-0123-456789abcdef"


def test_an_init_error_without_name_keeps_its_number(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(do={"cuInit": "802"})
    said = ask(stub_machine, cuda_init=True)
    assert Reading("driver.cuda_init", "CUDA_ERROR 802 (802)", "libcuda") in said.readings


def test_a_crash_in_init_keeps_the_version(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(cuda=12080, do={"cuInit": "segfault"})
    said = ask(stub_machine, cuda_init=True)
    assert said.driver.cuda == CudaVersion(12, 8)
    gap = only_gap(said)
    assert (gap.fact, gap.reason) == ("machine.driver.cuda_init", GapReason.CRASHED)
    assert gap.detail.endswith("SIGSEGV")


def test_a_toolkits_link_stub_is_no_driver(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(do={"cuDriverGetVersion": "34"}, errors={34: "CUDA_ERROR_STUB_LIBRARY"})
    said = ask(stub_machine)
    assert said.driver.cuda is None
    gap = only_gap(said)
    assert gap.reason is GapReason.UNREADABLE
    assert gap.detail.endswith("cuDriverGetVersion: CUDA_ERROR_STUB_LIBRARY (34)")


def test_version_zero_is_no_version(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(cuda=None)
    said = ask(stub_machine)
    assert said.driver.cuda is None
    assert only_gap(said).detail.endswith("it reports CUDA 0")


def test_a_library_without_the_version_call_is_unreadable(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(without=("cuDriverGetVersion",))
    assert only_gap(ask(stub_machine)).detail.endswith("it has no cuDriverGetVersion")


@pytest.mark.parametrize("function", ["load", "cuDriverGetVersion"])
@pytest.mark.parametrize(("word", "signal"), [("segfault", "SIGSEGV"), ("abort", "SIGABRT")])
def test_a_crash_names_the_signal(
    stub_machine: StubMachine, function: str, word: str, signal: str
) -> None:
    stub_machine.libcuda(do={function: word})
    gap = only_gap(ask(stub_machine))
    assert (gap.fact, gap.reason) == ("machine.driver.cuda", GapReason.CRASHED)
    assert gap.detail.endswith(f"was ended by {signal}")


def test_a_hang_is_timed_out(stub_machine: StubMachine) -> None:
    stub_machine.libcuda(do={"load": "hang"})
    assert only_gap(ask(stub_machine, timeout_s=1.0)).reason is GapReason.TIMED_OUT


def test_an_unloadable_library_is_unreadable(stub_machine: StubMachine) -> None:
    library = stub_machine.lib / "libcuda.so.1"
    library.unlink()
    library.write_bytes(b"MZ this is for another system" * 40)
    gap = only_gap(ask(stub_machine))
    assert gap.reason is GapReason.UNREADABLE
    assert "libcuda.so.1" in gap.detail


def test_a_missing_library_is_absent() -> None:
    words = "libcuda.so.1: cannot open shared object file: No such file or directory"
    gap = only_gap(parse_libcuda(ChildResult("python", 0, f"{{'missing': '{words}'}}\n")))
    assert gap == Gap("machine.driver.cuda", GapReason.ABSENT, "libcuda", words)
