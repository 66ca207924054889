"""Which GPUs a process here would see: CUDA_VISIBLE_DEVICES applied to the NVML list."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envguard.facts.machine import Gpu

_NUMBER = r"\s*([+-]?[0-9]{1,9})"


def mark_visible(gpus: tuple[Gpu, ...], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Set ``is_visible`` of every GPU.

    Numbers count in CUDA's order, which is NVML's only under ``CUDA_DEVICE_ORDER=PCI_BUS_ID``:
    the default puts the fastest GPU first. On a machine with different GPUs a number can then
    not be mapped, and visibility stays None unless all or none are selected.

    Args:
        gpus: The GPUs in NVML order.
        environ: Variables of the process.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(replace(gpu, is_visible=True) for gpu in gpus)
    entries = [entry.strip() for entry in listed.split(",")]
    if entries[0].startswith(("GPU-", "MIG-")):
        chosen = _by_uuid(gpus, entries, entries[0][:4])
    else:
        chosen = _by_number(gpus, entries, environ.get("CUDA_DEVICE_ORDER", ""))
    return tuple(
        replace(gpu, is_visible=None if chosen is None else gpu.index in chosen) for gpu in gpus
    )


def _by_number(gpus: tuple[Gpu, ...], entries: Iterable[str], order: str) -> set[int] | None:
    """Indices that a list of numbers selects; None when CUDA's order is not known."""
    chosen: list[int] = []
    for entry in entries:
        match = re.match(_NUMBER, entry)
        number = int(match[1]) if match else -1
        if not 0 <= number < len(gpus):
            break  # CUDA ignores the rest of the list
        if number in chosen:
            return set()  # a repeated number hides every GPU
        chosen.append(number)
    if len(chosen) in {0, len(gpus)} or _is_order_known(gpus, order):
        return {gpus[number].index for number in chosen}
    return None


def _is_order_known(gpus: tuple[Gpu, ...], order: str) -> bool:
    if any(gpu.mig_enabled for gpu in gpus):
        return False  # CUDA numbers the MIG instances then
    if order == "PCI_BUS_ID":
        return True
    kinds = {(gpu.name, gpu.capability, gpu.memory_bytes) for gpu in gpus}
    return len(kinds) == 1 and gpus[0].name is not None


def _by_uuid(gpus: tuple[Gpu, ...], entries: Iterable[str], prefix: str) -> set[int] | None:
    """Indices of the GPUs that a list of (abbreviated) UUIDs selects, or whose instance it does."""
    if any(gpu.uuid is None for gpu in gpus):
        return None
    chosen: set[int] = set()
    for entry in entries:
        if not entry.startswith(prefix):
            break  # CUDA ignores the rest of the list
        matches = {gpu.index for gpu in gpus if _is_named(gpu, entry)}
        if len(matches) != 1:
            break  # no such GPU, or the abbreviation fits several
        chosen |= matches
    return chosen


def _is_named(gpu: Gpu, entry: str) -> bool:
    if entry.startswith("MIG-GPU-"):  # before driver 470: MIG-<GPU UUID>/<instance>/<instance>
        return gpu.uuid == entry.removeprefix("MIG-").partition("/")[0]
    if entry.startswith("MIG-"):
        return any(device.uuid.startswith(entry) for device in gpu.mig_devices)
    return (gpu.uuid or "").startswith(entry)
