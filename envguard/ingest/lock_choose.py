"""Which entries of a lock a target takes, and which torch build that is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from envguard.facts.environment import (
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Label,
    TorchBuild,
    Wish,
    label_of_url,
    label_of_version,
    parse_label,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import join_sentences, say
from envguard.ingest.lock_entry import admits, environments_of, holds
from envguard.ingest.pip_list import sort_distributions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from envguard.ingest.lock_entry import Entry, Locked, LockfileTarget

SOURCE = "lockfile"
TORCH = "torch"
_MAX_NAMED = 8
_MAX_CHOICES = 64


def choose_entries(
    locked: Locked, target: LockfileTarget, name: str
) -> tuple[Environment, tuple[Gap, ...]]:
    """Lay a lock out for a target.

    Args:
        locked: The lock.
        target: Where it shall be installed, as far as known.
        name: Of the file.

    Returns:
        The environment. Where the target leaves several entries of one name, all of them are
        listed and a gap names them; a torch that cannot be told has neither version nor build.
    """
    if locked.python is not None and not target.is_python_stated:
        target = replace(target, python=locked.python, is_free_threaded=False)
    environments = environments_of(target, locked.requires_python)
    taken = [locked.select(variables, "") for variables in environments]
    chosen = frozenset().union(*taken)
    gaps = [*locked.gaps, *(_python_gap(locked, target) or _marker_gap(locked, target))]
    torches = [i for i in sorted(chosen) if locked.entries[i].name == TORCH]
    if not torches:
        torches, elsewhere = _elsewhere(locked, target)
        gaps += elsewhere
        chosen = chosen.union(torches)
    by_name: dict[str, list[Entry]] = {}
    for position in sorted(chosen):
        by_name.setdefault(locked.entries[position].name, []).append(locked.entries[position])
    if locked.is_open:
        by_name = {name: _joined(found) for name, found in by_name.items()}
    explained = {gap.fact for gap in gaps}
    ambiguous = [_ambiguous(n, found, target) for n, found in by_name.items() if len(found) > 1]
    gaps += [gap for gap in ambiguous if gap.fact not in explained]
    gaps += [gap for found in by_name.values() for gap in _missing_wheel(found, target)]
    torch, torch_gaps = torch_of(by_name.get(TORCH, []), target)
    environment = Environment(
        interpreter=Interpreter(version=locked.python) if locked.python else None,
        distributions=sort_distributions(
            _distribution(entry, target) for found in by_name.values() for entry in found
        ),
        torch=locked.torch or torch,
        manager=locked.manager,
        document=name,
        lock=locked.record,
        is_open=locked.is_open,
        wishes=tuple(
            Wish(entry.name, entry.wish, entry.line)
            for found in by_name.values()
            for entry in found
            if entry.wish is not None
        ),
        indexes=locked.indexes,
        image=locked.image,
        in_order=locked.in_order,
    )
    return environment, (*gaps, *torch_gaps)


def _joined(found: list[Entry]) -> list[Entry]:
    """Several requirements on one package: a pin decides, and wishes narrow each other."""
    pinned = [entry for entry in found if entry.wish is None]
    if pinned or len(found) == 1:
        return list(
            {(e.version, e.url, e.index_url): e for e in reversed(pinned or found)}.values()
        )
    bound = SpecifierSet()
    for entry in found:
        bound &= entry.wish or SpecifierSet()
    return [replace(found[0], wish=bound)]


def _python_gap(locked: Locked, target: LockfileTarget) -> tuple[Gap, ...]:
    if target.python is None or admits(locked.requires_python, target.python):
        return ()
    detail = say(
        "it requires Python {required}, here is {python}",
        required=locked.requires_python,
        python=target.python,
    )
    return (Gap("environment.interpreter", GapReason.MISMATCH, SOURCE, detail),)


def _marker_gap(locked: Locked, target: LockfileTarget) -> tuple[Gap, ...]:
    """None of the environments that the file is made for is the target's."""
    named = locked.markers
    if not named or target.platform is None or _is_for(locked, target):
        return ()
    is_by_python = _is_for(locked, replace(target, python=None))
    detail = say(
        "it is made for {environments}, not for {target}",
        environments=join_sentences(*named[:4], by=" or "),
        target=target,
    )
    fact = "environment.interpreter" if is_by_python else "environment.platform"
    return (Gap(fact, GapReason.MISMATCH, SOURCE, detail),)


def _is_for(locked: Locked, target: LockfileTarget) -> bool:
    candidates = environments_of(target, locked.requires_python)
    return any(holds(marker, variables) for marker in locked.markers for variables in candidates)


