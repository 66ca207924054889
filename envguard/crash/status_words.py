"""Numbered statuses in a log that no rule knows: what they mean, and what decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import went_on
from envguard.crash.cause_findings import RaisedHypothesis
from envguard.matrix.causes import Hypothesis
from envguard.matrix.statuses import CUDA, NCCL, XID
from envguard.signatures import fill_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.statuses import StatusRow, StatusTable
    from envguard.signatures import SignatureMatch


_WORDS = ("status-name", "cuda-error-words", "xid")
# Memory has rules of its own, which tell whose it was; a status says only that there was none.
_OTHERS_MATTER = frozenset({"cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable"})
_NOTED_ONLY = frozenset({"info", "display"})
_RANK, _RANK_OF_FOLLOWERS = 440, 890
_MOST = 3


def read_status(hit: SignatureMatch, table: StatusTable) -> StatusRow | None:
    """The status of which a line speaks, or None where the table has none such.

    A number counts where the line says that it is CUDA's or an Xid: "Error 404" is another's.

    Args:
        hit: A match of ``status-name``, ``cuda-error-words`` or ``xid``.
        table: The statuses.
    """
    if (number := hit.number("xid")) is not None:
        return table.status(XID, number)
    if name := hit.groups.get("status"):
        return next(iter(table.named(name)), None)
    words = (hit.groups.get(name) for name in ("string", "string2", "name"))
    told = (table.told(text.partition(" ")[0]) or table.told(text) for text in words if text)
    found = next((row for row in told if row is not None), None)
    if found is None and (code := hit.number("number", "number2")) is not None:
        found = table.status(CUDA, code)
    return found


def hypotheses_of_statuses(case: Case) -> Iterator[RaisedHypothesis]:
    """What statuses of the log mean: the causes to which they point, or that they name none."""
    if not case.log.has(*_WORDS):
        return  # the table is not read where nothing asks for it
    seen: list[StatusRow] = []
    for hit in case.log.all(*_WORDS):
        row = read_status(hit, case.matrix.statuses)
        if row is None or row in seen or len(seen) == _MOST or went_on(case, hit):
            continue
        if row.name in _OTHERS_MATTER or row.kind in _NOTED_ONLY:
            continue
        seen.append(row)
        yield _hypothesis(case, hit, row)


def _hypothesis(case: Case, hit: SignatureMatch, row: StatusRow) -> RaisedHypothesis:
    deciding = case.matrix.statuses.deciding[row.decides]
    rank = _RANK_OF_FOLLOWERS if row.kind == "follow" else _RANK
    said = {"meaning": row.meaning, "library": row.library, "label": row.label}
    if row.cause and case.matrix.causes.has_message(row.cause):
        found = Hypothesis(
            id=row.cause,
            says=row.cause,
            supports="{library} gave {label}: {meaning}",
            against="a status names no cause by itself",
            experiment=deciding.text,
            command=deciding.command,
            lines=(hit.id,),
            rank=rank,
        )
        return RaisedHypothesis(found, said)
    names = {XID: "driver-event", CUDA: "cuda-runtime-error", NCCL: "nccl-error"}
    name = names.get(row.layer, "library-status")
    message = case.matrix.causes.message(name)
    values = {
        **said,
        "code": row.code,
        "name": row.name,
        "note": row.meaning,
        "experiment": deciding.text,
        "command": deciding.command,
        "lines": (hit.id,),
        "rank": rank,
    }
    return RaisedHypothesis(name, values, fill_message(message, said))
