"""A child that the kernel kills when its parent dies, however that dies (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
CAN_DIE_WITH_PARENT = sys.platform.startswith("linux")


def mortal_child() -> Callable[[], None]:
    """What a child has to do between fork and exec to die with this process.

    Only the child itself is bound: what it starts must bind itself, or end when its launcher does.

    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before it was asked for
            os.kill(os.getpid(), signal.SIGKILL)

    return bind
