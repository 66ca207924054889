"""No pattern is made to work for minutes: near misses of every signature, in a child with a limit.

The limit is for hangs; a pattern that went quadratic or worse on these texts would need hours.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 240
_PATTERNS = """
from envguard.crash.scan import search_patterns_of
from envguard.matrix.loader import Matrix

FILLS = ["a", "A", " ", "\\t", "1", ".", "-", "_", "/", "a ", "1 ", '"', "'", "(", "[", "Aa.",
         "a.b", "A1_", ", ", ": ", "=", "0x", "::", "\\u00fc", "[1] ", "a=1,", "(a) "]
count = 0
for mark in search_patterns_of(Matrix.load()):
    for literal in mark.literals:
        for fill in FILLS:
            word = literal.decode()
            for text in ((fill * 20_000)[:20_000] + word, word + (fill * 20_000)[:20_000]):
                mark.pattern.search(text)
                count += 1
print(count)
"""
_LINES = """
import io
from envguard.crash.scan import scan_stream
from envguard.matrix.loader import Matrix

matrix = Matrix.load()
near = [literal.encode() for row in matrix.causes.signatures for literal in row.literals]
line = b" ".join(near) + b"\\n"
data = b"".join(b"%d" % n + line for n in range(150)) + b"\\x1b[" * 200_000 + b"\\r" * 300_000
print(scan_stream(io.BytesIO(data), matrix, "x").lines)
"""


def run_limited(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout.strip()


def test_patterns_end_on_long_near_misses(tmp_path: Path) -> None:
    assert int(run_limited(_PATTERNS, tmp_path)) > 10_000


def test_a_log_of_nothing_but_near_misses_is_read(tmp_path: Path) -> None:
    assert run_limited(_LINES, tmp_path) == "151"


@pytest.mark.parametrize("size", [1, 3_000_000])
def test_rows_of_a_task_table_that_never_end_are_read(tmp_path: Path, size: int) -> None:
    code = (
        "import io\n"
        "from envguard.crash.scan import scan_stream\n"
        "from envguard.matrix.loader import Matrix\n"
        f"data = b'oom-kill: ' + b'[ 1] ' + b'1 ' * {size} + b'\\n'\n"
        "print(len(scan_stream(io.BytesIO(data), Matrix.load(), 'x').tasks))\n"
    )
    assert run_limited(code, tmp_path) == "0"
