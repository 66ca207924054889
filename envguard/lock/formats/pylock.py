"""The lock as ``pylock.toml`` (PEP 751), with what envguard knows in ``[tool.envguard]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envguard.errors import ToolError
from envguard.lock.formats.requirements import RequirementsStyle
from envguard.lock.package_index import plain_file, plain_index
from envguard.lock.record import record_table

if TYPE_CHECKING:
    from envguard.lock.lock_plan import Locks
    from envguard.lock.pins import Artifact, Pin


def render_pylock(locks: Locks, _style: RequirementsStyle = RequirementsStyle.URLS) -> str:
    """The document as text, the same for equal plans.

    Raises:
        ToolError: The document breaks the standard, which is never written.

    Source: PEP 751, checked with ``packaging.pylock``.
    """
    import tomli_w
    from packaging.pylock import Pylock, PylockValidationError

    document = pylock_document(locks)
    try:
        Pylock.from_dict(document)
    except PylockValidationError as err:
        raise ToolError(f"the lock breaks PEP 751: {err}") from err
    return tomli_w.dumps(document)


def pylock_document(locks: Locks) -> dict[str, Any]:
    """The document as dicts and lists, keys in the order of the standard."""
    document: dict[str, Any] = {
        "lock-version": "1.0",
        "environments": list(dict.fromkeys(p.request.target.marker for p in locks.plans)),
        "requires-python": _requires_python(locks),
    }
    if locks.names:
        document["dependency-groups"] = list(locks.names)
        document["default-groups"] = [locks.names[0]]
    return document | {
        "created-by": "envguard",
        "packages": [_package(pin, _marker(pin, owners, locks)) for pin, owners in locks.merged()],
        "tool": {"envguard": _record(locks)},
    }


def _requires_python(locks: Locks) -> str:
    pythons = sorted({plan.request.target.python for plan in locks.plans})
    return f"=={pythons[0]}.*" if len(pythons) == 1 else f">={pythons[0]}"


def _record(locks: Locks) -> dict[str, Any]:
    """The default target's record; those of all targets below it."""
    table = record_table(locks.default)
    if locks.names:
        table["target"] = locks.names[0]
        table["targets"] = {name: record_table(plan) for name, plan in locks.named}
    return table


def _marker(pin: Pin, owners: tuple[str, ...], locks: Locks) -> str:
    """When a pin is installed: in which groups, and on which of their environments.

    A group and not an extra: a lock whose torch stands behind extras installs no torch by
    default, and says nothing.
    """
    groups = [f"'{name}' in dependency_groups" for name in owners if name]
    if len({plan.request.target.marker for plan in locks.plans}) > 1:
        markers = dict(locks.named)
        groups = [
            f"({group} and {markers[name].request.target.marker})"
            for group, name in zip(groups, owners, strict=True)
        ]
    elif len(owners) == len(locks.named):
        groups = []
    condition = " or ".join(groups)
    if pin.marker and condition:
        return f"({condition}) and ({pin.marker})"
    return condition or pin.marker


def _package(pin: Pin, marker: str) -> dict[str, Any]:
    wheels = [_file(artifact) for artifact in pin.artifacts if artifact.is_wheel]
    sources = [_file(artifact) for artifact in pin.artifacts if not artifact.is_wheel]
    package: dict[str, Any] = {"name": pin.name, "version": str(pin.version)}
    if marker:
        package["marker"] = marker
    if not pin.index_url:
        # Asked for by its address; the standard's validator would compare a wheel's name with the
        # version in its metadata, which says nothing of torch and CUDA.
        archive = {k: v for k, v in (wheels or sources)[0].items() if k != "name"}
        return package | {"archive": archive}
    package["index"] = plain_index(pin.index_url)
    if sources and not wheels:
        package["sdist"] = sources[0]
    if wheels:
        package["wheels"] = wheels
    return package


def _file(artifact: Artifact) -> dict[str, Any]:
    file: dict[str, Any] = {"name": artifact.filename, "url": plain_file(artifact.url)}
    if artifact.size is not None:
        file["size"] = artifact.size
    file["hashes"] = dict(artifact.hashes)
    return file
