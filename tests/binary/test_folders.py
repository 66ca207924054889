from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from envguard.binary.folders import FolderMemory, find_compiled, is_compiled
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.gaps import Gap


def names(folder: Path, *, with_foreign: bool = False) -> list[str]:
    gaps: list[Gap] = []
    found = sorted(f.name for f in find_compiled(str(folder), gaps, with_foreign=with_foreign))
    assert gaps == []
    return found


def touch(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"")


@pytest.mark.parametrize(
    "name",
    ["x.so", "libcudart.so.11.0", "_C.cpython-311-x86_64-linux-gnu.so", "lib-1a2b.so.6.0.33"],
)
def test_names_of_compiled_files(name: str) -> None:
    assert is_compiled(name)


@pytest.mark.parametrize("name", [".so", "x.so.py", "x.sop", "x.so.txt", "x.py", "so", "x.so."])
def test_names_of_other_files(name: str) -> None:
    assert not is_compiled(name, with_foreign=True)


def test_compiled_files_are_found_at_any_depth(tmp_path: Path) -> None:
    touch(tmp_path, "a/b/c/x.so", "y.so.1", "a/z.py", "w.pyd", "v.dylib")
    assert names(tmp_path) == ["a/b/c/x.so", "y.so.1"]
    assert names(tmp_path, with_foreign=True) == ["a/b/c/x.so", "v.dylib", "w.pyd", "y.so.1"]


def test_folders_that_programs_do_not_load_from_are_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "a/__pycache__/x.so", "torch/include/y.so", "a/z.so")
    assert names(tmp_path) == ["a/z.so"]


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.so")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/self").symlink_to(".")
    (tmp_path / "b").symlink_to("b")
    assert names(tmp_path) == ["a/x.so"]


def test_links_to_other_folders_are_followed_once(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    touch(outside, "x.so")
    inside.mkdir()
    (inside / "one").symlink_to(outside)
    (inside / "two").symlink_to(outside)
    assert len(names(inside)) == 1


def test_a_linked_file_is_a_file(tmp_path: Path) -> None:
    touch(tmp_path, "store/x.so")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/y.so").symlink_to(tmp_path / "store/x.so")
    assert names(tmp_path / "site") == ["y.so"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_forbidden_folder_is_a_gap(tmp_path: Path) -> None:
    touch(tmp_path, "a/x.so", "b/y.so")
    (tmp_path / "b").chmod(0)
    gaps: list[Gap] = []
    found = [file.name for file in find_compiled(str(tmp_path), gaps)]
    (tmp_path / "b").chmod(0o700)
    assert found == ["a/x.so"]
    assert [gap.reason for gap in gaps] == [GapReason.FORBIDDEN]


def test_a_missing_folder_is_a_gap(tmp_path: Path) -> None:
    gaps: list[Gap] = []
    assert list(find_compiled(str(tmp_path / "x"), gaps)) == []
    assert len(gaps) == 1


class TestMemory:
    """A folder that has not changed is not read again; its files are looked at all the same."""

    def remember(self, folder: Path) -> FolderMemory:
        """What a first walk finds, as it comes back from JSON; the folders are an hour old."""
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                os.utime(path, ns=(1, 1_700_000_000_000_000_000))
        first = FolderMemory()
        list(find_compiled(str(folder), [], memory=first))
        return FolderMemory(before=json.loads(json.dumps(first.now)))

    def walk(self, folder: Path, memory: FolderMemory) -> list[str]:
        return sorted(file.name for file in find_compiled(str(folder), [], memory=memory))

    def test_an_unchanged_folder_is_recalled(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/x.so", "b/c/y.so")
        memory = self.remember(tmp_path)
        memory.before[f"{tmp_path}/a"][3].append("planted.so")  # type: ignore[index]  # JSON
        assert self.walk(tmp_path, memory) == ["a/planted.so", "a/x.so", "b/c/y.so"]

    def test_a_changed_folder_is_read(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/x.so", "b/c/y.so")
        memory = self.remember(tmp_path)
        touch(tmp_path, "a/new.so", "b/d/z.so")
        (tmp_path / "b/c/y.so").unlink()
        assert self.walk(tmp_path, memory) == ["a/new.so", "a/x.so", "b/d/z.so"]

    def test_a_folder_that_changed_just_now_is_not_trusted(self, tmp_path: Path) -> None:
        touch(tmp_path, "a/x.so")
        memory = FolderMemory()
        list(find_compiled(str(tmp_path), [], memory=memory))
        assert memory.now[f"{tmp_path}/a"].time_ns == 0
        later = FolderMemory(before=json.loads(json.dumps(memory.now)))
        assert later.recall(f"{tmp_path}/a") is None

    def test_links_are_followed_from_memory_too(self, tmp_path: Path) -> None:
        touch(tmp_path, "outside/x.so")
        (tmp_path / "site").mkdir()
        (tmp_path / "site/link").symlink_to(tmp_path / "outside")
        (tmp_path / "site/up").symlink_to("..")
        memory = self.remember(tmp_path / "site")
        assert self.walk(tmp_path / "site", memory) == ["link/x.so"]

    @pytest.mark.parametrize(
        "entry", [None, 3, [], [1, [], []], ["x", [], [], []], [0, [], [], []]]
    )
    def test_a_malformed_memory_is_none(self, tmp_path: Path, entry: object) -> None:
        touch(tmp_path, "a/x.so")
        memory = self.remember(tmp_path)
        memory = FolderMemory(before={**memory.before, f"{tmp_path}/a": entry})
        assert self.walk(tmp_path, memory) == ["a/x.so"]
