"""Writes compat_matrix/memory.toml from the memory facts and scripts/memory_extra.toml.

Usage: ``python scripts/derive_memory.py --facts DIR [--out compat_matrix] [--check]``
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.matrix_format import render_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ROOT = Path(__file__).resolve().parent.parent
_EXTRA = Path(__file__).resolve().parent / "memory_extra.toml"
_NAME = "memory.toml"
_HEADER = """Formulas of the memory planner, what other estimators get wrong, and typical shapes.
Derived by scripts/derive_memory.py; every expression is plain arithmetic and gives bytes unless
its row names another unit."""

# Array of the facts -> field that holds an expression -> suffix of the formula's id. The suffix is
# empty where the array's rows hold one formula each.
_EXPRESSIONS = {
    "ds_estimator": {"gpu_expr": ".gpu", "cpu_expr": ".cpu"},
    "model_states": {"per_gpu_expr": "", "live_params_expr": ".live_params"},
    "activation": {"per_layer_expr": "", "total_expr": ""},
    "gpu_overhead": {"expr": ""},
    "ds_default": {"gpu_bytes_expr": ".gpu_bytes", "hf_auto_expr": ".hf_auto"},
    "host_load": {
        "anon_per_rank_expr": ".anon",
        "peak_rss_per_rank_expr": ".peak",
        "filecache_per_node_expr": ".filecache",
        "rank0_expr": ".rank0",
    },
    "host_save": {
        "per_rank_expr": ".per_rank",
        "rank0_expr": ".rank0",
        "node_expr": ".node",
        "rank0_extra_expr": ".rank0_extra",
        "rank0_weights_expr": ".rank0_weights",
        "rank0_optimizer_expr": ".rank0_optimizer",
        "gpu_transient_expr": ".gpu_transient",
        "gpu_per_rank_expr": ".gpu",
        "files_expr": ".files",
    },
    "consolidate": {
        "anon_expr": ".anon",
        "file_mapped_expr": ".file_mapped",
        "peak_rss_expr": ".peak",
        "disk_expr": ".disk",
    },
    "offload": {
        "per_rank_expr": ".per_rank",
        "pinned_expr": ".pinned",
        "pinned_rounded_expr": ".pinned_rounded",
        "node_expr": ".node",
        "node_min_expr": ".node_min",
    },
    "pinned": {"expr": ""},
}
# How a row of the facts came to be known -> the confidence of the matrix.
_CONFIDENCE = {
    "measured": "observed",
    "issue": "observed",
    "code": "script",
    "derived": "script",
    "doc": "doc",
    "paper": "doc",
}
_WORDS = ("api", "path", "what", "function", "breakdown", "applies", "per", "points", "accounting")


class FactsError(ValueError):
    """The facts hold something that this program has no place for."""


def derive_memory(facts: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    """The text of the table.

    Args:
        facts: The memory facts, decoded.
        extra: Formulas beside them, decoded.

    Raises:
        FactsError: A row has no expression that is known here, or an id stands twice.
    """
    formulas = [*_formulas(facts), *(_extra_row(row) for row in extra["formula"])]
    ids = [str(row["id"]) for row in formulas]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise FactsError(f"formulas stated twice: {', '.join(twice)}")
    arrays = {
        "formula": formulas,
        "wrong_estimator": [_wrong(row) for row in facts["known_wrong"] if _is_about_memory(row)],
        "accounting": [_accounting(row) for row in facts["accounting"]],
        "measurement": [_measurement(row) for row in facts["measurement"]],
        "typical": [{**row, "source": _keys(row["source"]), **_DOC} for row in extra["typical"]],
    }
    sources = {
        key: _address(text) for key, text in {**facts["sources"], **extra["sources"]}.items()
    }
    return render_table(_HEADER, {}, arrays, sources, str(facts["collected"]))


_DOC = {"confidence": "doc"}


def _formulas(facts: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    for array in _EXPRESSIONS:
        for row in facts[array]:
            yield from _from_row(array, row)
    for row in facts["optimizer"]:
        yield {
            "id": f"optimizer.{row['id']}",
            "group": "optimizer",
            "expr": f"{row['state_bytes']}*Pt",
            **_about(row),
        }
    for row in facts["host_baseline"]:
        yield {
            "id": row["id"],
            "group": "host_baseline",
            "expr": str(row["bytes_per_rank"]),
            **_about(row),
        }


def _from_row(array: str, row: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    name = _id(array, row)
    found = False
    for field, suffix in _EXPRESSIONS[array].items():
        if field in row:
            found = True
            yield {"id": f"{name}{suffix}", "group": array, "expr": row[field], **_about(row)}
    if array == "ds_default" and isinstance(row["value"], int):
        found = True
        about = {**_about(row), "unit": "elements"}
        yield {"id": name, "group": array, "expr": str(row["value"]), **about}
    if array == "gpu_overhead" and not found:
        found = True
        yield {"id": name, "group": array, **_overhead(row), **_about(row)}
    if not found and name not in {"hf_llama_lora", "ds_default.overlap_comm"}:
        raise FactsError(f"{array}: {name} has no expression")


def _overhead(row: Mapping[str, Any]) -> dict[str, object]:
    if "fraction_typical" in row:
        return {
            "low": "0*allocated",
            "expr": f"{row['fraction_typical']}*allocated",
            "high": f"{row['fraction_max']}*allocated",
        }
    return {
        "low": str(row["bytes_min"]),
        "expr": str(row["bytes_typical"]),
        "high": str(row["bytes_max"]),
    }


def _id(array: str, row: Mapping[str, Any]) -> str:
    if array == "ds_estimator":
        return f"ds_{row['id']}"
    return f"ds_default.{row['key']}" if array == "ds_default" else str(row["id"])


def _about(row: Mapping[str, Any]) -> dict[str, object]:
    evidence = row.get("evidence", "code")  # the table of defaults names its source files only
    certainty = str(row.get("confidence", "high")).replace("certain", "high")
    words = "; ".join(str(row[word]) for word in _WORDS if word in row)
    about: dict[str, object] = {"what": words, "evidence": evidence, "certainty": certainty}
    about.update({key: str(row[key]) for key in ("measured", "note") if key in row})
    return {**about, "confidence": _CONFIDENCE[evidence], "source": _keys(row["source"])}


def _extra_row(row: Mapping[str, Any]) -> dict[str, object]:
    shapes = ("expr", "low", "high", "rounded", "moment", "part_of", "unit")
    kept = {key: row[key] for key in shapes if key in row}
    return {"id": row["id"], "group": "plan", **kept, **_about(row)}


def _is_about_memory(row: Mapping[str, Any]) -> bool:
    """The facts list one wrong rule about exit codes among the estimators."""
    return "exit -11" not in row["tool"]


def _wrong(row: Mapping[str, Any]) -> dict[str, object]:
    kept = {key: row[key] for key in ("tool", "claim", "reality", "why")}
    return {**kept, "confidence": "observed", "source": _keys(row["source"])}


def _accounting(row: Mapping[str, Any]) -> dict[str, object]:
    kept = {key: row[key] for key in ("id", "fact", "rule")}
    return {**kept, "confidence": _CONFIDENCE[row["evidence"]], "source": _keys(row["source"])}


def _measurement(row: Mapping[str, Any]) -> dict[str, object]:
    kept = {key: row[key] for key in ("id", "what", "result")}
    return {**kept, "confidence": "observed", "source": _keys(row["source"])}


def _keys(text: str) -> list[str]:
    return [key.strip() for key in text.split(";")]


def _address(text: str) -> str:
    """A source without the place of the scripts that measured it and the numbers of a search."""
    kept = "; ".join(part for part in text.split("; ") if "scripts in" not in part)
    return re.sub(r",? find_string| \(ids [0-9, ]+\)", "", kept)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 done or up to date, 1 differs, 2 wrong usage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=Path, default=os.environ.get("ENVGUARD_FACTS"))
    parser.add_argument("--out", type=Path, default=_ROOT / "compat_matrix")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when it differs")
    options = parser.parse_args(arguments)
    if options.facts is None:
        parser.error("--facts DIR or ENVGUARD_FACTS is needed")
    try:
        facts = tomllib.loads((Path(options.facts) / _NAME).read_text(encoding="utf-8"))
        text = derive_memory(facts, tomllib.loads(_EXTRA.read_text(encoding="utf-8")))
    except (OSError, ValueError) as err:
        parser.error(str(err))
    target = options.out / _NAME
    if target.is_file() and target.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print(f"{_NAME} differs from what the facts give")
        return 1
    target.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {_NAME}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
