"""Where torch keeps what it compiled on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.binary.listing import find_jit_caches
from envguard.binary.subject import Subject
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.gaps import Gap


def subject(folder: Path) -> Subject:
    return Subject((), None, {"TORCH_EXTENSIONS_DIR": str(folder)}, None)


def test_no_folder_is_no_gap(tmp_path: Path) -> None:
    gaps: list[Gap] = []
    assert find_jit_caches(subject(tmp_path / "none"), gaps) == ()
    assert gaps == []


def test_a_folder_that_cannot_be_looked_at_is_a_gap(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)  # a link to itself cannot be followed, by no user
    gaps: list[Gap] = []
    assert find_jit_caches(subject(loop / "py312_cu130"), gaps) == ()
    assert [(gap.fact, gap.reason) for gap in gaps] == [("compiled.caches", GapReason.FORBIDDEN)]
