from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from envguard.checks.remedies import install_command, pins_of, uninstall_command
from envguard.facts.environment import Manager

INDEX = "https://index.example/cu128"


@pytest.mark.parametrize(
    ("manager", "index", "start"),
    [
        (None, "", ("python", "-m", "pip", "install")),
        (Manager.PIP, INDEX, ("python", "-m", "pip", "install")),
        (Manager.CONDA, "", ("python", "-m", "pip", "install")),
        (Manager.UV, INDEX, ("uv", "pip", "install")),
        (Manager.POETRY, "", ("poetry", "add")),
        (Manager.POETRY, INDEX, ("python", "-m", "pip", "install")),
        (Manager.PDM, "", ("pdm", "add")),
    ],
)
def test_install_commands(manager: Manager | None, index: str, start: tuple[str, ...]) -> None:
    command = install_command(manager, ("torch==2.8.0",), index)
    assert command[: len(start)] == start
    assert command[len(start)] == "torch==2.8.0"
    assert command[len(start) + 1 :] == (("--index-url", index) if index else ())


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        (None, ("python", "-m", "pip", "uninstall", "-y", "a")),
        (Manager.UV, ("uv", "pip", "uninstall", "a")),
        (Manager.UV_PROJECT, ()),
        (Manager.POETRY, ("poetry", "remove", "a")),
        (Manager.PDM, ("pdm", "remove", "a")),
    ],
)
def test_uninstall_commands(manager: Manager | None, command: tuple[str, ...]) -> None:
    assert uninstall_command(manager, ("a",)) == command


def test_pins_state_the_lower_bound_first() -> None:
    bounds = {"b": SpecifierSet("!=5.1.0,>=5.2"), "a": SpecifierSet("<82,>=71")}
    assert pins_of(bounds) == ("a>=71,<82", "b>=5.2,!=5.1.0")


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("", ()),
        (INDEX, ("--index", f"pytorch-cu128={INDEX}")),
        (
            "https://index.example/simple/",
            ("--index", "pytorch-simple=https://index.example/simple/"),
        ),
        ("https://index.example", ("--index", "pytorch=https://index.example")),
    ],
)
def test_a_uv_project_gets_a_named_index_that_its_packages_are_tied_to(
    index: str, words: tuple[str, ...]
) -> None:
    command = install_command(Manager.UV_PROJECT, ("torch==2.8.0+cu128",), index)
    assert command == ("uv", "add", "torch==2.8.0+cu128", *words)
