"""The side file is read as it grows; rubbish in it is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.smoke.result import ProgressReader

if TYPE_CHECKING:
    from pathlib import Path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_file_that_does_not_exist_yet_says_nothing(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path / "none")
    reader.read()
    assert reader.start == {}
    assert reader.current is None


def test_a_line_written_in_two_parts_is_one_record(tmp_path: Path) -> None:
    path = tmp_path / "side"
    reader = ProgressReader(path)
    append(path, b'{"event": "begin", "sta')
    reader.read()
    assert reader.current is None
    append(path, b'ge": "forward"}\n')
    reader.read()
    assert reader.current == "forward"


def test_an_end_closes_the_stage(tmp_path: Path) -> None:
    path = tmp_path / "side"
    append(path, b'{"event": "begin", "stage": "a"}\n{"event": "end", "stage": "a"}\n')
    reader = ProgressReader(path)
    reader.read()
    assert reader.current is None
    assert list(reader.ends) == ["a"]


def test_lines_that_are_no_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "side"
    append(path, b'\xff\xfe\n[1]\n"x"\n' + b"[" * 100_000 + b'\n{"event": "end", "stage": 3}\n')
    append(path, b'{"event": "end", "stage": "a", "status": "ok"}\n')
    reader = ProgressReader(path)
    reader.read()
    assert reader.rubbish_lines == 5
    assert list(reader.ends) == ["a"]


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "side"
    append(path, b'{"event": "start", "python": "3.12.1"}\r\n')
    reader = ProgressReader(path)
    reader.read()
    assert reader.start["python"] == "3.12.1"


def test_no_more_than_1_mib_is_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "side"
    append(path, (b"x" * 1023 + b"\n") * 5000)
    reader = ProgressReader(path)
    reader.read()
    reader.read()
    assert reader.rubbish_lines == 1024


def test_the_last_part_of_a_stage_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "side"
    append(path, b'{"event": "begin", "stage": "a"}\n')
    append(path, b'{"event": "part", "stage": "a", "part": "save"}\n')
    append(path, b'{"event": "part", "stage": "a", "part": "load\\u001b"}\n')
    append(path, b'{"event": "part", "stage": "a"}\n')
    reader = ProgressReader(path)
    reader.read()
    assert reader.parts == {"a": "load\ufffd"}
    assert reader.current == "a"
    assert reader.rubbish_lines == 1