def _elsewhere(locked: Locked, target: LockfileTarget) -> tuple[list[int], list[Gap]]:
    """Where torch is, if the target does not take it by default: behind extras, or not for it."""
    everywhere = [i for i, entry in enumerate(locked.entries) if entry.name == TORCH]
    if not everywhere:
        return [], []
    found: dict[int, list[str]] = {}
    for variables in environments_of(target, locked.requires_python):
        for choice in locked.choices[:_MAX_CHOICES]:
            for position in locked.select(variables, choice):
                if locked.entries[position].name == TORCH:
                    found.setdefault(position, []).append(choice)
    if not found:
        named = _named([locked.entries[i] for i in everywhere])
        detail = say(
            "the lock holds torch {versions}, none of them for {target}",
            versions=named,
            target=target,
        )
        return [], [Gap("environment.torch", GapReason.ABSENT, SOURCE, detail)]
    words = [
        say(
            "{version} with {selections}",
            version=locked.entries[i].version,
            selections=", ".join(dict.fromkeys(choices)),
        )
        for i, choices in sorted(found.items())
    ]
    detail = say(
        "torch is in no default selection: {selections}",
        selections=join_sentences(*words[:_MAX_NAMED], by="; "),
    )
    return sorted(found), [Gap("environment.torch", GapReason.NOT_ASKED, SOURCE, detail)]


def _named(entries: Sequence[Entry]) -> str:
    words = [str(entry) for entry in entries[:_MAX_NAMED]]
    return ", ".join(words) + (" ..." if len(entries) > _MAX_NAMED else "")


def _ambiguous(name: str, entries: Sequence[Entry], target: LockfileTarget) -> Gap:
    fact = "environment.torch" if name == TORCH else f"environment.distributions[{name}]"
    reason = GapReason.UNREADABLE if target.platform and target.python else GapReason.NOT_ASKED
    detail = say(
        "{package} is locked several times for {target}: {versions}",
        package=name,
        target=target,
        versions=_named(entries),
    )
    return Gap(fact, reason, SOURCE, detail)


def _missing_wheel(entries: Sequence[Entry], target: LockfileTarget) -> Iterable[Gap]:
    """A package with wheels, none of which the target can install, and nothing to build."""
    for entry in entries:
        if entry.has_source or not entry.wheels or any(w.fits(target) for w in entry.wheels):
            continue
        detail = say(
            "the lock holds no wheel of {package} {version} for {target}",
            package=entry.name,
            version=entry,
            target=target,
        )
        fact = f"environment.distributions[{entry.name}].url"
        yield Gap(fact, GapReason.ABSENT, SOURCE, detail)


def _distribution(entry: Entry, target: LockfileTarget) -> Distribution:
    return Distribution(
        name=entry.name,
        version=entry.version,
        url=entry.url or _wheel_url(entry, target),
        index_url=entry.index_url,
        installer="conda" if entry.by_conda else None,
        is_editable=entry.is_editable,
        line=entry.line,
    )


def _wheel_url(entry: Entry, target: LockfileTarget) -> str | None:
    """The address of the one wheel that fits; glibc wheels go before musl ones."""
    fitting = [wheel for wheel in entry.wheels if wheel.fits(target)]
    usual = [wheel for wheel in fitting if "musllinux" not in wheel.filename]
    return usual[0].url if len(usual) == 1 else fitting[0].url if len(fitting) == 1 else None


def torch_of(
    entries: Sequence[Entry], target: LockfileTarget
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    """The build behind the torch entries that a target may take.

    A version without a label from a plain index is left open: it is PyPI's default build for
    the platform, which the matrix knows.

    Returns:
        None without an entry. With several, only what they have in common.
    """
    if not entries:
        return None, ()
    builds = [_build(entry, target) for entry in entries]
    first, gap = builds[0]
    if len(entries) == 1:
        return first, gap
    same = [build for build, _ in builds if build.backend == first.backend]
    is_same = len(same) == len(builds) and first.accelerator is not None
    return TorchBuild(
        accelerator=first.accelerator if is_same else None,
        cuda=first.cuda if is_same else None,
        origin=BuildOrigin.LOCKFILE,
    ), ()


def _build(entry: Entry, target: LockfileTarget) -> tuple[TorchBuild, tuple[Gap, ...]]:
    label = _label(entry, target)
    address = entry.index_url or entry.url
    is_plain = address is None or (
        entry.url is None
        and label.accelerator is None
        and (_is_plain(address) or _is_default_build(entry, target))
    )
    build = TorchBuild(
        version=entry.version,
        accelerator=label.accelerator,
        cuda=label.cuda,
        origin=BuildOrigin.LOCKFILE,
        index_url=None if is_plain else address,
    )
    return build, ()


def _is_plain(index_url: str) -> bool:
    """Whether an index looks like PyPI or a copy of it: they answer below ``simple``."""
    return index_url.rstrip("/").rpartition("/")[2] in {"simple", "+simple", "pypi"}


def _is_default_build(entry: Entry, target: LockfileTarget) -> bool:
    """A wheel without a label in a folder of the PyTorch index is the platform's default build.

    The folders for CUDA also hold the wheels of processors and systems without such a build.
    """
    fitting = any(wheel.fits(target) and not wheel.label for wheel in entry.wheels)
    return fitting and label_of_url(entry.index_url or "").cuda is not None


def _label(entry: Entry, target: LockfileTarget) -> Label:
    """What version, wheels, address and index tell, in this order."""
    label = label_of_version(entry.version)
    if label.accelerator is not None:
        return label
    labels = {parse_label(wheel.label) for wheel in entry.wheels if wheel.fits(target)}
    if len(labels) == 1 and (found := labels.pop()).accelerator is not None:
        return found
    if entry.url is not None:
        return label_of_url(entry.url)
    if not entry.index_url or _is_default_build(entry, target):
        return Label()
    return label_of_url(entry.index_url)
