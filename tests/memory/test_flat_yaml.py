from __future__ import annotations

import pytest

from envguard.errors import DocumentError
from envguard.memory.flat_yaml import parse_flat_yaml

# As `accelerate config` writes it.
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_reshard_after_forward: true
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_version: 2
machine_rank: 0
mixed_precision: bf16   # a remark
num_machines: 1
num_processes: 8
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
use_cpu: false
"""


def test_a_file_of_accelerate_is_read() -> None:
    found = parse_flat_yaml(ACCELERATE, "accelerate.yaml")
    assert found["fsdp_config"] == {
        "fsdp_activation_checkpointing": True,
        "fsdp_reshard_after_forward": True,
        "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
        "fsdp_version": 2,
    }
    assert found["downcast_bf16"] == "no"
    assert found["mixed_precision"] == "bf16"
    assert found["num_processes"] == 8
    assert found["debug"] is False
    assert found["tpu_env"] is None


def test_scalars_are_what_yaml_says() -> None:
    text = "a: 1\nb: 1.5\nc: 5e8\nd: null\ne: ~\nf: yes\ng: \"7\"\nh:\n---\ni: a b # c\nj: '#x'\n"
    assert parse_flat_yaml(text, "f") == {
        "a": 1,
        "b": 1.5,
        "c": 5e8,
        "d": None,
        "e": None,
        "f": True,
        "g": "7",
        "h": None,
        "i": "a b",
        "j": "#x",
    }


@pytest.mark.parametrize(
    "line",
    [
        "- item",
        "a: [1, 2]",
        "a: {b: 1}",
        "a: &anchor x",
        "a: *alias",
        "a: !!python/object x",
        "a: |",
        "a: >",
        "just words",
        ": x",
        "a: 1\n  b: 2",
        "a: 1\na: 2",
        "\tb: 2",
    ],
)
def test_what_goes_beyond_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(DocumentError, match=r"^f:[0-9]+: "):
        parse_flat_yaml(line, "f")
