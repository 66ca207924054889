"""uv projects, conda environments and Dockerfiles, each taken by those who read them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.lock import render_lock
from envguard.lock.formats.requirements import RequirementsStyle
from envguard.lock.lock_plan import LockPlan, plan_lock
from envguard.lock.request import Target
from envguard.web.client import Web
from envguard.web.releases import Releases
from tests.lock.conftest import LINUX, ask, h100
from tests.lock.yaml_reader import read_strict_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.lock.lock_plan import Locks
    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
    reason="the loopback indexes have wheels for this platform up to Python 3.13",
)
HERE = Target(LINUX, Version(f"{sys.version_info.major}.{sys.version_info.minor}"), Version("2.35"))


@pytest.fixture(scope="module")
def plan(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> LockPlan:
    """With a prebuilt wheel, which comes from no index."""
    request = ask(index, "timm", "causal-conv1d", machines=(h100("570.26"),), target=HERE)
    return plan_lock(request, matrix, uv, releases=Releases(Web, index.releases))


def run(command: list[str], environ: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, env=environ, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def pip_would_install(path: Path, environ: dict[str, str]) -> set[str]:
    said = run(
        [
            *(sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install"),
            *("--dry-run", "--ignore-installed", "--no-deps", "-r", str(path)),
        ],
        {**environ, "PIP_CONFIG_FILE": os.devnull},
        path.parent,
    )
    would = next(line for line in said.splitlines() if line.startswith("Would install"))
    return set(would.split()[2:])


EXPECTED = {
    "torch-2.13.0+cu126",
    "torchvision-0.28.0+cu126",
    "triton-3.7.1",
    "timm-1.0.20",
    "causal-conv1d-1.7.0",
    "einops-0.8.1",
}


@pytest.mark.parametrize("form", ["pylock", "requirements"])
def test_prebuilt_wheel_installs_from_pylock_and_requirements(
    plan: LockPlan, environ: dict[str, str], tmp_path: Path, form: str
) -> None:
    path = tmp_path / {"pylock": "pylock.toml", "requirements": "requirements.txt"}[form]
    path.write_text(render_lock(plan, form))
    assert pip_would_install(path, environ) >= EXPECTED


def test_uv_installs_the_prebuilt_wheel(plan: LockPlan, uv: Uv, tmp_path: Path) -> None:
    path = tmp_path / "pylock.toml"
    path.write_text(render_lock(plan, "pylock"))
    venv = tmp_path / "venv"
    variables = dict(uv.variables)
    run([str(uv.path), "venv", "-q", "-p", sys.executable, str(venv)], variables, tmp_path)
    install = [str(uv.path), "pip", "install", "--no-config", "-p", str(venv), "-r", str(path)]
    conv = next(pin for pin in plan.pins if pin.name == "causal-conv1d")
    said = run(install, variables, tmp_path)
    assert f"(from {conv.artifacts[0].url})" in said
    code = "import causal_conv1d, torch; print(causal_conv1d.__version__, torch.__version__)"
    assert run([str(venv / "bin/python"), "-c", code], {}, tmp_path) == "1.7.0 2.13.0+cu126\n"


def test_environment_is_read_strictly_and_its_pip_part_by_pip(
    plan: LockPlan, environ: dict[str, str], tmp_path: Path
) -> None:
    document = read_strict_yaml(render_lock(plan, "environment"))
    assert document["name"] == "torch-cu126"
    assert document["channels"] == ["conda-forge"]
    python, pip, section = document["dependencies"]
    assert (python, pip) == (f"python={HERE.python}.*", "pip")
    path = tmp_path / "requirements.txt"
    path.write_text("\n".join(section["pip"]))
    assert pip_would_install(path, environ) >= EXPECTED


def test_dockerfile_holds_requirements_that_pip_takes(
    plan: LockPlan, environ: dict[str, str], tmp_path: Path
) -> None:
    text = render_lock(plan, "dockerfile")
    assert text.splitlines()[0] == "# syntax=docker/dockerfile:1"
    instructions = [line.split()[0] for line in _outside_heredoc(text) if line[:1].isupper()]
    assert instructions == ["ENV", "COPY", "RUN"]
    match = re.search(r"^COPY <<'(\w+)' (\S+)\n(.*?)^\1\n", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    path = tmp_path / "requirements.txt"
    path.write_text(match[3])
    assert pip_would_install(path, environ) >= EXPECTED
    assert f"--require-hashes -r {match[2]}" in text
    assert "# The host needs NVIDIA driver 525.60.13 or newer" in text
    assert "and glibc 2.28 or newer" in text


def _outside_heredoc(text: str) -> list[str]:
    lines, is_inside = [], False
    for line in text.splitlines():
        if line == "REQUIREMENTS":
            is_inside = False
        elif not is_inside:
            lines.append(line)
            is_inside = "<<'REQUIREMENTS'" in line
    return lines


def test_python_check_of_the_dockerfile_is_a_program(plan: LockPlan) -> None:
    text = render_lock(plan, "dockerfile")
    code = re.search(r'RUN python -c "([^"]+)"', text)
    assert code is not None
    assert subprocess.run([sys.executable, "-c", code[1]], check=False).returncode == 0
    other = code[1].replace(f"({sys.version_info[0]}, {sys.version_info[1]})", "(3, 2)")
    assert subprocess.run([sys.executable, "-c", other], check=False).returncode == 1


def test_image_of_another_system_is_refused(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    target = Target(LINUX.parse("windows-x86_64"), Version("3.12"))
    plan = plan_lock(ask(index, "torch", target=target), matrix, uv)
    with pytest.raises(InputError, match="images are Linux, not windows-x86_64"):
        render_lock(plan, "dockerfile")


def uv_project(folder: Path, plan: LockPlan | Locks) -> Path:
    text = render_lock(plan, "uv-project").replace(
        "[project]", '[project]\nname = "mine"\nversion = "0"'
    )
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_uv_project_locks_to_the_same_build(plan: LockPlan, uv: Uv, tmp_path: Path) -> None:
    folder = uv_project(tmp_path, plan)
    variables = dict(uv.variables)
    run([str(uv.path), "lock", "-p", sys.executable], variables, folder)
    packages = tomllib.loads((folder / "uv.lock").read_text())["package"]
    found = {package["name"]: package for package in packages}
    pins = {str(pin.name): pin for pin in plan.pins}
    for name in ("torch", "torchvision", "triton"):
        assert found[name]["version"] == str(pins[name].version)
        assert found[name]["source"] == {"registry": plan.torch_index}
    assert found["causal-conv1d"]["source"] == {"url": pins["causal-conv1d"].artifacts[0].url}
    assert found.keys() - {"mine"} == pins.keys()
    said = run([str(uv.path), "sync", "--dry-run", "-p", sys.executable], variables, folder)
    assert "+ torch==2.13.0+cu126" in said


def test_uv_project_carries_the_bounds_of_the_matrix(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "deepspeed", machines=(h100(),)), matrix, uv)
    settings = tomllib.loads(render_lock(plan, "uv-project"))["tool"]["uv"]
    assert settings["constraint-dependencies"] == ["deepspeed>=0.14.4", "deepspeed>=0.19.5"]


@pytest.mark.parametrize("form", ["environment", "dockerfile", "requirements"])
def test_index_style_names_all_indexes(plan: LockPlan, form: str, index: LoopbackIndex) -> None:
    text = render_lock(plan, form, RequirementsStyle.INDEX)
    assert f"--index-url {index.default}" in text
    assert f"--extra-index-url {plan.torch_index}" in text
    assert "torch==2.13.0+cu126" in text
    assert "causal-conv1d @ " in text


def test_reader_of_the_tests_is_strict() -> None:
    for text in ("a: b\n", "a: 1\n", 'a:\n\t- "x"\n', 'a: "x"\na: "y"\n', '- &x "y"\n'):
        with pytest.raises(ValueError, match=r"."):
            read_strict_yaml(text)
