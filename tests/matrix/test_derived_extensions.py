from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.derive_extensions import main
from scripts.extensions_breaks import derive_breaks
from scripts.extensions_corrections import apply_corrections
from scripts.extensions_packages import cuda_release
from scripts.extensions_sources import SourceBook, Words, WordsError
from scripts.matrix_format import render_table
from tests.matrix.conftest import ROOT

if TYPE_CHECKING:
    from tests.matrix.conftest import Break

FACTS = os.environ.get("ENVGUARD_FACTS", "")
FOLDER = ROOT / "compat_matrix"
TABLES = sorted(
    str(path.relative_to(FOLDER))
    for path in (*FOLDER.glob("packages/*.toml"), FOLDER / "deepspeed.toml", FOLDER / "breaks.toml")
)
needs_facts = pytest.mark.skipif(
    not (Path(FACTS) / "extensions.toml").is_file() or not FACTS,
    reason="ENVGUARD_FACTS names no folder of facts",
)


@needs_facts
def test_the_tables_are_what_the_facts_give() -> None:
    assert main(["--facts", FACTS, "--check"]) == 0


@needs_facts
def test_a_table_that_was_edited_is_reported_and_restored(
    broken: Break, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken("packages/vllm.toml", "==2.11.0", "==2.10.0")
    assert main(["--facts", FACTS, "--out", str(folder), "--check"]) == 1
    assert capsys.readouterr().out == "packages/vllm.toml differs from what the facts give\n"
    assert main(["--facts", FACTS, "--out", str(folder)]) == 0
    assert main(["--facts", FACTS, "--out", str(folder), "--check"]) == 0


def test_facts_that_are_not_there_are_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--facts", str(tmp_path), "--check"])
    assert exit_.value.code == 2


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_in_canonical_form(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    sources = data.pop("sources", {})
    arrays = {key: rows for key, rows in data.items() if isinstance(rows, list)}
    scalars = {key: value for key, value in data.items() if key not in arrays}
    header = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    addresses = {key: source["url"] for key, source in sources.items()}
    checked = next(source["checked"] for source in sources.values())
    assert render_table(header, scalars, arrays, addresses, checked) == text


@pytest.mark.parametrize("name", TABLES)
def test_a_table_names_no_registry_host_and_no_private_place(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert re.findall(r'pypi\.|hosted\.|find_string|\bresearch\b|"/', text) == []


RULE = {
    "id": "a-break",
    "package": "demo",
    "when": {"demo": "<2 (PyPI wheel)", "torch_cuda": "13.*", "platform": "win_amd64"},
    "confidence": "inferred",
}
WORDED = {
    "scope": "import",
    "cause": "a-cause",
    "title": "A title",
    "text": "A text.",
    "source": "page",
}


def words(**rules: object) -> Words:
    sources = {"page": "https://docs.example/", "wheel": "wheel"}
    return Words({"checked": "2026-11-29", "sources": sources, "rule": rules})


def test_conditions_become_specifiers() -> None:
    text = derive_breaks({"rule": [RULE]}, words(**{"a-break": WORDED}))
    (row,) = tomllib.loads(text)["break"]
    assert row["when"] == {"demo": "<2", "torch_cuda": "==13.*", "platform": "windows"}
    assert row["confidence"] == "inferred"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"id": "other"}, "rules and wording differ: a-break, other"),
        ({"when": {"demo": "the newest!"}}, "is no specifier"),
        ({"also": "it rains"}, "its further condition is neither predicate nor feature"),
    ],
)
def test_a_rule_that_does_not_match_its_wording_stops_the_derivation(
    rule: dict[str, object], message: str
) -> None:
    with pytest.raises(WordsError, match=message):
        derive_breaks({"rule": [{**RULE, **rule}]}, words(**{"a-break": WORDED}))


def test_a_remark_without_wording_stops_the_derivation() -> None:
    own = Words({"sources": {"wheel": "wheel"}, "demo": {"section": "demo", "notes": {"a": "A."}}})
    book = SourceBook(own)
    section: dict[str, object] = {"a": "remark", "source": "s", "release": [{"version": "1"}]}
    assert [row["topic"] for row in own.notes("demo", section, book)] == ["a"]
    with pytest.raises(WordsError, match="demo: remarks and wording differ: b"):
        own.notes("demo", {**section, "b": "another"}, book)


@pytest.mark.parametrize(
    ("text", "file", "key"),
    [
        ("wheel:demo-1.0-py3-none-any.whl!METADATA", "demo-1.0-py3-none-any.whl", "wheel"),
        ("git:owner/repo@v1.0:setup.py", "v1.0/setup.py", "github-owner-repo"),
        ("git:owner/repo@v1.0 ; index:demo", "v1.0", "github-owner-repo"),
    ],
)
def test_sources_become_files_and_keys(text: str, file: str, key: str) -> None:
    row = SourceBook(words()).finish({"version": "1.0"}, text)
    assert (row["file"], row["source"]) == (file, [key])


def test_a_source_of_unknown_form_stops_the_derivation() -> None:
    with pytest.raises(WordsError, match="no form for source 'hearsay'"):
        SourceBook(words()).finish({}, "hearsay")
    with pytest.raises(WordsError, match="no address for source 'hearsay'"):
        SourceBook(words()).named({}, "hearsay", "doc")


BEFORE: dict[str, Any] = {"rule": [], "demo": {"release": [{"version": "1.0", "torch": "==2.0"}]}}


def test_corrections_change_and_add_what_they_name() -> None:
    after = apply_corrections(
        BEFORE,
        {
            "change": [
                {"section": "demo", "version": "1.0", "field": "torch", "was": "==2.0", "is": ">=2"}
            ],
            "release": [{"section": "demo", "version": "1.1", "torch": ">=2.1"}],
            "rule": [{"id": "a"}],
        },
    )
    assert after["demo"]["release"] == [
        {"version": "1.0", "torch": ">=2"},
        {"version": "1.1", "torch": ">=2.1"},
    ]
    assert after["rule"] == [{"id": "a"}]
    assert BEFORE["demo"]["release"] == [{"version": "1.0", "torch": "==2.0"}]


def test_a_correction_of_what_is_not_there_any_more_stops_the_derivation() -> None:
    change = {"section": "demo", "version": "1.0", "field": "torch", "was": "==1.0", "is": ">=2"}
    with pytest.raises(WordsError, match=r"demo 1\.0: torch is not '==1\.0'"):
        apply_corrections(BEFORE, {"change": [change]})
    with pytest.raises(WordsError, match=r"demo 1\.0 is among the facts already"):
        apply_corrections(BEFORE, {"release": [{"section": "demo", "version": "1.0"}]})


@pytest.mark.parametrize(
    ("text", "cuda"),
    [("cu128", "12.8"), ("cuda102", "10.2"), ("cu92", "9.2"), ("12.8", "12.8"), ("12", "12")],
)
def test_a_label_of_a_build_names_its_cuda(text: str, cuda: str) -> None:
    assert cuda_release(text) == cuda
