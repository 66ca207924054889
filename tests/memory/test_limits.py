from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.facts.machine import Gpu, Limits, Machine
from envguard.memory.plan import GIB, limits_of, parse_memory
from tests.memory.jobs import table

MACHINE = Machine(
    gpus=(Gpu(0, memory_bytes=80 * GIB), Gpu(1, memory_bytes=40 * GIB)),
    limits=Limits(ram_bytes=256 * GIB, cgroup_bytes=64 * GIB),
)


@pytest.mark.parametrize(
    ("text", "gibibytes"),
    [("80", 80), ("80G", 80), ("80GiB", 80), ("80 gb", 80), ("1.5T", 1536), ("65536M", 64),
     ("125.8", 125.8), ("0.25", 0.25)],
)  # fmt: skip
def test_a_plain_number_is_gibibytes(text: str, gibibytes: float) -> None:
    assert parse_memory("--gpu-memory", text) == gibibytes * GIB


@pytest.mark.parametrize("text", ["-5", "0", "0.1", "9999999", "80X", "much", "", "8e1", "80GG"])
def test_a_size_that_is_none_is_refused_with_its_option(text: str) -> None:
    with pytest.raises(InputError, match="--gpu-memory: "):
        parse_memory("--gpu-memory", text)


def test_a_stated_machine_keeps_something_for_itself() -> None:
    found = limits_of(table(), gpu_stated=80 * GIB, host_stated=64 * GIB, machine=None)
    assert found.gpu_usable == pytest.approx(78.8 * GIB)
    # 330 MiB and a twentieth for the system, then a twentieth of the rest as headroom
    assert found.host_usable == pytest.approx(0.95 * (64 - 330 / 1024 - 3.2) * GIB)
    assert found.host_kind == "stated"


def test_the_tightest_limit_of_a_machine_counts() -> None:
    found = limits_of(table(), gpu_stated=None, host_stated=None, machine=MACHINE)
    assert found.host_total == 64 * GIB
    assert found.host_kind == "cgroup"
    assert found.host_usable == pytest.approx(0.95 * 64 * GIB)  # nothing for a system in there
    assert found.gpu_total == found.gpu_usable == 40 * GIB


def test_what_is_stated_wins_over_the_machine() -> None:
    found = limits_of(table(), gpu_stated=24 * GIB, host_stated=None, machine=MACHINE)
    assert found.gpu_total == 24 * GIB
    assert found.host_kind == "cgroup"


def test_nothing_known_is_no_limit() -> None:
    found = limits_of(table(), gpu_stated=None, host_stated=None, machine=Machine())
    assert (found.gpu_usable, found.host_usable, found.host_kind) == (None, None, "")
