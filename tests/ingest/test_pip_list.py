from __future__ import annotations

import json

import pytest

from envguard.errors import InputError
from envguard.facts.environment import Accelerator, BuildOrigin, Environment
from envguard.facts.gaps import GapReason
from envguard.ingest.detect import load_text
from envguard.ingest.pip_list import parse_freeze_line
from tests.ingest.samples import load


def environment(name: str) -> Environment:
    found = load(name).environment
    assert found is not None
    return found


def test_columns_end_at_the_notice() -> None:
    found = environment("pip_list_columns.txt")
    assert [(d.name, str(d.version)) for d in found.distributions or ()] == [
        ("deepspeed", "0.14.0"),
        ("flash-attn", "2.5.8"),
        ("torch", "2.2.1+cu121"),
        ("torchvision", "0.17.1+cu121"),
        ("trainer", "0.1.0"),
    ]
    trainer = found.distribution("trainer")
    assert trainer is not None
    assert trainer.is_editable
    assert trainer.location == "/home/user/trainer"
    assert found.torch is not None
    assert found.torch.accelerator is Accelerator.CUDA
    assert found.torch.origin is BuildOrigin.METADATA


def test_freeze_with_addresses_and_editables() -> None:
    found = environment("pip_freeze.txt")
    torch = found.distribution("torch")
    assert torch is not None
    assert str(torch.version) == "2.2.1+cu121"
    assert torch.url is not None
    assert found.torch is not None
    assert str(found.torch.cuda) == "12.1"
    trainer = found.distribution("trainer")
    assert trainer is not None
    assert trainer.is_editable


def test_json_on_one_line_and_on_many() -> None:
    compact = environment("pip_list.json")
    document = [{"name": d.name, "version": str(d.version)} for d in compact.distributions or ()]
    indented = load_text(json.dumps(document, indent=2), "x").environment
    assert indented is not None
    assert [d.name for d in indented.distributions or ()] == ["deepspeed", "torch", "trainer"]


def test_json_between_words_is_found() -> None:
    text = 'pip list --format=json\n[{"name": "torch", "version": "2.2.1"}]\nthat is all\n'
    found = load_text(text, "x").environment
    assert found is not None
    assert [str(d.version) for d in found.distributions or ()] == ["2.2.1"]


def test_torch_without_a_label_is_left_open() -> None:
    found = load_text("torch==2.2.1\n", "x").environment
    assert found is not None
    assert found.torch is not None
    assert found.torch.accelerator is None


def test_version_that_is_none_is_a_gap() -> None:
    facts = load_text("torch==2.2.1\noldlib==unknown\n", "x")
    gap = facts.gap("environment.distributions[oldlib].version")
    assert gap is not None
    assert gap.reason is GapReason.UNREADABLE


@pytest.mark.parametrize(
    "line",
    [
        "torch>=2.0",
        "torch==2.1 ; python_version > '3.8'",
        "ERROR: torch==2.1 failed",
        "torch",
        "Ubuntu (20.04 LTS)",
        "",
    ],
)
def test_other_lines_are_not_frozen(line: str) -> None:
    assert parse_freeze_line(line) is None


@pytest.mark.parametrize(
    "text",
    [
        "torch 2.6.0+cu124\ntorchvision 0.21.0+cu118\n",
        "(base) ➜  ~ pip list | grep torch\ntorch 2.6.0+cu124\ntorchvision 0.21.0+cu118\n",
        "$ pip list | grep torch\ntorch          2.6.0+cu124\ntorchvision    0.21.0+cu118\n",
        "(base) me@host:~$ pip list | grep torch\n> torch 2.6.0+cu124\n> torchvision 0.21.0+cu118",
    ],
)
def test_rows_that_came_through_grep_are_a_part_of_the_list(text: str) -> None:
    found = load_text(text, "x")
    assert found.environment is not None
    assert [str(d.version) for d in found.environment.distributions or ()] == [
        "2.6.0+cu124",
        "0.21.0+cu118",
    ]
    assert found.environment.torch is not None
    assert str(found.environment.torch.cuda) == "12.4"
    gap = found.gap("environment.distributions")
    assert gap is not None
    assert gap.reason is GapReason.NOT_ASKED


@pytest.mark.parametrize(
    "text", ["hello 1\n", "trainer 2.6.0\nthis is what I have\n", "torch\n", "page 1\nof 2\n"]
)
def test_other_short_lines_are_no_list(text: str) -> None:
    with pytest.raises(InputError, match="holds nothing that is understood"):
        load_text(text, "x")


def test_rows_below_their_filter_are_found_beside_another_report() -> None:
    text = (
        "driver version: 560.35.05\n"
        "$ nvidia-smi -L\n"
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
        "(env) me@host:~$ pip list | grep -E 'torch|deepspeed'\n"
        "deepspeed                 0.16.2\n"
        "torch                     2.6.0+cu124\n"
        "\n"
        "numpy 1.26.0 is what I had before\n"
    )
    found = load_text(text, "x")
    assert found.environment is not None
    listed = [(d.name, str(d.version)) for d in found.environment.distributions or ()]
    assert listed == [("deepspeed", "0.16.2"), ("torch", "2.6.0+cu124")]
    assert found.gap("environment.distributions") is not None


def test_a_whole_list_below_its_command_is_whole() -> None:
    text = "$ pip list\nPackage Version\n------- -------\nnumpy 1.26.4\ntorch 2.6.0\n$ ls\n"
    found = load_text(text, "x")
    assert found.environment is not None
    assert [d.name for d in found.environment.distributions or ()] == ["numpy", "torch"]
    assert found.gap("environment.distributions") is None
