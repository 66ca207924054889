"""From a request to a lock plan: builds best first, each resolved, the reasons kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from envguard.backend import (
    BuildRequirements,
    Candidate,
    Ladder,
    RejectedBuild,
    has_gpu_to_serve,
    rank_builds,
)
from envguard.errors import InputError
from envguard.facts.machine import Driver, Host, Machine
from envguard.facts.sentences import say
from envguard.facts.versions import CPU, DriverVersion
from envguard.fit import DriverGrade, grade_driver
from envguard.lock.alternatives import grouped_reasons
from envguard.lock.choose import ResolvedBuild, choose_build
from envguard.lock.companions import lacks_companion
from envguard.lock.complaints import NoCandidateError, UnsolvableError
from envguard.lock.constraints import MatrixBound
from envguard.lock.newest import further_places
from envguard.lock.pins import Pin
from envguard.lock.request import LockRequest
from envguard.lock.solve import TORCH
from envguard.lock.survey import LockContext
from envguard.matrix.rows import TorchBuildRow
from envguard.values import dataclass
from envguard.web.failures import NoPageError
from envguard.web.lock_limits import LockLimits
from envguard.web.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from envguard.web.client import Web


def _say_nothing(_: str) -> None:
    """Nobody waits."""


@dataclass(frozen=True, slots=True)
class LockPlan:
    """Everything that a lockfile of any format holds.

    Args:
        request: What was asked.
        build: The torch build.
        grade: How well the machines' drivers serve it.
        why: One sentence.
        torch_index: Where it comes from, without credentials.
        pins: All packages by name.
        rejected: Builds that would have been preferred, with the reasons against each.
        ladder: Every build that the request's bounds admit: those that serve the machines, best
            first and with the chosen one among them, and the others with their reasons.
        bounds: Bounds on pinned packages that come from the matrix.
        driver_exact: Oldest driver that serves every feature; None for CPU or not known.
        driver_floor: Oldest driver that works through minor-version compatibility.
        matrix_version: Data version of the matrix.
        notes: Remarks for the reader.
    """

    request: LockRequest
    build: TorchBuildRow
    grade: DriverGrade
    why: str
    torch_index: str
    pins: tuple[Pin, ...]
    rejected: tuple[RejectedBuild, ...]
    ladder: Ladder
    bounds: tuple[MatrixBound, ...]
    driver_exact: DriverVersion | None
    driver_floor: DriverVersion | None
    matrix_version: str
    notes: tuple[str, ...] = ()

    def comes_from_torch_index(self, pin: Pin) -> bool:
        """Whether a pin is taken from the torch index."""
        return pin.index_url.rstrip("/") == self.torch_index.rstrip("/")


def plan_lock(
    request: LockRequest,
    matrix: Matrix,
    uv: Uv,
    *,
    notes: tuple[str, ...] = (),
    limits: LockLimits | None = None,
    releases: Releases | None = None,
    say: Callable[[str], None] = _say_nothing,
) -> LockPlan:
    """Choose the torch build and resolve everything around it.

    Candidates are tried best first. One that does not resolve is kept with uv's reason; where
    that reason says which torch other packages need, builds outside are passed over.

    Args:
        request: What is asked.
        matrix: The tables.
        uv: The resolver.
        notes: Remarks to carry along.
        limits: What the whole lock may take; None for the usual, from now on.
        releases: Where prebuilt wheels are looked for; None for GitHub, without a cache.
        say: Told what is being done, for people who wait.

    Raises:
        NoCandidateError: No published build serves the machines, or none resolves.
        NoBuildError: The request cannot be resolved with any torch.
        NetworkError: An index cannot be read.
        ToolError: uv failed.
    """
    wish = build_requirements(request)
    ladder = narrow(rank_builds(wish, request.machines, matrix), request, matrix)
    if not ladder.candidates:
        raise _no_candidate(request, ladder, matrix)
    limits = limits or LockLimits()
    web = partial(_open_web, is_offline=request.is_offline, limits=limits)
    means = LockContext(matrix, uv, releases or Releases(web), limits, say)
    try:
        found, request = _choose(ladder, request, means)
    except NoCandidateError as err:
        err.failed = (*err.failed, *ladder.rejected)
        raise
    failed = {item.build for item in found.failed}
    ladder = Ladder(
        tuple(c for c in ladder.candidates if c.build not in failed),
        (*found.failed, *ladder.rejected),
    )
    return _make_plan(request, found, ladder, matrix, notes)


def _choose(
    ladder: Ladder, request: LockRequest, means: LockContext
) -> tuple[ResolvedBuild, LockRequest]:
    """The build; named packages that the default index lacks are taken from a further one."""
    try:
        return choose_build(ladder, request, means), request
    except (NoPageError, UnsolvableError) as err:
        missing = err.names if isinstance(err, NoPageError) else err.lacking
        found = further_places(request.names & missing, request.more_indexes, means.releases.web)
        if not found:
            raise
    request = replace(request, from_index=found)
    return choose_build(ladder, request, means), request


def _open_web(*, is_offline: bool, limits: LockLimits) -> Web:
    from envguard.web.client import Web  # few locks need it

    return Web(is_offline=is_offline, limits=limits)


def build_requirements(request: LockRequest) -> BuildRequirements:
    """What the request asks of a torch build."""
    return BuildRequirements(
        platform=request.target.platform,
        torch=request.torch,
        backend=request.backend,
        exact_only=request.exact_only,
        python_tag=request.target.python_tag,
        allow_cpu=request.backend == CPU or not has_gpu_to_serve(request.machines),
    )


def narrow(ladder: Ladder, request: LockRequest, matrix: Matrix) -> Ladder:
    """Move candidates that cannot be meant to the rejected ones.

    These are releases after the cut-off date, and releases whose torchvision or torchaudio is
    outside what the request says, as long as others are left.
    """
    ladder = _reject(ladder, lambda c: _too_new(c, request, matrix))
    fitting = _reject(ladder, lambda c: lacks_companion(c.build, request, matrix))
    return _kept_first(fitting if fitting.candidates else ladder, request)


def _kept_first(ladder: Ladder, request: LockRequest) -> Ladder:
    """The build of an earlier lock before all others, where it still serves."""

    def is_other(candidate: Candidate) -> bool:
        build = candidate.build
        return (build.version, build.backend) != request.preferred_build

    return Ladder(tuple(sorted(ladder.candidates, key=is_other)), ladder.rejected)


def _reject(ladder: Ladder, reason_of: Callable[[Candidate], str]) -> Ladder:
    reasons = [(candidate, reason_of(candidate)) for candidate in ladder.candidates]
    return Ladder(
        tuple(candidate for candidate, reason in reasons if not reason),
        (*ladder.rejected, *(RejectedBuild(c.build, (reason,)) for c, reason in reasons if reason)),
    )


def _too_new(candidate: Candidate, request: LockRequest, matrix: Matrix) -> str:
    release = matrix.torch.release(candidate.build.version)
    cutoff = request.exclude_newer
    if cutoff is None or release is None or release.released <= cutoff[:10]:
        return ""
    return f"released {release.released}, after {cutoff}"


def _preferred(rejected: Iterable[RejectedBuild], chosen: Candidate) -> tuple[RejectedBuild, ...]:
    """The rejected builds that someone may ask about: those at least as new as the chosen."""
    return tuple(
        item
        for item in rejected
        if item.build.version >= chosen.build.version and item.build != chosen.build
    )


def _remarks(
    request: LockRequest,
    candidate: Candidate,
    floor: DriverVersion | None,
    pins: tuple[Pin, ...],
) -> Iterator[str]:
    if request.is_offline:
        yield "offline: no index was asked, what exists is what uv's cache and the matrix know"
    if candidate.build.backend == CPU and request.backend is None:
        yield "a CPU build is locked: there is no NVIDIA GPU among the machines"
    if candidate.grade is DriverGrade.UNKNOWN and floor is not None:
        yield say("no driver is known: the build needs driver {floor} or newer", floor=floor)
    if not candidate.build.is_verified and request.is_offline:
        yield say(
            "that {build} is published is announced, not established", build=candidate.build.label
        )
    cut = [str(pin.name) for pin in pins if any(file.had_query for file in pin.artifacts)]
    if cut:
        yield say(
            "the addresses of {indexes} are written without the query that the index gave "
            "with them: where the server gives nothing without it (signed addresses, which "
            "expire), use --style index or an index with lasting addresses",
            indexes=", ".join(cut),
        )
    for pin in pins:
        if pin.index_url.startswith("file:"):
            yield say(
                "{package} comes from {index}, which the machines must have too",
                package=pin.name,
                index=pin.index_url,
            )


def _make_plan(
    request: LockRequest,
    found: ResolvedBuild,
    ladder: Ladder,
    matrix: Matrix,
    notes: tuple[str, ...],
) -> LockPlan:
    candidate = found.candidate
    exact, floor = _driver_floors(candidate.build, request.machines, matrix)
    torch = next(pin for pin in found.pins if pin.name == TORCH)
    remarks = _remarks(request, candidate, floor or exact, found.pins)
    return LockPlan(
        request=request,
        build=candidate.build,
        grade=candidate.grade,
        why=candidate.why,
        torch_index=torch.index_url,
        pins=found.pins,
        rejected=_preferred(ladder.rejected, candidate),
        ladder=ladder,
        bounds=found.bounds,
        driver_exact=exact,
        driver_floor=floor,
        matrix_version=matrix.manifest.data_version,
        notes=tuple(dict.fromkeys((*notes, *found.notes, *remarks))),
    )


def _driver_floors(
    build: TorchBuildRow, machines: tuple[Machine, ...], matrix: Matrix
) -> tuple[DriverVersion | None, DriverVersion | None]:
    if build.backend.cuda is None:
        return None, None
    is_wsl = bool(machines) and all(machine.host.is_wsl for machine in machines)
    host = Host(platform=build.platform, is_wsl=is_wsl)
    fit = grade_driver(Driver(), host, build.backend.cuda, matrix.drivers)
    return fit.exact, fit.floor


def _no_candidate(request: LockRequest, ladder: Ladder, matrix: Matrix) -> NoCandidateError:
    wanted = f"torch{request.torch}" if request.torch else "torch"
    label = f" for {request.backend.label}" if request.backend else ""
    newest = max(release.version for release in matrix.torch.releases)
    if not ladder.rejected:
        return NoCandidateError(
            f"no build of {wanted}{label} is published for {request.target.platform}",
            hint=f"the newest release in the matrix is {newest}",
        )
    return NoCandidateError(
        f"no build of {wanted}{label} serves the machines and Python "
        f"{request.target.python_words}:{grouped_reasons(ladder.rejected)}",
        hint="state other bounds, --python-version or machines",
        failed=ladder.rejected,
    )


@dataclass(frozen=True, slots=True)
class Locks:
    """The plans that a document holds.

    Args:
        named: Name and plan of each target, the default one first; one plan without a name where
            there are no targets.
    """

    named: tuple[tuple[str, LockPlan], ...]

    @classmethod
    def of(cls, plan: LockPlan) -> Locks:
        """The lock of one target without a name."""
        return cls((("", plan),))

    @property
    def default(self) -> LockPlan:
        """The plan of the default target."""
        return self.named[0][1]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the targets, the default one first; empty where there are none."""
        return tuple(name for name, _ in self.named if name)

    @property
    def plans(self) -> tuple[LockPlan, ...]:
        """The plans in the same order."""
        return tuple(plan for _, plan in self.named)

    def only(self, name: str) -> Locks:
        """One of the targets, on its own.

        Raises:
            InputError: There is none of this name.
        """
        for known, plan in self.named:
            if known == name:
                return Locks.of(plan)
        raise InputError(f"there is no target {name!r}", hint=f"there are {', '.join(self.names)}")

    def single(self, form: str) -> LockPlan:
        """The only plan, for a format that holds one.

        Raises:
            InputError: There are several.
        """
        if len(self.named) > 1:
            raise InputError(
                f"--format {form} holds one target, there are {', '.join(self.names)}",
                hint="put {target} into the name of the file, or write pylock.toml",
            )
        return self.default

    def merged(self) -> Iterator[tuple[Pin, tuple[str, ...]]]:
        """Every pin once, by name and version, with the targets that install it."""
        owners: dict[Pin, list[str]] = {}
        for name, plan in self.named:
            for pin in plan.pins:
                owners.setdefault(pin, []).append(name)
        for pin in sorted(
            owners, key=lambda pin: (pin.name, pin.version, pin.index_url, pin.marker)
        ):
            yield pin, tuple(owners[pin])
