"""Chooses the build: what was asked for by name at its newest, then torch; the reasons kept."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.backend import Candidate, Ladder, RejectedBuild
from envguard.conditions import admits
from envguard.errors import EnvguardError, NetworkError
from envguard.facts.sentences import say
from envguard.lock.alternatives import (
    behind_notes,
    grouped_reasons,
    nearest_way,
    python_wanted,
)
from envguard.lock.complaints import NoCandidateError, UnbuildableError, UnsolvableError
from envguard.lock.constraints import MatrixBound, find_repairs, is_outside
from envguard.lock.existence import absent_from_index
from envguard.lock.newest import IndexReleases
from envguard.lock.pins import Pin
from envguard.lock.prepare import (
    PreparedBuild,
    extension_names,
    make_problem,
    prepare_build,
    prepare_open,
    with_extensions_of,
)
from envguard.lock.solve import (
    TORCH,
    Attempt,
    KnownBreakError,
    attempt_of,
    check_labels,
    resolve_and_repair,
    resolve_either_way,
    ruled_out,
)
from envguard.lock.survey import (
    LockContext,
    Survey,
    Surveys,
    behind_words,
    ranked_names,
    torch_parents,
    torch_wishes,
)
from envguard.values import dataclass
from envguard.web.failures import NO_PAGE, refusal_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName

    from envguard.lock.pins import ListedPin
    from envguard.lock.project import Problem
    from envguard.lock.request import LockRequest
    from envguard.matrix.rows import TorchBuildRow

MAX_TRIES = 8
_ASKS = re.compile(
    r"(?<![\w.-])([\w.-]{1,100}(?:[=<>!~][^\s;]{0,100})?) depends? on (torch[=<>!~][^\s;]{0,100})"
)


@dataclass(frozen=True, slots=True)
class ResolvedBuild:
    """The build that is taken.

    Args:
        candidate: The build.
        pins: All packages by name.
        failed: The builds before it on the ladder, each with the reason.
        bounds: What the matrix added and the pins are subject to.
        notes: Remarks for the reader.
    """

    candidate: Candidate
    pins: tuple[Pin, ...]
    failed: tuple[RejectedBuild, ...]
    bounds: tuple[MatrixBound, ...] = ()
    notes: tuple[str, ...] = ()


def choose_build(ladder: Ladder, request: LockRequest, means: LockContext) -> ResolvedBuild:
    """Find the build with which the request resolves best.

    The packages that were asked for by name come first, at the newest version that fits the
    machines; then the newest torch that they take.

    Args:
        ladder: Every build, those that serve the machines best first.
        request: What is asked.
        means: What it takes.

    Raises:
        NoCandidateError: None resolves; it holds the reasons.
        NoBuildError: The reason has nothing to do with torch.
        NetworkError: An index cannot be read.
        ToolError: uv failed.
    """
    return _Choice(ladder, request, means).result()


class _Choice:
    """One search: what was tried, what was learned."""

    def __init__(self, ladder: Ladder, request: LockRequest, means: LockContext) -> None:
        self.ladder, self.request, self.means = ladder, request, means
        self.candidates = ladder.candidates
        self.names = ranked_names(request, means.matrix)
        self.listed = IndexReleases(request, means.releases.open_web)
        self.asking: tuple[NormalizedName, ...] = ()
        self.failed: dict[TorchBuildRow, str] = {}
        self.attempts: list[Attempt] = []
        self.lacking: list[PreparedBuild] = []
        self.surveys: tuple[Survey, ...] = ()
        self.unbuildable: UnbuildableError | None = None
        self.broken: tuple[Candidate, KnownBreakError] | None = None

    def result(self) -> ResolvedBuild:
        is_known = self.request.preferred_build is not None or self._is_pinned_away()
        best = None if is_known else self._best()
        if best is not None and self._is_newest(best.pins):
            return best
        found = self._first_of(self._order(), best)
        if found is None and self.broken is not None:
            candidate, err = self.broken
            note = say("what is locked has a known break: {what}", what=err.against)
            notes = (*err.prepared.notes, note)
            self.failed.pop(candidate.build, None)
            found = _resolved(candidate, err.pins, replace(err.prepared, notes=notes))
        if found is None:
            raise self._refusal()
        return self._with_reasons(found)

    def _is_pinned_away(self) -> bool:
        """Whether the tables know that the newest of a named package takes another torch."""
        torch = self.candidates[0].build.version
        for name in self.names:
            table = self.means.matrix.packages(name)
            stated = self.request.bounds_on(name)
            releases = table.releases if table is not None else ()
            newest = next((r for r in reversed(releases) if admits(stated, r.version)), None)
            wish = newest.requires.get("torch") if newest is not None else None
            if wish is not None and not admits(wish, torch):
                return True
        return False

    def _best(self) -> ResolvedBuild | None:
        """The best build, if torch comes out as that one where it is left open."""
        best = self.candidates[0]
        build = best.build
        self.means.say(f"trying torch {build.label}")
        prepared = self._prepared(build)
        if prepared is None:
            return None
        builds = [c.build for c in self.candidates if c.build.backend == build.backend]
        opened = prepare_open(builds, self.request, self.means.matrix)
        opened = with_extensions_of(opened, prepared)
        if opened.against:
            return None
        try:
            pins = resolve_either_way(opened.problem, self.request, self.means, self._listen)
        except (UnsolvableError, UnbuildableError):
            return None  # the surveys will say why
        if next(pin.version for pin in pins if pin.name == TORCH) != Version(build.label):
            return None
        situation, matrix = prepared.situation, self.means.matrix
        repairs = find_repairs(pins, prepared.bounded, situation, self.request, matrix)
        versions = {str(pin.name): pin.version for pin in pins}
        is_bad = any(is_outside(bound, versions) for bound in prepared.bounds)
        if is_bad or repairs.items or repairs.against or _strays(pins, prepared.problem):
            return self._try(best, prepared)
        check_labels(pins, build)
        return _resolved(best, pins, prepared.with_bounds(repairs, ()))

    def _listen(self, listing: tuple[ListedPin, ...]) -> None:
        """Learn what asks for torch without being named."""
        self.asking = torch_parents(listing, self.request, self.means.matrix)

    def _is_newest(self, pins: Iterable[Pin]) -> bool:
        """Whether every package that was named is at the newest release for the target."""
        pages = {pin.name: pin.index_url for pin in pins if pin.name in {*self.names, *self.asking}}
        self.listed.read(pages)
        if any(
            self.listed.is_old(pin.name, pin.version) for pin in pins if pin.name in self.asking
        ):
            return False
        found = {pin.name: pin for pin in pins if pin.name in self.names}
        newest = {name: self.listed.newest(str(name)) for name in found}
        return all(
            one is None or found[name].version.public == one.version.public
            for name, one in newest.items()
        )

    def _order(self) -> Iterator[Candidate]:
        """The builds to try: what the surveys found, best first, then their neighbours."""
        if self.request.preferred_build:
            yield from self.candidates
            return
        builds = [c for c in self.candidates if c.build not in self.failed]
        if extensions := extension_names(self.request, self.means.matrix):
            # The newest torch with a prebuilt wheel; what else was named ranks among such builds.
            builds = [c for c in builds if self._has_wheels(c.build, extensions)]
            if not (builds and self.names):
                yield from self.candidates
                return
        surveys = Surveys(self.request, self.means, self.listed)
        self.surveys = surveys.of(builds)
        ranked = surveys.ranked(self.surveys)
        for survey in self.surveys:
            self._take_failure(survey, is_alone=not ranked)
        first = [survey.chosen for survey in ranked]
        yield from (candidate for candidate in first if candidate is not None)
        yield from (c for c in self.candidates if c not in first)

    def _has_wheels(self, build: TorchBuildRow, names: Iterable[NormalizedName]) -> bool:
        """Whether every extension has a recorded wheel for a build, or may be built."""
        if self.request.allow_build:
            return True
        from envguard.lock.prebuilt import is_recorded
        from envguard.lock.prebuilt_rows import WheelMatrix

        tables = ((name, WheelMatrix.of(self.means.matrix.packages(name))) for name in names)
        return all(
            wheels is None
            or is_recorded(wheels, self.request.bounds_on(name), build, self.request.target)
            for name, wheels in tables
        )

    def _take_failure(self, survey: Survey, *, is_alone: bool) -> None:
        """Keep why nothing resolves with a backend, under each of its builds."""
        if survey.prepared is None:
            return
        reason = survey.prepared.against
        if survey.unbuildable is not None:
            self.unbuildable = self.unbuildable or survey.unbuildable
            reason = survey.unbuildable.message
        if survey.error is not None and survey.bounds and not is_alone:
            reason = _nothing_newer(survey.bounds)
        elif survey.error is not None:
            attempt = attempt_of(survey.error, survey.prepared)
            self.attempts.append(attempt)
            reason = self._survey_reason(attempt, survey)
        if reason:
            self.failed.update((c.build, reason) for c in survey.candidates)

    def _survey_reason(self, attempt: Attempt, survey: Survey) -> str:
        """What the packages ask of torch, where the backend has no such build; else uv's words."""
        wishes = attempt.torch_wishes
        unmet = [
            w for w in wishes if not any(w.contains(v, prereleases=True) for v in _versions(survey))
        ]
        if not unmet or TORCH in attempt.error.unknown:
            return attempt.reason
        versions = sorted(_versions(survey))
        span = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else f"{versions[0]}"
        asking = dict.fromkeys(_ASKS.findall(attempt.error.reason))
        who = " and ".join(f"{name} needs {wish}" for name, wish in asking)
        return say(
            "{who}; the builds for {backend} that serve the machines are {span}",
            who=who or "other packages need " + " and ".join(f"torch{wish}" for wish in unmet),
            backend=survey.backend.label,
            span=span,
        )

    def _first_of(
        self, order: Iterable[Candidate], best: ResolvedBuild | None
    ) -> ResolvedBuild | None:
        for candidate in order:
            build = candidate.build
            if best is not None and build == best.candidate.build:
                return best
            if build in self.failed:
                continue
            problem = make_problem(build, self.request, self.means.matrix)
            if reason := ruled_out(build, problem, self.attempts, self.means.matrix):
                self.failed[build] = reason
                continue
            if sum(attempt.is_conflict for attempt in self.attempts) >= MAX_TRIES:
                self.means.say(f"{MAX_TRIES} kinds of builds were tried, the others are not")
                return None
            self.means.say(f"trying torch {build.label}")
            # For a build whose publication is established, the resolver's own reading of the
            # page is the proof; asking before would be asking twice.
            if not build.is_verified and (reason := self._absence(build)):
                self.failed[build] = reason
                continue
            prepared = self._prepared(build)
            if prepared is not None and (found := self._try(candidate, prepared)):
                return found
        return None

    def _absence(self, build: TorchBuildRow) -> str:
        return absent_from_index(build, self.request, self.means.releases.web)

    def _prepared(self, build: TorchBuildRow) -> PreparedBuild | None:
        matrix, releases = self.means.matrix, self.means.releases
        prepared = prepare_build(build, self.request, matrix, releases)
        if not prepared.against:
            return prepared
        self.failed[build] = prepared.against
        self.lacking.extend([prepared] if prepared.missing else [])
        return None

    def _try(self, candidate: Candidate, prepared: PreparedBuild) -> ResolvedBuild | None:
        try:
            pins, prepared = resolve_and_repair(prepared, self.request, self.means)
        except KnownBreakError as err:
            self.failed[candidate.build] = err.reason
            self.attempts.append(Attempt(err.prepared.problem, err))
            self.broken = self.broken or (candidate, err)
            return None
        except UnbuildableError as err:
            self.unbuildable = self.unbuildable or err
            self.failed[candidate.build] = err.message
            return None
        except UnsolvableError as err:
            self.attempts.append(attempt_of(err, prepared))
            self.failed[candidate.build] = self.attempts[-1].reason
            return None
        check_labels(pins, candidate.build)
        return _resolved(candidate, pins, prepared)

    def _with_reasons(self, found: ResolvedBuild) -> ResolvedBuild:
        """The result with why each build before it on the ladder was passed over."""
        pins = {pin.name: pin.version for pin in found.pins}
        position = self.candidates.index(found.candidate)
        for candidate in self.candidates[:position]:
            if candidate.build not in self.failed:
                self.failed[candidate.build] = self._passed_over(candidate, pins)
        notes = behind_notes(
            pins, self.names, self.listed, self.request, self.ladder, self.means.matrix
        )
        return replace(
            found,
            failed=tuple(RejectedBuild(build, (why,)) for build, why in self.failed.items()),
            notes=tuple(dict.fromkeys((*found.notes, *notes))),
        )

    def _passed_over(self, candidate: Candidate, pins: dict[NormalizedName, Version]) -> str:
        """Why a build was not taken that nothing else is known against."""
        build = candidate.build
        survey = next((s for s in self.surveys if s.backend == build.backend), None)
        if survey is None:
            return say("an earlier lock's build was preferred")
        if survey.chosen is None:
            return say("can give no newer release of what was named than the build that is taken")
        if build.version > survey.chosen.build.version:
            wishes = torch_wishes(survey.listing, self.request, self.listed)
            unmet = [f"{who} needs torch{w}" for who, w in wishes.items() if not _admits(w, build)]
            return "; ".join(unmet) or self._absence(build) or self._newest_first(survey)
        return behind_words(survey, pins) or self._newest_first(survey)

    def _newest_first(self, survey: Survey) -> str:
        torch = survey.versions[TORCH]
        return say(
            "was not tried: the newest releases of what was named go with torch {torch}",
            torch=torch,
        )

    def _refusal(self) -> EnvguardError:
        failed = [RejectedBuild(build, (why,)) for build, why in self.failed.items()]
        if self.lacking and len(self.lacking) == len(failed):
            return _no_wheel_error(self.lacking, failed, self.request, self.means)
        errors = [attempt.error for attempt in self.attempts]
        if self.unbuildable is not None and not errors:
            return self.unbuildable
        # A page that is refused or missing is an absent build, unless that is all there is to say.
        said = {attempt.reason for attempt in self.attempts}
        is_all = all(set(item.reasons) <= said for item in failed)
        if errors and is_all and all(TORCH in err.unknown for err in errors):
            if refused := next((err.refused for err in errors if err.refused), ""):
                return refusal_error(refused)
            return _no_page_of_torch(self.attempts[0].reason)
        if failed and all(reason.endswith(NO_PAGE) for item in failed for reason in item.reasons):
            return _no_page_of_torch(failed[0].reasons[0])
        untried = len(self.candidates) - len(failed)
        remark = f", {untried} more were not tried" if untried else ""
        return NoCandidateError(
            f"none of the {len(failed)} builds that serve the machines can be resolved with the "
            f"request{remark}:{grouped_reasons(failed)}",
            hint=self._what_would_do() or _what_to_loosen(untried),
            failed=tuple(failed),
        )

    def _what_would_do(self) -> str:
        """What the machines would have to have, or another Python."""
        for attempt in self.attempts:
            for wish in attempt.torch_wishes:
                ladder = Ladder((), self.ladder.rejected)
                if way := nearest_way(None, wish, self.request, ladder, self.means.matrix):
                    return say("what it takes is {way}", way=way)
            if python := python_wanted(attempt.error.reason):
                return say(
                    "a package of the request needs Python {python}, the lock is for {target}: "
                    "state another --python-version, or loosen the bounds of that package",
                    python=python,
                    target=self.request.target.python_words,
                )
        return ""


