"""Models: what holds parameters, counted from a configuration or guessed from a size."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.memory.config_fields import ConfigFields


@dataclass(frozen=True, slots=True)
class VisionTower:
    """The image encoder in front of a language model.

    Args:
        params: Its parameters, the projector included.
        hidden: Width of its layers.
        layers: Number of its layers.
        tokens: Patches of one image; an assumption where images may have any size.
    """

    params: int
    hidden: int
    layers: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model's parameters and the widths that activations depend on.

    Args:
        name: For people: the architecture, or what stands in for it.
        params: All parameters, shared ones once.
        largest_module: Parameters of the largest single module, usually the embedding.
        layer_params: Parameters of the largest decoder layer.
        hidden: Width of the residual stream.
        ffn: Width of the MLP that one token passes; with experts, the chosen ones together.
        layers: Number of layers, encoder and decoder together.
        heads: Attention heads.
        kv_heads: Key and value heads.
        vocab: Size of the vocabulary.
        kept_params: Embeddings, head and norms: what quantisation leaves in 16 bits.
        lora_all: Inputs plus outputs of all linear layers, the head apart, summed over layers.
        lora_qv: Likewise of the query and value projections only.
        is_gated: The MLP multiplies two projections (SwiGLU and its kin), norms without a mean.
        vision: The image encoder; None for text models.
        is_guess: Widths are a typical model's, only the size is known.
        spread: By what factor the parameters may be off either way; 1 is counted exactly.
        fields: Fields of the configuration that were used.
        notes: Remarks for the reader.
        largest_matrix: Parameters of the largest linear layer inside the decoder layers.
        outside: Parameters outside the decoder layers: embeddings, head, last norm.
        has_logits: The head gives a number for every token of the vocabulary.
        unmodelled: What of its memory no formula gives, in words.
        is_decoder: A decoder only, of text only.
        others: Where only the size is known, the shapes of other models of about that size.
    """

    name: str
    params: int
    largest_module: int
    layer_params: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    kept_params: int
    lora_all: int
    lora_qv: int
    is_gated: bool = True
    vision: VisionTower | None = None
    is_guess: bool = False
    spread: float = 1.0
    fields: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    largest_matrix: int = 0
    outside: int = 0
    has_logits: bool = True
    unmodelled: tuple[str, ...] = ()
    others: tuple[ModelShape, ...] = ()
    is_decoder: bool = False


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
        ffn_is_both: ``intermediate_size`` counts both halves of the gated MLP.
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
    ffn_is_both: bool = False


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
    "qwen": replace(_QWEN2, ffn_is_both=True),
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


# A family whose name is not in FAMILIES is counted like Llama; its own biases, norms or extra
# projections are a few per cent, and a gated MLP more or less a quarter.
UNKNOWN_SPREAD = 1.15


@dataclass(frozen=True, slots=True)
class Counted:
    """A decoder, counted.

    Args:
        params: All parameters.
        layer: Parameters of the largest layer.
        largest_module: Parameters of the largest single module.
        largest_matrix: Parameters of the largest linear layer.
        outside: Parameters outside the layers.
        kept: Embeddings, head, positions and norms.
        ffn: Width of the MLP that one token passes.
        lora_all: Inputs plus outputs of the linear layers, summed over layers.
        lora_qv: Likewise of query and value projections.
        family: The traits it was counted by.
        is_known: The family is a known one.
    """

    params: int
    layer: int
    largest_module: int
    largest_matrix: int
    outside: int
    kept: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    lora_all: int
    lora_qv: int
    family: Family
    is_known: bool


@dataclass(frozen=True, slots=True)
class _Attention:
    params: int
    largest: int
    lora_all: int
    lora_qv: int


@dataclass(frozen=True, slots=True)
class _Mlp:
    params: int
    ffn: int
    largest: int
    lora_all: int


