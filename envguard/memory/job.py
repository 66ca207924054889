"""A training job: everything that its memory depends on, the machine apart."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from packaging.version import Version

from envguard.memory.models import ModelShape
from envguard.values import dataclass


class Strategy(Enum):
    """How states are spread over GPUs."""

    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    ZERO3 = "zero3"
    FSDP_FULL = "fsdp-full"
    FSDP_GRAD_OP = "fsdp-grad-op"
    FSDP_HYBRID = "fsdp-hybrid"

    @property
    def is_deepspeed(self) -> bool:
        """ZeRO of DeepSpeed."""
        return self in {Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3}

    @property
    def is_fsdp(self) -> bool:
        """FSDP of torch."""
        return self in {Strategy.FSDP_FULL, Strategy.FSDP_GRAD_OP, Strategy.FSDP_HYBRID}


class Placement(Enum):
    """Where a part of the states lives."""

    GPU = "gpu"
    CPU = "cpu"
    NVME = "nvme"


class Precision(Enum):
    """Arithmetic of the forward and backward pass; fp32 and pure-bf16 keep no fp32 masters."""

    FP8 = "fp8"  # matrix products of 16-bit tensors that are cast for them
    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"
    PURE_BF16 = "pure-bf16"


class Optimizer(Enum):
    """Optimizers, under transformers' names where it has one.

    Plain ``adamw`` is torch's own as it comes: its ``foreach`` form on a GPU, or the fused one
    where a framework asks for that.
    """

    ADAMW = "adamw"
    ADAMW_FUSED = "adamw-fused"
    ADAMW_FOREACH = "adamw-foreach"
    ADAMW_SINGLE = "adamw-single"
    ADAMW_8BIT = "adamw-8bit"
    PAGED_ADAMW = "paged-adamw"
    PAGED_ADAMW_8BIT = "paged-adamw-8bit"
    ADAFACTOR = "adafactor"
    LION = "lion"
    LION_8BIT = "lion-8bit"
    PAGED_LION_8BIT = "paged-lion-8bit"
    ADAMW_4BIT = "adamw-4bit"
    GALORE = "galore-adamw"
    SGD = "sgd"
    SGD_MOMENTUM = "sgd-momentum"
    MUON = "muon"

    @property
    def is_paged(self) -> bool:
        """States may move to the host when the GPU is full."""
        return self.value.startswith("paged-")


class Recompute(Enum):
    """How much of the forward pass is computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Loss(Enum):
    """How much of the logits the loss holds.

    ``kernel`` is a fused cross entropy over whole logits, ``chunked`` takes them piece by piece,
    ``fused`` is computed together with the head.
    """

    PLAIN = "plain"
    KERNEL = "kernel"
    CHUNKED = "chunked"
    FUSED = "fused"


class Method(Enum):
    """What is trained for, which decides how many sequences and models there are."""

    SFT = "sft"
    DPO = "dpo"
    ORPO = "orpo"
    KTO = "kto"
    REWARD = "reward"
    GRPO = "grpo"
    PPO = "ppo"

    @property
    def sequences(self) -> int:
        """Sequences of one sample that pass the model together: chosen and rejected are two."""
        return 2 if self in {Method.DPO, Method.ORPO, Method.REWARD} else 1

    @property
    def has_logits(self) -> bool:
        """The head gives a number for every token of the vocabulary, not one score."""
        return self is not Method.REWARD

    @property
    def has_value_model(self) -> bool:
        """A second model of the same size is trained beside the policy."""
        return self is Method.PPO

    @property
    def generates(self) -> bool:
        """Samples are drawn from the model while it is trained."""
        return self in {Method.GRPO, Method.PPO}


class Reference(Enum):
    """Where the log-probabilities of the untrained model come from."""

    NONE = "none"
    COPY = "copy"
    ADAPTER = "adapter"  # the same weights with the adapters switched off
    PRECOMPUTED = "precomputed"


class Attention(Enum):
    """Attention kernels."""

    EAGER = "eager"
    SDPA = "sdpa"
    FLASH = "flash"


class SaveMode(Enum):
    """What is written at a checkpoint, and by whom."""

    TRAINER = "trainer"
    FULL = "full"
    HALF = "16bit"
    SHARDED = "sharded"
    DCP_ASYNC = "dcp-async"


class Quantized(Enum):
    """How frozen weights are stored."""

    NF4 = "nf4"
    NF4_DOUBLE = "nf4-double"
    INT8 = "int8"
    GPTQ = "gptq"  # or AWQ: 4 bits, quantised before


class Rollout(Enum):
    """What generates samples while the model is trained."""

    NONE = "none"
    OWN = "own"  # the model itself, between steps
    COLOCATE = "colocate"  # an engine in the same GPUs
    SEPARATE = "separate"  # an engine in others


