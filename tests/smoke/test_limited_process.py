"""Programs are run with limits, and their whole group ends with them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from envguard.errors import InputError
from envguard.smoke.limited_process import run_limited

if TYPE_CHECKING:
    from envguard.smoke.limited_process import Completed


def run(code: str, *, stop: bool = False, cap: int = 1000) -> Completed:
    return run_limited(
        [sys.executable, "-c", code],
        variables=dict(os.environ),
        watch=lambda _: "1 s" if stop else "",
        output_cap_bytes=cap,
    )


def test_both_streams_and_the_status_are_kept_apart() -> None:
    done = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert done.returncode == 3
    assert done.stdout.text.split() == ["out"]
    assert done.stderr.text.split() == ["err"]
    assert done.stopped_for == ""


def test_the_end_of_the_output_is_kept() -> None:
    done = run("print('a' * 5000 + 'end', end='')", cap=10)
    assert done.stdout.text == "aaaaaaaend"
    assert done.stdout.total_bytes == 5003


def test_bytes_that_are_no_text_are_replaced() -> None:
    done = run("import os; os.write(1, b'\\xff!')")
    assert done.stdout.text == "\ufffd!"


def test_a_program_is_ended_when_the_watch_says_so() -> None:
    done = run("import time; time.sleep(600)", stop=True)
    assert done.stopped_for == "1 s"
    assert done.returncode != 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_program_that_ignores_signals_is_ended() -> None:
    code = "import signal, time; signal.signal(6, signal.SIG_IGN); print('on', flush=True); "
    done = run(code + "time.sleep(600)", stop=True)
    assert done.returncode in {-6, -9}  # -6: ended before it could ignore the signal


def test_standard_input_is_empty() -> None:
    assert run("print(len(input()))").returncode == 1  # EOFError


def test_a_program_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match="no-such-program cannot be started"):
        run_limited(["no-such-program"], variables={}, watch=lambda _: "", output_cap_bytes=10)


def test_a_nul_byte_in_an_argument_is_an_error_of_ours() -> None:
    with pytest.raises(InputError, match="cannot be started"):
        run_limited([sys.executable, "a\0b"], variables={}, watch=lambda _: "", output_cap_bytes=10)
