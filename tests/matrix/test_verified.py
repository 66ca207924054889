from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from envguard.facts.gaps import GapReason
from scripts.matrix_verified import Verified, VerifiedError, record, source_key, wheel_row
from tests.matrix.test_wheel_rows import EARLY, WHEEL, unread

if TYPE_CHECKING:
    from pathlib import Path

LINUX = "linux-x86_64"
KEY = "wheel-2_6_0-x86_64"


@pytest.fixture
def verified(tmp_path: Path) -> Verified:
    record([WHEEL], "2026-12-01", tmp_path / "verified.toml")
    return Verified.load(tmp_path / "verified.toml")


def row(**fields: Any) -> dict[str, Any]:
    return {"platform": LINUX, "source": ["page"], "confidence": "metadata", **fields}


def test_what_is_kept_of_a_wheel_is_read_back(verified: Verified) -> None:
    (kept,) = verified.wheels
    assert kept == wheel_row(WHEEL, "2026-12-01")
    assert kept["targets"] == ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
    assert (kept["glibc"], kept["cxx11_abi"]) == ("2.17", False)
    assert (kept["cudnn"], kept["nccl"], kept["triton"]) == ("9.1.0.70", "2.21.5", "==3.2.0")
    assert kept["cubins"]["sm_90a"] == 2
    assert kept["requires"][0] == "nvidia-cublas-cu12==12.4.5.8"
    assert source_key(kept) == KEY
    assert verified.addresses() == {KEY: (WHEEL.file, "2026-12-01")}


def test_a_wheel_that_was_not_read_whole_is_not_kept(tmp_path: Path) -> None:
    record([unread(GapReason.NOT_ASKED)], "2026-12-01", tmp_path / "verified.toml")
    assert Verified.load(tmp_path / "verified.toml").wheels == ()


def test_a_missing_file_holds_no_wheel(tmp_path: Path) -> None:
    assert Verified.load(tmp_path / "none.toml") == Verified()


def test_a_row_of_one_release_says_what_the_wheel_says(verified: Verified) -> None:
    fields = ("commit", "triton_marker", "glibc")
    changed = verified.correct(row(commit="0", glibc="2.28"), "2.6.0", LINUX, fields)
    assert changed["commit"] == "2236df1770800ffea5697b11b0bb0d910b2e59e1"
    assert changed["glibc"] == "2.17"
    assert changed["triton_marker"].startswith("platform_system")
    assert verified.correct(row(commit="0"), "2.7.0", LINUX, fields) == row(commit="0")


def test_a_row_whose_every_release_was_read_is_binary(verified: Verified) -> None:
    found = verified.attest(row(), ["2.6.0"], LINUX)
    assert (found["source"], found["confidence"]) == ([KEY, "page"], "binary")


def test_a_row_of_which_some_releases_were_read_names_them(verified: Verified) -> None:
    found = verified.attest(row(), ["2.5.1", "2.6.0"], LINUX)
    assert (found["source"], found["confidence"]) == (["page", KEY], "metadata")
    assert verified.attest(row(), ["2.6.0"], "linux-aarch64") == row()


def test_targets_of_another_backend_are_not_attested(verified: Verified) -> None:
    other = row(torch=["2.6.0"], backends=["cu118"], targets=["sm_37"])
    assert verified.attest_targets(dict(other)) == other
    own = row(torch=["2.6.0"], backends=["cu124"], targets=verified.wheels[0]["targets"])
    assert verified.attest_targets(own)["source"] == [KEY, "page"]


def test_targets_that_a_wheel_contradicts_stop_the_derivation(verified: Verified) -> None:
    wrong = row(torch=["2.6.0"], backends=["cu124"], targets=["sm_50"])
    with pytest.raises(VerifiedError, match=r"torch-2\.6\.0-cp311.*split its fact"):
        verified.attest_targets(wrong)


def test_targets_of_a_wheel_without_an_architecture_string_are_those_that_it_holds(
    tmp_path: Path,
) -> None:
    record([EARLY], "2026-12-01", tmp_path / "verified.toml")
    early = Verified.load(tmp_path / "verified.toml")
    assert "targets" not in early.wheels[0]
    named = {"torch": ["1.3.1"], "backends": ["cu101"]}
    held = row(**named, targets=["sm_37", "sm_75", "compute_37"])
    assert early.attest_targets(held)["confidence"] == "binary"
    with pytest.raises(VerifiedError, match=r"torch-1\.3\.1-cp36"):
        early.attest_targets(row(**named, targets=["sm_37", "sm_80"]))
