from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.derive_matrix import main
from scripts.matrix_early import EarlyError, with_early
from scripts.matrix_format import render_table
from scripts.matrix_words import Words, WordsError
from tests.matrix.conftest import ROOT

if TYPE_CHECKING:
    from tests.matrix.conftest import Break

FACTS = os.environ.get("ENVGUARD_FACTS", "")
TABLES = ("drivers", "gpus", "index", "manifest", "toolkits", "torch", "torch_libs", "uv")
needs_facts = pytest.mark.skipif(
    not (Path(FACTS) / "torch_cuda.toml").is_file() or not FACTS,
    reason="ENVGUARD_FACTS names no folder of facts",
)


@needs_facts
def test_the_tables_are_what_the_facts_give() -> None:
    assert main(["--facts", FACTS, "--check"]) == 0


@needs_facts
def test_a_table_that_was_edited_is_reported(
    broken: Break, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken("drivers.toml", "525.60.13", "525.60.14")
    assert main(["--facts", FACTS, "--out", str(folder), "--check"]) == 1
    assert capsys.readouterr().out == "drivers.toml differs from what the facts give\n"


@needs_facts
def test_writing_restores_an_edited_table(broken: Break) -> None:
    folder = broken("drivers.toml", "525.60.13", "525.60.14")
    assert main(["--facts", FACTS, "--out", str(folder)]) == 0
    assert main(["--facts", FACTS, "--out", str(folder), "--check"]) == 0


def test_facts_that_are_not_there_are_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--facts", str(tmp_path), "--check"])
    assert exit_.value.code == 2
    assert "torch_cuda.toml" in capsys.readouterr().err


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_in_canonical_form(name: str) -> None:
    text = (ROOT / "compat_matrix" / f"{name}.toml").read_text(encoding="utf-8")
    data: dict[str, Any] = tomllib.loads(text)
    sources = data.pop("sources", {})
    arrays = {key: rows for key, rows in data.items() if isinstance(rows, list) and _are_rows(rows)}
    scalars = {key: value for key, value in data.items() if key not in arrays}
    header = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    addresses = {key: source["url"] for key, source in sources.items()}
    checked = next((source["checked"] for source in sources.values()), "")
    assert render_table(header, scalars, arrays, addresses, checked) == text


def _are_rows(items: list[object]) -> bool:
    return all(isinstance(item, dict) for item in items)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_names_no_registry_host_and_no_private_place(name: str) -> None:
    text = (ROOT / "compat_matrix" / f"{name}.toml").read_text(encoding="utf-8")
    assert re.findall(r'pypi\.|hosted\.|find_string|research|"/', text) == []


def test_rows_are_written_one_a_line_and_words_as_one_text() -> None:
    text = render_table(
        "A table.",
        {"schema_version": 1},
        {"build": [{"torch": ["2.0.0", "2.0.1"], "windows": [1, 2], "ptx_known": False}]},
        {"page": "https://docs.example/a"},
        "2026-11-29",
    )
    assert text == (
        "# A table.\n"
        "schema_version = 1\n"
        "build = [\n"
        '  { torch = "2.0.0 2.0.1", windows = [1, 2], ptx_known = false },\n'
        "]\n"
        "[sources]\n"
        'page = { url = "https://docs.example/a", checked = "2026-11-29" }\n'
    )


def test_a_remark_without_wording_stops_the_derivation() -> None:
    words = Words({"notes": {"build": {"2.0.0 cu117": "short"}}, "sources": {}})
    assert words.note("build", "2.0.0 cu117", is_remarked=True) == "short"
    assert words.note("build", "2.1.0 cu121", is_remarked=False) == ""
    with pytest.raises(WordsError, match=r"2\.1\.0 cu121"):
        words.note("build", "2.1.0 cu121", is_remarked=True)


def test_wording_without_a_fact_is_reported() -> None:
    words = Words({"notes": {"build": {"a": "one", "b": "two"}}, "sources": {}})
    words.note("build", "a", is_remarked=True)
    assert words.unused() == ["build b"]


def test_sources_become_keys() -> None:
    words = Words({"sources": {"builder-2_0": "", "unsourced": "", "iss-95648": ""}})
    assert words.sources_of("builder-2.0 (windows); memory") == ["builder-2_0", "unsourced"]
    assert words.sources_of("pytorch/pytorch issue #95648 prints it") == ["iss-95648"]
    with pytest.raises(WordsError, match="rumour"):
        words.sources_of("builder-2.0; rumour")


def test_early_facts_stand_in_front_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "early.toml"
    path.write_text('torch = [{ version = "1.0.0" }]\nnvcc_targets = [{ cuda = "8.x" }]\n')
    facts = {"torch": [{"version": "1.12.0"}], "meta": {"read_on": "2026-11-29"}}
    assert with_early(facts, path) == {
        "torch": [{"version": "1.0.0"}, {"version": "1.12.0"}],
        "meta": {"read_on": "2026-11-29"},
    }
    with pytest.raises(EarlyError, match=r"early\.toml: torch: .*1\.0\.0.* already"):
        with_early({"torch": [{"version": "1.0.0", "released": "2018-12-07"}]}, path)


def test_every_early_release_has_its_builds_and_companions() -> None:
    early = with_early({"torch": [], "arch": [], "domain": []})
    companions = {(row["package"], row["version"]) for row in early["domain"]}
    for release in early["torch"]:
        variants = release["index_variants"]
        for platform in ("linux_x86_64", "win_amd64"):
            built = {
                variant
                for row in early["arch"]
                if release["version"] in row["torch"] and row["platform"] == platform
                for variant in row["variants"]
            }
            assert {"cpu", *built} == set(variants[platform]), (release["version"], platform)
        for package in ("torchvision", "torchaudio"):
            assert {(package, version) for version in release[package]} <= companions
