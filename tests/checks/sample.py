"""Facts for tests of single checks: a healthy machine and environment, changed where it matters."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import CheckOptions
from envguard.facts.environment import (
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
    label_of_version,
)
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import (
    ContainerKind,
    Driver,
    Gpu,
    Host,
    Limits,
    Machine,
    Platform,
    Reading,
)
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.facts.findings import Finding

    Check = Callable[[Facts, Matrix, CheckOptions], Iterator[Finding]]

GIB = 1024**3
LINUX = Platform.parse("linux-x86_64")


@cache
def tables() -> Matrix:
    """The shipped matrix, loaded once."""
    return Matrix.load()


def run(check: Check, facts: Facts, *, require_gpu: bool = False) -> list[Finding]:
    """What one check finds."""
    return list(check(facts, tables(), CheckOptions(require_gpu=require_gpu)))


def said(check: Check, facts: Facts) -> list[tuple[str, str, str]]:
    """Code, cause and status of what one check finds."""
    return [(f.code, f.cause, f.status.value) for f in run(check, facts)]


def gpu(name: str, capability: str, index: int = 0, **fields: object) -> Gpu:
    """A GPU; further fields by name."""
    base = Gpu(index, name=name, capability=ComputeCapability.parse(capability))
    return replace(base, **fields)  # type: ignore[arg-type]  # fields of Gpu by contract


H100 = gpu("NVIDIA H100 80GB HBM3", "9.0", memory_bytes=80 * GIB)
GEFORCE = gpu("NVIDIA GeForce RTX 3090", "8.6")


def machine(
    *gpus: Gpu,
    driver: str | None = "580.95.05",
    cuda: str | None = "13.0",
    container: ContainerKind | None = ContainerKind.NONE,
    variables: dict[str, str] | None = None,
    **fields: object,
) -> Machine:
    """A Linux machine with a loaded driver; further fields of Driver by name."""
    base = Driver(
        version=DriverVersion.parse(driver) if driver else None,
        cuda=CudaVersion.parse(cuda) if cuda else None,
        is_loaded=driver is not None,
    )
    return Machine(
        host=Host(platform=LINUX, glibc=Version("2.35"), is_wsl=False, container=container),
        driver=replace(base, **fields),  # type: ignore[arg-type]  # fields of Driver by contract
        gpus=gpus,
        limits=Limits(ram_bytes=512 * GIB, shm_bytes=256 * GIB),
        variables=tuple(sorted((variables or {}).items())),
    )


def torch_build(version: str = "2.9.1+cu130", **fields: object) -> TorchBuild:
    """A build as its version file states it; further fields by name."""
    parsed = Version(version)
    label = label_of_version(parsed)
    base = TorchBuild(
        version=parsed,
        accelerator=label.accelerator,
        cuda=label.cuda,
        origin=BuildOrigin.VERSION_FILE,
        location="/srv/env/lib/python3.12/site-packages/torch",
    )
    return replace(base, **fields)  # type: ignore[arg-type]  # fields of TorchBuild by contract


def distribution(
    name: str, version: str, location: str = "/srv/env/lib/python3.12/site-packages"
) -> Distribution:
    """An installed distribution."""
    return Distribution(name, Version(version), location, "pip")


def environment(torch: TorchBuild | None = None, *found: Distribution) -> Environment:
    """An environment with Python 3.12, a torch and distributions."""
    build = torch or torch_build()
    listed = found or (distribution("torch", str(build.version)),)
    interpreter = Interpreter(version=Version("3.12.3"), prefix="/srv/env")
    return Environment(interpreter, listed, build, Manager.PIP)


def pinned(version: str, *, python: str = "3.12") -> Environment:
    """An environment that is only pinned."""
    build = torch_build(version, origin=BuildOrigin.PIN, location=None)
    found = Distribution("torch", build.version)
    return Environment(Interpreter(version=Version(python)), (found,), build)


def facts(
    on: Machine | None = None,
    env: Environment | None = None,
    *,
    readings: tuple[tuple[str, str, str], ...] = (),
    gaps: tuple[Gap, ...] = (),
) -> Facts:
    """Facts with readings as (fact, value, probe)."""
    base = on if on is not None else machine(H100)
    words = tuple(Reading(*reading) for reading in readings)
    return Facts(
        replace(base, readings=words),
        env if env is not None else environment(),
        gaps,
        "2026-11-29T00:00:00Z",
    )


def gap(fact: str, reason: GapReason, probe: str, detail: str = "") -> Gap:
    """A gap about the machine, e.g. ``gap("gpus", ...)``."""
    return Gap(f"machine.{fact}", reason, probe, detail)
