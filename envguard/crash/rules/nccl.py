"""NCCL: time-outs, transports, mixed versions, and peers that died first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.phases import Phase
from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

WATCHDOG = Outcome(
    "CRS080",
    "nccl-watchdog-abort",
    "a rank did not arrive at a collective and the NCCL watchdog ended the run",
    "It died, it is slow, or it took another branch of the program; the ranks that wait abort "
    "(-6).",
    "find the missing rank: TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, or py-spy "
    "dump on the rank that runs; raise the timeout only for slow saves",
)
TRANSPORT = Outcome(
    "CRS081",
    "nccl-intra-node-transport",
    "NCCL's transport between the GPUs of this node",
    "Peer-to-peer over PCIe with ACS or an IOMMU, or shared memory, makes it hang or crash.",
    "run once with NCCL_P2P_DISABLE=1, then with NCCL_SHM_DISABLE=1 instead, and nothing else "
    "changed",
    ("env", "NCCL_P2P_DISABLE=1"),
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS082",
            "nccl-versions-differ",
            "the nodes have different NCCL versions",
            "All ranks have to load one NCCL.",
            "install the same environment on all nodes",
        ),
        ("nccl-version-mix",),
    ),
    WordRule(
        Outcome(
            "CRS083",
            "nccl-no-interface",
            "NCCL finds no network interface",
            "NCCL_SOCKET_IFNAME names none that exists here.",
            "unset or correct NCCL_SOCKET_IFNAME",
        ),
        ("nccl-no-socket",),
    ),
)


def check_nccl_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


def check_watchdog(case: Case) -> Iterator[Finding]:
    """A collective that timed out: the waiting ranks are not the cause."""
    hits = case.hits("nccl-watchdog", "nccl-takedown", "nccl-watchdog-frame")
    if not hits:
        return
    why = ""
    if case.phase is Phase.SAVE:
        why = "The ranks waited for a save: rank 0 takes longer to write than the timeout."
    yield make_finding(case, WATCHDOG, Status.FAIL, hits, detail=why)
