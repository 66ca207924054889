"""Queries about GPU products: a compute capability from a name."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from envguard.facts.versions import ComputeCapability
from envguard.matrix.gpu_names import LONGEST, OPTIONAL, NameParts, parse_gpu_name
from envguard.matrix.rows import GpuModel, Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.matrix.reading import Document, Row

_OFTEN_LEFT_OUT = frozenset({"nvidia", "geforce", "quadro", "tesla", "generation", "gpu"})


class GpuTable:
    """The rows of ``gpus.toml``; a name reads only those that it may mean.

    Every question raises MatrixError where a row that it reads misses a field or a field has the
    wrong form.

    Args:
        document: The decoded file.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._by_key: dict[tuple[str, ...], list[tuple[GpuModel, NameParts]]] = {}

    @cached_property
    def models(self) -> tuple[GpuModel, ...]:
        """All products in the table's order."""
        return tuple(_read_model(row) for row in self.document.rows("gpu"))

    @cached_property
    def chips(self) -> Mapping[str, ComputeCapability]:
        """The capability of each chip."""
        return {
            row.text("chip"): row.value("capability", ComputeCapability.parse)
            for row in self.document.rows("chip")
        }

    def find(self, name: str) -> tuple[GpuModel, ...]:
        """The products that a name may mean.

        Vendor, brand, memory size, form factor, MIG instance and vGPU profile may be there or
        not. A word that makes another product (Ti, SUPER, Ada) is never passed over, but one
        that people leave out (Ada, PRO) is considered.

        Args:
            name: As a person or a tool writes it.

        Returns:
            All products that fit, in the table's order; several capabilities among them mean
            that the name is ambiguous. Empty for a name that is not known.
        """
        wanted = parse_gpu_name(name)
        if not wanted.core:
            return ()
        alike = self._alike(wanted.core)
        fitting = [pair for pair in alike if _has_brands(wanted, *pair)]
        exact = [pair for pair in fitting if pair[1].core == wanted.core]
        same_brands = [pair for pair in exact if pair[1].brands == wanted.brands]
        if same_brands:
            found = same_brands
        elif wanted.is_virtual:
            found = exact or self._find_profile(wanted)
        else:
            found = [pair for pair in fitting if _may_mean(wanted, pair[1])]
        if "quadro" in wanted.brands:
            found = [pair for pair in found if "quadro" in pair[1].brands] or found
        closest = [pair for pair in found if pair[1].decorations >= wanted.decorations]
        return tuple(model for model, _ in closest or found)

    def suggest(self, name: str) -> tuple[str, ...]:
        """Names of products that look like an unknown one, the most similar first; up to three."""
        from difflib import get_close_matches  # only for a mistyped name

        spellings: dict[str, str] = {}
        for model in self.models:
            spellings.setdefault(_spelling(model.name), model.name)
        close = get_close_matches(_spelling(name[:LONGEST]), spellings, 3, 0.6)
        return tuple(spellings[text] for text in close)

    def _alike(self, core: tuple[str, ...]) -> list[tuple[GpuModel, NameParts]]:
        """The products that differ from this one in optional words only.

        The words of a product are parts of its name, so rows without them need no parsing.
        """
        key = _key(core)
        if key not in self._by_key:
            rows = ((row, row.text("name").lower()) for row in self.document.rows("gpu"))
            alike = (row for row, name in rows if all(word in name for word in key))
            pairs = ((row, row.value("name", parse_gpu_name)) for row in alike)
            self._by_key[key] = [
                (_read_model(row), parts) for row, parts in pairs if _key(parts.core) == key
            ]
        return self._by_key[key]

    def _find_profile(self, wanted: NameParts) -> list[tuple[GpuModel, NameParts]]:
        """Find a vGPU profile, which marks the board by letters: V100DX, A100D, H100XM."""
        for letters in (1, 2):
            core = tuple(sorted(_shorten(word, letters) for word in wanted.core))
            found = [pair for pair in self._alike(core) if pair[1].core == core]
            if found:
                return found
        return []


def _key(core: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in core if word not in OPTIONAL)


def _shorten(word: str, letters: int) -> str:
    stem, tail = word[:-letters], word[-letters:]
    return stem if stem[-1:].isdigit() and tail.isalpha() else word


def _spelling(name: str) -> str:
    """The name without the words that are often left out."""
    words = name.lower().replace("-", " ").split()
    return " ".join(word for word in words if word not in _OFTEN_LEFT_OUT)


def _has_brands(wanted: NameParts, model: GpuModel, parts: NameParts) -> bool:
    """Whether a product agrees with the brands in a name; brands are often left out."""
    for brand in wanted.brands - parts.brands:
        allowed = {
            "geforce": model.segment is Segment.CONSUMER,
            "tesla": model.segment is Segment.DATACENTER,
            "quadro": model.segment is Segment.WORKSTATION,
            "jetson": model.segment is Segment.JETSON,
            "grid": model.segment in {Segment.DATACENTER, Segment.WORKSTATION},
        }
        if not allowed.get(brand, False):
            return False
    return True


def _may_mean(wanted: NameParts, parts: NameParts) -> bool:
    left_out = OPTIONAL - set(wanted.core)
    return tuple(word for word in parts.core if word not in left_out) == wanted.core


def _read_model(row: Row) -> GpuModel:
    return GpuModel(
        row.text("name"),
        row.value("capability", ComputeCapability.parse),
        row.value("segment", Segment),
        row.text("chip") if row.has("chip") else "",
        row.values("also", ComputeCapability.parse) if row.has("also") else (),
        row.provenance(),
    )
