"""Interpreters: found, described, broken, or none at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Environment, Interpreter
from envguard.facts.gaps import GapReason
from envguard.probe.interpreter import is_running, locate_python, mark_active
from envguard.probe.probe_options import ProbeOptions
from tests.probe.environments import StubEnvironment, ask, names, real_python

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_each_supported_python_describes_itself(version: str) -> None:
    python = real_python(version)
    environment, _ = ask(python)
    interpreter = environment.interpreter
    assert interpreter is not None
    assert interpreter.version is not None
    assert f"{interpreter.version.major}.{interpreter.version.minor}" == version
    assert interpreter.executable == python
    assert interpreter.implementation == "cpython"
    assert interpreter.is_free_threaded is False
    assert interpreter.python_tag == f"cp{version.replace('.', '')}"
    assert environment.distributions is not None


@pytest.mark.parametrize("version", ["3.13t", "3.14t"])
def test_a_free_threaded_python_says_so(version: str) -> None:
    environment, _ = ask(real_python(version))
    assert environment.interpreter is not None
    assert environment.interpreter.is_free_threaded is True


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
def test_an_older_python_is_refused_with_its_version(version: str) -> None:
    python = real_python(version)
    with pytest.raises(InputError, match=rf"is Python {version}\.\d+; envguard inspects 3.8") as e:
        ask(python)
    assert repr(python) in e.value.message


def test_a_virtual_environment_is_described(env: StubEnvironment) -> None:
    env.install("numpy", "2.1.3")
    env.install("flash-attn", "2.8.3", installer="uv", origin='{"url": "https://index.example/f"}')
    environment, gaps = ask(env.python)
    interpreter = environment.interpreter
    assert interpreter is not None
    assert interpreter.prefix == str(env.folder)
    assert interpreter.is_venv is True
    assert interpreter.is_conda is False
    assert interpreter.version == Version(".".join(map(str, sys.version_info[:3])))
    assert names(environment) == ["flash-attn", "numpy"]
    flash = environment.distribution("flash-attn")
    assert flash is not None
    assert flash.version == Version("2.8.3")
    assert flash.installer == "uv"
    assert flash.url == "https://index.example/f"
    assert flash.location == str(env.site)
    assert flash.is_editable is False
    assert [gap.fact for gap in gaps] == ["environment.torch"]
    assert gaps[0].reason is GapReason.ABSENT


def test_the_folder_of_an_environment_names_its_python(env: StubEnvironment) -> None:
    assert locate_python(str(env.folder), ProbeOptions()) == env.python


def test_the_running_interpreter_is_known_by_its_other_names(env: StubEnvironment) -> None:
    ours = Path(sys.executable)
    other = next((p for p in ours.parent.glob("python*") if p != ours and p.samefile(ours)), ours)
    assert is_running(sys.executable)
    assert is_running(str(other))
    assert not is_running(env.python)
    assert not is_running(str(ours.parent / "no-python"))


def test_a_program_name_is_looked_up_on_path(env: StubEnvironment) -> None:
    options = ProbeOptions(environ={"PATH": str(env.folder / "bin")})
    assert locate_python("python", options) == env.python


def test_neither_the_current_folder_nor_ours_is_on_its_path(
    env: StubEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    environment, _ = ask(env.python)
    assert environment.torch is None
    assert environment.interpreter is not None
    assert str(tmp_path) not in environment.interpreter.sys_path
    assert not [p for p in environment.interpreter.sys_path if p.endswith("/probe")]


def test_inspecting_leaves_no_bytecode_behind(env: StubEnvironment) -> None:
    ask(env.python, PYTHONPATH=str(env.site))
    assert not list(env.folder.rglob("__pycache__"))


def test_the_running_interpreter_is_described_alike_inside_and_in_a_child() -> None:
    code = (
        "import json, sys\n"
        "from envguard.facts.codec import to_dict\n"
        "from envguard.probe.interpreter import probe_running, start_interpreter\n"
        "from envguard.probe.interpreter import collect_interpreter\n"
        "from envguard.probe.probe_options import ProbeOptions\n"
        "inside = probe_running()\n"
        "options, python = ProbeOptions(), sys.executable\n"
        "child = start_interpreter(python, options)\n"
        "outside = collect_interpreter(child, python, python, options)\n"
        "print(json.dumps([to_dict(inside), to_dict(outside)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    inside, outside = json.loads(done.stdout)
    not_run = [gap for gap in outside[1] if gap["fact"] == "environment.start_up"]
    assert inside == [outside[0], [gap for gap in outside[1] if gap not in not_run]]
    assert "packaging" in {d["name"] for d in inside[0]["distributions"]}


def test_the_encoding_of_its_output_does_not_matter(env: StubEnvironment) -> None:
    env.install("numpy", "2.1.3")
    environment, _ = ask(env.python, PYTHONIOENCODING="utf-16")
    assert names(environment) == ["numpy"]


def test_words_of_a_wrapper_do_not_matter(env: StubEnvironment) -> None:
    wrapper = wrap(env, 'echo \'{"welcome": 1}\'; "{python}" "$@"; echo bye')
    environment, _ = ask(wrapper)
    assert environment.interpreter is not None


def wrap(env: StubEnvironment, script: str) -> str:
    """An interpreter that is a shell script; returns its path."""
    wrapper = env.folder / "bin" / "wrapper"
    wrapper.write_text("#!/bin/sh\n" + script.replace("{python}", env.python) + "\n")
    wrapper.chmod(0o755)
    return str(wrapper)


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
        ("import time; time.sleep(600)", "timed-out", "within 2 s"),
        ("while True: print('x' * 100000)", "unreadable", "wrote more than"),
        (
            "import os, sys; sys.stderr.write('Python is upset\\n'); os._exit(5)",
            "unreadable",
            "status 5",
        ),
    ],
)
def test_an_interpreter_that_fails_is_a_gap(
    env: StubEnvironment, code: str, reason: str, words: str
) -> None:
    (env.folder / "code.py").write_text(f"{code}\n")
    wrapper = wrap(env, f'exec "{{python}}" "{env.folder}/code.py"')
    environment, gaps = ask(wrapper, timeout_s=2.0)
    assert environment == Environment()
    (gap,) = gaps
    assert gap.fact == "environment.interpreter"
    assert gap.reason is GapReason(reason)
    assert wrapper in gap.detail
    assert words in gap.detail


@pytest.mark.parametrize("script", ["exit 0", "echo rubbish", "echo no such option >&2; exit 2"])
def test_a_program_that_is_no_python_is_refused(stub_machine: StubMachine, script: str) -> None:
    program = str(stub_machine.program("pretender", script))
    with pytest.raises(InputError, match="is not a Python interpreter"):
        ask(program)


def test_a_file_that_cannot_be_run_is_a_gap(stub_machine: StubMachine) -> None:
    program = stub_machine.program("python", "")
    program.write_bytes(b"\x00\x01\x02")
    _, (gap,) = ask(str(program))
    assert gap.reason is GapReason.UNREADABLE


@pytest.mark.parametrize("python", ["/nowhere/python", "no-such-python", "./python9"])
def test_a_python_that_does_not_exist_is_refused(python: str) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        ask(python)
    assert python in caught.value.message


def test_a_folder_without_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no bin/python"):
        ask(str(tmp_path))


def test_a_file_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("")
    with pytest.raises(InputError, match="is not executable"):
        ask(str(tmp_path / "python"))


@pytest.mark.parametrize("name", ["x" * 5000, "/" + "x" * 300 + "/python", "a\0b", ""])
def test_names_that_cannot_be_looked_up_are_wrong_usage(name: str) -> None:
    with pytest.raises(InputError, match="--python: ") as caught:
        locate_python(name, ProbeOptions())
    assert "does not exist" in caught.value.message or "cannot be found" in caught.value.message


def test_program_that_prints_half_a_description_is_no_python(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho '{\"envguard\": 1}'\n")
    program.chmod(0o755)
    with pytest.raises(InputError, match=r"is not a Python interpreter \(its description has no"):
        ask(str(program))


def activity(prefix: Path, environ: dict[str, str]) -> bool | None:
    environment = Environment(Interpreter(prefix=str(prefix)))
    marked = mark_active(environment, environ)
    assert marked.interpreter is not None
    return marked.interpreter.is_active


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("project", "tool"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("project")
    return tmp_path


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_another_environment_is_active(place: Path, variable: str) -> None:
    assert activity(place / "tool", {variable: str(place / "project")}) is False
    assert activity(place / "project", {variable: str(place / "project")}) is True
    assert activity(place / "project", {variable: str(place / "link")}) is True
    assert activity(place / "tool", {variable: str(place / "removed")}) is False


def test_nothing_is_active(place: Path) -> None:
    assert activity(place / "tool", {}) is None
    assert activity(place / "tool", {"VIRTUAL_ENV": ""}) is None


def test_the_base_environment_of_conda_says_nothing(place: Path) -> None:
    base = {"CONDA_PREFIX": str(place / "project"), "CONDA_DEFAULT_ENV": "base"}
    assert activity(place / "tool", base) is None
    assert activity(place / "tool", {**base, "VIRTUAL_ENV": str(place / "tool")}) is True
