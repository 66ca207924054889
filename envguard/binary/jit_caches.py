"""Extensions that torch compiled on this machine and will load again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from envguard.binary.listing import Listed, list_files
from envguard.facts.gaps import Gap, GapReason

if TYPE_CHECKING:
    from envguard.binary.subject import Subject


def find_jit_caches(subject: Subject, gaps: list[Gap]) -> tuple[Listed, ...]:
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
        detail = f"{folder}: {err.strerror}"
        gaps.append(Gap("compiled.caches", GapReason.FORBIDDEN, "machine code", detail))
        return False
    return True


def extensions_folder(subject: Subject) -> Path | None:
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
