"""Whether the inspected interpreter belongs to the environment that a shell has activated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.environment import Environment, Interpreter
from envguard.probe.interpreter import mark_active

if TYPE_CHECKING:
    from pathlib import Path


def activity(prefix: Path, environ: dict[str, str]) -> bool | None:
    environment = Environment(Interpreter(prefix=str(prefix)))
    marked = mark_active(environment, environ)
    assert marked.interpreter is not None
    return marked.interpreter.is_active


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("project", "tool"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("project")
    return tmp_path


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_another_environment_is_active(place: Path, variable: str) -> None:
    assert activity(place / "tool", {variable: str(place / "project")}) is False
    assert activity(place / "project", {variable: str(place / "project")}) is True
    assert activity(place / "project", {variable: str(place / "link")}) is True
    assert activity(place / "tool", {variable: str(place / "removed")}) is False


def test_nothing_is_active(place: Path) -> None:
    assert activity(place / "tool", {}) is None
    assert activity(place / "tool", {"VIRTUAL_ENV": ""}) is None


def test_the_base_environment_of_conda_says_nothing(place: Path) -> None:
    base = {"CONDA_PREFIX": str(place / "project"), "CONDA_DEFAULT_ENV": "base"}
    assert activity(place / "tool", base) is None
    assert activity(place / "tool", {**base, "VIRTUAL_ENV": str(place / "tool")}) is True
