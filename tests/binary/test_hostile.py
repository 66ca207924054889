"""Files that lie: every one becomes a gap, in bounded time and memory, whatever its bytes are."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envguard.binary.compiled import read_compiled
from envguard.binary.elf import Image
from envguard.binary.environment import read_environment
from envguard.binary.fatbin import read_fatbin_file
from envguard.binary.inspect import inspect_subjects
from envguard.binary.ldcache import parse_cache
from envguard.binary.source import FileSource, MemorySource, UnreadableError
from envguard.binary.symbols import SymbolTable
from tests.binary.build import CUBIN, PTX, Workshop, entry, fatbin, needs_compiler
from tests.binary.test_ldcache import ROWS, cache_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.binary.torchlike import TorchLike

pytestmark = needs_compiler

SEEDED = settings(
    derandomize=True,
    deadline=None,
    max_examples=400,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NUMBERS = st.sampled_from(
    [0, 1, 2, 7, 8, 16, 255, 4096, 2**16 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1]
)
CODE = fatbin(entry(CUBIN, 80), entry(PTX, 90)) + bytes(8) + fatbin(entry(CUBIN, 120))
LIMIT_BYTES = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A shared object with GPU code, versions, needs and a few symbols."""
    work = Workshop(tmp_path_factory.mktemp("hostile"))
    needed = work.library("libneeded.so", 'extern "C" int far() { return 1; }')
    (work.folder / "blob.bin").write_bytes(CODE)
    source = f"""
    #include <string>
    asm(".section .nv_fatbin,\\"a\\"; .balign 8; .incbin \\"{work.folder}/blob.bin\\"; .text");
    extern "C" int far();
    extern "C" void *PyInit_x() {{ return 0; }}
    namespace c10 {{ void check(const std::string &); }}
    int f() {{ c10::check(std::to_string(far())); return 0; }}
    """
    return work.library("x.so", source, needs=[needed], runpath="$ORIGIN:/nowhere").read_bytes()


def read_everything(data: bytes) -> None:
    """Every reader of the package, on one file; only gaps and UnreadableError may come of it."""
    found = read_compiled(MemorySource(data), "libtorch_python.so")
    assert found.gaps or found.needed is not None
    try:
        table = SymbolTable(Image(MemorySource(data)))
        for name in (b"PyInit_x", b"far", b"_ZN3c105checkERKSs"):
            table.offers(name, "V_1")
        for symbol in table.undefined():
            assert isinstance(symbol.name, bytes)
    except UnreadableError:
        pass


@SEEDED
@given(data=st.data())
def test_a_file_with_changed_bytes_is_read_or_refused(library: bytes, data: st.DataObject) -> None:
    changed = bytearray(library)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(changed) - 9))
        width = data.draw(st.sampled_from([1, 2, 4, 8]))
        value = data.draw(NUMBERS | st.integers(0, 2**64 - 1)) % 256**width
        changed[at : at + width] = value.to_bytes(width, "little")
    read_everything(bytes(changed))


@SEEDED
@given(data=st.data())
def test_changed_headers_are_read_or_refused(library: bytes, data: st.DataObject) -> None:
    """The tables that all else hangs on: file header, program headers, sections, dynamic."""
    changed = bytearray(library)
    tables = _tables(library)
    for _ in range(data.draw(st.integers(1, 4))):
        start, size = data.draw(st.sampled_from(tables))
        at = start + data.draw(st.integers(0, max(0, size - 8))) // 8 * 8
        changed[at : at + 8] = data.draw(NUMBERS).to_bytes(8, "little")
    read_everything(bytes(changed))


