"""An earlier ``pylock.toml`` of envguard: what it pins, and what it was made from."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from envguard.errors import DocumentError, InputError
from envguard.facts.codec import from_dict
from envguard.facts.lock_record import LockRecord
from envguard.facts.machine import Driver, Gpu, Host, Machine
from envguard.facts.versions import refuse_long_numbers
from envguard.files import read_utf8
from envguard.lock.record import SCHEMA_VERSION

if TYPE_CHECKING:
    from envguard.facts.lock_record import LockedMachine

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
