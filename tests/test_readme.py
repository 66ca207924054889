"""The README names every command, format, exit code and family, and shows what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envguard.cli.main import COMMANDS
from envguard.errors import ExitCode
from envguard.lock import FORMATS as LOCK_FORMATS
from envguard.matrix.loader import Matrix
from envguard.render import FORMATS
from tests.documents import blocks_of, commands, holds, printed

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_readme_names_every_command(name: str) -> None:
    assert f"| `envguard {name}` |" in section("Commands")


@pytest.mark.parametrize("name", [*FORMATS, *LOCK_FORMATS])
def test_the_readme_names_every_format(name: str) -> None:
    assert f"`{name}`" in section("Formats")


@pytest.mark.parametrize("code", ExitCode)
def test_the_readme_names_every_exit_code(code: ExitCode) -> None:
    assert f"\n| {int(code)} | " in section("Exit codes")


def test_the_readme_names_no_code_that_is_none() -> None:
    known = {row.code for row in Matrix.load().causes.codes}
    assert set(re.findall(r"\b[A-Z]{3}[0-9]{3}\b", README)) <= known


def test_the_readme_names_every_family() -> None:
    rows = re.findall(r"^\| ([A-Z]{3}) \| (.*) \|$", section("Finding codes"), re.M)
    families = Matrix.load().causes.families
    assert rows == [(family.prefix, family.about) for family in families]


EXAMPLES = [pair for block in blocks_of(README, "console") for pair in commands(block)]


@pytest.mark.parametrize(
    ("words", "shown"), EXAMPLES, ids=[" ".join(words[:3]) for words, _ in EXAMPLES]
)
def test_the_examples_print_what_the_readme_shows(
    words: list[str],
    shown: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    lines = printed(words, capsys)
    assert holds(lines, shown), "\n".join(lines)


def test_an_example_that_is_wrong_is_seen() -> None:
    assert len(EXAMPLES) >= 2
    assert holds(["a", "b", "c"], ["a", "..."])
    assert holds(["a", "b", "c"], ["...", "b", "..."])
    assert not holds(["a", "b", "c"], ["a", "c", "..."])
    assert not holds(["a", "b"], ["a"])


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
LINES = re.findall(r"envguard ([a-z]+) ([^`\n]*(?:\\\n[^`\n]*)*)", README)


@pytest.mark.parametrize("command", sorted({name for name, _ in LINES} & set(COMMANDS)))
def test_the_readme_shows_no_option_that_is_none(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {
        option
        for name, words in LINES
        if name == command
        for option in OPTION.findall(words.partition(" -- ")[0])
    }
    helps = [printed(["envguard", command, "--help"], capsys)]
    if command == "matrix":
        subcommands = ("show", "verify", "update")
        helps += [printed(["envguard", command, name, "--help"], capsys) for name in subcommands]
    known = {word for lines in helps for line in lines for word in OPTION.findall(line)}
    assert shown - known == set()
