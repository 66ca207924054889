"""A torch that attacks the smoke test gets a verdict like any other, and never a good one."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from envguard.cli.main import main
from envguard.facts.findings import Status, verdict_of
from envguard.smoke.result import SmokeRequest
from envguard.smoke.smoke_findings import smoke_findings
from envguard.smoke.smoke_run import run_smoke
from tests.smoke.fake import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="uses pipes, links and fork")

BEGIN = """\
import json, os, shutil, signal, sys, time
plan = json.loads(sys.argv[1])
side, faults, scratch = plan["progress"], plan["faults"], plan["scratch"]
def write(text):
    with open(side, "a") as file:
        file.write(text + "\\n")
def say(**record):
    write(json.dumps(record))
def end(**record):
    say(event="end", stage="import", **record)
"""
IN_PLACE_OF_FILES = {
    "pipe": "os.unlink(side); os.mkfifo(side); os.unlink(faults); os.mkfifo(faults)",
    "folder": "os.unlink(side); os.mkdir(side); os.unlink(faults); os.mkdir(faults)",
    "endless": "os.unlink(side); os.symlink('/dev/zero', side)",
    "loop": "os.unlink(side); os.symlink(side, side); os.rename(side, faults)",
    "nothing": "shutil.rmtree(scratch)",
    "file": "shutil.rmtree(scratch); open(scratch, 'w').close()",
}
FORGED = {
    "huge sizes": "end(status='ok', seconds=10**400, rss_peak_bytes=10**400)",
    "huge details": "end(status='ok', details={'state_bytes': 10**4000})",
    "infinite": 'write(\'{"event": "end", "stage": "import", "seconds": 1e999}\')',
    "deep": "end(details=json.loads('[' * 900 + ']' * 900))",
    "half characters": "end(status='fail', device='\\ud800',"
    " error={'type': '\\ud800', 'message': '\\udfff\\x1b[31m', 'frames': ['\\x9b'], 'module': 5})",
    "wrong kinds": "end(status=['ok'], seconds='x', details=7, error=[])",
    "skipped": "end(status='skip', reason='\\x1b[2J'); say(event='begin', stage='shutdown')",
    "another process": "say(event='start', python=['x'], pid=1)",
    "only the end": "say(event='begin', stage='shutdown')",
}
DEEDS = {
    "flood of records": "while True: say(event='begin', stage='import')",
    "flood of words": "while True: os.write(1, b'A' * 65536); os.write(2, b'\\x1b[31m' * 1000)",
    "all files closed": "os.closerange(0, 4096); os._exit(0)",
    "output closed": "os.close(1); os.close(2); time.sleep(600)",
    "early end": "os._exit(0)",
    "another program": "os.execv('/bin/true', ['true'])",
    "group killed": "os.kill(0, signal.SIGKILL)",
    "deaf": "[signal.signal(n, signal.SIG_IGN) for n in (2, 6, 15)]\nwhile True: time.sleep(9)",
    "an error without words": "class E(Exception):\n"
    "    def __str__(self): raise SystemExit(0)\nraise E",
    "an error that interrupts": "class E(Exception):\n"
    "    def __getattr__(self, name): raise KeyboardInterrupt\nraise E",
    "a claim to be skipped": "error = ValueError(); error.smoke_kind = 'skip'; raise error",
    "long words": "raise RuntimeError('\\x1b[31m\\u202e' + 'x' * 10**7)",
    "no module": "sys.modules['torch'] = 5",
    "foreign json": "json.dumps = lambda *a, **k: '[]'",
    "foreign write": "os.write = lambda *a: 1 / 0",
    "much memory": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
    "x = bytearray(4 << 30)",
    "at exit": "import atexit; atexit.register(os._exit, 0); raise ImportError('x')",
}


def plant(folder: Path, code: str) -> None:
    (folder / "torch.py").write_text(f"{BEGIN}{code}\n")


def attack(folder: Path, code: str, *, stage_timeout_s: float = 2.0) -> Status:
    """The verdict on a torch of this code."""
    plant(folder, code)
    result = run_smoke(
        SmokeRequest(
            python=sys.executable,
            stages=("import",),
            stage_timeout_s=stage_timeout_s,
            total_timeout_s=20.0,
            variables=(("PYTHONPATH", str(folder)),),
        )
    )
    return verdict_of(smoke_findings(result, MATRIX))


@pytest.mark.parametrize("name", IN_PLACE_OF_FILES)
@pytest.mark.parametrize("end", ["os._exit(0)", "time.sleep(600)"])
def test_other_things_in_place_of_its_files_do_not_hold_it_up(
    tmp_path: Path, name: str, end: str
) -> None:
    assert attack(tmp_path, f"{IN_PLACE_OF_FILES[name]}; {end}") in {Status.FAIL, Status.UNKNOWN}


@pytest.mark.parametrize("name", FORGED)
def test_forged_records_give_no_good_verdict(tmp_path: Path, name: str) -> None:
    assert attack(tmp_path, f"{FORGED[name]}; os._exit(0)") in {Status.FAIL, Status.UNKNOWN}


@pytest.mark.parametrize("name", DEEDS)
def test_deeds_give_no_good_verdict(tmp_path: Path, name: str) -> None:
    assert attack(tmp_path, DEEDS[name]) in {Status.FAIL, Status.UNKNOWN}


@pytest.mark.parametrize("form", ["text", "json", "markdown", "sarif", "junit", "github"])
@pytest.mark.parametrize("name", ["half characters", "huge sizes", "skipped"])
def test_every_format_survives_forged_records(
    tmp_path: Path, name: str, form: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    plant(tmp_path, f"print('\\x1b[31m\\x9b'); {FORGED[name]}; os._exit(0)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ["smoke", "--python", sys.executable, "--stages", "import", "--format", form]
    code = main([*words, "--no-color", "--verbose"] if form == "text" else words)
    out = "".join(capsys.readouterr())
    assert code in {1, 3}
    assert not [mark for mark in ("\x1b", "\x9b", "Traceback") if mark in out]
    if form in {"json", "sarif"}:
        json.loads(out, parse_constant=pytest.fail)


def test_nothing_of_ours_is_open_in_it(tmp_path: Path) -> None:
    deed = (
        "found = []\n"
        "for n in range(3, 2000):\n"
        "    try: os.write(n, b'GOTCHA\\n')\n"
        "    except OSError: continue\n"
        "    found.append(os.readlink(f'/proc/self/fd/{n}'))\n"
        "try: open('/dev/tty', 'w'); found.append('tty')\n"
        "except OSError: pass\n"
        f"json.dump([found, scratch], open({str(tmp_path / 'found')!r}, 'w'))\n"
        "os._exit(0)"
    )
    attack(tmp_path, deed)
    found, scratch = json.loads((tmp_path / "found").read_text())
    assert [path for path in found if not path.startswith(scratch)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's choice of Linux")
def test_the_kernel_would_end_it_before_others(tmp_path: Path) -> None:
    copy = f"shutil.copyfile('/proc/self/oom_score_adj', {str(tmp_path / 'score')!r})"
    attack(tmp_path, copy)
    assert (tmp_path / "score").read_text().strip() == "1000"


def test_a_link_in_place_of_its_folder_leads_nothing_away(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "progress.jsonl").write_text('{"event": "end", "stage": "import", "status": "ok"}\n')
    started = time.time()
    attack(tmp_path, f"shutil.rmtree(scratch); os.symlink({str(kept)!r}, scratch); os._exit(0)")
    assert (kept / "progress.jsonl").stat().st_mtime <= started
