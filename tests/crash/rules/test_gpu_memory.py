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
