"""The program itself: disk, limits, layout of checkpoints, numerics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.crash.rules.shared_memory import SHM_FOLDER
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


def check_disk(case: Case) -> Iterator[Finding]:
    """A full disk or quota; a full /dev/shm is spoken of elsewhere."""
    full = [hit for hit in case.log.all("enospc") if SHM_FOLDER not in hit.text]
    full = [] if case.log.has("shm-torch-file", "nccl-shm", "nccl-shm-old") else full
    hits = (*full[:1], *case.matches("edquot", "torch-save-disk-full", "k8s-evicted-disk"))
    if hits:
        yield make_finding(case, "disk-full", Status.FAIL, hits)


def check_numerics(case: Case) -> Iterator[Finding]:
    """Loss that is no number: a warning, because the run does not die of it."""
    hits = case.matches("loss-nan")
    if hits:
        yield make_finding(case, "loss-not-finite", Status.WARN, hits)