def count_decoder(fields: ConfigFields, model_type: str, *, is_tied: bool | None = None) -> Counted:
    """Count a decoder-only model, its embeddings and head included.

    Args:
        fields: The configuration of the language model.
        model_type: Its family.
        is_tied: The head is the embedding; None where the configuration itself says.

    Raises:
        DocumentError: A field that the count needs is missing or absurd.
    """
    known = FAMILIES.get(model_type)
    family = _adapt(known or UNKNOWN, fields, model_type)
    family = family if is_tied is None else replace(family, is_tied=is_tied)
    hidden, layers = fields.count("hidden"), fields.count("layers")
    attention = _count_attention(fields, family, hidden, model_type)
    mlps = _count_mlps(fields, family, hidden, layers)
    norms = family.norms * family.norm_width * hidden
    per_layer = [attention.params + mlp.params + norms for mlp in mlps]
    vocab = fields.count("vocab")
    outside = _count_outside(fields, family, hidden, vocab)
    matrix = max(attention.largest, *(mlp.largest for mlp in mlps))
    return Counted(
        params=sum(per_layer) + outside,
        layer=max(per_layer),
        largest_module=max(vocab * hidden, matrix),
        largest_matrix=matrix,
        outside=outside,
        kept=outside + layers * norms,
        hidden=hidden,
        ffn=max(mlp.ffn for mlp in mlps),
        layers=layers,
        heads=fields.count("heads"),
        kv_heads=_kv_heads(fields, fields.count("heads"), model_type),
        vocab=vocab,
        lora_all=attention.lora_all * layers + sum(mlp.lora_all for mlp in mlps),
        lora_qv=attention.lora_qv * layers,
        family=family,
        is_known=known is not None,
    )


def _adapt(family: Family, fields: ConfigFields, model_type: str) -> Family:
    """Settle what a family leaves to its configuration."""
    if model_type == "falcon":
        return _adapt_falcon(family, fields)
    if model_type == "stablelm":
        qkv = fields.flag("use_qkv_bias", default=False)
        family = replace(family, bias=Bias.QKV if qkv else Bias.NONE)
    if model_type == "starcoder2" and not fields.flag("use_bias", default=True):
        family = replace(family, bias=Bias.NONE, mlp_bias=False)
    if family.bias is Bias.CONFIG:
        has_bias = fields.flag("attention_bias", default=False)
        family = replace(family, bias=Bias.ALL if has_bias else Bias.NONE)
    if family.mlp_bias is None:
        family = replace(family, mlp_bias=fields.flag("mlp_bias", default=False))
    return replace(family, is_tied=fields.flag("tie_word_embeddings", default=family.is_tied))


def _adapt_falcon(family: Family, fields: ConfigFields) -> Family:
    has_bias = fields.flag("bias", default=False)
    parallel = fields.flag("parallel_attn", default=True)
    two_norms = fields.flag("new_decoder_architecture", default=False) or not parallel
    return replace(
        family,
        norms=2 if two_norms else 1,
        bias=Bias.ALL if has_bias else Bias.NONE,
        mlp_bias=has_bias,
        is_tied=fields.flag("tie_word_embeddings", default=True),
    )


def _kv_heads(fields: ConfigFields, heads: int, model_type: str) -> int:
    if model_type == "falcon":
        if fields.flag("new_decoder_architecture", default=False):
            return fields.count("kv_heads", heads)
        return 1 if fields.flag("multi_query", default=True) else heads
    if model_type == "gpt_bigcode":
        return 1 if fields.flag("multi_query", default=True) else heads
    return fields.count("kv_heads", heads)


