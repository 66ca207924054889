"""From what the user states to a job, and what is assumed for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.errors import InputError
from envguard.memory.configs import read_configs
from envguard.memory.job import (
    Attention,
    Engine,
    Job,
    JobOption,
    Lora,
    Loss,
    Method,
    Optimizer,
    Parallel,
    Placement,
    Precision,
    Quantized,
    Recompute,
    Reference,
    Rollout,
    SaveMode,
    Strategy,
    Versions,
    ZeroSettings,
)
from envguard.memory.model_files import load_model
from envguard.memory.public_models import guess_shape
from envguard.memory.settings import Settings, add_options, parse_params, parse_version
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.memory import MemoryTable
    from envguard.memory.models import ModelShape


def usual_jobs(job: Job, table: MemoryTable) -> tuple[Job, ...]:
    """A job under every combination of usual values of what is not stated.

    Under DeepSpeed neither fp32 masters nor how transformers' Trainer saves are open.

    Args:
        job: The job with what is assumed.
        table: Holds how short samples usually are.

    Returns:
        The job itself first, then those that differ from it in fewer options.
    """
    jobs = [job]
    for option in (o for o in JobOption if o in job.unstated):
        jobs = [changed for base in jobs for changed in _usual(base, option, table)]
    others = dict.fromkeys(other for other in jobs if other != job and is_valid(other))
    return (job, *sorted(others, key=lambda other: len(differing(job, other))))


def _usual(job: Job, option: JobOption, table: MemoryTable) -> tuple[Job, ...]:
    match option:
        case JobOption.RECOMPUTE:
            return tuple(replace(job, recompute=r) for r in (Recompute.NONE, Recompute.FULL))
        case JobOption.SEQ_LEN:
            shortest = int(table.formula("usual.shortest_sample").evaluate({}).likely)
            return (job, replace(job, seq_len=min(job.seq_len, shortest)))
        case JobOption.PRECISION:
            return (job, replace(job, precision=Precision.PURE_BF16))
        case JobOption.OPTIMIZER:
            return (job, replace(job, optimizer=Optimizer.ADAMW_FUSED))
        case JobOption.SAVE:  # accelerate writes FSDP's state dicts whole or as shards
            is_open = job.strategy.is_fsdp and not job.fsdp_sharded
            return (job, replace(job, save=SaveMode.SHARDED)) if is_open else (job,)


def differing(job: Job, other: Job) -> tuple[JobOption, ...]:
    """The options in which two jobs differ."""
    return tuple(o for o in JobOption if option_words(job, o) != option_words(other, o))


def option_words(job: Job, option: JobOption) -> str:
    """The option as a person would state it, ``--recompute full``."""
    return f"{option.value} {_value(job, option)}"


def _value(job: Job, option: JobOption) -> str:
    match option:
        case JobOption.RECOMPUTE:
            return job.recompute.value
        case JobOption.SEQ_LEN:
            return str(job.seq_len)
        case JobOption.PRECISION:
            return job.precision.value
        case JobOption.OPTIMIZER:
            return job.optimizer.value
        case JobOption.SAVE:
            return job.save.value


def check_job(job: Job, settings: Settings) -> None:
    """Refuse contradictions.

    Args:
        job: The job.
        settings: Where its parts were stated, for the message.

    Raises:
        InputError: Two parts cannot hold together; the message names both.
    """
    _check_offload(job, settings)
    _check_precision(job, settings)
    _check_save(job, settings)
    _check_adapters(job)


def is_valid(job: Job) -> bool:
    """Whether the parts of a job hold together."""
    try:
        check_job(job, Settings())
    except InputError:
        return False
    return True


def _name(settings: Settings, setting: str, option: str) -> str:
    return settings.where(setting) or option


def _check_offload(job: Job, settings: Settings) -> None:
    name = _name(settings, "params_on", "--offload")
    strategy = job.strategy.value
    if job.strategy is Strategy.DDP and job.optimizer_on is not Placement.GPU:
        raise InputError(f"{name}: {strategy} offloads nothing; choose a zero or fsdp strategy")
    if job.strategy in {Strategy.ZERO1, Strategy.ZERO2} and job.params_on is not Placement.GPU:
        raise InputError(f"{name}: parameters are offloaded by zero3, not by {strategy}")
    if job.strategy.is_fsdp:
        if Placement.NVME in {job.params_on, job.optimizer_on}:
            raise InputError(f"{name}: {strategy} offloads to the cpu only, not to nvme")
        if job.params_on is not job.optimizer_on:
            raise InputError(
                f"{name}: {strategy} offloads parameters and optimizer together",
                hint="--offload param,optimizer",
            )


def _check_precision(job: Job, settings: Settings) -> None:
    if job.precision is Precision.PURE_BF16 and job.strategy.is_deepspeed:
        name = _name(settings, "precision", "--dtype")
        raise InputError(f"{name}: pure-bf16 contradicts {job.strategy.value}: DeepSpeed keeps "
                         "fp32 masters beside bf16 weights")  # fmt: skip
    if job.optimizer.is_paged and job.optimizer_on is not Placement.GPU:
        name = _name(settings, "optimizer", "--optimizer")
        raise InputError(f"{name}: a paged optimizer pages by itself; it is not offloaded too")


def _check_save(job: Job, settings: Settings) -> None:
    name = f"{_name(settings, 'save', '--save')} {job.save.value}"
    if job.save is SaveMode.DCP_ASYNC and job.strategy.is_deepspeed:
        raise InputError(f"{name}: DeepSpeed does not write torch's distributed checkpoints")
    if job.save is SaveMode.SHARDED and job.strategy is Strategy.DDP:
        raise InputError(f"{name}: ddp holds no shards, every GPU has the whole state")


def _check_adapters(job: Job) -> None:
    if job.quantized is not None and job.precision is Precision.FP32:
        raise InputError("--qlora contradicts --dtype fp32: 4-bit weights are computed in 16 bits")
    if job.reference is Reference.ADAPTER and job.lora is None:
        raise InputError("--reference adapter needs adapters: --lora rank=16")
    if job.lora is not None and job.trainable > job.shape.params:
        raise InputError(
            f"--lora: rank {job.lora.rank} gives more adapter parameters than the model has"
        )


T = TypeVar("T")

_GPUS_OF_A_NODE = 8
_SAVE_WORDS = "checkpoints as transformers' Trainer writes them (--save)"
_RECOMPUTE_WORDS = {
    Recompute.FULL: "activation checkpointing, as recipes for models of this size have it "
    "(--recompute); the high end of the range is without it",
    Recompute.NONE: "no activation checkpointing, as recipes for models of this size have it "
    "(--recompute); the low end of the range is with it",
}
_PRECISION_WORDS = "bf16 with fp32 masters (--dtype)"
_BATCH_WORDS = "1 sample a GPU at a time (--micro-batch)"
_ACCUMULATE_WORDS = (
    "gradients of one pass a step (--accumulate); the high end of the range is with more"
)
_EFFICIENT_WORDS = (
    "cpu_ram_efficient_loading, as in accelerate's example configurations (--config); the high end "
    "of the range is without it"
)
_ONE_GPU_WORDS = "one GPU holds everything (--strategy)"
_NO_REFERENCE_WORDS = (
    "no reference model, as trl has it while beta is 0 (--reference); the high end of the range is "
    "with one"
)
_REFERENCE_WORDS = {
    Reference.COPY: "a frozen copy of the model as reference (--reference)",
    Reference.ADAPTER: "the model without its adapters as reference (--reference)",
}
_ROLLOUT_WORDS = "samples generated by the model itself, without an engine (--rollout)"
_ROLLOUT_SHARE_WORDS = "the engine has 0.3 of each GPU, trl's default (--rollout-memory)"
_LENGTH_WORDS = "2048 tokens a sample (--seq-len)"


def build_job(
    shape: ModelShape,
    settings: Settings,
    versions: Versions,
    table: MemoryTable,
    assumed: list[str],
) -> Job:
    """Build a job.

    Args:
        shape: The model.
        settings: What files and options state.
        versions: Framework releases.
        table: For sizes that transformers derives from the model.
        assumed: Receives a line for everything that is not stated.

    Raises:
        InputError: No strategy is stated, or the GPUs cannot be spread over the nodes.
    """
    strategy = _strategy(settings, assumed)
    gpus, nodes = _layout(settings, assumed)
    quantized = settings.get("quantized", Quantized)
    method = settings.get("method", Method) or Method.SFT
    lora = _lora(settings, quantized, assumed)
    return Job(
        shape=shape,
        strategy=strategy,
        versions=versions,
        gpus=gpus,
        nodes=nodes,
        precision=_assume(settings, "precision", Precision.BF16, _PRECISION_WORDS, assumed),
        optimizer=settings.get("optimizer", Optimizer) or Optimizer.ADAMW,
        optimizer_on=settings.get("optimizer_on", Placement) or Placement.GPU,
        params_on=settings.get("params_on", Placement) or Placement.GPU,
        micro_batch=_assume(settings, "micro_batch", 1, _BATCH_WORDS, assumed),
        seq_len=_assume(settings, "seq_len", 2048, _LENGTH_WORDS, assumed),
        accumulates=_accumulates(settings, assumed),
        recompute=_recompute(settings, shape, table, assumed),
        attention=settings.get("attention", Attention) or Attention.SDPA,
        loss=settings.get("loss", Loss) or Loss.PLAIN,
        method=method,
        reference=_reference(settings, method, lora, assumed),
        beside=settings.get("beside", int) or 0,
        engine=_engine(settings, method, assumed),
        parallel=_parallel(settings, gpus),
        is_expandable=settings.get("expandable", bool) or False,
        activations_on=settings.get("activations_on", Placement) or Placement.GPU,
        lora=lora,
        quantized=quantized,
        save=_assume(settings, "save", SaveMode.TRAINER, _SAVE_WORDS, assumed),
        fsdp_sharded=settings.get("fsdp_sharded", bool) or False,
        fsdp_efficient_load=_efficient_load(settings, strategy, assumed),
        resumes=settings.get("resume", bool) or False,
        unstated=frozenset(o for o, n in _SETTINGS.items() if not n & settings.values.keys()),
        zero=_zero(settings, shape, table, assumed),
    )


def _strategy(settings: Settings, assumed: list[str]) -> Strategy:
    strategy = settings.get("strategy", Strategy)
    if strategy is not None:
        return strategy
    if settings.get("gpus", int) == 1:
        assumed.append(_ONE_GPU_WORDS)
        return Strategy.DDP
    known = ", ".join(member.value for member in Strategy)
    raise InputError(
        f"state the strategy: --strategy ({known}) or --config FILE",
        hint="on one GPU, --gpus 1, none is needed",
    )


def _recompute(
    settings: Settings, shape: ModelShape, table: MemoryTable, assumed: list[str]
) -> Recompute:
    """As stated; else as recipes have it: small models are trained without, others with it."""
    smallest = table.formula("usual.recomputed_from").evaluate({}).likely
    usual = Recompute.FULL if shape.params >= smallest else Recompute.NONE
    return _assume(settings, "recompute", usual, _RECOMPUTE_WORDS[usual], assumed)


def _accumulates(settings: Settings, assumed: list[str]) -> bool | None:
    steps = settings.get("accumulate", int)
    if steps is None:
        assumed.append(_ACCUMULATE_WORDS)
        return None
    return steps > 1


def _efficient_load(settings: Settings, strategy: Strategy, assumed: list[str]) -> bool | None:
    stated = settings.get("efficient_load", bool)
    if stated is None and strategy.is_fsdp:
        assumed.append(_EFFICIENT_WORDS)
    return stated


def _lora(settings: Settings, quantized: Quantized | None, assumed: list[str]) -> Lora | None:
    lora = settings.get("lora", Lora)
    if quantized is not None and lora is None:
        assumed.append("adapters of rank 16 on all linear layers (--lora)")
        return Lora(16)
    return lora


def _reference(
    settings: Settings, method: Method, lora: Lora | None, assumed: list[str]
) -> Reference:
    """As stated; else as trl has it: the model without its adapters, or a frozen copy."""
    stated = settings.get("reference", Reference)
    if stated is not None:
        return stated
    if method is Method.GRPO:
        assumed.append(_NO_REFERENCE_WORDS)
        return Reference.NONE
    if method not in {Method.DPO, Method.KTO, Method.PPO}:
        return Reference.NONE
    usual = Reference.COPY if lora is None else Reference.ADAPTER
    assumed.append(_REFERENCE_WORDS[usual])
    return usual


def _engine(settings: Settings, method: Method, assumed: list[str]) -> Engine:
    """As stated; else a method that generates does it with the model itself, as trl's default."""
    rollout = settings.get("rollout", Rollout)
    if rollout is None:
        rollout = Rollout.OWN if method.generates else Rollout.NONE
        if method.generates:
            assumed.append(_ROLLOUT_WORDS)
    share = settings.get("rollout_memory", float)
    if rollout is Rollout.COLOCATE and share is None:
        assumed.append(_ROLLOUT_SHARE_WORDS)
    return Engine(
        rollout,
        share=0.3 if share is None else share,
        sleeps=settings.get("rollout_sleep", int) or 0,
        ranks=settings.get("rollout_gpus", int) or 1,
    )


