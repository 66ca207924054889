"""What envguard writes into its lock and reads back from one, and how two locks differ."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envguard.errors import DocumentError, InputError
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.lock_record import LockRecord
from envguard.facts.machine import Driver, Gpu, Host, Machine
from envguard.facts.versions import refuse_long_numbers
from envguard.files import read_utf8
from envguard.lock.package_index import plain_index
from envguard.lock.pins import glibc_needed
from envguard.redaction import strip_credentials
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.backend import RejectedBuild
    from envguard.facts.lock_record import LockedMachine
    from envguard.lock.constraints import MatrixBound
    from envguard.lock.lock_plan import LockPlan
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
    if plan.request.passed:
        table["carried"] = [line.text for line in plan.request.passed]
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


def _rejected(item: RejectedBuild) -> dict[str, Any]:
    return {
        "torch": str(item.build.version),
        "backend": item.build.backend.label,
        "reasons": list(item.reasons),
    }


_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PreviousLock:
    """An earlier lock.

    Args:
        path: Where it lies.
        document: The decoded file.
        records: What it was made from, by target, the default one first; one entry without a
            name where there are no targets.
    """

    path: Path
    document: Mapping[str, Any]
    records: tuple[tuple[str, LockRecord], ...]

    def record(self, name: str) -> LockRecord | None:
        """The record of a target; the only one for an empty name."""
        return dict(self.records).get(name)

    def pins(self, name: str) -> tuple[Requirement, ...]:
        """What it pins for a target, by name."""
        packages = self.document["packages"]
        found = (package for package in packages if _is_installed(package, name))
        return tuple(_pin(package, self.path) for package in found)


def load_previous(path: Path) -> PreviousLock:
    """Read an earlier lock.

    Raises:
        InputError: It cannot be read, is no valid pylock, or none that envguard made.
    """
    from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError

    document = _read(path)
    try:
        Pylock.from_dict(document)
    except (PylockValidationError, PylockUnsupportedVersionError) as err:
        raise InputError(f"{path}: not a valid pylock: {err}") from err
    table = document.get("tool", {}).get("envguard")
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: not made by envguard: it has no [tool.envguard]",
            hint="make it with `envguard lock` first",
        )
    place = f"{path}: tool.envguard"
    targets = table.get("targets")
    if not isinstance(targets, dict):
        return PreviousLock(path, document, (("", _record(table, place)),))
    groups = document.get("dependency-groups", [])
    missing = [name for name in groups if name not in targets]
    if missing or not groups:
        raise DocumentError(f"{place}.targets: no entry for {', '.join(missing) or 'any group'}")
    records = ((name, _record(targets[name], f"{place}.targets.{name}")) for name in groups)
    return PreviousLock(path, document, tuple(records))


def _read(path: Path) -> dict[str, Any]:
    text = read_utf8(path, _MOST_BYTES)
    try:
        return tomllib.loads(text)
    except RecursionError as err:
        raise InputError(f"{path}: not valid TOML: nested too deeply") from err
    except ValueError as err:  # TOMLDecodeError, or a number beyond Python's digit limit
        raise InputError(f"{path}: not valid TOML: {err}") from err


def _record(table: object, place: str) -> LockRecord:
    schema = table.get("schema_version") if isinstance(table, dict) else None
    if schema != SCHEMA_VERSION:
        raise DocumentError(f"{place}.schema_version: {schema!r} is not {SCHEMA_VERSION}")
    return from_dict(LockRecord, table, place)


def _is_installed(package: Mapping[str, Any], group: str) -> bool:
    """Whether a package belongs to a target, as far as its marker names groups."""
    marker = str(package.get("marker", ""))
    return not group or "dependency_groups" not in marker or f"'{group}' in" in _plain(marker)


def _plain(marker: str) -> str:
    return marker.replace('"', "'")


def _pin(package: Mapping[str, Any], path: Path) -> Requirement:
    try:
        return Requirement(refuse_long_numbers(f"{package['name']}=={package['version']}"))
    except (ValueError, KeyError) as err:
        raise InputError(f"{path}: package {package.get('name')!r} states no version") from err


def recorded_machine(known: LockedMachine) -> Machine:
    """A machine as far as a lock remembers it."""
    gpus = known.gpus
    return Machine(
        host=Host(platform=known.platform, glibc=known.glibc, is_wsl=known.is_wsl),
        driver=Driver(
            version=known.driver, cuda=known.cuda_driver, compat_libcuda=known.compat_libcuda
        ),
        gpus=None
        if gpus is None
        else tuple(Gpu(i, gpu.name, gpu.compute_capability) for i, gpu in enumerate(gpus)),
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """How two locks differ in what they install, one line each; nothing when they do not.

    Remarks, reasons and the version of the matrix do not count, and neither does the host that
    an unchanged file is taken from.
    """
    heads = (_head(key, before, after) for key in ("environments", "requires-python"))
    groups = (_head(key, before, after) for key in ("dependency-groups", "default-groups"))
    old, new = _packages(before), _packages(after)
    lines = [line for line in (*heads, *groups) if line]
    for key in sorted(old.keys() | new.keys()):
        lines.extend(_compare(key, old.get(key, []), new.get(key, [])))
    return tuple(lines)


def _head(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    old, new = before.get(key), after.get(key)
    return "" if old == new else f"{key}: {old} -> {new}"


def _packages(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for package in document.get("packages", []):
        found.setdefault(canonicalize_name(package["name"]), []).append(package)
    return found


def _compare(name: str, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[str]:
    before, after = (sorted(map(_essence, packages)) for packages in (old, new))
    if before == after:
        return
    for gone in (item for item in before if item not in after):
        yield f"- {name} {' '.join(filter(None, gone[:3]))}"
    for come in (item for item in after if item not in before):
        yield f"+ {name} {' '.join(filter(None, come[:3]))}"
        same = [item for item in before if item[:3] == come[:3]]
        if same:
            yield f"  the files of {name} {come[0]} are others, or have other hashes"


def _essence(package: Mapping[str, Any]) -> tuple[str, str, str, tuple[str, ...]]:
    """Version, index, marker, and the files with their hashes."""
    files = package.get("wheels") or [package.get("sdist") or package.get("archive") or {}]
    named = sorted(f"{file.get('name')} {sorted(file.get('hashes', {}).items())}" for file in files)
    index = package.get("index", "")
    return (
        str(package.get("version", "")),
        f"from {index}" if index else "",
        f"where {package['marker']}" if package.get("marker") else "",
        tuple(named),
    )
