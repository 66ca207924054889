"""What people see while they wait."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")

CODE = """
import sys, time
from envguard.cli.out import waiting
with waiting(is_wanted={wanted}) as say:
    say("trying torch [2.8.0]")
    time.sleep({seconds})
    say("trying torch 2.7.1")
    time.sleep(0.3)
print("loaded", "rich.console" in sys.modules)
"""


def on_terminal(seconds: float, *, wanted: bool = True) -> tuple[str, str]:
    """What a terminal on standard error shows, and standard output."""
    import pty

    reader, writer = pty.openpty()
    code = CODE.format(seconds=seconds, wanted=wanted)
    environ = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=writer, stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        os.close(writer)
        shown = bytearray()
        while part := _read(reader):
            shown += part
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(reader)
    return shown.decode(), out


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 4096)
    except OSError:  # Linux says so when the other end is closed
        return b""


def test_long_wait_shows_what_is_being_done() -> None:
    shown, _ = on_terminal(3)
    assert "trying torch [2.8.0]" in shown
    assert "trying torch 2.7.1" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # and the line is wiped away


def test_short_wait_shows_nothing_and_loads_nothing() -> None:
    shown, out = on_terminal(0.1)
    assert (shown, out) == ("", "loaded False\n")


def test_quiet_shows_nothing() -> None:
    assert on_terminal(1.5, wanted=False)[0] == ""


def test_file_as_standard_error_gets_a_word_after_some_seconds() -> None:
    code = CODE.format(seconds=1.5, wanted=True).replace("=True", "=True, first_s=0.5, next_s=0.5")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "envguard: still waiting: trying torch [2.8.0]\n" in done.stderr
    assert done.stdout == "loaded False\n"


def test_quiet_file_gets_no_word() -> None:
    code = CODE.format(seconds=1.0, wanted=False)
    code = code.replace("=False", "=False, first_s=0.3, next_s=0.3")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_file_as_standard_error_shows_nothing_at_first() -> None:
    code = CODE.format(seconds=1.3, wanted=True)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stderr, done.stdout) == ("", "loaded False\n")
