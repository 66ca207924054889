"""The driver family, second half: kernel module, NVSwitch fabric, vGPU, support life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    cuda_error,
    driver_evidence,
    gpu_evidence,
    gpu_words,
    reading_evidence,
    readings_of,
    word_of,
)
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.machine import KernelModule, OperatingSystem
from envguard.matrix.fit import driver_system
from envguard.matrix.rows import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu
    from envguard.matrix.loader import Matrix
    from envguard.matrix.machine_table import ModuleLimit
    from envguard.matrix.support_table import BranchSupport

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
        title=f"the {row.flavour.value} kernel module does not drive {gpu_words(gpus)}",
        detail="The module refuses the GPU when it is loaded; nvidia-smi then says 'No devices "
        f"were found'. These GPUs need the {other} module of the same driver.",
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=(
            *driver_evidence(facts),
            *(reading_evidence(readings_of(facts, "driver.kernel_module")) or _stated(row)),
            *(e for gpu in gpus[:4] for e in gpu_evidence(facts, gpu)),
        ),
        remedy=Remedy(f"install the driver with its {other} kernel module (package {package})"),
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
        detail="On an NVSwitch system CUDA fails with error 802 (system not yet initialized) until "
        f"nvidia-fabricmanager runs, of exactly the driver's release{version}; nvidia-smi works "
        "all the same.",
        gpus=tuple(gpu.index for gpu in waiting),
        evidence=(
            *driver_evidence(facts),
            *reading_evidence((*readings, *readings_of(facts, "driver.cuda_init"))),
            *_switch_evidence(facts),
        ),
        remedy=Remedy(
            f"install nvidia-fabricmanager{version} and start it",
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
        return f"this machine has {count} NVSwitches, and no fabric manager runs"
    if waiting:
        return f"{gpu_words(waiting)} has not joined its NVSwitch fabric"
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
        title=f"{gpu_words(gpus)} is a vGPU without a licence",
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
        title=f"{gpu_words(gpus)} is a vGPU, which lacks some features of CUDA",
        detail="GPU-to-GPU transfers over PCIe do not exist and those over NVLink only for whole "
        "GPUs; unified memory, profilers and debuggers work only where the host enables them."
        f"{licence}",
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
    return any(model.segment is Segment.DATACENTER for model in models)


def _ended(facts: Facts, row: BranchSupport) -> Finding:
    return Finding(
        code="DRV013",
        cause="driver-branch-end-of-life",
        status=Status.WARN,
        title=f"driver branch R{row.branch} ({row.kind}) is supported no longer",
        detail=f"Its support ended in {row.end_of_life}: no more security fixes. It runs as "
        "before.",
        evidence=driver_evidence(facts),
        remedy=Remedy("move to a branch that is supported, at the next maintenance"),
        source=row.provenance.source,
    )
