"""Xid, ECC and NVLink: the GPU itself; and faults of kernels that look like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit
    from envguard.matrix.signal_rows import ErrorRow

FAULT = Outcome(
    "CRS085",
    "gpu-hardware-fault",
    "the GPU or its link failed",
    "The driver reported a fault of the hardware; no change of software cures it.",
    "take the GPU out of use, reset it or the machine, and look at `nvidia-smi -q -d ECC`",
    ("nvidia-smi", "-q", "-d", "ECC,ROW_REMAPPER"),
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS086",
            "index-out-of-range-on-gpu",
            "an assertion failed in GPU code: an index out of range",
            "A token id beyond the vocabulary, a label beyond the classes, or a position beyond "
            "the table. The line shown is not where it happened.",
            "run the same batch on the CPU, or with CUDA_LAUNCH_BLOCKING=1, to see the line",
            ("env", "CUDA_LAUNCH_BLOCKING=1"),
        ),
        ("device-assert",),
    ),
    WordRule(
        Outcome(
            "CRS087",
            "gpu-kernel-fault",
            "a GPU kernel read or wrote where it may not",
            "A bug of a kernel, most often of an extension (attention, quantisation).",
            "run with CUDA_LAUNCH_BLOCKING=1; then without the extension in the traceback",
            ("env", "CUDA_LAUNCH_BLOCKING=1"),
        ),
        ("illegal-access", "launch-failure"),
        unless=("ecc-uncorrectable", "nvlink-uncorrectable", "nccl-transport-cure"),
    ),
)
_HARDWARE = frozenset({"hw", "link"})


def check_hardware(case: Case) -> Iterator[Finding]:
    """Faults of the hardware: uncorrectable errors, a lost GPU, and Xids of that class."""
    hits = case.hits("ecc-uncorrectable", "nvlink-uncorrectable", "fallen-off")
    rows = list(_xids(case))
    bad = [(hit, row) for hit, row in rows if row.kind in _HARDWARE]
    if hits or bad:
        named = (*hits, *(hit for hit, _ in bad))
        yield make_finding(case, FAULT, Status.FAIL, named, more=_xid_evidence(bad))
    driver = [(hit, row) for hit, row in rows if "driver" in row.kind]
    if driver and not (hits or bad):
        named = tuple(hit for hit, _ in driver)
        yield make_finding(case, DRIVER_FAULT, Status.FAIL, named, more=_xid_evidence(driver))


DRIVER_FAULT = Outcome(
    "CRS084",
    "gpu-driver-fault",
    "the driver or the GPU's firmware stopped answering",
    "The kernel log holds an Xid of the driver or of its firmware (GSP).",
    "reset the GPU or reboot; update the driver if it comes again",
)


def check_kernel_faults(case: Case) -> Iterator[Finding]:
    """Faults in GPU code, unless the hardware is shown to be at fault."""
    if any(row.kind in _HARDWARE for _, row in _xids(case)):
        return
    yield from apply_words(_WORDS, case)


def _xids(case: Case) -> Iterator[tuple[Hit, ErrorRow]]:
    seen: set[int] = set()
    for hit in case.log.all("xid"):
        number = hit.number("xid")
        row = case.table.xid(number) if number is not None else None
        if row is not None and row.code not in seen:
            seen.add(row.code)
            yield hit, row


def _xid_evidence(rows: list[tuple[Hit, ErrorRow]]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"Xid {row.code}", f"{row.text}; {row.note}".rstrip("; "), hit.place)
        for hit, row in rows
    )
