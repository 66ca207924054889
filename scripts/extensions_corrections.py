"""Applies ``extensions_corrections.toml`` to the facts about packages."""

from __future__ import annotations

from typing import Any

from scripts.extensions_sources import WordsError

Row = dict[str, Any]


def apply_corrections(facts: Row, corrections: Row) -> Row:
    """The facts with further rules, changed fields and further releases.

    Args:
        facts: Decoded ``extensions.toml``.
        corrections: Decoded ``extensions_corrections.toml``: ``rule`` rows are added, a ``change``
            row states what a release's field was and is, a ``release`` row is a further release.

    Raises:
        WordsError: A correction is about no release, or what it corrects is not there any more.
    """
    done = {key: _copied(value) for key, value in facts.items()}
    done["rule"] = [*facts["rule"], *corrections.get("rule", [])]
    for change in corrections.get("change", []):
        _change(done, change)
    for release in corrections.get("release", []):
        section, row = release["section"], {k: v for k, v in release.items() if k != "section"}
        if any(known["version"] == row["version"] for known in done[section]["release"]):
            raise WordsError(f"{section} {row['version']} is among the facts already")
        done[section]["release"].append(row)
    return done


def _copied(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {k: [dict(r) for r in v] if _are_rows(v) else v for k, v in value.items()}


def _are_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _change(facts: Row, change: Row) -> None:
    section, version, field = change["section"], change["version"], change["field"]
    key = "change" if "change" in facts[section] else "release"
    rows = [row for row in facts[section][key] if row["version"] == version]
    if len(rows) != 1 or rows[0].get(field) != change.get("was"):
        raise WordsError(f"{section} {version}: {field} is not {change.get('was')!r}")
    if "is" in change:
        rows[0][field] = change["is"]
    else:
        del rows[0][field]
