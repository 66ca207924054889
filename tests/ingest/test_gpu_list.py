from __future__ import annotations

import pytest

from envguard.facts.gaps import GapReason
from envguard.facts.versions import ComputeCapability
from envguard.ingest.gpu_list import parse_gpu_list


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GPU 0: NVIDIA A10G", [(0, "NVIDIA A10G")]),
        ("GPU 0: NVIDIA L4 GPU 1: NVIDIA T4", [(0, "NVIDIA L4"), (1, "NVIDIA T4")]),
        ("GPU 0: NVIDIA L4, GPU 1: NVIDIA L4", [(0, "NVIDIA L4"), (1, "NVIDIA L4")]),
        ("GPU 0-2: NVIDIA A100", [(0, "NVIDIA A100"), (1, "NVIDIA A100"), (2, "NVIDIA A100")]),
        ("GPU 0,3: Tesla T4", [(0, "Tesla T4"), (3, "Tesla T4")]),
        ("GPU 1: Tesla T4 (UUID: GPU-1234)", [(1, "Tesla T4")]),
        ("2x NVIDIA A100-SXM4-80GB", [(0, "NVIDIA A100-SXM4-80GB"), (1, "NVIDIA A100-SXM4-80GB")]),
        ("2 x V100", [(0, "V100"), (1, "V100")]),
        ("Tesla V100 (x2)", [(0, "Tesla V100"), (1, "Tesla V100")]),
        ("Tesla V100 x 2", [(0, "Tesla V100"), (1, "Tesla V100")]),
        ("GeForce MX150", [(0, "GeForce MX150")]),
        ("Tesla V100-SXM2-32GB", [(0, "Tesla V100-SXM2-32GB")]),
    ],
)
def test_forms_of_one_line(line: str, expected: list[tuple[int, str]]) -> None:
    found = parse_gpu_list([line])
    assert [(gpu.index, gpu.name) for gpu in found.gpus or ()] == expected


def test_capability_behind_a_name_is_taken() -> None:
    (gpu,) = parse_gpu_list(["GPU 0: NVIDIA A100 (arch=8.0)"]).gpus or ()
    assert gpu.name == "NVIDIA A100"
    assert gpu.capability == ComputeCapability(8, 0)


def test_uuid_is_kept_only_where_it_is_one() -> None:
    found = parse_gpu_list(["GPU 0: T4 (UUID: GPU-1f)", "GPU 1: T4 (UUID: redacted)"])
    assert [gpu.uuid for gpu in found.gpus or ()] == ["GPU-1f", None]


def test_repeated_numbers_become_positions() -> None:
    found = parse_gpu_list(["GPU 0: T4", "GPU 0: T4"])
    assert [gpu.index for gpu in found.gpus or ()] == [0, 1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Could not collect", GapReason.UNREADABLE),
        ("No CUDA", GapReason.ABSENT),
        ("N/A", GapReason.ABSENT),
        ("", GapReason.UNREADABLE),
        ("AMD Instinct MI250X (gfx90a)", GapReason.ABSENT),
        ("Device 66a1", GapReason.ABSENT),
        ("Failed to initialize NVML: Driver/library version mismatch", GapReason.MISMATCH),
        ("Failed to initialize NVML: Insufficient Permissions", GapReason.FORBIDDEN),
        ("GPU 0-99999999: T4", GapReason.UNREADABLE),
        ("9999x T4", GapReason.UNREADABLE),
        ("GPU 0-9999: T4", GapReason.UNREADABLE),
    ],
)
def test_no_list_has_a_reason(line: str, reason: GapReason) -> None:
    found = parse_gpu_list([line])
    assert found.gpus is None
    assert found.reason is reason
    assert found.detail


def test_no_devices_is_known_to_be_none() -> None:
    assert parse_gpu_list(["No devices were found"]).gpus == ()
