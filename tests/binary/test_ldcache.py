from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from envguard.binary.ldcache import parse_cache, read_system
from envguard.binary.source import UnreadableError

CACHE = Path("/etc/ld.so.cache")
LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin:/usr/bin")


def cache_bytes(*rows: tuple[int, str, str, int]) -> bytes:
    """A cache with (flags, name, path, hardware) rows."""
    start = 48 + 24 * len(rows)
    table, strings = b"", b""
    for flags, name, path, hardware in rows:
        at = start + len(strings)
        strings += name.encode() + b"\0"
        where = start + len(strings)
        strings += path.encode() + b"\0"
        table += struct.pack("<IIIIQ", flags, at, where, 0, hardware)
    head = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(rows), len(strings))
    return head + table + strings


ROWS = (
    (0x0303, "libx.so.1", "/lib/libx.so.1", 0),
    (0x0003, "libx.so.1", "/lib32/libx.so.1", 0),
    (0x0A03, "libx.so.1", "/arm/libx.so.1", 0),
    (0x0303, "liby.so.1", "/lib/v3/liby.so.1", 1 << 62),
    (0x0303, "liby.so.1", "/lib/liby.so.1", 0),
    (0x0303, "libz.so.1", "/lib/v3/libz.so.1", 1 << 62),
)


def test_libraries_of_the_right_processor_are_taken() -> None:
    data = cache_bytes(*ROWS)
    assert parse_cache(data, "x86_64") == {
        "libx.so.1": "/lib/libx.so.1",
        "liby.so.1": "/lib/liby.so.1",
        "libz.so.1": "/lib/v3/libz.so.1",
    }
    assert parse_cache(data, "aarch64") == {"libx.so.1": "/arm/libx.so.1"}
    assert parse_cache(data, "s390x") == {}


def test_the_old_format_before_the_new_one_is_skipped() -> None:
    old = b"ld.so-1.7.0\0" + struct.pack("<I", 1) + b"\0" * 12
    data = old + b"\0" * (-len(old) % 8) + cache_bytes(*ROWS)
    assert parse_cache(data, "x86_64")["libx.so.1"] == "/lib/libx.so.1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"rubbish" * 20,
        cache_bytes(*ROWS)[:60],
        cache_bytes(*ROWS)[:200].replace(b"\0lib", b"\xfflib"),
        cache_bytes(*ROWS)[:20] + b"\xff\xff\xff\xff" + cache_bytes(*ROWS)[24:],
        b"ld.so-1.7.0\0" + b"\xff" * 40,
    ],
)
def test_a_broken_cache_is_said_to_be_one(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        parse_cache(data, "x86_64")


@pytest.mark.skipif(not CACHE.exists() or LDCONFIG is None, reason="no loader cache here")
def test_this_machines_cache_reads_as_ldconfig_prints_it() -> None:
    printed = subprocess.run([str(LDCONFIG), "-p"], capture_output=True, text=True, check=True)
    rows = re.findall(r"^\t(\S+) \(libc6,x86-64\) => (\S+)$", printed.stdout, re.M)
    wanted: dict[str, str] = {}
    for name, path in rows:
        wanted.setdefault(name, path)
    if not wanted:
        pytest.skip("no x86-64 libraries in the cache")
    assert parse_cache(CACHE.read_bytes(), "x86_64") == wanted


def test_without_a_cache_the_default_folders_remain(tmp_path: Path) -> None:
    found = read_system("x86_64", tmp_path)
    assert found.cache == {}
    assert found.folders[0] == f"{tmp_path}/lib64"
    assert found.lib == "lib64"


def test_debian_keeps_libraries_by_processor(tmp_path: Path) -> None:
    (tmp_path / "lib/x86_64-linux-gnu").mkdir(parents=True)
    found = read_system("x86_64", tmp_path)
    assert found.folders[0] == f"{tmp_path}/lib/x86_64-linux-gnu"
    assert found.lib == "lib/x86_64-linux-gnu"
