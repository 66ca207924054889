"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from envguard.supervise.private_files import PrivateFolder, RingFile, ring_parts

if TYPE_CHECKING:
    from pathlib import Path


def test_beginning_and_end_are_kept_within_the_limit(tmp_path: Path) -> None:
    ring = RingFile(PrivateFolder(tmp_path, is_new=False), "log", 100)
    for number in range(1000):
        ring.write_line(f"line {number}")
    ring.close()
    parts = list(ring_parts(tmp_path, "log"))
    assert len(parts) == 3
    assert sum(part.stat().st_size for part in parts) <= 300
    assert parts[0].read_text().startswith("line 0\nline 1\n")
    assert parts[-1].read_text().endswith("line 999\n")


def test_lines_stay_whole(tmp_path: Path) -> None:
    ring = RingFile(PrivateFolder(tmp_path, is_new=False), "log", 64)
    for number in range(50):
        ring.write_line(f"{number:>20}")
    ring.close()
    for part in ring_parts(tmp_path, "log"):
        assert all(len(line) == 20 for line in part.read_text().splitlines())


@given(pieces=st.lists(st.binary(max_size=40), max_size=12))
def test_what_fits_is_kept_as_it_was(tmp_path_factory: object, pieces: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("ring")  # type: ignore[attr-defined]  # pytest's factory
    ring = RingFile(PrivateFolder(folder, is_new=False), "log", 600)
    for piece in pieces:
        ring.write(piece)
    ring.close()
    assert b"".join(part.read_bytes() for part in ring_parts(folder, "log")) == b"".join(pieces)
