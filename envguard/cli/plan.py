"""Options of ``envguard plan``: the model, the job, the machine."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import OutputOptions, takes
from envguard.cli.out import emit_report
from envguard.cli.subject import live_facts, read_source
from envguard.cli.tables import load_matrix
from envguard.facts.facts import Facts
from envguard.facts.machine import Gpu, Limits, Machine
from envguard.memory.job_request import JobRequest, resolve
from envguard.memory.plan import Measured, MemoryLimits, limits_of, measured_peaks, parse_memory
from envguard.memory.plan_report import Extras, plan_report
from envguard.values import dataclass

if TYPE_CHECKING:
    from packaging.version import Version

    from envguard.matrix.memory import MemoryTable


_MODEL = "Model"
_JOB = "Job"
_MACHINE = "Machine (nothing: this one)"
_VERSIONS = "Framework releases (nothing: installed ones, else the newest known)"


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model."""

    params: Annotated[
        str | None,
        typer.Option("--params", help="Number of parameters, e.g. 7.6B.", rich_help_panel=_MODEL),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="A folder, a config.json, a safetensors file or index, or a name of the hub such "
            "as Qwen/Qwen2.5-7B (known ones, and what was fetched before; never the network).",
            rich_help_panel=_MODEL,
        ),
    ] = None
    config: Annotated[
        list[Path],
        typer.Option(
            "--config",
            help="DeepSpeed JSON, accelerate YAML or TrainingArguments JSON (repeatable).",
            rich_help_panel=_JOB,
        ),
    ] = ()  # type: ignore[assignment]  # typer wants a list type, an immutable default serves it


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How it is trained; every field is the option of the same name."""

    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            help="ddp, zero1, zero2, zero3, fsdp-full, fsdp-grad-op or fsdp-hybrid.",
            rich_help_panel=_JOB,
        ),
    ] = None
    offload: Annotated[
        str | None,
        typer.Option("--offload", help="none, optimizer or param,optimizer.", rich_help_panel=_JOB),
    ] = None
    offload_device: Annotated[
        str | None, typer.Option("--offload-device", help="cpu or nvme.", rich_help_panel=_JOB)
    ] = None
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            help="adamw, adamw-fused, adamw-8bit, paged-adamw-8bit, adafactor, lion, sgd, muon ...",
            rich_help_panel=_JOB,
        ),
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", help="bf16, fp16, fp32, pure-bf16 or fp8.", rich_help_panel=_JOB),
    ] = None
    lora: Annotated[
        str | None,
        typer.Option(
            "--lora",
            help="rank=16[,targets=all-linear|qv][,dropout=0.05][,dora=true].",
            rich_help_panel=_JOB,
        ),
    ] = None
    qlora: Annotated[
        bool, typer.Option("--qlora", help="Base model in NF4.", rich_help_panel=_JOB)
    ] = False
    micro_batch: Annotated[
        int | None,
        typer.Option("--micro-batch", help="Samples of a GPU at a time.", rich_help_panel=_JOB),
    ] = None
    seq_len: Annotated[
        int | None, typer.Option("--seq-len", help="Tokens of a sample.", rich_help_panel=_JOB)
    ] = None
    accumulate: Annotated[
        int | None,
        typer.Option(
            "--accumulate", help="Passes whose gradients are summed.", rich_help_panel=_JOB
        ),
    ] = None
    recompute: Annotated[
        str | None,
        typer.Option("--recompute", help="none, selective or full.", rich_help_panel=_JOB),
    ] = None
    attention: Annotated[
        str | None,
        typer.Option("--attention", help="eager, sdpa or flash.", rich_help_panel=_JOB),
    ] = None
    fused_loss: Annotated[
        bool,
        typer.Option("--fused-loss", help="As --loss fused.", rich_help_panel=_JOB),
    ] = False
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss", help="Logits: plain, kernel, chunked or fused.", rich_help_panel=_JOB
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            "--method", help="sft, dpo, orpo, kto, reward, grpo or ppo.", rich_help_panel=_JOB
        ),
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", help="none, copy, adapter or precomputed.", rich_help_panel=_JOB
        ),
    ] = None
    beside: Annotated[
        str | None,
        typer.Option(
            "--beside",
            help="Parameters of further frozen models in these GPUs, e.g. 8B: a teacher, a judge.",
            rich_help_panel=_JOB,
        ),
    ] = None
    quantized: Annotated[
        str | None,
        typer.Option(
            "--quantized",
            help="Base model in nf4, nf4-double, int8 or gptq; adapters are trained.",
            rich_help_panel=_JOB,
        ),
    ] = None
    rollout: Annotated[
        str | None,
        typer.Option(
            "--rollout",
            help="none, own, colocate or separate: what generates samples.",
            rich_help_panel=_JOB,
        ),
    ] = None
    rollout_memory: Annotated[
        str | None,
        typer.Option(
            "--rollout-memory",
            help="Share of each GPU of an engine in the same GPUs.",
            rich_help_panel=_JOB,
        ),
    ] = None
    rollout_sleep: Annotated[
        int | None,
        typer.Option(
            "--rollout-sleep",
            help="1 or 2: the engine sleeps while training goes on.",
            rich_help_panel=_JOB,
        ),
    ] = None
    rollout_gpus: Annotated[
        int | None,
        typer.Option(
            "--rollout-gpus",
            help="GPUs that share one copy of the engine's weights.",
            rich_help_panel=_JOB,
        ),
    ] = None
    tensor_parallel: Annotated[
        int | None,
        typer.Option(
            "--tensor-parallel", help="GPUs that divide every matrix.", rich_help_panel=_JOB
        ),
    ] = None
    context_parallel: Annotated[
        int | None,
        typer.Option(
            "--context-parallel", help="GPUs that divide a sample's tokens.", rich_help_panel=_JOB
        ),
    ] = None
    expert_parallel: Annotated[
        int | None,
        typer.Option("--expert-parallel", help="GPUs that divide experts.", rich_help_panel=_JOB),
    ] = None
    expandable_segments: Annotated[
        bool,
        typer.Option(
            "--expandable-segments",
            help="The job sets expandable_segments:True for torch's allocator.",
            rich_help_panel=_JOB,
        ),
    ] = False
    offload_activations: Annotated[
        bool,
        typer.Option(
            "--offload-activations", help="What layers keep goes to the host.", rich_help_panel=_JOB
        ),
    ] = False
    gpus: Annotated[
        int | None, typer.Option("--gpus", help="All GPUs of the job.", rich_help_panel=_JOB)
    ] = None
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", help="Machines they stand in.", rich_help_panel=_JOB),
    ] = None
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            help="trainer, full, 16bit, sharded or dcp-async.",
            rich_help_panel=_JOB,
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="The run starts from a checkpoint.", rich_help_panel=_JOB),
    ] = False
    no_zero_init: Annotated[
        bool,
        typer.Option(
            "--no-zero-init",
            help="ZeRO-3: the model is built whole, not under zero.Init.",
            rich_help_panel=_JOB,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """What the job is held against."""

    gpu_memory: Annotated[
        str | None,
        typer.Option(
            "--gpu-memory",
            help="Of one GPU: 80 (GiB), 80G, or `here`.",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    host_memory: Annotated[
        str | None,
        typer.Option(
            "--host-memory",
            help="Of one node: 512 (GiB), 512G, or `here`.",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    machine: Annotated[
        Path | None,
        typer.Option("--machine", help="A facts document of it.", rich_help_panel=_MACHINE),
    ] = None


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """Releases whose behaviour differs."""

    deepspeed: Annotated[str | None, typer.Option("--deepspeed", rich_help_panel=_VERSIONS)] = None
    transformers: Annotated[
        str | None, typer.Option("--transformers", rich_help_panel=_VERSIONS)
    ] = None
    torch: Annotated[str | None, typer.Option("--torch", rich_help_panel=_VERSIONS)] = None
    safetensors: Annotated[str | None, typer.Option("--safetensors", rich_help_panel=_VERSIONS)] = (
        None
    )
    accelerate: Annotated[str | None, typer.Option("--accelerate", rich_help_panel=_VERSIONS)] = (
        None
    )


_HERE = "here"


@takes(
    model_options=ModelOptions,
    job=JobOptions,
    limits=LimitOptions,
    versions=VersionOptions,
    output=OutputOptions,
)
def plan(
    sweep: Annotated[bool, typer.Option("--sweep", help="Every strategy side by side.")] = False,
    compare_estimators: Annotated[
        bool, typer.Option("--compare-estimators", help="What other estimators say, and why.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw it: FILE.png, .svg or .html.")
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option("--from-run", help="Record of a run of this job: scale the plan to it."),
    ] = None,
    *,
    model_options: ModelOptions,
    job: JobOptions,
    limits: LimitOptions,
    versions: VersionOptions,
    output: OutputOptions,
) -> int:
    """Say whether a training job fits the memory of GPUs and host, at the save too.

    A side whose memory is neither stated nor read is not judged. Where neither is stated, this
    machine's are read.
    """
    matrix = load_matrix(output.matrix)
    table = matrix.memory
    facts = _facts(limits)
    resolved = resolve(_request(model_options, job, versions, facts), table)
    found = _limits(limits, facts, table)
    report = plan_report(
        resolved,
        table,
        found.limits,
        found.facts,
        matrix_version=matrix.manifest.data_version,
        cause_order=matrix.order.causes,
        extras=Extras(sweep, compare_estimators, _measured(from_run)),
    )
    if plot is not None:
        from envguard.render.plot import write_plot  # needs the extra plot

        write_plot(report.extra, plot)
    return emit_report(report, output)


def _measured(folder: Path | None) -> Measured | None:
    """The peaks of a run from the record that `envguard run` made of it."""
    if folder is None:
        return None
    from envguard.supervise.run_record import load_record  # only for this option

    memory = load_record(folder).memory
    return measured_peaks(memory.phase_peaks, memory.gpu_peaks)


def _request(
    model: ModelOptions, job: JobOptions, versions: VersionOptions, facts: Facts | None
) -> JobRequest:
    return JobRequest(
        params=model.params,
        model=model.model,
        hub=_hub_cache(),
        configs=tuple(model.config),
        versions={name: text for name, text in asdict(versions).items() if text is not None},
        installed=_installed(facts),
        options=_options(job, facts),
    )


def _hub_cache() -> Path:
    """Where huggingface_hub keeps what was fetched before, by its variables."""
    own = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if own:
        return Path(own)
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "huggingface") / "hub"


@dataclass(frozen=True, slots=True)
class _Found:
    """Limits, and the facts that the report shows."""

    limits: MemoryLimits
    facts: Facts


def _facts(limits: LimitOptions) -> Facts | None:
    """The machine's facts where any side is read from it; None where all is stated."""
    if limits.machine is not None:
        return read_source(str(limits.machine))
    stated = (limits.gpu_memory, limits.host_memory)
    if _HERE in stated or stated == (None, None):
        return live_facts(None)
    return None