class JobOption(Enum):
    """Options that decide whether a job fits and that training recipes set differently."""

    RECOMPUTE = "--recompute"
    SEQ_LEN = "--seq-len"
    PRECISION = "--dtype"
    OPTIMIZER = "--optimizer"
    SAVE = "--save"


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters.

    Args:
        rank: Their rank.
        covers_all: All linear layers; otherwise queries and values only.
        has_dropout: Inputs are dropped out; None is not known.
        is_dora: Weights are split into a direction and a magnitude.
    """

    rank: int
    covers_all: bool = True
    has_dropout: bool | None = None
    is_dora: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """What generates samples, and what it takes.

    Args:
        rollout: Where it runs.
        share: Of a GPU's whole memory, where it is in the same GPUs.
        sleeps: 0 is never; 1 moves its weights to the host while training goes on, 2 drops them.
        ranks: GPUs that share one copy of its weights.
    """

    rollout: Rollout = Rollout.NONE
    share: float = 0.3
    sleeps: int = 0
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class Parallel:
    """GPUs that work on one sample together, by what they divide.

    Args:
        tensor: Matrices of every layer, with sequence parallelism outside them.
        context: Tokens of a sample.
        expert: Experts of a layer.
    """

    tensor: int = 1
    context: int = 1
    expert: int = 1


@dataclass(frozen=True, slots=True)
class Versions:
    """Framework releases whose behaviour differs."""

    deepspeed: Version
    transformers: Version
    torch: Version
    safetensors: Version
    accelerate: Version


@dataclass(frozen=True, slots=True)
class ZeroSettings:
    """DeepSpeed's buffers and switches; sizes in elements.

    Args:
        reduce_bucket: Gradients reduced at a time.
        allgather_bucket: Parameters gathered at a time in stage 1 and 2.
        prefetch_bucket: Parameters fetched ahead in stage 3.
        max_live: Parameters kept gathered in stage 3.
        persistence: Parameters below this size are never sharded in stage 3.
        sub_group: Tile of the optimizer step in stage 3.
        overlap_comm: Reduction overlaps the backward pass; None is DeepSpeed's own choice.
        pins_memory: Offload buffers are page-locked.
        gathers_on_save: stage3_gather_16bit_weights_on_model_save.
        zero_init: The model is built sharded (zero.Init) in stage 3.
    """

    reduce_bucket: int = 500_000_000
    allgather_bucket: int = 500_000_000
    prefetch_bucket: int = 50_000_000
    max_live: int = 1_000_000_000
    persistence: int = 100_000
    sub_group: int = 1_000_000_000
    overlap_comm: bool | None = None
    pins_memory: bool = True
    gathers_on_save: bool = True
    zero_init: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """A training job.

    Args:
        shape: The model.
        strategy: How states are spread.
        gpus: All GPUs of the job.
        nodes: Machines that they stand in, each with as many.
        precision: Arithmetic.
        optimizer: The optimizer.
        optimizer_on: Where optimizer states and master weights live.
        params_on: Where weights live between uses.
        micro_batch: Samples of one GPU at a time.
        seq_len: Tokens of a sample.
        accumulates: Gradients are summed over several passes; None is not known.
        recompute: Activation checkpointing.
        attention: Attention kernels.
        loss: How much of the logits the loss holds.
        method: What is trained for.
        reference: Where a method that compares with the untrained model has that from.
        engine: What generates samples while the model is trained.
        parallel: GPUs that work on one sample together.
        is_expandable: The allocator has expandable segments.
        activations_on: Where what layers keep for the backward pass lies.
        beside: Parameters of further frozen models in the same GPUs: a teacher, reward models.
        lora: Adapters; None trains all weights.
        quantized: Storage of the frozen weights.
        save: How checkpoints are written.
        fsdp_sharded: HF's FSDP writes sharded state dicts (``state_dict_type``).
        fsdp_efficient_load: HF's FSDP reads the checkpoint on one rank of a node only
            (``cpu_ram_efficient_loading``); None is not known.
        resumes: The job starts from a checkpoint.
        unstated: Options that nobody stated: their values here are assumed.
        zero: DeepSpeed's settings.
        versions: Framework releases.
    """

    shape: ModelShape
    strategy: Strategy
    versions: Versions
    gpus: int = 1
    nodes: int = 1
    precision: Precision = Precision.BF16
    optimizer: Optimizer = Optimizer.ADAMW
    optimizer_on: Placement = Placement.GPU
    params_on: Placement = Placement.GPU
    micro_batch: int = 1
    seq_len: int = 2048
    accumulates: bool | None = None
    recompute: Recompute = Recompute.NONE
    attention: Attention = Attention.SDPA
    loss: Loss = Loss.PLAIN
    method: Method = Method.SFT
    reference: Reference = Reference.NONE
    beside: int = 0
    engine: Engine = field(default_factory=Engine)
    parallel: Parallel = field(default_factory=Parallel)
    is_expandable: bool = False
    activations_on: Placement = Placement.GPU
    lora: Lora | None = None
    quantized: Quantized | None = None
    save: SaveMode = SaveMode.TRAINER
    fsdp_sharded: bool = False
    fsdp_efficient_load: bool | None = None
    resumes: bool = False
    unstated: frozenset[JobOption] = frozenset()
    zero: ZeroSettings = field(default_factory=ZeroSettings)

    @property
    def ranks_per_node(self) -> int:
        """GPUs, and so processes, of one node."""
        return self.gpus // self.nodes

    @property
    def shards(self) -> int:
        """Over how many GPUs optimizer states are spread."""
        if self.strategy is Strategy.DDP:
            return 1
        return self.ranks_per_node if self.strategy is Strategy.FSDP_HYBRID else self.gpus

    @property
    def trainable(self) -> int:
        """Parameters that are trained."""
        if self.lora is None:
            return self.shape.params
        sides = self.shape.lora_all if self.lora.covers_all else self.shape.lora_qv
        return self.lora.rank * sides

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """What of the job's memory no formula gives, in words."""
        found = [*self.shape.unmodelled]
        if self.parallel.expert > 1:
            found.append("expert parallelism")
        if self.parallel.tensor > 1 and self.strategy.is_deepspeed:
            found.append("tensor parallelism under DeepSpeed")
        if self.lora is not None and self.optimizer is Optimizer.GALORE:
            found.append("GaLore over adapters")
        return tuple(found)

    @property
    def tokens(self) -> int:
        """Tokens of one GPU at a time."""
        return self.micro_batch * self.method.sequences * self.seq_len

    @property
    def keeps_masters(self) -> bool:
        """Weights are also kept in fp32."""
        return self.precision in {Precision.BF16, Precision.FP16, Precision.FP8}
