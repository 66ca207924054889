"""None"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.errors import MatrixError
from envguard.matrix.loader import Matrix
from envguard.matrix.memory import Amount, Expression, MemoryTable
from envguard.matrix.reading import Document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3*4", 14.0),
        ("-2 + 7", 5.0),
        ("7 // 2", 3.0),
        ("7 / 2", 3.5),
        ("min(4, 3, 5)", 3.0),
        ("max(P, 2*N)", 10.0),
        ("ceil(2.1)", 3.0),
        ("pow2(5)", 8.0),
        ("pow2(8)", 8.0),
        ("pow2(0)", 0.0),
        ("P*max(4*N, 16)*1.5", 300.0),
    ],
)
def test_arithmetic_is_what_it_says(text: str, value: float) -> None:
    assert Expression.parse(text).evaluate({"P": 10.0, "N": 5.0}) == value


def test_names_are_what_an_expression_needs() -> None:
    assert Expression.parse("2*P + 18*P/N").names == {"P", "N"}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "P.real",
        "[P for P in (1,)]",
        "P ** 9",
        "P if N else 0",
        "lambda: 1",
        "open('x')",
        "max()",
        "max(*P)",
        "min(P, key=1)",
        "'text'",
        "True",
        "P < N",
        "P and N",
        "f(P)",
        "P[0]",
        "(P, N)",
        "x := 1",
        "",
        "2 +",
        "1j",
        "P" * 401,
        "+".join(["1"] * 100),
        "(" * 300 + "1" + ")" * 300,
    ],
)
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|arithmetic|none of|number|parts"):
        Expression.parse(text)


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(MatrixError, match="'2\\*P' needs P"):
        Expression.parse("2*P").evaluate({"N": 1.0})


@pytest.mark.parametrize("text", ["P/0", "P//0", "P*P*P*P*P*P"])
def test_a_value_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(MatrixError):
        Expression.parse(text).evaluate({"P": 1e70})


@given(st.floats(min_value=1, max_value=1e15))
def test_pow2_is_the_next_power_of_two(value: float) -> None:
    rounded = Expression.parse("pow2(x)").evaluate({"x": value})
    assert value <= rounded < 2 * value
    assert math.frexp(rounded)[0] == 0.5


@pytest.mark.parametrize("text", ["ceil(1, 2)", "pow2(1, 2)", "min(1)", "max(P)", "ceil()"])
def test_a_function_with_the_wrong_number_of_values_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"value|arithmetic"):
        Expression.parse(text)


TABLE = Matrix.load().memory
GIB = 2.0**30
# Any job gives all of these; the values only have to be sensible.
SYMBOLS = {
    "P": 7e9,
    "Pt": 7e9,
    "Pl": 5e8,
    "N": 8.0,
    "L": 8.0,
    "M": 1.0,
    "F": 1.5,
    "e": 2.0,
    "g": 2.0,
    "m": 4.0,
    "o": 8.0,
    "opt_temp": 0.0,
    "opt_temp_least": 0.0,
    "opt_temp_most": 4.0,
    "w": 4.0,
    "b": 1.0,
    "s": 2048.0,
    "h": 4096.0,
    "f": 14336.0,
    "a": 32.0,
    "kv": 8.0,
    "nl": 32.0,
    "V": 128256.0,
    "t": 1.0,
    "P_quantized": 6e9,
    "P_other": 1e9,
    "activations": 1e9,
    "allocated": 1e10,
    "allgather_bucket": 5e8,
    "base_bytes": 1.4e10,
    "frozen_bytes": 0.0,
    "grad_bytes": 2.0,
    "live_params": 0.0,
    "max_shard_size": 5e10,
    "n_shards": 1.0,
    "nominal": 8e10,
    "overlap_most": 1.0,
    "overlap": 0.0,
    "param_persistence_total": 1e6,
    "prefetch_bucket": 5e7,
    "ram": 5e11,
    "reduce_bucket": 5e8,
    "shards": 8.0,
    "size": 1e9,
    "stage3_max_live_parameters": 1e9,
    "state_bytes_of_this_rank": 1e10,
    "sub_group_size": 1e9,
    "unit_params": 2e8,
    "outside_share": 0.1,
    "P_quantizable": 6e9,
    "gpu_total": 8e10,
    "rollout_share": 0.3,
    "rollout_ranks": 1.0,
    "offloaded_activations": 5e9,
    "layer_bytes": 4e8,
    "outside_bytes": 1e9,
    "Pm": 6e7,
    "quant_scale": 0.0625,
    "reference_bytes": 1.4e10,
    "P_beside": 8e9,
    "lora_rank": 16.0,
    "lora_modules": 7.0,
    "lora_in": 38912.0,
    "lora_shared": 22528.0,
    "lora_out": 43008.0,
    "unit_trained": 2e8,
    "Pg": 5e8,
    "usable": 5e11,
    "value": 5e8,
    "vision_hidden": 1152.0,
    "vision_layers": 27.0,
    "vision_tokens": 729.0,
}


@pytest.mark.parametrize("formula", TABLE.formulas, ids=lambda f: f.id)
def test_every_formula_has_a_finite_value_and_an_ordered_range(formula: Any) -> None:
    for is_pinned in (False, True):
        amount = formula.evaluate(SYMBOLS, is_pinned=is_pinned)
        assert 0 <= amount.low <= amount.likely <= amount.high
        assert math.isfinite(amount.high)


@pytest.mark.parametrize("formula", TABLE.formulas, ids=lambda f: f.id)
def test_every_formula_names_a_source(formula: Any) -> None:
    assert formula.provenance.source.url
    assert formula.provenance.source.checked


def test_the_table_holds_all_groups_of_the_facts() -> None:
    groups = {formula.group for formula in TABLE.formulas}
    assert groups == {
        *("ds_estimator", "model_states", "optimizer", "activation", "gpu_overhead"),
        *("ds_default", "host_load", "host_baseline", "host_save", "consolidate"),
        *("offload", "pinned", "plan"),
    }


@pytest.mark.parametrize(
    ("group", "count"),
    [("model_states", 17), ("activation", 12), ("host_load", 8), ("host_save", 21)],
)
def test_every_row_of_the_facts_is_there(group: str, count: int) -> None:
    ids = {f.id.partition(".")[0] for f in TABLE.formulas if f.group == group}
    if group == "activation":
        ids.add("hf_llama_lora")  # two ratios, as formulas of their own
    assert len(ids) == count


@pytest.mark.parametrize(
    ("name", "gpu", "cpu"),
    [
        ("ds_zero2_offload_optimizer_cpu", 5.31, 127.45),
        ("ds_zero2_no_offload", 11.28, 127.45),
        ("ds_zero3_offload_param_and_optimizer_zero_init", 0.12, 71.69),
        ("ds_zero3_offload_param_and_optimizer_no_zero_init", 0.12, 127.45),
        ("ds_zero3_offload_optimizer_zero_init", 0.78, 63.72),
        ("ds_zero3_offload_optimizer_no_zero_init", 0.78, 127.45),
        ("ds_zero3_no_offload_zero_init", 6.09, 1.43),
        ("ds_zero3_no_offload_no_zero_init", 6.09, 127.45),
    ],
)
def test_deepspeeds_estimators_give_what_deepspeed_prints(
    name: str, gpu: float, cpu: float
) -> None:
    symbols = {**SYMBOLS, "P": 2851e6, "Pl": 32e6, "N": 8.0, "L": 8.0, "M": 1.0}
    assert round(TABLE.formula(f"{name}.gpu").evaluate(symbols).likely / GIB, 2) == gpu
    assert round(TABLE.formula(f"{name}.cpu").evaluate(symbols).likely / GIB, 2) == cpu


def test_deepspeeds_zero2_estimator_doubles_wrongly_with_nodes() -> None:
    symbols = {**SYMBOLS, "P": 2851e6, "N": 16.0, "L": 8.0, "M": 2.0}
    value = TABLE.formula("ds_zero2_offload_optimizer_cpu.cpu").evaluate(symbols).likely
    assert round(value / GIB, 2) == 254.9


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [("ddp_mixed_precision_adam", 120.0), ("zero1_paper", 31.4), ("zero2_paper", 16.6),
     ("zero3_paper", 1.9)],
)  # fmt: skip
def test_the_zero_papers_figure_one(name: str, gigabytes: float) -> None:
    symbols = {**SYMBOLS, "P": 7.5e9, "N": 64.0}
    value = TABLE.formula(name).evaluate(symbols).likely / 1e9
    assert value == pytest.approx(gigabytes, abs=0.06)


def test_pinned_memory_is_rounded_as_it_was_measured() -> None:
    rounded = TABLE.formula("power_of_two_rounding").evaluate({"size": 33 * GIB})
    assert rounded.likely == 64 * GIB
    staging = TABLE.formula("zero12_offload.staging")
    symbols = {**SYMBOLS, "Pt": 9 * GIB, "N": 8.0}  # 2.25 GiB of two bytes an element
    assert staging.evaluate(symbols, is_pinned=False).likely == 2.25 * GIB
    assert staging.evaluate(symbols, is_pinned=True).likely == 4 * GIB


def test_parts_add_up_to_the_total_they_are_parts_of() -> None:
    symbols = {**SYMBOLS, "N": 4.0, "shards": 4.0}
    parts = ("zero2.weights", "zero2.gradients", "zero12.master", "zero12.optimizer")
    total = sum(TABLE.formula(name).evaluate(symbols).likely for name in parts)
    fp32_gradients = 4 * 7e9 / 4
    whole = TABLE.formula("zero2_deepspeed").evaluate(symbols).likely
    assert total + fp32_gradients == whole
    fsdp = ("fsdp.weights", "fsdp.gradients", "fsdp.optimizer")
    shards = {**symbols, "g": 4.0}
    assert sum(TABLE.formula(n).evaluate(shards).likely for n in fsdp) == 16 * 7e9 / 4


def test_every_total_that_a_part_names_is_there() -> None:
    ids = {formula.id for formula in TABLE.formulas} | {"hf_llama_lora"}
    assert {f.part_of for f in TABLE.formulas if f.part_of} - ids == set()


def test_an_unknown_formula_is_refused_by_name() -> None:
    with pytest.raises(MatrixError, match=r"memory.toml: formula: there is no 'zero4'"):
        TABLE.formula("zero4")


def test_amounts_add_and_scale_end_by_end() -> None:
    total = Amount(1, 2, 3) + Amount(10, 20, 30)
    assert total == Amount(11, 22, 33)
    assert total.times(2) == Amount(22, 44, 66)
    assert total.widened(0.5, 2) == Amount(5.5, 22, 66)


ROW = {"id": "x", "group": "plan", "expr": "P", "what": "", "evidence": "code", "source": "s",
       "confidence": "script"}  # fmt: skip


def broken(**changes: object) -> MemoryTable:
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not None}
    data = {
        "formula": [row],
        "wrong_estimator": [],
        "sources": {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}},
    }
    return MemoryTable(Document("memory.toml", data))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expr": "P**2"}, r"formula\[0\].expr: .*not arithmetic"),
        ({"expr": None}, r"formula\[0\].expr is missing"),
        ({"unit": "GB"}, r"formula\[0\].unit: 'GB' is none of bytes, elements"),
        ({"evidence": "hearsay"}, r"formula\[0\].evidence"),
        ({"source": "elsewhere"}, r"'elsewhere' is not among the sources"),
        ({"low": "import os"}, r"formula\[0\].low: .*not an expression"),
    ],
)
def test_a_broken_row_is_refused_by_place(changes: dict[str, object], message: str) -> None:
    with pytest.raises(MatrixError, match=message):
        broken(**changes)


def test_a_formula_stated_twice_is_refused() -> None:
    data = {
        "formula": [ROW, ROW],
        "wrong_estimator": [],
        "sources": {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}},
    }
    with pytest.raises(MatrixError, match=r"formula\[1\].id: 'x' is stated twice"):
        MemoryTable(Document("memory.toml", data))


def models(*rows: dict[str, object]) -> MemoryTable:
    document: dict[str, object] = {"formula": [], "wrong_estimator": []}
    stated: dict[str, object] = {
        "model": [{"name": "T", "source": "s", "confidence": "doc", **row} for row in rows],
        "sources": {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}},
    }
    return MemoryTable(Document("memory.toml", document), Document("models.toml", stated))


def test_a_model_is_words_of_its_configuration() -> None:
    words = "qwen2_vl hidden_size=8 tie_word_embeddings=true vision_config.depth=2"
    (found,) = models({"hub": "a/b c/d", "config": words}).models
    assert found.hub == ("a/b", "c/d")
    assert found.params is None
    assert found.config == {"model_type": "qwen2_vl", "hidden_size": 8,
                            "tie_word_embeddings": True, "vision_config": {"depth": 2}}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"hub": "a/b", "config": "llama hidden_size"}], r"model\[0\].config: .*is no field"),
        ([{"hub": "a/b", "config": "llama h=1 h.d=2"}], r"model\[0\].config: .*h is no object"),
        ([{"hub": "a/b", "config": "llama"}, {"hub": "A/B", "config": "llama"}],
         r"model\[1\].hub: 'A/B' is stated twice"),
    ],
)  # fmt: skip
def test_a_broken_model_is_refused_by_place(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(MatrixError, match=message):
        _ = models(*rows).models
