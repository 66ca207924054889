"""The distribution is envguard-gpu: no text installs the other project that is named envguard."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from envguard import __version__
from envguard._version import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[1]
# An installer's words, then envguard as a requirement; or envguard with an extra or a bound.
INSTALLS = re.compile(
    r"(?:\binstall|\badd|\bdownload|\buvx|\bpipx run|--with|--from)"
    r"(?: +(?:-\S+|'?[\w.]+\[\w+\]'?))*"
    r" +['\"]?envguard(?![\w./-])"
    r"|\benvguard(?:\[[a-z]|[=~<>]=\s*\d| @ )"
    r"|metadata\.version\(['\"]envguard['\"]|\bversion\(['\"]envguard['\"]\)"
)
READ = {".py", ".toml", ".md", ".yml", ".yaml", ".txt", ".sh", ""}
SKIPPED = {"samples", "crashes", "machines"}  # what other people wrote


def texts() -> list[Path]:
    """The texts of the repository that tell somebody what to type."""
    folders = ("envguard", "compat_matrix", "tests", "scripts", "benchmarks", "docs", "contrib")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    found += [*ROOT.iterdir(), *(ROOT / ".ci").iterdir(), *(ROOT / ".github").rglob("*")]
    return sorted(
        path
        for path in found
        if path.is_file() and path.suffix in READ and SKIPPED.isdisjoint(path.parts)
    )


def test_no_text_installs_the_other_project() -> None:
    strays = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if INSTALLS.search(line)
    ]
    assert strays == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install envguard",
        "python -m pip install -q envguard==0.1.0",
        "pip install 'envguard[plot]'",
        "uv tool install envguard",
        "uv add --dev envguard",
        "uvx envguard check",
        "needs the extra envguard[plot]",
        'dev = ["envguard[test]"]',
        'importlib.metadata.version("envguard")',
    ],
)
def test_the_old_words_are_seen(line: str) -> None:
    assert INSTALLS.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install envguard-gpu",
        "pip install 'envguard-gpu[plot]'",
        "pip install . && .venv/bin/envguard check",
        "envguard check torch==2.7.1",
        "uvx --from envguard-gpu envguard check",
        "pip install envguard_gpu-0.1.0-py3-none-any.whl",
    ],
)
def test_the_new_words_are_not_taken_for_the_old_ones(line: str) -> None:
    assert not INSTALLS.search(line)


def test_the_name_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert project["dynamic"] == ["version"]
    strays = [
        path.name
        for path in (ROOT / "envguard").rglob("*.py")
        if path.name != "_version.py" and DISTRIBUTION in path.read_text("utf-8")
    ]
    assert strays == []


def test_the_readme_says_the_name() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert any(
        f"pip install {DISTRIBUTION}" in line and "another project" in line for line in lines
    )


def installed(folder: Path) -> Path:
    """Site-packages that hold this program, as a wheel lays it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "envguard", folder / "envguard", ignore=ignored)
    shutil.copytree(ROOT / "compat_matrix", folder / "envguard" / "compat_matrix", ignore=ignored)
    (folder / f"{DISTRIBUTION.replace('-', '_')}-{__version__}.dist-info").mkdir()
    return folder


def overlay(folder: Path) -> None:
    """What the other project's wheel lays over it."""
    (folder / "envguard" / "__init__.py").write_text("")
    (folder / "envguard" / "cli.py").write_text("def validate_env():\n    print('ok')\n")
    (folder / "envguard-0.1.dist-info").mkdir()


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


START = "from envguard.__main__ import entry; sys.argv = ['envguard', '--version']; entry()"


def test_an_install_of_its_own_says_nothing(tmp_path: Path) -> None:
    done = run(installed(tmp_path), START)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"envguard {__version__}\n", "")


@pytest.mark.parametrize("what", ["all", "cli.py", "metadata"])
def test_the_other_project_among_our_files_is_named_with_the_cure(
    tmp_path: Path, what: str
) -> None:
    installed(tmp_path)
    if what == "cli.py":
        (tmp_path / "envguard" / "cli.py").touch()
    elif what == "metadata":
        (tmp_path / "envguard-0.1.dist-info").mkdir()
    else:
        overlay(tmp_path)
    done = run(tmp_path, START)
    assert (done.returncode, done.stdout) == (0, f"envguard {__version__}\n")
    assert done.stderr.count("\n") == 1
    assert "python -m pip uninstall envguard" in done.stderr
    assert f"--force-reinstall {DISTRIBUTION}\n" in done.stderr


def test_the_other_projects_command_leads_to_the_cure(tmp_path: Path) -> None:
    overlay(installed(tmp_path))
    done = run(tmp_path, "from envguard.cli import validate_env; sys.exit(validate_env())")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1
    assert f"--force-reinstall {DISTRIBUTION}\n" in done.stderr
