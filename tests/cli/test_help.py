"""``--help`` of every command: that it is there under both names, and says no more than helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard import __version__
from envguard.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_short_name_and_flags_no_type(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "-h"]) == 0
    short = capsys.readouterr().out
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out == short
    assert f"Usage: envguard {name}" in short
    assert "bool" not in short


def test_the_program_itself_says_what_it_can_and_which_one_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-h"]) == 0
    said = capsys.readouterr().out
    assert all(f" {name} " in said for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"envguard {__version__}\n"


def test_what_stands_behind_a_command_to_run_is_the_commands_own(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["run", "--no-probe", "--record", str(tmp_path), "--", "echo", "-h"]
    assert main(words) == 0
    assert capfd.readouterr().out == "-h\n"
