"""Takes GPU names apart: what a product is called, however a person or a tool writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_COUNT = re.compile(r"^[0-9]{1,4} ?[x×*] ?")  # noqa: RUF001 - people do write the sign
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
