"""What the tests of compiled files share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.binary.build import Workshop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A folder to compile in."""
    folder = tmp_path / "workshop"
    folder.mkdir()
    return Workshop(folder)
