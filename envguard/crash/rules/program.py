"""The program itself: disk, limits, layout of checkpoints, numerics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.crash.rules.shared_memory import SHM_FOLDER
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

DISK = Outcome(
    "CRS088",
    "disk-full",
    "the disk or the quota is full",
    "A checkpoint could not be written.",
    "look at `df -h`, `df -i` and the quota of that path; remove old checkpoints "
    "(save_total_limit)",
    ("df", "-h"),
)
LAYOUT = Outcome(
    "CRS077",
    "zero-layout-changed",
    "the checkpoint was written by another number of ranks or ZeRO layout",
    "ZeRO's optimizer shards are bound to the number of ranks and the stage.",
    "resume with the same number of ranks and the same stage, convert it to a universal checkpoint "
    "(ds_to_universal), or take the weights only (zero_to_fp32.py) and start the optimizer anew",
)
_WORDS = (
    WordRule(LAYOUT, ("zero-world-size",)),
    WordRule(LAYOUT, ("zero-shard-missing",), needs=("layout-words",), unless=("zero-world-size",)),
    WordRule(
        Outcome(
            "CRS097",
            "process-limit",
            "no more threads or processes may be made",
            "A limit of processes (ulimit -u, pids.max) is reached; memory is not the matter.",
            "raise `ulimit -u` or the container's pids limit, or start fewer workers",
        ),
        ("thread-create-fail",),
    ),
    WordRule(
        Outcome(
            "CRS098",
            "open-files-limit",
            "the limit of open files is reached",
            "Data loader workers hand tensors over as open files.",
            "raise `ulimit -n`, or torch.multiprocessing.set_sharing_strategy('file_system')",
        ),
        ("too-many-files",),
    ),
)


def check_program_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


def check_disk(case: Case) -> Iterator[Finding]:
    """A full disk or quota; a full /dev/shm is spoken of elsewhere."""
    full = [hit for hit in case.log.all("enospc") if SHM_FOLDER not in hit.text]
    full = [] if case.log.has("shm-torch-file", "nccl-shm", "nccl-shm-old") else full
    hits = (*full[:1], *case.hits("edquot", "torch-save-disk-full", "k8s-evicted-disk"))
    if hits:
        yield make_finding(case, DISK, Status.FAIL, hits)


def check_numerics(case: Case) -> Iterator[Finding]:
    """Loss that is no number: a warning, because the run does not die of it."""
    hits = case.hits("loss-nan")
    if hits:
        yield make_finding(case, NUMERICS, Status.WARN, hits)


NUMERICS = Outcome(
    "CRS089",
    "loss-not-finite",
    "the loss is not a number any more",
    "That is numerics, not memory: overflow in fp16, the learning rate, or the data.",
    "train in bf16, lower the learning rate, look at the batch before",
)
