"""Finding and running uv."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import ExitCode, ToolError
from envguard.lock.request import Target
from envguard.lock.resolve import resolve
from envguard.lock.uv import (
    OLDEST_UV,
    Uv,
    child_variables,
    default_index,
    find_uv,
    interpreter_for,
    packaged_uv,
    run_uv,
    with_default_index,
    without_torch_backend,
)
from envguard.web.lock_limits import LockLimits
from tests.lock.conftest import LINUX
from tests.lock.problems import asking, origins

if TYPE_CHECKING:
    from envguard.lock.project import Problem
    from tests.loopback.index import LoopbackIndex


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
        fake_uv(tmp_path, script), [], folder=tmp_path, limits=LockLimits(30), talk_bytes=1000
    )
    assert ended.returncode == 7
    assert len(ended.talk) == 1000
    assert ended.talk.endswith("noise\nend\n")


def test_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    uv = fake_uv(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(ToolError, match="uv did not end within 1 s, the limit for the whole lock"):
        run_uv(uv, [], folder=tmp_path, limits=LockLimits(1))
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
            run_uv(uv, [], folder=tmp_path, limits=LockLimits(60))
    finally:
        timer.cancel()
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_arguments_of_uv_hold_no_password(tmp_path: Path) -> None:
    uv = Uv(
        fake(tmp_path, f'echo "$@" > {tmp_path}/arguments; exit 2'),
        Version("9.9"),
        with_default_index({"PATH": os.environ["PATH"]}, "https://me:s3cret@index.example"),
    )
    run_uv(uv, ["pip", "compile"], folder=tmp_path, limits=LockLimits(30))
    assert (tmp_path / "arguments").read_text() == "pip compile\n"


def settings(folder: Path, text: str) -> dict[str, str]:
    (folder / "uv").mkdir(parents=True, exist_ok=True)
    (folder / "uv" / "uv.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(folder), "XDG_CONFIG_DIRS": str(folder / "none")}


def test_settings_without_it_are_left_alone(tmp_path: Path) -> None:
    variables = settings(tmp_path, '[pip]\nresolution = "lowest"\n')
    assert without_torch_backend(variables, tmp_path) is variables
    assert without_torch_backend({}, tmp_path) == {}


def test_everything_else_is_kept(tmp_path: Path) -> None:
    own = settings(
        tmp_path / "own",
        '[pip]\ntorch-backend = "auto"\nresolution = "lowest"\n'
        '[[index]]\nurl = "https://own.example"\n',
    )
    system = tmp_path / "system"
    settings(
        system,
        'offline = true\n[pip]\nresolution = "highest"\nno-header = true\n'
        '[[index]]\nurl = "https://system.example"\n',
    )
    found = without_torch_backend({**own, "XDG_CONFIG_DIRS": str(system)}, tmp_path)
    assert tomllib.loads(Path(found["UV_CONFIG_FILE"]).read_text()) == {
        "pip": {"resolution": "lowest", "no-header": True},
        "index": [{"url": "https://own.example"}, {"url": "https://system.example"}],
        "offline": True,
    }


def test_stated_settings_file_is_the_only_one(tmp_path: Path) -> None:
    ignored = settings(tmp_path, '[pip]\ntorch-backend = "cu128"\n')
    stated = tmp_path / "stated.toml"
    stated.write_text("offline = true\n")
    variables = {**ignored, "UV_CONFIG_FILE": str(stated)}
    assert without_torch_backend(variables, tmp_path) is variables
    stated.write_text('[pip]\ntorch-backend = "cu128"\n')
    assert without_torch_backend(variables, tmp_path) is not variables
    assert (
        without_torch_backend({**variables, "UV_NO_CONFIG": "1"}, tmp_path)["UV_NO_CONFIG"] == "1"
    )


@pytest.mark.parametrize("text", ["{", "pip = 3\n"])
def test_settings_that_are_broken_are_uvs_to_complain_about(tmp_path: Path, text: str) -> None:
    variables = settings(tmp_path, text)
    assert without_torch_backend(variables, tmp_path) is variables


def test_resolution_asks_no_other_torch_index(
    problem: Problem, environ: dict[str, str], index: LoopbackIndex, tmp_path: Path
) -> None:
    """With the setting, uv would ask download.pytorch.org, which is out of reach here."""
    text = '[pip]\ntorch-backend = "cu128"\n[[index]]\ndefault = true\n'
    odd = settings(tmp_path, f'{text}url = "{index.default}"\n')
    uv = find_uv({**environ, **odd, "UV_CACHE_DIR": str(tmp_path / "cache")})
    pins = resolve(replace(asking(problem, "timm"), default_index=None), uv)
    assert origins(pins, problem) == {"torch", "torchvision", "triton"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[[index]]\nurl = "https://a.example"\ndefault = true\n', "https://a.example"),
        ('[[index]]\nurl = "https://a.example"\n', None),
        ('index-url = "https://b.example"\n', "https://b.example"),
        ('[pip]\nindex-url = "https://c.example"\n', "https://c.example"),
        ('index = "nonsense"\npip = 3\n', None),
        ("", None),
    ],
)
def test_default_index_is_read_from_the_settings(
    tmp_path: Path, text: str, found: str | None
) -> None:
    (tmp_path / "uv.toml").write_text(text)
    variables = {"UV_CONFIG_FILE": str(tmp_path / "uv.toml")}
    assert default_index(variables) == found
    assert default_index({**variables, "UV_NO_CONFIG": "1"}) is None
    stated = {**variables, "UV_DEFAULT_INDEX": "https://d.example"}
    assert default_index(stated) == "https://d.example"


PROGRAM = b"\x7fELF not really"
RECORD = """\
../../../bin/uv,sha256=tzrN9zuWw6yeVtL6kzQns-5qkB48zmuh4-yz-Ryg2Go,{size}
../../../bin/uvx,sha256=1fvBYInCwxwHay1htPH0Vc3rze8W9TBtSFLvLObhF7w,331344
uv-0.13.9.dist-info/RECORD,,
uv/__init__.py,sha256=DLA95X6E43S_PG_aShLgH2Mx0Os_P31OmoGXrS2Mc30,778
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with uv 0.13.9 in it, and its program where pip puts it."""
    folder = tmp_path / "lib" / "python3.12" / "site-packages"
    (folder / "uv-0.13.9.dist-info").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").write_bytes(PROGRAM)
    write_record(folder, RECORD.format(size=len(PROGRAM)))
    return folder


def write_record(site: Path, text: str) -> None:
    (site / "uv-0.13.9.dist-info" / "RECORD").write_text(text)


def test_the_record_names_the_program_and_its_folder_the_version(
    site: Path, tmp_path: Path
) -> None:
    assert packaged_uv(site) == (tmp_path / "bin" / "uv", Version("0.13.9"))


def test_another_program_in_its_place_has_to_be_asked(site: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "uv").write_bytes(PROGRAM + b" but longer")
    assert packaged_uv(site) is None


def test_a_program_that_is_gone_is_not_named(site: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "uv").unlink()
    assert packaged_uv(site) is None


@pytest.mark.parametrize(
    "record",
    [
        "",
        "uv/__init__.py,,",
        "../../../bin/uv,,",
        "../../../bin/uv",
        "../../../bin/uv,sha256=x,many",
        "../../../share/uv,sha256=x,15",
    ],
)
def test_a_record_that_does_not_say_is_no_answer(site: Path, record: str) -> None:
    write_record(site, record)
    assert packaged_uv(site) is None


def test_two_versions_of_the_package_are_no_answer(site: Path) -> None:
    (site / "uv-0.4.0.dist-info").mkdir()
    assert packaged_uv(site) is None


@pytest.mark.parametrize("name", ["uv-0.13.9.dist-info", "uv-what.dist-info"])
def test_a_package_without_a_record_is_no_answer(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert packaged_uv(tmp_path) is None
    assert packaged_uv(tmp_path / "nowhere") is None


def test_usual_target_is_shown_this_interpreter(tmp_path: Path) -> None:
    assert interpreter_for(Target(LINUX, Version("3.13")), tmp_path) == sys.executable
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_stand_in_says_that_it_is_free_threaded(tmp_path: Path) -> None:
    target = Target(LINUX, Version("3.13"), is_free_threaded=True)
    program = interpreter_for(target, tmp_path)
    code = "import json; print(json.dumps({'gil_disabled': False, 'pointer_size': 64}))"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"gil_disabled": True, "pointer_size": 64}
