"""The stages of a smoke test: what each proves, what it needs, how long it may take."""

from __future__ import annotations

from dataclasses import dataclass

from envguard.errors import InputError


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage; the function of the same name in ``_stages_child.py`` does it.

    Args:
        id: Its name on the command line and in documents.
        title: A few words for a table.
        proves: What is known once it passed.
        needs: Stages that must have passed; they are run even when not asked for.
        limit_s: Seconds it may take. Importing torch from a cold network disk takes minutes.
        is_default: Whether it runs when no stages are named.
    """

    id: str
    title: str
    proves: str
    needs: tuple[str, ...] = ("context",)
    limit_s: float = 60.0
    is_default: bool = True


STAGES = (
    Stage("import", "import torch", "torch and the libraries it links to load", (), 300.0),
    Stage(
        "cuda-init",
        "start CUDA",
        "the driver serves the CUDA runtime of this torch, and the device is there",
        ("import",),
        120.0,
    ),
    Stage(
        "context",
        "first kernel",
        "the device has a context and runs a kernel of this build",
        ("cuda-init",),
        120.0,
    ),
    Stage("allocation", "allocate memory", "memory can be allocated, written and read back"),
    Stage("forward", "forward pass", "a small network computes a finite loss"),
    Stage("backward", "backward pass", "autograd gives every parameter a gradient", ("forward",)),
    Stage("optimizer-step", "optimizer step", "AdamW moves every parameter", ("backward",)),
    Stage(
        "reference",
        "right numbers",
        "loss, gradients and updated weights equal those computed without torch",
        ("optimizer-step",),
    ),
    Stage("bfloat16", "bfloat16 step", "a training step in bfloat16 is right"),
    Stage("float16", "float16 step", "a training step in float16 is right"),
    Stage("matmul", "matrix product", "matrix products are exact (cuBLAS on a GPU)"),
    Stage("convolution", "convolution", "convolutions are right (cuDNN on a GPU)"),
    Stage("attention", "attention", "scaled dot-product attention is right"),
    Stage("checkpoint", "save and load", "a checkpoint comes back equal from torch.load"),
    Stage(
        "compile",
        "torch.compile",
        "a compiler is there (on a GPU triton too) and its code is right",
        limit_s=300.0,
        is_default=False,
    ),
    Stage(
        "distributed",
        "process group",
        "a process group of one reduces (NCCL on a GPU, gloo on the CPU)",
        is_default=False,
    ),
    Stage(
        "all-reduce",
        "all-reduce",
        "all GPUs reduce together under torchrun (two processes with gloo on the CPU)",
        limit_s=180.0,
        is_default=False,
    ),
    Stage(
        "deepspeed",
        "import deepspeed",
        "deepspeed loads beside this torch",
        limit_s=300.0,
        is_default=False,
    ),
    *(
        Stage(
            f"zero-{number}",
            f"DeepSpeed, ZeRO-{number}",
            f"DeepSpeed with ZeRO-{number} starts, steps rightly, saves, and loads what it saved",
            ("deepspeed",),
            300.0,
            is_default=False,
        )
        for number in (1, 2, 3)
    ),
)

# Not asked for and not selectable: whether the interpreter ends cleanly after the last stage.
SHUTDOWN = Stage("shutdown", "shutdown", "the interpreter ends cleanly", (), 60.0)


def choose_stages(names: tuple[str, ...]) -> tuple[Stage, ...]:
    """The stages to run, in running order, with everything that the named ones need.

    Args:
        names: Stage ids; empty for the default set.

    Raises:
        InputError: A name is no stage.
    """
    known = {stage.id: stage for stage in STAGES}
    for name in names:
        if name not in known:
            raise InputError(
                f"no smoke stage is called {name!r}", hint="known stages: " + ", ".join(known)
            )
    wanted = set(names) or {stage.id for stage in STAGES if stage.is_default}
    # A need stands before its stage in STAGES, so one pass backwards collects them all.
    for stage in reversed(STAGES):
        if stage.id in wanted:
            wanted.update(stage.needs)
    return tuple(stage for stage in STAGES if stage.id in wanted)


def find_stage(name: str) -> Stage | None:
    """The stage with this id, or None; ``shutdown`` is found too."""
    return next((stage for stage in (*STAGES, SHUTDOWN) if stage.id == name), None)


def parse_stage_names(text: str) -> tuple[str, ...]:
    """Split ``forward,backward``; empty for an empty text."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def describe_stages() -> str:
    """A line for each stage: its name, what it proves, and that it must be asked for."""
    lines = [
        f"{stage.id:<16}{stage.proves}" + ("" if stage.is_default else " (only when asked for)")
        for stage in STAGES
    ]
    return "\n".join(lines) + "\n"
