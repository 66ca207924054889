"""GPU memory: the allocator's words, NCCL's and the driver's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

STATES = Outcome(
    "CRS060",
    "gpu-oom-states-plus-activations",
    "the GPU ran out of memory",
    "Parameters, gradients, optimizer states and activations of one rank do not fit together. This "
    "ends in an exception and status 1, never in -9.",
    "micro-batch 1 and gradient checkpointing first; then a higher ZeRO stage, or offload; "
    "`envguard plan` says what fits",
    ("envguard", "plan"),
)
ZERO2 = Outcome(
    "CRS061",
    "gpu-oom-zero2-full-params",
    "the GPU ran out of memory: ZeRO-2 keeps the whole model on each GPU",
    "ZeRO-1 and 2 shard gradients and optimizer states only: 2 bytes of every parameter stay on "
    "each GPU whatever their number.",
    "ZeRO-3, or micro-batch 1 with smaller buckets",
    ("envguard", "plan"),
)
TAKEN = Outcome(
    "CRS063",
    "gpu-memory-taken",
    "another process holds most of the GPU's memory",
    "Process {pid} has {n} in use.",
    "end it (a rank left over from the last run?) or take another GPU",
    ("nvidia-smi",),
)
TAKEN_MAYBE = Outcome(
    "CRS063",
    "gpu-memory-taken",
    "another process holds most of the GPU's memory",
    "A process of another run, or a rank that was left over.",
    "end it, or take another GPU",
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS062",
            "nvml-assert-masks-oom",
            "the GPU ran out of memory, and torch failed while it wrote the message",
            "The allocator asks NVML for the figures of its out-of-memory message; on Tegra there "
            "is no NVML and on MIG it is restricted. The driver is not at fault.",
            "reduce what the GPU has to hold: batch, sequence, model; newer torch only warns here",
        ),
        ("nvml-assert",),
    ),
    WordRule(
        Outcome(
            "CRS048",
            "pinned-host-memory-limit",
            "page-locking host memory failed; the GPU's memory is not full",
            "The failed pin leaves its error behind and the next kernel launch reports it as out "
            "of memory.",
            "pin less, or in smaller pieces (pin_memory=False in the data loader and the offload "
            "configuration); look at `ulimit -l`",
        ),
        ("cuda-oom-bare",),
        needs=("pinned-words", "pinned-copy-frame"),
        unless=("cuda-oom",),
    ),
)
MEMLOCK = WordRule(
    Outcome(
        "CRS103",
        "memlock-too-small",
        "memory could not be locked for InfiniBand",
        "The limit of locked memory (ulimit -l) is too small for NCCL's buffers.",
        "set ulimit -l unlimited (docker --ulimit memlock=-1, Slurm PropagateResourceLimits)",
    ),
    ("memlock-words",),
)
_BYTES = re.compile(r"([\d.]{1,12}) (KiB|MiB|GiB)")
_UNITS = {"KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0}


def check_gpu_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words((*_WORDS, MEMLOCK), case)


def check_gpu_memory(case: Case) -> Iterator[Finding]:
    """PyTorch's or NCCL's word that the GPU is full."""
    hits = case.hits("cuda-oom", "nccl-cuda-malloc")
    failed = [h for h in case.log.all("nccl-cuda-failure") if h.groups["e"] == "out of memory"]
    if not hits and not failed:
        return
    named = (*hits, *failed[:1], *case.hits("cuda-oom-detail"))
    other = _largest_other(case)
    if other is not None:
        yield other
        return
    stage = case.log.last("zero-stage")
    number = stage.number("stage", "stage2", "stage3") if stage is not None else None
    if stage is not None and number in {1, 2}:
        yield make_finding(case, ZERO2, Status.FAIL, (*named, stage), more=_fragments(case))
        return
    yield make_finding(case, STATES, Status.FAIL, named, more=_fragments(case))


def _gib(text: str) -> float:
    match = _BYTES.match(text)
    return float(match[1]) * _UNITS[match[2]] if match and match[1].count(".") < 2 else 0.0


def _largest_other(case: Case) -> Finding | None:
    """Another process with more than what torch itself holds."""
    detail = case.log.first("cuda-oom-detail")
    own = _gib(detail.groups["alloc"]) + _gib(detail.groups["res"]) if detail else None
    others = [h for h in case.log.all("cuda-oom-others") if _gib(h.groups["n"]) > 1]
    largest = max(others, key=lambda hit: _gib(hit.groups["n"]), default=None)
    if own is None or largest is None or _gib(largest.groups["n"]) < 2 * own:
        return None
    return make_finding(case, TAKEN, Status.FAIL, (largest, *case.hits("cuda-oom")))


def _fragments(case: Case) -> tuple[Evidence, ...]:
    hit = case.log.last("cuda-oom-detail")
    if hit is None or _gib(hit.groups["res"]) < 0.2 * max(_gib(hit.groups["alloc"]), 0.1):
        return ()
    advice = (
        f"{hit.groups['res']} reserved and not used: PYTORCH_ALLOC_CONF=expandable_segments:True"
    )
    return (Evidence("fragmentation", advice, hit.place),)
