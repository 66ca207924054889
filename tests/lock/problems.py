"""Short words for resolutions in tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from envguard.lock.pins import Pin
    from envguard.lock.project import Problem


def asking(problem: Problem, *words: str) -> Problem:
    return replace(
        problem, requirements=(*problem.requirements, *(Requirement(word) for word in words))
    )


def versions(pins: tuple[Pin, ...]) -> dict[str, str]:
    return {pin.name: str(pin.version) for pin in pins}


def origins(pins: tuple[Pin, ...], problem: Problem) -> set[str]:
    """Names of the packages that come from the torch index."""
    return {pin.name for pin in pins if pin.index_url == problem.torch_index}
