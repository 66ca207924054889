"""From the options of ``envguard lock`` to a request: machines, platform, Python, requirements."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.cli.subject import (
    check_gpu_names,
    live_facts,
    overlay_neighbours,
    read_source,
    read_stated,
)
from envguard.errors import InputError
from envguard.facts.machine import Platform
from envguard.facts.versions import Backend
from envguard.ingest.stated import Stated, apply_stated, stated_facts
from envguard.matrix.complete import complete_machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from packaging.requirements import Requirement
    from packaging.version import Version

    from envguard.cli.options import MachineOptions
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Machine
    from envguard.lock.reqfile import FileContents
    from envguard.lock.request import LockRequest, Target
    from envguard.matrix.loader import Matrix


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """What narrows the choice of the build and the packages."""

    torch: Annotated[
        str | None, typer.Option("--torch", help="Bounds on torch: 2.8.0, <2.9, ...")
    ] = None
    backend: Annotated[
        str | None, typer.Option("--backend", help="Only this build of torch: cu126, cpu, ...")
    ] = None
    driver_fit: Annotated[
        str, typer.Option("--driver-fit", help="Grade that is good enough: exact or same-major.")
    ] = "same-major"
    torch_index: Annotated[
        str,
        typer.Option(
            "--torch-index",
            envvar="ENVGUARD_TORCH_INDEX",
            help="PyTorch index or a mirror, {backend} is filled in.",
        ),
    ] = DEFAULT_TORCH_INDEX
    index_url: Annotated[
        str | None,
        typer.Option("--index-url", help="Index for everything else; default: what uv uses."),
    ] = None
    exclude_newer: Annotated[
        str | None,
        typer.Option("--exclude-newer", help="Nothing uploaded after this date, e.g. 2026-06-30."),
    ] = None
    offline: Annotated[bool, typer.Option("--offline", help="Only what uv has in its cache.")] = (
        False
    )


def gather_request(
    words: Sequence[str],
    files: Sequence[Path],
    machine_options: MachineOptions,
    choice: ChoiceOptions,
    matrix: Matrix,
) -> tuple[LockRequest, tuple[str, ...]]:
    """Put the request together.

    Returns:
        The request, and remarks on what was filled in and what overrules what.

    Raises:
        InputError: Something given cannot be used; the message names it.
    """
    from envguard.lock.index import make_index_settings
    from envguard.lock.request import LockRequest, parse_date, parse_words

    contents = _read_files(files)
    requirements = (*parse_words(words), *_torch_word(choice.torch), *contents.requirements)
    if not requirements:
        raise InputError("nothing to lock", hint="name requirements, or a file with -r")
    machines, target, notes = _machines_and_target(machine_options, matrix)
    request = LockRequest(
        requirements=requirements,
        constraints=contents.constraints,
        machines=machines,
        target=target,
        indexes=make_index_settings(choice.torch_index, choice.index_url),
        backend=_backend(choice.backend),
        exact_only=_is_exact(choice.driver_fit),
        exclude_newer=parse_date(choice.exclude_newer),
        is_offline=choice.offline,
    )
    return request, (*contents.notes, *notes)


def _read_files(files: Sequence[Path]) -> FileContents:
    from envguard.lock.reqfile import load_requirement_files

    return load_requirement_files(tuple(files))


def _torch_word(text: str | None) -> tuple[Requirement, ...]:
    from envguard.lock.request import parse_requirement

    if text is None:
        return ()
    bounds = text if text[:1] in set("<>=!~") else f"=={text}"
    return (parse_requirement(f"torch{bounds}", "--torch"),)


def _backend(text: str | None) -> Backend | None:
    try:
        return None if text is None else Backend.parse(text)
    except ValueError as err:
        raise InputError(f"--backend: {err}") from err


def _is_exact(text: str) -> bool:
    if text not in {"exact", "same-major"}:
        raise InputError(f"--driver-fit: {text!r} is none of exact, same-major")
    return text == "exact"


def _machines_and_target(
    options: MachineOptions, matrix: Matrix
) -> tuple[tuple[Machine, ...], Target, tuple[str, ...]]:
    from envguard.lock.request import Target

    stated = read_stated(options)
    check_gpu_names(stated, matrix)
    facts, notes = _all_facts(options, stated)
    platform, platform_notes = _platform(facts)
    python, python_notes = _python(facts, stated)
    machines = tuple(_complete(one.machine, platform, matrix) for one in facts)
    glibcs = [m.host.glibc for m in machines if m.host.glibc is not None]
    target = Target(platform, python, min(glibcs, default=None))
    return machines, target, (*notes, *platform_notes, *python_notes)


def _all_facts(
    options: MachineOptions, stated: Stated
) -> tuple[tuple[Facts, ...], tuple[str, ...]]:
    if options.machine:
        read = [apply_stated(read_source(str(path)), stated) for path in options.machine]
        return tuple(facts for facts, _ in read), tuple(n for _, notes in read for n in notes)
    if stated.is_other_machine:
        facts, notes = stated_facts(stated)
        return (facts,), notes
    facts, overruled = apply_stated(live_facts(None), stated)
    facts, notes = overlay_neighbours(facts, stated, os.environ)
    return (facts,), (*overruled, *notes)


def _complete(machine: Machine, platform: Platform, matrix: Matrix) -> Machine:
    completed, gaps = complete_machine(machine, matrix)
    if gaps:
        raise InputError(gaps[0].detail, hint="state --compute-capability")
    return replace(completed, host=replace(completed.host, platform=platform))


def _platform(facts: Iterable[Facts]) -> tuple[Platform, tuple[str, ...]]:
    known = {f.machine.host.platform for f in facts if f.machine.host.platform is not None}
    if len(known) > 1:
        listed = ", ".join(sorted(map(str, known)))
        raise InputError(
            f"the machines have different platforms: {listed}", hint="lock each one separately"
        )
    if known:
        return known.pop(), ()
    import platform

    here = Platform.parse(f"{sys.platform}-{platform.machine()}")
    return here, (f"platform {here} is the running interpreter's",)


def _python(facts: Iterable[Facts], stated: Stated) -> tuple[Version, tuple[str, ...]]:
    from packaging.version import Version

    if stated.is_free_threaded:
        raise InputError("--python-version: free-threaded Python cannot be locked for")
    interpreters = [f.environment.interpreter for f in facts if f.environment]
    known = {
        Version(f"{one.version.major}.{one.version.minor}")
        for one in interpreters
        if one is not None and one.version is not None
    }
    if len(known) > 1:
        listed = ", ".join(map(str, sorted(known)))
        raise InputError(
            f"the machines have different Pythons: {listed}", hint="state --python-version"
        )
    if known:
        found = known.pop()
        return found, () if stated.python else (f"Python {found} is the one that was read",)
    here = Version(f"{sys.version_info.major}.{sys.version_info.minor}")
    return here, (f"Python {here} is the running interpreter's",)
