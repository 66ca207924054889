"""How model families differ in what holds parameters, one row a family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Bias(Enum):
    """Which attention projections carry a bias."""

    NONE = "none"
    QKV = "qkv"
    OUTPUT = "output"
    ALL = "all"
    CONFIG = "config"  # all, where attention_bias is true


class QkNorm(Enum):
    """Norms on queries and keys."""

    NONE = "none"
    HEAD = "head"  # one of a head's width each
    FULL = "full"  # one over all heads each


class Router(Enum):
    """What stands beside the experts of a layer."""

    PLAIN = "plain"
    SHARED_GATE = "shared-gate"  # a gate that weighs the shared expert
    BIASED = "biased"  # biases in the router and in every expert


@dataclass(frozen=True, slots=True)
class Family:
    """Traits of a decoder.

    Args:
        is_gated: The MLP has three matrices, not two.
        norms: Norms in a layer.
        norm_width: Parameters of a norm per unit of width: 1, or 2 with a bias, or 0.
        bias: Biases of the attention.
        mlp_bias: Biases in the MLP; None: where ``mlp_bias`` is true.
        qk_norm: Norms on queries and keys.
        position_offset: Learned positions and by how many their table exceeds the limit; None
            without a table.
        is_tied: The head is the embedding, where the configuration does not say.
        head_bias: The head has a bias.
        embedding_norm: A norm follows the embedding.
        router: Kind of router of experts.
        sinks: One learned sink a head.
    """

    is_gated: bool = True
    norms: int = 2
    norm_width: int = 1
    bias: Bias = Bias.CONFIG
    mlp_bias: bool | None = None
    qk_norm: QkNorm = QkNorm.NONE
    position_offset: int | None = None
    is_tied: bool = False
    head_bias: bool = False
    embedding_norm: bool = False
    router: Router = Router.PLAIN
    sinks: bool = False


_LLAMA = Family()
_QWEN2 = Family(bias=Bias.QKV)
_QWEN3 = Family(qk_norm=QkNorm.HEAD)
_GEMMA = Family(is_tied=True)
_GEMMA3 = Family(norms=4, qk_norm=QkNorm.HEAD, is_tied=True)
_GPT = Family(
    is_gated=False, norm_width=2, bias=Bias.ALL, mlp_bias=True, position_offset=0, is_tied=True
)
_GPTJ = Family(is_gated=False, norms=1, norm_width=2, bias=Bias.NONE, mlp_bias=True, head_bias=True)

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "ministral": _LLAMA,
    "mixtral": _LLAMA,
    "baichuan": _LLAMA,
    "internlm2": _LLAMA,
    "granite": _LLAMA,
    "phi3": _LLAMA,
    "smollm3": replace(_LLAMA, is_tied=True),
    "llama4_text": _LLAMA,
    "deepseek_v2": _LLAMA,
    "deepseek_v3": _LLAMA,
    "qwen2": _QWEN2,
    "qwen2_moe": replace(_QWEN2, router=Router.SHARED_GATE),
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "glm": _QWEN2,
    "glm4": replace(_QWEN2, norms=4),
    "chatglm": _QWEN2,
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norms=4),
    "gemma3_text": _GEMMA3,
    "olmo": replace(_LLAMA, norm_width=0),
    "olmo2": replace(_LLAMA, qk_norm=QkNorm.FULL),
    "olmoe": replace(_LLAMA, qk_norm=QkNorm.FULL),
    "cohere": replace(_LLAMA, norms=1, is_tied=True),
    "stablelm": replace(_LLAMA, norm_width=2, bias=Bias.CONFIG),
    "gpt_oss": Family(bias=Bias.ALL, router=Router.BIASED, sinks=True),
    "gpt2": _GPT,
    "gpt_bigcode": _GPT,
    "gpt_neo": replace(_GPT, bias=Bias.OUTPUT),
    "opt": replace(_GPT, position_offset=2),
    "bloom": replace(_GPT, position_offset=None, embedding_norm=True),
    "starcoder2": replace(_GPT, position_offset=None),
    "gpt_neox": replace(_GPT, position_offset=None, is_tied=False),
    "phi": replace(
        _GPT, norms=1, position_offset=None, is_tied=False, head_bias=True
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "falcon": Family(
        is_gated=False, norms=1, norm_width=2, bias=Bias.NONE, mlp_bias=False, is_tied=True
    ),
    "mpt": Family(is_gated=False, bias=Bias.NONE, mlp_bias=False, is_tied=True),
}  # fmt: skip
UNKNOWN = _LLAMA
