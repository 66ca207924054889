"""Compares planned with measured memory of real DeepSpeed and FSDP jobs on the CPU.

Usage: ``python benchmarks/memory_cpu.py --python PYTHON [--ranks 2,4] [--strategies zero2,...]
[--lora RANK]``

PYTHON is an interpreter with torch (CPU), deepspeed, accelerate and transformers, and for adapters
and ``dpo`` with peft, trl and datasets; ``ddp`` and ``dpo`` are one process. Every rank is a
process of its own that samples its anonymous and shared memory; what it holds after imports and
after a tiny model is its baseline and is subtracted. A CPU job has no GPU memory: tensors that a
GPU machine keeps on the GPU stand in host memory too, so a rank is planned as its GPU lines (CUDA
context, NCCL and allocator fragmentation left out) plus its share of the host lines (processes
left out). What cannot be seen on a CPU is not compared: copies from the GPU to the host while
torch writes a file, page-locked buffers, the CUDA context, NCCL, and the GPU allocator.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from packaging.version import Version

from envguard.matrix.loader import Matrix
from envguard.memory.formulas import MemoryPart
from envguard.memory.job import (
    Job,
    Lora,
    Loss,
    Method,
    Optimizer,
    Recompute,
    Reference,
    SaveMode,
    Strategy,
    Versions,
    ZeroSettings,
)
from envguard.memory.model_config import count_model
from envguard.memory.plan import MemoryPhase, plan_memory

if TYPE_CHECKING:
    from envguard.memory.formulas import Stack

_CHILD = Path(__file__).resolve().parent / "_memory_cpu_child.py"
_SHAPE = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 16000,
}
# trl's head takes 32768 words at a time and casts them to fp32 on a CPU, which no GPU does
_DPO_SHAPE = {**_SHAPE, "vocab_size": 2000}
_BUCKET, _LIVE, _TOKENS = 5_000_000, 10_000_000, 64
_TOLERANCE = 0.12
_TIMEOUT_S = 600
_NOT_ON_CPU = {
    MemoryPart.CONTEXT,
    MemoryPart.NCCL,
    MemoryPart.FRAGMENTATION,
    MemoryPart.BASELINE,
    MemoryPart.FILE_CACHE,
}
# Measured phase -> phase of the plan and the save mode that it is planned with. Writing shards or
# 16-bit weights copies from the GPU only, so that nothing of it shows on a CPU.
_ZERO = {
    "load": (MemoryPhase.LOAD, SaveMode.TRAINER),
    "init": (MemoryPhase.INIT, SaveMode.TRAINER),
    "step": (MemoryPhase.STEP, SaveMode.TRAINER),
    "save-trainer": (MemoryPhase.SAVE, SaveMode.TRAINER),
    "resume": (MemoryPhase.RESUME, SaveMode.TRAINER),
}
_SINGLE = {
    "load": (MemoryPhase.LOAD, SaveMode.TRAINER),
    "step": (MemoryPhase.STEP, SaveMode.TRAINER),
    "save-trainer": (MemoryPhase.SAVE, SaveMode.TRAINER),
    "resume": (MemoryPhase.RESUME, SaveMode.TRAINER),
}
_DPO = {
    "step": (MemoryPhase.STEP, SaveMode.TRAINER),
    "save-trainer": (MemoryPhase.SAVE, SaveMode.TRAINER),
}
_FSDP = {
    "init": (MemoryPhase.INIT, SaveMode.TRAINER),
    "step": (MemoryPhase.STEP, SaveMode.TRAINER),
    "save-trainer": (MemoryPhase.SAVE, SaveMode.TRAINER),
    "save-sharded": (MemoryPhase.SAVE, SaveMode.SHARDED),
    "save-dcp-async": (MemoryPhase.SAVE, SaveMode.DCP_ASYNC),
    "resume-sharded": (MemoryPhase.RESUME, SaveMode.SHARDED),
}
_PHASES = {"zero": _ZERO, "fsdp": _FSDP, "ddp": _SINGLE, "dpo": _DPO}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One phase of one job: bytes of all ranks together, above their baselines."""

    job: str
    phase: str
    planned: float
    measured: float

    @property
    def error(self) -> float:
        """How far the plan is off, relative to what was measured."""
        return self.planned / self.measured - 1


