"""The wishes family: requirements that leave the release open, judged by all that they admit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.companions import check_capability
from envguard.checks.context import CheckOptions, torch_evidence, torch_words
from envguard.checks.driver import check_driver_serves_cuda
from envguard.checks.gpu import check_code_for_gpus
from envguard.facts.environment import BuildOrigin, Distribution, Wish
from envguard.facts.findings import Evidence, Finding, Remedy, Status, verdict_of
from envguard.facts.gaps import GapReason
from envguard.facts.sentences import join_sentences, say
from envguard.matrix.complete import possible_platforms
from envguard.matrix.picks import TORCH, OpenPins, needs_torch
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import Environment
    from envguard.facts.facts import Facts
    from envguard.facts.gaps import Gap
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageRelease

_MANY = 8
# The readers of files, as gaps name them.
_READERS = frozenset({"lockfile", "requirements"})


@dataclass(frozen=True, slots=True)
class Judged:
    """The releases that a wish admits, each with its status on this machine, oldest first.

    Args:
        wish: The wish.
        releases: Versions and statuses.
        reason: What keeps the newest of them from running here; empty where it does.
    """

    wish: Wish
    releases: tuple[tuple[Version, Status], ...]
    reason: str = ""

    @property
    def all_fail(self) -> bool:
        """None of them runs here; of none at all that is not said."""
        return bool(self.releases) and all(s is Status.FAIL for _, s in self.releases)


def judge_wishes(facts: Facts, matrix: Matrix, options: CheckOptions) -> tuple[Judged, ...]:
    """Judge every release that the wishes admit against GPUs and driver.

    Args:
        facts: Completed facts.
        matrix: The tables.
        options: What the user insists on.

    Returns:
        One entry for each wish whose releases the tables list; empty where nothing is known of
        GPUs and driver.
    """
    environment, machine = facts.environment, facts.machine
    driver = machine.driver
    if environment is None or not (machine.gpus or driver.version or driver.cuda):
        return ()
    trial = _Trial(facts, environment, matrix, options)
    found = [trial.judge(wish) for wish in environment.wishes if wish.name != TORCH]
    torch = environment.torch
    if torch is not None and torch.origin is BuildOrigin.WISHED:
        found.insert(0, trial.judge(environment.wish(TORCH) or Wish(TORCH)))
    return tuple(judged for judged in found if judged.releases)


class _Trial:
    """Tries releases on the machine, each torch once."""

    def __init__(
        self, facts: Facts, environment: Environment, matrix: Matrix, options: CheckOptions
    ) -> None:
        self._facts, self._environment = facts, environment
        self._matrix, self._options = matrix, options
        self._pins = OpenPins(environment, possible_platforms(facts.machine), matrix)
        self._known: dict[Version, tuple[Status, str]] = {}
        self._torches = self._pins.torches()

    def judge(self, wish: Wish) -> Judged:
        """Every release that a wish admits."""
        if wish.name == TORCH:
            tried = [(version, *self._torch(version)) for version in self._torches]
        else:
            rows = self._pins.releases(wish)
            tried = [(row.version, *self._release(wish.name, row)) for row in rows]
        statuses = tuple((version, status) for version, status, _ in tried)
        return Judged(wish, statuses, tried[-1][2] if tried else "")

    def _torch(self, version: Version) -> tuple[Status, str]:
        if version not in self._known:
            build = self._pins.build_of(version, BuildOrigin.WISHED)
            tried = replace(self._facts, environment=replace(self._environment, torch=build))
            checks = (check_driver_serves_cuda, check_code_for_gpus)
            found = [f for check in checks for f in check(tried, self._matrix, self._options)]
            worst = Status.UNKNOWN if build.accelerator is None else verdict_of(found)
            self._known[version] = (worst, _failing(found))
        return self._known[version]

    def _release(self, name: str, row: PackageRelease) -> tuple[Status, str]:
        alone = replace(self._environment, distributions=(Distribution(name, row.version),))
        tried = replace(self._facts, environment=alone)
        found = list(check_capability(tried, self._matrix, self._options))
        own = (verdict_of(found), _failing(found))
        clauses = tuple(row.requires.get(TORCH) or ())
        if own[0] is Status.FAIL or len(clauses) != 1 or clauses[0].operator != "==":
            return own
        exact = [v for v in self._torches if clauses[0].contains(v, prereleases=True)]
        return min([own, *map(self._torch, exact[-1:])], key=lambda pair: _rank(pair[0]))


def _failing(findings: list[Finding]) -> str:
    """The title of the first failure, or nothing."""
    return next((f.title for f in findings if f.status is Status.FAIL), "")


def _rank(status: Status) -> int:
    order = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK, Status.SKIP)
    return order.index(status)


def check_wishes(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """What is judged where the release is left open, and how the others that it admits fare."""
    environment = facts.environment
    if environment is None or not (environment.wishes or _is_implied(environment)):
        return
    judged = judge_wishes(facts, matrix, options)
    for one in judged:
        if one.all_fail:
            yield _none_fits(one)
    taken = [d for d in environment.distributions or () if _is_taken(environment, d)]
    if taken or _is_implied(environment):
        yield _taken_today(environment, taken, judged, matrix)


def _is_implied(environment: Environment) -> bool:
    torch = environment.torch
    return torch is not None and torch.origin is BuildOrigin.WISHED


def _is_taken(environment: Environment, found: Distribution) -> bool:
    return found.version is not None and environment.wish(found.name) is not None


def _none_fits(judged: Judged) -> Finding:
    versions = [version for version, _ in judged.releases]
    return Finding(
        code="WHL015",
        cause="no-release-fits",
        status=Status.FAIL,
        title=say("no release that {wish} admits runs on this machine", wish=judged.wish),
        detail=say(
            "Each was judged: {range}. Of the newest: {reason}.",
            range=_range(versions),
            reason=judged.reason,
        ),
        package=judged.wish.name,
        evidence=(Evidence(f"requirement[{judged.wish.name}]", str(judged.wish), "document"),),
        remedy=Remedy(
            say("ask for another release of {package}, or do without it", package=judged.wish.name)
        ),
        line=judged.wish.line,
    )


def _range(versions: list[Version]) -> str:
    if len(versions) == 1:
        return str(versions[0])
    return say(
        "{count} from {first} to {last}",
        count=len(versions),
        first=versions[0],
        last=versions[-1],
    )


def _taken_today(
    environment: Environment,
    taken: list[Distribution],
    judged: tuple[Judged, ...],
    matrix: Matrix,
) -> Finding:
    names = [f"{d.name} {d.version}" for d in taken if d.name != TORCH]
    torch = environment.torch
    if torch is not None and torch.origin is BuildOrigin.WISHED:
        names.insert(0, torch_words(torch))
    shown = names[:_MANY] + ([say("{n} more", n=len(names) - _MANY)] * (len(names) > _MANY))
    return Finding(
        code="WHL014",
        cause="taken-today",
        status=Status.OK,
        title=say(
            "judged as an installer takes it today: {packages}",
            packages=join_sentences(*shown, by=", "),
        ),
        detail=join_sentences(
            say(
                "The file leaves the release open; what is newest is that of the tables of {day}.",
                day=matrix.manifest.data_version,
            ),
            _who_asks(environment, matrix),
            # of a package that takes any torch, its own bounds alone say too little
            *(_others(one) for one in judged if one.wish.name == TORCH),
        ),
        package=TORCH if torch is not None else taken[0].name,
        evidence=torch_evidence(torch) if torch is not None else (),
    )


def _who_asks(environment: Environment, matrix: Matrix) -> str:
    """Which packages bring a torch that the file does not name."""
    if not _is_implied(environment) or environment.wish(TORCH) is not None:
        return ""
    names = [d.name for d in environment.distributions or () if needs_torch(d, matrix)]
    return say(
        "No line names torch: {packages} needs it. One that is there already and is kept has to "
        "be stated.",
        packages=join_sentences(*names[:_MANY], by=", "),
    )


def _others(judged: Judged) -> str:
    good = [version for version, status in judged.releases if status is not Status.FAIL]
    if not good:
        return ""
    if len(good) == len(judged.releases):
        return say("Every release that {wish} admits runs here.", wish=judged.wish)
    return say(
        "Of {count} releases that {wish} admits {good} run here, {oldest} to {newest}.",
        count=len(judged.releases),
        wish=judged.wish,
        good=len(good),
        oldest=good[0],
        newest=good[-1],
    )


def as_of_today(finding: Finding, facts: Facts, firm: frozenset[str]) -> Finding:
    """A finding about a release that nothing pins is no more than what happens today.

    Args:
        finding: As a check made it.
        facts: Completed facts.
        firm: Packages of which every release fails.

    Returns:
        A warning in the place of a failure, where another release of the package would do.
    """
    environment = facts.environment
    if environment is None or finding.status is not Status.FAIL or finding.package == TORCH:
        return finding
    names = (finding.package, *_partners(finding))
    wishes = (environment.wish(name) for name in names if name and name not in {TORCH, *firm})
    wish = next((wish for wish in wishes if wish is not None), None)
    if wish is None:
        return finding
    note = say("It is what an installer takes today of {wish}; the file pins none.", wish=wish)
    return replace(finding, status=Status.WARN, detail=join_sentences(finding.detail, note))


def _partners(finding: Finding) -> Iterator[str]:
    """The other packages of a break between several: another release of one may do."""
    if finding.code.startswith("BRK"):
        for evidence in finding.evidence:
            yield evidence.fact.partition("[")[2].partition("]")[0]


def check_made_for_here(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A lock or project whose own bounds leave out this Python or platform."""
    for fact, cause, what in (
        ("environment.interpreter", "lock-for-other-python", "this Python"),
        ("environment.platform", "lock-for-other-platform", "this platform"),
    ):
        gap = facts.gap(fact)
        if gap is None or gap.reason is not GapReason.MISMATCH or gap.probe not in _READERS:
            continue
        document = facts.environment.document if facts.environment else None
        yield Finding(
            code="LCK004",
            cause=cause,
            status=Status.FAIL,
            title=say(
                "{document} is not made for {what}", document=document or "the file", what=what
            ),
            detail=say("{reason}. An installer refuses it.", reason=_capital(gap.detail)),
            evidence=(Evidence(fact, gap.detail, gap.probe),),
            remedy=Remedy(
                "use an environment that it is made for, or widen its bounds and lock again"
            ),
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def check_not_judged(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Lines that install a source tree, an archive or a repository: no table describes them."""
    gaps = [gap for gap in facts.gaps if _is_not_judged(gap)]
    if not gaps:
        return
    listed = [gap.detail for gap in gaps[:_MANY]]
    if len(gaps) > _MANY:
        listed.append(say("{n} more", n=len(gaps) - _MANY))
    yield Finding(
        code="WHL016",
        cause="source-not-judged",
        status=Status.OK,
        title=say("not judged: {requirements}", requirements=join_sentences(*listed, by="; ")),
        detail="What a repository, an archive or a folder brings along is not known before it is "
        "built. The rest of the file is judged.",
        evidence=tuple(Evidence(gap.fact, gap.detail, gap.probe) for gap in gaps[:_MANY]),
    )


def _is_not_judged(gap: Gap) -> bool:
    return (
        gap.probe in _READERS
        and gap.reason is GapReason.NOT_ASKED
        and gap.fact.startswith("environment.distributions[")
        and gap.fact.endswith("]")
        and gap.probe == "requirements"
    )
