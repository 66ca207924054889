from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.codec import WordsOf
from envguard.facts.versions import CudaVersion
from envguard.matrix.reading import Document, Row
from envguard.matrix.rows import Confidence, Provenance

SOURCES = {"page": {"url": "https://docs.example/page", "checked": "2026-11-29"}}


def row_of(**fields: object) -> Row:
    document = Document("torch.toml", {"sources": SOURCES, "build": [{}, {}, {}, fields]})
    return list(document.rows("build"))[3]


def message_of(error: pytest.ExceptionInfo[MatrixError]) -> str:
    return error.value.message


def test_a_missing_field_is_named() -> None:
    with pytest.raises(MatrixError) as error:
        row_of().text("platform")
    assert message_of(error) == "torch.toml: build[3].platform: is missing"


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (lambda row: row.text("f"), 3, "expected a text, found 3"),
        (lambda row: row.integer("f"), True, "expected a whole number, found True"),
        (lambda row: row.integer("f"), "1", "expected a whole number, found '1'"),
        (lambda row: row.flag("f", default=True), 1, "expected true or false, found 1"),
        (lambda row: row.words("f"), ["a"], "expected a text, found ['a']"),
        (lambda row: row.words("f"), "a  b", "expected single spaces between words"),
        (lambda row: row.integers("f"), 3, "expected a list, found 3"),
        (lambda row: row.texts("f"), "a", "expected a list, found 'a'"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(read: object, value: object, problem: str) -> None:
    assert callable(read)
    with pytest.raises(MatrixError) as error:
        read(row_of(f=value))
    assert message_of(error) == f"torch.toml: build[3].f: {problem}"


def test_an_item_of_the_wrong_type_is_named_with_its_place() -> None:
    with pytest.raises(MatrixError) as error:
        row_of(windows=[580, "582"]).integers("windows")
    assert message_of(error) == (
        "torch.toml: build[3].windows[1]: expected a whole number, found '582'"
    )


def test_a_word_that_cannot_be_parsed_is_named_with_its_place() -> None:
    with pytest.raises(MatrixError) as error:
        row_of(torch="2.0.0 two").values("torch", Version)
    assert message_of(error).startswith("torch.toml: build[3].torch[1]: ")
    assert "two" in message_of(error)


def test_words_are_split_and_an_empty_text_holds_none() -> None:
    assert row_of(f="sm_70 sm_75").words("f") == ("sm_70", "sm_75")
    assert row_of(f="").words("f") == ()


def test_optional_is_none_only_where_the_field_is_not_stated() -> None:
    assert row_of().optional("glibc", Version) is None
    with pytest.raises(MatrixError):
        row_of(glibc="x").optional("glibc", Version)


def test_provenance_resolves_sources_in_order() -> None:
    document = Document(
        "torch.toml",
        {
            "sources": {**SOURCES, "wheel": {"url": "a wheel", "checked": "2026-11-01"}},
            "build": [{"source": "wheel page", "confidence": "binary", "note": "read twice"}],
        },
    )
    provenance = next(document.rows("build")).provenance()
    assert provenance.source.url == "a wheel"
    assert [source.url for source in provenance.also] == ["https://docs.example/page"]
    assert provenance.confidence is Confidence.BINARY
    assert provenance.is_firm
    assert provenance.note == "read twice"


@pytest.mark.parametrize(
    ("confidence", "certainty", "is_firm"),
    [
        ("doc", None, True),
        ("doc", "medium", True),
        ("doc", "low", False),
        ("observed", "low", False),
        ("inferred", None, False),
        ("inferred", "high", False),
    ],
)
def test_inferred_and_low_rows_are_not_firm(
    confidence: str, certainty: str | None, *, is_firm: bool
) -> None:
    fields: dict[str, object] = {"source": "page", "confidence": confidence}
    if certainty:
        fields["certainty"] = certainty
    assert row_of(**fields).provenance().is_firm is is_firm


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"confidence": "doc"}, "source: is missing"),
        ({"source": "page"}, "confidence: is missing"),
        ({"source": "", "confidence": "doc"}, "source: names no source"),
        ({"source": "page rumour", "confidence": "doc"}, "source[1]: 'rumour' is not among"),
        ({"source": "page", "confidence": "sure"}, "confidence: 'sure' is not"),
        ({"source": "page", "confidence": "doc", "certainty": "so"}, "certainty: 'so' is none"),
    ],
)
def test_a_row_without_sound_provenance_is_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(MatrixError) as error:
        row_of(**fields).provenance()
    assert message_of(error).startswith(f"torch.toml: build[3].{problem}")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"build": 3}, "t.toml: build: expected an array of rows"),
        ({}, "t.toml: build: expected an array of rows"),
        ({"build": [{}, 3]}, "t.toml: build[1]: expected a row of fields"),
    ],
)
def test_an_array_that_is_none_is_refused(data: dict[str, object], problem: str) -> None:
    with pytest.raises(MatrixError) as error:
        list(Document("t.toml", data).rows("build"))
    assert message_of(error) == problem


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ([], "t.toml: sources: expected a table"),
        ({"a": "url"}, "t.toml: sources.a: expected a table of url and checked"),
        ({"a": {"url": "u"}}, "t.toml: sources.a.checked: expected a text"),
        ({"a": {"url": "", "checked": "2026-11-29"}}, "t.toml: sources.a.url: expected a text"),
        ({"a": {"url": "u", "checked": "2026-13-01"}}, "t.toml: sources.a.checked: "),
    ],
)
def test_a_source_needs_an_address_and_a_date(sources: object, problem: str) -> None:
    with pytest.raises(MatrixError) as error:
        Document("t.toml", {"sources": sources})
    assert message_of(error).startswith(problem)


