"""The gpu family, second half: what CUDA_VISIBLE_DEVICES and MIG leave of the GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, gpu_words, origin_of
from envguard.facts.findings import Evidence, Finding, Remedy, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu
    from envguard.matrix.loader import Matrix

VARIABLE = "CUDA_VISIBLE_DEVICES"
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def check_visible_devices(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Entries that name no GPU: CUDA ignores them and everything behind them."""
    listed, gpus = facts.machine.variable(VARIABLE), facts.machine.gpus
    if not listed or not gpus:
        return
    entries = [entry.strip() for entry in listed.split(",")]
    wrong = next((i for i, entry in enumerate(entries) if _names_nothing(entry, gpus)), None)
    if wrong in {None, 0} or entries[wrong or 0] in {"-1", ""}:
        return  # none, or nothing is left: then every GPU is hidden, which is said elsewhere
    lost = ", ".join(entries[wrong:])
    yield Finding(
        code="GPU012",
        cause="cuda-visible-devices-invalid",
        status=Status.WARN,
        title=f"{VARIABLE} names a GPU that does not exist: {entries[wrong or 0]}",
        detail=f"This machine has {len(gpus)} GPUs. CUDA reads the list up to the first entry that "
        f"names none, so {lost} is ignored.",
        evidence=(
            Evidence(f"variables.{VARIABLE}", listed, "environment"),
            Evidence("gpu.count", str(len(gpus)), origin_of(facts, "gpu.count")),
        ),
        remedy=Remedy(
            f"correct {VARIABLE}; with CUDA_DEVICE_ORDER=PCI_BUS_ID its numbers are "
            "those of nvidia-smi"
        ),
    )


def _names_nothing(entry: str, gpus: tuple[Gpu, ...]) -> bool:
    """Whether an entry surely names no GPU; under MIG numbers count instances."""
    if entry.startswith("GPU-"):
        uuids = [gpu.uuid for gpu in gpus]
        return None not in uuids and not any((u or "").startswith(entry) for u in uuids)
    if entry.startswith("MIG-"):
        return False  # instances may be hidden from NVML
    if any(gpu.mig_enabled for gpu in gpus):
        return False
    match = _NUMBER.match(entry)
    return match is None or not 0 <= int(match[0]) < len(gpus)


def empty_mig_gpus(facts: Facts) -> tuple[Gpu, ...]:
    """GPUs in MIG mode without an instance, so far as NVML itself says so.

    A text that mentions MIG mode need not list the instances.
    """
    asked_nvml = any(r.probe == "nvml" and r.fact == "gpu.count" for r in facts.machine.readings)
    if not asked_nvml:
        return ()
    return tuple(
        gpu
        for gpu in facts.machine.selected_gpus
        if gpu.mig_enabled
        and not gpu.mig_devices
        and not any(g.fact.startswith(f"machine.gpus[{gpu.index}].mig_") for g in facts.gaps)
    )


def check_mig_instances(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A GPU in MIG mode is no CUDA device by itself: only its instances are."""
    empty = empty_mig_gpus(facts)
    if not empty:
        return
    is_all = len(empty) == len(facts.machine.selected_gpus)
    yield Finding(
        code="GPU009",
        cause="no-gpu-visible" if is_all else "mig-without-instances",
        status=Status.FAIL if is_all and options.require_gpu else Status.WARN,
        title=f"{gpu_words(empty)} is in MIG mode and has no instance",
        detail="CUDA does not list such a GPU: torch.cuda.is_available() is False where there is "
        "no other.",
        gpus=tuple(gpu.index for gpu in empty),
        evidence=tuple(Evidence(f"gpu[{gpu.index}].mig_enabled", "true", "nvml") for gpu in empty),
        remedy=Remedy(
            "create instances (nvidia-smi mig -cgi <profile> -C), or switch MIG off "
            "(nvidia-smi -mig 0)"
        ),
        source=matrix.machines.source("mig-enumeration"),
    )


def check_uuid_lists(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Packages that read CUDA_VISIBLE_DEVICES themselves and take numbers only."""
    listed = facts.machine.variable(VARIABLE) or ""
    environment = facts.environment
    if environment is None or not ("MIG-" in listed or "GPU-" in listed):
        return
    for row in matrix.machines.uuid_lists:
        found = environment.distribution(row.package)
        version = found.version if found else None
        if row.package == "torch" and environment.torch is not None:
            version = environment.torch.version
        if version is None or not row.concerns(version):
            continue
        yield Finding(
            code="GPU010",
            cause="mig-uuid-parsing",
            status=Status.WARN,
            title=f"{row.package} {version} cannot read UUIDs in {VARIABLE}",
            detail=f"With {VARIABLE}={listed} {row.effect}.",
            package=row.package,
            evidence=(
                Evidence(f"variables.{VARIABLE}", listed, "environment"),
                Evidence(f"{row.package}.version", str(version), "environment"),
            ),
            remedy=Remedy(
                "list the GPUs by number, in a container that is given only these (one MIG "
                "instance is number 0), or take a release that reads UUIDs"
            ),
            source=row.provenance.source,
        )
