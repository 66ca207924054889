"""What envguard writes into its own lock: the request, the machines, the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envguard.facts.codec import to_dict
from envguard.lock.index import plain_index
from envguard.lock.pins import glibc_needed
from envguard.redaction import strip_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.backend import Rejected
    from envguard.facts.machine import Machine
    from envguard.lock.bounds import MatrixBound
    from envguard.lock.plan import LockPlan
    from envguard.lock.request import LockRequest

SCHEMA_VERSION = 1


def record_table(plan: LockPlan) -> dict[str, Any]:
    """What the lock was made for: enough to say of any host whether it satisfies the lock."""
    build, target = plan.build, plan.request.target
    table: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "matrix_version": plan.matrix_version,
        "torch": str(build.version),
        "backend": build.backend.label,
        "index_url": plain_index(plan.torch_index),
        "platform": str(target.platform),
        "python": str(target.python),
        **({"is_free_threaded": True} if target.is_free_threaded else {}),
        "reasons": [plan.why],
    }
    needs = [version for version in (build.glibc, glibc_needed(plan.pins)) if version is not None]
    optional = {
        "glibc": max(needs, default=None),
        "driver_exact": plan.driver_exact,
        "driver_floor": plan.driver_floor,
    }
    table |= {key: str(value) for key, value in optional.items() if value is not None}
    if build.backend.cuda is not None:
        table["driver_fit"] = plan.grade.value
        if build.targets is not None:
            table["code_targets"] = [str(target) for target in build.targets]
    table["request"] = _request(plan.request)
    table["machines"] = [_machine(machine) for machine in plan.request.machines]
    if plan.bounds:
        table["constraints"] = [_bound(item) for item in plan.bounds]
    table["rejected"] = [_rejected(item) for item in plan.rejected]
    if plan.notes:
        table["notes"] = list(plan.notes)
    return table


def _request(request: LockRequest) -> dict[str, Any]:
    """What is needed to ask for the same once more; no address keeps its credentials."""
    indexes = request.indexes
    table: dict[str, Any] = {"requirements": sorted(str(r) for r in request.requirements)}
    optional = {
        "constraints": sorted(str(r) for r in request.constraints),
        "backend": request.backend.label if request.backend else None,
        "exact_only": request.exact_only,
        "exclude_newer": request.exclude_newer,
        "allow_build": request.allow_build,
        "glibc": str(request.target.glibc) if request.target.glibc else None,
        "torch_index": strip_credentials(indexes.torch) if indexes.is_mirror else None,
        "index_url": strip_credentials(indexes.default) if indexes.default else None,
        "release_base": strip_credentials(request.release_base) if request.release_base else None,
    }
    return table | {key: value for key, value in optional.items() if value}


def _bound(item: MatrixBound) -> dict[str, Any]:
    return {"requirement": str(item.requirement), "reason": item.reason, "source": item.source}


def _machine(machine: Machine) -> dict[str, Any]:
    stated = {
        "driver": machine.driver.version,
        "cuda_driver": machine.driver.cuda,
        "glibc": machine.host.glibc,
        "platform": machine.host.platform,
        "is_wsl": machine.host.is_wsl or None,
        "compat_libcuda": machine.driver.compat_libcuda,
    }
    table = {key: to_dict(value) for key, value in stated.items() if value is not None}
    if machine.gpus is not None:
        table["gpus"] = _gpus(machine)
    return table


def _gpus(machine: Machine) -> list[dict[str, str]]:
    fields: Iterable[tuple[str | None, str]] = (
        (gpu.name, str(gpu.capability) if gpu.capability else "") for gpu in machine.selected_gpus
    )
    return [
        {k: v for k, v in (("name", name or ""), ("compute_capability", capability)) if v}
        for name, capability in fields
    ]


def _rejected(item: Rejected) -> dict[str, Any]:
    return {
        "torch": str(item.build.version),
        "backend": item.build.backend.label,
        "reasons": list(item.reasons),
    }
