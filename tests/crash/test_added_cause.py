"""Whoever adds rows to a copy of the tables has a new cause, without a line of code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from envguard.cli.main import main
from envguard.matrix.causes import GENERAL_CODE
from envguard.render import FORMATS
from scripts.format_tables import format_table

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests" / "samples" / "added_cause.toml"
CAUSE = "scratch-not-mounted"
LINE = "scratch-guard: no mount at /scratch on node17"
TITLE = "/scratch is not mounted on node17"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A copy of the tables with the added rows."""
    folder = tmp_path / "tables"
    shutil.copytree(ROOT / "compat_matrix", folder, ignore=shutil.ignore_patterns("*.py*"))
    shutil.copy(ROWS, folder / "causes" / "our_cluster.toml")
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that holds the words of the added signature, and one of a rank that died of it."""
    path = tmp_path / "run.log"
    path.write_text(f"step 1 loss 2.5\n{LINE}\nOSError: [Errno 2] No such file: '/scratch/a'\n")
    return path


def printed(capsys: Capture, *words: str, code: int) -> str:
    assert main([*words]) == code
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def test_the_added_rows_hold_what_tables_promise(capsys: Capture, tables: Path) -> None:
    text = ROWS.read_text()
    assert format_table(text) == text
    said = printed(capsys, "matrix", "verify", "--matrix", str(tables), code=0)
    assert said.endswith("hold what they promise\n")


def test_diagnose_establishes_the_added_cause(capsys: Capture, tables: Path, log: Path) -> None:
    words = ["diagnose", str(log), "--matrix", str(tables), "--format", "json"]
    report = json.loads(printed(capsys, *words, code=1))
    first = report["findings"][0]
    assert (report["verdict"], report["root_cause"]) == ("fail", CAUSE)
    assert (first["code"], first["cause"], first["title"]) == (GENERAL_CODE, CAUSE, TITLE)
    assert first["evidence"] == [{"fact": "line 2", "value": LINE, "from": "run.log"}]
    assert first["remedy"]["text"].startswith("mount it on node17, or")
    assert first["remedy"]["command"] == ["mount", "/scratch"]
    assert first["source"]["url"] == "https://wiki.example/runbook/scratch"


def test_without_the_rows_the_log_shows_another_cause(capsys: Capture, log: Path) -> None:
    words = ["diagnose", str(log), "--format", "json"]
    report = json.loads(printed(capsys, *words, code=3))
    assert CAUSE not in {finding["cause"] for finding in report["findings"]}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_tells_the_added_cause(
    capsys: Capture, tables: Path, log: Path, name: str
) -> None:
    words = ["diagnose", str(log), "--matrix", str(tables), "--format", name]
    assert TITLE in printed(capsys, *words, code=1).replace("\\/", "/")


def test_explain_knows_the_added_cause_and_the_general_code(capsys: Capture, tables: Path) -> None:
    said = printed(capsys, "explain", CAUSE, "--matrix", str(tables), code=0)
    assert said.startswith(f"{CAUSE}\n\nmeans   The file system for temporary data is not mounted")
    assert f"codes   {GENERAL_CODE}  " in said
    assert "fix     Mount it on NODE, or leave the node out until somebody has." in said
    assert f"told by {LINE}\n" in said
    said = printed(capsys, "explain", GENERAL_CODE, "--matrix", str(tables), code=0)
    assert f"{CAUSE}: The file system for temporary data" in " ".join(said.split())
    assert f"{GENERAL_CODE}  " in printed(capsys, "explain", "--matrix", str(tables), code=0)


def test_an_added_cause_may_stand_as_a_hypothesis(capsys: Capture, tables: Path, log: Path) -> None:
    path = tables / "causes" / "our_cluster.toml"
    rows = path.read_text().replace(
        '[[cause.shown]]\nany = ["scratch-guard"]\n',
        '[[cause.hypothesis]]\nany = ["scratch-guard"]\nsupports = "the guard of {node} says so"\n'
        'experiment = "run it on another node than {node}"\n',
    )
    path.write_text(rows)
    words = ["diagnose", str(log), "--matrix", str(tables), "--format", "json"]
    report = json.loads(printed(capsys, *words, code=3))
    (raised,) = [finding for finding in report["findings"] if finding["cause"] == CAUSE]
    assert raised["status"] == "unknown"
    assert raised["detail"] == "For it: the guard of node17 says so."
    assert raised["remedy"]["text"] == "to find out, run it on another node than node17"


LAUNCHER = r"""
[[launcher]]
name = "ourlaunch"
outer_code = "always 3"
truth = "the line of the rank holds its status"
says_exit = ["ourlaunch-rank"]
says_rank = ["ourlaunch-rank"]
raises = ["OurLaunchError"]
source = "here"
confidence = "observed"

[[signature]]
id = "ourlaunch-rank"
regex = '''ourlaunch: rank (?P<r>\d{1,4}) ended with (?P<code>-?\d{1,3})'''
literals = ["ourlaunch: rank"]
sample = "ourlaunch: rank 3 ended with -11"
source = "here"
confidence = "observed"
"""


def test_an_added_launcher_is_one_row_with_its_words(
    capsys: Capture, tables: Path, tmp_path: Path
) -> None:
    path = tables / "launchers.toml"
    path.write_text(path.read_text() + LAUNCHER)
    log = tmp_path / "job.log"
    log.write_text("ourlaunch: rank 3 ended with -11\nourlaunch.OurLaunchError: a rank failed\n")
    words = ["diagnose", str(log), "--matrix", str(tables), "--exit-code", "3", "--format", "json"]
    report = json.loads(printed(capsys, *words, code=3))
    crash = report["crash"]
    assert crash["headline"] == "rank 3 died of SIGSEGV (-11)"
    assert (crash["launcher"], crash["stated_by"]) == ("ourlaunch", "ourlaunch")
    assert (crash["rank"], crash["ranks"], crash["signal"]) == (3, 4, "SIGSEGV")
    assert report["findings"][0]["cause"] == "unknown-segfault"
    assert "python-exception" not in {finding["cause"] for finding in report["findings"]}
