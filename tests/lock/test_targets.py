"""Several targets in one lock: the first is installed by default, the others by name."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.pylock import Pylock

from envguard.cli.main import main
from tests.lock.machine_files import facts

if TYPE_CHECKING:
    from envguard.lock.uv import Uv
    from tests.lock.conftest import Lock

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
needs_here = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
    reason="the loopback indexes have wheels for this platform up to Python 3.13",
)


@pytest.fixture
def machine(lock: Lock) -> Path:
    """A file that describes an H100 with a new driver and this Python."""
    path = Path("a.json")
    path.write_text(json.dumps(facts("NVIDIA H100 PCIe", "9.0", "580.65.06", python=PYTHON)))
    return path


@pytest.fixture
def two(lock: Lock, machine: Path) -> Path:
    """A lock for CUDA 13 by default and for the CPU by name."""
    assert (
        lock("torch", "timm", "--target", "cu130=a.json", "--target", "cpu", "-o", "pylock.toml")
        == 0
    )
    return Path("pylock.toml")


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def versions(document: dict[str, Any], name: str) -> list[str]:
    return [p["version"] for p in document["packages"] if p["name"] == name]


def test_targets_are_groups_and_the_first_is_the_default(two: Path) -> None:
    document = read(two)
    assert document["dependency-groups"] == ["cu130", "cpu"]
    assert document["default-groups"] == ["cu130"]
    assert versions(document, "torch") == ["2.15.0+cpu", "2.15.0+cu130"]
    assert versions(document, "timm") == ["1.0.20"]
    markers = {p["version"]: p.get("marker") for p in document["packages"] if p["name"] == "torch"}
    assert markers == {
        "2.15.0+cpu": "'cpu' in dependency_groups",
        "2.15.0+cu130": "'cu130' in dependency_groups",
    }
    timm = next(p for p in document["packages"] if p["name"] == "timm")
    assert "marker" not in timm


def test_record_holds_every_target(two: Path) -> None:
    table = read(two)["tool"]["envguard"]
    assert (table["target"], table["backend"]) == ("cu130", "cu130")
    assert table["targets"]["cpu"]["backend"] == "cpu"
    assert table["targets"]["cu130"]["driver_floor"] == "580"
    assert table["targets"]["cpu"]["request"]["requirements"] == ["timm", "torch"]


@needs_here
@pytest.mark.parametrize(
    ("groups", "torch"),
    [(None, "2.15.0+cu130"), (["cpu"], "2.15.0+cpu"), (["cu130"], "2.15.0+cu130")],
)
def test_standard_selects_one_torch(two: Path, groups: list[str] | None, torch: str) -> None:
    lock = Pylock.from_dict(read(two))
    chosen = lock.select() if groups is None else lock.select(dependency_groups=groups)
    found = {str(package.name): str(package.version) for package, _ in chosen}
    assert found["torch"] == torch
    assert found["timm"] == "1.0.20"
    assert ("triton" in found) == ("cu130" in torch)


@needs_here
def test_pip_installs_the_default(two: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install"),
            *("--dry-run", "--ignore-installed", "-r", str(two)),
        ],
        env={**environ, "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "torch-2.15.0+cu130" in done.stdout
    assert "+cpu" not in done.stdout


@needs_here
@pytest.mark.parametrize(
    ("words", "torch"),
    [
        (["install", "-r"], "2.15.0+cu130"),
        (["sync"], "2.15.0+cu130"),
        (["install", "--group", "cpu", "-r"], "2.15.0+cpu"),
    ],
)
def test_uv_installs_the_default_and_by_name(
    two: Path, uv: Uv, tmp_path: Path, words: list[str], torch: str
) -> None:
    venv = tmp_path / "venv"
    variables = dict(uv.variables)
    made = [str(uv.path), "venv", "-q", "-p", sys.executable, str(venv)]
    subprocess.run(made, env=variables, check=True)
    done = subprocess.run(
        [
            str(uv.path),
            "pip",
            words[0],
            "--dry-run",
            "--no-config",
            "-p",
            str(venv),
            *words[1:],
            str(two),
        ],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"+ torch=={torch}" in done.stderr
    assert done.stderr.count("+ torch==") == 1


def test_each_target_has_a_file_of_its_own(lock: Lock, machine: Path) -> None:
    words = ("--target", "cu130=a.json", "--target", "cpu")
    outputs = ("-o", "pylock.cpu.toml", "-o", "requirements-{target}.txt")
    assert lock("torch", *words, *outputs) == 0
    names = sorted(path.name for path in Path().iterdir())
    assert names == ["a.json", "pylock.cpu.toml", "requirements-cpu.txt", "requirements-cu130.txt"]
    document = read(Path("pylock.cpu.toml"))
    assert "dependency-groups" not in document
    assert versions(document, "torch") == ["2.15.0+cpu"]
    assert "torch @ " in Path("requirements-cu130.txt").read_text()
    assert "%2Bcu130" in Path("requirements-cu130.txt").read_text()


def test_targets_on_different_systems_carry_their_markers(lock: Lock, machine: Path) -> None:
    laptop = facts("", "", "", python=PYTHON)
    laptop["machine"] = {"host": {"platform": "windows-x86_64"}, "gpus": []}
    Path("b.json").write_text(json.dumps(laptop))
    words = ("--target", "server=a.json", "--target", "laptop=b.json")
    assert lock("torch", *words, "-o", "pylock.toml") == 0
    document = read(Path("pylock.toml"))
    assert len(document["environments"]) == 2
    markers = {p["version"]: p["marker"] for p in document["packages"] if p["name"] == "torch"}
    assert markers["2.15.0+cpu"] == (
        f"('laptop' in dependency_groups and python_version == '{PYTHON}' and "
        "sys_platform == 'win32' and platform_machine == 'AMD64')"
    )


@needs_here
def test_uv_project_has_groups_that_exclude_each_other(
    lock: Lock, machine: Path, uv: Uv, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--target", "cu130=a.json", "--target", "cpu", "--format", "uv-project")
    assert lock("torch", "timm", *words) == 0
    text = capsys.readouterr().out.replace("[project]", '[project]\nname = "x"\nversion = "0"')
    Path("pyproject.toml").write_text(text)
    variables = dict(uv.variables)
    subprocess.run([str(uv.path), "lock", "-q", "-p", sys.executable], env=variables, check=True)
    for extra, torch in (
        ([], "2.15.0+cu130"),
        (["--no-group", "cu130", "--group", "cpu"], "2.15.0+cpu"),
    ):
        done = subprocess.run(
            [str(uv.path), "sync", "--dry-run", "-p", sys.executable, *extra],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert f"+ torch=={torch}" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "Big=a.json"), "--target: 'Big' is no name for a target"),
        (("--target", "train"), "--target: 'train' names neither a backend nor a machine"),
        (("--target", "cpu", "--target", "cpu"), "--target: 'cpu' is given twice"),
        (("--target", "cpu", "--backend", "cu126"), "--backend cu126 contradicts --target cpu"),
        (("--target", "cpu=nowhere.json"), "nowhere.json: cannot be read"),
        (("-o", "requirements-{target}.txt"), "there are no targets: state --target"),
    ],
)
def test_what_is_no_target_is_refused(
    lock: Lock, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    stated = (
        "--platform",
        "linux-x86_64",
        "--python-version",
        "3.12",
        "--compute-capability",
        "9.0",
    )
    assert lock("torch", *stated, *words) == 2
    assert said in capsys.readouterr().err


def test_form_with_one_target_cannot_hold_two(
    lock: Lock, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--target", "cu130=a.json", "--target", "cpu", "-o", "requirements.txt")
    assert lock("torch", *words) == 2
    assert "--format requirements holds one target, there are cu130, cpu" in capsys.readouterr().err
    assert not Path("requirements.txt").exists()


def test_check_reads_the_default_target(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--gpu", "H100 PCIe", "--driver", "580.65.06", "--platform", "linux-x86_64")
    assert (
        main(["check", "pylock.toml", *words, "--python-version", PYTHON, "--format", "json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["verdict"] in {"ok", "warn"}
