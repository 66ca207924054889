"""The lock as ``pylock.toml`` (PEP 751), with what envguard knows in ``[tool.envguard]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envguard.errors import ToolError
from envguard.facts.codec import to_dict
from envguard.lock.index import strip_credentials
from envguard.lock.pins import glibc_needed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.backend import Rejected
    from envguard.facts.machine import Machine
    from envguard.lock.pins import Artifact, Pin
    from envguard.lock.plan import LockPlan

SCHEMA_VERSION = 1


def render_pylock(plan: LockPlan) -> str:
    """The document as text, the same for equal plans.

    Raises:
        ToolError: The document breaks the standard, which is never written.

    Source: PEP 751, checked with ``packaging.pylock``.
    """
    import tomli_w
    from packaging.pylock import Pylock, PylockValidationError

    document = pylock_document(plan)
    try:
        Pylock.from_dict(document)
    except PylockValidationError as err:
        raise ToolError(f"the lock breaks PEP 751: {err}") from err
    return tomli_w.dumps(document)


def pylock_document(plan: LockPlan) -> dict[str, Any]:
    """The document as dicts and lists, keys in the order of the standard."""
    target = plan.request.target
    return {
        "lock-version": "1.0",
        "environments": [target.marker],
        "requires-python": f"=={target.python}.*",
        "created-by": "envguard",
        "packages": [_package(pin) for pin in plan.pins],
        "tool": {"envguard": envguard_table(plan)},
    }


def _package(pin: Pin) -> dict[str, Any]:
    wheels = [_file(artifact) for artifact in pin.artifacts if artifact.is_wheel]
    sources = [_file(artifact) for artifact in pin.artifacts if not artifact.is_wheel]
    package: dict[str, Any] = {"name": pin.name, "version": str(pin.version)}
    if pin.marker:
        package["marker"] = pin.marker
    package["index"] = strip_credentials(pin.index_url)
    if sources and not wheels:
        package["sdist"] = sources[0]
    if wheels:
        package["wheels"] = wheels
    return package


def _file(artifact: Artifact) -> dict[str, Any]:
    file: dict[str, Any] = {"name": artifact.filename, "url": strip_credentials(artifact.url)}
    if artifact.size is not None:
        file["size"] = artifact.size
    file["hashes"] = dict(artifact.hashes)
    return file


def envguard_table(plan: LockPlan) -> dict[str, Any]:
    """What the lock was made for: enough to say of any host whether it satisfies the lock."""
    build, target = plan.build, plan.request.target
    table: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "matrix_version": plan.matrix_version,
        "torch": str(build.version),
        "backend": build.backend.label,
        "index_url": strip_credentials(plan.torch_index),
        "platform": str(target.platform),
        "python": str(target.python),
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
    table["machines"] = [_machine(machine) for machine in plan.request.machines]
    table["rejected"] = [_rejected(item) for item in plan.rejected]
    if plan.notes:
        table["notes"] = list(plan.notes)
    return table


def _machine(machine: Machine) -> dict[str, Any]:
    stated = {
        "driver": machine.driver.version,
        "cuda_driver": machine.driver.cuda,
        "glibc": machine.host.glibc,
        "platform": machine.host.platform,
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
