"""Derives ``deepspeed.toml`` from the facts: releases, ops, the comparison of toolkits."""

from __future__ import annotations

import re
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

from scripts.extensions_sources import SourceBook, Words, WordsError
from scripts.matrix_format import render_table

Row = dict[str, Any]

_WRITTEN_BY = "Written by scripts/derive_extensions.py."
# The comparison lists these for CUDA 10 and 11 in every release.
_ALWAYS = {10: "10.0 10.1 10.2", 11: "11.0 11.1 11.2 11.3 11.4 11.5 11.6 11.7 11.8"}
_WINDOWS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def derive_deepspeed(facts: Row, words: Words) -> str:
    """The text of ``deepspeed.toml``.

    Args:
        facts: Decoded ``extensions.toml`` with corrections applied.
        words: Wording.

    Raises:
        WordsError: Facts and wording do not match.
    """
    section, book = facts["deepspeed"], SourceBook(words)
    windows = _WINDOWS.findall(section["distribution"].partition("Windows")[2])
    arrays = {
        "release": [_release(fact, book, windows) for fact in section["release"]],
        "mixing": [
            book.named({"major": major, "minors": minors}, "ds-builder", "script")
            for major, minors in _ALWAYS.items()
        ],
        "imported": _imported(section["import_test"], book),
        "op": _ops(section["ops"]["op"], words.data["deepspeed"]["op"], book),
        "feature": [
            _feature(fact, book) for fact in section["compute_capability"]["torch_feature_min"]
        ],
        "note": _notes(section, words, book),
    }
    arrays["release"].sort(key=lambda row: Version(row["version"]))
    scalars = {"name": "deepspeed", "releases": "all", "source_only": True}
    header = f"{words.data['deepspeed']['header']}\n{_WRITTEN_BY}"
    return render_table(header, scalars, arrays, book.addresses(), words.checked)


def _release(fact: Row, book: SourceBook, windows: list[str]) -> Row:
    requirements = [Requirement(text) for text in fact["requires"]]
    minors = fact["cuda_minor_ok12"]
    row: Row = {
        "version": fact["version"],
        "released": fact["date"],
        "requires": {r.name.lower(): str(r.specifier) for r in requirements},
        "minors": "" if minors == "none" else " ".join(minors),
        "skip_variable": fact["skip_cuda_check_env"],
    }
    if fact["version"] in windows:
        row["windows_wheel"] = True
    for field, to in (("ci_torch", "tested"), ("ci_presets", "presets")):
        if field in fact:
            row[to] = " ".join(text.replace("/", "+") for text in fact[field])
    if "python_classifiers" in fact:
        row["classifiers"] = " ".join(fact["python_classifiers"])
    return book.finish(row, fact["source"])


def _imported(test: Row, book: SourceBook) -> list[Row]:
    rows: list[Row] = [{"version": version, "imports": True} for version in test["import_ok"]]
    for text in test["import_error"]:
        version, _, error = text.partition(": ")
        rows.append({"version": version, "imports": False, "error": error.split(" (/")[0].rstrip()})
    rows.sort(key=lambda row: Version(row["version"]))
    return [book.named(row, "ds-import-test", "observed") for row in rows]


def _ops(facts: list[Row], worded: list[Row], book: SourceBook) -> list[Row]:
    """Ops with what they need; the facts state most of it in prose.

    Raises:
        WordsError: The two lists are not about the same ops.
    """
    if len(facts) != len(worded):
        raise WordsError(f"deepspeed.ops: {len(facts)} facts, {len(worded)} rows of wording")
    for fact, row in zip(facts, worded, strict=True):
        if not all(name in fact["name"] for name in row["names"].split()):
            raise WordsError(f"deepspeed.ops: {row['names']!r} is not {fact['name']!r}")
    return [book.named(row, "ds-code", "script") for row in worded]


def _feature(fact: Row, book: SourceBook) -> Row:
    row: Row = {"feature": fact["feature"]}
    if "torch" in fact:
        row["torch"] = fact["torch"].split("/")[0]
    if "deepspeed" in fact:
        row["deepspeed"] = fact["deepspeed"]
    if "since" in fact:
        row["since"] = fact["since"]
    return book.named(row, "accelerate-code" if "deepspeed" in fact else "ds-code", "script")


def _notes(section: Row, words: Words, book: SourceBook) -> list[Row]:
    rows = []
    own = words.data["deepspeed"]
    for part in ("", "import_test", "cuda_check", "ops", "compute_capability"):
        facts = section[part] if part else section
        notes = own[part] if part else own["notes"]
        remarks = {k for k, v in facts.items() if isinstance(v, str)} - {"source", "confidence"}
        if remarks != set(notes):
            raise WordsError(
                f"deepspeed.{part}: remarks and wording differ: {remarks ^ set(notes)}"
            )
        source = "ds-import-test" if part == "import_test" else "ds-code"
        rows += [book.named({"topic": k, "text": notes[k]}, source, "doc") for k in notes]
    return rows
