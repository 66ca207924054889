"""Measures `envguard diagnose` on large logs: processor time a MB, and memory above the start.

Usage: ``python benchmarks/diagnose.py [--mb 300] [--only KIND]``; every log is written, read once,
and removed. The budget of a log of 300 MB is 12 ms of processor time a MB and 64 MiB above what an
empty log takes; processor time bears other work on the machine, whose load is printed. What a log
of 45 lines costs is measured by ``benchmarks/start_up.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_END = (
    b"[2026-11-29 14:28:51,456] [ERROR] [launch.py:259:sigkill_handler] "
    b"exits with return code = -9\n"
)
# Of the budget: milliseconds of processor time a MB, and MiB above an empty log.
_MOST_MS, _MOST_MIB = 12.0, 64.0
_STEP = (
    b"{'loss': 0.4321, 'grad_norm': 1.234, 'learning_rate': 1.9e-05, 'epoch': 0.12}\n"
    b" 12%|####      | 123/1000 [12:34<1:23:45,  5.67s/it]\r"
    b"[2026-11-29 14:28:51,442] [INFO] [logging.py:128:log_dist] [Rank 0] step=10, skipped=0\n"
)


def _training(size: int) -> bytes:
    return _STEP * (size // len(_STEP))


def _progress_bars(size: int) -> bytes:
    bar = b"\x1b[32m 12%|####      | 123/1000 [12:34<1:23:45,  5.67s/it]\x1b[0m\r"
    return bar * (size // len(bar))


def _endless_line(size: int) -> bytes:
    return b"x" * size


def _errors(size: int) -> bytes:
    line = b"[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    return line * (size // len(line))


def _rubbish(size: int) -> bytes:
    import random

    return random.Random(7).randbytes(size)  # noqa: S311 - rubbish, not a secret


def _near_misses(size: int) -> bytes:
    """Lines that hold a signature's words and nearly match it, to make patterns work hard."""
    line = b"a" * 1500 + b": segfault at 0 Memory cgroup out of memory: Kill " + b"b" * 1500 + b"\n"
    return line * (size // len(line))


def _build_output(size: int) -> bytes:
    """What compilers of many files print, in the wrappers of ninja, pip and a CI."""
    line = (
        b"2026-11-29T10:11:12.1234567Z #12 %d.51       [%d/950] nvcc -gencode=arch=compute_80,"
        b"code=sm_80 -c csrc/kernel_%d.cu -o kernel_%d.o\n"
        b"2026-11-29T10:11:12.1234567Z #12 %d.51       csrc/kernel_%d.cu(%d): warning #177-D: "
        b'variable "n_%s" was declared but never referenced\n'
    )
    lines = [
        line % (n, n, n, n, n, n, n, str(n).translate(_LETTERS).encode()) for n in range(40_000)
    ]
    piece = b"".join(lines)
    return piece * max(1, size // len(piece))


_LETTERS = str.maketrans("0123456789", "abcdefghij")

KINDS: dict[str, Callable[[int], bytes]] = {
    "training log": _training,
    "progress bars": _progress_bars,
    "one endless line": _endless_line,
    "one error repeated": _errors,
    "random bytes": _rubbish,
    "near misses": _near_misses,
    "build output": _build_output,
}


def main() -> None:
    """Print one line for each kind of log.

    Exits with status 1 where a log of 300 MB or more is above the budget.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mb", type=float, default=300.0)
    parser.add_argument("--only", choices=sorted(KINDS), help="one kind of log")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"{'log':<22}{'MB':>6}{'s':>8}{'ms/MB':>8}{'MiB above':>11}  verdict")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        path.write_bytes(b"\n")
        start = _measure(path)
        kept = [
            _one(name, options.mb, path, start) for name in KINDS if options.only in {None, name}
        ]
    if options.mb >= 300 and not all(kept):
        raise SystemExit(1)


@dataclass(frozen=True)
class _Run:
    """One run of the command: seconds of processor time, MiB of peak memory, and what it said."""

    cpu_s: float
    peak_mib: float
    verdict: str


def _one(name: str, size_mb: float, path: Path, start: _Run) -> bool:
    """Measure a kind of log; whether it stays inside the budget."""
    _write(KINDS[name], size_mb, path)
    run = _measure(path)
    cost, above = (run.cpu_s - start.cpu_s) * 1000 / size_mb, run.peak_mib - start.peak_mib
    print(
        f"{name:<22}{size_mb:>6.0f}{run.cpu_s:>8.1f}{cost:>8.1f}{above:>11.0f}  {run.verdict}",
        flush=True,
    )
    return cost <= _MOST_MS and above <= _MOST_MIB


def _write(make: Callable[[int], bytes], size_mb: float, path: Path) -> None:
    size = int(size_mb * 1e6)
    piece = make(min(size, 2**26))
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(piece)
        file.write(b"\n" + _END)


def _measure(path: Path) -> _Run:
    """Run the command on a log; the child's own figures, not those of all children."""
    command = [sys.executable, "-m", "envguard", "diagnose", str(path), "--format", "json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    said = child.stdout.read() if child.stdout is not None else b""
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return _Run(
        usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, json.loads(said)["verdict"]
    )


if __name__ == "__main__":
    main()
