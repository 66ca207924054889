"""The lock as a part of ``pyproject.toml`` for people who keep uv projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from envguard.lock.formats.requirements import RequirementsStyle, heading
from envguard.lock.package_index import is_same_index, plain_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.lock.lock_plan import LockPlan, Locks
    from envguard.lock.pins import Pin


def render_uv_project(locks: Locks, _style: RequirementsStyle = RequirementsStyle.URLS) -> str:
    """Dependencies, indexes and sources that make ``uv lock`` choose the same torch builds.

    Several targets become dependency groups that exclude each other, the first one installed by
    default: extras would leave a plain ``uv sync`` with PyPI's torch.

    Source: https://docs.astral.sh/uv/concepts/projects/dependencies/#dependency-sources
    """
    import tomli_w

    head = [f"# {line}" for plan in locks.plans for line in heading(plan)]
    head.append("# Lay this into your pyproject.toml and run `uv lock`.")
    return "\n".join(head) + "\n\n" + tomli_w.dumps(_document(locks))


def _document(locks: Locks) -> dict[str, Any]:
    pythons = sorted({plan.request.target.python for plan in locks.plans})
    requires = f"=={pythons[0]}.*" if len(pythons) == 1 else f">={pythons[0]}"
    project: dict[str, Any] = {"requires-python": requires}
    if not locks.names:
        project["dependencies"] = _dependencies(locks.default)
        return {"project": project, "tool": {"uv": _settings(locks)}}
    groups = {name: _dependencies(plan) for name, plan in locks.named}
    return {
        "project": project | {"dependencies": []},
        "dependency-groups": groups,
        "tool": {"uv": _settings(locks)},
    }


def _dependencies(plan: LockPlan) -> list[str]:
    """The family as it is pinned; of the rest what was asked for, in the request's words."""
    pinned = {pin.name: f"{pin.name}=={pin.version}" for pin in _family(plan)}
    direct = {pin.name: str(pin.name) for pin in plan.pins if not pin.index_url}
    asked = {canonicalize_name(r.name): str(r) for r in plan.request.requirements}
    return [text for _, text in sorted((asked | direct | pinned).items())]


def _family(plan: LockPlan) -> Iterator[Pin]:
    return (pin for pin in plan.pins if plan.comes_from_torch_index(pin))


def _settings(locks: Locks) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "environments": list(dict.fromkeys(p.request.target.marker for p in locks.plans)),
    }
    bounds = sorted({str(item.requirement) for plan in locks.plans for item in plan.bounds})
    if bounds:
        settings["constraint-dependencies"] = bounds
    if locks.names:
        settings["default-groups"] = [locks.names[0]]
        settings["conflicts"] = [[{"group": name} for name in locks.names]]
    settings["index"] = list(_indexes(locks.plans))
    settings["sources"] = _sources(locks)
    return settings


def _index_name(plan: LockPlan) -> str:
    return f"pytorch-{plan.build.backend.label}"


def _indexes(plans: Iterable[LockPlan]) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for plan in plans:
        if (name := _index_name(plan)) not in seen:
            seen.add(name)
            is_flat = plan.request.indexes.is_flat
            kind = {"format": "flat"} if is_flat else {}
            yield {"name": name, "url": plan.torch_index, "explicit": True, **kind}
    stated = {p.request.indexes.default for p in plans} - {None}
    for url in sorted(plain_index(url) for url in stated if url):
        if not any(is_same_index(url, plan.torch_index) for plan in plans):
            yield {"name": "default", "url": url, "default": True}


def _sources(locks: Locks) -> dict[str, Any]:
    """Where the family and the prebuilt wheels come from, by group where there are several."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, plan in locks.named:
        group = {"group": name} if name else {}
        for pin in _family(plan):
            found.setdefault(pin.name, []).append({"index": _index_name(plan), **group})
        for pin in plan.pins:
            if not pin.index_url:
                found.setdefault(pin.name, []).append({"url": pin.artifacts[0].url, **group})
    return {
        name: places[0] if not locks.names else places for name, places in sorted(found.items())
    }
