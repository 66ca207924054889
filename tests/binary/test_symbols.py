from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from envguard.binary.elf import Image
from envguard.binary.resolving import first_relocated
from envguard.binary.source import FileSource
from envguard.binary.symbols import SymbolTable
from tests.binary.build import Workshop, needs_compiler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_compiler

SOURCE = """
extern "C" {
int lacking_one(); int lacking_two(); int maybe() __attribute__((weak));
int offered() { return lacking_one() + lacking_two() + (maybe ? maybe() : 0); }
__attribute__((weak)) int offered_weakly() { return 2; }
__attribute__((visibility("hidden"))) int kept() { return 3; }
int counter = 4;
thread_local int own = 5;
}
"""


@pytest.fixture(params=["gnu", "sysv"])
def table(workshop: Workshop, request: pytest.FixtureRequest) -> Iterator[SymbolTable]:
    flags = [f"-Wl,--hash-style={request.param}"]
    path = workshop.library("x.so", SOURCE, flags=flags)
    with FileSource(str(path)) as source:
        yield SymbolTable(Image(source))


def test_what_a_file_lacks(table: SymbolTable) -> None:
    found = {symbol.name: symbol.is_weak for symbol in table.undefined()}
    assert found[b"lacking_one"] is False
    assert found[b"lacking_two"] is False
    assert found[b"maybe"] is True
    assert b"offered" not in found


@pytest.mark.parametrize("name", [b"offered", b"offered_weakly", b"counter", b"own"])
def test_what_a_file_offers(table: SymbolTable, name: bytes) -> None:
    assert table.can_look_up
    assert table.offers(name)


@pytest.mark.parametrize("name", [b"kept", b"lacking_one", b"maybe", b"", b"offere", b"offeredx"])
def test_what_a_file_does_not_offer(table: SymbolTable, name: bytes) -> None:
    assert not table.offers(name)


def test_names_that_a_small_file_defines(table: SymbolTable) -> None:
    assert b"offered" in set(table.defined_names(1000))
    assert set(table.defined_names(1)) == set()


def test_every_symbol_of_a_real_library_is_found(workshop: Workshop) -> None:
    code = "".join(f'extern "C" int f{n}() {{ return {n}; }}\n' for n in range(500))
    path = workshop.library("many.so", code)
    with FileSource(str(path)) as source:
        table = SymbolTable(Image(source))
        assert all(table.offers(b"f%d" % n) for n in range(500))
        assert not any(table.offers(b"f%d" % n) for n in range(500, 1000))


def test_a_file_that_offers_nothing_still_lacks_something(workshop: Workshop) -> None:
    hidden = '__attribute__((visibility("hidden"))) '
    source = f'extern "C" int lacking(); {hidden} int f() {{ return lacking(); }}'
    flags = ["-nostdlib", "-nostartfiles"]
    path = workshop.library("x.so", source, flags=flags)
    with FileSource(str(path)) as file:
        assert [symbol.name for symbol in SymbolTable(Image(file)).undefined()] == [b"lacking"]


@pytest.fixture
def versioned(workshop: Workshop) -> Path:
    """A library with an old and a new version of one function, and one function of each."""
    script = workshop.folder / "map"
    script.write_text("LIB_1 { global: one; both; };\nLIB_2 { global: two; both; } LIB_1;\n")
    source = """
    extern "C" {
    __asm__(".symver both_old,both@LIB_1"); int both_old() { return 1; }
    __asm__(".symver both_new,both@@LIB_2"); int both_new() { return 2; }
    int one() { return 1; } int two() { return 2; }
    }
    """
    return workshop.library("libv.so", source, flags=[f"-Wl,--version-script={script}"])


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        (b"one", "LIB_1", True),
        (b"one", "LIB_2", False),
        (b"two", "LIB_2", True),
        (b"both", "LIB_1", True),
        (b"both", "LIB_2", True),
        (b"both", "LIB_3", False),
        (b"both", None, True),
        (b"one", None, True),
    ],
)
def test_versions_of_symbols_count(
    versioned: Path, name: bytes, version: str | None, expected: bool
) -> None:
    with FileSource(str(versioned)) as source:
        assert SymbolTable(Image(source)).offers(name, version) is expected


def test_the_version_that_is_asked_for_is_told(workshop: Workshop, versioned: Path) -> None:
    source = 'extern "C" int two(); int f() { return two(); }'
    path = workshop.library("x.so", source, needs=[versioned])
    with FileSource(str(path)) as file:
        (symbol,) = [s for s in SymbolTable(Image(file)).undefined() if s.name == b"two"]
    assert symbol.version >= 2


def test_data_is_resolved_before_calls(workshop: Workshop) -> None:
    """The loader applies the table of data before the one of calls: the variable fails first."""
    source = """
    extern "C" int zz_call(); extern "C" int aa_call(); extern int aa_data; extern int unused;
    int f() { return zz_call() + aa_call(); }
    int *g() { return &aa_data; }
    """
    path = workshop.library("x.so", source)
    with FileSource(str(path)) as file:
        image = Image(file)
        places = {symbol.name: symbol.place for symbol in SymbolTable(image).undefined()}
        assert first_relocated(image, frozenset(places.values())) != places[b"aa_call"]
        asked = frozenset({places[b"zz_call"], places[b"aa_call"], places[b"aa_data"]})
        assert first_relocated(image, asked) == places[b"aa_data"]
        assert first_relocated(image, frozenset({10_000})) is None


def test_nothing_is_said_without_a_hash_table(workshop: Workshop) -> None:
    path = workshop.folder / "o.o"
    (workshop.folder / "o.cpp").write_text("int f() { return 1; }")
    subprocess.run(
        ["g++", "-c", "-fPIC", "-o", str(path), str(workshop.folder / "o.cpp")], check=True
    )
    with FileSource(str(path)) as source:
        table = SymbolTable(Image(source))
        assert not table.can_look_up
        assert not table.offers(b"_Z1fv")
        assert list(table.undefined()) == []
