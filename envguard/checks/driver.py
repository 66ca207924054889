"""The driver family: does it list the GPUs, serve the build's CUDA, in which state is it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.container import unsupported_gpus
from envguard.checks.context import (
    CheckOptions,
    cuda_build,
    cuda_error,
    driver_evidence,
    gpu_evidence,
    gpu_words,
    reading_evidence,
    readings_of,
    torch_evidence,
    torch_words,
    word_of,
)
from envguard.checks.presence import has_driver
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import KernelModule, OperatingSystem
from envguard.facts.sentences import say
from envguard.fit import DriverFit, DriverGrade, driver_system, grade_driver
from envguard.matrix.rows import MarketSegment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu, Machine
    from envguard.facts.versions import CudaVersion, DriverVersion
    from envguard.matrix.drivers import BranchSupport
    from envguard.matrix.loader import Matrix
    from envguard.matrix.machines import ModuleLimit
    from envguard.matrix.rows import Generation


_COMPAT_REFUSED = 804  # CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE


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
            yield _dropped(row, version, gpus, evidence)
        first = row.first_driver_linux
        if first is not None and version < first and system is OperatingSystem.LINUX:
            yield _not_yet_known(row, version, first, gpus, evidence)


def _dropped(
    row: Generation,
    version: DriverVersion,
    gpus: tuple[Gpu, ...],
    evidence: tuple[Evidence, ...],
) -> Finding:
    return Finding(
        code="DRV004",
        cause="driver-branch-dropped-gpu",
        status=Status.FAIL if row.provenance.is_firm else Status.UNKNOWN,
        title=say(
            "driver R{branch} no longer supports {generation} GPUs",
            branch=version.branch,
            generation=row.name,
        ),
        detail=say(
            "{gpu}: R{last_branch} is the last driver branch that lists "
            "{generation}; {version} ignores the device.",
            gpu=gpu_words(gpus),
            last_branch=row.last_branch,
            generation=row.name,
            version=version,
        ),
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=evidence,
        remedy=Remedy(
            say("install a driver of branch R{last_branch}", last_branch=row.last_branch)
        ),
        source=row.provenance.source,
    )


def _not_yet_known(
    row: Generation,
    version: DriverVersion,
    first: DriverVersion,
    gpus: tuple[Gpu, ...],
    evidence: tuple[Evidence, ...],
) -> Finding:
    return Finding(
        code="DRV005",
        cause="driver-too-old-for-gpu",
        status=Status.FAIL if row.provenance.is_firm else Status.WARN,
        title=say(
            "driver {version} is older than {generation}",
            version=version,
            generation=row.name,
        ),
        detail=say(
            "{gpu}: {first_driver} is the first driver that knows {generation}.",
            gpu=gpu_words(gpus),
            first_driver=first,
            generation=row.name,
        ),
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=evidence,
        remedy=Remedy(say("install driver {first_driver} or newer", first_driver=first)),
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
    build = cuda_build(facts)
    if build is None:
        return
    torch, cuda = build
    machine = facts.machine
    if machine.gpus == () or (machine.driver.is_loaded is False and not has_driver(machine)):
        return  # no-gpu-visible speaks of it
    fit = grade_driver(machine.driver, machine.host, cuda, matrix.drivers)
    evidence = (*torch_evidence(torch), *driver_evidence(facts))
    if fit.grade in {DriverGrade.NO, DriverGrade.UNKNOWN} and _has_started(facts):
        yield _started(facts, torch, cuda, fit)
        return
    match fit.grade:
        case DriverGrade.EXACT:
            yield Finding(
                "DRV000",
                "driver-serves-cuda",
                Status.OK,
                say("the driver serves CUDA {cuda}", cuda=cuda),
                evidence=evidence,
                source=fit.source,
            )
        case DriverGrade.SAME_MAJOR:
            yield _same_major(facts, torch, cuda, fit, options)
        case DriverGrade.FORWARD_COMPAT:
            yield from _forward_compat(facts, matrix, cuda, fit)
        case DriverGrade.NO:
            yield _too_old(facts, torch, cuda, fit, _api_of(machine, matrix))
        case DriverGrade.UNKNOWN:
            yield from _unknown_driver(facts, torch, cuda, fit)


_STARTED = "torch.cuda.is_available"


def _has_started(facts: Facts) -> bool:
    """Torch itself has started CUDA there, so the driver serves it, whatever its version says."""
    return word_of(facts, _STARTED) == "True"


def _started(facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit) -> Finding:
    is_older = fit.grade is DriverGrade.NO
    title = say("torch.cuda.is_available() was True: the driver serves it")
    detail = say(
        "What its version is, and so whether all of CUDA {cuda} works on it, is not stated.",
        cuda=cuda,
    )
    if is_older:
        title = say(
            "torch starts CUDA {cuda} although {driver} is too old for it",
            cuda=cuda,
            driver=_driver_text(facts),
        )
        detail = say(
            "torch.cuda.is_available() was True, so another libcuda than the driver's own is "
            "loaded: a cuda-compat package, as images bring it along, does that."
        )
    return Finding(
        code="DRV007" if is_older else "DRV000",
        cause="forward-compat-libcuda" if is_older else "driver-serves-cuda",
        status=Status.WARN if is_older else Status.OK,
        title=title,
        detail=detail,
        package="torch",
        evidence=(
            *torch_evidence(torch),
            *driver_evidence(facts),
            *reading_evidence(readings_of(facts, _STARTED)),
        ),
        source=fit.source,
    )


def _forward_compat(
    facts: Facts, matrix: Matrix, cuda: CudaVersion, fit: DriverFit
) -> Iterator[Finding]:
    """A compatibility libcuda in use; on GPUs that it is not made for, CTR001 speaks."""
    gpus, _ = unsupported_gpus(facts, matrix)
    starts = cuda_error(facts)
    if (gpus and starts != 0) or starts == _COMPAT_REFUSED:
        return
    is_known = bool(facts.machine.selected_gpus) and not gpus
    yield Finding(
        code="DRV007",
        cause="forward-compat-libcuda",
        status=Status.OK if starts == 0 or is_known else Status.WARN,
        title=say("CUDA {cuda} is served through a compatibility libcuda", cuda=cuda),
        detail="A cuda-compat package supplies a newer user-mode driver than the kernel module's. "
        "This is supported on data-center GPUs only.",
        package="torch",
        evidence=driver_evidence(facts),
        source=fit.source,
    )


def _api_of(machine: Machine, matrix: Matrix) -> CudaVersion | None:
    version = machine.driver.version
    if machine.driver.cuda is not None or version is None:
        return machine.driver.cuda
    return matrix.drivers.cuda_of_driver(version, driver_system(machine.host))


def _driver_text(facts: Facts) -> str:
    driver = facts.machine.driver
    if driver.version is not None:
        api = say(" (CUDA {cuda})", cuda=driver.cuda) if driver.cuda else ""
        return say("driver {version}{api}", version=driver.version, api=api)
    return say("a driver for CUDA {cuda}", cuda=driver.cuda)


def _same_major(
    facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit, options: CheckOptions
) -> Finding:
    exact = fit.exact or "a newer driver"
    return Finding(
        code="DRV006",
        cause="minor-compat-feature-gap",
        status=Status.FAIL if options.exact_driver else Status.WARN,
        title=say(
            "CUDA {cuda} runs on {driver} through minor-version compatibility",
            cuda=cuda,
            driver=_driver_text(facts),
        ),
        detail=say(
            "{torch} works on this driver, except what needs the newer one: code that is "
            "only there as PTX cannot be compiled, and features new in CUDA {cuda} are "
            "missing. From driver {needed} everything works.",
            torch=torch_words(torch),
            cuda=cuda,
            needed=exact,
        ),
        package="torch",
        evidence=(*torch_evidence(torch), *driver_evidence(facts)),
        remedy=Remedy(
            say("install driver {needed} or newer", needed=exact)
            if options.exact_driver
            else say("nothing, or install driver {needed} or newer", needed=exact)
        ),
        source=fit.source,
    )


def _too_old(
    facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit, api: CudaVersion | None
) -> Finding:
    needed = fit.floor or fit.exact
    bound = say("driver {needed} or newer", needed=needed) if needed else "a newer driver"
    same_major = api is not None and api.major == cuda.major
    return Finding(
        code="DRV002" if same_major else "DRV001",
        cause="driver-too-old-for-cuda" if same_major else "driver-too-old-for-cuda-major",
        status=Status.FAIL,
        title=say("{driver} cannot serve CUDA {cuda}", driver=_driver_text(facts), cuda=cuda),
        detail=say(
            "{torch} carries CUDA {cuda}, which needs {needed}. torch.cuda.is_available() is "
            "False here, or the first CUDA call crashes.",
            torch=torch_words(torch),
            cuda=cuda,
            needed=bound,
        ),
        package="torch",
        evidence=(*torch_evidence(torch), *driver_evidence(facts)),
        remedy=Remedy(say("install {needed}", needed=bound)),
        source=fit.source,
    )


def _unknown_driver(
    facts: Facts, torch: TorchBuild, cuda: CudaVersion, fit: DriverFit
) -> Iterator[Finding]:
    needed = fit.floor or fit.exact
    bound = (
        say("driver {needed} or newer", needed=needed)
        if needed
        else "a driver that the matrix does not state"
    )
    gap = facts.gap("machine.driver.version")
    if gap is not None and gap.reason is GapReason.MISMATCH:
        return  # NVM001 speaks of it
    said = f": {gap.detail}" if gap is not None and gap.detail else ""
    title = say("the driver's version is not known{reason}", reason=said)
    if facts.machine.driver.version is not None or facts.machine.driver.cuda is not None:
        title = say(
            "cannot tell whether {driver} serves CUDA {cuda}", driver=_driver_text(facts), cuda=cuda
        )
    yield Finding(
        code="DRV008",
        cause="driver-not-known",
        status=Status.UNKNOWN,
        title=title,
        detail=say(
            "{torch} carries CUDA {cuda} and needs {needed}.",
            torch=torch_words(torch),
            cuda=cuda,
            needed=bound,
        ),
        package="torch",
        evidence=torch_evidence(torch),
        remedy=Remedy("state the driver with --driver; nvidia-smi prints it")
        if facts.machine.driver.version is None
        else None,
        source=fit.source,
    )


_SYSTEM_NOT_READY = 802


def check_kernel_module(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The flavour of the kernel module against the GPUs: neither drives all of them."""
    flavour = facts.machine.driver.kernel_module
    if flavour is None or facts.machine.host.is_wsl or facts.machine.host.jetson:
        return
    refused: dict[ModuleLimit, list[Gpu]] = {}
    for gpu in facts.machine.gpus or ():
        if gpu.capability is None:
            continue
        row = matrix.machines.limit_of(flavour, gpu.capability, gpu.name or "")
        if row is not None:
            refused.setdefault(row, []).append(gpu)
    for row, gpus in refused.items():
        yield _wrong_flavour(facts, row, tuple(gpus))


