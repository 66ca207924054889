"""The ladder of builds: newest torch that serves every machine, with reasons against the rest."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.backend import BuildRequirements, nearest_build, rank_builds
from envguard.facts.machine import Driver, Gpu, Host, Machine, OperatingSystem, Platform
from envguard.facts.versions import Backend, ComputeCapability, DriverVersion
from envguard.fit import DriverGrade
from envguard.matrix.loader import Matrix

LINUX = Platform(OperatingSystem.LINUX, "x86_64")
MATRIX = Matrix.load()


def machine(*capabilities: str, driver: str | None = None, glibc: str = "2.35") -> Machine:
    return Machine(
        host=Host(platform=LINUX, glibc=Version(glibc)),
        driver=Driver(version=DriverVersion.parse(driver) if driver else None),
        gpus=tuple(
            Gpu(i, name=f"GPU of {text}", capability=ComputeCapability.parse(text))
            for i, text in enumerate(capabilities)
        ),
    )


def best(wish: BuildRequirements, *machines: Machine) -> str | None:
    candidate = rank_builds(wish, machines, MATRIX).best
    return candidate.build.label if candidate else None


@pytest.mark.parametrize(
    ("capabilities", "driver", "label"),
    [
        (("6.1",), "580.65.06", "2.14.1+cu126"),
        (("6.1",), None, "2.14.1+cu126"),
        (("7.0",), "535.104.05", "2.14.1+cu126"),
        (("9.0",), "570.133.20", "2.14.1+cu126"),
        (("9.0",), "595.58.03", "2.15.0+cu132"),
        (("9.0",), "580.65.06", "2.15.0+cu130"),
        (("12.0",), "570.133.20", "2.13.0+cu129"),
    ],
)
def test_newest_torch_with_a_fitting_build(
    capabilities: tuple[str, ...], driver: str | None, label: str
) -> None:
    assert best(BuildRequirements(LINUX), machine(*capabilities, driver=driver)) == label


def test_kepler_is_served_within_its_bounds() -> None:
    wish = BuildRequirements(LINUX, torch=SpecifierSet("<2.1"))
    assert best(wish, machine("3.7", driver="470.256.02")) == "2.0.1+cu118"


def test_one_build_for_two_machines() -> None:
    old, new = machine("7.0", driver="535.104.05"), machine("9.0", driver="595.58.03")
    assert best(BuildRequirements(LINUX), old, new) == "2.14.1+cu126"


def test_no_build_for_two_machines_keeps_the_reasons() -> None:
    ladder = rank_builds(
        BuildRequirements(LINUX), (machine("7.0", driver="580.65.06"), machine("12.0")), MATRIX
    )
    newest = ladder.rejected[0]
    assert newest.build.label == "2.15.0+cu132"
    assert any("compute capability 7.0" in reason for reason in newest.reasons)


def test_exact_only_refuses_minor_version_compatibility() -> None:
    wish = BuildRequirements(LINUX, torch=SpecifierSet("==2.6.0"), exact_only=True)
    assert best(wish, machine("8.0", driver="535.104.05")) == "2.6.0+cu118"
    wish = BuildRequirements(LINUX, torch=SpecifierSet("==2.6.0"))
    assert best(wish, machine("8.0", driver="535.104.05")) == "2.6.0+cu118"
    assert best(wish, machine("8.0", driver="570.26")) == "2.6.0+cu126"


def test_a_single_backend_can_be_asked_for() -> None:
    wish = BuildRequirements(LINUX, torch=SpecifierSet("<2.8"), backend=Backend.parse("cu126"))
    assert best(wish, machine("8.0", driver="570.26")) == "2.7.1+cu126"


def test_cpu_only_when_asked_for_or_without_gpu() -> None:
    assert best(BuildRequirements(LINUX), Machine(host=Host(platform=LINUX), gpus=())) is None
    wish = BuildRequirements(LINUX, allow_cpu=True)
    assert best(wish, Machine(host=Host(platform=LINUX), gpus=())) == "2.15.0+cpu"
    assert best(wish, machine("3.0", driver="470.82.01")) == "2.15.0+cpu"


def test_old_glibc_and_python_bound_the_choice() -> None:
    ladder = rank_builds(
        BuildRequirements(LINUX, python_tag="cp39"),
        (machine("8.0", driver="570.26", glibc="2.17"),),
        MATRIX,
    )
    assert ladder.best is not None
    assert ladder.best.build.version <= Version("2.6.0")
    reasons = {reason for rejected in ladder.rejected for reason in rejected.reasons}
    assert "needs glibc 2.28, the machine has 2.17" in reasons
    assert any(reason.startswith("no cp39 wheel") for reason in reasons)


def test_unknown_driver_is_graded_unknown() -> None:
    ladder = rank_builds(BuildRequirements(LINUX), (machine("9.0"),), MATRIX)
    assert ladder.best is not None
    assert ladder.best.grade is DriverGrade.UNKNOWN


def test_a_driver_that_is_not_known_is_at_least_as_new_as_the_gpu() -> None:
    """An RTX 5090 runs on 570 and newer: CUDA 13 would need 580, CUDA 12.8 and 12.9 do not."""
    matrix = Matrix.load()
    platform = Platform(OperatingSystem.LINUX, "x86_64")
    gpus = (Gpu(index=0, name="RTX 5090", capability=ComputeCapability(12, 0)),)
    machine = Machine(host=Host(platform=platform), gpus=gpus)
    found = nearest_build(None, BuildRequirements(platform), (machine,), matrix)
    assert found is not None
    assert found.build.backend.cuda is not None
    assert found.build.backend.cuda.major == 12
    assert "570.26" in found.why
