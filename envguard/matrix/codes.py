"""What finding codes and causes mean, how they are found and what to do about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from envguard.errors import MatrixError
from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.reading import Document, Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CodeFamily:
    """A family of codes, by the letters that they begin with.

    Args:
        prefix: ``GPU``.
        about: What its codes are about, in a few words.
    """

    prefix: str
    about: str


@dataclass(frozen=True, slots=True)
class CodeRow:
    """What a finding code means.

    Args:
        code: ``FAM###``; never reused.
        causes: Slugs that findings with this code carry.
        title: A few words.
        meaning: What it means for the program.
        found: From which facts and tables it is told.
        fix: What to do, the first step first; empty when there is nothing to do.
    """

    code: str
    causes: tuple[str, ...]
    title: str
    meaning: str
    found: str
    fix: tuple[str, ...]
    provenance: Provenance

    @property
    def family(self) -> str:
        """The letters that it begins with."""
        return self.code.rstrip("0123456789")


@dataclass(frozen=True, slots=True)
class CauseRow:
    """What a cause is.

    Args:
        slug: Its name; never changes meaning.
        text: One sentence.
    """

    slug: str
    text: str
    provenance: Provenance


class CodeTable:
    """The rows of ``codes.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field, names a cause that has no row, or is stated twice.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.families = tuple(_read_families(document))
        self.causes = tuple(_read_cause(row) for row in document.rows("cause"))
        self._causes = _by_name(document, "cause", "slug", self.causes)
        self.codes = tuple(_read_code(row) for row in document.rows("code"))
        self._codes = _by_name(document, "code", "code", self.codes)
        for row, code in zip(document.rows("code"), self.codes, strict=True):
            self._prove(row, code)

    def code(self, text: str) -> CodeRow | None:
        """The row of a code, in capitals; None when there is none."""
        return self._codes.get(text)

    def cause(self, slug: str) -> CauseRow | None:
        """The row of a cause; None when there is none."""
        return self._causes.get(slug)

    def carrying(self, slug: str) -> tuple[CodeRow, ...]:
        """The codes that carry a cause."""
        return tuple(row for row in self.codes if slug in row.causes)

    def family(self, prefix: str) -> tuple[CodeRow, ...]:
        """The codes of a family."""
        return tuple(row for row in self.codes if row.family == prefix)

    def named_like(self, text: str) -> tuple[str, ...]:
        """The codes and causes that begin with a text, whose case does not matter."""
        return tuple(name for name in self._names() if name.lower().startswith(text.lower()))

    def suggest(self, text: str) -> tuple[str, ...]:
        """The codes and causes that look like a mistyped one, the most similar first."""
        from difflib import get_close_matches  # only for a mistyped name

        names = {name.lower(): name for name in self._names()}
        return tuple(names[found] for found in get_close_matches(text.lower(), names, 4, 0.5))

    def _names(self) -> Iterator[str]:
        yield from self._codes
        yield from self._causes

    def _prove(self, row: Row, code: CodeRow) -> None:
        if not any(family.prefix == code.family for family in self.families):
            raise row.error("code", f"{code.code} is of no family")
        for cause in code.causes:
            if cause not in self._causes:
                raise row.error("causes", f"{cause!r} has no row of its own")


def _by_name(document: Document, array: str, field: str, rows: tuple[T, ...]) -> dict[str, T]:
    found: dict[str, T] = {}
    for row, value in zip(document.rows(array), rows, strict=True):
        name = row.text(field)
        if name in found:
            raise row.error(field, f"{name!r} is stated twice")
        found[name] = value
    return found


def _read_families(document: Document) -> Iterator[CodeFamily]:
    table = document.data.get("family")
    if not isinstance(table, dict):
        raise MatrixError(f"{document.name}: family: expected a text for each prefix")
    for prefix, about in table.items():
        if not isinstance(about, str):
            raise MatrixError(f"{document.name}: family.{prefix}: expected a text")
        yield CodeFamily(prefix, about)


def _read_cause(row: Row) -> CauseRow:
    return CauseRow(row.text("slug"), row.text("text"), row.provenance())


def _read_code(row: Row) -> CodeRow:
    return CodeRow(
        code=row.text("code"),
        causes=row.words("causes"),
        title=row.text("title"),
        meaning=row.text("meaning"),
        found=row.text("found"),
        fix=row.texts("fix"),
        provenance=row.provenance(),
    )
