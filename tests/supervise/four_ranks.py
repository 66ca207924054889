"""Four ranks that hold a state and clone it when they save, as ZeRO-2 does; a launcher above.

Arguments: MiB of each rank's state, and ``all`` or ``zero``: who clones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import envguard

RANKS = 4


def rank(number: int, size: int, clones: bool) -> None:
    state = b"\x01" * (size * 2**20)  # zeros would not be resident
    sys.stdout.write(f"{{'loss': 0.5, 'grad_norm': 1.0, 'rank': {number}}}\n")
    sys.stdout.flush()
    wait_for_all("ready", number)
    time.sleep(1.0)
    envguard.phase("save")
    time.sleep(0.3)
    copy = bytearray(state) if clones else b""
    wait_for_all("cloned", number)
    time.sleep(1.0)
    sys.exit(0 if len(copy) in {0, len(state)} else 5)


def wait_for_all(what: str, number: int) -> None:
    """Go on when every rank has come this far."""
    Path(f"{what}-{number}").touch()
    while not all(Path(f"{what}-{other}").exists() for other in range(RANKS)):
        time.sleep(0.02)


def launch(size: str, who: str) -> int:
    """Start the ranks; stop them all when one dies, and end as that one did."""
    started = [
        subprocess.Popen(
            [sys.executable, __file__, size, who],
            env={**os.environ, "RANK": str(number), "WORLD_SIZE": str(RANKS)},
        )
        for number in range(RANKS)
    ]
    while None in [child.poll() for child in started]:
        dead = [child.returncode for child in started if child.returncode]
        if dead:
            for child in started:
                child.kill()
                child.wait()
            return 128 - dead[0] if dead[0] < 0 else dead[0]
        time.sleep(0.02)
    return max(int(child.returncode or 0) for child in started)


if __name__ == "__main__":
    mine = os.environ.get("RANK")
    if mine is None:
        sys.exit(launch(sys.argv[1], sys.argv[2]))
    rank(int(mine), int(sys.argv[1]), sys.argv[2] == "all" or mine == "0")
