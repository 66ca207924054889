"""``envguard.phase``: a training script tells what it is doing, if ``envguard run`` listens."""

from __future__ import annotations

import json
import os
import time

VARIABLE = "ENVGUARD_PHASE_FILE"


def phase(name: str) -> None:
    """Say what the program is doing from now on, for example ``envguard.phase("save")``.

    Costs one short write under ``envguard run`` and nothing elsewhere. It never raises: a
    training run must not die of its log.

    Args:
        name: import, init, load, train, save, resume or shutdown; other names are kept as they are.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or ""
    line = json.dumps({"t": time.time(), "pid": os.getpid(), "rank": rank, "phase": str(name)[:64]})
    try:
        # One write of a short line to a file opened for appending does not mix with other ranks'.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode() + b"\n")
        finally:
            os.close(handle)
    except OSError:
        return
