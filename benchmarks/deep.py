"""What reading the compiled files of an environment costs, beside ``import torch``.

Usage: ``python -m benchmarks.deep PYTHON [RUNS]`` with an interpreter that has torch and some
sixty more distributions. The second part doubles the bytes of one library and compares.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.side_by_side import print_ratio, print_timings, time_in_turn
from envguard.binary.compiled import read_compiled
from envguard.binary.source import FileSource

_BUDGET = 1 / 4
_READ = """\
import os, sys
from pathlib import Path
from envguard.binary.environment import read_environment
site, torch, cache = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
read_environment((site,), torch, dict(os.environ), Path(cache) if cache else None)
"""
_PIECES = 500


def main(python: str, runs: int) -> int:
    """Run both parts."""
    torch = Path(_ask(python, "import torch; print(torch.__path__[0])"))
    site = str(torch.parent)
    count = len(list(torch.parent.glob("*.dist-info")))
    print(f"{site}: {count} distributions")
    with tempfile.TemporaryDirectory() as cache:
        read = [sys.executable, "-c", _READ, site, str(torch)]
        timings = time_in_turn(
            {
                "import torch": [python, "-W", "ignore", "-c", "import torch"],
                "start of python": [sys.executable, "-c", "import envguard.facts.facts"],
                "first reading": [*read, ""],
                "reading again": [*read, cache],
            },
            runs=runs,
            warmup=2,
        )
    print_timings(timings)
    kept = print_ratio(timings, "first reading", "import torch", _BUDGET)
    kept &= print_ratio(timings, "reading again", "import torch", _BUDGET)
    _compare_sizes()
    return 0 if kept else 1


def _ask(python: str, code: str) -> str:
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _compare_sizes() -> None:
    """The time for one library, and for the same with twice the code in each piece."""
    with tempfile.TemporaryDirectory() as folder:
        for size in (100_000, 200_000):
            path = Path(folder) / "x.fatbin"
            path.write_bytes(_fatbin(size))
            seconds = min(_read_once(str(path)) for _ in range(20))
            print(
                f"{_PIECES} pieces of {size} bytes ({path.stat().st_size / 1e6:.0f} MB): "
                f"{seconds * 1e3:.2f} ms"
            )


def _fatbin(size: int) -> bytes:
    head = struct.pack("<HHIQIIHHIIIQ", 2, 0x101, 64, size, 0, 0, 8, 1, 80, 0, 0, 0x11)
    body = (head.ljust(64, b"\0") + bytes(size)) * _PIECES
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def _read_once(path: str) -> float:
    started = time.perf_counter()
    with FileSource(path) as source:
        found = read_compiled(source, path)
    assert found.cubin is not None  # noqa: S101 - a benchmark of a failure would measure nothing
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7))
