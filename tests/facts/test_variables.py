"""Which environment variables are recorded: an allow list, never a secret."""

from __future__ import annotations

import json

from envguard.facts.variables import recorded_variables


def test_variables_that_matter_are_recorded_sorted() -> None:
    environ = {
        "NCCL_P2P_DISABLE": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLURM_MEM_PER_NODE": "65536",
        "DS_BUILD_OPS": "0",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "HOME": "/home/someone",
    }
    assert recorded_variables(environ) == (
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("DS_BUILD_OPS", "0"),
        ("NCCL_P2P_DISABLE", "1"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ("SLURM_MEM_PER_NODE", "65536"),
    )


def test_secrets_are_not_recorded() -> None:
    environ = {
        "HF_TOKEN": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "DS_API_KEY": "c",
        "NCCL_PASSWORD": "d",
        "SLURM_JWT": "e",
    }
    assert recorded_variables(environ) == ()


def test_a_value_that_is_no_text_can_be_written() -> None:
    ((_, value),) = recorded_variables({"LD_LIBRARY_PATH": "/a\udcff"})
    assert value == "/a\ufffd"
    assert json.dumps(value, ensure_ascii=False).encode("utf-8")


def test_an_empty_value_is_recorded() -> None:
    assert recorded_variables({"CUDA_VISIBLE_DEVICES": ""}) == (("CUDA_VISIBLE_DEVICES", ""),)
