"""Which torch build serves these machines: a ranked ladder, with the reasons against the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.machine import Driver, Host, OperatingSystem, Platform
from envguard.facts.sentences import say
from envguard.facts.versions import Backend
from envguard.fit import (
    CodeGrade,
    DriverFit,
    DriverGrade,
    driver_system,
    grade_code,
    grade_driver,
)
from envguard.matrix.rows import TorchBuildRow
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.facts.environment import TorchBuild
    from envguard.facts.machine import Gpu, Machine
    from envguard.facts.versions import DriverVersion
    from envguard.matrix.loader import Matrix

_GRADE_ORDER = (
    DriverGrade.EXACT,
    DriverGrade.FORWARD_COMPAT,
    DriverGrade.SAME_MAJOR,
    DriverGrade.UNKNOWN,
    DriverGrade.NO,
)


@dataclass(frozen=True, slots=True)
class BuildRequirements:
    """What a torch build has to satisfy besides the machines.

    Args:
        platform: Where it is installed.
        torch: Bounds on the public version.
        backend: Only this one; None for any.
        exact_only: The driver must be at least the toolkit's own.
        python_tag: ``cp312``; None for any.
        allow_cpu: CPU builds are candidates (asked for, or no NVIDIA GPU in any machine).
    """

    platform: Platform
    torch: SpecifierSet = SpecifierSet()
    backend: Backend | None = None
    exact_only: bool = False
    python_tag: str | None = None
    allow_cpu: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A build that serves every machine.

    Args:
        build: The published build.
        grade: The worst driver grade among the machines.
        why: One sentence.
    """

    build: TorchBuildRow
    grade: DriverGrade
    why: str


@dataclass(frozen=True, slots=True)
class RejectedBuild:
    """A build that does not, with every reason."""

    build: TorchBuildRow
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ladder:
    """All builds that the wish's bounds admit: candidates best first, then the rejected."""

    candidates: tuple[Candidate, ...]
    rejected: tuple[RejectedBuild, ...]

    @property
    def best(self) -> Candidate | None:
        """The first candidate, or None."""
        return self.candidates[0] if self.candidates else None


def rank_builds(wish: BuildRequirements, machines: tuple[Machine, ...], matrix: Matrix) -> Ladder:
    """Rank the published builds for one or several machines.

    Newest torch first; among the builds of one release the better driver grade, then firm rows
    before unfirm, then native code before JIT, then the newest CUDA. A CPU build is a candidate
    only where the wish allows it, and comes after every CUDA build of its release.

    Args:
        wish: Bounds.
        machines: All of them must be served; an empty tuple is served by everything.
        matrix: The tables.

    Returns:
        The ladder; rejected builds in the same order, each with all its reasons.
    """
    candidates: list[tuple[tuple[object, ...], Candidate]] = []
    rejected: list[tuple[tuple[object, ...], RejectedBuild]] = []
    for build in matrix.torch.builds(platform=wish.platform):
        if not _is_admitted(build, wish):
            continue
        reasons, grade, is_native = _judge_build(build, wish, machines, matrix)
        key = _order(build, grade, is_native=is_native)
        if reasons:
            rejected.append((key, RejectedBuild(build, reasons)))
        else:
            candidates.append((key, Candidate(build, grade, _why(build, grade, machines))))
    candidates.sort(key=lambda pair: pair[0])
    rejected.sort(key=lambda pair: pair[0])
    return Ladder(tuple(c for _, c in candidates), tuple(r for _, r in rejected))


def _is_admitted(build: TorchBuildRow, wish: BuildRequirements) -> bool:
    if wish.backend is not None and build.backend != wish.backend:
        return False
    if build.backend.cuda is None and not wish.allow_cpu and wish.backend is None:
        return False
    return wish.torch.contains(build.version, prereleases=True) or wish.torch.contains(
        Version(build.label), prereleases=True
    )


def _order(build: TorchBuildRow, grade: DriverGrade, *, is_native: bool) -> tuple[object, ...]:
    cuda = build.backend.cuda
    return (
        tuple(-part for part in (*build.version.release, 0, 0, 0)[:3]),
        cuda is None,
        _GRADE_ORDER.index(grade),
        not build.provenance.is_firm,
        not is_native,
        (-cuda.major, -cuda.minor) if cuda else (0, 0),
    )