def _limits(limits: LimitOptions, facts: Facts | None, table: MemoryTable) -> _Found:
    gpu = _size("--gpu-memory", limits.gpu_memory)
    host = _size("--host-memory", limits.host_memory)
    if facts is None:
        facts = _stated_facts(gpu, host)
        return _Found(limits_of(table, gpu_stated=gpu, host_stated=host, machine=None), facts)
    found = limits_of(table, gpu_stated=gpu, host_stated=host, machine=facts.machine)
    return _Found(found, facts)


def _size(option: str, text: str | None) -> float | None:
    return None if text is None or text == _HERE else parse_memory(option, text)


def _stated_facts(gpu: float | None, host: float | None) -> Facts:
    """What is stated of a machine, as facts."""
    gpus = (Gpu(0, memory_bytes=int(gpu)),) if gpu is not None else None
    ram = int(host) if host is not None else None
    return Facts(machine=Machine(gpus=gpus, limits=Limits(ram_bytes=ram)))


def _options(job: JobOptions, facts: Facts | None) -> dict[str, object]:
    """The job's options under their names; the machine's GPUs where none are stated."""
    options: dict[str, object] = {
        name.replace("_", "-"): value for name, value in asdict(job).items()
    }
    gpus = facts.machine.selected_gpus if facts is not None else ()
    if options["gpus"] is None and gpus and options["nodes"] is None:
        options["gpus"] = len(gpus)
    return options


def _installed(facts: Facts | None) -> dict[str, Version]:
    """Releases that the subject's interpreter has."""
    environment = facts.environment if facts is not None else None
    if environment is None:
        return {}
    return {item.name: item.version for item in environment.distributions or () if item.version}
