"""Finding and running uv."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import ExitCode, ToolError
from envguard.lock.uv import OLDEST_UV, Uv, child_variables, find_uv, run_uv, with_default_index
from envguard.web.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fake programs are shell scripts")


def fake(folder: Path, script: str) -> Path:
    path = folder / "uv"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def fake_uv(folder: Path, script: str) -> Uv:
    return Uv(fake(folder, script), Version("9.9"), {"PATH": os.environ["PATH"]})


def test_installed_uv_is_found_and_new_enough(environ: dict[str, str]) -> None:
    found = find_uv(environ)
    assert found.path.name.startswith("uv")
    assert found.version >= Version("0.9.30")


def test_old_uv_is_refused_with_both_versions(tmp_path: Path, environ: dict[str, str]) -> None:
    old = fake(tmp_path, "echo 'uv 0.4.0 (d9bd3bc7a 2024-08-28)'")
    with pytest.raises(ToolError) as caught:
        find_uv(environ, stated=old)
    assert caught.value.message.startswith("uv 0.4.0 (")
    assert "too old: envguard needs 0.9.30 or newer" in caught.value.message
    assert caught.value.exit_code is ExitCode.COULD_NOT_TELL


def test_oldest_uv_of_the_package_is_the_one_checked() -> None:
    assert Version("0.9.30") == OLDEST_UV


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo pip 26.3", "is not uv: `--version` says 'pip 26.3'"),
        ("echo broken >&2; exit 3", "is not uv: `--version` says 'broken'"),
        ("exit 0", "is not uv: `--version` says ''"),
    ],
)
def test_other_program_is_refused(
    tmp_path: Path, environ: dict[str, str], script: str, said: str
) -> None:
    with pytest.raises(ToolError) as caught:
        find_uv(environ, stated=fake(tmp_path, script))
    assert said in caught.value.message


def test_missing_program_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(ToolError, match=r"uv cannot be started: .*nowhere: No such file"):
        find_uv(environ, stated=tmp_path / "nowhere")


def test_only_settings_about_indexes_reach_uv() -> None:
    kept = child_variables(
        {
            "PATH": "/bin",
            "HTTPS_PROXY": "http://proxy.example",
            "SSL_CERT_FILE": "/etc/ca.pem",
            "UV_CACHE_DIR": "/cache",
            "UV_DEFAULT_INDEX": "https://index.example/simple",
            "UV_INDEX_CORP_PASSWORD": "x",
            "UV_RESOLUTION": "lowest",
            "UV_TORCH_BACKEND": "cpu",
            "UV_OVERRIDE": "o.txt",
            "UV_NO_SOURCES": "1",
            "VIRTUAL_ENV": "/venv",
            "PYTHONPATH": "/lib",
        }
    )
    assert set(kept) == {
        "PATH",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "UV_CACHE_DIR",
        "UV_DEFAULT_INDEX",
        "UV_INDEX_CORP_PASSWORD",
        "UV_PYTHON_DOWNLOADS",
        "DS_BUILD_OPS",
    }


def test_stated_default_index_wins_over_variables() -> None:
    given = {"UV_INDEX_URL": "https://old.example", "UV_INDEX": "https://more.example"}
    assert with_default_index(given, "https://new.example") == {
        "UV_INDEX": "https://more.example",
        "UV_DEFAULT_INDEX": "https://new.example",
    }


def test_end_of_much_talk_is_kept(tmp_path: Path) -> None:
    noise = "i=0; while [ $i -lt 3000 ]; do echo 'noise noise noise' >&2; i=$((i+1)); done"
    script = f"{noise}; echo end >&2; exit 7"
    ended = run_uv(
        fake_uv(tmp_path, script), [], folder=tmp_path, limits=Limits(30), talk_bytes=1000
    )
    assert ended.returncode == 7
    assert len(ended.talk) == 1000
    assert ended.talk.endswith("noise\nend\n")


def test_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    uv = fake_uv(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(ToolError, match="uv did not end within 1 s, the limit for the whole lock"):
        run_uv(uv, [], folder=tmp_path, limits=Limits(1))
    assert is_gone(int((tmp_path / "pid").read_text()))


def is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if b"\nState:\tZ" in read_status(pid):
            return True  # dead, and its new parent has not collected it yet
        time.sleep(0.05)
    return False


def read_status(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - procfs
            return file.read()
    except OSError:
        return b""


def test_interrupt_ends_the_child_and_goes_on(tmp_path: Path) -> None:
    uv = fake_uv(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_uv(uv, [], folder=tmp_path, limits=Limits(60))
    finally:
        timer.cancel()
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_arguments_of_uv_hold_no_password(tmp_path: Path) -> None:
    uv = Uv(
        fake(tmp_path, f'echo "$@" > {tmp_path}/arguments; exit 2'),
        Version("9.9"),
        with_default_index({"PATH": os.environ["PATH"]}, "https://me:s3cret@index.example"),
    )
    run_uv(uv, ["pip", "compile"], folder=tmp_path, limits=Limits(30))
    assert (tmp_path / "arguments").read_text() == "pip compile\n"
