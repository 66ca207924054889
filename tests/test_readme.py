"""The README names every command, format, exit code and finding code, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envguard.cli.main import COMMANDS
from envguard.errors import ExitCode
from envguard.lock import FORMATS as LOCK_FORMATS
from envguard.matrix.loader import Matrix
from envguard.render import FORMATS

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


def test_the_readme_names_every_finding_code_and_no_other() -> None:
    named = re.findall(r"\b[A-Z]{3}[0-9]{3}\b", section("Finding codes"))
    assert named == [row.code for row in Matrix.load().causes.codes]


def test_the_readme_names_every_family() -> None:
    text = section("Finding codes")
    for family in Matrix.load().causes.families:
        assert f"\n| {family.prefix} | {family.about} | {family.prefix}" in text
