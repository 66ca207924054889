"""What a machine offers a job: GPU memory of a rank, host memory of a node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.errors import InputError

if TYPE_CHECKING:
    from envguard.facts.machine import Machine
    from envguard.matrix.memory_table import MemoryTable

GIB = 1024**3
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)
_UNITS = {"K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0}
_LEAST, _MOST = 0.25, 1_048_576.0  # GiB


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits of one side each; None is not known and not judged.

    Args:
        gpu_total: Bytes of one GPU as stated or read.
        gpu_usable: What torch can have of it.
        host_total: Bytes of one node: the tightest of what limits it.
        host_usable: What the job can have of it.
        host_kind: What the host limit is: ``stated``, ``physical memory``, ``cgroup``, ``ulimit``.
    """

    gpu_total: float | None = None
    gpu_usable: float | None = None
    host_total: float | None = None
    host_usable: float | None = None
    host_kind: str = ""


def parse_memory(option: str, text: str) -> float:
    """Read a size in bytes; a plain number is GiB.

    Args:
        option: Name of the option, for messages.
        text: ``80``, ``80G``, ``64GiB``, ``65536M``, ``1.5T``; units are powers of 1024.

    Raises:
        InputError: No size, or not between 0.25 GiB and 1 PiB.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option}: {text!r} is not a memory size such as 80 (GiB) or 80G")
    size = float(match[1]) * _UNITS[(match[2] or "G").upper()]
    if not _LEAST <= size <= _MOST:
        raise InputError(f"{option}: {text!r} is not between 0.25 GiB and 1 PiB")
    return size * GIB


def limits_of(
    table: MemoryTable,
    *,
    gpu_stated: float | None,
    host_stated: float | None,
    machine: Machine | None,
) -> MemoryLimits:
    """Put the limits together.

    Args:
        table: How much of a nominal size a job can have.
        gpu_stated: Bytes of one GPU as stated.
        host_stated: Bytes of one node as stated.
        machine: The machine that fills in what is not stated; None fills in nothing.
    """
    gpu_total, gpu_usable = gpu_stated, None
    if gpu_stated is not None:
        reserved = table.formula("limit.gpu_reserved").evaluate({"nominal": gpu_stated})
        gpu_usable = gpu_stated - reserved.likely
    elif machine is not None:
        gpu_total = gpu_usable = _smallest_gpu(machine)
    host_total, kind = host_stated, "stated"
    if host_stated is None:
        host_total, kind = _tightest(machine)
    usable = _host_usable(host_total, kind, table)
    return MemoryLimits(gpu_total, gpu_usable, host_total, usable, kind if host_total else "")


def _smallest_gpu(machine: Machine) -> float | None:
    sizes = [gpu.memory_bytes for gpu in machine.selected_gpus if gpu.memory_bytes]
    return float(min(sizes)) if sizes else None


def _tightest(machine: Machine | None) -> tuple[float | None, str]:
    if machine is None:
        return None, ""
    limits = machine.limits
    known = [
        (float(size), kind)
        for size, kind in (
            (limits.cgroup_bytes, "cgroup"),
            (limits.ram_bytes, "physical memory"),
            (limits.address_space_bytes, "ulimit"),
        )
        if size is not None
    ]
    return min(known, default=(None, ""), key=lambda pair: pair[0] or 0.0)


def _host_usable(total: float | None, kind: str, table: MemoryTable) -> float | None:
    if total is None:
        return None
    usable = total
    if kind in {"stated", "physical memory"}:  # a cgroup counts the job's own processes only
        usable -= table.formula("limit.system_reserve").evaluate({"ram": total}).likely
    return usable - table.formula("limit.host_headroom").evaluate({"usable": usable}).likely
