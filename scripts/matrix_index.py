"""Derives ``index.toml`` from the facts: how the PyTorch index is laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scripts.matrix_format import render_table

if TYPE_CHECKING:
    from scripts.matrix_words import Words

Row = dict[str, Any]

_HEADER = """The PyTorch index: channels, hosts, file names. A wheel that is not there answers 403.
Written by scripts/derive_matrix.py."""
_CHANNELS = {"nightly": "nightly_channel", "release": "url_form", "test": "test_channel"}


def derive_index(facts: Row, words: Words) -> str:
    """The text of ``index.toml``.

    Args:
        facts: Decoded ``torch_cuda.toml``.
        words: Wording.
    """
    index = facts["index"]
    arrays = {
        "channel": [
            _finish({"name": n, "url": index[k].replace("{variant}", "{backend}")}, words)
            for n, k in _CHANNELS.items()
        ],
        "host": [_finish({"name": host}, words) for host in sorted(index["hosts"])],
        "unlabelled": sorted(
            (dict(row) for row in words.data["unlabelled"]),
            key=lambda row: (row["package"], row["platform"]),
        ),
        "platform_tag": [dict(row) for row in words.data["platform_tag"]],
    }
    rows = [row for array in arrays.values() for row in array]
    return render_table(_HEADER, {}, arrays, words.address_book(rows), words.checked)


def _finish(row: Row, words: Words) -> Row:
    row["source"] = words.sources_of("lockfiles; prev-versions; uv-backend")
    row["confidence"] = "observed"
    return row
