"""Fixtures for the tests of the probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.probe.environments import StubEnvironment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def env(tmp_path: Path) -> StubEnvironment:
    """An empty virtual environment."""
    return StubEnvironment(tmp_path / "env").make()