def _count_attention(
    fields: ConfigFields, family: Family, hidden: int, model_type: str
) -> _Attention:
    if fields.count_or_zero("kv_lora_rank"):
        return _count_latent_attention(fields, hidden)
    heads = fields.count("heads")
    head = fields.count("head_dim", max(1, hidden // heads))
    wide = heads * head
    narrow = _kv_heads(fields, heads, model_type) * head
    params = 2 * hidden * wide + 2 * hidden * narrow
    if family.bias in {Bias.QKV, Bias.ALL}:
        params += wide + 2 * narrow
    if family.bias in {Bias.OUTPUT, Bias.ALL}:
        params += hidden
    match family.qk_norm:
        case QkNorm.HEAD:
            params += 2 * head
        case QkNorm.FULL:
            params += wide + narrow
        case QkNorm.NONE:
            pass
    params += heads if family.sinks else 0
    qv = (hidden + wide) + (hidden + narrow)
    return _Attention(params, hidden * wide, qv + (hidden + narrow) + (wide + hidden), qv)


def _count_latent_attention(fields: ConfigFields, hidden: int) -> _Attention:
    """DeepSeek's attention: keys and values pass through a narrow latent."""
    heads = fields.count("heads")
    latent, rope = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    plain, value = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    query_latent = fields.count_or_zero("q_lora_rank")
    query_out = heads * (plain + rope)
    shapes = [(hidden, latent + rope), (latent, heads * (plain + value)), (heads * value, hidden)]
    if query_latent:
        shapes += [(hidden, query_latent), (query_latent, query_out)]
    else:
        shapes.append((hidden, query_out))
    params = sum(a * b for a, b in shapes) + latent + query_latent  # the latents have norms
    sides = sum(a + b for a, b in shapes)
    return _Attention(params, max(a * b for a, b in shapes), sides, hidden + query_out)


def _count_mlps(fields: ConfigFields, family: Family, hidden: int, layers: int) -> tuple[_Mlp, ...]:
    dense = _count_dense(fields, family, hidden)
    if not fields.count_or_zero("experts"):
        return (dense,) * layers
    sparse = _count_experts(fields, family, hidden)
    return tuple(sparse if _is_sparse(fields, i) else dense for i in range(layers))


def _is_sparse(fields: ConfigFields, index: int) -> bool:
    if index in fields.numbers("mlp_only_layers"):
        return False
    chosen = fields.numbers("moe_layers")
    if chosen:
        return index in chosen
    if index < fields.count_or_zero("first_k_dense_replace"):
        return False
    step = fields.count("interleave_moe_layer_step", 1)
    return (index + 1) % fields.count("decoder_sparse_step", step) == 0


def _count_dense(fields: ConfigFields, family: Family, hidden: int) -> _Mlp:
    width = fields.count("intermediate_size_mlp", 0) or fields.count("ffn", _wide(fields, hidden))
    width = width // 2 if family.ffn_is_both else width
    matrices = 3 if family.is_gated else 2
    params = matrices * hidden * width
    if family.mlp_bias:
        params += (matrices - 1) * width + hidden
    return _Mlp(params, width, hidden * width, matrices * (hidden + width))


def _wide(fields: ConfigFields, hidden: int) -> int:
    return hidden * fields.count("expansion_ratio", 4)


def _count_experts(fields: ConfigFields, family: Family, hidden: int) -> _Mlp:
    experts, width = fields.count("experts"), _expert_width(fields)
    params = experts * 3 * hidden * width + hidden * experts
    shared = _shared_width(fields, width)
    params += 3 * hidden * shared
    match family.router:
        case Router.SHARED_GATE:
            params += hidden
        case Router.BIASED:
            params += experts + experts * (2 * width + hidden)
        case Router.PLAIN:
            pass
    chosen = fields.count("chosen", 1)
    # adapters leave fused experts alone, so only the shared expert's layers count
    sides = 3 * (hidden + shared) if shared else 0
    return _Mlp(params, chosen * width + shared, experts * 2 * hidden * width, sides)


def _expert_width(fields: ConfigFields) -> int:
    return fields.count("expert_ffn", fields.count("ffn"))


def _shared_width(fields: ConfigFields, width: int) -> int:
    own = fields.count_or_zero("shared_expert_intermediate_size")
    if own:
        return own
    if fields.text("model_type") == "llama4_text":
        return width  # one shared expert as wide as the others
    return fields.count_or_zero("n_shared_experts") * width


def _count_outside(fields: ConfigFields, family: Family, hidden: int, vocab: int) -> int:
    """Embeddings, positions, head and the norms outside the layers."""
    narrow = fields.count("word_embed_proj_dim", hidden)
    params = vocab * narrow + family.norm_width * hidden
    if narrow != hidden:
        params += 2 * narrow * hidden - family.norm_width * hidden  # opt-350m: projections, no norm
    if family.position_offset is not None:
        params += (fields.count("positions") + family.position_offset) * hidden
    if family.embedding_norm:
        params += family.norm_width * hidden
    if not family.is_tied:
        params += vocab * hidden
    return params + (vocab if family.head_bias else 0)
