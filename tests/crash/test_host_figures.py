"""Figures of host memory in a text."""

from __future__ import annotations

import io

import pytest

from envguard.crash.host_figures import last_figure
from envguard.crash.scan import scan_stream
from tests.crash.logs import MATRIX


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 17.17 GB, percent = 1.5%",
            "17.2 GiB of about 1145 GiB in use (1.5 %)",
        ),
        (
            "Mem:           251Gi       198Gi       3.1Gi       1.2Gi        49Gi        50Gi",
            "201.0 GiB of about 251 GiB in use (80.1 %)",
        ),
        ("Mem:  263856412  249856412  1000000  0  13000000  12856412", "95.1 % in use"),
        (
            "MemTotal:       263856412 kB\nMemFree: 1 kB\nMemAvailable:   26385641 kB",
            "226.5 GiB of about 252 GiB in use (90.0 %)",
        ),
        (
            "svmem(total=270186823680, available=9100312576, percent=96.6, used=258900312064)",
            "243.2 GiB of about 252 GiB in use (96.6 %)",
        ),
        ("step 40 RAM: 91.5%", "91.5 % in use"),
    ],
)
def test_readings_of_several_tools_become_one_figure(text: str, words: str) -> None:
    figure = last_figure(scan_stream(io.BytesIO(f"{text}\n".encode()), MATRIX, "x.log"))
    assert figure is not None
    assert figure.words == words


@pytest.mark.parametrize("text", ["Mem: 0 0 0", "MemAvailable: 12 kB", "Mem: ... 1 .", "memory"])
def test_what_is_no_reading_gives_none(text: str) -> None:
    assert last_figure(scan_stream(io.BytesIO(f"{text}\n".encode()), MATRIX, "x.log")) is None
