"""Which tables a command uses: the shipped ones, or a folder that the user names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from pathlib import Path


def load_matrix(folder: Path | None) -> Matrix:
    """Load the tables.

    Args:
        folder: ``--matrix``; None for the shipped ones.

    Raises:
        InputError: There is no such folder.
        MatrixError: It holds no usable tables.
    """
    if folder is None:
        return Matrix.load()
    if not os.path.isdir(folder):  # noqa: PTH112 - says no where a folder may not be searched
        raise InputError(f"--matrix: {folder} is no folder")
    return Matrix.load(folder)
