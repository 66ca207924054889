"""No command that reads an environment runs any of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from envguard.cli.main import main
from tests.probe.environments import StubEnvironment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stubs.machine import StubMachine

COMMANDS = (
    ("check", "--no-deep", "-v"),
    ("check", "--deep", "-v"),
    ("check", "--format", "json"),
    ("probe",),
    ("diagnose", "{log}", "--exit-code", "1", "-v"),
    ("lock", "six", "--offline"),
    ("plan", "--params", "1B", "--gpus", "1", "--gpu-memory", "80", "--host-memory", "64"),
    ("run", "-q", "--record", "{records}", "--", "/bin/sh", "-c", "exit 0"),
)
NAMED = ("check", "probe", "diagnose")


@pytest.fixture
def hostile(tmp_path: Path) -> StubEnvironment:
    """An environment with a torch, each of whose ways to run code leaves a mark."""
    env = StubEnvironment(tmp_path / "env").make()
    env.install("torch", "2.7.1")
    env.install_torch()
    line = f"import os; os.mkdir({str(tmp_path / 'mark')!r})\n"
    (env.site / "evil.pth").write_text(line)
    for name in ("sitecustomize", "usercustomize", "json", "typing"):
        (env.site / f"{name}.py").write_text(line)
    return env


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "active"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_no_command_runs_what_it_reads(
    hostile: StubEnvironment,
    words: tuple[str, ...],
    is_named: bool,
    tmp_path: Path,
    no_driver: StubMachine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(hostile.folder))
    monkeypatch.setenv("PYTHONPATH", str(hostile.site))
    (tmp_path / "log").write_text("RuntimeError: CUDA error: out of memory\n")
    places = {"log": tmp_path / "log", "records": tmp_path / "records"}
    given = [word.format(**places) for word in words]
    if is_named and words[0] in NAMED:
        given += ["--python", hostile.python]
    assert main(given) in {0, 1, 2, 3}
    assert not (tmp_path / "mark").exists()


def test_the_code_that_was_not_run_is_named_with_verbose(
    hostile: StubEnvironment, no_driver: StubMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "--no-deep", "--python", hostile.python]
    main(words)
    assert "evil.pth" not in capsys.readouterr().out
    main([*words, "--verbose"])
    shown = "".join(capsys.readouterr().out.split())
    assert str(hostile.site / "evil.pth") in shown
    assert str(hostile.site / "sitecustomize.py") in shown
    main([*words, "--format", "json"])
    gaps = json.loads(capsys.readouterr().out)["gaps"]
    assert [gap["reason"] for gap in gaps if gap["fact"] == "environment.start_up"] == ["not-asked"]