def _wrong_flavour(facts: Facts, row: ModuleLimit, gpus: tuple[Gpu, ...]) -> Finding:
    other = "open" if row.flavour is KernelModule.PROPRIETARY else "proprietary"
    package = "nvidia-open" if other == "open" else "cuda-drivers"
    return Finding(
        code="DRV009",
        cause="kernel-module-flavour",
        status=Status.FAIL if row.provenance.is_firm else Status.WARN,
        title=say(
            "the {flavour} kernel module does not drive {gpu}",
            flavour=row.flavour.value,
            gpu=gpu_words(gpus),
        ),
        detail=say(
            "The module refuses the GPU when it is loaded; nvidia-smi then says 'No devices "
            "were found'. These GPUs need the {other_flavour} module of the same driver.",
            other_flavour=other,
        ),
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=(
            *driver_evidence(facts),
            *(reading_evidence(readings_of(facts, "driver.kernel_module")) or _stated(row)),
            *(e for gpu in gpus[:4] for e in gpu_evidence(facts, gpu)),
        ),
        remedy=Remedy(
            say(
                "install the driver with its {other_flavour} kernel module (package {package})",
                other_flavour=other,
                package=package,
            )
        ),
        source=row.provenance.source,
    )


def _stated(row: ModuleLimit) -> tuple[Evidence, ...]:
    return (Evidence("driver.kernel_module", row.flavour.value, "stated"),)