def _judge_build(
    build: TorchBuildRow, wish: BuildRequirements, machines: tuple[Machine, ...], matrix: Matrix
) -> tuple[tuple[str, ...], DriverGrade, bool]:
    reasons: list[str] = []
    if wish.python_tag and build.pythons and wish.python_tag not in build.pythons:
        reasons.append(f"no {wish.python_tag} wheel ({_span(build.pythons)})")
    grade, is_native = DriverGrade.EXACT, True
    for machine in machines:
        reasons.extend(_glibc_reasons(build, machine))
        if build.backend.cuda is None:
            continue
        if machine.gpus == () and wish.backend is None:
            reasons.append("the machine has no NVIDIA GPU")
        fit = grade_driver(machine.driver, machine.host, build.backend.cuda, matrix.drivers)
        grade = max(grade, fit.grade, key=_GRADE_ORDER.index)
        reasons.extend(_driver_reasons(build, fit, machine, exact_only=wish.exact_only))
        for gpu in _kinds(machine.selected_gpus):
            reason, native = _code_reason(build, gpu, fit.grade)
            is_native = is_native and native
            if reason:
                reasons.append(reason)
    return tuple(dict.fromkeys(reasons)), grade, is_native


def _kinds(gpus: tuple[Gpu, ...]) -> Iterable[Gpu]:
    """The first GPU of each kind: what is true of one is true of all."""
    return {(gpu.name, gpu.capability): gpu for gpu in reversed(gpus)}.values()


def _span(pythons: tuple[str, ...]) -> str:
    return f"{pythons[0]} to {pythons[-1]}" if len(pythons) > 1 else pythons[0]


def _glibc_reasons(build: TorchBuildRow, machine: Machine) -> Iterator[str]:
    glibc = machine.host.glibc
    if glibc is not None and build.glibc is not None and glibc < build.glibc:
        yield f"needs glibc {build.glibc}, the machine has {glibc}"


def _driver_reasons(
    build: TorchBuildRow, fit: DriverFit, machine: Machine, *, exact_only: bool
) -> Iterator[str]:
    driver = machine.driver.version or (
        f"for CUDA {machine.driver.cuda}" if machine.driver.cuda else "not stated"
    )
    needed = fit.floor or fit.exact
    if fit.grade is DriverGrade.NO:
        bound = f"a driver {needed} or newer" if needed else "a newer driver"
        yield f"CUDA {build.backend.cuda} needs {bound}, the driver is {driver}"
    elif exact_only and fit.grade is not DriverGrade.EXACT:
        yield f"CUDA {build.backend.cuda} is exact from driver {fit.exact}, the driver is {driver}"


def _code_reason(build: TorchBuildRow, gpu: Gpu, grade: DriverGrade) -> tuple[str | None, bool]:
    label = f"GPU {gpu.index} ({gpu.name or 'unnamed'})"
    if gpu.capability is None:
        return f"compute capability of {label} is not known", False
    fit = grade_code(
        build.targets,
        gpu.capability,
        build.backend.cuda,
        can_jit=grade.can_jit,
        is_ptx_known=build.is_ptx_known,
    )
    is_native = fit.grade in {CodeGrade.NATIVE, CodeGrade.COMPATIBLE}
    if fit.grade.runs:
        return None, is_native
    if fit.grade is CodeGrade.UNKNOWN:
        return f"its code for {label}, {gpu.capability}, is not recorded", False
    if fit.grade is CodeGrade.JIT_BLOCKED:
        return f"only PTX serves {label} and the driver cannot compile it", False
    listed = " ".join(str(t) for t in build.targets or ())
    return f"no code for {label}, compute capability {gpu.capability} (has {listed})", False


_DRIVER_WORDS = {
    DriverGrade.EXACT: "the driver serves it fully",
    DriverGrade.SAME_MAJOR: "the driver serves it through minor-version compatibility",
    DriverGrade.FORWARD_COMPAT: "the compatibility libcuda serves it",
    DriverGrade.UNKNOWN: "the driver is not known",
    DriverGrade.NO: "the driver does not serve it",
}


