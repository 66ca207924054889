"""The parts of a text put together: the earlier word wins, every word stays a reading."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.facts.environment import BuildOrigin, Distribution, Environment, TorchBuild
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, Machine, Reading
from envguard.facts.sentences import say
from envguard.facts.versions import CudaVersion, DriverVersion
from envguard.facts.visible import mark_visible
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# More reports of one kind than this in one text are passed over.
MAX_PARTS = 100


@dataclass(frozen=True, slots=True)
class ReportPart:
    """One report within a text, e.g. the ``nvidia-smi`` table below a ``collect_env``.

    Args:
        line: Number of its first line, from 0.
        facts: What it states; what it lacks although its kind has it is a gap.
        lists_all: Its distributions are all that are installed, not a selection.
        rank: 0 for a report; what stands in loose lines counts behind all reports.
    """

    line: int
    facts: Facts
    lists_all: bool = False
    rank: int = 0


def version_or_none(text: str) -> Version | None:
    """A version, or None for anything that is not one."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number beyond Python's limit of digits
        return None


def cuda_or_none(text: str) -> CudaVersion | None:
    """A CUDA version, or None for anything that is not one."""
    try:
        return CudaVersion.parse(text)
    except ValueError:
        return None


def driver_or_none(text: str) -> DriverVersion | None:
    """A driver version, or None for anything that is not one."""
    try:
        return DriverVersion.parse(text)
    except ValueError:
        return None


def spans_of(starts: Sequence[int], total: int) -> Iterator[tuple[int, int]]:
    """From each start to the next one, or to the end."""
    return pairwise([*starts, total]) if starts else iter(())


T = TypeVar("T")

# Facts about a machine that a reader misses; what no part states gets a gap.
_WANTED = (
    "machine.driver.version",
    "machine.driver.cuda",
    "machine.gpus",
    "machine.host.platform",
    "machine.toolkit.nvcc",
    "machine.limits.ram_bytes",
)
_CUT = "..."


def merge_parts(parts: Sequence[ReportPart], where: str, near: int | None = None) -> Facts:
    """One set of facts out of the parts of a text.

    Driver and host come field by field from the first part that states them, GPUs from the
    first list, completed from the others where these agree. The torch that was imported
    goes before what metadata say. A contradiction leaves its trace in the readings, one with
    loose lines a gap.

    Args:
        parts: In any order; reports go first, of these the one nearest to the error.
        where: Name of the text, for the gaps of what nothing in it states.
        near: Number of the line of the error; None where the earliest goes first.
    """
    ordered = sorted(parts, key=lambda part: (part.rank, _distance(part.line, near)))
    machines = [part.facts.machine for part in ordered]
    variables = _variables(machines)
    gpus = _merge_gpus([machine.gpus for machine in machines if machine.gpus is not None])
    machine = Machine(
        host=_first_fields([machine.host for machine in machines]),
        driver=_merge_drivers([machine.driver for machine in machines]),
        gpus=_visible(gpus, variables),
        toolkit=_first_fields([machine.toolkit for machine in machines]),
        limits=_first_fields([machine.limits for machine in machines]),
        variables=tuple(sorted(variables.items())),
        readings=(*_readings(machines), *_torch_readings(ordered)),
    )
    environment = _merge_environments(ordered)
    merged = Facts(machine, environment)
    said = {gap.fact: gap for gap in _overruled(ordered, merged)}
    open_gaps = tuple(gap for gap in _open_gaps(ordered, merged) if gap.fact not in said)
    gaps = (*open_gaps, *said.values())
    return replace(merged, gaps=(*gaps, *_unstated(merged, gaps, where)))


def fill_facts(facts: Facts, told: Facts | None) -> Facts:
    """Facts, completed by what another text about the same run tells.

    Args:
        facts: Go first, field by field.
        told: Of the log; None where it tells nothing.
    """
    if told is None:
        return facts
    merged = merge_parts([ReportPart(0, facts), ReportPart(1, told, rank=3)], "the text")
    return replace(facts, machine=merged.machine, environment=merged.environment, gaps=merged.gaps)


