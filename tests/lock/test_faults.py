"""Bad days of a lock: full disks, signals, two at once, and servers that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lock.conftest import TARGET, V100
from tests.loopback.index import PASSWORD, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.loopback.index import LoopbackIndex

    Start = Callable[..., subprocess.Popen[str]]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits")
resource = pytest.importorskip("resource", reason="POSIX limits")
PREVIOUS = "the previous lock\n"


@pytest.fixture
def start(index: LoopbackIndex, environ: dict[str, str], tmp_path: Path) -> Start:
    """Start the command as a process in a folder of its own."""
    folder = tmp_path / "work"
    (folder / "tmp").mkdir(parents=True)
    own = {
        "TMPDIR": str(folder / "tmp"),
        "ENVGUARD_CACHE_DIR": str(tmp_path / "c"),
        "PYTHONDONTWRITEBYTECODE": "1",  # a full disk must not spoil the bytecode of others
    }

    def begin(
        *words: str, limit: Callable[[], None] | None = None, **more: str
    ) -> subprocess.Popen[str]:
        indexes = ("--torch-index", index.torch, "--index-url", index.default)
        return subprocess.Popen(
            [sys.executable, "-m", "envguard", "lock", *words, *V100, *TARGET, *indexes],
            cwd=folder,
            env={**environ, **own, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
        )

    return begin


def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def write_previous(tmp_path: Path) -> Path:
    path = work(tmp_path) / "pylock.toml"
    path.write_text(PREVIOUS)
    return path


def left_behind(tmp_path: Path) -> list[str]:
    names = {path.name for path in work(tmp_path).iterdir()} - {"pylock.toml", "tmp"}
    return sorted(names | {path.name for path in (work(tmp_path) / "tmp").iterdir()})


def test_disk_that_fills_up_while_writing_leaves_the_previous_lock(
    start: Start, tmp_path: Path
) -> None:
    path = write_previous(tmp_path)

    def limit() -> None:
        # No file may grow beyond 1000 bytes; what uv keeps is there already.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    warm = start("torch", "-o", "pylock.toml")
    warm.communicate(timeout=60)
    assert warm.returncode == 0
    path.write_text(PREVIOUS)
    full = start("torch", "-o", "pylock.toml", limit=limit)
    out, err = full.communicate(timeout=60)
    assert full.returncode in {2, 3}, err
    assert "Traceback" not in err
    assert out == ""
    assert path.read_text() == PREVIOUS
    assert left_behind(tmp_path) == []


def test_full_device_is_one_clear_line(start: Start) -> None:
    process = start("torch", "--format", "requirements", "-o", "/dev/full")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "/dev/full: cannot be written: no space left on device" in err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signal_in_the_middle_leaves_nothing_behind(
    start: Start, index: LoopbackIndex, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    path = write_previous(tmp_path)
    cold = {"UV_CACHE_DIR": str(tmp_path / "cold")}
    with index.trouble("/whl", Trouble.SLOW):
        process = start("torch", "-o", "pylock.toml", **cold)
        child = _child_of(process)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    # CPython ends itself by SIGINT where the interrupt came into code that it was just compiling.
    assert process.returncode in {status, -number}, err
    assert number is signal.SIGINT or process.returncode == status
    assert "Traceback" not in err
    assert _is_gone(child)
    assert path.read_text() == PREVIOUS
    assert left_behind(tmp_path) == []


def _child_of(process: subprocess.Popen[str]) -> int:
    """The uv that it has started."""
    for _ in range(600):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and _is_uv_below(entry, process.pid):
                return int(entry.name)
        time.sleep(0.05)
    raise AssertionError("uv was not started")


def _is_uv_below(entry: Path, parent: int) -> bool:
    try:
        status = (entry / "status").read_text()
        command = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"\nPPid:\t{parent}\n" in status and b"compile" in command


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_two_locks_of_one_file_at_once_leave_one_whole_lock(start: Start, tmp_path: Path) -> None:
    processes = [start(name, "-o", "pylock.toml") for name in ("timm", "accelerate")]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    document = tomllib.loads((work(tmp_path) / "pylock.toml").read_text())
    names = {package["name"] for package in document["packages"]}
    assert len(names & {"timm", "accelerate"}) == 1
    assert document["tool"]["envguard"]["backend"] == "cu126"
    assert left_behind(tmp_path) == []


def test_page_of_50_mb_is_read_or_refused_in_one_line(
    start: Start, index: LoopbackIndex, tmp_path: Path
) -> None:
    cold = {"UV_CACHE_DIR": str(tmp_path / "cold")}
    with index.trouble("/whl/cu126/torch", Trouble.HUGE):
        process = start("torch", "-o", "pylock.toml", **cold)
        _, err = process.communicate(timeout=120)
    assert process.returncode in {0, 1, 3}
    assert len([line for line in err.splitlines() if line.startswith("envguard: error")]) <= 1
    assert "Traceback" not in err
    assert left_behind(tmp_path) == []


def test_password_is_nowhere(start: Start, index: LoopbackIndex, tmp_path: Path) -> None:
    private = index.private_address
    words = ("torch", "timm", "--explain", "-o", "pylock.toml", "-o", "requirements.txt")
    process = start(
        *words, "--torch-index", f"{private}/whl/{{backend}}", "--index-url", f"{private}/simple"
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert PASSWORD not in out + err
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in kept} >= {"pylock.toml", "requirements.txt"}
    assert not [path for path in kept if PASSWORD.encode() in path.read_bytes()]


def test_page_whose_metadata_has_another_hash_is_no_lock(
    start: Start, index: LoopbackIndex, tmp_path: Path
) -> None:
    """What a page says of a file and what the file is differ: nothing is made of it."""
    cold = {"UV_CACHE_DIR": str(tmp_path / "cold")}
    with index.trouble("/files/timm-1.0.20", Trouble.REPLACED):
        process = start("timm", "-o", "pylock.toml", **cold)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "timm" in err
    assert "Traceback" not in err
    assert not (work(tmp_path) / "pylock.toml").exists()
    assert os.listdir(work(tmp_path) / "tmp") == []  # noqa: PTH208 - names only