def _what_to_loosen(untried: int) -> str:
    others = "; --torch or --backend names a build that was not tried" if untried else ""
    return f"loosen the bounds of the packages named, or state machines that they serve{others}"


def _nothing_newer(bounds: Iterable[Requirement]) -> str:
    wanted = " and ".join(map(str, bounds))
    return say("does not go with {wanted}, which another build takes", wanted=wanted)


def _strays(pins: Iterable[Pin], problem: Problem) -> bool:
    """Whether a release of torchvision or torchaudio is one that was made for another torch."""
    bounds = {canonicalize_name(r.name): r.specifier for r in problem.family_bounds}
    return any(
        pin.name in bounds and not bounds[pin.name].contains(pin.version, prereleases=True)
        for pin in pins
    )


def _versions(survey: Survey) -> set[Version]:
    return {candidate.build.version for candidate in survey.candidates}


def _admits(wish: SpecifierSet, build: TorchBuildRow) -> bool:
    return wish.contains(build.version, prereleases=True)


def _resolved(
    candidate: Candidate, pins: tuple[Pin, ...], prepared: PreparedBuild
) -> ResolvedBuild:
    names = {str(pin.name) for pin in pins}
    bounds = (item for item in prepared.bounds if item.name in names)
    unique = {str(item.requirement): item for item in bounds}
    return ResolvedBuild(
        candidate=candidate,
        pins=pins,
        failed=(),
        bounds=tuple(unique[text] for text in sorted(unique)),
        notes=prepared.notes,
    )


