"""Xid, ECC and NVLink: the GPU itself; and faults of kernels that look like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.facts.findings import Evidence, Finding, Status
from envguard.matrix.statuses import XID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.statuses import StatusRow
    from envguard.signatures import SignatureMatch

_OFF_THE_BUS = 79  # Xid
_HARDWARE = frozenset({"hw", "link"})


def check_hardware(case: Case) -> Iterator[Finding]:
    """Faults of the hardware: uncorrectable errors, a lost GPU, and Xids of that class."""
    hits = case.matches("ecc-uncorrectable", "nvlink-uncorrectable", "fallen-off")
    rows = list(_xids(case))
    bad = [(hit, row) for hit, row in rows if row.kind in _HARDWARE]
    if hits or bad:
        named = (*hits, *(hit for hit, _ in bad))
        is_lost = case.log.has("fallen-off") or any(row.code == _OFF_THE_BUS for _, row in bad)
        slug = "gpu-hardware-fault.lost" if is_lost else "gpu-hardware-fault"
        yield make_finding(case, slug, Status.FAIL, named, more=_xid_evidence(bad))
    driver = [(hit, row) for hit, row in rows if "driver" in row.kind]
    if driver and not (hits or bad):
        named = tuple(hit for hit, _ in driver)
        yield make_finding(case, "gpu-driver-fault", Status.FAIL, named, more=_xid_evidence(driver))


def check_kernel_faults(case: Case) -> Iterator[Finding]:
    """Faults in GPU code, unless the hardware is shown to be at fault."""
    hits = case.matches("illegal-access", "launch-failure")
    is_other = case.log.has("ecc-uncorrectable", "nvlink-uncorrectable", "nccl-transport-cure")
    if hits and not is_other and not any(row.kind in _HARDWARE for _, row in _xids(case)):
        yield make_finding(case, "gpu-kernel-fault", Status.FAIL, hits)


def _xids(case: Case) -> Iterator[tuple[SignatureMatch, StatusRow]]:
    seen: set[int] = set()
    for hit in case.log.all("xid"):
        number = hit.number("xid")
        row = case.matrix.statuses.status(XID, number) if number is not None else None
        if row is not None and row.code not in seen:
            seen.add(row.code)
            yield hit, row


def _xid_evidence(rows: list[tuple[SignatureMatch, StatusRow]]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"Xid {row.code}", f"{row.text}; {row.meaning}", hit.place) for hit, row in rows
    )
