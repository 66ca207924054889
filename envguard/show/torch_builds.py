"""The torch table: releases against CUDA builds, and one release build by build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.backend import (
    BuildRequirements,
    Candidate,
    RejectedBuild,
    has_gpu_to_serve,
    rank_builds,
)
from envguard.errors import InputError
from envguard.facts.versions import Backend
from envguard.fit import CodeGrade, DriverGrade, grade_code, grade_driver
from envguard.matrix.rows import TorchBuildRow
from envguard.show.target import LINUX, Grid, View
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envguard.facts.machine import Platform
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchRelease
    from envguard.show.target import ShownTarget

_WORDS = {
    "yes": "runs",
    "most": "runs through minor-version compatibility: PTX of that CUDA cannot be compiled, and "
    "features new in it are missing",
    "compat": "runs through the compatibility libcuda that is in use",
    "?": "cannot be told",
    "no": "does not run",
    "x": "is published",
}
_MARKS = {
    DriverGrade.EXACT: "yes",
    DriverGrade.SAME_MAJOR: "most",
    DriverGrade.FORWARD_COMPAT: "compat",
}
_NO_DRIVER = "the driver is not stated"
_MOST_BACKENDS = 8


@dataclass(frozen=True, slots=True)
class JudgedBuild:
    """A build with its mark.

    Args:
        build: The build.
        mark: ``yes``, ``most``, ``compat``, ``?``, ``no``; ``x`` where nothing is judged.
        reasons: Why not, or why it cannot be told.
    """

    build: TorchBuildRow
    mark: str
    reasons: tuple[str, ...] = ()


_Builds = dict[Backend, JudgedBuild]


def show_torch(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
    """All releases against the CUDA releases that they are built for, or one release.

    Args:
        matrix: The tables.
        name: A release; empty for all.
        target: Machine and Python; None for no marks.

    Raises:
        InputError: There is no such release.
    """
    platform = target.platform if target else LINUX
    notes = [] if target and target.is_platform_known else [f"builds for {platform}"]
    if target and target.has_driver and target.machine.gpus is None:
        notes.append("no GPU is stated: only the driver is judged")
    judged = _judge(matrix, platform, target)
    if name:
        release = _find(matrix, name)
        return _one_release(release, [j for j in judged if j.build.version == release.version])
    return _all_releases(matrix, judged, platform, target, tuple(notes))


def _find(matrix: Matrix, name: str) -> TorchRelease:
    try:
        version = Version(name)
    except ValueError as err:  # InvalidVersion, or more digits than Python reads
        raise InputError(f"torch {name}: {name!r} is no version") from err
    release = matrix.torch.release(version)
    if release is None:
        known = [found.version for found in matrix.torch.releases]
        near = [found for found in known if found.release[:2] == version.release[:2]]
        listed = _list(map(str, near or known[-4:]))
        raise InputError(f"torch {name}: no such release is known", hint=f"there is {listed}")
    return release


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)


def _judge(matrix: Matrix, platform: Platform, target: ShownTarget | None) -> list[JudgedBuild]:
    """Every build of a platform, newest release first, lowest CUDA first."""
    builds = matrix.torch.builds(platform=platform)
    if target is None:
        found = [JudgedBuild(build, "x") for build in builds]
    else:
        wish = BuildRequirements(platform, python_tag=target.python_tag, allow_cpu=True)
        ladder = rank_builds(wish, (target.machine,), matrix)
        found = [_candidate(item, target) for item in ladder.candidates]
        found += [_rejected(item, target, matrix) for item in ladder.rejected]
    found.sort(key=lambda judged: _cuda_key(judged.build.backend))
    return sorted(found, key=lambda judged: judged.build.version, reverse=True)


def _cuda_key(backend: Backend) -> tuple[int, int]:
    cuda = backend.cuda
    return (cuda.major, cuda.minor) if cuda else (999, 0)


def _candidate(item: Candidate, target: ShownTarget) -> JudgedBuild:
    if item.build.backend.cuda is None:
        return JudgedBuild(item.build, "yes")
    if not target.has_driver and not target.machine.selected_gpus:
        return JudgedBuild(item.build, "x")
    mark = _MARKS.get(item.grade)
    if mark is not None and not item.build.provenance.is_firm:
        return JudgedBuild(item.build, "?", ("its publication or its code is inferred",))
    if mark is None:
        return JudgedBuild(item.build, "?", (_NO_DRIVER,))
    return JudgedBuild(item.build, mark)


def _rejected(item: RejectedBuild, target: ShownTarget, matrix: Matrix) -> JudgedBuild:
    """A build that is refused, or of which too little is known."""
    reasons = tuple(reason.partition(" (has ")[0] for reason in item.reasons)
    return JudgedBuild(item.build, "?" if _is_open(item, target, matrix) else "no", reasons)


def _is_open(item: RejectedBuild, target: ShownTarget, matrix: Matrix) -> bool:
    """Whether all that is against a build is that its code, or the GPU, is not known."""
    build, machine, cuda = item.build, target.machine, item.build.backend.cuda
    glibc, tag = machine.host.glibc, target.python_tag
    if cuda is None or (glibc is not None and build.glibc is not None and glibc < build.glibc):
        return False
    if tag is not None and build.pythons and tag not in build.pythons:
        return False
    driver = grade_driver(machine.driver, machine.host, cuda, matrix.drivers).grade
    grades = [
        grade_code(
            build.targets,
            gpu.capability,
            cuda,
            can_jit=driver.can_jit,
            is_ptx_known=build.is_ptx_known,
        ).grade
        for gpu in machine.selected_gpus
        if gpu.capability is not None
    ]
    is_known = len(grades) == len(machine.selected_gpus) and CodeGrade.UNKNOWN not in grades
    is_refused = driver is DriverGrade.NO or any(
        not grade.runs for grade in grades if grade is not CodeGrade.UNKNOWN
    )
    return not is_known and not is_refused


def _all_releases(
    matrix: Matrix,
    judged: Sequence[JudgedBuild],
    platform: Platform,
    target: ShownTarget | None,
    notes: tuple[str, ...],
) -> View:
    has_gpu = target is None or has_gpu_to_serve((target.machine,))
    shown = [j for j in judged if j.build.backend.cuda is not None or not has_gpu or not target]
    if not shown:  # macOS: all that there is are CPU builds
        notes = (*notes, f"no {'CUDA ' if judged else ''}build is recorded for {platform}")
        shown = list(judged)
    numbers = _number_reasons(shown)
    by_release: dict[Version, _Builds] = {}
    for item in shown:
        by_release.setdefault(item.build.version, {})[item.build.backend] = item
    grids = tuple(
        _release_grid(matrix, part, numbers, is_judged=target is not None)
        for part in _split(by_release)
    )
    return View(grids, _legend(shown, numbers), notes)


def _split(by_release: Mapping[Version, _Builds]) -> Iterator[dict[Version, _Builds]]:
    """Releases in groups with few enough backends for a terminal."""
    part: dict[Version, _Builds] = {}
    backends: set[Backend] = set()
    for version, found in by_release.items():
        if part and len(backends | found.keys()) > _MOST_BACKENDS:
            yield part
            part, backends = {}, set()
        part[version] = found
        backends |= found.keys()
    if part:
        yield part


def _release_grid(
    matrix: Matrix,
    releases: Mapping[Version, _Builds],
    numbers: Mapping[str, int],
    *,
    is_judged: bool,
) -> Grid:
    backends = sorted({b for found in releases.values() for b in found}, key=_cuda_key)
    rows = tuple(
        (
            str(version),
            *(_cell(found.get(backend), numbers) for backend in backends),
            _best(found) if is_judged else _pypi(matrix, version, found),
        )
        for version, found in releases.items()
    )
    newest, *_, oldest = (*releases, *releases)
    return Grid(
        f"torch {newest} to {oldest}",
        ("torch", *(b.label for b in backends), "take" if is_judged else "on PyPI"),
        rows,
        wrapping=0,
        records=tuple(_record(item) for found in releases.values() for item in found.values()),
    )


def _pypi(matrix: Matrix, version: Version, found: _Builds) -> str:
    release = matrix.torch.release(version)
    platforms = {item.build.platform for item in found.values()}
    backends = [release.pypi.get(platform) for platform in platforms] if release else []
    return next((backend.label for backend in backends if backend), "-")


def _best(found: _Builds) -> str:
    """The build to take: what runs fully before what runs mostly, the newest CUDA first."""
    for mark in ("yes", "compat", "most", "?"):
        fitting = [j for j in found.values() if j.mark == mark]
        if fitting:
            best = max(fitting, key=lambda j: _cuda_key(j.build.backend)).build.backend.label
            return f"{best}?" if mark == "?" else best
    return "-"


def _number_reasons(judged: Iterable[JudgedBuild]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for item in judged:
        for reason in item.reasons:
            numbers.setdefault(reason, len(numbers) + 1)
    return numbers


def _cell(item: JudgedBuild | None, numbers: Mapping[str, int]) -> str:
    if item is None:
        return "-"
    listed = ",".join(map(str, sorted(numbers[reason] for reason in item.reasons)))
    return f"{item.mark} {listed}".rstrip()


def _legend(judged: Sequence[JudgedBuild], numbers: Mapping[str, int]) -> tuple[str, ...]:
    used = {item.mark for item in judged}
    because = ", for the reason that the number names" if numbers else ""
    marks = [
        f"{mark}: {words}{because if mark in {'?', 'no'} else ''}"
        for mark, words in _WORDS.items()
        if mark in used
    ]
    return (*marks, *(f"{number}: {reason}" for reason, number in numbers.items()))


def _record(item: JudgedBuild) -> dict[str, Any]:
    build = item.build
    return {
        "torch": str(build.version),
        "backend": build.backend.label,
        "platform": str(build.platform),
        "runs": {"yes": True, "most": True, "compat": True, "no": False}.get(item.mark),
        "mark": item.mark,
        "reasons": list(item.reasons),
        "is_on_pypi": build.is_on_pypi,
        "pythons": list(build.pythons),
        "glibc": str(build.glibc) if build.glibc else None,
        "cxx11_abi": build.cxx11_abi,
        "targets": None if build.targets is None else [str(t) for t in build.targets],
        "source": build.provenance.source.url,
    }


def _one_release(release: TorchRelease, judged: Sequence[JudgedBuild]) -> View:
    """Every build of one release, with what it needs and holds."""
    is_judged = any(item.mark != "x" for item in judged)
    needs = ("from", "glibc", "C++ ABI", "code for")
    columns = ("build", "runs", *needs, "why not") if is_judged else ("build", *needs)
    grid = Grid(
        f"torch {release.version}",
        columns,
        tuple(_build_row(item, is_judged=is_judged) for item in judged),
        wrapping=2 if is_judged else 1,
        records=tuple(_record(item) for item in judged),
    )
    return View((grid,), _legend(judged, {}) if is_judged else (), _release_notes(release, judged))


def _build_row(item: JudgedBuild, *, is_judged: bool) -> tuple[str, ...]:
    build = item.build
    cells = (
        "PyPI" if build.is_on_pypi else "index",
        str(build.glibc or "-"),
        {True: "new", False: "old", None: "-"}[build.cxx11_abi],
        _targets(build),
    )
    if not is_judged:
        return (build.backend.label, *cells)
    return (build.backend.label, item.mark, *cells, "; ".join(item.reasons))


def _targets(build: TorchBuildRow) -> str:
    if build.targets is None:
        return "not recorded"
    return " ".join(str(target) for target in build.targets) or "-"


def _release_notes(release: TorchRelease, judged: Sequence[JudgedBuild]) -> tuple[str, ...]:
    companions = [
        f"{name} {versions[-1]}"
        for name, versions in (
            ("torchvision", release.torchvision),
            ("torchaudio", release.torchaudio),
        )
        if versions
    ]
    if release.triton:
        companions.append(f"triton {release.triton}")
    platform = str(judged[0].build.platform) if judged else ""
    pythons = max((item.build.pythons for item in judged), key=len, default=())
    notes = [f"released {release.released}, Python {release.requires_python}"]
    if companions:
        notes.append(f"goes with {_list(companions)}")
    notes.append(
        f"builds for {platform}, wheels for {' '.join(pythons)}"
        if judged
        else "no build is recorded for that platform"
    )
    return tuple(notes)
