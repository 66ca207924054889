from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.gaps import GapReason
from envguard.facts.lock_record import LockedGpu, LockedMachine
from envguard.facts.machine import Platform
from envguard.facts.versions import (
    Backend,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile
from tests.ingest.samples import SAMPLES

TEXT = (SAMPLES / "locks" / "pylock.toml").read_text()
LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.12"))


def test_record_of_an_own_lock_is_typed() -> None:
    record = load_lockfile("pylock.toml", TEXT, target=LINUX).environment.lock
    assert record is not None
    assert record.torch == Version("2.7.1")
    assert record.backend == Backend(CudaVersion(12, 6))
    assert record.platform == Platform.parse("linux-x86_64")
    assert record.python == Version("3.12")
    assert record.glibc == Version("2.28")
    assert record.driver_floor == DriverVersion.parse("525.60.13")
    assert record.driver_exact == DriverVersion.parse("560.28.03")
    assert record.driver_fit == "exact"
    assert record.code_targets is not None
    assert record.code_targets[-1] == CodeTarget.parse("compute_90")
    gpu = LockedGpu("Tesla V100-SXM2-32GB", ComputeCapability(7, 0))
    assert record.machines == (
        LockedMachine(
            driver=DriverVersion.parse("570.195.03"),
            cuda_driver=CudaVersion(12, 8),
            platform=Platform.parse("linux-x86_64"),
            gpus=(gpu, gpu),
        ),
    )


def test_lock_of_another_tool_has_no_record() -> None:
    text = (SAMPLES / "locks" / "pylock.markers.toml").read_text()
    assert load_lockfile("pylock.toml", text).environment.lock is None


def test_other_environments_are_a_mismatch() -> None:
    target = LockfileTarget(Platform.parse("windows-x86_64"), Version("3.12"))
    found = load_lockfile("pylock.toml", TEXT, target=target)
    gap = next(g for g in found.gaps if g.fact == "environment.platform")
    assert gap.reason is GapReason.MISMATCH
    assert "windows-x86_64" in gap.detail


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('lock-version = "1.0"', 'lock-version = "2.0"', "pylock version 2.0 is not supported"),
        ('lock-version = "1.0"', "", "missing required value in 'lock-version'"),
        ('name = "torch"', "name = 3", r"in 'packages\[1\]\.name'"),
        ('version = "2.7.1+cu126"', 'version = "x"', r"packages\[1\]\.version"),
        ("[[packages]]", "[packages]", "not valid TOML: cannot overwrite a value"),
        ("schema_version = 1", "schema_version = 2", "newer than 1"),
        ("schema_version = 1", "schema_version = true", "not a positive integer"),
        ('backend = "cu126"', 'backend = "xyz"', "tool.envguard:backend: 'xyz' is not a backend"),
        ('torch = "2.7.1"', "", "tool.envguard:torch is missing"),
        ('driver = "570.195.03"', "driver = 570", r"machines\[0\]\.driver: expected a string"),
        ("[tool.envguard]", "[tool.envguard", "not valid TOML"),
    ],
)
def test_errors_name_file_and_place(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_lockfile("pylock.toml", TEXT.replace(old, new, 1))
    assert caught.value.message.startswith("pylock.toml")


def test_local_record_that_is_no_table_is_refused() -> None:
    head = TEXT.partition("[tool.envguard]")[0]
    with pytest.raises(InputError, match=r"tool\.envguard: expected a table"):
        load_lockfile("pylock.toml", f"{head}[tool]\nenvguard = 1\n")
