"""Reads the frames out of what ``faulthandler`` writes when a process crashes or hangs."""

from __future__ import annotations

import re

_PYTHON_FRAME = re.compile(r'  File "(.{1,1000})", line ([0-9?]{1,9}) in (.{1,200})')
_NATIVE_FRAME = re.compile(r'  Binary file "(.{1,1000})", at (.{1,500})')
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.{0,80} \(most recent call first\):")
_MAX_FRAMES = 12
# The handler that writes the dump stands above the place of the crash.
_HANDLER_FRAMES = ("_Py_DumpStack", "faulthandler_", "_PyFaulthandler", "__restore_rt")


def parse_faulthandler(text: str) -> tuple[str, ...]:
    """The stack of the thread that crashed or hangs, innermost frame first.

    Native frames (Python 3.14 prints them) come before Python's own. Not the whole
    text: other threads are left out.

    Args:
        text: Whatever was written to faulthandler's file, or a stderr that holds it.

    Returns:
        ``path:line in function`` and ``library at symbol``; empty when there is no dump.
    """
    native = [
        f"{m[1]} at {m[2]}"
        for m in _NATIVE_FRAME.finditer(text)
        if not m[2].startswith(_HANDLER_FRAMES)
    ]
    return (*native[:_MAX_FRAMES], *_python_frames(text)[:_MAX_FRAMES])


def _python_frames(text: str) -> list[str]:
    sections: list[tuple[bool, list[str]]] = []
    for line in text.splitlines():
        thread = _THREAD.fullmatch(line)
        if thread:
            sections.append((thread[1] == "Current thread", []))
        frame = _PYTHON_FRAME.fullmatch(line)
        if frame and sections:
            sections[-1][1].append(f"{frame[1]}:{frame[2]} in {frame[3]}")
    current = [frames for is_current, frames in sections if is_current]
    # A dump of all threads (a hang) lists the main thread last.
    return current[-1] if current else sections[-1][1] if sections else []


def is_timeout_dump(text: str) -> bool:
    """Whether ``dump_traceback_later`` ended the process because its time was over."""
    return text.startswith("Timeout (") or "\nTimeout (" in text
