"""A device is named as torch names it."""

from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.smoke.result import Device


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", "auto"),
        (" CPU ", "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:0", "cuda:0"),
        ("CUDA:07", "cuda:7"),
    ],
)
def test_a_device_is_read(text: str, expected: str) -> None:
    assert Device.parse(text).text == expected


@pytest.mark.parametrize(
    "text", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:0:1", "cuda:\u0661"]
)
def test_anything_else_is_a_wrong_option(text: str) -> None:
    with pytest.raises(InputError, match="is none of auto, cpu, cuda:N"):
        Device.parse(text)
