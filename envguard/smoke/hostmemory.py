"""What a checkpoint cost in host memory, in a few words for a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB = 2**20


def describe_memory(details: Mapping[str, Any]) -> str:
    """Say by how much saving and loading raised resident memory, beside the state's size.

    Args:
        details: What a stage measured; sizes in bytes.

    Returns:
        ``32 MiB: save +1 MiB, load +32 MiB``; empty where that was not measured.
    """
    sizes = [details.get(key) for key in ("state_bytes", "save_rss_bytes", "load_rss_bytes")]
    if not all(isinstance(size, int) for size in sizes):
        return ""
    state, save, load = (f"{size / _MIB:.0f} MiB" for size in sizes if isinstance(size, int))
    return f"{state}: save +{save}, load +{load}"