def _no_page_of_torch(reason: str) -> NetworkError:
    return NetworkError(
        reason, hint="check the address of the torch index, and the credentials if it wants some"
    )


def _no_wheel_error(
    lacking: list[PreparedBuild],
    failed: list[RejectedBuild],
    request: LockRequest,
    means: LockContext,
) -> NoCandidateError:
    """The definite no where an extension has no prebuilt wheel, with the nearest that has one."""
    best = lacking[0]
    found = [
        (name, _nearest(name, best, request, means))
        for name, can_be_built in best.missing
        if can_be_built
    ]
    nearest = " and ".join(where for _, where in found if where)
    words = f"; the nearest is {nearest}" if nearest else ""
    names = " and ".join(name for name, _ in found)
    if not names or request.allow_build:
        hint = "loosen the bounds on torch, or leave the extension out"
    else:
        hint = f"--allow-build leaves it to the machine to build {names}"
    return NoCandidateError(f"{best.against}{words}", hint=hint, failed=tuple(failed))


def _nearest(name: str, best: PreparedBuild, request: LockRequest, means: LockContext) -> str:
    from envguard.lock.prebuilt import nearest_wheel
    from envguard.lock.prebuilt_rows import WheelMatrix

    wheels = WheelMatrix.of(means.matrix.packages(name))
    if wheels is None:
        return ""
    stated = request.bounds_on(canonicalize_name(name))
    return nearest_wheel(wheels, stated, best.build, request.target, means.releases)
