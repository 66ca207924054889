"""Where a probe looks, and why a file could not be read."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import GapReason
from envguard.probe.probe_options import ProbeOptions, reason_of

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOENT, GapReason.ABSENT),
        (errno.ENOTDIR, GapReason.ABSENT),
        (errno.EACCES, GapReason.FORBIDDEN),
        (errno.EPERM, GapReason.FORBIDDEN),
        (errno.EIO, GapReason.UNREADABLE),
        (errno.EISDIR, GapReason.UNREADABLE),
    ],
)
def test_an_error_of_the_system_says_why(number: int, reason: GapReason) -> None:
    assert reason_of(OSError(number, "words")) is reason


def test_system_files_are_read_below_the_root(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/version", "Linux version 6.8.0\n")
    assert stub_machine.options().read("/proc/version") == "Linux version 6.8.0\n"
    assert stub_machine.options().read_or_none("/proc/other") is None


def test_bytes_that_are_no_text_are_replaced(stub_machine: StubMachine) -> None:
    stub_machine.write("/etc/x", "").write_bytes(b"a\xffb")
    assert stub_machine.options().read("/etc/x") == "a\ufffdb"


def test_a_file_without_end_is_cut(stub_machine: StubMachine) -> None:
    with stub_machine.write("/etc/x", "").open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    assert len(stub_machine.options().read("/etc/x")) == 4 * 1024 * 1024


def test_programs_are_found_on_the_path_of_the_options_alone(stub_machine: StubMachine) -> None:
    program = stub_machine.program("nvcc", "exit 0")
    assert stub_machine.options().which("nvcc") == str(program)
    assert stub_machine.options().which("sh") is None


def test_the_running_machine_is_the_default() -> None:
    options = ProbeOptions()
    assert str(options.root) == "/"
    assert "PATH" in options.environ
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", options.now)
