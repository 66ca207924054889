"""None"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envguard.binary.inspected import InspectedEnvironment
from envguard.binary.listing import all_folders, digest, find_jit_caches, list_files, signature_of
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.gaps import Gap


def put(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_files_are_listed_once_and_sorted(tmp_path: Path) -> None:
    put(tmp_path / "b/y.so")
    put(tmp_path / "a/x.so.1")
    found = list_files((tmp_path, tmp_path), [])
    assert [listed.name for listed in found] == ["a/x.so.1", "b/y.so"]
    assert found[0].signature == signature_of(str(tmp_path / "a/x.so.1"))


def test_pth_files_add_folders(tmp_path: Path) -> None:
    site, added, nested = tmp_path / "site", tmp_path / "src", tmp_path / "deeper"
    for folder in (site, added, nested):
        folder.mkdir()
    (site / "x.pth").write_text(f"# a comment\nimport os; os.getcwd()\n{added}\n{tmp_path}/gone\n")
    (site / "relative.pth").write_text("../src\n\n")
    (added / "y.pth").write_text(f"{nested}\n")
    assert [os.path.realpath(path) for path in all_folders((site,))] == [str(site), str(added)]


def test_a_folder_inside_another_is_listed_with_it(tmp_path: Path) -> None:
    (tmp_path / "site/inner").mkdir(parents=True)
    assert all_folders((tmp_path / "site", tmp_path / "site/inner")) == (tmp_path / "site",)


def test_one_folder_under_two_names_is_one(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib64").symlink_to("lib")
    assert all_folders((tmp_path / "lib64", tmp_path / "lib")) == (tmp_path / "lib64",)


def test_the_digest_changes_with_every_part_of_a_state(tmp_path: Path) -> None:
    path = put(tmp_path / "x.so")
    before = digest(list_files((tmp_path,), []), {"LD_LIBRARY_PATH": ""})
    assert digest(list_files((tmp_path,), []), {"LD_LIBRARY_PATH": ""}) == before
    assert digest(list_files((tmp_path,), []), {"LD_LIBRARY_PATH": "/a"}) != before
    os.utime(path, ns=(1, 1))
    changed = digest(list_files((tmp_path,), []), {"LD_LIBRARY_PATH": ""})
    assert changed != before
    put(tmp_path / "y.so")
    assert digest(list_files((tmp_path,), []), {"LD_LIBRARY_PATH": ""}) not in {before, changed}


def test_what_is_not_there_has_no_signature(tmp_path: Path) -> None:
    assert signature_of(str(tmp_path / "x")) is None
    assert signature_of("a\0b") is None


def subject(folder: Path) -> InspectedEnvironment:
    return InspectedEnvironment((), None, {"TORCH_EXTENSIONS_DIR": str(folder)}, None)


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