def _distance(line: int, near: int | None) -> int:
    return line if near is None else abs(line - near)


_COMPARED = (
    "environment.torch.version",
    "environment.interpreter.version",
    "machine.driver.version",
    "machine.driver.cuda",
)


def _overruled(parts: Iterable[ReportPart], merged: Facts) -> Iterator[Gap]:
    """What loose lines say otherwise than the reports."""
    for part in parts:
        for fact in _COMPARED if part.rank else ():
            said, counted = value_of(part.facts, fact), value_of(merged, fact)
            if said is not None and not _is_same_version(str(said), str(counted)):
                words = say("a line says {said}, a report {counted}", said=said, counted=counted)
                yield Gap(f"{fact}.other", GapReason.MISMATCH, "text", words)


def _is_same_version(one: str, other: str) -> bool:
    """Whether one is the other, possibly with fewer numbers or without its label."""
    first, second = (text.partition("+")[0].split(".") for text in (one, other))
    return all(a == b for a, b in zip(first, second, strict=False))


def _first_fields(values: Sequence[T]) -> T:
    """One dataclass out of several: each field from the first that has it."""
    names = [f.name for f in fields(values[0])]  # type: ignore[arg-type]  # dataclasses by contract
    found = {
        name: next((v for value in values if (v := getattr(value, name)) is not None), None)
        for name in names
    }
    return replace(values[0], **found)  # type: ignore[type-var]  # likewise


def _merge_drivers(drivers: Sequence[Driver]) -> Driver:
    """A CUDA version belongs to the driver that it was read with."""
    version = next((driver.version for driver in drivers if driver.version), None)
    fitting = [d for d in drivers if version is None or d.version in {None, version}]
    return _first_fields(fitting)


def _variables(machines: Iterable[Machine]) -> dict[str, str]:
    found: dict[str, str] = {}
    for machine in machines:
        for name, value in machine.variables:
            found.setdefault(name, value)
    return found


def _visible(gpus: tuple[Gpu, ...] | None, variables: dict[str, str]) -> tuple[Gpu, ...] | None:
    """Marks what a stated CUDA_VISIBLE_DEVICES selects; without one nothing is known of it."""
    if not gpus or "CUDA_VISIBLE_DEVICES" not in variables:
        return gpus
    return mark_visible(gpus, variables)


def _merge_gpus(lists: Sequence[tuple[Gpu, ...]]) -> tuple[Gpu, ...] | None:
    if not lists:
        return None
    first = lists[0]
    agreeing = [gpus for gpus in lists if [g.index for g in gpus] == [g.index for g in first]]
    return tuple(_merge_gpu(same) for same in zip(*agreeing, strict=True))


def _merge_gpu(same: Sequence[Gpu]) -> Gpu:
    """One GPU out of its mentions; those of another product are left out."""
    name = _whole_name([gpu.name for gpu in same if gpu.name])
    fitting = [gpu for gpu in same if _is_same_product(gpu.name, name)] or list(same[:1])
    merged = replace(_first_fields(fitting), name=name)
    devices = [gpu.mig_devices for gpu in fitting if gpu.mig_devices]
    named = [found for found in devices if all(device.uuid for device in found)]
    return replace(merged, mig_devices=next(iter(named or devices), ()))


def _whole_name(names: Sequence[str]) -> str | None:
    if not names:
        return None
    first = names[0]
    return next((n for n in names if not n.endswith(_CUT) and _is_same_product(first, n)), first)


def _is_same_product(one: str | None, other: str | None) -> bool:
    if one is None or other is None or one == other:
        return True
    stems = (one.removesuffix(_CUT).rstrip(), other.removesuffix(_CUT).rstrip())
    return (one.endswith(_CUT) and stems[1].startswith(stems[0])) or (
        other.endswith(_CUT) and stems[0].startswith(stems[1])
    )


def _readings(machines: Iterable[Machine]) -> tuple[Reading, ...]:
    return tuple(dict.fromkeys(r for machine in machines for r in machine.readings))


