"""The worked examples of CONTRIBUTING, applied to a copy of the repository, do what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.documents import ROOT, Block, blocks_of, commands, holds

if TYPE_CHECKING:
    from pathlib import Path

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### ([^\n]*)\n(.*?)(?=^##|\Z)", TEXT, re.M | re.S))
EXAMPLES = [title for title, text in SECTIONS.items() if blocks_of(text, "console")]
KINDS = ("toml", "text", "python", "diff", "console")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a newcomer has: the package, the scripts, and a copy of the tables beside them."""
    skip = shutil.ignore_patterns("__pycache__")
    for name in ("envguard", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skip)
    shutil.copytree(ROOT / "compat_matrix", tmp_path / "tables", ignore=skip)
    return tmp_path


def add_rows(table: Path, text: str) -> None:
    """Write rows before the sources of a table, and sources after them."""
    rows, _, sources = text.partition("[sources]\n")
    before, _, after = table.read_text(encoding="utf-8").partition("[sources]\n")
    table.write_text(f"{before}{rows.strip()}\n\n[sources]\n{after.rstrip()}\n{sources}", "utf-8")


def add_lines(path: Path, text: str) -> None:
    """Apply a diff: the lines that stay stand in the file once."""
    lines = text.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] != "+")
    new = "".join(line[1:] for line in lines if line[0] != "-")
    content = path.read_text(encoding="utf-8")
    assert content.count(old) == 1, f"{path.name} does not hold once:\n{old}"
    path.write_text(content.replace(old, new), encoding="utf-8")


def write(checkout: Path, block: Block) -> None:
    """Do what a block says with its file."""
    path = checkout / block.name
    if block.kind == "diff":
        add_lines(path, block.text)
    elif path.exists():
        add_rows(path, block.text)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")


def run(checkout: Path, words: list[str]) -> list[str]:
    """The lines that a command of a console block prints."""
    programs = {"python": [sys.executable], "envguard": [sys.executable, "-m", "envguard"]}
    done = subprocess.run(
        [*programs[words[0]], *words[1:]],
        cwd=checkout,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.rstrip() for line in (done.stderr + done.stdout).splitlines()]


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_worked_example_does_what_it_says(title: str, checkout: Path) -> None:
    for block in blocks_of(SECTIONS[title], *KINDS):
        if block.kind != "console":
            assert f"`{block.name}`" in SECTIONS[title], "the text names the file of each block"
            write(checkout, block)
            continue
        for words, shown in commands(block):
            lines = run(checkout, words)
            assert holds(lines, shown), "\n".join([" ".join(words), *lines])


def test_every_thing_that_one_adds_has_an_example() -> None:
    assert len(EXAMPLES) == 6
    assert len(SECTIONS) == 7  # a rule shows the way by a real one


def test_the_added_cause_is_the_one_that_is_kept_as_a_sample() -> None:
    (block,) = blocks_of(SECTIONS["A cause"], "toml")
    assert block.text == (ROOT / "tests/samples/added_cause.toml").read_text(encoding="utf-8")


def test_the_rooms_are_those_of_the_house() -> None:
    cells = re.findall(r"^\| (`.*?`) \| ", TEXT.partition("## Add something")[0], re.M)
    named = {name.strip("`").rstrip("/") for cell in cells for name in cell.split(", ")}
    rooms = {path.parent.name for path in (ROOT / "envguard").glob("*/__init__.py")}
    decisions = {"signatures.py", "conditions.py", "fit.py", "backend.py", "judge.py"}
    assert named == rooms | decisions
    assert [name for name in sorted(named) if not (ROOT / "envguard" / name).exists()] == []


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:tests|scripts|compat_matrix|\.ci)/[a-z0-9_./-]+)`", TEXT)))
)
def test_the_paths_that_are_named_are_there(path: str) -> None:
    made = {block.name for text in SECTIONS.values() for block in blocks_of(text, *KINDS)}
    assert path in made or (ROOT / path).exists()
