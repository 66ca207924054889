"""Writes compat_matrix/signals.toml from a facts file, or says that it would change.

Usage: ``python scripts/derive_signals.py --facts FILE [--out compat_matrix] [--check]``
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.matrix_format import render_table

_ROOT = Path(__file__).resolve().parent.parent
_HEADER = """What crashes leave behind: exit codes, launchers, signatures, phases, errors, evidence.
A signature's pattern is tried on lines that hold one of its literals; `proves` says how far it
proves `means` by itself.
Written by scripts/derive_signals.py."""
# A message that was seen is observed; one built from the program's own format was read there.
_WORDS = ("signals_words.toml", "signals_packages.toml")
_CONFIDENCE = {"live": "observed", "public": "observed", "source": "script"}


class SignalsError(ValueError):
    """Facts and wording do not match."""


def derive_signals(facts: dict[str, Any], words: dict[str, Any]) -> str:
    """The text of ``signals.toml``.

    Args:
        facts: Decoded facts about crashes.
        words: What :func:`load_words` gives.

    Raises:
        SignalsError: A signature without literals, wording without a fact, a source without
            an address.
    """
    addresses = {**facts["sources"], **words["sources"]}
    arrays = {
        "exit_code": [_exit_code(row) for row in facts["exit_code"]],
        "exit_plain": [_plain(row, "code means usual_causes") for row in facts["exit_plain"]],
        "launcher": [_launcher(row) for row in facts["launcher"]],
        "signature": _signatures(facts, words),
        "native_bug": [_native_bug(row) for row in words["native_bug"]],
        "phase": [_phase(row, words) for row in facts["phase"]],
        "save_marker": [_plain(row, "id observation means") for row in facts["save_marker"]],
        "xid": [_plain(row, "code meaning class action note") for row in facts["xid"]],
        "cuda_error": [
            _plain(r, "code name string class sticky note") for r in facts["cuda_error"]
        ],
        "nccl_error": [_plain(row, "code name string means") for row in facts["nccl_error"]],
        "discriminator": [
            _plain(row, "verdict exit_form decisive supporting against")
            for row in facts["discriminator"]
        ],
        "evidence_tool": [_plain(r, "name gives silent_when") for r in facts["evidence_tool"]],
    }
    used = {key for rows in arrays.values() for row in rows for key in row["source"]}
    strangers = sorted(used - set(addresses))
    if strangers:
        raise SignalsError(f"no address for sources: {', '.join(strangers)}")
    book = {key: addresses[key] for key in used}
    return render_table(_HEADER, {}, arrays, book, words["checked"])


def _sources(row: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in row["source"].replace(";", " ").split()))


def _plain(row: dict[str, Any], fields: str) -> dict[str, Any]:
    """The named fields of a row, where it states them, and its provenance."""
    sources = _sources(row)
    picked = {name: row[name] for name in fields.split() if row.get(name) not in ("", None)}
    confidence = "observed" if "here" in sources else "doc"
    return {**picked, "source": sources, "confidence": confidence}


def _exit_code(row: dict[str, Any]) -> dict[str, Any]:
    return _plain(row, "signal name unsigned means usual_causes phase_hint")


def _launcher(row: dict[str, Any]) -> dict[str, Any]:
    renamed = {**row, "truth": row["where_the_truth_is"]}
    return _plain(renamed, "name outer_code truth")


def _phase(row: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    plain = _plain(row, "id marks first_suspects")
    return {
        **{k: v for k, v in plain.items() if k not in {"source", "confidence"}},
        "codes": row["typical_codes"],
        "regex": row["log_regex"],
        "literals": words["phase_literals"][row["id"]],
        "source": plain["source"],
        "confidence": plain["confidence"],
    }


def _signatures(facts: dict[str, Any], words: dict[str, Any]) -> list[dict[str, Any]]:
    literals = {**words["literals"], **words["literals_replaced"]}
    names = {row["id"] for row in facts["signature"]}
    orphans = sorted((set(literals) | set(words["replaced"])) - names)
    bare = sorted(names - set(literals))
    if orphans or bare:
        raise SignalsError(f"wording without a signature: {orphans}; without literals: {bare}")
    rows = [
        {
            **row,
            "proves": row["confidence"],
            "regex": words["replaced"].get(row["id"], row["regex"]),
            "literals": literals[row["id"]],
            "source": f"{row['source']}; {words['source_joined'].get(row['id'], '')}",
        }
        for row in facts["signature"]
    ]
    return [_signature(row) for row in (*rows, *words["signature"])]


def _signature(row: dict[str, Any]) -> dict[str, Any]:
    fields = "id layer regex literals means phase proves next rules_out sample"
    picked = {name: row[name] for name in fields.split() if row.get(name) not in ("", None)}
    confidence = _CONFIDENCE[row["sample_from"]]
    return {**picked, "source": _sources(row), "confidence": confidence}


def _native_bug(row: dict[str, Any]) -> dict[str, Any]:
    fields = "id signal signature gpus when cause title text fix command"
    picked = {name: row[name] for name in fields.split() if name in row}
    confidence = _CONFIDENCE[row["sample_from"]]
    return {**picked, "source": _sources(row), "confidence": confidence}


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 done or up to date, 1 differs, 2 wrong usage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--facts", type=Path, default=os.environ.get("ENVGUARD_SIGNALS"))
    parser.add_argument("--out", type=Path, default=_ROOT / "compat_matrix")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when it differs")
    options = parser.parse_args(arguments)
    if options.facts is None:
        parser.error("--facts FILE or ENVGUARD_SIGNALS is needed")
    try:
        words = load_words()
        text = derive_signals(_load(Path(options.facts)), words)
    except (OSError, ValueError) as err:
        parser.error(str(err))
    target = options.out / "signals.toml"
    if target.is_file() and target.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print("signals.toml differs from what the facts give")
        return 1
    target.write_text(text, encoding="utf-8", newline="\n")
    print("wrote signals.toml")
    return 0


def load_words() -> dict[str, Any]:
    """The wording beside this program: sources and signatures of all its files."""
    first, *others = (_load(Path(__file__).with_name(name)) for name in _WORDS)
    for other in others:
        first["sources"] |= other["sources"]
        first["signature"] += other["signature"]
    return first


def _load(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
