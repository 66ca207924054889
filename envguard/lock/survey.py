"""What a request takes where torch is open: one resolution for each backend, side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from envguard.backend import Candidate
from envguard.errors import ToolError
from envguard.facts.sentences import say
from envguard.facts.versions import Backend
from envguard.lock.companions import torch_family
from envguard.lock.complaints import PROJECT, UnbuildableError, UnsolvableError
from envguard.lock.constraints import Bounds, bounds_for, is_outside
from envguard.lock.newest import bounds_on
from envguard.lock.pins import ListedPin
from envguard.lock.prepare import PreparedBuild, extension_names, prepare_open, with_first
from envguard.lock.resolve import UvRuns, list_versions
from envguard.lock.uv import Uv
from envguard.matrix.loader import Matrix
from envguard.values import dataclass
from envguard.web.lock_limits import LockLimits
from envguard.web.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from envguard.lock.newest import IndexReleases
    from envguard.lock.request import LockRequest
    from envguard.matrix.rows import TorchBuildRow

TORCH = canonicalize_name("torch")
# They are released with torch and follow it.
_FOLLOWERS = frozenset(map(canonicalize_name, ("torch", "torchvision", "torchaudio", "triton")))
_SIDE_BY_SIDE = max(2, min(4, os.cpu_count() or 1))
_MOST_BACKENDS = 16
_MOST_PASSES = 4


@dataclass(frozen=True, slots=True)
class LockContext:
    """What a resolution needs besides the request.

    Args:
        matrix: The tables.
        uv: The resolver.
        releases: Where prebuilt wheels are looked for.
        limits: What the whole lock may take.
        say: Told what is being done, for people who wait.
    """

    matrix: Matrix
    uv: Uv
    releases: Releases
    limits: LockLimits
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Survey:
    """What one backend gives.

    Args:
        backend: The backend.
        candidates: Its builds that serve the machines, best first.
        prepared: What was asked; None where nothing better could come of it.
        listing: What it resolves to; empty where it does not.
        error: Why it does not; None where it does, or where a table alone speaks against it.
        unbuildable: A release that the resolver could not read, likewise.
        bounds: What other backends have found, and a better answer has to keep.
    """

    backend: Backend
    candidates: tuple[Candidate, ...]
    prepared: PreparedBuild | None = None
    listing: tuple[ListedPin, ...] = ()
    error: UnsolvableError | None = None
    unbuildable: UnbuildableError | None = None
    bounds: tuple[Requirement, ...] = ()

    @property
    def versions(self) -> dict[NormalizedName, Version]:
        """Version of each package."""
        return {pin.name: pin.version for pin in self.listing}

    @property
    def chosen(self) -> Candidate | None:
        """The build with the torch that was resolved; None for none."""
        torch = self.versions.get(TORCH)
        if torch is None:
            return None
        found = (c for c in self.candidates if str(c.build.version) == torch.public)
        return next(found, None)


def ranked_names(request: LockRequest, matrix: Matrix) -> tuple[NormalizedName, ...]:
    """The packages of a request whose newest release ranks before a newer torch, in its order."""
    others = _FOLLOWERS | extension_names(request, matrix)
    asked = (canonicalize_name(r.name) for r in request.requirements if request.applies(r))
    return tuple(dict.fromkeys(name for name in asked if name not in others))


class Surveys:
    """Resolves the request with each backend, torch left open among the builds that serve.

    A few at a time. What one found bounds the next: a backend that cannot give newer packages or
    a newer torch is not asked to the end.

    Args:
        request: What is asked.
        means: What it takes.
        listed: The releases that the index lists.
    """

    def __init__(self, request: LockRequest, means: LockContext, listed: IndexReleases) -> None:
        self.request, self.means, self.listed = request, means, listed
        self.names = ranked_names(request, means.matrix)
        self._found: list[Survey] = []
        self._running: dict[Backend, tuple[tuple[Candidate, ...], UvRuns]] = {}
        self._lock = threading.Lock()
        self._positions: dict[TorchBuildRow, int] = {}

    def of(self, candidates: Iterable[Candidate]) -> tuple[Survey, ...]:
        """One survey for each backend.

        Args:
            candidates: Best first.

        Returns:
            By the best build of each.

        Raises:
            NetworkError: An index cannot be read.
            ToolError: uv failed.
        """
        groups: dict[Backend, list[Candidate]] = {}
        for position, candidate in enumerate(candidates):
            self._positions[candidate.build] = position
            groups.setdefault(candidate.build.backend, []).append(candidate)
        if len(groups) > _MOST_BACKENDS:
            self.means.say(f"asking about the {_MOST_BACKENDS} best of {len(groups)} backends")
        asked = [tuple(group) for group in groups.values()][:_MOST_BACKENDS]
        runs = [UvRuns() for _ in asked]
        pool = ThreadPoolExecutor(_SIDE_BY_SIDE)
        try:
            answers = [pool.submit(self._one, *pair) for pair in zip(asked, runs, strict=True)]
            return tuple(answer.result() for answer in answers)
        finally:  # also when one fails, or the user interrupts
            for run in runs:
                run.end()
            pool.shutdown(cancel_futures=True)

    def _one(self, group: tuple[Candidate, ...], runs: UvRuns) -> Survey:
        backend = group[0].build.backend
        with self._lock:
            best = self.ranked(self._found)[:1]
            self._running[backend] = group, runs
        if best and self._is_settled(best[0], group):
            return Survey(backend, group)
        bounds = self._bounds_of(best[0]) if best else ()
        self.means.say(f"asking what goes with the builds for {backend.label}")
        try:
            survey = self._resolved(group, bounds, runs)
        except ToolError:
            if not runs.is_over:
                raise
            return Survey(backend, group)
        if survey.chosen is not None:
            pages = {p.name: p.index_url for p in survey.listing if p.name in self.names}
            self.listed.read(pages)
            self._take(survey)
        return survey

    def _take(self, survey: Survey) -> None:
        """Keep an answer, and end the questions that can bring nothing better."""
        with self._lock:
            self._found.append(survey)
            for backend, (group, runs) in self._running.items():
                if backend != survey.backend and self._is_settled(survey, group):
                    runs.end()

    def _is_settled(self, best: Survey, group: Iterable[Candidate]) -> bool:
        """Whether a backend can give nothing better: no newer package, no build before."""
        if best.chosen is None:
            return False
        first = min(self._positions[candidate.build] for candidate in group)
        is_better = first < self._positions[best.chosen.build]
        return not is_better and all(self._lag(name, best, ()) == 0 for name in self.names)

    def _bounds_of(self, best: Survey) -> tuple[Requirement, ...]:
        """What a better answer has to keep: no package further behind than the furthest yet."""
        most = max((self._lag(name, best, ()) for name in self.names), default=0)
        return tuple(
            Requirement(f"{name}>={oldest.version}")
            for name in self.names
            if (oldest := self.listed.oldest_within(str(name), most)) is not None
        )

    def _resolved(
        self, group: tuple[Candidate, ...], bounds: tuple[Requirement, ...], runs: UvRuns
    ) -> Survey:
        builds = [candidate.build for candidate in group]
        matrix, backend = self.means.matrix, builds[0].backend
        prepared = prepare_open(builds, self.request, matrix, bounds)
        if prepared.against:
            return Survey(backend, group, prepared)
        listing: tuple[ListedPin, ...] = ()
        for _ in range(_MOST_PASSES):
            try:
                listing = list_versions(
                    prepared.problem, self.means.uv, limits=self.means.limits, runs=runs
                )
            except UnbuildableError as err:
                return Survey(backend, group, prepared, unbuildable=err, bounds=bounds)
            except UnsolvableError as err:
                modest = prepared.without_wishes()
                if modest.problem == prepared.problem:
                    return Survey(backend, group, prepared, error=err, bounds=bounds)
                prepared = modest
                continue
            further = _further_bounds(listing, prepared, self.request, matrix)
            if not further.items:
                if not (early := self._decided_late(listing, prepared)):
                    break
                prepared = with_first(prepared, early)
                continue
            prepared = prepared.with_bounds(further, (str(pin.name) for pin in listing))
        return Survey(backend, group, prepared, listing, bounds=bounds)

    def _decided_late(
        self, listing: tuple[ListedPin, ...], prepared: PreparedBuild
    ) -> tuple[NormalizedName, ...]:
        """What asks for torch without being named, and came out old: torch was decided first."""
        asking = torch_parents(listing, self.request, self.means.matrix)
        known = {canonicalize_name(r.name) for r in prepared.problem.requirements}
        found = {p.name: p for p in listing if p.name in asking and p.name not in known}
        self.listed.read({name: pin.index_url for name, pin in found.items()})
        old = (name for name, pin in found.items() if self.listed.is_old(name, pin.version))
        early = tuple(old)
        with self._lock:
            self.names = tuple(dict.fromkeys((*self.names, *early)))
        return early

    def ranked(self, surveys: Iterable[Survey]) -> list[Survey]:
        """Those that resolve, best first: the newest named packages, then the best build.

        Of several named packages the one that is furthest behind its newest release counts first.

        Args:
            surveys: By their best build.
        """
        found = [one for one in surveys if one.chosen is not None]

        def rank(survey: Survey) -> tuple[object, ...]:
            lags = [self._lag(name, survey, found) for name in self.names]
            chosen = survey.chosen
            return (max(lags, default=0), sum(lags), self._positions[chosen.build] if chosen else 0)

        return sorted(found, key=rank)

    def _lag(self, name: NormalizedName, survey: Survey, others: Iterable[Survey]) -> int:
        """Days behind the newest release; where no index says them, places behind the others."""
        version = survey.versions.get(name)
        if version is None:
            return 0
        known = self.listed.lag_days(str(name), version)
        if known is not None:
            return known
        return len({v for o in others if (v := o.versions.get(name)) is not None and v > version})


def _further_bounds(
    listing: Iterable[ListedPin], prepared: PreparedBuild, request: LockRequest, matrix: Matrix
) -> Bounds:
    """Bounds without which nothing works, on what came along and breaks them."""
    versions = {str(pin.name): pin.version for pin in listing}
    fresh = bounds_for(versions.keys() - prepared.bounded, prepared.situation, request, matrix)
    broken = (item for item in fresh.items if item.is_needed and is_outside(item, versions))
    return Bounds(tuple(broken))


def torch_parents(
    listing: Iterable[ListedPin], request: LockRequest, matrix: Matrix
) -> tuple[NormalizedName, ...]:
    """What asks for torch and was not asked for by name, besides what is released with torch."""
    parents = next((pin.parents for pin in listing if pin.name == TORCH), frozenset())
    others = torch_family(matrix) | request.names
    names = (canonicalize_name(name) for name in sorted(parents) if name != PROJECT)
    return tuple(name for name in names if name not in others)


def torch_wishes(
    listing: Iterable[ListedPin], request: LockRequest, listed: IndexReleases
) -> dict[str, SpecifierSet]:
    """What resolved packages ask of torch, by ``name==version``, as their metadata say it.

    Only those are read that the resolver names as asking for torch, and only metadata that an
    index gives apart from the file.
    """
    pins = list(listing)
    parents = next((pin.parents for pin in pins if pin.name == TORCH), frozenset())
    asking = {pin.name: pin for pin in pins if pin.name in parents and pin.index_url}
    listed.read({name: pin.index_url for name, pin in asking.items()})
    extras = _extras(request)
    found: dict[str, SpecifierSet] = {}
    for name, pin in asking.items():
        requires = listed.requires(listed.release(str(name), pin.version))
        bounds = bounds_on("torch", requires, extras.get(name, ()), request)
        if bounds:
            found[f"{name}=={pin.version}"] = bounds
    return found


def _extras(request: LockRequest) -> Mapping[NormalizedName, frozenset[str]]:
    found: dict[NormalizedName, frozenset[str]] = {}
    for requirement in request.requirements:
        name = canonicalize_name(requirement.name)
        found[name] = found.get(name, frozenset()) | requirement.extras
    return found


def behind_words(survey: Survey, pins: Mapping[NormalizedName, Version]) -> str:
    """Which packages of a lock would be older with what a survey found; empty for none."""
    older = [
        f"{name} is {version.public}, the lock has {pins[name].public}"
        for name, version in sorted(survey.versions.items())
        if name in pins
        and name != TORCH
        and version.public != pins[name].public
        and version < pins[name]
    ]
    return say("beside it {what}", what="; ".join(older[:3])) if older else ""
