"""A process group without processes: the sum is known from the number of ranks."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import Any

from fake_faults import trip  # type: ignore[import-not-found]  # on the child's path

_group: list[str] = []


class FileStore:
    """Where ranks meet."""

    def __init__(self, path: str, count: int) -> None:
        Path(path).touch()


def is_available() -> bool:
    """Built in."""
    return True


def is_initialized() -> bool:
    """Whether there is a group."""
    return bool(_group)


def init_process_group(
    backend: str, store: FileStore | None = None, rank: int = 0, world_size: int = 1
) -> None:
    """Start the group; twice is an error, as with the real one."""
    if _group:
        raise ValueError("trying to initialize the default process group twice!")
    trip("init_process_group")
    _group.append(backend)


def destroy_process_group() -> None:
    """End the group."""
    trip("destroy_process_group")
    _group.clear()


def get_rank() -> int:
    """This process's place."""
    return int(os.environ.get("RANK", "0"))


def all_reduce(tensor: Any) -> None:
    """The sum over ranks that each hold their rank plus one; a group of one keeps its own."""
    factor = trip("all_reduce") * trip(f"all_reduce-{get_rank()}")
    count = int(os.environ.get("WORLD_SIZE", "1"))
    values = tensor.data if count == 1 else [count * (count + 1) / 2] * len(tensor.data)
    tensor.data = array("f", [value * factor for value in values])
