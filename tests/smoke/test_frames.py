"""Frames are read out of what faulthandler really writes."""

from __future__ import annotations

from envguard.smoke.smoke_run import is_timeout_dump, parse_faulthandler

# Python 3.11, a crash in the main thread beside one more thread.
CRASH = """\
Fatal Python error: Segmentation fault

Thread 0x00007f5e5d3ff6c0 (most recent call first):
  File "/lib/python3.11/threading.py", line 324 in wait
  File "/lib/python3.11/threading.py", line 995 in _bootstrap

Current thread 0x00007f5e60a5e740 (most recent call first):
  File "/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/srv/train step/model.py", line 12 in backward
  File "/srv/run.py", line 3 in <module>

Extension modules: numpy.core._multiarray_umath (total: 1)
"""
# Python 3.14 adds the C stack.
CRASH_WITH_C_STACK = """\
Fatal Python error: Segmentation fault

Current thread 0x00007fb0f2a4b740 [python3] (most recent call first):
  File "/lib/python3.14/ctypes/__init__.py", line 524 in string_at
  File "<string>", line 1 in <module>

Current thread's C stack trace (most recent call first):
  Binary file "/usr/lib/libpython3.14.so.1.0", at _Py_DumpStack+0x4e [0x7fb0f2f0a5ce]
  Binary file "/usr/lib/libpython3.14.so.1.0", at +0x31d0a2 [0x7fb0f2f1d0a2]
  Binary file "/srv/torch/lib/libtorch_cpu.so", at _ZN2at4_ops+0x18 [0x7fb0e0a5a1b8]
  <truncated rest of calls>
"""
HANG = """\
Timeout (0:00:01)!
Thread 0x00007f22d5bff6c0 (most recent call first):
  File "/lib/python3.11/threading.py", line 324 in wait

Thread 0x00007f22d9a1e740 (most recent call first):
  File "/srv/model.py", line 7 in forward
  File "/srv/run.py", line 3 in <module>
"""


def test_the_crashed_threads_frames_come_innermost_first() -> None:
    assert parse_faulthandler(CRASH) == (
        "/lib/python3.11/ctypes/__init__.py:519 in string_at",
        "/srv/train step/model.py:12 in backward",
        "/srv/run.py:3 in <module>",
    )


def test_native_frames_come_before_pythons_and_without_the_handler() -> None:
    assert parse_faulthandler(CRASH_WITH_C_STACK) == (
        "/usr/lib/libpython3.14.so.1.0 at +0x31d0a2 [0x7fb0f2f1d0a2]",
        "/srv/torch/lib/libtorch_cpu.so at _ZN2at4_ops+0x18 [0x7fb0e0a5a1b8]",
        "/lib/python3.14/ctypes/__init__.py:524 in string_at",
        "<string>:1 in <module>",
    )


def test_of_a_hang_the_main_thread_counts() -> None:
    assert parse_faulthandler(HANG) == ("/srv/model.py:7 in forward", "/srv/run.py:3 in <module>")


def test_text_without_a_dump_has_no_frames() -> None:
    assert parse_faulthandler("") == ()
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
    assert parse_faulthandler(text) == ()


def test_a_timeout_is_told_from_a_crash() -> None:
    assert is_timeout_dump(HANG)
    assert is_timeout_dump("rubbish\n" + HANG)
    assert not is_timeout_dump(CRASH)
