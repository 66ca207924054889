"""GPU memory: the allocator's words, NCCL's and the driver's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_BYTES = re.compile(r"([\d.]{1,12}) (KiB|MiB|GiB)")
_UNITS = {"KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0}


def check_gpu_memory(case: Case) -> Iterator[Finding]:
    """PyTorch's or NCCL's word that the GPU is full."""
    hits = case.matches("cuda-oom", "nccl-cuda-malloc")
    failed = [h for h in case.log.all("nccl-cuda-failure") if h.groups["e"] == "out of memory"]
    if not hits and not failed:
        return
    named = (*hits, *failed[:1], *case.matches("cuda-oom-detail"))
    other = _largest_other(case)
    if other is not None:
        yield other
        return
    stage = case.log.last("zero-stage")
    number = stage.number("stage", "stage2", "stage3") if stage is not None else None
    if stage is not None and number in {1, 2}:
        yield make_finding(
            case, "gpu-oom-zero2-full-params", Status.FAIL, (*named, stage), more=_fragments(case)
        )
        return
    yield make_finding(
        case, "gpu-oom-states-plus-activations", Status.FAIL, named, more=_fragments(case)
    )


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
    return make_finding(case, "gpu-memory-taken", Status.FAIL, (largest, *case.matches("cuda-oom")))


def _fragments(case: Case) -> tuple[Evidence, ...]:
    hit = case.log.last("cuda-oom-detail")
    if hit is None or _gib(hit.groups["res"]) < 0.2 * max(_gib(hit.groups["alloc"]), 0.1):
        return ()
    advice = (
        f"{hit.groups['res']} reserved and not used: PYTORCH_ALLOC_CONF=expandable_segments:True"
    )
    return (Evidence("fragmentation", advice, hit.place),)
