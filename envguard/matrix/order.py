"""The one order of causes, and the families of codes: all that most commands ask of causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import MatrixError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.reading import Document


@dataclass(frozen=True, slots=True)
class CodeFamily:
    """A family of codes, by the letters that they begin with.

    Args:
        prefix: ``GPU``.
        about: What its codes are about, in a few words.
    """

    prefix: str
    about: str


class OrderTable:
    """The rows of ``order.toml``: the one order of causes, and the families of codes.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: The order names a cause twice, or a family has no text.
    """

    def __init__(self, document: Document) -> None:
        order = document.data.get("order")
        if not isinstance(order, list) or not all(isinstance(slug, str) for slug in order):
            raise MatrixError(f"{document.name}: order: expected a list of causes")
        twice = {slug for slug in order if order.count(slug) > 1}
        if twice:
            raise MatrixError(f"{document.name}: order: names {sorted(twice)[0]!r} twice")
        self.causes: tuple[str, ...] = tuple(order)
        self.families = tuple(_read_families(document))
        self._rank = {slug: index for index, slug in enumerate(order)}

    def rank(self, slug: str) -> int:
        """The place of a cause; those that the order does not name stand last."""
        return self._rank.get(slug, len(self._rank))


def _read_families(document: Document) -> Iterator[CodeFamily]:
    table = document.data.get("family")
    if not isinstance(table, dict):
        raise MatrixError(f"{document.name}: family: expected a text for each prefix")
    for prefix, about in table.items():
        if not isinstance(about, str):
            raise MatrixError(f"{document.name}: family.{prefix}: expected a text")
        yield CodeFamily(prefix, about)