def _torch_readings(parts: Iterable[ReportPart]) -> tuple[Reading, ...]:
    """Each part's word on the torch version, where the parts differ."""
    builds = [
        (part.facts.environment.torch, part.facts.environment.torch.origin.value)
        for part in parts
        if not part.rank and part.facts.environment and part.facts.environment.torch
    ]
    words = [(str(b.version), origin) for b, origin in builds if b.version is not None]
    if len({version.partition("+")[0] for version, _ in words}) < 2:
        return ()
    return tuple(dict.fromkeys(Reading("torch.version", v, origin) for v, origin in words))


def _merge_environments(parts: Sequence[ReportPart]) -> Environment | None:
    found = [part.facts.environment for part in parts if part.facts.environment is not None]
    if not found:
        return None
    interpreters = [e.interpreter for e in found if e.interpreter is not None]
    ranks = [part.rank for part in parts if part.facts.environment is not None]
    torches = [(rank, e.torch) for rank, e in zip(ranks, found, strict=True) if e.torch is not None]
    best = min((rank for rank, _ in torches), default=0)
    return Environment(
        interpreter=_first_fields(interpreters) if interpreters else None,
        distributions=_merge_distributions(found),
        torch=_merge_torch([torch for rank, torch in torches if rank == best]),
        manager=next((e.manager for e in found if e.manager is not None), None),
    )


def _merge_torch(builds: Sequence[TorchBuild]) -> TorchBuild | None:
    imported = [build for build in builds if build.origin is BuildOrigin.REPORT]
    best = next(iter(imported or builds), None)
    if best is None or best.accelerator is not None:
        return best
    same = [b for b in builds if b.accelerator is not None and _public(b) == _public(best)]
    return replace(best, accelerator=same[0].accelerator, cuda=same[0].cuda) if same else best


def _public(build: TorchBuild) -> str | None:
    return build.version.public if build.version else None


def _merge_distributions(found: Sequence[Environment]) -> tuple[Distribution, ...] | None:
    """All names; a later part adds names, and does not contradict an earlier one."""
    listed = [e.distributions for e in found if e.distributions is not None]
    if not listed:
        return None
    merged: list[Distribution] = []
    for distributions in listed:
        names = {d.name for d in merged}
        merged += [d for d in distributions if d.name not in names]
    return tuple(sorted(merged, key=lambda d: d.name))


def _open_gaps(parts: Sequence[ReportPart], merged: Facts) -> tuple[Gap, ...]:
    """The gaps of all parts that no other part fills."""
    has_all = any(part.lists_all for part in parts)
    found = dict.fromkeys(gap for part in parts for gap in part.facts.gaps)
    return tuple(gap for gap in found if not _is_filled(gap, merged, has_all=has_all))


def _is_filled(gap: Gap, merged: Facts, *, has_all: bool) -> bool:
    if gap.fact == "environment.distributions":
        return has_all
    if gap.reason is GapReason.MISMATCH:
        return False  # evidence, even where another part states a version
    value = value_of(merged, gap.fact)
    return value is not None and not (isinstance(value, str) and value.endswith(_CUT))


def value_of(facts: Facts, name: str) -> object:
    """The value behind a fact's dotted name; None where it is not known or there is none."""
    value: object = facts
    for word in name.replace("[", ".[").split("."):
        if value is None:
            return None
        if not word.startswith("["):
            value = getattr(value, word, None)
        elif isinstance(value, tuple):
            value = _member(value, word.strip("[]"))
        else:
            return None
    return value


def _member(values: Iterable[object], key: str) -> object:
    """A GPU by its index, a distribution by its name."""
    for value in values:
        if isinstance(value, Gpu) and str(value.index) == key:
            return value
        if isinstance(value, Distribution) and value.name == key:
            return value
    return None


def _unstated(merged: Facts, gaps: Iterable[Gap], where: str) -> tuple[Gap, ...]:
    said = {gap.fact for gap in gaps}
    wanted = (*_WANTED, "environment") if merged.environment is None else _WANTED
    return tuple(
        Gap(fact, GapReason.NOT_ASKED, "text", say("{where} does not state it", where=where))
        for fact in wanted
        if fact not in said and value_of(merged, fact) is None
    )
