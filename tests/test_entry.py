"""Before the program has begun: interrupts and failing imports are no verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAILS = [
    "check",
    "torch==2.7.1+cu128",
    "--gpu",
    "V100",
    "--driver",
    "570.26",
    "--platform",
    "linux-x86_64",
]
# As the console script does it: without the modules that `python -m` loads before us.
SCRIPT = "import sys; from envguard.__main__ import entry; sys.exit(entry())"


def run(
    *words: str, path: Path | None = None, python: tuple[str, ...] = ("-S",)
) -> subprocess.CompletedProcess[str]:
    """The program under a PYTHONPATH, whose modules the interpreter itself does not load."""
    folders = [str(path)] if path else []
    site = [entry for entry in sys.path if "site-packages" in entry]
    return subprocess.run(
        [sys.executable, *python, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*folders, str(ROOT), *site])},
    )


SHADOWED = ["typing", "re", "enum", "functools", "json", "dataclasses", "typer", "textwrap"]


@pytest.mark.parametrize("module", SHADOWED)
@pytest.mark.parametrize("body", ["raise ImportError('no')", "raise SystemExit(0)", "def f(:"])
def test_a_module_that_cannot_be_imported_is_no_verdict(
    tmp_path: Path, module: str, body: str
) -> None:
    (tmp_path / f"{module}.py").write_text(f"{body}\n")
    done = run(*FAILS, "--format", "json", path=tmp_path)
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["exit_code"] == 4
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("envguard: error: cannot run: ")
    assert f"{module}.py" in done.stderr
    assert "PYTHONPATH may shadow a module" in done.stderr


@pytest.mark.parametrize("module", SHADOWED)
def test_a_module_that_holds_nothing_of_what_it_should_is_no_verdict(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / f"{module}.py").touch()
    done = run(*FAILS, path=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("envguard: error: ")
    assert "Traceback" not in done.stderr


def test_a_module_that_ends_the_process_while_a_command_runs_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "shlex.py").write_text("raise SystemExit(0)\n")
    done = run(*FAILS, path=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "envguard: error: the command was ended from within: SystemExit(0)\n"


def test_the_entry_loads_nothing_before_its_guard_stands() -> None:
    """What is loaded then can neither be shadowed nor interrupted with a wrong status."""
    code = (
        "import sys; before = set(sys.modules); import envguard.__main__; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    loaded = set(done.stdout.strip("[]\n").replace("'", "").split(", "))
    # os and what it needs, which are frozen into the interpreter
    frozen = {"os", "stat", "posixpath", "genericpath", "os.path", "_collections_abc", "_stat"}
    frozen |= {"ntpath", "nt", "_winapi", "gc"}  # or built in
    own = {"envguard", "envguard.__main__", "envguard._version"}
    assert loaded - frozen - own == set()


INTERRUPTED = """
import os, sys
import envguard.__main__ as program
guarded = program._is_overlaid
def told():
    os.write(1, b'.')  # the guard stands
    return guarded()
program._is_overlaid = told
program.entry()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_at_any_time_ends_with_130_and_a_line() -> None:
    """Until the answer is out: then it may be the verdict's status, if the signal is too late."""
    ends = set()
    for number in range(25):
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, *FAILS],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."
        time.sleep(number * 0.012)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert b"Traceback" not in err
        ends.add((process.returncode, err, out.count(b"does not fit")))
    assert ends <= {
        (130, b"envguard: interrupted\n", 0),
        (130, b"envguard: interrupted\n", 1),
        (1, b"", 1),
        (-signal.SIGINT, b"", 1),  # the answer is out, and Python takes its handlers down
    }
    assert (130, b"envguard: interrupted\n", 0) in ends


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, "-c", INTERRUPTED, *FAILS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"")
    assert b"does not fit" in out
