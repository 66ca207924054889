from __future__ import annotations

import pytest

from envguard.crash.exits import normalise_exit
from tests.crash.logs import MATRIX


@pytest.mark.parametrize("code", [-9, 137, 247])
def test_sigkill_has_three_forms(code: int) -> None:
    ending = normalise_exit(code, MATRIX.signals)
    assert (ending.signal, ending.name) == (9, "SIGKILL")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-11, "SIGSEGV"),
        (139, "SIGSEGV"),
        (245, "SIGSEGV"),
        (134, "SIGABRT"),
        (250, "SIGABRT"),
        (-7, "SIGBUS"),
        (249, "SIGBUS"),
        (143, "SIGTERM"),
        (241, "SIGTERM"),
        (129, "SIGHUP"),
        (152, "SIGXCPU"),
    ],
)
def test_every_launcher_form_names_the_signal(code: int, name: str) -> None:
    assert normalise_exit(code, MATRIX.signals).name == name


@pytest.mark.parametrize("code", [0, 1, 2, 9, 124, 125, 126, 127, 255])
def test_plain_statuses_are_no_signals(code: int) -> None:
    assert normalise_exit(code, MATRIX.signals).signal is None


@pytest.mark.parametrize("code", [0xC0000005, 0xC0000005 - 2**32])
def test_windows_access_violation_is_a_segfault_signed_or_not(code: int) -> None:
    ending = normalise_exit(code, MATRIX.signals)
    assert (ending.signal, ending.name) == (11, "STATUS_ACCESS_VIOLATION")


def test_zero_is_success_and_nothing_else_is() -> None:
    assert normalise_exit(0, MATRIX.signals).is_success
    assert not normalise_exit(1, MATRIX.signals).is_success
