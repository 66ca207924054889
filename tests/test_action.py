"""The GitHub action's script, with a python3 whose venv is the environment of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ACTION = (Path(__file__).resolve().parents[1] / "action.yml").read_text(encoding="utf-8")
A100 = '--gpu "NVIDIA A100" --driver 570.26 --platform linux-x86_64'
PYTHON3 = """\
#!/bin/sh
[ "$1" = -m ] || exec {python} "$@"
mkdir -p "$3/bin"
printf '#!/bin/sh\\nfor word; do echo "$word"; done > "$RUNNER_TEMP/pip"\\n' > "$3/bin/pip"
printf '#!/bin/sh\\nexec {python} -m envguard "$@"\\n' > "$3/bin/envguard"
chmod +x "$3/bin/pip" "$3/bin/envguard"
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action runs bash")


def run(folder: Path, subject: str, arguments: str = "", fail_on: str = "fail") -> tuple[int, str]:
    """The step's exit status, and what it gives out."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    program = folder / "bin" / "python3"
    program.parent.mkdir()
    program.write_text(PYTHON3.format(python=sys.executable))
    program.chmod(0o755)
    output = folder / "output"
    variables = {"SUBJECT": subject, "ARGUMENTS": arguments, "FAIL_ON": fail_on}
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", _script()],
        cwd=workspace,
        env={
            **variables,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "CHECKOUT": str(folder / "check out"),
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(output),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, output.read_text()


def _script() -> str:
    return textwrap.dedent(ACTION.partition("      run: |\n")[2])


@pytest.mark.parametrize(
    ("subject", "fail_on", "status", "verdict"),
    [
        ("torch==2.9.0+cu128", "fail", 0, "warn"),
        ("torch==2.9.0+cu128", "warn", 1, "warn"),
        ("torch==2.9.0+cu128 torchvision==0.24.0+cu128", "fail", 0, "warn"),
        ("torch==2.9.0+cu130", "fail", 1, "fail"),
        ("torch==2.99.0", "fail", 3, "unknown"),
        ("torch==2.99.0", "unknown", 1, "unknown"),
        ("torch", "fail", 2, "unknown"),
        ("$(touch made) `touch made`", "fail", 2, "unknown"),
    ],
)
def test_the_job_ends_as_the_check_does(
    tmp_path: Path, subject: str, fail_on: str, status: int, verdict: str
) -> None:
    assert run(tmp_path, subject, A100, fail_on) == (status, f"verdict={verdict}\n")
    assert not (tmp_path / "workspace" / "made").exists()


def test_the_action_installs_its_own_checkout(tmp_path: Path) -> None:
    assert "CHECKOUT: ${{ github.action_path }}" in ACTION
    run(tmp_path, "torch==2.9.0+cu128", A100)
    assert (tmp_path / "pip").read_text().splitlines() == ["install", "-q", f"{tmp_path}/check out"]


def test_a_lockfile_may_have_blanks_in_its_name(tmp_path: Path) -> None:
    lock = tmp_path / "workspace" / "my requirements.txt"
    lock.parent.mkdir()
    lock.write_text("torch==2.9.0+cu130\n")
    assert run(tmp_path, lock.name, A100) == (1, "verdict=fail\n")
