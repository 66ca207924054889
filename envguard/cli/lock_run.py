"""Runs ``envguard lock``: plans for all targets, then a file, a ladder or a comparison."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.cli.main import ending_on_signals
from envguard.cli.out import say, waiting, write_text
from envguard.errors import ExitCode, InputError
from envguard.files import is_folder
from envguard.lock import FORMATS, format_of, render_lock
from envguard.lock.complaints import NoCandidateError
from envguard.lock.formats.requirements import RequirementsStyle
from envguard.lock.lock_plan import plan_lock
from envguard.lock.uv import Uv
from envguard.matrix.loader import Matrix
from envguard.values import dataclass
from envguard.web.lock_limits import LockLimits
from envguard.web.releases import RELEASE_BASE, Releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from envguard.lock.lock_plan import LockPlan, Locks
    from envguard.lock.record import PreviousLock
    from envguard.lock.request import LockRequest
    from envguard.lock.uv import UvSearch
    from envguard.web.client import Web

    Requests = tuple[tuple[str, LockRequest], ...]


_PLACEHOLDER = "{target}"
_NAMED_PYLOCK = re.compile(r"pylock\.([^.]+)\.toml")


@dataclass(frozen=True, slots=True)
class Output:
    """One file, or one for each target.

    Args:
        path: As stated, possibly with ``{target}`` in it; None for standard output.
        form: Its format.
    """

    path: str | None
    form: str


def plan_outputs(paths: Iterable[str], form: str | None, style: str) -> tuple[Output, ...]:
    """What to write where; settled before anything takes time.

    Args:
        paths: As stated; none for standard output.
        form: ``--format``.
        style: ``--style``.

    Raises:
        InputError: A format is not known, contradicts the name of the file, or the file cannot
            be written.
    """
    if form is not None and form not in FORMATS:
        raise InputError(f"--format: {form!r} is none of {', '.join(FORMATS)}")
    if style not in {one.value for one in RequirementsStyle}:
        raise InputError(
            f"--style: {style!r} is none of {', '.join(s.value for s in RequirementsStyle)}"
        )
    outputs = []
    for text in paths:
        path = Path(text.replace(_PLACEHOLDER, "target"))
        if not is_folder(path.parent):
            raise InputError(f"{text}: cannot be written: there is no folder {path.parent}")
        if path.name == "pyproject.toml" and path.exists():
            raise InputError(
                f"{text}: is there already, and would be replaced",
                hint="write to another file and lay it into the project",
            )
        outputs.append(Output(text, format_of(path, form)))
    return tuple(outputs) or (Output(None, format_of(None, form)),)


def write_outputs(locks: Locks, outputs: Sequence[Output], style: str) -> tuple[Path, ...]:
    """Render everything, then write it.

    Returns:
        The files written.

    Raises:
        InputError: A format cannot hold the lock, or a file cannot be written.
    """
    rendered = [
        (path, render_lock(held, output.form, RequirementsStyle(style)))
        for output in outputs
        for path, held in _files(output, locks)
    ]
    for path, text in rendered:
        write_text(text, path, is_free_of_secrets=True)
    return tuple(path for path, _ in rendered if path is not None)


def _files(output: Output, locks: Locks) -> list[tuple[Path | None, Locks]]:
    """The files of an output with what each holds."""
    if output.path is None:
        return [(None, locks)]
    if _PLACEHOLDER in output.path:
        if not locks.names:
            raise InputError(f"{output.path}: there are no targets: state --target")
        return [
            (Path(output.path.replace(_PLACEHOLDER, name)), locks.only(name))
            for name in locks.names
        ]
    path = Path(output.path)
    match = _NAMED_PYLOCK.fullmatch(path.name)
    if match and match[1] in locks.names:
        return [(path, locks.only(match[1]))]
    return [(path, locks)]


@dataclass(frozen=True, slots=True)
class LockRun:
    """What a run takes besides the requests.

    Args:
        matrix: The tables.
        uv: The resolver.
        releases: Where prebuilt wheels are looked for.
        notes: Remarks on how the requests came together.
        is_quiet: Nothing is said on standard error.
        limits: What all of it may take.
    """

    matrix: Matrix
    uv: Uv
    releases: Releases
    notes: tuple[str, ...]
    is_quiet: bool
    limits: LockLimits

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        requests: Requests,
        environ: Mapping[str, str],
        uv: UvSearch,
        notes: tuple[str, ...],
        *,
        quiet: bool,
        time_limit_s: float,
    ) -> LockRun:
        """Put the means together; all requests are made by the same options.

        Raises:
            InputError: The time limit is none.
            ToolError: There is no usable uv.
        """
        _, first = requests[0]
        limits = LockLimits(time_limit_s)
        web = partial(_open_web, environ, is_offline=first.is_offline, limits=limits)
        releases = Releases(web, first.release_base or RELEASE_BASE)
        return cls(matrix, uv.result(), releases, notes, quiet, limits)

    def say(self, text: str) -> None:
        """Say a line on standard error, unless that is not wanted."""
        if not self.is_quiet:
            say(text)


def _open_web(environ: Mapping[str, str], *, is_offline: bool, limits: LockLimits) -> Web:
    from envguard.web.client import (
        Web,  # few locks need it
        WebCache,
        cache_folder,
    )

    folder = cache_folder(environ)
    return Web(
        WebCache(folder) if folder else None,
        is_offline=is_offline,
        limits=limits,
        authorities=environ.get("SSL_CERT_FILE", ""),
    )


def _plan(requests: Requests, means: LockRun) -> Locks:
    with ending_on_signals(), waiting(is_wanted=not means.is_quiet) as say:
        named = [(name, _plan_one(name, request, means, say)) for name, request in requests]
    from envguard.lock.lock_plan import Locks  # loaded with what it holds: plans

    return Locks(tuple(named))


def _plan_one(
    name: str, request: LockRequest, means: LockRun, say: Callable[[str], None]
) -> LockPlan:
    def say_where(text: str) -> None:
        say(f"{name}: {text}" if name else text)

    return plan_lock(
        request,
        means.matrix,
        means.uv,
        notes=means.notes,
        limits=means.limits,
        releases=means.releases,
        say=say_where,
    )


def write_lock(
    requests: Requests, means: LockRun, outputs: Sequence[Output], style: str
) -> ExitCode:
    """Plan, write and say what was chosen."""
    locks = _plan(requests, means)
    paths = write_outputs(locks, outputs, style)
    _sum_up(locks, paths, means)
    return ExitCode.FITS


def _sum_up(locks: Locks, paths: Sequence[Path], means: LockRun) -> None:
    for note in dict.fromkeys(note for plan in locks.plans for note in plan.notes):
        means.say(f"note: {note}")
    for name, plan in locks.named:
        newer = [item for item in plan.rejected if item.build.version > plan.build.version]
        passed = f"; {len(newer)} newer builds do not fit" if newer else ""
        means.say(f"{f'{name}: ' if name else ''}{plan.why}{passed}")
        for bound in plan.bounds:
            means.say(f"{bound.requirement}: {bound.reason}")
        if newer_serves := _newer(plan):
            means.say(f"kept from the earlier lock; {newer_serves} serves too: see --upgrade")
    places = f" in {', '.join(map(str, paths))}" if paths else ""
    means.say(f"{sum(1 for _ in locks.merged())} packages locked{places}")


def _newer(plan: LockPlan) -> str:
    """A newer build that an earlier lock's one was preferred to; empty for none."""
    others = (c.build for c in plan.ladder.candidates if c.build.version > plan.build.version)
    newest = next(others, None)
    return f"torch {newest.label}" if newest and plan.request.preferred_build else ""


