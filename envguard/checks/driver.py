"""The driver family: is there one, does it list the GPUs, does it serve the build's CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    driver_evidence,
    gpu_evidence,
    gpu_words,
    torch_evidence,
    torch_words,
)
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import OperatingSystem
from envguard.matrix.fit import DriverFit, DriverGrade, driver_system, grade_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu, Machine
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.loader import Matrix


def _cuda_build(facts: Facts) -> tuple[TorchBuild, CudaVersion] | None:
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.cuda is None:
        return None
    return torch, torch.cuda


def has_driver(machine: Machine) -> bool:
    """Whether anything is known of a driver."""
    return machine.driver.version is not None or machine.driver.cuda is not None


def check_gpu_visible(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A CUDA build, or ``--require-gpu``, needs a driver and a GPU that it can see."""
    machine = facts.machine
    built_for_cuda = _cuda_build(facts) is not None
    if not (built_for_cuda or options.require_gpu):
        return
    missing_driver = machine.driver.is_loaded is False and not has_driver(machine)
    hidden = bool(machine.gpus) and not machine.selected_gpus
    if not (missing_driver or machine.gpus == () or hidden):
        return
    detail = _missing_gpu_words(facts, missing_driver=missing_driver, hidden=hidden)
    status = Status.FAIL if options.require_gpu else Status.WARN
    yield Finding(
        code="DRV003",
        cause="no-gpu-visible",
        status=status,
        title="no NVIDIA GPU is visible",
        detail=detail,
        evidence=driver_evidence(facts),
        remedy=_visibility_remedy(hidden=hidden),
    )


def _missing_gpu_words(facts: Facts, *, missing_driver: bool, hidden: bool) -> str:
    if hidden:
        value = facts.machine.variable("CUDA_VISIBLE_DEVICES")
        return f"every GPU is hidden by CUDA_VISIBLE_DEVICES={value!r}"
    gaps = [
        f"{gap.probe}: {gap.detail}"
        for gap in facts.gaps
        if gap.detail and gap.fact in {"machine.driver.version", "machine.driver", "machine.gpus"}
    ]
    said = f" ({'; '.join(dict.fromkeys(gaps))})" if gaps else ""
    what = "no NVIDIA driver is loaded" if missing_driver else "the driver lists no GPU"
    return f"{what} on this machine{said}; a CUDA build of torch runs on the CPU here"


def _visibility_remedy(*, hidden: bool) -> Remedy:
    if hidden:
        return Remedy("unset CUDA_VISIBLE_DEVICES, or name a GPU in it")
    return Remedy(
        "install the NVIDIA driver, or start the container with its GPUs (--gpus all); "
        "check `nvidia-smi` first"
    )


