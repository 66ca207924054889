"""Runs ``envguard lock``: plans for all targets, then a file, a ladder or a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from envguard.cli.failure import say
from envguard.cli.lock_output import write_outputs
from envguard.cli.output import write_text
from envguard.cli.progress import waiting
from envguard.cli.signals import ending_on_signals
from envguard.errors import ExitCode
from envguard.lock.failures import NoCandidateError
from envguard.lock.plan import plan_lock
from envguard.lock.releases import RELEASE_BASE, Releases
from envguard.lock.runner import Uv
from envguard.lock.uvprocess import Limits
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from envguard.cli.lock_output import Output
    from envguard.lock.locks import Locks
    from envguard.lock.plan import LockPlan
    from envguard.lock.previous import PreviousLock
    from envguard.lock.request import LockRequest
    from envguard.lock.runner import UvSearch
    from envguard.lock.web import Web

    Requests = tuple[tuple[str, LockRequest], ...]


@dataclass(frozen=True, slots=True)
class Means:
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
    limits: Limits

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
    ) -> Means:
        """Put the means together; all requests are made by the same options.

        Raises:
            InputError: The time limit is none.
            ToolError: There is no usable uv.
        """
        _, first = requests[0]
        limits = Limits(time_limit_s)
        web = partial(_open_web, environ, is_offline=first.is_offline, limits=limits)
        releases = Releases(web, first.release_base or RELEASE_BASE)
        return cls(matrix, uv.result(), releases, notes, quiet, limits)

    def say(self, text: str) -> None:
        """Say a line on standard error, unless that is not wanted."""
        if not self.is_quiet:
            say(text)


def _open_web(environ: Mapping[str, str], *, is_offline: bool, limits: Limits) -> Web:
    from envguard.lock.web import Web  # few locks need it
    from envguard.lock.webcache import WebCache, cache_folder

    folder = cache_folder(environ)
    return Web(
        WebCache(folder) if folder else None,
        is_offline=is_offline,
        limits=limits,
        authorities=environ.get("SSL_CERT_FILE", ""),
    )


def _plan(requests: Requests, means: Means) -> Locks:
    with ending_on_signals(), waiting(is_wanted=not means.is_quiet) as say:
        named = [(name, _plan_one(name, request, means, say)) for name, request in requests]
    from envguard.lock.locks import Locks  # loaded with what it holds: plans

    return Locks(tuple(named))


def _plan_one(
    name: str, request: LockRequest, means: Means, say: Callable[[str], None]
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


def write_lock(requests: Requests, means: Means, outputs: Sequence[Output], style: str) -> ExitCode:
    """Plan, write and say what was chosen."""
    locks = _plan(requests, means)
    paths = write_outputs(locks, outputs, style)
    _sum_up(locks, paths, means)
    return ExitCode.FITS


def _sum_up(locks: Locks, paths: Sequence[Path], means: Means) -> None:
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
    means: Means,
    outputs: Sequence[Output],
    style: str,
    *,
    is_written: bool,
) -> ExitCode:
    """Plan and print the whole ladder; write the lock only where a file was named.

    Raises:
        NoCandidateError: Nothing fits; the ladder is printed all the same.
    """
    from envguard.lock.ladder import ladder_lines  # few ask for it

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


def check_lock(requests: Requests, means: Means, previous: PreviousLock) -> ExitCode:
    """Plan, and compare with an earlier lock."""
    from envguard.lock.compare import differences
    from envguard.lock.pylock import pylock_document

    locks = _plan(requests, means)
    lines = differences(previous.document, pylock_document(locks))
    for line in lines:
        write_text(line, None)
    if lines:
        means.say(f"{previous.path} is no longer what the request and the machines give")
        return ExitCode.DOES_NOT_FIT
    means.say(f"{previous.path} is what the request and the machines give")
    return ExitCode.FITS
