from __future__ import annotations

import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from elftools.elf.elffile import ELFFile

from envguard.binary import elf
from envguard.binary.dynamic import read_dynamic
from envguard.binary.elf import Image
from envguard.binary.source import FileSource, MemorySource, UnreadableError
from tests.binary.build import Workshop, needs_compiler

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
#include <string>
#include <cmath>
std::string greet(double x) { return std::to_string(std::exp(x)); }
"""


@needs_compiler
def test_headers_of_a_compiled_file(workshop: Workshop) -> None:
    needed = workshop.library("libfirst.so", "int first() { return 1; }")
    path = workshop.library(
        "x.so", SOURCE, needs=[needed], rpath="$ORIGIN/a:/b", soname="libx.so.3"
    )
    with FileSource(str(path)) as source:
        image = Image(source)
        found = read_dynamic(image)
    assert (image.machine, image.kind) == ("x86_64", elf.SHARED_OBJECT)
    assert found.needed[0] == "libfirst.so"
    assert "libstdc++.so.6" in found.needed
    assert (found.soname, found.rpath, found.runpath) == ("libx.so.3", "$ORIGIN/a:/b", None)
    assert found.defines is None
    assert any(need.version.startswith("GLIBCXX_3.4") for need in found.needs)


@needs_compiler
def test_a_runpath_makes_the_rpath_void(workshop: Workshop) -> None:
    path = workshop.library("x.so", runpath="/somewhere")
    with FileSource(str(path)) as source:
        found = read_dynamic(Image(source))
    assert (found.rpath, found.runpath) == (None, "/somewhere")


@needs_compiler
def test_versions_that_a_library_offers(workshop: Workshop) -> None:
    script = workshop.folder / "map"
    script.write_text("LIB_1 { global: one; local: *; };\nLIB_2 { global: two; } LIB_1;\n")
    source = 'extern "C" int one() { return 1; } extern "C" int two() { return 2; }'
    path = workshop.library("libv.so", source, flags=[f"-Wl,--version-script={script}"])
    with FileSource(str(path)) as file:
        defines = read_dynamic(Image(file)).defines
    assert sorted(defines or ()) == ["LIB_1", "LIB_2", "libv.so"]


@needs_compiler
def test_the_dynamic_table_agrees_with_pyelftools(workshop: Workshop) -> None:
    path = workshop.library("x.so", SOURCE, rpath="/a")
    with path.open("rb") as file:
        sections: Any = ELFFile(file)
        table = sections.get_section_by_name(".dynamic")
        needed = [tag.needed for tag in table.iter_tags("DT_NEEDED")]
        versions = sections.get_section_by_name(".gnu.version_r").iter_versions()
        wanted = {(need.name, aux.name) for need, names in versions for aux in names}
    with FileSource(str(path)) as source:
        found = read_dynamic(Image(source))
    assert list(found.needed) == needed
    assert {(need.library, need.version) for need in found.needs} == wanted


def test_the_interpreter_itself_is_read() -> None:
    with FileSource(sys.executable) as source:
        assert Image(source).machine in {"x86_64", "aarch64"}


@needs_compiler
def test_sections_are_found_by_name(workshop: Workshop) -> None:
    path = workshop.with_fatbin("x.so", b"\0" * 48)
    with FileSource(str(path)) as source:
        (section,) = Image(source).sections(b".nv_fatbin", b".not_there")
        assert (section.name, section.size) == (b".nv_fatbin", 48)
        assert Image(source).sections(b".not_there") == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"#!/bin/sh\n", "not an ELF file"),
        (b"\x7fELF", "not an ELF file"),
        (b"\x7fELF\x01\x01".ljust(64, b"\0"), "32-bit"),
        (b"\x7fELF\x02\x02".ljust(64, b"\0"), "big-endian"),
    ],
)
def test_what_is_no_such_file_is_named(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        Image(MemorySource(data))


def small_file(**changed: int) -> bytes:
    """The header of a file with one program header, each field of which may lie."""
    values = {"phoff": 64, "shoff": 0, "phentsize": 56, "phnum": 1, "shentsize": 64, "shnum": 0}
    values |= {"shstrndx": 0, **changed}
    return struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, 3, 62, 1, 0, values["phoff"], values["shoff"], 0, 64),
        *(values["phentsize"], values["phnum"], values["shentsize"]),
        *(values["shnum"], values["shstrndx"]),
    ) + struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, 120, 120, 0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"phoff": 2**40}, "truncated"),
        ({"phentsize": 1}, "program headers of 1 bytes"),
        ({"phnum": 65535}, "65535 program headers"),
    ],
)
def test_program_headers_that_lie(changed: dict[str, int], words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        Image(MemorySource(small_file(**changed)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"shoff": 2**40, "shnum": 1}, "truncated"),
        ({"shoff": 64, "shnum": 60_000}, "60000 section headers in a file of"),
        ({"shoff": 2**63, "shnum": 0}, "truncated"),
        ({"shoff": 56, "shnum": 1, "shentsize": 3}, "section headers of 3 bytes"),
        ({"shoff": 56, "shnum": 1, "shstrndx": 9}, "section 9 is to hold the names"),
    ],
)
def test_section_headers_that_lie(changed: dict[str, int], words: str) -> None:
    image = Image(MemorySource(small_file(**changed)))
    with pytest.raises(UnreadableError, match=words):
        image.sections(b".nv_fatbin")


@needs_compiler
def test_a_dynamic_table_outside_the_file_is_truncated(workshop: Workshop) -> None:
    data = workshop.library("x.so").read_bytes()
    cut = data[:2000]
    with pytest.raises(UnreadableError, match="truncated"):
        read_dynamic(Image(MemorySource(cut)))


def test_a_file_for_old_loaders_is_one_too(tmp_path: Path) -> None:
    """A static program has no dynamic table: it needs nothing."""
    path = tmp_path / "static"
    (tmp_path / "m.c").write_text("int main(void) { return 0; }")
    command = ["gcc", "-static", "-o", str(path), str(tmp_path / "m.c")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no static C library here")
    with FileSource(str(path)) as source:
        assert read_dynamic(Image(source)).needed == ()
