"""What a reading of an environment is about: its folders, its torch, and how it is started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from envguard.binary.elf import Image
from envguard.binary.source import FileSource, UnreadableError
from envguard.files import read_beginning
from envguard.values import dataclass

_FOLDER_TAG = re.compile(r"python3\.([0-9]{1,2})(t?)")
_FILE_TAG = re.compile(r"_C\.cpython-([0-9]{2,3}t?)-.*")
_TORCH_CUDA = re.compile(r"""^cuda\b[^=\n]*=\s*["']([0-9]+)\.([0-9]+)""", re.M)
_MOST_TEXT = 64 * 1024


@dataclass(frozen=True, slots=True)
class InspectedEnvironment:
    """An environment whose compiled files are read.

    Args:
        folders: Where packages lie, in the order of ``sys.path``.
        torch: The torch package; None when there is none.
        environ: Variables with which the interpreter will start.
        executable: The interpreter; None when not known.
    """

    folders: tuple[Path, ...]
    torch: Path | None
    environ: Mapping[str, str]
    executable: Path | None = None

    @property
    def torch_folder(self) -> str | None:
        """The torch package as a text path."""
        return None if self.torch is None else str(self.torch)

    @property
    def machine(self) -> str:
        """The processor that files must be for: the interpreter's, else this machine's."""
        if self.executable is not None:
            try:
                with FileSource(str(self.executable)) as source:
                    return Image(source).machine
            except UnreadableError:
                pass
        return os.uname().machine if hasattr(os, "uname") else "unknown"

    @property
    def python_tag(self) -> str | None:
        """The interpreter as file names spell it (``311``, ``313t``); None when nothing tells."""
        for folder in self.folders:
            match = _FOLDER_TAG.search(str(folder))
            if match:
                return f"3{match[1]}{match[2]}"
        names = _names(self.torch) if self.torch else []
        return next((match[1] for name in names if (match := _FILE_TAG.fullmatch(name))), None)

    @property
    def torch_cuda(self) -> str:
        """How torch names its CUDA release in the folders of compiled extensions: ``cu130``."""
        match = _TORCH_CUDA.search(_text(self.torch / "version.py")) if self.torch else None
        return f"cu{match[1]}{match[2]}" if match else "cpu"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return read_beginning(path, _MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""
