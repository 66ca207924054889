"""Options of ``envguard plan``: the model, the job, the machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

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
        Path | None,
        typer.Option(
            "--model",
            help="A Hugging Face config.json, a folder with one, or a safetensors index.",
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
            help="adamw, adamw-8bit, paged-adamw-8bit, adafactor, lion, sgd, muon ...",
            rich_help_panel=_JOB,
        ),
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", help="bf16, fp16, fp32 or pure-bf16.", rich_help_panel=_JOB),
    ] = None
    lora: Annotated[
        str | None,
        typer.Option("--lora", help="rank=16[,targets=all-linear|qv].", rich_help_panel=_JOB),
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
        typer.Option("--fused-loss", help="The loss never holds all logits.", rich_help_panel=_JOB),
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