def check_fabric(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """GPUs behind NVSwitches start only after the fabric manager has joined them."""
    waiting = _waiting_gpus(facts)
    driver = facts.machine.driver
    is_missing = bool(driver.nvswitches) and driver.has_fabric_manager is False
    error = cuda_error(facts)
    if not (waiting or is_missing or error == _SYSTEM_NOT_READY):
        return
    readings = [r for gpu in waiting for r in readings_of(facts, f"gpu[{gpu.index}].fabric")]
    version = f" {driver.version}" if driver.version else ""
    yield Finding(
        code="DRV010",
        cause="fabric-manager-missing",
        status=Status.WARN if error == 0 else Status.FAIL,
        title=_fabric_title(facts, waiting, is_missing=is_missing),
        detail=say(
            "On an NVSwitch system CUDA fails with error 802 (system not yet initialized) "
            "until nvidia-fabricmanager runs, of exactly the driver's release{version}; "
            "nvidia-smi works all the same.",
            version=version,
        ),
        gpus=tuple(gpu.index for gpu in waiting),
        evidence=(
            *driver_evidence(facts),
            *reading_evidence((*readings, *readings_of(facts, "driver.cuda_init"))),
            *_switch_evidence(facts),
        ),
        remedy=Remedy(
            say("install nvidia-fabricmanager{version} and start it", version=version),
            ("systemctl", "enable", "--now", "nvidia-fabricmanager"),
        ),
        source=matrix.machines.source("fabric-manager"),
    )


def _waiting_gpus(facts: Facts) -> tuple[Gpu, ...]:
    """GPUs that know of a fabric and have not joined it."""
    return tuple(
        gpu
        for gpu in facts.machine.selected_gpus
        if word_of(facts, f"gpu[{gpu.index}].fabric") in {"Not Started", "In Progress"}
    )


def _switch_evidence(facts: Facts) -> tuple[Evidence, ...]:
    driver = facts.machine.driver
    pairs = (
        ("driver.nvswitches", driver.nvswitches or None),
        ("driver.has_fabric_manager", driver.has_fabric_manager),
    )
    return tuple(
        Evidence(fact, str(value).lower(), "procfs") for fact, value in pairs if value is not None
    )


def _fabric_title(facts: Facts, waiting: tuple[Gpu, ...], *, is_missing: bool) -> str:
    if is_missing:
        count = facts.machine.driver.nvswitches
        return say("this machine has {count} NVSwitches, and no fabric manager runs", count=count)
    if waiting:
        return say("{gpu} has not joined its NVSwitch fabric", gpu=gpu_words(waiting))
    return "CUDA says that the system is not ready (802): the NVSwitch fabric is not set up"


def check_vgpu(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Virtual GPUs: their licence where a source states it, and what they lack."""
    virtual = tuple(gpu for gpu in facts.machine.selected_gpus if gpu.is_virtual)
    unlicensed = tuple(
        gpu
        for gpu in facts.machine.selected_gpus
        if (word_of(facts, f"gpu[{gpu.index}].licence") or "").lower().startswith("unlicensed")
    )
    if unlicensed:
        yield _unlicensed(facts, matrix, unlicensed)
    if virtual:
        yield _virtual(facts, matrix, virtual)


def _unlicensed(facts: Facts, matrix: Matrix, gpus: tuple[Gpu, ...]) -> Finding:
    readings = [r for gpu in gpus for r in readings_of(facts, f"gpu[{gpu.index}].licence")]
    return Finding(
        code="DRV011",
        cause="vgpu-licence",
        status=Status.FAIL,
        title=say("{gpu} is a vGPU without a licence", gpu=gpu_words(gpus)),
        detail="An unlicensed vGPU is slowed down after some minutes and refuses CUDA contexts: "
        "'all CUDA-capable devices are busy or unavailable'.",
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=reading_evidence(readings),
        remedy=Remedy("point nvidia-gridd at the licence server and restart it"),
        source=matrix.machines.source("vgpu-licence"),
    )


def _virtual(facts: Facts, matrix: Matrix, gpus: tuple[Gpu, ...]) -> Finding:
    is_stated = any(readings_of(facts, f"gpu[{gpu.index}].licence") for gpu in gpus)
    licence = "" if is_stated else " Whether it is licensed is not known: an unlicensed one fails."
    return Finding(
        code="DRV012",
        cause="vgpu-feature-gap",
        status=Status.WARN,
        title=say("{gpu} is a vGPU, which lacks some features of CUDA", gpu=gpu_words(gpus)),
        detail=say(
            "GPU-to-GPU transfers over PCIe do not exist and those over NVLink only for "
            "whole GPUs; unified memory, profilers and debuggers work only where the host "
            "enables them.{licence}",
            licence=licence,
        ),
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=tuple(e for gpu in gpus[:4] for e in gpu_evidence(facts, gpu)),
        remedy=Remedy(
            "set NCCL_P2P_DISABLE=1 when NCCL hangs or fails; see `nvidia-smi -q` for the licence"
        ),
        source=matrix.machines.source("vgpu-features"),
    )


def check_branch_life(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A data-center driver branch past its support life; it runs, and gets no more fixes."""
    version = facts.machine.driver.version
    if version is None or driver_system(facts.machine.host) is not OperatingSystem.LINUX:
        return
    row = matrix.support.support_of(version.branch)
    if row is None or row.end_of_life is None or not row.provenance.is_firm:
        return
    today = facts.taken_at[:7] or matrix.manifest.data_version[:7].replace(".", "-")
    if today <= row.end_of_life or not _has_datacenter_gpu(facts, matrix):
        return
    yield _ended(facts, row)


def _has_datacenter_gpu(facts: Facts, matrix: Matrix) -> bool:
    names = {gpu.name for gpu in facts.machine.selected_gpus if gpu.name}
    models = [model for name in names for model in matrix.gpus.find(name)]
    return any(model.segment is MarketSegment.DATACENTER for model in models)


def _ended(facts: Facts, row: BranchSupport) -> Finding:
    return Finding(
        code="DRV013",
        cause="driver-branch-end-of-life",
        status=Status.WARN,
        title=say(
            "driver branch R{branch} ({kind}) is supported no longer",
            branch=row.branch,
            kind=row.kind,
        ),
        detail=say(
            "Its support ended in {date}: no more security fixes. It runs as before.",
            date=row.end_of_life,
        ),
        evidence=driver_evidence(facts),
        remedy=Remedy("move to a branch that is supported, at the next maintenance"),
        source=row.provenance.source,
    )
