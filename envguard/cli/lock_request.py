"""From the options of ``envguard lock`` to requests: what, for which machines, from where."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.cli.subject import (
    check_gpu_names,
    lay_stated,
    live_facts,
    read_source,
    read_stated,
)
from envguard.errors import InputError
from envguard.facts.machine import Machine, Platform
from envguard.facts.versions import Backend
from envguard.ingest.stated import StatedMachine, apply_stated, stated_facts
from envguard.lock.record import PreviousLock
from envguard.lock.request import Target
from envguard.matrix.complete import complete_machine
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from envguard.cli.options import MachineOptions
    from envguard.facts.facts import Facts
    from envguard.lock.request import LockRequest
    from envguard.lock.requirement_lines import FileContents
    from envguard.matrix.loader import Matrix


# A group of a pylock, and a part of the name of a file.
_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class LockTarget:
    """What one lock is for.

    Args:
        name: Of the target; empty where there is one only.
        machines: All of them must be served; empty for none in particular.
        target: Platform, Python and glibc.
        backend: The backend that the target's name asks for; None where it asks for none.
    """

    name: str
    machines: tuple[Machine, ...]
    target: Target
    backend: Backend | None = None


def read_lock_targets(
    options: MachineOptions,
    targets: Sequence[str],
    previous: PreviousLock | None,
    matrix: Matrix,
) -> tuple[tuple[LockTarget, ...], tuple[str, ...]]:
    """What to lock for.

    Args:
        options: Machine options.
        targets: ``NAME`` or ``NAME=FILE`` each.
        previous: An earlier lock; its machines count where nothing else is stated.
        matrix: For what the names of GPUs mean.

    Returns:
        One or several aims, and remarks on what was filled in and what overrules what.

    Raises:
        InputError: Something given cannot be used; the message names it.
    """
    stated = read_stated(options)
    check_gpu_names(stated, matrix)
    if targets:
        return _named_aims(options, targets, stated, matrix)
    if previous is not None and not _says_machine(options):
        return _recorded_aims(previous), ()
    facts, notes = _all_facts(options, stated)
    aim, filled = _aim("", facts, stated, matrix)
    return (aim,), (*notes, *filled)


def _says_machine(options: MachineOptions) -> bool:
    stated = (
        *(options.machine, options.gpu, options.compute_capability, options.driver),
        *(options.cuda_driver, options.platform, options.glibc, options.python_version),
    )
    return any(stated)


def _recorded_aims(previous: PreviousLock) -> tuple[LockTarget, ...]:
    from envguard.lock.record import recorded_machine

    found = []
    for name, record in previous.records:
        if record.platform is None or record.python is None:
            raise InputError(f"{previous.path}: it does not say what it was made for")
        glibc = record.request.glibc if record.request else None
        target = Target(record.platform, record.python, glibc, record.is_free_threaded)
        machines = tuple(recorded_machine(machine) for machine in record.machines)
        found.append(LockTarget(name, machines, target, _backend_of(name)))
    return tuple(found)


def _named_aims(
    options: MachineOptions, targets: Sequence[str], stated: StatedMachine, matrix: Matrix
) -> tuple[tuple[LockTarget, ...], tuple[str, ...]]:
    pairs = [_split(text) for text in targets]
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"--target: {twice!r} is given twice")
    aims: dict[str, LockTarget] = {}
    notes: list[str] = []
    for name, file in pairs:
        if file:
            facts, overruled = apply_stated(read_source(file), stated)
            aims[name], filled = _aim(name, (facts,), stated, matrix)
            notes += [*overruled, *filled]
    for name, file in pairs:
        if not file:
            aims[name], filled = _bare_aim(name, options, stated, aims, matrix)
            notes += filled
    return tuple(aims[name] for name in names), tuple(dict.fromkeys(notes))


def _split(text: str) -> tuple[str, str]:
    name, _, file = text.partition("=")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"--target: {name!r} is no name for a target",
            hint="small letters, digits and dashes: --target cu130=machine.json",
        )
    if not file and _backend_of(name) is None:
        raise InputError(
            f"--target: {text!r} names neither a backend nor a machine",
            hint=f"--target {name}=FILE, or the name of a backend such as cpu",
        )
    return name, file


def _backend_of(name: str) -> Backend | None:
    try:
        return Backend.parse(name) if name else None
    except ValueError:
        return None


def _bare_aim(
    name: str,
    options: MachineOptions,
    stated: StatedMachine,
    others: dict[str, LockTarget],
    matrix: Matrix,
) -> tuple[LockTarget, tuple[str, ...]]:
    """A backend without a machine: for the machine of the options, or where the others run."""
    if not _says_machine(options) and others:
        first = next(iter(others.values()))
        return LockTarget(name, (), first.target, _backend_of(name)), ()
    facts, notes = _all_facts(options, stated)
    aim, filled = _aim(name, facts, stated, matrix)
    return aim, (*notes, *filled)


def _aim(
    name: str, facts: tuple[Facts, ...], stated: StatedMachine, matrix: Matrix
) -> tuple[LockTarget, tuple[str, ...]]:
    platform, platform_notes = _platform(facts)
    python, python_notes = _python(facts, stated)
    machines = tuple(_complete(one.machine, platform, matrix) for one in facts)
    glibcs = [m.host.glibc for m in machines if m.host.glibc is not None]
    target = Target(platform, python, min(glibcs, default=None), _is_threaded(facts, stated))
    return LockTarget(name, machines, target, _backend_of(name)), (*platform_notes, *python_notes)


def _is_threaded(facts: tuple[Facts, ...], stated: StatedMachine) -> bool:
    if stated.python is not None:
        return stated.is_free_threaded
    interpreters = [f.environment.interpreter for f in facts if f.environment]
    kinds = {one.is_free_threaded is True for one in interpreters if one is not None}
    if len(kinds) > 1:
        raise InputError(
            "the machines have Pythons with and without the GIL", hint="state --python-version"
        )
    return kinds.pop() if kinds else False


def _all_facts(
    options: MachineOptions, stated: StatedMachine
) -> tuple[tuple[Facts, ...], tuple[str, ...]]:
    if options.machine:
        read = [apply_stated(read_source(str(path)), stated) for path in options.machine]
        return tuple(facts for facts, _ in read), tuple(n for _, notes in read for n in notes)
    if stated.is_other_machine:
        facts, notes = stated_facts(stated)
        return (facts,), notes
    facts, notes = lay_stated(live_facts(None), stated)
    return (facts,), notes


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
            f"the machines have different platforms: {listed}",
            hint="give each one a --target of its own",
        )
    if known:
        return known.pop(), ()
    import platform

    here = Platform.parse(f"{sys.platform}-{platform.machine()}")
    return here, (f"platform {here} is the running interpreter's",)


def _python(facts: Iterable[Facts], stated: StatedMachine) -> tuple[Version, tuple[str, ...]]:
    from packaging.version import Version

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


DEFAULT_RELEASE_BASE = "https://github.com"


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
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask nobody: only caches and the matrix.")
    ] = False
    allow_build: Annotated[
        bool,
        typer.Option(
            "--allow-build", help="Extensions without a prebuilt wheel: built on the machine."
        ),
    ] = False
    release_base: Annotated[
        str,
        typer.Option(
            "--release-base",
            envvar="ENVGUARD_RELEASE_BASE",
            help="GitHub or a mirror of it, for prebuilt wheels.",
        ),
    ] = DEFAULT_RELEASE_BASE


@dataclass(frozen=True, slots=True)
class LockArguments:
    """What the command line asks for, besides the machines.

    Args:
        words: Requirements as arguments.
        files: Requirements files.
        targets: ``NAME`` or ``NAME=FILE`` each.
        choice: What narrows the choice.
        previous: An earlier lock that is made anew or compared; None for none.
        is_upgrade: Its pins are not kept.
    """

    words: Sequence[str]
    files: Sequence[Path]
    targets: Sequence[str]
    choice: ChoiceOptions
    previous: PreviousLock | None = None
    is_upgrade: bool = False


def gather_requests(
    asked: LockArguments, machine_options: MachineOptions, matrix: Matrix
) -> tuple[tuple[tuple[str, LockRequest], ...], tuple[str, ...]]:
    """Put the requests together, one for each target.

    Returns:
        Name and request of each target, the name empty where there is one only; and remarks on
        what was filled in and what overrules what.

    Raises:
        InputError: Something given cannot be used; the message names it.
    """
    contents = _own_words(asked)
    own = tuple(contents.requirements)
    if not (own or contents.unless or contents.passed or asked.choice.torch or asked.previous):
        raise InputError("nothing to lock", hint="name requirements, or a file with -r")
    aims, notes = read_lock_targets(machine_options, asked.targets, asked.previous, matrix)
    for aim in aims:
        _check_python(aim.target, contents.pythons)
    requests = tuple((aim.name, _request(asked, own, contents, aim)) for aim in aims)
    return requests, (*contents.notes, *notes)


def _check_python(target: Target, pythons: Sequence[tuple[str, SpecifierSet]]) -> None:
    """Compare the Python of a target with what the files say of theirs.

    Raises:
        InputError: A file is for another one.
    """
    for path, bound in pythons:
        if any(bound.contains(f"{target.python}.{patch}") for patch in (0, 99)):
            continue
        minors = (f"3.{minor}" for minor in reversed(range(8, 20)))
        fits = [m for m in minors if any(bound.contains(f"{m}.{patch}") for patch in (0, 99))]
        near = min(fits, key=lambda m: abs(int(m[2:]) - target.python.minor), default="")
        raise InputError(
            f"{path}: asks for Python {bound}, the lock would be for {target.python_words}",
            hint=f"state --python-version {near}" if near else "loosen its bound on Python",
        )


def _where_it_holds(
    unless: Sequence[tuple[Requirement, tuple[str, ...]]], target: Target
) -> Iterator[Requirement]:
    """Those whose other markers do not hold on a target."""
    from packaging.markers import Marker

    for requirement, markers in unless:
        if not any(Marker(text).evaluate(target.marker_variables) for text in markers):
            yield requirement


def _own_words(asked: LockArguments) -> FileContents:
    """What arguments and requirements files say."""
    from envguard.lock.request import parse_arguments
    from envguard.lock.requirement_lines import load_requirement_files

    words = parse_arguments(asked.words)
    contents = load_requirement_files(asked.files)
    contents.requirements[:0] = words
    return contents


def _request(
    asked: LockArguments,
    own: tuple[Requirement, ...],
    contents: FileContents,
    aim: LockTarget,
) -> LockRequest:
    from envguard.lock.package_index import make_index_settings
    from envguard.lock.request import LockRequest, parse_date

    choice = asked.choice
    own = (*own, *_where_it_holds(contents.unless, aim.target))
    request = LockRequest(
        requirements=(*own, *_torch_word(choice.torch)),
        constraints=tuple(contents.constraints),
        machines=aim.machines,
        target=aim.target,
        indexes=make_index_settings(choice.torch_index, choice.index_url or contents.index),
        backend=_backend(choice.backend, aim),
        exact_only=_is_exact(choice.driver_fit),
        exclude_newer=parse_date(choice.exclude_newer),
        is_offline=choice.offline,
        allow_build=choice.allow_build,
        release_base=_release_base(choice.release_base),
        passed=tuple(contents.passed),
        more_indexes=tuple(dict.fromkeys(contents.more_indexes)),
        uv_options=tuple(dict.fromkeys(contents.uv_options)),
    )
    request = request if own or contents.passed else _as_recorded(request, asked, aim)
    if not (request.requirements or request.passed):
        raise InputError(
            f"{asked.previous.path if asked.previous else 'the lock'} does not say what was asked",
            hint="name requirements, or a file with -r",
        )
    return _with_pins(request, asked, aim)


def _as_recorded(request: LockRequest, asked: LockArguments, aim: LockTarget) -> LockRequest:
    """The request with what the earlier lock was asked for, where the options leave it open."""
    from envguard.lock.package_index import make_index_settings
    from envguard.lock.request import parse_arguments, parse_date

    record = asked.previous.record(aim.name) if asked.previous else None
    known = record.request if record else None
    if known is None:
        return request
    choice = asked.choice
    is_usual = choice.torch_index == DEFAULT_TORCH_INDEX
    torch_index = (known.torch_index if is_usual else None) or choice.torch_index
    return replace(
        request,
        requirements=(*parse_arguments(known.requirements), *request.requirements),
        constraints=(*request.constraints, *parse_arguments(known.constraints)),
        indexes=make_index_settings(torch_index, choice.index_url or known.index_url),
        backend=request.backend or known.backend,
        exact_only=request.exact_only or known.exact_only,
        exclude_newer=request.exclude_newer or parse_date(known.exclude_newer),
        allow_build=request.allow_build or known.allow_build,
        release_base=request.release_base or known.release_base,
    )


def _release_base(address: str) -> str | None:
    """Where prebuilt wheels are looked for; None for GitHub itself.

    Raises:
        InputError: It is no address.
    """
    from envguard.lock.package_index import check_address

    check_address("--release-base", address)
    return None if address == DEFAULT_RELEASE_BASE else address


def _with_pins(request: LockRequest, asked: LockArguments, aim: LockTarget) -> LockRequest:
    """The request with the pins of the earlier lock, which are kept where they serve."""
    previous = asked.previous
    record = previous.record(aim.name) if previous else None
    if previous is None or record is None or asked.is_upgrade:
        return request
    return replace(
        request,
        preferred=previous.pins(aim.name),
        preferred_build=(record.torch, record.backend),
    )


def _torch_word(text: str | None) -> tuple[Requirement, ...]:
    from envguard.lock.request import parse_requirement

    if text is None:
        return ()
    bounds = text if text[:1] in set("<>=!~") else f"=={text}"
    return (parse_requirement(f"torch{bounds}", "--torch"),)


def _backend(text: str | None, aim: LockTarget) -> Backend | None:
    try:
        stated = None if text is None else Backend.parse(text)
    except ValueError as err:
        raise InputError(f"--backend: {err}") from err
    if aim.backend is not None and stated not in {None, aim.backend}:
        raise InputError(f"--backend {text} contradicts --target {aim.name}")
    return stated or aim.backend


def _is_exact(text: str) -> bool:
    if text not in {"exact", "same-major"}:
        raise InputError(f"--driver-fit: {text!r} is none of exact, same-major")
    return text == "exact"
