from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.derive_memory import FactsError, derive_memory, main

FACTS = os.environ.get("ENVGUARD_FACTS", "")
needs_facts = pytest.mark.skipif(
    not (Path(FACTS) / "memory.toml").is_file() or not FACTS,
    reason="ENVGUARD_FACTS names no folder of facts",
)
ROW = {"source": "a; b", "evidence": "code", "confidence": "certain"}
EMPTY: dict[str, Any] = {
    name: []
    for name in (
        *("ds_estimator", "model_states", "optimizer", "activation", "gpu_overhead"),
        *("ds_default", "host_load", "host_baseline", "host_save", "consolidate", "offload"),
        *("pinned", "known_wrong", "accounting", "measurement"),
    )
}
SOURCES = {"collected": "2026-11-29", "sources": {"a": "docs; scripts in lab/", "b": "code"}}


def derived(**arrays: object) -> dict[str, Any]:
    facts = {**EMPTY, **SOURCES, **arrays}
    return tomllib.loads(derive_memory(facts, {"formula": [], "typical": [], "sources": {}}))


@needs_facts
def test_the_table_is_what_the_facts_give() -> None:
    assert main(["--facts", FACTS, "--check"]) == 0


def test_every_expression_of_a_row_becomes_a_formula() -> None:
    row = {"id": "save", "per_rank_expr": "e*P", "node_expr": "L*e*P", "path": "how", **ROW}
    rows = derived(host_save=[row])["formula"]
    assert [(r["id"], r["expr"], r["what"]) for r in rows] == [
        ("save.per_rank", "e*P", "how"),
        ("save.node", "L*e*P", "how"),
    ]
    assert rows[0]["certainty"] == "high"
    assert rows[0]["source"] == "a b"


def test_figures_become_expressions() -> None:
    optimizer = {"id": "lion", "state_bytes": 4.0, **ROW}
    context = {"id": "ctx", "bytes_min": 1, "bytes_typical": 2, "bytes_max": 3, **ROW}
    found = derived(optimizer=[optimizer], gpu_overhead=[context])["formula"]
    by_id = {row["id"]: row for row in found}
    assert by_id["optimizer.lion"]["expr"] == "4.0*Pt"
    assert [by_id["ctx"][key] for key in ("low", "expr", "high")] == ["1", "2", "3"]


def test_where_figures_were_measured_stays_out_of_the_sources() -> None:
    assert derived()["sources"]["a"]["url"] == "docs"


def test_a_row_without_expression_is_refused() -> None:
    with pytest.raises(FactsError, match="host_save: save has no expression"):
        derived(host_save=[{"id": "save", **ROW}])


def test_a_formula_twice_is_refused() -> None:
    row = {"id": "pin", "expr": "size", **ROW}
    with pytest.raises(FactsError, match="stated twice: pin"):
        derived(pinned=[row, row])