def _parallel(settings: Settings, gpus: int) -> Parallel:
    names = ("tensor", "context", "expert")
    sizes = [settings.get(f"{name}_parallel", int) or 1 for name in names]
    parallel = Parallel(*sizes)
    if gpus % (parallel.tensor * parallel.context):
        raise InputError(
            f"--gpus {gpus} cannot be spread over --tensor-parallel {parallel.tensor} times "
            f"--context-parallel {parallel.context}"
        )
    return parallel


def _assume(settings: Settings, name: str, default: T, words: str, assumed: list[str]) -> T:
    value = settings.get(name, type(default))
    if value is None:
        assumed.append(words)
        return default
    return value


def _layout(settings: Settings, assumed: list[str]) -> tuple[int, int]:
    """GPUs and nodes; more than eight GPUs are taken to stand in nodes of eight."""
    gpus, nodes = settings.get("gpus", int), settings.get("nodes", int)
    if gpus is None:
        assumed.append("1 GPU (--gpus)")
        gpus = 1
    if nodes is None:
        nodes = 1
        if gpus > _GPUS_OF_A_NODE and gpus % _GPUS_OF_A_NODE == 0:
            nodes = gpus // _GPUS_OF_A_NODE
            assumed.append(f"{nodes} nodes of 8 GPUs (--nodes)")
    if gpus % nodes:
        raise InputError(f"--gpus {gpus} cannot be spread evenly over --nodes {nodes}")
    return gpus, nodes


