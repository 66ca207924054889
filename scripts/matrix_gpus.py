"""Derives ``gpus.toml`` from the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import Version

from scripts.matrix_format import render_table

if TYPE_CHECKING:
    from scripts.matrix_words import Words

_HEADER = """GPU products by compute capability, and the chips behind them.
`also` lists capabilities that the same name was sold with as well.
Written by scripts/derive_matrix.py."""


def derive_gpus(facts: dict[str, Any], words: Words) -> str:
    """The text of ``gpus.toml``.

    Args:
        facts: Decoded ``torch_cuda.toml``.
        words: Wording.
    """
    gpus = [_gpu(fact, words) for fact in facts["gpu"]]
    gpus.sort(key=lambda row: (Version(row["capability"]), row["name"]))
    chips = facts["chip_cc"]
    source = words.sources_of(chips["source"])
    chip_rows = [
        {"chip": chip, "capability": capability, "source": source, "confidence": "doc"}
        for chip, capability in chips.items()
        if chip != "source"
    ]
    chip_rows.sort(key=lambda row: (Version(row["capability"]), row["chip"]))
    arrays = {"gpu": gpus, "chip": chip_rows}
    addresses = words.address_book([*gpus, *chip_rows])
    return render_table(_HEADER, {}, arrays, addresses, words.checked)


def _gpu(fact: dict[str, Any], words: Words) -> dict[str, Any]:
    row = {"name": fact["name"], "capability": fact["cc"], "segment": fact["segment"]}
    if "chip" in fact:
        row["chip"] = fact["chip"]
    if "also_sold_with_cc" in fact:
        also = [c for cc in fact["also_sold_with_cc"] for c in _capabilities(cc)]
        row["also"] = also
    row["source"] = words.sources_of(fact["source"])
    row["confidence"] = "doc"
    return row


def _capabilities(text: str) -> list[str]:
    """Fermi is written 2.x; its parts are 2.0 and 2.1."""
    return ["2.0", "2.1"] if text == "2.x" else [text]
