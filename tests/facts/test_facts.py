"""Facts documents on disk: kinds, schema versions, and files that are not documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from envguard.errors import DocumentError, ExitCode, InputError
from envguard.facts.facts import Facts, decode_json, facts_document, load_facts

if TYPE_CHECKING:
    from pathlib import Path


def saved(folder: Path, document: Any) -> Path:
    path = folder / "facts.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_a_saved_document_loads(tmp_path: Path) -> None:
    facts = Facts(taken_at="2026-11-29T00:00:00Z")
    assert load_facts(saved(tmp_path, facts_document(facts))) == facts


def test_the_document_names_its_kind_and_schema() -> None:
    document = facts_document(Facts())
    assert list(document)[:2] == ["schema_version", "kind"]
    assert (document["schema_version"], document["kind"]) == (1, "facts")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "schema_version 2 is newer than 1"),
        ({"schema_version": None}, "schema_version None is not a positive integer"),
        ({"schema_version": True}, "schema_version True is not a positive integer"),
        ({"schema_version": 0}, "schema_version 0 is not a positive integer"),
        ({"schema_version": "1"}, "schema_version '1' is not a positive integer"),
        ({"kind": "report"}, "not a facts document (its kind is 'report')"),
    ],
)
def test_another_schema_or_kind_is_refused(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    path = saved(tmp_path, facts_document(Facts()) | change)
    with pytest.raises(DocumentError) as caught:
        load_facts(path)
    assert words in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_newer_schema_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        load_facts(saved(tmp_path, facts_document(Facts()) | {"schema_version": 2}))
    assert caught.value.hint == "upgrade envguard"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1:1: not valid JSON"),
        ('{"schema_version": 1,\n "kind": }', ":2:10: not valid JSON"),
        ("[" * 100_000, "not usable JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not usable JSON"),
        ("[]", "a facts document is a JSON object"),
    ],
    ids=["empty", "cut", "deep", "huge number", "list"],
)
def test_what_is_no_document_is_refused_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    path = saved(tmp_path, text)
    with pytest.raises(DocumentError) as caught:
        load_facts(path)
    assert words in caught.value.message
    assert caught.value.message.startswith(str(path))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        load_facts(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            load_facts(path)


def test_an_enormous_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    with path.open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        load_facts(path)


def test_json_errors_name_file_line_and_column() -> None:
    with pytest.raises(DocumentError, match=r"^here:2:1: not valid JSON: expecting value$"):
        decode_json("\n", "here")
