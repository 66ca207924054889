"""Starts a command as a shell would, and tells why it cannot be started."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from envguard.crash.streams import Stream

_PR_SET_PDEATHSIG = 1
CAN_DIE_WITH_PARENT = sys.platform.startswith("linux")
# No more processes, handles, memory: of the system or of what this process may have.
_NO_ROOM = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


class NoRoomError(Exception):
    """There is no process, handle or memory left to run a command beside this process."""


def start(
    command: Sequence[str],
    streams: Sequence[Stream],
    environ: Mapping[str, str],
    *,
    dies_with_us: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own.

    A script without ``#!`` is run by the shell, as ``execvp`` and so nohup, env and timeout do.

    Raises:
        OSError: The system does not start it.
    """
    try:
        return _popen(command, streams, environ, dies_with_us=dies_with_us)
    except OSError as err:
        if err.errno != errno.ENOEXEC:
            raise
        script = with_shell(command, environ)
        return _popen(script, streams, environ, dies_with_us=dies_with_us)


def with_shell(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command as one of the shell, which is given the script that ``PATH`` leads to."""
    found = shutil.which(command[0], path=environ.get("PATH"))
    return ["/bin/sh", found or command[0], *command[1:]]


def _popen(
    command: Sequence[str],
    streams: Sequence[Stream],
    environ: Mapping[str, str],
    *,
    dies_with_us: bool,
) -> subprocess.Popen[bytes]:
    out, err = streams
    return subprocess.Popen(
        list(command),
        stdout=None if out.child == 1 else out.child,
        stderr=None if err.child == 2 else err.child,
        env=dict(environ),
        process_group=0,
        restore_signals=True,
        preexec_fn=_mortal_child() if dies_with_us else None,
    )


def close_ends(streams: Sequence[Stream]) -> None:
    """The child has its ends of the streams, or there is no child."""
    for number in {s.child for s in streams if s.child > 2}:
        os.close(number)


def _mortal_child() -> Callable[[], None]:
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


def status_of_refusal(err: OSError) -> int:
    """What a shell says of a command that the system does not start.

    Raises:
        NoRoomError: That is not the command's fault.
    """
    if err.errno in _NO_ROOM:
        raise NoRoomError(err.strerror or str(err)) from err
    return 127 if isinstance(err, FileNotFoundError) else 126
