"""A full GPU, told by the frame that asked and by how many processes share the model."""

from __future__ import annotations

import pytest

from tests.crash.logs import report_of

FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size} GiB.\n"


def traced(frame: str, size: str = "29.07") -> str:
    """A traceback whose innermost frame asked for the memory."""
    return f"Traceback (most recent call last):\n{frame}\n{FULL.format(size=size)}"


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (
            '  File "/env/torch/nn/functional.py", line 6101, in scaled_dot_product_attention',
            "attention",
        ),
        ('  File "/env/torch/optim/adamw.py", line 220, in step', "optimizer"),
    ],
)
def test_the_frame_that_asked_is_told(frame: str, word: str) -> None:
    report = report_of(traced(frame), exit_code=1)
    first = report.findings[0]
    assert word in f"{first.title} {first.detail}".lower()


@pytest.mark.parametrize(("unused", "is_told"), [("0.1", False), ("20.5", True)])
def test_a_remainder_that_any_run_has_is_no_fragmentation(unused: str, is_told: bool) -> None:
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a "
        "total capacity of 79.15 GiB of which 40.00 MiB is free. Including non-PyTorch memory, "
        "this process has 79.10 GiB memory in use. Of the allocated memory 57.00 GiB is allocated "
        f"by PyTorch, and {unused} GiB is reserved by PyTorch but unallocated.\n"
    )
    first = report_of(text, exit_code=1).findings[0]
    assert ("pieces" in f"{first.title} {first.detail}") is is_told
