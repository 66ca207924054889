from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envguard.binary.cache import ResultCache, cache_folder


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_result_comes_back(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "new/folder")
    cache.store("subject", {"answer": [1, "ü", None]})
    assert cache.load("subject")["answer"] == [1, "ü", None]
    assert cache.load("another") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"format": "0/0", "subject": "s"}'])
def test_a_result_that_cannot_be_used_counts_as_absent(tmp_path: Path, text: str) -> None:
    cache = ResultCache(tmp_path)
    cache.store("s", {"answer": 1})
    only_file(tmp_path).write_text(text)
    assert cache.load("s") == {}
    cache.store("s", {"answer": 2})
    assert cache.load("s")["answer"] == 2


def test_a_result_under_a_foreign_name_is_not_taken(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    cache.store("s", {"answer": 1})
    path = only_file(tmp_path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "subject": "t"}))
    assert cache.load("s") == {}


def test_a_deep_nest_is_no_result(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    cache.store("s", {"answer": 1})
    only_file(tmp_path).write_text("[" * 100_000)
    assert cache.load("s") == {}


def test_nothing_is_kept_without_a_folder() -> None:
    cache = ResultCache(None)
    cache.store("s", {"answer": 1})
    assert cache.load("s") == {}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ResultCache(tmp_path / "file/below")
    cache.store("s", {"answer": 1})
    assert cache.load("s") == {}


def test_the_number_of_results_has_a_bound(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    (tmp_path / "unrelated.txt").write_text("kept")
    (tmp_path / ".deep-left-behind").write_text("by a run that was killed")
    os.utime(tmp_path / ".deep-left-behind", ns=(1, 1))
    for number in range(80):
        cache.store(f"subject {number}", {"answer": number})
    assert len(list(tmp_path.glob("deep-*"))) == 64
    assert not (tmp_path / ".deep-left-behind").exists()
    assert (tmp_path / "unrelated.txt").exists()
    assert cache.load("subject 79")["answer"] == 79


def test_an_enormous_result_is_not_kept(tmp_path: Path) -> None:
    ResultCache(tmp_path).store("s", {"answer": "x" * 17_000_000})
    assert list(tmp_path.iterdir()) == []


def test_runs_at_the_same_time_leave_whole_results(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from envguard.binary.cache import ResultCache\n"
        "cache = ResultCache(Path(sys.argv[1]))\n"
        "for _ in range(60):\n"
        "    cache.store('s', {'answer': [int(sys.argv[2])] * 2000})\n"
        "    found = cache.load('s')['answer']\n"
        "    assert len(found) == 2000 and len(set(found)) == 1, found[:3]\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)]) for n in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="folders of Linux")
@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"ENVGUARD_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/envguard"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/c"}, "/c/.cache/envguard"),
        ({"HOME": "/c"}, "/c/.cache/envguard"),
    ],
)
def test_where_results_are_kept(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)
