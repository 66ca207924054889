"""One lock for one target, or several targets that go into one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.lock.plan import LockPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.lock.pins import Pin


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
