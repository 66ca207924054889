"""The interpreter that uv is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.lock.request import Target
from envguard.lock.uv import interpreter_for
from tests.lock.conftest import LINUX

if TYPE_CHECKING:
    from pathlib import Path


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