def _zero(
    settings: Settings, shape: ModelShape, table: MemoryTable, assumed: list[str]
) -> ZeroSettings:
    """DeepSpeed's settings; ``"auto"`` sizes as transformers fills them in."""
    zero = ZeroSettings()
    changes: dict[str, object] = {}
    for name in ("reduce_bucket", "allgather_bucket", "prefetch_bucket", "max_live",
                 "persistence", "sub_group"):  # fmt: skip
        changes[name] = settings.get(name, int)
    for name in ("overlap_comm", "pins_memory", "gathers_on_save", "zero_init"):
        changes[name] = settings.get(name, bool)
    for name in settings.autos & _AUTO.keys():
        formula = table.formula(f"ds_default.{_AUTO[name]}.hf_auto")
        changes[name] = int(formula.evaluate({"h": float(shape.hidden)}).likely)
    stated = {name: value for name, value in changes.items() if value is not None}
    if settings.get("strategy", Strategy) is Strategy.ZERO3:
        if "gathers_on_save" not in stated:
            if settings.where("strategy").startswith("--"):
                assumed.append("stage3_gather_16bit_weights_on_model_save is true")
            else:  # a file that leaves it out means DeepSpeed's default
                stated["gathers_on_save"] = False
        if "zero_init" not in stated:
            assumed.append("zero.Init is active when the model is built (--no-zero-init)")
    return replace(zero, **stated)  # type: ignore[arg-type]  # names and kinds are the fields'