@dataclass(frozen=True)
class Demo:
    """What a row may be read as."""

    cuda: CudaVersion
    branches: tuple[int, ...]
    provenance: Provenance
    kind: str | None = None


@dataclass(frozen=True)
class Inner:
    """A row inside a row, without sources of its own."""

    name: str


@dataclass(frozen=True)
class Rich:
    """Every form that a field of a row may have."""

    targets: WordsOf[CudaVersion]
    colour: Literal["red", "blue"] = "red"
    is_old: bool = field(default=False, metadata={"key": "old"})
    counts: Mapping[CudaVersion, int] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    needs: Mapping[str, SpecifierSet] = field(default_factory=dict)
    inner: tuple[Inner, ...] = ()
    confidence: Confidence = Confidence.DOC


def test_a_row_states_words_choices_keys_tables_and_rows() -> None:
    rich = row_of(
        targets="12.8 13.0",
        colour="blue",
        old=True,
        counts={"12.8": 3},
        names=["a", "b", "a"],
        needs={"torch": ">=2"},
        inner=[{"name": "x"}],
        confidence="binary",
    ).build(Rich)
    assert rich.targets == (CudaVersion(12, 8), CudaVersion(13, 0))
    assert (rich.colour, rich.is_old) == ("blue", True)
    assert rich.counts == {CudaVersion(12, 8): 3}
    assert rich.names == frozenset({"a", "b"})
    assert rich.needs == {"torch": SpecifierSet(">=2")}
    assert rich.inner == (Inner("x"),)
    assert rich.confidence is Confidence.BINARY


def test_what_a_row_does_not_state_is_given() -> None:
    rich = row_of(colour="red").build(Rich, targets=(), colour="blue")
    assert (rich.targets, rich.colour) == ((), "blue")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "targets is missing"),
        ({"targets": ["12.8"]}, "targets: expected a string, found a list"),
        ({"targets": "12.8  13.0"}, "targets: expected single spaces between words"),
        ({"targets": "12.8 x"}, "targets[1]: 'x' is not a CUDA version"),
        ({"targets": "", "colour": "green"}, "colour: 'green' is none of red, blue"),
        ({"targets": "", "old": 1}, "old: expected a boolean, found a number"),
        ({"targets": "", "counts": {"x": 1}}, "counts.x: 'x' is not a CUDA version"),
        ({"targets": "", "counts": {"12.8": "1"}}, "counts.12.8: expected an integer"),
        ({"targets": "", "names": ["a", 1]}, "names[1]: expected a string, found a number"),
        ({"targets": "", "needs": {"a": f"<{'9' * 1000}"}}, "needs.a: holds a number of"),
        ({"targets": "", "inner": [{}]}, "inner[0].name is missing"),
        ({"targets": "", "confidence": "hearsay"}, "confidence: 'hearsay' is none of binary"),
    ],
)
def test_a_field_of_a_wrong_form_is_named(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(MatrixError) as error:
        row_of(**fields).build(Rich)
    assert message_of(error).startswith(f"torch.toml: build[3].{problem}")


def test_a_text_is_parsed_once_for_all_rows_of_a_table() -> None:
    first = row_of(targets="12.8 13.0")
    second = Row(first.document, "build", 4, {"targets": "12.8 13.0"})
    assert first.build(Rich).targets is second.build(Rich).targets


def test_rows_inside_a_row_say_where_they_stand() -> None:
    row = row_of(says=[{"name": "a"}, {}])
    first, second = row.below("says")
    assert first.build(Inner) == Inner("a")
    assert list(row.below("other")) == []
    with pytest.raises(MatrixError) as error:
        second.build(Inner)
    assert message_of(error) == "torch.toml: build[3].says[1].name is missing"
    with pytest.raises(MatrixError, match=r"build\[3\]\.says: expected an array of rows"):
        list(row_of(says={}).below("says"))


def test_a_row_is_read_by_the_annotations_of_its_class() -> None:
    demo = row_of(cuda="12.8", branches=[1, 2], source="page", confidence="doc").build(Demo)
    assert (demo.cuda, demo.branches, demo.kind) == (CudaVersion(12, 8), (1, 2), None)
    assert demo.provenance.confidence is Confidence.DOC


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "torch.toml: build[3].cuda is missing"),
        ({"cuda": 12.8}, "torch.toml: build[3].cuda: expected a string, found a number"),
        ({"cuda": "twelve"}, "torch.toml: build[3].cuda: "),
        ({"cuda": "12.8", "branches": [1, "2"]}, "torch.toml: build[3].branches[1]: expected an"),
    ],
)
def test_a_row_that_cannot_be_read_names_its_field(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(MatrixError) as error:
        row_of(**fields, source="page", confidence="doc").build(Demo)
    assert message_of(error).startswith(problem)


def test_a_number_that_python_cannot_write_is_named_as_one() -> None:
    data = tomllib.loads(f"[[row]]\nname = 0x{'f' * 5000}\n")
    (row,) = Document("a.toml", data).rows("row")
    with pytest.raises(MatrixError, match=r"row\[0\]\.name: expected a text, found a number of"):
        row.text("name")
