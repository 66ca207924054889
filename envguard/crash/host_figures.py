"""Figures of host memory that stand in a text: how full it was, by whose reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.sentences import say
from envguard.signatures import SignatureMatch
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.log import Log

# Half empty is far from full; above nine tenths the kernel begins to drop what it can.
_LOW, _HIGH = 0.5, 0.9
_UNITS = {"": 2**-10, "K": 2**-20, "M": 2**-10, "G": 1.0, "T": 2**10}
_BYTES = 2**-30


@dataclass(frozen=True, slots=True)
class HostFigure:
    """One reading of the machine's memory.

    Args:
        used_gib: In use; None where the reading gives a share only.
        total_gib: All there is; None where it is not told.
        share: What was in use, of 1.
        hit: The line.
    """

    used_gib: float | None
    total_gib: float | None
    share: float
    hit: SignatureMatch

    @property
    def is_low(self) -> bool:
        """Less than half of the memory was in use."""
        return self.share < _LOW

    @property
    def is_high(self) -> bool:
        """Nearly all of the memory was in use."""
        return self.share >= _HIGH

    @property
    def words(self) -> str:
        """For a sentence: ``17.3 GiB of about 1153 GiB in use (1.5 %)``."""
        percent = 100 * self.share
        if self.used_gib is None or self.total_gib is None:
            return say("{percent:.1f} % in use", percent=percent)
        return say(
            "{used:.1f} GiB of about {total:.0f} GiB in use ({percent:.1f} %)",
            used=self.used_gib,
            total=self.total_gib,
            percent=percent,
        )


def last_figure(log: Log) -> HostFigure | None:
    """The latest reading of the machine's memory that the log holds; None without one."""
    found = [*_of_deepspeed(log), *_of_free(log), *_of_meminfo(log), *_of_psutil(log)]
    return max(found, key=lambda figure: figure.hit.order, default=None)


def _number(text: str) -> float:
    return float(text) if text.count(".") < 2 and text.strip(".") else 0.0


def _of_deepspeed(log: Log) -> Iterator[HostFigure]:
    for hit in log.all("ds-host-memory"):
        share = _number(hit.groups["percent"]) / 100
        used = _number(hit.groups["used"])
        yield HostFigure(used, used / share if share else None, share, hit)


def _of_free(log: Log) -> Iterator[HostFigure]:
    """The row of ``free``; what it calls available is what a program can have."""
    for hit in log.all("free-row"):
        sizes = {
            name: _number(hit.groups[name]) * _UNITS[hit.groups.get(f"{name}_unit", "").upper()]
            for name in ("total", "used", "available")
            if name in hit.groups
        }
        total = sizes["total"]
        if total <= 0:
            continue
        used = total - sizes["available"] if "available" in sizes else sizes["used"]
        has_unit = bool(hit.groups.get("total_unit"))
        share = min(max(used / total, 0.0), 1.0)
        yield HostFigure(used if has_unit else None, total if has_unit else None, share, hit)


def _of_meminfo(log: Log) -> Iterator[HostFigure]:
    total = log.last("meminfo-total")
    for hit in log.all("meminfo-available"):
        size = (total.number("kb") or 0) / 2**20 if total is not None else 0.0
        left = (hit.number("kb") or 0) / 2**20
        if size > 0:
            yield HostFigure(size - left, size, min(max(1 - left / size, 0.0), 1.0), hit)


def _of_psutil(log: Log) -> Iterator[HostFigure]:
    for hit in log.all("psutil-memory"):
        total = (hit.number("total") or 0) * _BYTES
        left = (hit.number("available") or 0) * _BYTES
        share = _number(hit.groups["percent"]) / 100
        known = total > 0
        yield HostFigure(total - left if known else None, total if known else None, share, hit)