def _tables(library: bytes) -> list[tuple[int, int]]:
    phoff, shoff = struct.unpack_from("<QQ", library, 32)
    phnum, shnum = (
        struct.unpack_from("<H", library, 56)[0],
        struct.unpack_from("<H", library, 60)[0],
    )
    tables = [(0, 64), (phoff, 56 * phnum), (shoff, 64 * shnum)]
    for n in range(phnum):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", library, phoff + 56 * n)
        if kind == 2:
            tables.append((offset, size))
    for n in range(shnum):
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", library, shoff + 64 * n)
        if kind in {5, 11, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF}:
            tables.append((offset, size))
    return tables


@SEEDED
@given(size=st.integers(0, 20_000))
def test_a_truncated_file_is_read_or_refused(library: bytes, size: int) -> None:
    read_everything(library[:size])


@SEEDED
@given(data=st.data())
def test_changed_fatbins_are_counted_or_refused(data: st.DataObject) -> None:
    changed = bytearray(CODE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(changed) - 9))
        width = data.draw(st.sampled_from([1, 2, 4, 8]))
        changed[at : at + width] = (data.draw(NUMBERS) % 256**width).to_bytes(width, "little")
    try:
        code = read_fatbin_file(MemorySource(bytes(changed)))
    except UnreadableError:
        return
    assert sum(count.count for count in (*code.cubin, *code.ptx)) <= 3


@SEEDED
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_everything(data)
    read_everything(b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + data)
    read_compiled(MemorySource(struct.pack("<I", 0xBA55ED50) + data), "x.fatbin")


@SEEDED
@given(data=st.data())
def test_a_changed_loader_cache_is_read_or_refused(data: st.DataObject) -> None:
    changed = bytearray(cache_bytes(*ROWS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 5))
        changed[at : at + 4] = (data.draw(NUMBERS) % 2**32).to_bytes(4, "little")
    try:
        found = parse_cache(bytes(changed), "x86_64")
    except UnreadableError:
        return
    assert len(found) <= len(ROWS)


@settings(SEEDED, max_examples=60)
@given(data=st.data())
def test_an_environment_with_a_changed_file_is_read(
    torch: TorchLike, library: bytes, data: st.DataObject
) -> None:
    changed = bytearray(library)
    for start, size in data.draw(st.lists(st.sampled_from(_tables(library)), min_size=1)):
        at = start + data.draw(st.integers(0, max(0, size - 8)))
        changed[at : at + 8] = data.draw(NUMBERS).to_bytes(8, "little")
    (torch.site / "x.so").write_bytes(changed)
    (torch.lib / "libtorch_cuda.so").write_bytes(changed)
    read_environment((torch.site,), torch.torch, {}, None)


@settings(SEEDED, max_examples=100)
@given(data=st.data())
def test_a_changed_wheel_is_read_or_refused(
    tmp_path: Path, library: bytes, data: st.DataObject
) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.so", library[:4000])
        archive.writestr("y.so", b"")
    changed = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(changed) - 5))
        changed[at : at + 4] = (data.draw(NUMBERS) % 2**32).to_bytes(4, "little")
    path.write_bytes(changed)
    inspect_subjects([str(path)])


def bounded(read: object, *arguments: object) -> str:
    """Call a reader, hold it to a limit of memory, and give back why it refused."""
    assert callable(read)
    tracemalloc.start()
    try:
        read(*arguments)
        words = ""
    except UnreadableError as err:
        words = err.message
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < LIMIT_BYTES
    return words


def sparse_elf(path: Path, size: int, said: int | None = None) -> Path:
    """A file of headers and emptiness whose one section is said to be GPU code."""
    names = b"\0.nv_fatbin\0.shstrtab\0"
    head = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, 3, 62, 1, 0, 0, 64, 0, 64, 56, 0, 64, 3, 2),
    )
    table = bytes(64)
    code_size = size - 512 if said is None else said
    table += struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 512, code_size, 0, 0, 8, 0)
    table += struct.pack("<IIQQQQIIQQ", 12, 3, 0, 0, 400, len(names), 0, 0, 1, 0)
    with path.open("wb") as file:
        file.write((head + table).ljust(400, b"\0") + names)
        file.truncate(size)
    return path