def explain_lock(
    requests: Requests,
    means: LockRun,
    outputs: Sequence[Output],
    style: str,
    *,
    is_written: bool,
) -> ExitCode:
    """Plan and print the whole ladder; write the lock only where a file was named.

    Raises:
        NoCandidateError: Nothing fits; the ladder is printed all the same.
    """
    from envguard.lock.ladder import ladder_lines

    try:
        locks = _plan(requests, means)
    except NoCandidateError as err:
        write_text("\n".join(ladder_lines((), err.failed)), None)
        raise
    for name, plan in locks.named:
        if name:
            write_text(f"{name}:", None)
        lines = ladder_lines(
            plan.ladder.candidates, plan.ladder.rejected, chosen=plan, web=means.releases.web
        )
        write_text("\n".join(lines), None)
    paths = write_outputs(locks, outputs, style) if is_written else ()
    if paths:
        _sum_up(locks, paths, means)
    return ExitCode.FITS


def check_lock(requests: Requests, means: LockRun, previous: PreviousLock) -> ExitCode:
    """Plan, and compare with an earlier lock."""
    from envguard.lock.formats.pylock import pylock_document
    from envguard.lock.record import differences

    locks = _plan(requests, means)
    lines = differences(previous.document, pylock_document(locks))
    for line in lines:
        write_text(line, None)
    if lines:
        means.say(f"{previous.path} is no longer what the request and the machines give")
        return ExitCode.DOES_NOT_FIT
    means.say(f"{previous.path} is what the request and the machines give")
    return ExitCode.FITS
