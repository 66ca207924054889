"""Parameters counted from shapes, against the totals of public checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from envguard.errors import InputError
from envguard.memory.model_config import count_model
from envguard.memory.model_files import load_model
from tests.memory.jobs import table

if TYPE_CHECKING:
    from pathlib import Path


# Shapes as in the config.json of the public checkpoints, and the checkpoints' parameters.
PUBLIC: dict[str, tuple[int, dict[str, Any]]] = {
    "Llama-2-7b": (
        6_738_415_616,
        {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "vocab_size": 32000, "tie_word_embeddings": False},
    ),
    "Meta-Llama-3-8B": (
        8_030_261_248,
        {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "vocab_size": 128256, "tie_word_embeddings": False},
    ),
    "Meta-Llama-3-70B": (
        70_553_706_496,
        {"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
         "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
         "vocab_size": 128256, "tie_word_embeddings": False},
    ),
    "Mistral-7B-v0.1": (
        7_241_732_096,
        {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "vocab_size": 32000, "tie_word_embeddings": False},
    ),
    "Mixtral-8x7B-v0.1": (
        46_702_792_704,
        {"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
         "tie_word_embeddings": False},
    ),
    "Qwen-7B": (  # its intermediate_size counts both halves of the gated MLP
        7_721_324_544,
        {"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016,
         "num_hidden_layers": 32, "num_attention_heads": 32, "kv_channels": 128,
         "vocab_size": 151936, "tie_word_embeddings": False},
    ),
    "Qwen2.5-7B": (
        7_615_616_512,
        {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
         "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
         "vocab_size": 152064, "tie_word_embeddings": False},
    ),
    "Qwen2.5-0.5B": (
        494_032_768,
        {"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
         "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
         "vocab_size": 151936, "tie_word_embeddings": True},
    ),
    "Qwen3-30B-A3B": (
        30_532_122_624,
        {"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
         "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
         "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
         "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
         "vocab_size": 151936, "tie_word_embeddings": False},
    ),
    "DeepSeek-V2-Lite": (
        15_706_484_224,
        {"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
         "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
         "num_key_value_heads": 16, "n_shared_experts": 2, "n_routed_experts": 64,
         "num_experts_per_tok": 6, "first_k_dense_replace": 1, "q_lora_rank": None,
         "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
         "v_head_dim": 128, "vocab_size": 102400, "tie_word_embeddings": False},
    ),
    "gpt2": (
        124_439_808,
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
         "vocab_size": 50257},
    ),
    "gpt-j-6b": (
        6_050_882_784,
        {"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": None,
         "n_positions": 2048, "vocab_size": 50400, "tie_word_embeddings": False},
    ),
    "falcon-7b": (
        6_921_720_704,
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
         "num_attention_heads": 71, "multi_query": True, "parallel_attn": True, "bias": False,
         "new_decoder_architecture": False, "vocab_size": 65024},
    ),
    "opt-125m": (
        125_239_296,
        {"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12,
         "num_attention_heads": 12, "max_position_embeddings": 2048, "vocab_size": 50272,
         "word_embed_proj_dim": 768},
    ),
    "gemma-2-2b": (
        2_614_341_888,
        {"model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216,
         "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "vocab_size": 256000},
    ),
    "t5-small": (
        60_506_624,
        {"model_type": "t5", "d_model": 512, "d_ff": 2048, "d_kv": 64, "num_heads": 8,
         "num_layers": 6, "num_decoder_layers": 6, "vocab_size": 32128,
         "feed_forward_proj": "relu"},
    ),
    "t5-v1_1-xl": (
        2_849_757_184,
        {"model_type": "t5", "d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32,
         "num_layers": 24, "num_decoder_layers": 24, "vocab_size": 32128,
         "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "bart-large": (
        406_291_456,
        {"model_type": "bart", "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12,
         "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "encoder_attention_heads": 16,
         "decoder_attention_heads": 16, "max_position_embeddings": 1024, "vocab_size": 50265},
    ),
    "Qwen2-VL-7B-Instruct": (
        8_291_375_616,
        {"model_type": "qwen2_vl", "hidden_size": 3584, "intermediate_size": 18944,
         "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
         "vocab_size": 152064, "tie_word_embeddings": False,
         "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4,
                           "in_chans": 3, "patch_size": 14, "spatial_merge_size": 2,
                           "temporal_patch_size": 2}},
    ),
    "llava-1.5-7b-hf": (
        7_063_427_072,
        {"model_type": "llava", "tie_word_embeddings": False,
         "text_config": {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
                         "num_hidden_layers": 32, "num_attention_heads": 32,
                         "num_key_value_heads": 32, "vocab_size": 32064},
         "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024,
                           "image_size": 336, "intermediate_size": 4096,
                           "num_attention_heads": 16, "num_hidden_layers": 24,
                           "patch_size": 14}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_public_models_are_counted_exactly(name: str) -> None:
    total, config = PUBLIC[name]
    shape = count_model(config, "config.json")
    assert shape.params == total
    assert shape.spread == 1.0


def test_the_widths_that_memory_depends_on_are_read() -> None:
    shape = count_model(PUBLIC["Qwen3-30B-A3B"][1], "config.json")
    assert (shape.hidden, shape.layers, shape.heads, shape.kv_heads) == (2048, 48, 32, 4)
    assert shape.ffn == 8 * 768  # what one token passes
    assert shape.largest_module == 151936 * 2048 or shape.largest_module == 128 * 2 * 768 * 2048


def test_a_vision_tower_is_counted_apart() -> None:
    vision = count_model(PUBLIC["llava-1.5-7b-hf"][1], "config.json").vision
    assert vision is not None
    assert vision.params == 303_507_456 + 20_979_712  # CLIP ViT-L/14-336 and the projector
    assert vision.tokens == 576


def test_adapters_of_rank_16_on_a_7b_are_forty_million() -> None:
    shape = count_model(PUBLIC["Llama-2-7b"][1], "config.json")
    assert 16 * shape.lora_all == 39_976_960
    assert 16 * shape.lora_qv == 8_388_608


def test_an_unknown_architecture_widens_the_range_and_names_its_fields() -> None:
    config = {**PUBLIC["Llama-2-7b"][1], "model_type": "frobnicate"}
    shape = count_model(config, "config.json")
    assert shape.params == 6_738_415_616
    assert shape.spread > 1.1
    notes = " ".join(shape.notes)
    assert "'frobnicate' is not known" in notes
    assert "num_hidden_layers" in notes
    assert "intermediate_size" in notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers: is missing"),
        ({"hidden_size": -4096}, "hidden_size: -4096 is not between"),
        ({"hidden_size": 0}, "hidden_size: 0 is not between"),
        ({"hidden_size": 4096.5}, "hidden_size: expected a whole number, found 4096.5"),
        ({"hidden_size": "4096"}, "hidden_size: expected a whole number, found '4096'"),
        ({"hidden_size": True}, "hidden_size: expected a whole number"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers: 1000000000000 is not between"),
        ({"vocab_size": None}, "vocab_size: is missing"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings: expected true or false"),
        ({"model_type": 7}, "model_type: expected a text"),
        ({"vision_config": 7, "text_config": 3}, "text_config: expected an object"),
    ],
)
def test_a_bad_field_is_named(changes: dict[str, object], message: str) -> None:
    config = {**PUBLIC["Llama-2-7b"][1], **changes}
    with pytest.raises(InputError, match=f"config.json: {message}"):
        count_model(config, "config.json")


def test_a_field_of_an_inner_object_is_named_with_its_path() -> None:
    config = json.loads(json.dumps(PUBLIC["llava-1.5-7b-hf"][1]))
    del config["text_config"]["num_attention_heads"]
    with pytest.raises(InputError, match=r"config.json: text_config.num_attention_heads: is miss"):
        count_model(config, "config.json")


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLIC["gpt2"][1]))
    assert load_model(tmp_path, table()).params == 124_439_808


def test_a_file_of_two_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(2 * 1024**3)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        load_model(path, table())


@pytest.mark.parametrize("text", ["[1]", "{", "nonsense", '"text"', ""])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        load_model(path, table())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: cannot be read: no such file"):
        load_model(tmp_path / "none.json", table())


def test_an_index_gives_parameters_and_layers(tmp_path: Path) -> None:
    names = {f"model.layers.{i}.mlp.up_proj.weight": "a.safetensors" for i in range(28)}
    index = {"metadata": {"total_parameters": 7_615_616_512, "total_size": 15_231_233_024},
             "weight_map": names}  # fmt: skip
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    shape = load_model(path, table())
    assert (shape.params, shape.layers, shape.is_guess) == (7_615_616_512, 28, True)


def test_an_index_without_parameters_is_taken_as_two_bytes_an_element(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    index = {"metadata": {"total_size": 13_476_831_232}, "weight_map": {"a": "b"}}
    path.write_text(json.dumps(index))
    shape = load_model(path, table())
    assert shape.params == 6_738_415_616
    assert any("2 bytes an element" in note for note in shape.notes)


@pytest.mark.parametrize("metadata", [None, {}, {"total_size": -1}, {"total_size": "much"}])
def test_an_index_without_a_size_is_refused(tmp_path: Path, metadata: object) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": metadata, "weight_map": {"a": "b"}}))
    with pytest.raises(InputError, match="metadata"):
        load_model(path, table())
