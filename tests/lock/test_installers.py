"""pip and uv take the lockfiles as they are, against the loopback indexes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.lock import render_lock
from envguard.lock.formats.requirements import RequirementsStyle
from envguard.lock.lock_plan import LockPlan, plan_lock
from envguard.lock.request import Target
from tests.lock.conftest import LINUX, ask, v100

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
    reason="the loopback indexes have wheels for this platform up to Python 3.13",
)
INSTALLED = {"torch-2.14.1+cu126", "torchvision-0.29.1+cu126", "triton-3.8.0", "timm-1.0.20"}


@pytest.fixture(scope="module")
def plan(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> LockPlan:
    here = Version(f"{sys.version_info.major}.{sys.version_info.minor}")
    target = Target(LINUX, here, Version("2.28"))
    request = ask(index, "torch", "timm", "deepspeed", machines=(v100(),), target=target)
    return plan_lock(request, matrix, uv)


@pytest.fixture(
    params=[
        ("pylock.toml", "pylock", RequirementsStyle.URLS),
        ("requirements.txt", "requirements", RequirementsStyle.URLS),
        ("requirements-index.txt", "requirements", RequirementsStyle.INDEX),
    ],
    ids=lambda param: param[0],
)
def lockfile(request: pytest.FixtureRequest, plan: LockPlan, tmp_path: Path) -> Path:
    name, form, style = request.param
    path: Path = tmp_path / name
    path.write_text(render_lock(plan, form, style))
    return path


def run(command: list[str], environ: dict[str, str]) -> str:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_pip_would_install_the_lock(lockfile: Path, environ: dict[str, str]) -> None:
    hashes = [] if lockfile.suffix == ".toml" else ["--require-hashes", "--no-deps"]
    said = run(
        [
            *(sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install"),
            *("--dry-run", "--ignore-installed", *hashes, "-r", str(lockfile)),
        ],
        {**environ, "PIP_CONFIG_FILE": os.devnull},
    )
    would = next(line for line in said.splitlines() if line.startswith("Would install"))
    assert set(would.split()) >= INSTALLED | {"deepspeed-0.19.8"}


def test_uv_would_install_the_lock(lockfile: Path, uv: Uv, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    run([str(uv.path), "venv", "-q", "-p", sys.executable, str(venv)], dict(uv.variables))
    # uv asks extra indexes first and stops at the first that knows a name.
    strategy = ["--index-strategy", "unsafe-best-match"] if "index" in lockfile.name else []
    said = run(
        [
            *(str(uv.path), "pip", "install", "--dry-run", "--no-config", *strategy),
            *("-p", str(venv), "-r", str(lockfile)),
        ],
        dict(uv.variables),
    )
    assert {line.strip("+ ").split("=")[0].split(" @")[0] for line in said.splitlines()} >= {
        "torch",
        "torchvision",
        "triton",
        "timm",
        "deepspeed",
    }


def test_uv_installs_the_lock_from_the_right_indexes(
    plan: LockPlan, uv: Uv, tmp_path: Path, index: LoopbackIndex
) -> None:
    wheels_only = [pin for pin in plan.pins if pin.artifacts[0].is_wheel]
    path = tmp_path / "pylock.toml"
    text = render_lock(replace(plan, pins=tuple(wheels_only)), "pylock")
    path.write_text(text)
    venv = tmp_path / "venv"
    run([str(uv.path), "venv", "-q", "-p", sys.executable, str(venv)], dict(uv.variables))
    run(
        [str(uv.path), "pip", "install", "--no-config", "-p", str(venv), "-r", str(path)],
        dict(uv.variables),
    )
    python = venv / "bin" / "python"
    said = run([str(python), "-c", "import torch, timm; print(torch.__version__)"], {})
    assert said == "2.14.1+cu126\n"
    assert index.address in text
