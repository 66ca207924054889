from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from envguard.binary.folders import find_compiled, is_compiled
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
