"""Measures `envguard diagnose` on large logs: time, throughput and peak memory.

Usage: ``python benchmarks/diagnose.py [--gib 1.0]``; every log is written, read once, and removed.
What a log of 45 lines costs is measured by ``benchmarks/start_up.py``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_END = (
    b"[2026-11-29 14:28:51,456] [ERROR] [launch.py:259:sigkill_handler] "
    b"exits with return code = -9\n"
)
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


KINDS: dict[str, Callable[[int], bytes]] = {
    "training log": _training,
    "progress bars": _progress_bars,
    "one endless line": _endless_line,
    "one error repeated": _errors,
    "random bytes": _rubbish,
    "near misses": _near_misses,
}


def main() -> None:
    """Print one line for each kind of log."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0)
    options = parser.parse_args()
    print(f"{'log':<22}{'GiB':>6}{'seconds':>9}{'MB/s':>7}{'peak MiB':>10}  verdict")
    for name, make in KINDS.items():
        with tempfile.TemporaryDirectory() as folder:
            _measure(name, make, options.gib, Path(folder) / "train.log")


def _measure(name: str, make: Callable[[int], bytes], gib: float, path: Path) -> None:
    size = int(gib * 2**30)
    piece = make(min(size, 2**26))
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(piece)
        file.write(b"\n" + _END)
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "envguard", "diagnose", str(path), "--format", "json"],
        stdout=subprocess.PIPE,
        check=False,
    )
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    verdict = json.loads(done.stdout)["verdict"]
    rate = size / 1e6 / seconds
    print(f"{name:<22}{gib:>6.2f}{seconds:>9.1f}{rate:>7.0f}{peak:>10.0f}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
