"""Does this host satisfy the lock that was made for named machines."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from envguard.checks.context import CheckOptions
from envguard.checks.lock_record import check_lock_record
from envguard.facts.environment import Environment, Interpreter
from envguard.facts.facts import Facts
from envguard.facts.lock_record import LockedGpu, LockedMachine, LockRecord
from envguard.facts.machine import Driver, Gpu, Host, Machine, Platform
from envguard.facts.versions import Backend, ComputeCapability, DriverVersion
from envguard.matrix.loader import Matrix

V100 = LockedGpu("Tesla V100", ComputeCapability(7, 0))
RECORD = LockRecord(
    torch=Version("2.14.1"),
    backend=Backend.parse("cu126"),
    platform=Platform.parse("linux-x86_64"),
    python=Version("3.12"),
    machines=(LockedMachine(driver=DriverVersion.parse("535.104.05"), gpus=(V100,)),),
)


def codes(
    capability: str = "7.0",
    driver: str = "535.104.05",
    platform: str = "linux-x86_64",
    python: str = "3.12.3",
    *,
    has_record: bool = True,
) -> list[tuple[str, str]]:
    machine = Machine(
        host=Host(platform=Platform.parse(platform)),
        driver=Driver(version=DriverVersion.parse(driver)),
        gpus=(Gpu(0, capability=ComputeCapability.parse(capability)),),
    )
    interpreter = Interpreter(version=Version(python))
    facts = Facts(
        machine, Environment(interpreter=interpreter, lock=RECORD if has_record else None)
    )
    found = check_lock_record(facts, Matrix.load(), CheckOptions())
    return [(finding.code, finding.status.value) for finding in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [("LCK000", "ok")]),
        ({"driver": "580.95.05"}, [("LCK000", "ok")]),
        ({"driver": "525.60.13"}, [("LCK003", "warn")]),
        ({"capability": "9.0"}, [("LCK003", "warn")]),
        ({"platform": "linux-aarch64"}, [("LCK001", "fail"), ("LCK000", "ok")]),
        ({"python": "3.11.7"}, [("LCK002", "fail"), ("LCK000", "ok")]),
    ],
)
def test_host_against_lock(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert codes(**changes) == expected


def test_other_lockfiles_have_no_record() -> None:
    assert codes(has_record=False) == []
