"""A torchrun: starts the ranks, waits for all, and sums up as the real one does."""

from __future__ import annotations

import os
import subprocess
import sys

from fake_faults import trip  # type: ignore[import-not-found]  # on the child's path


def _start(rank: int, count: int, words: list[str]) -> subprocess.Popen[bytes]:
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
    variables = {**os.environ, **numbers}
    # The real one too gives each rank a session of its own: who ends the group misses them.
    return subprocess.Popen([sys.executable, *words], env=variables, start_new_session=True)


def _summary(rank: int, status: int) -> str:
    return f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {status} (pid: 4711)\n"


def main() -> int:
    """Run ``--nproc_per_node=N SCRIPT ARGUMENTS``."""
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    (count,) = [int(word.partition("=")[2]) for word in options if "nproc" in word]
    trip("torchrun")
    ranks = [_start(rank, count, words) for rank in range(count)]
    failed = [(rank, code) for rank, code in enumerate(r.wait() for r in ranks) if code]
    if failed:
        sys.stderr.write("Root Cause (first observed failure):\n[0]:\n")
        sys.stderr.write("".join(_summary(rank, code) for rank, code in failed) + "=====\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