# Options that recipes set differently -> the settings that decide each.
_SETTINGS: Mapping[JobOption, frozenset[str]] = {
    JobOption.RECOMPUTE: frozenset({"recompute"}),
    JobOption.SEQ_LEN: frozenset({"seq_len"}),
    JobOption.PRECISION: frozenset({"precision"}),
    JobOption.OPTIMIZER: frozenset({"optimizer"}),
    JobOption.SAVE: frozenset({"save", "fsdp_sharded"}),
}
# Settings that may be "auto" -> DeepSpeed's name of the field.
_AUTO: Mapping[str, str] = {
    "reduce_bucket": "reduce_bucket_size",
    "prefetch_bucket": "stage3_prefetch_bucket_size",
    "persistence": "stage3_param_persistence_threshold",
}


# The releases whose sources and measurements the formulas come from.
NEWEST: Mapping[str, str] = {
    "deepspeed": "0.19.8",
    "transformers": "5.24.0",
    "torch": "2.13.0",
    "safetensors": "0.8.0",
    "accelerate": "1.15.0",
}


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What the user states, as typed; None is not stated.

    Args:
        params: ``7.6B``.
        model: A folder, a config.json, a safetensors header or index, or a name of the hub.
        hub: The local cache of the hub; None is not looked at.
        configs: DeepSpeed, accelerate or TrainingArguments files.
        versions: Releases by distribution name, as typed.
        installed: Releases of the interpreter on this machine.
        options: Every other option by its name without dashes, as typed.
    """

    params: str | None = None
    model: str | Path | None = None
    hub: Path | None = None
    configs: tuple[Path, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    installed: Mapping[str, Version] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A job and how it came about.

    Args:
        job: The job.
        assumptions: What was not stated and is therefore assumed.
        notes: Remarks on what was read.
    """

    job: Job
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


