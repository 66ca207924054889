"""GPU products: names as people and tools write them, and their compute capability."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from envguard.facts.versions import ComputeCapability
from envguard.matrix.rows import GpuModel, MarketSegment
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.matrix.reading import Document


_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_COUNT = re.compile(r"^[0-9]{1,4} ?[x×*] ?|(?<=[ (])[x×*] ?[0-9]{1,3}\)?$|\*[0-9]{1,3}$")  # noqa: RUF001 - people do write the sign
_MIG = re.compile(r"\bmig\b.*$")
# vGPU profiles: A100-10C, A100-1-5C, RTX6000-Ada-48Q.
_VGPU = re.compile(r"-(?:[0-9]{1,2}-)?1?[0-9]{1,2}(?:q|c|b|a|cme|me)$")
_SIZE_WITH_SPACE = re.compile(r"\b([0-9]{1,3})[\s-]+g(?:i?b)?\b")
_SPLIT = re.compile(r"[^a-z0-9]+")
_SIZE = re.compile(r"[0-9]{1,3}g(?:i?b)?")
_FORM_FACTOR = re.compile(r"sxm[0-9]?|pcie|hbm[0-9]e?|nvl[0-9]*|gddr[0-9]x?")
_GLUED_BRAND = re.compile(
    r"(geforce|quadro|jetson|nvidia|tesla|titan|grid|cmp|gtx|rtx|gt|mx)(?=[a-z0-9])(.+)"
)
_GLUED_SUFFIX = re.compile(r"([0-9]{3,4})(ti|super|d|m|mx|a)")
_TITANS = frozenset({"rtx", "v", "x", "xp", "z", "black"})

_VENDOR = frozenset({"nvidia", "corporation", "gpu", "graphics", "card", "device"})
BRANDS = frozenset({"geforce", "quadro", "tesla", "jetson", "grid", "rtx", "gtx", "gt"})
# Words that never change what code a product runs.
_DECORATIONS = frozenset(
    {
        "ac",
        "accelerator",
        "active",
        "cnx",
        "converged",
        "core",
        "design",
        "developer",
        "devkit",
        "dgx",
        "dgxs",
        "edition",
        "embedded",
        "engineering",
        "fhhl",
        "generation",
        "hgx",
        "industrial",
        "kit",
        "laptop",
        "lc",
        "maxq",
        "mobile",
        "module",
        "notebook",
        "nvswitch",
        "oem",
        "reference",
        "server",
        "sff",
        "tensor",
        "with",
        "workstation",
    }
)
# A name with one of these is no product of NVIDIA.
_OTHER_VENDORS = frozenset(
    {"adreno", "amd", "apple", "arc", "ascend", "gaudi", "firepro", "instinct", "intel", "mali"}
    | {"radeon", "qualcomm"}
)
# How nvidia-smi and people mark a name that they cut.
_CUT = re.compile(r"(?:\.{2,3}|\u2026)$")
_PLURAL = re.compile(r"^([a-z]{0,2}[0-9]{2,4})s$")
# Words that are often left out although they tell products apart.
OPTIONAL = frozenset({"ada", "blackwell", "pascal", "pro", "agx", "nx"})

LONGEST = 200


@dataclass(frozen=True, slots=True)
class NameParts:
    """A GPU name taken apart.

    Args:
        core: The words that make the product, sorted.
        brands: GeForce, Tesla, RTX ...: often added or left out.
        decorations: Memory size, form factor and the like.
        is_virtual: It names a vGPU profile.
    """

    core: tuple[str, ...]
    brands: frozenset[str]
    decorations: frozenset[str]
    is_virtual: bool


def parse_gpu_name(text: str) -> NameParts:
    """Take a GPU name apart.

    Args:
        text: E.g. ``NVIDIA A100-SXM4-80GB``, ``rtx3090``, ``GRID A100-10C``.

    Returns:
        Its parts; ``core`` is empty when the text names no product.
    """
    lowered = _MARKS.sub(" ", text[:LONGEST].lower()).strip()
    lowered = _MIG.sub("", _COUNT.sub("", lowered)).strip()
    plain = _VGPU.sub("", lowered)
    words = [w for word in _words(plain) for w in _unglue(word)]
    if "jetson" in words:
        words = [word for word in words if word != "super"]  # a power mode there
    core, brands, decorations = [], set(), set()
    for word in words:
        if word in _VENDOR:
            continue
        if word in BRANDS:
            brands.add(word)
        elif word in _DECORATIONS or _SIZE.fullmatch(word) or _FORM_FACTOR.fullmatch(word):
            decorations.add(re.sub("gi?b$", "g", word))
        else:
            core.append(word)
    return NameParts(
        tuple(sorted(core)), frozenset(brands), frozenset(decorations), plain != lowered
    )


def _words(text: str) -> list[str]:
    joined = _SIZE_WITH_SPACE.sub(r"\1gb", text.replace("max-q", "maxq").replace("max q", "maxq"))
    return [word for word in _SPLIT.split(joined) if word]


def _unglue(word: str) -> list[str]:
    """Split ``rtx3090ti`` into ``rtx``, ``3090`` and ``ti``."""
    glued = _GLUED_BRAND.fullmatch(word)
    if glued and (glued[1] != "titan" or glued[2] in _TITANS) and word not in BRANDS:
        return [glued[1], *_unglue(glued[2])]
    suffixed = _GLUED_SUFFIX.fullmatch(word)
    return [suffixed[1], suffixed[2]] if suffixed else [word]


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
        return tuple(row.build(GpuModel) for row in self.document.rows("gpu"))

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
        that people leave out (Ada, PRO) is considered, and one that no product has (a board
        maker's) is passed over. A name cut with dots means every product that it begins.

        Args:
            name: As a person or a tool writes it.

        Returns:
            All products that fit, in the table's order; several capabilities among them mean
            that the name is ambiguous. Empty for a name that is not known.
        """
        stem = _CUT.sub("", name[:LONGEST].rstrip()).rstrip()
        begun = self._beginning_with(stem) if stem != name[:LONGEST].rstrip() else ()
        return begun or self._find(parse_gpu_name(stem)) or self._find_decorated(stem)

    def _beginning_with(self, stem: str) -> tuple[GpuModel, ...]:
        """The products whose names go on from a cut one: ``GeForce RTX 509`` is the 5090s.

        A stem without a digit may go on in too many ways to mean anything.
        """
        begin = f" {_plain(stem)}"
        if not any(letter.isdigit() for letter in begin):
            return ()
        rows = self.document.rows("gpu")
        return tuple(row.build(GpuModel) for row in rows if begin in f" {_plain(row.text('name'))}")

    def _find_decorated(self, name: str) -> tuple[GpuModel, ...]:
        """The products of a name without the words that its board's maker put in: OC, SUPRIM.

        Words of any product are never passed over; a word of no product that follows the number
        ends the name. A plural is read as one.
        """
        words = _words(_MARKS.sub(" ", _COUNT.sub("", name.lower())))
        if _OTHER_VENDORS & set(words):
            return ()
        kept: list[str] = []
        for word in words:
            if word in self._vocabulary or not word.isalpha():
                kept.append(_PLURAL.sub(r"\1", word))
            elif any(letter.isdigit() for letter in "".join(kept)):
                break
        return self._find(parse_gpu_name(" ".join(kept))) if kept != words else ()

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """The words of all products' names."""
        names = (row.text("name").lower() for row in self.document.rows("gpu"))
        own = frozenset(word for name in names for word in _words(name))
        return own | _VENDOR | BRANDS | _DECORATIONS | OPTIONAL

    def _find(self, wanted: NameParts) -> tuple[GpuModel, ...]:
        if not wanted.core:
            return ()
        alike = self._alike(wanted.core)
        fitting = [pair for pair in alike if _has_brands(wanted, *pair)]
        exact = [pair for pair in fitting if pair[1].core == wanted.core]
        same_brands = [pair for pair in exact if pair[1].brands == wanted.brands]
        if same_brands:
            found = same_brands
        elif wanted.is_virtual or "grid" in wanted.brands:
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
                (row.build(GpuModel), parts) for row, parts in pairs if _key(parts.core) == key
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


def _plain(name: str) -> str:
    """A name in lower case without its vendor: words with one blank between them."""
    words = _SPLIT.split(_MARKS.sub(" ", name.lower()))
    return " ".join(word for word in words if word and word != "nvidia")


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
            "geforce": model.segment is MarketSegment.CONSUMER,
            "tesla": model.segment is MarketSegment.DATACENTER,
            "quadro": model.segment is MarketSegment.WORKSTATION,
            "jetson": model.segment is MarketSegment.JETSON,
            "grid": model.segment in {MarketSegment.DATACENTER, MarketSegment.WORKSTATION},
        }
        if not allowed.get(brand, False):
            return False
    return True


def _may_mean(wanted: NameParts, parts: NameParts) -> bool:
    left_out = OPTIONAL - set(wanted.core)
    return tuple(word for word in parts.core if word not in left_out) == wanted.core