def run_job(python: str, strategy: str, ranks: int, lora: int = 0) -> dict[str, float]:
    """Run a job and return what its ranks need above their baselines, summed, by phase."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        words = ("--strategy", strategy, "--lora", str(lora))
        children = [_start(python, words, rank, ranks, port, folder) for rank in range(ranks)]
        for child in children:
            child.wait(timeout=_TIMEOUT_S)
        documents = [json.loads((Path(folder) / f"rank{r}.json").read_text()) for r in range(ranks)]
    return {
        phase: sum(_above_baseline(document, phase) for document in documents)
        for phase in documents[0]
        if phase != "warm-up"
    }


def _above_baseline(document: dict[str, dict[str, int]], phase: str) -> float:
    return float(document[phase]["peak"] - document["warm-up"]["end"])


def _start(
    python: str, words: tuple[str, ...], rank: int, ranks: int, port: int, folder: str
) -> subprocess.Popen[bytes]:
    group = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    variables = {
        **(group if ranks > 1 else {}),  # one process with a group is wrapped in DDP by accelerate
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": 1,
        "HF_HUB_OFFLINE": 1,
        # large tensors go back to the system when they are freed, as they do at real sizes
        "MALLOC_MMAP_THRESHOLD_": 65536,
        "MALLOC_TRIM_THRESHOLD_": 65536,
    }
    log = (Path(folder) / f"log{rank}").open("wb")
    return subprocess.Popen(
        [
            *(python, str(_CHILD), *words, "--shape", json.dumps(_shape(words[1]))),
            *("--seq-len", str(_TOKENS), "--bucket", str(_BUCKET), "--live", str(_LIVE)),
            *("--folder", folder),
        ],
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def _shape(strategy: str) -> dict[str, int]:
    return _DPO_SHAPE if strategy == "dpo" else _SHAPE


def plan_job(strategy: str, ranks: int, save: SaveMode, lora: int = 0) -> Job:
    """The same job for the planner."""
    config: dict[str, object] = {
        **_shape(strategy),
        "model_type": "llama",
        "tie_word_embeddings": False,
    }
    is_dpo = strategy == "dpo"
    kind = Strategy.DDP if is_dpo else Strategy(strategy)
    reference = Reference.ADAPTER if lora else Reference.COPY
    return Job(
        shape=count_model(config, "benchmark"),
        strategy=kind,
        versions=Versions(
            deepspeed=Version("0.19.8"),
            transformers=Version("5.24.0"),
            torch=Version("2.13.0"),
            safetensors=Version("0.8.0"),
            accelerate=Version("1.15.0"),
        ),
        gpus=ranks,
        # without fusing, on a CPU: DeepSpeed one flat tensor, torch one parameter at a time
        optimizer=Optimizer.ADAMW_SINGLE,
        method=Method.DPO if is_dpo else Method.SFT,
        reference=reference if is_dpo else Reference.NONE,
        loss=Loss.FUSED if is_dpo else Loss.PLAIN,
        lora=Lora(lora, has_dropout=False) if lora else None,
        micro_batch=1,
        seq_len=_TOKENS,
        accumulates=False,
        recompute=Recompute.NONE,
        save=save,
        fsdp_efficient_load=False,
        zero=ZeroSettings(
            reduce_bucket=_BUCKET,
            allgather_bucket=_BUCKET,
            prefetch_bucket=_BUCKET,
            max_live=_LIVE,
            persistence=10_000,
            overlap_comm=False,
        ),
    )


def compare(
    strategy: str, ranks: int, measured: dict[str, float], lora: int = 0
) -> list[Comparison]:
    """Hold a plan against a measured job, phase by phase."""
    table = Matrix.load().memory
    found = []
    phases = _PHASES[strategy.split("-")[0].rstrip("123")]
    adapters = f" lora {lora}" if lora else ""
    for name, (phase, save) in phases.items():
        plan = plan_memory(plan_job(strategy, ranks, save, lora), table).phase(phase)
        host = _tensors(plan.host)
        if strategy in {"ddp", "dpo"} and name == "save-trainer":
            host = 0.0  # safetensors copies from a GPU only
        planned = ranks * _tensors(plan.gpu) + host
        if lora and name == "init" and strategy.startswith("fsdp"):
            # the weights that are sharded here; a job that loads a checkpoint has them mapped
            planned += ranks * 2 * plan_job(strategy, ranks, save).shape.params
        job = f"{strategy} x{ranks}{adapters}"
        found.append(Comparison(job, name, planned, measured[name]))
    return found


def _tensors(stack: Stack) -> float:
    return sum(line.amount.likely for line in stack.lines if line.part not in _NOT_ON_CPU)


def main() -> int:
    """Run the benchmark; 0 when every phase is within the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--python", required=True)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--strategies", default="zero1,zero2,zero3,fsdp-full,fsdp-grad-op")
    parser.add_argument("--lora", type=int, default=0)
    options = parser.parse_args()
    print(f"{'job':<18}{'phase':<16}{'planned MiB':>12}{'measured MiB':>14}{'off by':>9}")
    worst = 0.0
    for strategy in options.strategies.split(","):
        for ranks in map(int, options.ranks.split(",")):
            measured = run_job(options.python, strategy, ranks, options.lora)
            for row in compare(strategy, ranks, measured, options.lora):
                figures = f"{row.planned / 2**20:>12.0f}{row.measured / 2**20:>14.0f}"
                print(f"{row.job:<18}{row.phase:<16}{figures}{row.error:>+9.1%}")
                worst = max(worst, abs(row.error))
    print(f"worst: {worst:.1%}, allowed {_TOLERANCE:.0%}")
    return 0 if worst <= _TOLERANCE else 1


class _Raw(argparse.RawDescriptionHelpFormatter):
    """The description as written."""


if __name__ == "__main__":
    sys.exit(main())