def check_driver_supports_gpus(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """A driver branch that no longer lists an architecture, or does not know it yet."""
    version = facts.machine.driver.version
    if version is None:
        return
    system = driver_system(facts.machine.host)
    for generation, gpus in _by_generation(facts, matrix).items():
        row = next(g for g in matrix.drivers.generations if g.name == generation)
        evidence = (*driver_evidence(facts), *gpu_evidence(facts, gpus[0]))
        if row.last_branch is not None and version.branch > row.last_branch:
            yield Finding(
                code="DRV004",
                cause="driver-branch-dropped-gpu",
                status=Status.FAIL if row.provenance.is_firm else Status.UNKNOWN,
                title=f"driver R{version.branch} no longer supports {row.name} GPUs",
                detail=f"{gpu_words(gpus)}: R{row.last_branch} is the last driver branch that "
                f"lists {row.name}; {version} ignores the device.",
                gpus=tuple(gpu.index for gpu in gpus),
                evidence=evidence,
                remedy=Remedy(f"install a driver of branch R{row.last_branch}"),
                source=row.provenance.source,
            )
        first = row.first_driver_linux
        if first is not None and version < first and system is OperatingSystem.LINUX:
            yield Finding(
                code="DRV005",
                cause="driver-too-old-for-gpu",
                status=Status.FAIL if row.provenance.is_firm else Status.WARN,
                title=f"driver {version} is older than {row.name}",
                detail=f"{gpu_words(gpus)}: {first} is the first driver that knows {row.name}.",
                gpus=tuple(gpu.index for gpu in gpus),
                evidence=evidence,
                remedy=Remedy(f"install driver {first} or newer"),
                source=row.provenance.source,
            )


def _by_generation(facts: Facts, matrix: Matrix) -> dict[str, tuple[Gpu, ...]]:
    found: dict[str, tuple[Gpu, ...]] = {}
    for gpu in facts.machine.selected_gpus:
        row = matrix.drivers.generation_of(gpu.capability) if gpu.capability else None
        if row is not None:
            found[row.name] = (*found.get(row.name, ()), gpu)
    return found


def check_driver_serves_cuda(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """The driver against the CUDA runtime that torch was built with, by grade."""
    build = _cuda_build(facts)
    if build is None:
        return
    torch, cuda = build
    machine = facts.machine
    if machine.gpus == () or (machine.driver.is_loaded is False and not has_driver(machine)):
        return  # no-gpu-visible speaks of it
    fit = grade_driver(machine.driver, machine.host, cuda, matrix.drivers)
    evidence = (*torch_evidence(torch), *driver_evidence(facts))
    match fit.grade:
        case DriverGrade.EXACT:
            yield Finding(
                "DRV000",
                "driver-serves-cuda",
                Status.OK,
                f"the driver serves CUDA {cuda}",
                evidence=evidence,
                source=fit.source,
            )
        case DriverGrade.SAME_MAJOR:
            yield _same_major(facts, torch, cuda, fit, options)
        case DriverGrade.FORWARD_COMPAT:
            yield Finding(
                "DRV007",
                "forward-compat-libcuda",
                Status.WARN,
                f"CUDA {cuda} is served through a compatibility libcuda",
                "A cuda-compat package supplies a newer user-mode driver than the kernel module's. "
                "This is supported on data-center GPUs only.",
                package="torch",
                evidence=evidence,
                source=fit.source,
            )
        case DriverGrade.NO:
            yield _too_old(facts, torch, cuda, fit, _api_of(machine, matrix))
        case DriverGrade.UNKNOWN:
            yield _unknown_driver(facts, torch, cuda, fit)


def _api_of(machine: Machine, matrix: Matrix) -> CudaVersion | None:
    version = machine.driver.version
    if machine.driver.cuda is not None or version is None:
        return machine.driver.cuda
    return matrix.drivers.cuda_of_driver(version, driver_system(machine.host))


def _driver_text(facts: Facts) -> str:
    driver = facts.machine.driver
    if driver.version is not None:
        api = f" (CUDA {driver.cuda})" if driver.cuda else ""
        return f"driver {driver.version}{api}"
    return f"a driver for CUDA {driver.cuda}"


def _same_major(
    facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit, options: CheckOptions
) -> Finding:
    exact = fit.exact or "a newer driver"
    return Finding(
        code="DRV006",
        cause="minor-compat-feature-gap",
        status=Status.FAIL if options.exact_driver else Status.WARN,
        title=f"CUDA {cuda} runs on {_driver_text(facts)} through minor-version compatibility",
        detail=f"{torch_words(torch)} works on this driver, except what needs the newer one: "
        "code that is only there as PTX cannot be compiled, and features new in "
        f"CUDA {cuda} are missing. From driver {exact} everything works.",
        package="torch",
        evidence=(*torch_evidence(torch), *driver_evidence(facts)),
        remedy=Remedy(f"nothing, or install driver {exact} or newer"),
        source=fit.source,
    )


def _too_old(
    facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit, api: CudaVersion | None
) -> Finding:
    needed = fit.floor or fit.exact
    bound = f"driver {needed}" if needed else "a newer driver"
    same_major = api is not None and api.major == cuda.major
    return Finding(
        code="DRV002" if same_major else "DRV001",
        cause="driver-too-old-for-cuda" if same_major else "driver-too-old-for-cuda-major",
        status=Status.FAIL,
        title=f"{_driver_text(facts)} cannot serve CUDA {cuda}",
        detail=f"{torch_words(torch)} carries CUDA {cuda}, which needs {bound} or newer. "
        "torch.cuda.is_available() is False here, or the first CUDA call crashes.",
        package="torch",
        evidence=(*torch_evidence(torch), *driver_evidence(facts)),
        remedy=Remedy(f"install {bound} or newer, or a torch build for an older CUDA"),
        source=fit.source,
    )


def _unknown_driver(facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit) -> Finding:
    needed = fit.floor or fit.exact
    bound = f"driver {needed} or newer" if needed else "a driver that the matrix does not state"
    gap = facts.gap("machine.driver.version")
    mismatch = gap is not None and gap.reason is GapReason.MISMATCH
    said = f": {gap.detail}" if gap is not None and gap.detail else ""
    return Finding(
        code="DRV008",
        cause="nvml-kernel-userspace-mismatch" if mismatch else "driver-not-known",
        status=Status.FAIL if mismatch else Status.UNKNOWN,
        title=f"the driver's version is not known{said}",
        detail=f"{torch_words(torch)} carries CUDA {cuda} and needs {bound}.",
        package="torch",
        evidence=torch_evidence(torch),
        remedy=Remedy("state it with --driver, or read it with nvidia-smi"),
        source=fit.source,
    )