def resolve(request: JobRequest, table: MemoryTable) -> ResolvedJob:
    """Turn a request into a job.

    Raises:
        InputError: Something stated is unusable, missing, or contradicts something else.
    """
    shape = _shape(request, table)
    settings = read_configs(request.configs)
    add_options(settings, request.options)
    versions, version_notes = _versions(request)
    assumed: list[str] = []
    job = build_job(shape, settings, versions, table, assumed)
    check_job(job, settings)
    if version_notes:
        assumed.append(version_notes)
    return ResolvedJob(job, tuple(assumed), (*shape.notes, *settings.notes))


def _shape(request: JobRequest, table: MemoryTable) -> ModelShape:
    if request.params is not None and request.model is not None:
        raise InputError("--params and --model exclude each other: state one model")
    if request.model is not None:
        return load_model(request.model, table, request.hub)
    if request.params is None:
        raise InputError("state the model: --params 7.6B or --model config.json")
    return guess_shape(parse_params(request.params), table)


def _versions(request: JobRequest) -> tuple[Versions, str]:
    """Stated releases, then installed ones, then the newest that the formulas know."""
    found: dict[str, Version] = {}
    assumed: list[str] = []
    for name, newest in NEWEST.items():
        text = request.versions.get(name)
        if text is not None:
            found[name] = parse_version(f"--{name}", text)
        elif name in request.installed:
            found[name] = request.installed[name]
        else:
            found[name] = Version(newest)
            assumed.append(f"{name} {newest}")
    words = f"behaviour of {', '.join(assumed)} (state --deepspeed ... for others)"
    return Versions(**found), words if assumed else ""
