"""A device is named as torch names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.errors import InputError
from envguard.smoke.result import Device, OomCounts, ProgressReader, read_oom_counts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", "auto"),
        (" CPU ", "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        ("CUDA:07", "cuda:7"),
    ],
)
def test_a_device_is_read(text: str, expected: str) -> None:
    assert Device.parse(text).text == expected


@pytest.mark.parametrize(
    "text", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:0:1", "cuda:\u0661"]
)
def test_anything_else_is_a_wrong_option(text: str) -> None:
    with pytest.raises(InputError, match="is none of auto, cpu, cuda:N"):
        Device.parse(text)


EVENTS = "low 0\nhigh 0\nmax 812\noom 3\noom_kill 2\noom_group_kill 0\n"


def lay_out(folder: Path, cgroup: str, **files: str) -> tuple[Path, Path]:
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "cgroup").write_text(cgroup)
    for path, text in files.items():
        target = folder / "sys" / path.replace("__", "/").replace("_DOT_", ".")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder / "proc", folder / "sys"


def test_version_2_counts_kills_and_limit_hits(tmp_path: Path) -> None:
    proc, sys_fs = lay_out(tmp_path, "0::/user/job\n", user__job__memory_DOT_events=EVENTS)
    assert read_oom_counts(proc, sys_fs) == OomCounts(kills=2, limit_hits=3)


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    proc, sys_fs = lay_out(tmp_path, "0::/../abc\n", memory_DOT_events=EVENTS)
    assert read_oom_counts(proc, sys_fs) == OomCounts(kills=2, limit_hits=3)


def test_version_1_counts_kills_alone(tmp_path: Path) -> None:
    proc, sys_fs = lay_out(
        tmp_path,
        "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n",
        memory__job__memory_DOT_oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
    )
    assert read_oom_counts(proc, sys_fs) == OomCounts(kills=4)


def test_no_cgroup_counts_nothing(tmp_path: Path) -> None:
    assert read_oom_counts(tmp_path / "proc", tmp_path / "sys") == OomCounts()


def test_only_what_was_added_meanwhile_counts() -> None:
    assert OomCounts(5, 2).since(OomCounts(3, 2)) == OomCounts(2, 0)


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