def code_of(path: Path) -> object:
    with FileSource(str(path)) as source:
        found = read_compiled(source, path.name)
    if found.gaps:
        raise UnreadableError(found.gaps[0].detail)
    return found


def test_four_gib_of_nothing_said_to_be_gpu_code(tmp_path: Path) -> None:
    words = bounded(code_of, sparse_elf(tmp_path / "x.so", 4 * 1024**3))
    assert "is no fatbin" in words


def test_a_section_that_is_said_to_be_larger_than_the_file(tmp_path: Path) -> None:
    words = bounded(code_of, sparse_elf(tmp_path / "x.so", 8192, said=2**62))
    assert "truncated" in words


def test_gpu_code_that_is_headers_only(tmp_path: Path) -> None:
    path = sparse_elf(tmp_path / "x.so", 512 + 16 * 400_000)
    with path.open("r+b") as file:
        file.seek(512)
        file.write(fatbin() * 400_000)
    assert "more than 200000 fatbins" in bounded(code_of, path)


def test_a_version_list_that_runs_in_a_circle(library: bytes) -> None:
    """Its entries point at themselves and their number is said to be enormous."""
    changed = bytearray(library)
    for start, size in _tables(library):
        for at in range(start, start + size, 16):
            tag = struct.unpack_from("<Q", changed, at)[0] if at + 16 <= len(changed) else 0
            if tag == 0x6FFFFFFF:  # DT_VERNEEDNUM
                struct.pack_into("<Q", changed, at + 8, 2**40)
    found = struct.unpack_from("<H", changed, 60)[0]
    shoff = struct.unpack_from("<Q", changed, 40)[0]
    for n in range(found):
        _, kind, _, _, offset, _ = struct.unpack_from("<IIQQQQ", changed, shoff + 64 * n)
        if kind == 0x6FFFFFFE:  # SHT_GNU_verneed
            struct.pack_into("<HHIII", changed, offset, 1, 65535, 1, 16, 16)
    assert bounded(lambda: read_everything(bytes(changed))) == ""


def test_names_that_overlap_do_not_make_a_small_file_endless(library: bytes) -> None:
    """Every symbol is named by almost all of one string of 60 000 letters."""
    head = bytearray(library[:64])
    struct.pack_into("<QQ", head, 32, 64, 0)
    struct.pack_into("<HHHHH", head, 54, 56, 2, 0, 0, 0)
    strings = b"\0" + b"x" * 60_000 + b"\0"
    symbol = struct.pack("<IBBHQQ", 1, 0x10, 0, 0, 0, 0)
    table, count = 4096, 20_000
    names = table + 24 * count
    hashes = names + len(strings)
    dynamic = hashes + 8
    tags = [(5, names), (10, len(strings)), (6, table), (4, hashes), (0, 0)]
    body = symbol * count + strings + struct.pack("<II", 1, count)
    body += b"".join(struct.pack("<qQ", *tag) for tag in tags)
    size = table + len(body)
    loads = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 0)
    loads += struct.pack("<IIQQQQQQ", 2, 4, dynamic, dynamic, 0, 80, 80, 0)
    data = (bytes(head) + loads).ljust(table, b"\0") + body
    found = read_compiled(MemorySource(data), "x.so")
    assert "bytes of names" in {gap.fact: gap.detail for gap in found.gaps}["cxx11_abi"]


def test_a_tree_of_links_is_walked_once(tmp_path: Path) -> None:
    for n in range(12):
        (tmp_path / f"d{n}").mkdir()
        for other in range(12):
            (tmp_path / f"d{n}/to{other}").symlink_to(f"../d{other}")
    (tmp_path / "d3/x.so").write_bytes(b"")
    found = inspect_subjects([str(tmp_path)])
    assert [file.path for file in found.files] == ["d3/x.so"]
