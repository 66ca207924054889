from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.matrix.loader import Matrix
from envguard.matrix.verify import verify

if TYPE_CHECKING:
    from tests.matrix.conftest import Break


def test_the_shipped_tables_hold(matrix: Matrix) -> None:
    problems = [line for line in verify(matrix) if line.startswith(("packages", "deeps", "breaks"))]
    assert problems == []


BROKEN = [
    (
        "breaks.toml",
        'shows = "ds-no-sync"',
        'shows = "ds-no-such"',
        "breaks.toml: tf-ds-no-sync: shows: there is no signature ds-no-such",
    ),
    (
        "packages/torchvision.toml",
        'requires = { numpy = "", torch = "==2.8.0" }',
        'requires = { numpy = "", torch = "==2.7.0" }',
        "packages/torchvision.toml: 0.23.0: torch==2.7.0, torch_libs.toml says torch==2.8.0",
    ),
    (
        "packages/torchaudio.toml",
        'torch = "==2.10.0" }, cuda = "12.8"',
        'torch = "==2.10.0" }, cuda = "13.0"',
        "packages/torchaudio.toml: 2.10.0: CUDA 13.0, torch_libs.toml says cu128",
    ),
    (
        "packages/xformers.toml",
        'torch = "==2.7.0"',
        'torch = "==2.7.9"',
        "packages/xformers.toml: 0.0.30: no torch 2.7.9",
    ),
    (
        "packages/vllm.toml",
        'name = "vllm"',
        'name = "vlm"',
        "packages/vllm.toml: name: expected 'vllm'",
    ),
    (
        "packages/peft.toml",
        'version = "0.2.0"',
        'version = "0.20.0"',
        "stands after",
    ),
    (
        "packages/triton.toml",
        "[sources]\n",
        '[sources]\nelsewhere = { url = "https://docs.example/", checked = "2026-11-29" }\n',
        "packages/triton.toml: sources.elsewhere: no row names this source",
    ),
    (
        "packages/torchvision.toml",
        '{ versions = "<0.29.0", abi = "classic"',
        '{ versions = "<=0.29.0", abi = "classic"',
        "packages/torchvision.toml: range: two of them contradict for 0.29.0",
    ),
    (
        "breaks.toml",
        'fix = { deepspeed = ">=0.8.2" }',
        'fix = { deepspeed = ">=0.8.1" }',
        "breaks.toml: ds-torch-six: fix: deepspeed>=0.8.1 is among the broken ones",
    ),
    (
        "breaks.toml",
        'id = "ds-torch-six"',
        'id = "a-first"',
        "stands out of order, or twice",
    ),
    (
        "deepspeed.toml",
        'minors = "12.0 12.1 12.2 12.3 12.4 12.5 12.6 12.8"',
        'minors = "12.0 12.1 12.2 12.3 12.4 12.5 12.8"',
        "deepspeed.toml: 0.16.4: minors: 12.6 of 0.16.3 is gone",
    ),
    (
        "packages/sgl-kernel.toml",
        'source = "elf"',
        'source = "hearsay"',
        "'hearsay' is not among the sources",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "problem"), BROKEN)
def test_a_broken_table_is_named(
    broken: Break, name: str, old: str, new: str, problem: str
) -> None:
    folder = broken(name, old, new)
    assert any(problem in line for line in verify(Matrix.load(folder)))
