"""Job control at a real terminal: a shell in a pseudo-terminal runs ``envguard run``."""

from __future__ import annotations

import os
import select
import shlex
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="uses a Linux pseudo-terminal")

CHILD = """
import os, signal, sys, time
def size(*_):
    print("size", os.get_terminal_size(1).columns, flush=True)
signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGCONT, lambda *_: print("goes on", flush=True))
print("tty", *map(os.isatty, (0, 1, 2)), os.get_terminal_size(1).columns, flush=True)
print("front", os.tcgetpgrp(0) == os.getpgrp(), flush=True)
try:
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""
LONG_S = 60


class Shell:
    """An interactive shell in a pseudo-terminal."""

    def __init__(self, folder: Path) -> None:
        import pty

        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update({"PS1": "", "TERM": "dumb", "HISTFILE": ""})
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])  # noqa: S606 - it is one
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self.handle, text.encode())

    def resize(self, columns: int) -> None:
        import fcntl
        import termios

        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def wait_for(self, words: str) -> None:
        """Read until the words come; what was read before them is consumed."""
        until = time.monotonic() + LONG_S
        while words not in self.text:
            if time.monotonic() > until:
                pytest.fail(f"{words!r} never came; there was {self.text!r}")
            if select.select([self.handle], [], [], 0.1)[0]:
                self.text += os.read(self.handle, 65536).decode("utf-8", "replace")
        self.text = self.text.partition(words)[2]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    if not Path("/bin/bash").exists():
        pytest.skip("no bash")
    started = Shell(tmp_path)
    yield started
    os.close(started.handle)
    os.waitpid(started.pid, 0)


def test_the_child_has_the_terminal_its_size_ctrl_z_fg_and_ctrl_c(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    shell.resize(101)
    command = [sys.executable, "-m", "envguard", "run", "--no-probe", "-q", "--"]
    shell.type(shlex.join([*command, sys.executable, "child.py"]) + "; echo status=$?\n")
    shell.wait_for("tty True True True 101")
    shell.wait_for("front True")
    shell.resize(77)
    shell.wait_for("size 77")
    shell.type("\x1a")
    shell.wait_for("Stopped")
    shell.wait_for("status=148")
    shell.type("fg; echo after=$?\n")
    shell.wait_for("goes on")
    shell.type("\x03")
    shell.wait_for("interrupted")
    shell.wait_for("after=7")
    shell.type("exit\n")
