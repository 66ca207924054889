"""The code and driver rules, on values written down from the vendors' pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.facts.machine import Driver, Host, OperatingSystem, Platform
from envguard.facts.versions import CodeTarget, ComputeCapability, CudaVersion, DriverVersion
from envguard.fit import CodeGrade, DriverGrade, cubin_runs, grade_code, grade_driver, ptx_covers
from envguard.matrix.loader import Matrix

LINUX = Host(platform=Platform(OperatingSystem.LINUX, "x86_64"))
WINDOWS = Host(platform=Platform(OperatingSystem.WINDOWS, "x86_64"))
MATRIX = Matrix.load()


def driver(version: str | None = None, cuda: str | None = None) -> Driver:
    return Driver(
        version=DriverVersion.parse(version) if version else None,
        cuda=CudaVersion.parse(cuda) if cuda else None,
    )


@pytest.mark.parametrize(
    ("target", "capability", "runtime", "runs"),
    [
        ("sm_80", "8.0", "12.8", True),
        ("sm_80", "8.6", "12.8", True),
        ("sm_86", "8.0", "12.8", False),
        ("sm_86", "8.9", "12.8", True),
        ("sm_90", "10.0", "12.8", False),
        ("sm_90a", "9.0", "12.8", True),
        ("sm_100a", "10.3", "13.0", False),
        ("sm_100f", "10.3", "13.0", True),
        ("sm_100f", "11.0", "13.0", False),
        ("sm_120", "12.1", "13.0", True),
        ("sm_120a", "12.1", "13.0", False),
        ("sm_120f", "12.1", "13.0", True),
        ("sm_60", "6.1", "11.8", True),
        ("sm_61", "6.0", "11.8", False),
        # integrated parts run only their own code ...
        ("sm_50", "5.3", "11.8", False),
        ("sm_60", "6.2", "11.8", False),
        ("sm_70", "7.2", "11.8", False),
        ("sm_80", "8.7", "12.6", False),
        ("sm_87", "8.7", "12.6", True),
        ("sm_87", "8.9", "12.6", False),
        # ... until CUDA 13.2, whose server code runs on them
        ("sm_80", "8.7", "13.2", True),
        ("sm_70", "7.2", "13.2", True),
        ("sm_75", "8.7", "13.2", False),
        # 10.1 was renamed 11.0
        ("sm_101", "11.0", "12.9", True),
        ("sm_110", "10.1", "13.0", True),
        ("sm_100", "10.1", "12.9", False),
    ],
)
def test_cubin_rule(target: str, capability: str, runtime: str, runs: bool) -> None:
    found = cubin_runs(
        CodeTarget.parse(target), ComputeCapability.parse(capability), CudaVersion.parse(runtime)
    )
    assert found is runs


@pytest.mark.parametrize(
    ("target", "capability", "covers"),
    [
        ("compute_70", "9.0", True),
        ("compute_90", "7.0", False),
        ("compute_90a", "10.0", False),
        ("compute_90a", "9.0", True),
        ("compute_100f", "10.3", True),
        ("compute_100f", "12.0", False),
    ],
)
def test_ptx_rule(target: str, capability: str, covers: bool) -> None:
    assert ptx_covers(CodeTarget.parse(target), ComputeCapability.parse(capability)) is covers


@pytest.mark.parametrize(
    ("version", "host", "cuda", "grade"),
    [
        ("570.26", LINUX, "12.8", DriverGrade.EXACT),
        ("569.99", LINUX, "12.8", DriverGrade.SAME_MAJOR),
        ("525.60.13", LINUX, "12.8", DriverGrade.SAME_MAJOR),
        ("525.60.12", LINUX, "12.8", DriverGrade.NO),
        ("580.65.06", LINUX, "13.0", DriverGrade.EXACT),
        ("580.65.06", LINUX, "13.2", DriverGrade.SAME_MAJOR),
        ("575.57.08", LINUX, "13.0", DriverGrade.NO),
        ("450.80.02", LINUX, "11.8", DriverGrade.SAME_MAJOR),
        ("450.51.06", LINUX, "11.8", DriverGrade.NO),
        ("615.10", LINUX, "11.8", DriverGrade.EXACT),
        ("470.182.03", LINUX, "12.1", DriverGrade.NO),
        ("528.33", WINDOWS, "12.8", DriverGrade.SAME_MAJOR),
        ("528.02", WINDOWS, "12.8", DriverGrade.NO),
        ("572.60", WINDOWS, "12.8", DriverGrade.EXACT),
        ("566.14", Host(platform=LINUX.platform, is_wsl=True), "12.8", DriverGrade.SAME_MAJOR),
    ],
)
def test_driver_grade_by_version(version: str, host: Host, cuda: str, grade: DriverGrade) -> None:
    fit = grade_driver(driver(version), host, CudaVersion.parse(cuda), MATRIX.drivers)
    assert fit.grade is grade


@pytest.mark.parametrize(
    ("api", "cuda", "grade"),
    [
        ("12.8", "12.8", DriverGrade.EXACT),
        ("12.2", "12.8", DriverGrade.SAME_MAJOR),
        ("11.4", "12.1", DriverGrade.NO),
        ("13.0", "11.8", DriverGrade.EXACT),
        ("11.0", "11.8", DriverGrade.UNKNOWN),
        ("10.1", "10.2", DriverGrade.NO),
    ],
)
def test_driver_grade_by_api_version_alone(api: str, cuda: str, grade: DriverGrade) -> None:
    fit = grade_driver(driver(cuda=api), LINUX, CudaVersion.parse(cuda), MATRIX.drivers)
    assert fit.grade is grade


def test_newer_api_than_the_branch_is_a_compatibility_libcuda() -> None:
    found = grade_driver(
        driver("535.161.08", "12.8"), LINUX, CudaVersion.parse("12.8"), MATRIX.drivers
    )
    assert found.grade is DriverGrade.FORWARD_COMPAT


def test_nothing_known_of_the_driver_is_unknown() -> None:
    found = grade_driver(Driver(), LINUX, CudaVersion.parse("12.8"), MATRIX.drivers)
    assert found.grade is DriverGrade.UNKNOWN
    assert str(found.floor) == "525.60.13"


@given(
    st.sampled_from(["11.8", "12.1", "12.4", "12.8", "13.0", "13.2"]),
    st.integers(440, 620),
    st.integers(0, 220),
    st.integers(0, 30),
)
def test_a_newer_driver_never_breaks_a_fit(cuda: str, branch: int, minor: int, step: int) -> None:
    runtime = CudaVersion.parse(cuda)
    order = [DriverGrade.NO, DriverGrade.SAME_MAJOR, DriverGrade.EXACT]
    old = grade_driver(driver(f"{branch}.{minor}.01"), LINUX, runtime, MATRIX.drivers).grade
    new = grade_driver(driver(f"{branch + step}.{minor}.01"), LINUX, runtime, MATRIX.drivers).grade
    assert order.index(new) >= order.index(old)


def test_ptx_needs_a_driver_that_can_compile_it() -> None:
    targets = (CodeTarget.parse("sm_80"), CodeTarget.parse("compute_80"))
    capability, runtime = ComputeCapability(9, 0), CudaVersion(12, 8)
    grades = {
        can_jit: grade_code(targets, capability, runtime, can_jit=can_jit).grade
        for can_jit in (True, False, None)
    }
    assert grades == {
        True: CodeGrade.JIT,
        False: CodeGrade.JIT_BLOCKED,
        None: CodeGrade.UNKNOWN,
    }


def test_unrecorded_ptx_cannot_help_an_older_gpu() -> None:
    targets = (CodeTarget.parse("sm_75"),)
    old = grade_code(targets, ComputeCapability(6, 1), None, can_jit=True, is_ptx_known=False)
    new = grade_code(targets, ComputeCapability(9, 0), None, can_jit=True, is_ptx_known=False)
    assert (old.grade, new.grade) == (CodeGrade.NONE, CodeGrade.UNKNOWN)
