"""The list of stages is whole, in order, and every entry has its function."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from envguard.errors import InputError
from envguard.smoke import result as module
from envguard.smoke.result import (
    STAGES,
    choose_stages,
    describe_stages,
    find_stage,
    parse_stage_names,
)

FOLDER = Path(module.__file__).parent


def test_every_stage_has_a_function_in_the_child_and_no_function_is_forgotten() -> None:
    tree = ast.parse((FOLDER / "_stages_child.py").read_text())
    tables = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "STAGES"
    ]
    (table,) = tables
    assert isinstance(table, ast.Dict)
    keys = [key.value for key in table.keys if isinstance(key, ast.Constant)]
    assert keys == [stage.id for stage in STAGES]


def test_every_need_stands_before_the_stage_that_needs_it() -> None:
    seen: set[str] = set()
    for stage in STAGES:
        assert set(stage.needs) <= seen
        seen.add(stage.id)


def test_a_named_stage_brings_all_that_it_needs_in_running_order() -> None:
    assert [stage.id for stage in choose_stages(("backward",))] == [
        "import",
        "cuda-init",
        "context",
        "forward",
        "backward",
    ]


def test_no_names_mean_the_default_set() -> None:
    chosen = {stage.id for stage in choose_stages(())}
    # slow, or not everybody's
    assert not chosen & {"compile", "distributed", "all-reduce", "deepspeed", "zero-1", "zero-3"}
    assert {"forward", "backward", "optimizer-step", "reference", "checkpoint"} <= chosen


def test_a_zero_stage_brings_deepspeed_and_the_device() -> None:
    assert [stage.id for stage in choose_stages(("zero-2",))] == [
        "import",
        "cuda-init",
        "context",
        "deepspeed",
        "zero-2",
    ]


def test_an_unknown_stage_is_refused_with_the_known_ones_as_hint() -> None:
    with pytest.raises(InputError, match="no smoke stage is called 'fly'") as caught:
        choose_stages(("forward", "fly"))
    assert "optimizer-step" in caught.value.hint


def test_names_are_split_at_commas() -> None:
    assert parse_stage_names(" forward, backward,,") == ("forward", "backward")
    assert parse_stage_names("") == ()


def test_the_list_has_a_line_for_every_stage() -> None:
    lines = describe_stages().splitlines()
    assert len(lines) == len(STAGES)
    assert "backward        autograd gives every parameter a gradient" in lines


def test_shutdown_is_known_but_cannot_be_asked_for() -> None:
    assert find_stage("shutdown") is not None
    with pytest.raises(InputError):
        choose_stages(("shutdown",))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("_*child.py")), ids=lambda p: p.name)
def test_the_child_is_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))
