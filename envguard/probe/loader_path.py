"""What the dynamic loader would find first: folders of LD_LIBRARY_PATH, files of an image."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from envguard.facts.machine import ContainerKind, Reading
from envguard.probe.limits import unescape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.probe.probe_options import ProbeOptions

_MOST_FOLDERS = 64
_MOST_FILES = 200
# Libraries that wheels bring too, so that a copy found earlier takes their place.
_LIBRARY = (  # compiled when first needed: most environments have no such folders
    r"lib(?:cublas(?:Lt)?|cudart|cudnn[a-z_0-9]*?|cufft|cufile|cupti|curand|cusolver(?:Mg)?"
    r"|cusparse(?:Lt)?|nccl|nvJitLink|nvrtc|nvshmem_host|nvToolsExt|c10|torch[a-z_]*|stdc\+\+)"
    r"\.so\.?[0-9.]*"
)


def find_library_path_files(options: ProbeOptions) -> tuple[str, ...]:
    """The CUDA libraries that lie in the folders of ``LD_LIBRARY_PATH``, in its order.

    Args:
        options: For the variable; its folders are those of the running system.

    Returns:
        Paths, at most 200; a folder that cannot be listed holds nothing for the loader either.
    """
    text = options.environ.get("LD_LIBRARY_PATH", "")
    folders = [folder for folder in text.split(":") if folder]
    found = [path for folder in folders[:_MOST_FOLDERS] for path in _libraries_of(folder)]
    return tuple(dict.fromkeys(found))[:_MOST_FILES]


def _libraries_of(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names suffice
    except OSError:
        return []
    return [f"{folder.rstrip('/')}/{name}" for name in names if re.fullmatch(_LIBRARY, name)]


def read_libcuda_mount(
    options: ProbeOptions, container: ContainerKind | None, readings: Iterable[Reading]
) -> tuple[Reading, ...]:
    """Inside a container, where the file system that holds libcuda is mounted.

    ``/`` means that it is part of the image; a runtime that passes GPUs mounts the host's.

    Args:
        options: For the list of mounts.
        container: Only inside one the question has a meaning.
        readings: For libcuda's path.
    """
    path = next((r.value for r in readings if r.fact == "driver.libcuda"), None)
    if path is None or container in {None, ContainerKind.NONE}:
        return ()
    text = options.read_or_none("/proc/self/mountinfo")
    point = mount_point_of(path, text) if text else None
    return (Reading("driver.libcuda_mount", point, "mountinfo"),) if point else ()


def mount_point_of(path: str, mountinfo: str) -> str | None:
    """The innermost mount point above a path, or the path itself where it is one.

    Args:
        path: Absolute.
        mountinfo: Text of ``/proc/self/mountinfo``, whose fifth field is the mount point.

    Returns:
        None when nothing that is listed lies above it.
    """
    rows = (line.partition(" - ")[0].split() for line in mountinfo.splitlines())
    points = {unescape(row[4]) for row in rows if len(row) > 4}
    above = [p for p in points if path == p or path.startswith(f"{p.rstrip('/')}/")]
    return max(above, key=len, default=None)
