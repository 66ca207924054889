"""Exit statuses are named, whoever reported them."""

from __future__ import annotations

import pytest

from envguard.smoke.child_exit import name_exit


@pytest.mark.parametrize(
    ("returncode", "name"),
    [
        (-11, "SIGSEGV"),
        (-9, "SIGKILL"),
        (-6, "SIGABRT"),
        (137, "SIGKILL"),  # a shell's 128 + 9
        (139, "SIGSEGV"),
        (134, "SIGABRT"),
        (0xC0000005, "STATUS_ACCESS_VIOLATION"),  # as Windows' subprocess gives it
        (0xC0000135, "STATUS_DLL_NOT_FOUND"),
        (0xC0000409, "STATUS_STACK_BUFFER_OVERRUN"),
        (-1073741819, "STATUS_ACCESS_VIOLATION"),  # the same as a signed number
        (0, ""),
        (1, ""),
        (2, ""),
        (130, ""),
        (255, ""),
    ],
)
def test_a_status_has_its_name(returncode: int, name: str) -> None:
    assert name_exit(returncode).signal == name


@pytest.mark.parametrize(
    ("returncode", "text"),
    [
        (-11, "died of SIGSEGV (status -11)"),
        (139, "died of SIGSEGV (status 139)"),
        (0xC0000005, "died of STATUS_ACCESS_VIOLATION (status 0xC0000005)"),
        (3, "exited with status 3"),
        (None, "cannot be ended, it hangs inside the kernel"),
        (-64, "died of SIGRTMAX (status -64)"),
        (-50, "died of signal 50 (status -50)"),
    ],
)
def test_an_ending_reads_as_a_sentence(returncode: int | None, text: str) -> None:
    assert name_exit(returncode).text == text
