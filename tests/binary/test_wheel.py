from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

import pytest

from envguard.binary.source import UnreadableError
from envguard.binary.wheel import read_wheel
from tests.binary.build import CUBIN, Workshop, entry, fatbin, needs_compiler

if TYPE_CHECKING:
    from pathlib import Path


def pack(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@needs_compiler
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_compiled_members_are_read(workshop: Workshop, compression: int) -> None:
    library = workshop.with_fatbin("x.so", fatbin(entry(CUBIN, 80))).read_bytes()
    members = {"pkg/x.so": library, "pkg/a.py": b"", "pkg.libs/liby.so.1": library, "z.txt": b"x"}
    found = list(read_wheel(str(pack(workshop.folder / "x.whl", members, compression))))
    assert [file.path for file in found] == ["pkg.libs/liby.so.1", "pkg/x.so"]
    assert [[str(target) for target in file.targets] for file in found] == [["sm_80"], ["sm_80"]]
    assert all(file.gaps == () for file in found)


@needs_compiler
def test_a_large_member_is_read_through_a_file_that_is_gone_afterwards(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = fatbin(entry(CUBIN, 90, code=os.urandom(17 * 1024 * 1024)))
    library = workshop.with_fatbin("x.so", blob).read_bytes()
    wheel = pack(workshop.folder / "x.whl", {"x.so": library}, zipfile.ZIP_STORED)
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(unpacked))
    (found,) = read_wheel(str(wheel))
    assert [str(target) for target in found.targets] == ["sm_90"]
    assert list(unpacked.iterdir()) == []


def test_modules_of_other_systems_are_named(tmp_path: Path) -> None:
    members = {"a.pyd": b"MZ", "b.dll": b"MZ", "c.dylib": b"\xcf\xfa\xed\xfe"}
    found = list(read_wheel(str(pack(tmp_path / "x.whl", members))))
    assert [file.path for file in found] == ["a.pyd", "b.dll", "c.dylib"]
    assert all("does not read" in file.gaps[0].detail for file in found)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.so", "w", force_zip64=True) as member,
    ):
        for _ in range(200):
            member.write(bytes(1024 * 1024))
    (found,) = read_wheel(str(path))
    assert "-fold to 209715200 bytes" in found.gaps[0].detail


def test_many_small_bombs_are_not_unpacked_either(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m00.so", bytes(60 * 1024 * 1024))
        info = archive.getinfo("m00.so")
        archive.filelist.extend(_copies(info, 40))
    found = list(read_wheel(str(path)))
    words = [file.gaps[0].detail for file in found]
    assert len(found) == 41
    assert words[0] == "not an ELF file"
    assert words[-1] == "the wheel expands beyond what wheels do"


def _copies(info: zipfile.ZipInfo, number: int) -> list[zipfile.ZipInfo]:
    """Further entries of the member list for the same bytes."""
    copies = []
    for n in range(number):
        copy = zipfile.ZipInfo(f"m{n + 1:02}.so")
        copy.CRC, copy.compress_type = info.CRC, info.compress_type
        copy.compress_size, copy.file_size = info.compress_size, info.file_size
        copy.header_offset = info.header_offset
        copies.append(copy)
    return copies


def test_a_member_with_a_wrong_checksum_is_damaged(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.whl", {"x.so": b"A" * 1000}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    (found,) = read_wheel(str(path))
    assert found.gaps[0].detail.startswith("damaged")


def test_a_member_that_is_cut_off_is_damaged(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.whl", {"x.so": os.urandom(5000)})
    data = bytearray(path.read_bytes())
    data[60:3000] = bytes(2940)
    path.write_bytes(data)
    (found,) = read_wheel(str(path))
    assert found.gaps[0].detail.startswith("damaged")


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.whl", {"x.so": b"A" * 100})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(data)
    (found,) = read_wheel(str(path))
    assert found.gaps[0].detail == "encrypted"


def test_a_compression_that_python_lacks_is_named(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.whl", {"x.so": b"A" * 100})
    data = bytearray(path.read_bytes())
    data[8] = 99
    data[data.index(b"PK\x01\x02") + 10] = 99
    path.write_bytes(data)
    (found,) = read_wheel(str(path))
    assert found.gaps[0].detail.startswith("damaged")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip at all" * 100])
def test_what_is_no_wheel_is_said_to_be_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="not a readable wheel"):
        list(read_wheel(str(path)))


def test_a_truncated_wheel_is_said_to_be_none(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.whl", {"x.so": os.urandom(5000)})
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(UnreadableError, match="not a readable wheel"):
        list(read_wheel(str(path)))


def test_a_fifo_named_like_a_wheel_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.whl")
    with pytest.raises(UnreadableError, match="a FIFO"):
        list(read_wheel(str(tmp_path / "x.whl")))


def test_a_wheel_without_compiled_files_holds_none(tmp_path: Path) -> None:
    assert list(read_wheel(str(pack(tmp_path / "x.whl", {"a.py": b""})))) == []
