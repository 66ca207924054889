"""The sample texts, and what tests do with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from envguard.ingest.detect import load_text
from envguard.ingest.plain_text import decode_text

if TYPE_CHECKING:
    from envguard.facts.facts import Facts

SAMPLES = Path(__file__).parents[1] / "samples"
REPORTS = tuple(sorted((SAMPLES / "reports").iterdir()))
LOCKS = tuple(sorted(path for path in (SAMPLES / "locks").rglob("*") if path.is_file()))


def report(name: str) -> str:
    """The text of a sample report."""
    return decode_text((SAMPLES / "reports" / name).read_bytes())


def load(name: str) -> Facts:
    """The facts of a sample report."""
    return load_text(report(name), name)
