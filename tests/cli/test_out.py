"""The program's streams: full, closed, of a small alphabet, and what it says when it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from envguard.cli.main import main

SCHEMA = json.loads(files("envguard.render").joinpath("report.schema.json").read_text())
MACHINE = ["--gpu", "V100", "--driver", "570.26", "--platform", "linux-x86_64"]
FAILS = ["check", "torch==2.7.1+cu128", *MACHINE]
FITS = ["check", "torch==2.7.1+cu126", *MACHINE]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells and devices")


def run(
    words: list[str], redirect: str = "", encoding: str = "utf-8", **variables: str
) -> subprocess.CompletedProcess[str]:
    """The program in a shell, its streams redirected."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **variables}
    line = f'"$0" -m envguard "$@" {redirect}'
    return subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, *words],
        capture_output=True,
        encoding=encoding,
        env=environ,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@POSIX
@pytest.mark.parametrize("form", ["text", "json"])
def test_full_disk_is_an_error_of_one_line(form: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    done = run([*FITS, "--format", form], ">/dev/full")
    assert done.returncode == 2
    assert done.stderr == (
        "envguard: error: standard output: cannot be written: no space left on device\n"
    )


@POSIX
@pytest.mark.parametrize(("words", "code"), [(FITS, 0), (FAILS, 1)])
def test_reader_who_goes_away_does_not_change_the_exit_code(words: list[str], code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "envguard", *words],
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (code, b"")


@POSIX
def test_closed_streams() -> None:
    assert run(FAILS, ">&-").returncode == 1
    done = run(["check", "--from", "-"], "<&-")
    assert done.returncode == 2
    assert "standard input: cannot be read: it is closed" in done.stderr


@POSIX
def test_working_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f'rmdir "{gone}" && "$0" -m envguard "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, *FITS],
        capture_output=True,
        text=True,
        cwd=gone,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@POSIX
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_json_in_every_encoding(encoding: str) -> None:
    words = [*FITS, "--compute-capability", "7.0", "--format", "json"]
    words[words.index("V100")] = "Zoé 日本 \U0001f600"
    done = run(words, encoding=encoding, PYTHONIOENCODING=f"{encoding}:strict", PYTHONUTF8="0")
    assert done.returncode == 0
    name = json.loads(done.stdout)["facts"]["machine"]["gpus"][0]["name"]
    assert name.isprintable()
    assert name.startswith("Zo")


def test_text_is_as_wide_as_the_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main(FAILS)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if "$ " not in line) <= 60


@pytest.mark.parametrize(
    "words",
    [
        ["check", "torch==2.7.1+cu128", "--driver", "x"],
        ["check", "torch>=2", *MACHINE],
        ["check", "--bogus"],
        ["bogus"],
    ],
)
def test_errors_are_one_document_of_the_schema(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--format", "json"]) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    assert document["error"]["exit_code"] == 2
    assert document["error"]["message"] in err


def test_schema_takes_no_answer_with_an_error_and_nothing_without_both() -> None:
    tool = {"schema_version": 1, "tool": {"name": "envguard", "version": "1"}}
    error = {"message": "m", "hint": "", "exit_code": 2}
    for wrong in (tool, {**tool, "error": error, "verdict": "ok"}, {**tool, "error": "m"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_json_for_another_program_is_not_asked_of_this_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", *MACHINE, "torch>=2", "--", "--format", "json"]) == 2
    assert capsys.readouterr().out == ""


def test_long_values_are_cut_and_control_characters_replaced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "--from", "\x1b[31m" + "n" * 3000]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert len(err) < 700
    assert "cannot be read" in err


@pytest.mark.parametrize("text", ["", "EXACT", "bogus"])
def test_grades_that_do_not_exist_are_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FITS, "--driver-fit", text]) == 2
    assert f"--driver-fit: {text!r} is none of exact, same-major" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "2", "musl", "2.31-0ubuntu9", "9" * 5000])
def test_c_libraries_that_have_no_version(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FITS, "--glibc", text]) == 2
    assert "is not a glibc version such as 2.31" in capsys.readouterr().err


def test_build_that_is_not_judged_is_said_to_be_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "torch==2.9.0+rocm6.4", "--platform", "linux-x86_64"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("envguard check: not judged\n")
    assert "WHL003 torch 2.9.0+rocm6.4 is a build for AMD GPUs (ROCm)" in out


@pytest.mark.parametrize(
    "words", [["--driver", "x"], ["torch>=2"], ["--bogus"], ["--format", "json"]]
)
def test_wrong_usage_is_unknown_to_a_monitor(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words, "--gpu", "V100", "--nagios"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("ENVGUARD UNKNOWN - ")
    assert out.count("\n") == 1


def test_options_of_two_machines_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = str(tmp_path / "facts.json")
    assert main(["check", "--from", facts, "--machine", facts]) == 2
    assert "--from and --machine exclude each other" in capsys.readouterr().err
    assert main(["check", "--python", sys.executable, "--gpu", "V100"]) == 2
    assert "--python names an interpreter of this machine" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "smoke"])
def test_tables_that_a_person_brought_are_wrong_usage(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--stages", "import"] if command == "smoke" else FITS[1:]
    assert main([command, *words, "--matrix", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "manifest.toml: cannot be read" in err
    assert "hint: the tables are those of the folder that --matrix names" in err
