from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from envguard.binary.source import FileSource, MemorySource, UnreadableError
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from pathlib import Path


def test_bytes_are_read_at_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)) * 20)
    with FileSource(str(path)) as source:
        assert source.size == 5120
        assert source.read(300, 4) == b"\x2c\x2d\x2e\x2f"
        assert source.read(310, 2) == b"\x36\x37"
        assert source.read(0, 5120) == bytes(range(256)) * 20
        assert source.read(298, 3) == b"\x2a\x2b\x2c"


@pytest.mark.parametrize(("offset", "size"), [(90, 20), (100, 1), (2**63, 8), (-4, 4), (0, -1)])
def test_what_lies_beyond_the_end_is_truncated(tmp_path: Path, offset: int, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100)
    with FileSource(str(path)) as source, pytest.raises(UnreadableError, match="truncated"):
        source.read(offset, size)
    with pytest.raises(UnreadableError, match="truncated"):
        MemorySource(b"x" * 100).read(offset, size)


def test_as_much_as_there_is_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abcdef")
    with FileSource(str(path)) as source:
        assert source.read_upto(4, 100) == b"ef"
        assert source.read_upto(6, 100) == b""
        assert source.read_upto(4, 2) == b"ef"


def test_a_file_cut_off_while_it_is_read_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100_000)
    with FileSource(str(path)) as source:
        os.truncate(path, 10)
        with pytest.raises(UnreadableError, match="truncated"):
            source.read(50_000, 2000)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not exist") as caught:
        FileSource(str(tmp_path / "x"))
    assert caught.value.reason is GapReason.ABSENT


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_forbidden_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(UnreadableError, match="permission denied") as caught:
        FileSource(str(path))
    assert caught.value.reason is GapReason.FORBIDDEN


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x"
    os.mkfifo(path)
    with pytest.raises(UnreadableError, match="a FIFO"):
        FileSource(str(path))


def test_a_folder_a_device_and_a_socket_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="a folder"):
        FileSource(str(tmp_path))
    with pytest.raises(UnreadableError, match="a device"):
        FileSource("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(UnreadableError, match="cannot be read"):
            FileSource(str(tmp_path / "s"))


def test_a_loop_of_links_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UnreadableError, match="cannot be read"):
        FileSource(str(tmp_path / "a"))


def test_a_name_that_no_file_can_have_is_no_file() -> None:
    with pytest.raises(UnreadableError, match="cannot be read"):
        FileSource("a\0b")
