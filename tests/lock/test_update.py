"""Locks made anew, compared with what would be made, and explained."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lock.conftest import TARGET, V100
from tests.lock.machine_files import facts

if TYPE_CHECKING:
    from tests.lock.conftest import Lock
    from tests.loopback.index import LoopbackIndex

H100 = ("--gpu", "H100 PCIe", "--driver", "580.65.06", "--glibc", "2.35")


@pytest.fixture
def earlier(lock: Lock, capsys: pytest.CaptureFixture[str]) -> Path:
    """A lock from before torch 2.14 and fresh 2.0 were released, its cut-off forgotten."""
    path = Path("pylock.toml")
    cut = ("--exclude-newer", "2026-08-01")
    assert lock("torch", "fresh", *V100, *TARGET, *cut, "-o", str(path)) == 0
    path.write_text(path.read_text().replace('exclude_newer = "2026-08-01"\n', ""))
    assert versions(path) == ("2.13.0+cu126", "1.0")
    capsys.readouterr()
    return path


def packages(path: Path) -> dict[str, dict[str, Any]]:
    return {package["name"]: package for package in tomllib.loads(path.read_text())["packages"]}


def versions(path: Path) -> tuple[str, str]:
    found = packages(path)
    return found["torch"]["version"], found["fresh"]["version"]


def test_update_keeps_pins_that_still_serve(
    lock: Lock, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = packages(earlier)
    assert lock("--update", "pylock.toml") == 0
    assert packages(earlier) == before
    err = capsys.readouterr().err
    assert "kept from the earlier lock; torch 2.14.1+cu126 serves too: see --upgrade" in err
    once = earlier.read_bytes()
    assert lock("--update", "pylock.toml") == 0
    assert earlier.read_bytes() == once


def test_update_takes_up_a_changed_request(lock: Lock, earlier: Path) -> None:
    words = ("torch", "fresh", "timm", "numpy<2")
    assert lock(*words, *V100, *TARGET, "--update", "pylock.toml") == 0
    assert versions(earlier) == ("2.13.0+cu126", "1.0")
    assert packages(earlier)["numpy"]["version"] == "1.26.4"
    assert packages(earlier)["torchvision"]["version"] == "0.28.0+cu126"


def test_update_leaves_a_build_that_no_longer_serves(lock: Lock, earlier: Path) -> None:
    blackwell = ("--gpu", "RTX 5090", "--driver", "580.65.06", "--glibc", "2.35")
    assert lock("--update", "pylock.toml", *blackwell, *TARGET) == 0
    assert versions(earlier) == ("2.15.0+cu130", "1.0")


def test_upgrade_keeps_nothing(lock: Lock, earlier: Path) -> None:
    assert lock("--update", "pylock.toml", "--upgrade") == 0
    assert versions(earlier) == ("2.14.1+cu126", "2.0")


def test_update_goes_to_another_file_where_one_is_named(lock: Lock, earlier: Path) -> None:
    before = earlier.read_bytes()
    assert lock("--update", "pylock.toml", "--upgrade", "-o", "pylock.new.toml") == 0
    assert earlier.read_bytes() == before
    assert versions(Path("pylock.new.toml")) == ("2.14.1+cu126", "2.0")


def test_check_accepts_what_would_be_made(
    lock: Lock, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = earlier.read_bytes()
    assert lock("--check", "pylock.toml") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "pylock.toml is what the request and the machines give" in err
    assert earlier.read_bytes() == before


def test_check_says_what_differs_from_a_fresh_lock(
    lock: Lock, earlier: Path, index: LoopbackIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("--check", "pylock.toml", "--upgrade") == 1
    out, err = capsys.readouterr()
    torch = f"from {index.address}/whl/cu126"
    assert out.splitlines() == [
        f"- fresh 1.0 from {index.default}",
        f"+ fresh 2.0 from {index.default}",
        f"- torch 2.13.0+cu126 {torch}",
        f"+ torch 2.14.1+cu126 {torch}",
        f"- triton 3.7.1 {torch}",
        f"+ triton 3.8.0 {torch}",
    ]
    assert "is no longer what the request and the machines give" in err


def test_check_notices_another_machine_and_another_request(
    lock: Lock, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blackwell = ("--gpu", "RTX 5090", "--driver", "580.65.06", "--glibc", "2.35")
    assert lock("--check", "pylock.toml", *blackwell, *TARGET) == 1
    assert "+ torch 2.15.0+cu130" in capsys.readouterr().out
    assert lock("torch", "fresh", "timm", *V100, *TARGET, "--check", "pylock.toml") == 1
    out = capsys.readouterr().out
    assert "+ timm 1.0.20" in out
    assert "torch 2" not in out


def test_check_notices_a_hash_that_was_edited(
    lock: Lock, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = packages(earlier)["fresh"]["wheels"][0]
    text = earlier.read_text().replace(wheel["hashes"]["sha256"], "0" * 64)
    earlier.write_text(text)
    assert lock("--check", "pylock.toml") == 1
    assert "the files of fresh 1.0 are others, or have other hashes" in capsys.readouterr().out


def test_targets_are_made_anew_from_their_own_records(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.json").write_text(json.dumps(facts("NVIDIA H100 PCIe", "9.0", "580.65.06")))
    words = ("--target", "cu130=a.json", "--target", "cpu")
    assert lock("torch", "fresh", *words, "-o", "pylock.toml") == 0
    before = packages(Path("pylock.toml"))
    Path("a.json").unlink()
    assert lock("--check", "pylock.toml") == 0
    assert lock("--update", "pylock.toml") == 0
    assert packages(Path("pylock.toml")) == before
    table = tomllib.loads(Path("pylock.toml").read_text())["tool"]["envguard"]
    assert table["targets"]["cu130"]["machines"][0]["driver"] == "580.65.06"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "pylock.toml: cannot be read"),
        ("{", "pylock.toml: not valid TOML"),
        ("lock-version = '1.0'", "pylock.toml: not a valid pylock"),
        (
            "lock-version = '1.0'\ncreated-by = 'uv'\npackages = []\n",
            "pylock.toml: not made by envguard",
        ),
        (
            "lock-version = '1.0'\ncreated-by = 'x'\npackages = []\n"
            "[tool.envguard]\nschema_version = 9\n",
            "tool.envguard.schema_version: 9 is not 1",
        ),
    ],
)
def test_lock_that_cannot_be_built_on_is_refused(
    lock: Lock, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    if text is not None:
        Path("pylock.toml").write_text(text)
    assert lock("--update", "pylock.toml") == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--update", "a", "--check", "b"), "--update and --check exclude each other"),
        (("torch", "--upgrade"), "--upgrade goes with --update or --check"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    lock: Lock, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert lock(*words) == 2
    assert said in capsys.readouterr().err


def test_ladder_names_every_build_with_its_reasons(
    lock: Lock, index: LoopbackIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("torch>=2.10", "deepspeed", *V100, *TARGET, "--explain") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("* 2.14.1+cu126: torch 2.14.1 from cu126 has code for")
    assert "    deepspeed>=0.14.4: DeepSpeed imports a name that torch's elastic agent" in lines[1]
    serving = [
        line.split(":")[0].strip() for line in lines if ": serves the machines too; " in line
    ]
    assert serving == [
        "2.13.0+cu126",
        "2.11.0+cu126",
        "2.10.0+cu129",
        "2.10.0+cu128",
        "2.10.0+cu126",
    ]
    # The index does not have 2.14.0 and 2.12: it was asked.
    place = lines.index("- 2.12.1+cu126")
    assert lines[place + 1] == f"    {index.address}/whl/cu126 does not have it"
    place = lines.index("- 2.15.0+cu130")
    assert lines[place + 1 : place + 3] == [
        "    CUDA 13.0 needs a driver 580 or newer, the driver is 535.104.05",
        "    no code for GPU 0 (Tesla V100), compute capability 7.0 (has sm_75 sm_80 sm_86 sm_90 "
        "sm_100 sm_120)",
    ]


def test_ladder_is_printed_where_nothing_fits(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("torch>=2.15", *V100, *TARGET, "--explain") == 1
    out, err = capsys.readouterr()
    assert [line for line in out.splitlines() if line[0] == "-"] == [
        "- 2.15.0+cu132",
        "- 2.15.0+cu130",
    ]
    assert "no build of torch>=2.15 serves the machines" in err


def test_build_that_was_passed_over_has_the_reason_in_one_line(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("oldlib", *V100, *TARGET, "--explain") == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("- 2.14.1+cu126")
    assert lines[place + 1] == "    oldlib==1.0 needs torch<2.11"
    place = lines.index("- 2.13.0+cu126")
    assert lines[place + 1] == "    oldlib==1.0 needs torch<2.11"


def test_explaining_writes_a_lock_only_where_a_file_is_named(lock: Lock) -> None:
    assert lock("torch", *V100, *TARGET, "--explain") == 0
    assert list(Path().iterdir()) == []
    assert lock("torch", *V100, *TARGET, "--explain", "-o", "pylock.toml") == 0
    assert [path.name for path in Path().iterdir()] == ["pylock.toml"]


def test_offline_is_said_and_asks_nobody(
    lock: Lock, index: LoopbackIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("torch", *V100, *TARGET, "-o", "pylock.toml") == 0
    before = Path("pylock.toml").read_text()
    capsys.readouterr()
    index.forget()
    assert lock("torch", *V100, *TARGET, "-o", "pylock.toml", "--offline", "--explain") == 0
    assert index.paths == []
    out, err = capsys.readouterr()
    assert "offline: no index was asked" in err
    assert "whether the index has it was not asked" in out
    notes = tomllib.loads(Path("pylock.toml").read_text())["tool"]["envguard"]["notes"]
    assert notes[0].startswith("offline: no index was asked")
    kept = before.partition("[tool.envguard]")[0]
    assert Path("pylock.toml").read_text().startswith(kept)


def test_free_threaded_python_is_locked_for(
    lock: Lock,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    index: LoopbackIndex,
) -> None:
    monkeypatch.setenv("ENVGUARD_TORCH_INDEX", f"{index.address}/recorded/{{backend}}")
    machine = ("--gpu", "H100 PCIe", "--driver", "570.26", "--platform", "linux-x86_64")
    words = ("torch==2.8.0+cu128", "--python-version", "3.13t", "--glibc", "2.35")
    from envguard.cli.main import main

    assert main(["lock", *words, *machine, "--index-url", index.default]) == 0
    document = tomllib.loads(capsys.readouterr().out)
    (wheel,) = document["packages"][0]["wheels"]
    assert wheel["name"] == "torch-2.8.0+cu128-cp313-cp313t-manylinux_2_28_x86_64.whl"
    assert document["tool"]["envguard"]["is_free_threaded"] is True
