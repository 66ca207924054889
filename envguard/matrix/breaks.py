"""Queries about combinations that are known to break."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from envguard.facts.codec import WordsOf
from envguard.matrix.packages import BreakScope
from envguard.matrix.reading import Row
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from envguard.matrix.reading import Document


@dataclass(frozen=True, slots=True)
class Break:
    """One combination that is known to break.

    Args:
        name: Its name in the table.
        when: Specifiers that all have to hold: of distributions, ``torch_cuda``, ``python`` and
            ``cuda_toolkit``.
        platform: Where it happens: ``linux``, ``windows``; empty everywhere.
        any_of: Specifiers of distributions of which one has to hold; empty when there is none.
        predicate: A condition that the checks decide, by name; empty when there is none.
        feature: What it takes, where that cannot be seen; empty when it takes nothing.
        beside: It bites only together with this distribution; empty when it always does.
        scope: What it bites.
        cause: Slug of the cause.
        title: One line.
        text: What happens, in sentences.
        fix: Versions that cure it, each alone enough to.
        alternative: Others that do as well.
        workaround: What else helps; possibly empty.
        handled_by: The check that judges it with more detail, or ``diagnose`` where only a log
            shows it; empty when neither does.
        shows: Signatures of logs of which one says that it happened; empty when none is known.
        frames: Signatures that have to be in the same log too.
    """

    name: str = field(metadata={"key": "id"})
    when: Mapping[str, SpecifierSet]
    platform: str
    scope: BreakScope
    cause: str
    title: str
    text: str
    provenance: Provenance
    any_of: Mapping[str, SpecifierSet] = field(default_factory=dict)
    predicate: str = ""
    feature: str = ""
    beside: str = ""
    fix: Mapping[str, SpecifierSet] = field(default_factory=dict)
    alternative: Mapping[str, SpecifierSet] = field(default_factory=dict)
    workaround: str = ""
    handled_by: str = ""
    shows: WordsOf[str] = ()
    frames: WordsOf[str] = ()


class BreakTable:
    """The rows of ``breaks.toml``; each is read when it is asked for.

    Args:
        document: The decoded file.
    """

    def __init__(self, document: Document) -> None:
        self.document = document

    @property
    def all(self) -> tuple[Break, ...]:
        """Every row."""
        return tuple(read_break(row) for row in self.document.rows("break"))

    def about(self, names: Collection[str]) -> Iterator[Break]:
        """The rows of which every condition is about something known.

        Args:
            names: Normalised names of distributions, and ``torch_cuda``, ``python``,
                ``cuda_toolkit``, ``platform`` where they are known.
        """
        known = set(names)
        for row in self.document.rows("break"):
            when = row.data.get("when")
            if isinstance(when, dict) and not when.keys() - known:
                yield read_break(row)

    def shown_in(self, signatures: Collection[str]) -> Iterator[Break]:
        """The rows that a log with these signatures says happened, whatever the versions are.

        Args:
            signatures: Names of the signatures that were found.
        """
        found = set(signatures)
        for row in self._shown:
            if found & set(row.shows) and found.issuperset(row.frames):
                yield row

    @cached_property
    def _shown(self) -> tuple[Break, ...]:
        return tuple(read_break(row) for row in self.document.rows("break") if row.has("shows"))

    def named(self, name: str) -> Break | None:
        """The row of this name, or None."""
        row = self.document.find("break", "id", name)
        return read_break(row) if row else None


def read_break(row: Row) -> Break:
    """Read one row.

    Raises:
        MatrixError: A field is missing or has the wrong form.
    """
    when = row.data.get("when")
    if not isinstance(when, dict):
        raise row.error("when", "expected a specifier for each condition")
    platform = when.get("platform", "")
    if platform not in {"", "linux", "windows", "macos"}:
        raise row.error("when.platform", f"{platform!r} is no operating system")
    bounds = {name: text for name, text in when.items() if name != "platform"}
    fields = {**row.data, "when": bounds, "platform": platform}
    return Row(row.document, row.array, row.index, fields).build(Break)
