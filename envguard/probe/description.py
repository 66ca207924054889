"""What an interpreter's child told, as facts: its distributions and the torch it would import."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

from packaging.version import Version

from envguard.facts.environment import (
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
    label_of_version,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.facts.variables import printable
from envguard.probe.torch_file import build_of, parse_version_file

PROBE = "interpreter"
_MOST_NAMED = 8


def parse_description(answer: dict[str, Any]) -> tuple[Environment, tuple[Gap, ...]]:
    """Turn the child's description into facts.

    Args:
        answer: What ``_child.py`` printed.

    Returns:
        The environment, distributions sorted by name; of several with one name, the one that
        imports take stands first.
    """
    interpreter = Interpreter(
        version=_version_or_none(answer["version"]),
        executable=answer["executable"] or None,
        implementation=answer["implementation"],
        prefix=answer["prefix"],
        is_venv=answer["prefix"] != answer["base_prefix"],
        is_conda=answer["is_conda"],
        is_free_threaded=answer["is_free_threaded"],
        sys_path=tuple(answer["sys_path"]),
    )
    distributions, gaps = _distributions(answer["distributions"])
    gaps += [_problem(reason, detail) for reason, detail in answer["problems"]]
    gaps += _not_run(answer["not_run"])
    torch, torch_gaps = _torch(answer["torch"], distributions)
    environment = Environment(interpreter, distributions, torch)
    manager = _manager(environment, is_uv=answer["is_uv"])
    return replace(environment, manager=manager), (*gaps, *torch_gaps)


def _version_or_none(text: object) -> Version | None:
    try:
        return Version(str(text))
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


def _problem(reason: str, detail: str) -> Gap:
    return Gap("environment.distributions", GapReason(reason), PROBE, detail)


def _not_run(files: list[str]) -> list[Gap]:
    """That there is code which each start of the interpreter runs, and reading it does not."""
    if not files:
        return []
    named = ", ".join(map(str, files[:_MOST_NAMED]))
    more = (
        say(" and {count} more", count=len(files) - _MOST_NAMED) if len(files) > _MOST_NAMED else ""
    )
    detail = say(
        "the code in {files}{more} was not run; what it does to imports is not known",
        files=named,
        more=more,
    )
    return [Gap("environment.start_up", GapReason.NOT_ASKED, PROBE, detail)]


def _distributions(
    records: list[dict[str, Any]],
) -> tuple[tuple[Distribution, ...], list[Gap]]:
    found = []
    gaps = []
    for record in records:
        distribution = _distribution(record)
        found.append(distribution)
        if distribution.version is None:
            fact = f"environment.distributions[{distribution.name}].version"
            detail = say(
                "{version!r} in {folder} is not a version",
                version=record["version"],
                folder=record["location"],
            )
            gaps.append(Gap(fact, GapReason.UNREADABLE, PROBE, detail))
    unique = dict.fromkeys(found)  # a development install is linked and on sys.path
    return tuple(sorted(unique, key=lambda d: d.name)), gaps


def normalise_name(name: str) -> str:
    """A distribution's name as indexes compare it; packaging.utils takes 15 ms to import.

    Source: PEP 503.
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(record: dict[str, Any]) -> Distribution:
    url = record.get("url")
    return Distribution(
        name=normalise_name(str(record["name"])),
        version=_version_or_none(record["version"]),
        location=record["location"],
        installer=record.get("installer"),
        url=printable(url) if isinstance(url, str) else None,
        is_editable=bool(record.get("is_editable")),
    )


def _torch(
    found: dict[str, Any] | None, distributions: tuple[Distribution, ...]
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    """The build that ``import torch`` takes: its own file first, else the metadata."""
    metadata = next((d for d in distributions if d.name == "torch"), None)
    if found is None:
        return _torch_without_package(metadata)
    location = str(found["location"])
    text = found["version_file"]
    build = build_of(parse_version_file(text), location) if text else None
    if build is not None:
        return build, ()
    what = "a single module" if found.get("is_module") else "a folder without a usable version.py"
    detail = say(
        "{folder} is {what}, yet it is what `import torch` takes", folder=location, what=what
    )
    gap = Gap("environment.torch", GapReason.UNREADABLE, PROBE, detail)
    if metadata is None or not location.startswith(f"{metadata.location}{os.sep}"):
        return None, (gap,)
    return _of_metadata(metadata, location), (gap,)


def _torch_without_package(
    metadata: Distribution | None,
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    if metadata is None:
        detail = say("no torch on sys.path")
        return None, (Gap("environment.torch", GapReason.ABSENT, PROBE, detail),)
    detail = say(
        "metadata of torch {version} in {folder}, but no package torch",
        version=metadata.version,
        folder=metadata.location,
    )
    return None, (Gap("environment.torch", GapReason.MISMATCH, PROBE, detail),)


def _of_metadata(metadata: Distribution, location: str) -> TorchBuild:
    label = label_of_version(metadata.version)
    return TorchBuild(
        version=metadata.version,
        accelerator=label.accelerator,
        cuda=label.cuda,
        origin=BuildOrigin.METADATA,
        location=location,
    )


def _manager(environment: Environment, *, is_uv: bool) -> Manager | None:
    """Who manages the environment: torch's installer, else who made it, else the commonest."""
    torch = environment.distribution("torch")
    names = [torch.installer] if torch and torch.installer else []
    if is_uv:
        names.append("uv")
    installers = [d.installer for d in environment.distributions or () if d.installer]
    names += sorted(set(installers), key=lambda name: (-installers.count(name), name))
    known = {manager.value: manager for manager in Manager}
    found = [known[name] for name in names if name in known]
    if not found and environment.interpreter and environment.interpreter.is_conda:
        return Manager.CONDA
    return found[0] if found else None
