from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.errors import DocumentError, InputError
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.environment import BuildOrigin
from envguard.facts.facts import Facts, facts_document
from envguard.facts.versions import CudaVersion
from envguard.ingest.detect import load_text
from tests.ingest.samples import REPORTS, load, report

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [path for path in REPORTS if path.suffix in {".txt", ".md"}]


def names(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", REPORTS, ids=names)
def test_facts_of_every_sample_survive_their_document(path: Path) -> None:
    facts = load(path.name)
    assert from_dict(Facts, json.loads(json.dumps(to_dict(facts))), "x") == facts


@pytest.mark.parametrize("path", REPORTS, ids=names)
def test_windows_line_ends_change_nothing(path: Path) -> None:
    plain = report(path.name)
    assert load_text(plain.replace("\n", "\r\n"), "x") == load_text(plain, "x")


@pytest.mark.parametrize("path", TEXTS, ids=names)
def test_colours_change_nothing(path: Path) -> None:
    plain = report(path.name)
    coloured = "\n".join(f"\x1b[0;32m{line}\x1b[0m" for line in plain.split("\n"))
    assert load_text(coloured, "x") == load_text(plain, "x")


@pytest.mark.parametrize("path", TEXTS, ids=names)
def test_quotes_change_nothing(path: Path) -> None:
    plain = report(path.name)
    quoted = "\n".join(f"> {line}" for line in plain.split("\n"))
    assert load_text(quoted, "x") == load_text(plain, "x")


def without_lines(facts: Facts) -> Facts:
    """Words around a text move its lines, which nothing but the order depends on."""
    gaps = tuple(replace(g, detail="") if g.fact.endswith(".other") else g for g in facts.gaps)
    return replace(facts, taken_at="", gaps=gaps)


@pytest.mark.parametrize("path", TEXTS, ids=names)
def test_fences_prompts_and_prose_change_nothing(path: Path) -> None:
    plain = report(path.name)
    wrapped = (
        "Hello, I see this error. OS: Arch Linux btw\n\n<details>\n<summary>env</summary>\n\n"
        f"```bash\n(base) user@host:~$ some-command --flag\n{plain}\n```\n</details>\n\n"
        "(venv) C:\\Users\\me> exit\nThanks in advance!\n"
    )
    assert without_lines(load_text(wrapped, "x")) == without_lines(load_text(plain, "x"))


def test_several_reports_are_read_as_one() -> None:
    facts = load("github_issue.md")
    machine, environment = facts.machine, facts.environment
    assert environment is not None
    assert environment.torch is not None
    assert machine.driver.cuda == CudaVersion(12, 2)
    assert [gpu.name for gpu in machine.gpus or ()] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert [gpu.memory_bytes for gpu in machine.gpus or ()] == [81920 * 1024 * 1024] * 2
    assert environment.torch.origin is BuildOrigin.REPORT
    assert [d.name for d in environment.distributions or ()] == [
        "deepspeed",
        "numpy",
        "torch",
        "transformers",
    ]
    assert machine.toolkit.nvcc == CudaVersion(11, 8)
    assert facts.gap("machine.gpus") is None
    assert facts.gap("environment.distributions") is None


def test_facts_document_is_read_back() -> None:
    facts = load("collect_env_2_1_conda.txt")
    assert load_text(json.dumps(facts_document(facts)), "facts.json") == facts


def test_facts_document_with_a_byte_order_mark_is_read_back() -> None:
    facts = load("smi_550_table.txt")
    assert load_text("\ufeff" + json.dumps(facts_document(facts)), "facts.json") == facts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x.txt: is empty"),
        (" \n\t\n", "x.txt: is empty"),
        ("just some words\nand more\n", "x.txt: holds nothing that is understood"),
        ("GPU models and configuration: two of them\n", "holds nothing that is understood"),
        ("\x00\x01\x02" * 50, "holds nothing that is understood"),
        ("[]", "holds nothing that is understood"),
        ('[{"a": 1}]', "holds nothing that is understood"),
        ("<html><body>404</body></html>", "holds nothing that is understood"),
    ],
)
def test_other_content_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_text(text, "x.txt")
    assert "expected a facts document" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"kind": "facts"}',
        '{"kind": "facts", "schema_version": 99}',
        '{"kind": "facts", "schema_version": 1, "machine": 3}',
        '{"kind": "facts", "schema_version": 1, "machine": {"gpus": [{"index": "x"}]}}',
        '{"a":' * 20_000,
    ],
)
def test_damaged_documents_name_the_file(text: str) -> None:
    with pytest.raises(DocumentError, match=r"x\.json"):
        load_text(text, "x.json")


def test_a_large_text_is_refused_in_bounded_memory() -> None:
    text = "PyTorch version: 2.1.0\n" * (100 * 1024 * 1024 // 23)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"huge\.txt: larger than 64 MiB"):
            load_text(text, "huge.txt")
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_document_of_braces_is_refused_by_its_size() -> None:
    with pytest.raises(InputError, match="larger than 16 MiB"):
        load_text('{"a": [' + "{}," * (6 * 1024 * 1024), "x.json")