def _why(build: TorchBuildRow, grade: DriverGrade, machines: tuple[Machine, ...]) -> str:
    if build.backend.cuda is None:
        is_without = bool(machines) and not has_gpu_to_serve(machines)
        reason = ": there is no NVIDIA GPU" if is_without else ""
        return say("torch {version} for the CPU{reason}", version=build.version, reason=reason)
    capabilities = sorted(
        {gpu.capability for m in machines for gpu in m.selected_gpus if gpu.capability}
    )
    code = (
        say(
            "has code for compute capability {capabilities}",
            capabilities=", ".join(map(str, capabilities)),
        )
        if capabilities
        else say("is built for CUDA {cuda}", cuda=build.backend.cuda)
    )
    driver = _DRIVER_WORDS[grade] if machines else "no machine was named"
    return say(
        "torch {version} from {backend} {code}; {driver}",
        version=build.version,
        backend=build.backend.label,
        code=code,
        driver=driver,
    )


def nearest_build(
    torch: TorchBuild | None, wish: BuildRequirements, machines: tuple[Machine, ...], matrix: Matrix
) -> Candidate | None:
    """The build that fits and changes least: the same release if any, else the newest.

    Args:
        torch: What is installed or pinned now; None for nothing.
        wish: Bounds.
        machines: All of them must be served.
        matrix: The tables.
    """
    ladder = _on_oldest_drivers(rank_builds(wish, machines, matrix), machines, matrix)
    if torch is not None and torch.version is not None:
        base = torch.version.base_version
        same = [c for c in ladder.candidates if c.build.version.base_version == base]
        if same:
            return same[0]
    return ladder.best


def _on_oldest_drivers(ladder: Ladder, machines: tuple[Machine, ...], matrix: Matrix) -> Ladder:
    """The candidates, first those that run on every driver that knows the GPUs.

    A GPU runs on no driver older than itself. Where the driver is not known, that one sets the
    floor, and a build that needs a newer one may not run.

    Args:
        ladder: Of these machines.
        machines: All of them; one whose driver is known sets no floor.
        matrix: The tables.
    """
    floors = [floor for machine in machines if (floor := _driver_floor(machine, matrix))]
    served = [c for c in ladder.candidates if all(_serves(f, c, matrix) for f in floors)]
    if not floors or not served:
        return ladder
    oldest = max(floors)
    first = tuple(
        replace(
            c,
            grade=DriverGrade.SAME_MAJOR,
            why=say(
                "{why}, but {floor} is the oldest that knows these GPUs, and it serves this build",
                why=c.why,
                floor=oldest,
            ),
        )
        for c in served
    )
    return replace(ladder, candidates=(*first, *(c for c in ladder.candidates if c not in served)))


def _driver_floor(machine: Machine, matrix: Matrix) -> DriverVersion | None:
    """The oldest driver that knows all GPUs of a machine under Linux whose driver is not known."""
    host, driver = machine.host, machine.driver
    is_known = driver.version is not None or driver.cuda is not None
    if is_known or driver_system(host) is not OperatingSystem.LINUX or host.jetson:
        return None
    generations = [
        matrix.drivers.generation_of(gpu.capability)
        for gpu in machine.selected_gpus
        if gpu.capability is not None
    ]
    known = [row.first_driver_linux for row in generations if row and row.first_driver_linux]
    floor = max(known, default=None)
    # What an older one rules out, nearly every machine of today serves: it would only keep
    # people on builds of years ago.
    least = matrix.drivers.major_floor(_LEAST_MAJOR)
    return floor if floor and least and floor >= least.linux else None


def _serves(floor: DriverVersion, candidate: Candidate, matrix: Matrix) -> bool:
    cuda = candidate.build.backend.cuda
    if cuda is None:
        return True
    return grade_driver(Driver(version=floor), Host(), cuda, matrix.drivers).grade in _RUNS


_RUNS = frozenset({DriverGrade.EXACT, DriverGrade.SAME_MAJOR})
_LEAST_MAJOR = 12


def has_gpu_to_serve(machines: Iterable[Machine]) -> bool:
    """Whether any machine has, or may have, an NVIDIA GPU."""
    return any(m.gpus is None or m.gpus for m in machines)
