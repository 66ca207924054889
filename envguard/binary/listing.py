"""The compiled files of an environment at one moment, those that torch compiled here among them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.binary.folders import find_compiled
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.files import read_beginning
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envguard.binary.folders import FolderMemory
    from envguard.binary.inspected import InspectedEnvironment


Signature = tuple[int, int, int]  # size, modification time in ns, inode
_MOST_PTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One compiled file.

    Args:
        path: Where it lies.
        name: Relative to the folder of the environment that holds it.
        signature: Changes when the file does; None when it cannot be looked at.
    """

    path: str
    name: str
    signature: Signature | None


def signature_of(path: str) -> Signature | None:
    """What tells one state of a file or folder from another; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a text path
    except (OSError, ValueError):
        return None
    return (found.st_size, found.st_mtime_ns, found.st_ino)


def list_files(
    folders: Iterable[Path], gaps: list[Gap], memory: FolderMemory | None = None
) -> tuple[ListedFile, ...]:
    """The compiled files below folders, sorted by path, each once.

    Args:
        folders: The environment's, in the order of ``sys.path``.
        gaps: Folders that cannot be read are added.
        memory: What folders held before.
    """
    found: dict[str, ListedFile] = {}
    for folder in folders:
        for file in find_compiled(str(folder), gaps, memory=memory):
            if file.path not in found:
                found[file.path] = ListedFile(file.path, file.name, signature_of(file.path))
    return tuple(sorted(found.values(), key=lambda listed: listed.path))


def all_folders(site_folders: Iterable[Path]) -> tuple[Path, ...]:
    """Folders that exist, each once, with those that their ``.pth`` files add."""
    kept: dict[str, Path] = {}
    pending = list(site_folders)
    for folder in pending:  # grows by one level: a .pth file in an added folder does not count
        real = os.path.realpath(folder)
        if real in kept or not os.path.isdir(real):  # noqa: PTH112 - a text path
            continue
        kept[real] = folder
        if folder in site_folders:
            pending.extend(_added_folders(folder))
    roots = list(kept)
    return tuple(
        path
        for real, path in kept.items()
        if not any(real.startswith(f"{other}/") for other in roots if other != real)
    )


def _added_folders(folder: Path) -> list[Path]:
    """Source: the documentation of Python's ``site`` module."""
    added = []
    for file in sorted(folder.glob("*.pth")):
        try:
            text = read_beginning(file, _MOST_PTH).decode("utf-8", "replace")
        except OSError:
            continue
        lines = [line.strip() for line in text.splitlines()]
        added += [
            folder / line
            for line in lines
            if line and not line.startswith(("#", "import ", "import\t")) and "\0" not in line
        ]
    return added


def digest(listing: Iterable[ListedFile], others: Mapping[str, str]) -> str:
    """One word for a state of the files and of everything else that a result depends on."""
    state = hashlib.sha256()
    for listed in listing:
        state.update(f"{listed.path}\0{listed.signature}\n".encode("utf-8", "surrogateescape"))
    for key, value in sorted(others.items()):
        state.update(f"{key}\0{value}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest()


def find_jit_caches(subject: InspectedEnvironment, gaps: list[Gap]) -> tuple[ListedFile, ...]:
    """The compiled extensions that this interpreter with this torch would take from its cache.

    Folders of other interpreters and CUDA releases are left alone: nothing loads them here. But
    torch does not look at its own version: what an older torch of the same CUDA release compiled
    is loaded as it is.

    Source: ``_get_build_directory`` in ``torch/utils/cpp_extension.py``.
    """
    folder = extensions_folder(subject)
    if folder is None or not _is_there(folder, gaps):
        return ()
    return tuple(
        listed for listed in list_files((folder,), gaps) if _is_extension(Path(listed.path), folder)
    )


def _is_there(folder: Path, gaps: list[Gap]) -> bool:
    """Whether the folder exists; a gap where a folder above it may not be searched."""
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as err:
        detail = say("{folder}: {reason}", folder=folder, reason=err.strerror)
        gaps.append(Gap("compiled.caches", GapReason.FORBIDDEN, "machine code", detail))
        return False
    return True


def extensions_folder(subject: InspectedEnvironment) -> Path | None:
    """Where torch keeps what it compiles; None when that cannot be told."""
    stated = subject.environ.get("TORCH_EXTENSIONS_DIR")
    if stated:
        return Path(stated)
    home = subject.environ.get("HOME")
    root = subject.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    if root is None or subject.python_tag is None:
        return None
    return Path(root) / "torch_extensions" / f"py{subject.python_tag}_{subject.torch_cuda}"


def _is_extension(path: Path, folder: Path) -> bool:
    """``<name>/<name>.so``, or with the version that torch appends: ``<name>_v1.so``."""
    name = path.parent.name
    return path.parent.parent == folder and path.name.startswith(name) and path.suffix == ".so"
