"""``[tool.envguard]``: what it may hold, and how a mistake in it is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from envguard.cli.defaults import Option, read_defaults
from envguard.cli.main import main
from envguard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = (
    Option("from", "source", str),
    Option("gpu", "gpu", str, is_repeatable=True),
    Option("deep", "deep", bool),
    Option("no-deep", "deep", bool, is_negative=True),
    Option("fail-on", "fail_on", str, choices=("warn", "fail")),
    Option("timeout", "timeout", float),
)
EVERYONES = {"check": frozenset({"from", "gpu"}), "plan": frozenset({"params"})}
PINNED = ["check", "torch==2.7.1+cu126", "--platform", "linux-x86_64"]


def values(folder: Path, text: str) -> dict[str, object]:
    (folder / "pyproject.toml").write_text(text)
    return dict(read_defaults("check", OPTIONS, lambda: EVERYONES, folder).values)


def test_keys_are_the_names_of_long_options(tmp_path: Path) -> None:
    text = "[tool.envguard]\nfrom = 'a.json'\nno-deep = true\nfail_on = 'warn'\ntimeout = 5\n"
    assert values(tmp_path, text) == {
        "source": "a.json",
        "deep": False,
        "fail_on": "warn",
        "timeout": 5,
    }


def test_one_value_of_a_repeatable_option_needs_no_list(tmp_path: Path) -> None:
    assert values(tmp_path, "[tool.envguard]\ngpu = 'V100'\n") == {"gpu": ["V100"]}


def test_table_of_the_command_goes_before_the_general_one(tmp_path: Path) -> None:
    text = "[tool.envguard]\nfrom = 'a'\n[tool.envguard.check]\nfrom = 'b'\n"
    assert values(tmp_path, text) == {"source": "b"}


def test_options_of_other_commands_are_passed_over(tmp_path: Path) -> None:
    text = "[tool.envguard]\nparams = '7B'\n[tool.envguard.plan]\nanything = 1\n"
    assert values(tmp_path, text) == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("nonsense = 1", "tool.envguard.nonsense: no command has an option --nonsense"),
        ("check.params = 'x'", "tool.envguard.check.params: check has no option --params"),
        ("check = 3", "tool.envguard.check is not a table"),
        ("chekc.gpu = 'x'", "tool.envguard.chekc is a table, and no command is named chekc"),
        ("from = 535.10", "tool.envguard.from: expected a string, found a number"),
        ("from = 2020-01-01", "tool.envguard.from: expected a string, found a date or time"),
        ("gpu = ['V100', 2]", "tool.envguard.gpu: expected a list of strings, found a list"),
        ("deep = 'yes'", "tool.envguard.deep: expected a boolean, found a string"),
        ("timeout = true", "tool.envguard.timeout: expected a number, found a boolean"),
        ("fail-on = 'never'", "tool.envguard.fail-on: 'never' is none of warn, fail"),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        values(tmp_path, f"[tool.envguard]\n{body}\n")
    assert caught.value.message == f"{tmp_path / 'pyproject.toml'}: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tool = 3 # envguard", ""),
        ("[tool]\nenvguard = []", "tool.envguard is not a table"),
        ("[tool.envguard", "not valid TOML: "),
        ("[tool.envguard]\nx = " + "[" * 20_000, "not valid TOML: nested too deeply"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, said: str) -> None:
    if not said:
        assert values(tmp_path, text) == {}
        return
    with pytest.raises(InputError, match=said):
        values(tmp_path, text)


def test_value_from_the_file_is_told_from_a_typed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.envguard]\ndriver = 'soon'\n")
    monkeypatch.chdir(tmp_path)
    assert main(PINNED) == 2
    err = capsys.readouterr().err
    assert "--driver: 'soon' is not a driver version" in err
    assert f"driver stands in [tool.envguard] of {tmp_path / 'pyproject.toml'}" in err
    assert main([*PINNED, "--driver", "later"]) == 2
    assert "stands in" not in capsys.readouterr().err


def test_options_of_every_command_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "[tool.envguard]\nparams = '7B'\nfail-on = 'warn'\n[tool.envguard.smoke]\ntimeout = 9\n"
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    words = [*PINNED, "--gpu", "V100", "--driver", "550.54.14", "--format", "json"]
    assert main(words) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "warn"
