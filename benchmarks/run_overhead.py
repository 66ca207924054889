"""Measures what `envguard run` costs: its own processor time beside that of the run it watches.

Usage: ``python benchmarks/run_overhead.py [--seconds 60] [--ranks 8]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

_START_S = 3
_RANK = """
import sys, time
number, seconds, lines = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
held = bytearray(b"1") * (64 * 2**20)
until = time.monotonic() + seconds
step = 0
while time.monotonic() < until:
    step += 1
    if number == 0:
        print("{'loss': %.4f, 'grad_norm': 1.0, 'learning_rate': 1e-05}" % (1 / step), flush=True)
    time.sleep(1 / lines)
"""
_LAUNCHER = """
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", sys.argv[1], str(n), *sys.argv[3:]],
                          env={**os.environ, "RANK": str(n)}) for n in range(int(sys.argv[2]))]
sys.exit(max(rank.wait() for rank in ranks))
"""


def main() -> None:
    """Print one line for each rate of output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--ranks", type=int, default=8)
    options = parser.parse_args()
    heads = (
        "lines/s",
        "ranks",
        "wall s",
        "start CPU s",
        "CPU s after",
        "share after",
        "record KiB",
    )
    print("".join(f"{head:>13}" for head in heads))
    for lines in (1, 20, 1000):
        measure(options.seconds, options.ranks, lines)


def measure(seconds: float, ranks: int, lines: int) -> None:
    """Run once and print the share of one processor that envguard itself took."""
    command = [sys.executable, "-c", _LAUNCHER, _RANK, str(ranks), str(seconds), str(lines)]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        watched = [sys.executable, "-m", "envguard", "run", "--no-probe", "--record", folder]
        with (
            subprocess.Popen([*watched, "-q", "--", *command], stdout=subprocess.PIPE) as child,
            subprocess.Popen(["cat"], stdin=child.stdout, stdout=subprocess.DEVNULL),
        ):
            start, own = _own_cpu_s(child)
        wall = time.monotonic() - begun
        files = (os.path.join(d, name) for d, _, names in os.walk(folder) for name in names)  # noqa: PTH118 - os.walk gives strings
        size = sum(os.path.getsize(path) for path in files)  # noqa: PTH202 - likewise
    cells = (lines, ranks, f"{wall:.1f}", f"{start:.2f}", f"{own:.2f}", f"{own / wall:.2%}")
    print("".join(f"{cell!s:>13}" for cell in (*cells, round(size / 1024))), flush=True)


def _own_cpu_s(child: subprocess.Popen[bytes]) -> tuple[float, float]:
    """The processor time of a process and its copies: in its first 3 s, and after.

    The copies search the output; what else it started is the run that it watches.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    spent = at_start = 0.0
    begun = time.monotonic()
    while child.poll() is None:
        try:
            spent = max(spent, sum(map(_ticks, (child.pid, *_copies(child.pid)))) / ticks)
            at_start = spent if time.monotonic() - begun < _START_S else at_start
        except (OSError, IndexError):
            break
        time.sleep(0.05)
    child.wait()
    return at_start, spent - at_start


def _ticks(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _copies(pid: int) -> list[int]:
    children = map(int, _read(pid, f"task/{pid}/children").split())
    return [child for child in children if _read(child, "cmdline") == _read(pid, "cmdline")]


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - procfs
        return file.read()


if __name__ == "__main__":
    main()
