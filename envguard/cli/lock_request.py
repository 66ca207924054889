"""From the options of ``envguard lock`` to requests: what, for which machines, from where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.errors import InputError
from envguard.facts.versions import Backend

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from envguard.cli.lock_targets import Aim
    from envguard.cli.options import MachineOptions
    from envguard.lock.previous import PreviousLock  # noqa: TC004 - loaded with such a lock
    from envguard.lock.request import LockRequest
    from envguard.matrix.loader import Matrix

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
class Asked:
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
    asked: Asked, machine_options: MachineOptions, matrix: Matrix
) -> tuple[tuple[tuple[str, LockRequest], ...], tuple[str, ...]]:
    """Put the requests together, one for each target.

    Returns:
        Name and request of each target, the name empty where there is one only; and remarks on
        what was filled in and what overrules what.

    Raises:
        InputError: Something given cannot be used; the message names it.
    """
    from envguard.cli.lock_targets import read_aims

    own, constraints, remarks = _own_words(asked)
    if not (own or asked.choice.torch or asked.previous):
        raise InputError("nothing to lock", hint="name requirements, or a file with -r")
    aims, notes = read_aims(machine_options, asked.targets, asked.previous, matrix)
    requests = tuple((aim.name, _request(asked, own, constraints, aim)) for aim in aims)
    return requests, (*remarks, *notes)


def _own_words(
    asked: Asked,
) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...], tuple[str, ...]]:
    """Requirements, constraints and remarks of arguments and requirements files."""
    from envguard.lock.request import parse_words

    words = parse_words(asked.words)
    if not asked.files:
        return words, (), ()
    from envguard.lock.reqfile import load_requirement_files

    contents = load_requirement_files(tuple(asked.files))
    return (*words, *contents.requirements), contents.constraints, contents.notes


def _request(
    asked: Asked, own: tuple[Requirement, ...], constraints: tuple[Requirement, ...], aim: Aim
) -> LockRequest:
    from envguard.lock.index import make_index_settings
    from envguard.lock.request import LockRequest, parse_date

    choice = asked.choice
    request = LockRequest(
        requirements=(*own, *_torch_word(choice.torch)),
        constraints=constraints,
        machines=aim.machines,
        target=aim.target,
        indexes=make_index_settings(choice.torch_index, choice.index_url),
        backend=_backend(choice.backend, aim),
        exact_only=_is_exact(choice.driver_fit),
        exclude_newer=parse_date(choice.exclude_newer),
        is_offline=choice.offline,
        allow_build=choice.allow_build,
        release_base=_release_base(choice.release_base),
    )
    request = request if own else _as_recorded(request, asked, aim)
    if not request.requirements:
        raise InputError(
            f"{asked.previous.path if asked.previous else 'the lock'} does not say what was asked",
            hint="name requirements, or a file with -r",
        )
    return _with_pins(request, asked, aim)


def _as_recorded(request: LockRequest, asked: Asked, aim: Aim) -> LockRequest:
    """The request with what the earlier lock was asked for, where the options leave it open."""
    from envguard.lock.index import make_index_settings
    from envguard.lock.request import parse_date, parse_words

    record = asked.previous.record(aim.name) if asked.previous else None
    known = record.request if record else None
    if known is None:
        return request
    choice = asked.choice
    is_usual = choice.torch_index == DEFAULT_TORCH_INDEX
    torch_index = (known.torch_index if is_usual else None) or choice.torch_index
    return replace(
        request,
        requirements=(*parse_words(known.requirements), *request.requirements),
        constraints=(*request.constraints, *parse_words(known.constraints)),
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
    from envguard.lock.index import check_address

    check_address("--release-base", address)
    return None if address == DEFAULT_RELEASE_BASE else address


def _with_pins(request: LockRequest, asked: Asked, aim: Aim) -> LockRequest:
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


def _backend(text: str | None, aim: Aim) -> Backend | None:
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
