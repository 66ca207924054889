"""Whether the condition of a known break, a bug or a row holds: yes, no, or not known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.versions import CudaVersion
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packaging.specifiers import SpecifierSet

    from envguard.matrix.breaks import Break
    from envguard.matrix.causes import NativeBug


# What conditions are about beside distributions and the platform.
NOT_DISTRIBUTIONS = frozenset({"torch_cuda", "python", "cuda_toolkit"})


@dataclass(frozen=True, slots=True)
class KnownValues:
    """What conditions are about, as far as it is known.

    Args:
        versions: Of distributions by normalised name, of ``torch_cuda``, ``python`` and
            ``cuda_toolkit``.
        system: ``linux``, ``windows`` or ``macos``; empty when not known.
        distributions: Names of everything that is there; None where something may be missing.
        gpus: Words of the GPUs' names; None when no name is known.
        cuda: Of torch's build, also of one that no bound is about.
        toolkit: CUDA of the toolkit.
    """

    versions: Mapping[str, Version]
    system: str = ""
    distributions: frozenset[str] | None = None
    gpus: frozenset[str] | None = None
    cuda: CudaVersion | None = None
    toolkit: CudaVersion | None = None

    @property
    def names(self) -> frozenset[str]:
        """Everything that a condition may be about and that is known."""
        return frozenset((*self.versions, *(["platform"] if self.system else [])))


def admits(bound: SpecifierSet, version: Version) -> bool:
    """Whether a specifier holds a version; a local label does not matter."""
    return bound.contains(version.public, prereleases=True)


def contradicted(
    bounds: Mapping[str, SpecifierSet], versions: Mapping[str, Version], *, is_shown: bool = False
) -> dict[str, SpecifierSet]:
    """The bounds that a known version does not keep.

    Args:
        bounds: By the names that conditions use.
        versions: What is known of them.
        is_shown: A log shows what the bounds are about: then a version before a release counts
            as that release as well, because what the release brought is there already.
    """
    return {
        name: bound
        for name, bound in bounds.items()
        if name in versions and not _keeps(bound, name, versions[name], is_shown=is_shown)
    }


def _keeps(bound: SpecifierSet, name: str, version: Version, *, is_shown: bool) -> bool:
    if name == "python" and len(version.release) < 3:  # 3.12 stands for all its releases
        version = Version(f"{version.major}.{version.minor}.0")
    return admits(bound, version) or (is_shown and admits(bound, Version(version.base_version)))


def bounds_hold(
    bounds: Mapping[str, SpecifierSet], versions: Mapping[str, Version], *, is_shown: bool = False
) -> bool | None:
    """Whether every bound is kept; None when a version that would tell is not known.

    Args:
        bounds: By the names that conditions use.
        versions: What is known of them.
        is_shown: As for ``contradicted``.
    """
    if contradicted(bounds, versions, is_shown=is_shown):
        return False
    return True if bounds.keys() <= versions.keys() else None


def break_holds(row: Break, known: KnownValues, *, is_shown: bool = False) -> bool | None:
    """Whether every condition of a known break holds.

    What it takes besides (``feature``, ``beside``) is no condition: it says how grave it is.

    Args:
        row: The break.
        known: What is known.
        is_shown: As for ``contradicted``.
    """
    return _all(
        (
            bounds_hold(row.when, known.versions, is_shown=is_shown),
            _is_system(row.platform, known),
            _has_alternative(row, known),
            predicate_holds(row.predicate, known),
        )
    )


def subjects(row: Break, versions: Mapping[str, Version]) -> tuple[str, ...]:
    """The distributions that a break with alternatives is about, of those that are known."""
    known = (name for name in row.any_of if name in versions)
    return tuple(name for name in known if not contradicted({name: row.any_of[name]}, versions))


def _is_system(wanted: str, known: KnownValues) -> bool | None:
    if not wanted:
        return True
    return known.system == wanted if known.system else None


def _has_alternative(row: Break, known: KnownValues) -> bool | None:
    if not row.any_of or subjects(row, known.versions):
        return True
    open_ = row.any_of.keys() - known.versions.keys()
    if known.distributions is not None:
        open_ &= known.distributions
    return None if open_ else False


def bug_holds(bug: NativeBug, known: KnownValues) -> bool | None:
    """Whether GPU and versions are those of a bug.

    Args:
        bug: The bug; whether a log shows it is another question.
        known: What is known.
    """
    is_gpu: bool | None = True
    if bug.gpus:
        is_gpu = None if known.gpus is None else not known.gpus.isdisjoint(bug.gpus)
    return _all((bounds_hold(bug.when, known.versions), is_gpu))


def _all(answers: Iterable[bool | None]) -> bool | None:
    found = set(answers)
    if False in found:
        return False
    return None if None in found else True


def _is_absent(names: tuple[str, ...], known: KnownValues) -> bool | None:
    if any(name in known.versions for name in names):
        return False
    return None if known.distributions is None else known.distributions.isdisjoint(names)


def _toolkit_differs(known: KnownValues) -> bool | None:
    if known.toolkit is None or known.cuda is None:
        return None
    return known.toolkit != known.cuda


# Predicates that hold where none of some distributions is there.
ABSENCES: Mapping[str, tuple[str, ...]] = {
    "no-setuptools": ("setuptools",),
    "no-pkg-resources": ("setuptools", "packaging"),
}
_PREDICATES: Mapping[str, Callable[[KnownValues], bool | None]] = {
    **{predicate: partial(_is_absent, names) for predicate, names in ABSENCES.items()},
    "toolkit-minor-differs": _toolkit_differs,
}


def predicate_holds(predicate: str, known: KnownValues) -> bool | None:
    """Whether a condition that is no bound holds.

    Args:
        predicate: Its name in the table; empty for none, which holds.
        known: What is known.

    Returns:
        None also for one that only the check knows which handles the row.
    """
    if not predicate:
        return True
    decide = _PREDICATES.get(predicate)
    return decide(known) if decide is not None else None
