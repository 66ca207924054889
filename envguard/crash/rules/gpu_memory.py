"""GPU memory: the allocator's words, NCCL's and the driver's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch

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
    told = _of_block(case)
    if told is not None:
        slug, shown = told
        yield make_finding(
            case, slug, Status.FAIL, (*named[:1], *shown, *named[1:]), more=_fragments(case)
        )
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


_OF_FRAME = {
    "oom-in-evaluation": "gpu-oom-states-plus-activations.evaluation",
    "oom-in-generation": "gpu-oom-states-plus-activations.generation",
    "oom-in-attention": "gpu-oom-states-plus-activations.attention",
    "oom-at-logits": "gpu-oom-states-plus-activations.logits",
    "oom-in-optimizer": "gpu-oom-states-plus-activations.optimizer",
    "oom-at-load": "gpu-oom-states-plus-activations.load",
}
# A block of attention or of the logits below this is one among many, and not what fills the GPU.
_LARGE_GIB = 1.0
_ONE_BLOCK = {"oom-in-attention", "oom-at-logits"}
# Lines of a traceback from the frame that asked for memory to the exception.
_FRAME_LINES = 12


def _of_block(case: Case) -> tuple[str, tuple[SignatureMatch, ...]] | None:
    """What the failed allocation itself tells: one process, pieces, or the frame that asked."""
    alone = case.log.first("fsdp-no-shard")
    if alone is not None:
        return "gpu-oom-states-plus-activations.one-process", (alone,)
    hit = case.log.first("cuda-oom")
    asked = _gib(hit.groups.get("req") or "") if hit is not None else 0.0
    if hit is None or not asked:
        return None
    detail = case.log.first("cuda-oom-detail")
    if detail is not None and _is_in_pieces(detail, asked):
        return "gpu-oom-states-plus-activations.fragments", (detail,)
    frame = _frame_before(case, hit, asked)
    return (_OF_FRAME[frame.id], (frame,)) if frame is not None else None


# Less of its memory than this lies unused in any long run, and is not what fills the GPU.
_IN_PIECES = 0.1


def _is_in_pieces(detail: SignatureMatch, asked_gib: float) -> bool:
    """Whether what the allocator holds and does not use would have done, were it in one piece."""
    unused, used = _gib(detail.groups["res"]), _gib(detail.groups["alloc"])
    return unused >= asked_gib and unused >= _IN_PIECES * (unused + used)


def _frame_before(case: Case, hit: SignatureMatch, asked: float) -> SignatureMatch | None:
    """The frame that asked for the memory: the last one above the exception that is known."""
    frames = [
        frame
        for frame in case.log.all(*_OF_FRAME)
        if 0 <= hit.order - frame.order <= _FRAME_LINES
        and (asked >= _LARGE_GIB or frame.id not in _ONE_BLOCK)
    ]
    return max(frames, key=lambda frame: frame.order, default=None)


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
