"""Derives ``breaks.toml`` from the facts: combinations that are known to break."""

from __future__ import annotations

import re
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from scripts.extensions_sources import SourceBook, Words, WordsError
from scripts.matrix_format import render_table

Row = dict[str, Any]

_HEADER = """Combinations that are known to break.
`when`: all of it has to hold, each against a distribution, or against torch_cuda, python,
cuda_toolkit or platform. `any_of`: at least one has to. `predicate`: a condition that the checks
decide. `feature`: it bites only where that is used. `beside`: only together with that
distribution. `handled_by`: another check judges it with more detail. `shows`: signatures of a log
of which one says that it happened, together with all of `frames`.
Written by scripts/derive_extensions.py."""
_CONFIDENCE = {"certain": "script", "tested": "observed", "inferred": "inferred", "reported": "doc"}
_WORDED = ("scope", "cause", "title", "text")
_OPTIONAL = (
    "predicate",
    "feature",
    "beside",
    "fix",
    "alternative",
    "workaround",
    "handled_by",
    "shows",
    "frames",
    "note",
)


def derive_breaks(facts: Row, words: Words) -> str:
    """The text of ``breaks.toml``.

    Args:
        facts: Decoded ``extensions.toml`` with corrections applied.
        words: Wording.

    Raises:
        WordsError: A rule has no wording, or wording no rule.
    """
    worded = words.data["rule"]
    odd = {rule["id"] for rule in facts["rule"]} ^ set(worded)
    if odd:
        raise WordsError(f"rules and wording differ: {', '.join(sorted(odd))}")
    book = SourceBook(words)
    rows = [_break(rule, worded[rule["id"]], book) for rule in facts["rule"]]
    rows.sort(key=lambda row: row["id"])
    return render_table(_HEADER, {}, {"break": rows}, book.addresses(), words.checked)


def _break(rule: Row, worded: Row, book: SourceBook) -> Row:
    row: Row = {"id": rule["id"]}
    when = {
        name: cleaned
        for name, text in rule["when"].items()
        if (cleaned := _specifier(rule["id"], name, text)) is not None
    }
    row["when"] = {**when, **worded.get("when", {})}
    if "applies_to" in rule:
        row["any_of"] = {
            match[1]: match[2]
            for text in rule["applies_to"]
            if (match := re.fullmatch(r"([a-z0-9-]+)(.*)", text))
        }
    row.update({key: worded[key] for key in _WORDED})
    row.update({key: worded[key] for key in _OPTIONAL if key in worded})
    if "also" in rule and not {"predicate", "feature"} & set(worded):
        raise WordsError(f"{rule['id']}: its further condition is neither predicate nor feature")
    note = row.pop("note", None)
    done = book.named(row, worded["source"], _CONFIDENCE[rule["confidence"]])
    if rule["confidence"] == "reported":
        done["certainty"] = rule.get("certainty", "low")
    return {**done, "note": note} if note else done


def _specifier(rule: str, name: str, text: str) -> str | None:
    """A specifier without remarks; None where the facts state a condition in words."""
    if name == "platform":
        return {"win_amd64": "windows"}.get(text, text)
    cleaned = text.replace(" (PyPI wheel)", "").strip()
    if text.startswith(("see ", "!= nvcc")):
        return None
    cleaned = f"=={cleaned}" if cleaned[:1].isdigit() else cleaned
    try:
        SpecifierSet(cleaned)
    except InvalidSpecifier as err:
        raise WordsError(f"{rule}: {name}: {text!r} is no specifier") from err
    return cleaned
