"""Resolves requirements with uv so that the torch family comes from one index, the rest not."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from envguard.errors import EnvguardError, NetworkError, ToolError
from envguard.lock.complaints import (
    PROJECT,
    UnsolvableError,
    check_config_was_read,
    explain_failure,
)
from envguard.lock.index_watch import IndexWatch, indexes_of
from envguard.lock.package_index import BUILT_WITH_TORCH, is_same_index
from envguard.lock.pins import parse_listing, parse_uv_pylock
from envguard.lock.project import (
    Problem,
    Routing,
    asked_for,
    routed_names,
    uv_arguments,
    write_project,
)
from envguard.lock.uv import (
    RunningUv,
    Uv,
    interpreter_for,
    run_uv,
    with_default_index,
    without_torch_backend,
)
from envguard.values import dataclass
from envguard.web.lock_limits import LockLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.utils import NormalizedName

    from envguard.lock.pins import ListedPin, Pin

_MAX_PASSES = 5


@dataclass(frozen=True, slots=True)
class _Run:
    """Uv in a folder."""

    uv: Uv
    folder: Path
    python: str
    limits: LockLimits


class _Guess:
    """The second pass, begun with the first: from uv's cache it often has the same answer.

    It takes uv's whole second run off the time that people wait.

    Args:
        problem: What to resolve.
        routing: As in the first pass.
        run: Of the first pass.
    """

    def __init__(self, problem: Problem, routing: Routing, run: _Run) -> None:
        folder = Path(tempfile.mkdtemp(prefix="guess-", dir=run.folder))
        self._started, self._text = RunningUv(), ""
        arguments = (replace(problem, is_offline=True), replace(run, folder=folder), routing)
        self._thread = threading.Thread(target=self._resolve, args=arguments)
        self._thread.start()

    def _resolve(self, problem: Problem, run: _Run, routing: Routing) -> None:
        with contextlib.suppress(EnvguardError):
            self._text = _compile(problem, run, routing, "pylock.toml", started=self._started)

    def text(self) -> str:
        """What uv wrote; empty where its cache does not hold everything."""
        self._thread.join()
        return self._text

    def end(self) -> None:
        """Give it up."""
        self._started.end()
        self._thread.join()


def resolve(
    problem: Problem,
    uv: Uv,
    *,
    limits: LockLimits | None = None,
    tell: Callable[[tuple[ListedPin, ...]], None] | None = None,
) -> tuple[Pin, ...]:
    """Resolve a problem to pins.

    A source of uv routes only what the project itself asks for, so members of the family that
    others bring along (triton by torch, torchvision by timm) are found in a first listing and
    asked for in the next. uv's cache makes the further passes cheap.

    Args:
        problem: What to resolve.
        uv: The program.
        limits: What the whole lock may take; None for the usual, from now on.
        tell: Told the listing, which says what asks for what.

    Returns:
        The pins by name.

    Raises:
        UnsolvableError: There is no solution.
        NetworkError: An index cannot be read, or gives no hashes.
        ToolError: uv failed, or did not do what it was told.
    """
    with (
        tempfile.TemporaryDirectory(prefix="envguard-lock-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        uv = replace(uv, variables=without_torch_backend(uv.variables, folder))
        run = _Run(uv, folder, interpreter_for(problem.target, folder), limits or LockLimits())
        listing, routing, guess = _route(problem, run, stack)
        _check_origins(listing, problem, routing)
        if tell is not None:
            tell(listing)
        pins = _read_files(listing, problem, routing, run, guess)
    check_schemes(pins)
    return pins


class UvRuns:
    """Runs of uv, one after the other, that another thread can put an end to."""

    def __init__(self) -> None:
        self.is_over = False
        self._current: RunningUv | None = None

    def begin(self, started: RunningUv) -> None:
        """Take the next run; where the end has come already, it will not start."""
        self._current = started
        if self.is_over:
            started.end()

    def end(self) -> None:
        """End the one that runs, and let no other start."""
        self.is_over = True
        if self._current is not None:
            self._current.end()


def list_versions(
    problem: Problem, uv: Uv, *, limits: LockLimits, runs: UvRuns
) -> tuple[ListedPin, ...]:
    """Resolve a problem to versions only, in one pass: to learn what goes with what.

    Members of the family that others bring along may be listed as the default index has them.

    Args:
        problem: What to resolve.
        uv: The program.
        limits: What the whole lock may take.
        runs: By which another thread can end uv.

    Raises:
        UnsolvableError: There is no solution.
        NetworkError: An index cannot be read.
        ToolError: uv failed, or was ended.
    """
    with tempfile.TemporaryDirectory(prefix="envguard-lock-") as name:
        folder = Path(name)
        uv = replace(uv, variables=without_torch_backend(uv.variables, folder))
        run = _Run(uv, folder, interpreter_for(problem.target, folder), limits)
        routing = Routing(problem.companions)
        try:
            text = _list(problem, run, routing, runs)
        except UnsolvableError as err:
            lacking = _may_stray(problem, routing, err)
            if not lacking:
                raise
            routing = Routing(routing.added - lacking, routing.given_up | lacking)
            text = _list(problem, run, routing, runs)
    return parse_listing(text)


def _read_files(
    listing: tuple[ListedPin, ...],
    problem: Problem,
    routing: Routing,
    run: _Run,
    guess: _Guess | None,
) -> tuple[Pin, ...]:
    """Resolve once more for addresses and hashes, which the listing does not hold.

    From uv's cache if that gives the same answer, so that no index is asked twice.
    """
    indexes = {found.name: found.index_url for found in listing}
    direct = {found.name for found in listing if found.is_direct}
    listed = {(found.name, found.version) for found in listing if not found.is_direct}
    settled = [Requirement(f"{name}=={version}") for name, version in sorted(listed)]
    for text in _documents(problem, routing, run, guess, settled):
        pins = parse_uv_pylock(text, indexes)
        found = {(pin.name, pin.version) for pin in pins if pin.name not in direct}
        if listed == found and direct <= {pin.name for pin in pins}:
            return pins
    raise NetworkError("an index changed while it was read", hint="run it again")


def _documents(
    problem: Problem,
    routing: Routing,
    run: _Run,
    guess: _Guess | None,
    settled: list[Requirement],
) -> Iterator[str]:
    """The second pass, as cheaply as it can be had: guessed, from the cache, from the index."""
    if guess is not None and (text := guess.text()):
        yield text
    with contextlib.suppress(NetworkError, UnsolvableError):
        offline = replace(problem, is_offline=True)
        yield _compile(offline, run, routing, "pylock.toml", settled)
    yield _compile(problem, run, routing, "pylock.toml", settled)


def _route(
    problem: Problem, run: _Run, stack: contextlib.ExitStack
) -> tuple[tuple[ListedPin, ...], Routing, _Guess | None]:
    routing = Routing(problem.companions)
    for _ in range(_MAX_PASSES):
        guess = None
        if not problem.preferred:  # what an earlier lock held is only told to the first pass
            guess = _Guess(problem, routing, run)
            stack.callback(guess.end)
        try:
            text = _list(problem, run, routing)
        except UnsolvableError as err:
            lacking = _may_stray(problem, routing, err)
            if not lacking:
                raise
            routing = Routing(routing.added - lacking, routing.given_up | lacking)
            continue
        listing = parse_listing(text)
        adjusted = _adjust(routing, listing, problem)
        if adjusted == routing:
            return listing, routing, guess
        routing = adjusted
    raise ToolError("uv's answers about the torch family do not settle")


def _may_stray(
    problem: Problem, routing: Routing, err: UnsolvableError
) -> frozenset[NormalizedName]:
    """Members of the family that the torch index lacks and another may have."""
    return (routed_names(problem, routing) - BUILT_WITH_TORCH) & (err.unknown | err.lacking)


def _list(problem: Problem, run: _Run, routing: Routing, runs: UvRuns | None = None) -> str:
    """The first pass, which reads the indexes; with a look at their pages beside it."""
    with IndexWatch(problem, run.uv.variables, run.limits) as look:
        if runs is not None:
            runs.begin(look.started)
        try:
            return _compile(problem, run, routing, "requirements.txt", started=look.started)
        except (NetworkError, ToolError) as err:
            raise look.explain(err) from err


def _adjust(routing: Routing, listing: tuple[ListedPin, ...], problem: Problem) -> Routing:
    """Ask for the members that strayed; stop asking for those that nothing else needs."""
    asked = asked_for(problem)
    idle = {
        found.name
        for found in listing
        if found.name in routing.added and found.name not in asked and found.parents <= {PROJECT}
    }
    stray = {
        found.name
        for found in listing
        if found.name in problem.family and found.name not in asked | routing.given_up
    }
    return replace(routing, added=frozenset(stray - idle))


def _check_origins(listing: Iterable[ListedPin], problem: Problem, routing: Routing) -> None:
    """Compare where uv took each package from with where it had to.

    Raises:
        ToolError: A package comes from the wrong index.
    """
    is_one = problem.default_index is not None and is_same_index(
        problem.default_index, problem.torch_index
    )
    for found in listing:
        if found.is_direct:
            continue
        must = found.name in problem.family and found.name not in routing.given_up
        if must != is_same_index(found.index_url, problem.torch_index) and (must or not is_one):
            place = found.index_url or "an unnamed place"
            raise ToolError(
                f"{found.name} {found.version} comes from {place}, expected "
                f"{'the torch index' if must else 'another index than torch'}",
                hint="a setting of uv may override this: see no-sources and index in uv.toml",
            )


def check_schemes(pins: Iterable[Pin]) -> None:
    """Refuse files that an https index leads to over plain http.

    Raises:
        NetworkError: One does.
    """
    for pin in pins:
        plain = [a.url for a in pin.artifacts if a.url.startswith("http:")]
        if plain and pin.index_url.startswith("https:"):
            raise NetworkError(
                f"{pin.index_url} leads to {plain[0]}, which is not https",
                hint="what comes over plain http can be anybody's: use another index",
            )


def _compile(
    problem: Problem,
    run: _Run,
    routing: Routing,
    form: str,
    pinned: Iterable[Requirement] = (),
    *,
    started: RunningUv | None = None,
) -> str:
    """Run ``uv pip compile`` once and return what it wrote."""
    write_project(problem, routing, run.folder, pinned=pinned)
    output, uv = run.folder / form, run.uv
    output.unlink(missing_ok=True)
    if problem.preferred and form == "requirements.txt":  # uv keeps what its output file holds
        output.write_text("".join(f"{pin}\n" for pin in problem.preferred), encoding="utf-8")
    if problem.default_index is not None:
        uv = replace(uv, variables=with_default_index(uv.variables, problem.default_index))
    arguments = uv_arguments(problem, routing, form, run.python)
    ended = run_uv(
        uv,
        arguments,
        folder=run.folder,
        limits=run.limits,
        doing=f"uv's reading of {indexes_of(problem, uv.variables)}",
        started=started,
    )
    if ended.returncode != 0 or ended.talk:
        if ended.returncode != 0:
            raise explain_failure(ended, uv.variables)
        check_config_was_read(ended)
    try:
        return output.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ToolError(f"uv wrote no {form} that can be read: {err}") from err
