"""Models by name and by size, and their shapes out of files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from envguard.errors import InputError
from envguard.memory.job import Recompute
from envguard.memory.model_files import load_model
from envguard.memory.plan import MemoryPhase, Side
from envguard.memory.public_models import find_public, guess_shape, shape_of
from tests.memory.jobs import job, lines, plan, table

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.matrix.memory import PublicModel


@pytest.mark.parametrize("row", table().models, ids=lambda row: row.name)
def test_every_row_counts_to_what_its_checkpoint_holds(row: PublicModel) -> None:
    shape = shape_of(row)
    assert shape.spread == 1
    assert row.params is None or shape.params == row.params


def test_the_families_that_people_tune_are_there() -> None:
    kinds = {str(row.config["model_type"]) for row in table().models}
    assert kinds >= {"llama", "qwen", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "llama4_text",
                     "mistral", "mixtral", "gemma", "gemma2", "gemma3", "phi3", "deepseek_v2",
                     "deepseek_v3", "glm4", "chatglm", "internlm2", "baichuan", "gpt_oss",
                     "qwen2_vl", "qwen2_5_vl", "whisper", "unet", "flux", "bert", "t5",
                     "mt5"}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("qwen/qwen2.5-7b-instruct", 7_615_616_512),
        ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", 7_615_616_512),
        ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248),
        ("Llama-2-7b-chat-hf", 6_738_415_616),
        ("openai/gpt-oss-20b", 20_914_757_184),
        ("gpt2", 124_439_808),
    ],
)
def test_names_of_the_hub_are_known(name: str, params: int) -> None:
    found = find_public(name, table())
    assert found is not None
    assert found.params == params
    assert any("quantised" in note for note in found.notes) == ("4bit" in name)


def test_a_name_that_is_not_known_is_refused_with_near_ones() -> None:
    with pytest.raises(InputError, match="neither a file nor a model") as caught:
        load_model("Qwen/Qwen9-1T", table())
    assert "Qwen/Qwen-1_8B" in (caught.value.hint or "")


def test_what_was_fetched_before_wins_over_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "models--Qwen--Qwen2.5-7B" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
              "n_positions": 1024, "vocab_size": 50257}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    assert load_model("Qwen/Qwen2.5-7B", table(), tmp_path).params == 124_439_808
    assert load_model("Qwen/Qwen2.5-7B", table()).params == 7_615_616_512


def test_a_name_never_leaves_the_cache(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a file"):
        load_model("../../etc/x", table(), tmp_path / "hub")


def write_header(path: Path, tensors: dict[str, list[int]]) -> None:
    rows = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}
            for name, shape in tensors.items()}  # fmt: skip
    text = json.dumps({"__metadata__": {"format": "pt"}, **rows}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


TENSORS = {
    "model.embed_tokens.weight": [1000, 64],
    "model.layers.0.mlp.up_proj.weight": [256, 64],
    "model.layers.1.mlp.up_proj.weight": [256, 64],
}


def test_a_safetensors_header_is_counted_and_gives_widths(tmp_path: Path) -> None:
    write_header(tmp_path / "model.safetensors", TENSORS)
    for path in (tmp_path / "model.safetensors", tmp_path):
        shape = load_model(path, table())
        assert shape.params == 1000 * 64 + 2 * 256 * 64
        assert (shape.vocab, shape.hidden, shape.ffn, shape.layers) == (1000, 64, 256, 2)


def test_the_files_of_a_checkpoint_are_put_together(tmp_path: Path) -> None:
    for index, (name, shape) in enumerate(TENSORS.items()):
        write_header(tmp_path / f"model-{index}.safetensors", {name: shape})
    assert load_model(tmp_path, table()).params == 1000 * 64 + 2 * 256 * 64


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin as a safetensors file"),
        (b"\xff" * 16, "does not begin as a safetensors file"),
        ((2).to_bytes(8, "little") + b"[]", "the header is no object"),
        ((2).to_bytes(8, "little") + b"{}", "holds no tensor"),
        ((11).to_bytes(8, "little") + b'{"a": null}', "expected a tensor"),
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(InputError, match=re.escape(message)):
        load_model(path, table())


def test_a_size_alone_spans_the_models_of_about_that_size() -> None:
    shape = guess_shape(7_000_000_000, table())
    assert {"DeepSeek-LLM-7B", "falcon-7b", "bloom-7b1"} <= {other.name for other in shape.others}
    assert any("--model says which" in note for note in shape.notes)
    wanted = job("zero3", params=7e9, seq_len=32768, recompute=Recompute.FULL)
    logits = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)["logits_16bit_model_hf_loss"].amount
    assert logits.likely == 14 * 32768 * shape.vocab
    assert logits.high == pytest.approx(14 * 32768 * 250880)
    assert logits.low == pytest.approx(14 * 32768 * 49152)


def test_encoders_and_decoders_together_are_meant_by_their_own_size_only() -> None:
    assert guess_shape(12_900_000_000, table()).vocab == 250112  # mt5-xxl and mt0-xxl
    assert guess_shape(12_700_000_000, table()).vocab != 250112


def test_what_a_family_keeps_unmodelled_is_named() -> None:
    shape = find_public("stabilityai/stable-diffusion-xl-base-1.0", table())
    assert shape is not None
    assert shape.unmodelled == ("activations of a convolutional network",)
