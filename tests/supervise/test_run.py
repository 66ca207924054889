"""``envguard run`` with real children, pipes, terminals, signals and a real memory cgroup."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.supervise.run import checkpoint_note, read_marker
from envguard.supervise.run_record import load_record
from tests.crash.logs import MATRIX
from tests.crash.test_scan import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")

PYTHON = sys.executable
RANKS = Path(__file__).with_name("four_ranks.py")
LONG_S = 60


def argv(*command: str, options: Sequence[str] = ()) -> list[str]:
    return [PYTHON, "-m", "envguard", "run", "--no-probe", *options, "--", *command]


def run(
    folder: Path, *command: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(*command, options=options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def records(folder: Path) -> list[Path]:
    return sorted((folder / ".envguard" / "runs").iterdir())


def wait_for(path: Path, words: str) -> None:
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        if path.exists() and words in path.read_text():
            return
        time.sleep(0.02)
    pytest.fail(f"{words!r} never came in {path}")


@pytest.mark.parametrize("status", [0, 1, 3, 77])
def test_the_childs_status_is_passed_through(tmp_path: Path, status: int) -> None:
    assert run(tmp_path, "sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_childs_signal_becomes_128_plus_its_number(tmp_path: Path, number: int) -> None:
    assert run(tmp_path, "sh", "-c", f"kill -{number} $$").returncode == 128 + number


def test_a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    assert run(tmp_path, "no-such-program-anywhere").returncode == 127
    assert run(tmp_path, str(tmp_path / "text")).returncode == 126


def test_output_and_input_go_through_unchanged_and_apart(tmp_path: Path) -> None:
    code = (
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); print('e', file=sys.stderr)"
    )
    data = bytes(range(256)) * 5000 + b"no end"
    done = subprocess.run(
        argv(PYTHON, "-c", code, options=["-q"]),
        cwd=tmp_path,
        input=data,
        capture_output=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.stdout == data
    assert done.stderr == b"e\n"


def test_a_file_as_output_is_the_childs_own_file(tmp_path: Path) -> None:
    code = (
        "import os, stat; print(stat.S_ISREG(os.fstat(1).st_mode));"
        "print('Saving model checkpoint to out')"
    )
    log = tmp_path / "log.txt"
    with log.open("w") as file:
        file.write("before\n")
        file.flush()
        subprocess.run(
            argv(PYTHON, "-c", code), cwd=tmp_path, stdout=file, timeout=LONG_S, check=False
        )
    assert log.read_text() == "before\nTrue\nSaving model checkpoint to out\n"
    record = load_record(records(tmp_path)[0])
    assert record.phase == "save"
    assert record.output_parts[0].read_text() == "True\nSaving model checkpoint to out\n"


def test_two_streams_of_one_file_keep_their_order(tmp_path: Path) -> None:
    code = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done"
    done = subprocess.run(
        argv("sh", "-c", code, options=["-q"]),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.stdout == "".join(f"o{i}\ne{i}\n" for i in range(1, 6))


def test_the_command_has_a_process_group_of_its_own(tmp_path: Path) -> None:
    code = "import os; print(os.getpgrp() == os.getpid(), os.getsid(0) == os.getsid(os.getppid()))"
    assert run(tmp_path, PYTHON, "-c", code).stdout == "True True\n"


def test_a_reader_that_goes_away_is_noticed_by_the_child(tmp_path: Path) -> None:
    quoted = shlex.join(argv("sh", "-c", "while :; do echo y; done", options=["-q"]))
    done = subprocess.run(
        ["sh", "-c", f"{quoted} | head -n 2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.stdout == "y\ny\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_child(tmp_path: Path, number: int) -> None:
    code = (
        "import signal, sys\n"
        f"signal.signal({number}, lambda *_: sys.exit(42))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    log = tmp_path / "out.txt"
    with log.open("w") as file:
        child = subprocess.Popen(
            argv(PYTHON, "-c", code, options=["-q"]), cwd=tmp_path, stdout=file
        )
        wait_for(log, "ready")
        child.send_signal(number)
        assert child.wait(LONG_S) == 42


def test_an_ignored_hangup_stays_ignored_in_the_child(tmp_path: Path) -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run(
        ["nohup", *argv(PYTHON, "-c", code, options=["-q"])],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.stdout == "True\n"


def test_the_record_survives_kill_9_of_envguard_itself(tmp_path: Path) -> None:
    code = (
        "import envguard, time; envguard.phase('load'); print('ready', flush=True); time.sleep(2)"
    )
    log = tmp_path / "out.txt"
    with log.open("w") as file:
        child = subprocess.Popen(argv(PYTHON, "-c", code), cwd=tmp_path, stdout=file)
        wait_for(log, "ready")
        samples = records(tmp_path)[0] / "samples.jsonl.0"
        wait_for(samples, '"phase":"load"')
        child.kill()
        child.wait(LONG_S)
    record = load_record(records(tmp_path)[0])
    assert record.end is None
    assert record.phase == "load"
    assert record.memory.samples >= 1
    done = subprocess.run(
        [PYTHON, "-m", "envguard", "diagnose", str(record.folder), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    notes = json.loads(done.stdout)["notes"]
    assert any("has no end" in note for note in notes)


def test_phase_does_nothing_outside_a_run(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if k != "ENVGUARD_PHASE_FILE"}
    code = "import envguard; envguard.phase('save')"
    subprocess.run([PYTHON, "-c", code], cwd=tmp_path, env=environ, timeout=LONG_S, check=True)
    environ["ENVGUARD_PHASE_FILE"] = str(tmp_path / "missing" / "folder")
    subprocess.run([PYTHON, "-c", code], cwd=tmp_path, env=environ, timeout=LONG_S, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_diagnosed_with_what_changed(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{}")
    code = "import sys; print('MemoryError'); sys.exit(int(sys.argv[2]))"
    assert run(tmp_path, PYTHON, "-c", code, "c.json", "0").returncode == 0
    (tmp_path / "c.json").write_text('{"a": 1}')
    done = run(tmp_path, PYTHON, "-c", code, "c.json", "1")
    assert done.returncode == 1
    assert "host-allocation-refused" in done.stderr
    assert "c.json was edited" in done.stderr
    compared = subprocess.run(
        [PYTHON, "-m", "envguard", "run", "--compare"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert "c.json was edited" in compared.stdout


def test_a_success_tells_its_peaks(tmp_path: Path) -> None:
    code = "import time; x = bytearray(200 * 2**20); time.sleep(1)"
    done = run(tmp_path, PYTHON, "-c", code)
    assert "ended well" in done.stderr
    end = json.loads((records(tmp_path)[0] / "end.json").read_text())
    assert end["peaks"]["host_bytes"] > 200 * 2**20


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "envguard", "run", "--no-probe", "-q", "echo", "--format", "json", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.stdout == "--format json -q\n"


@pytest.mark.parametrize("option", ["--recrod", "--gaet=fail", "-x"])
def test_an_option_that_is_misspelt_is_not_taken_for_the_command(
    tmp_path: Path, option: str
) -> None:
    done = run(tmp_path, "true", options=(option,))
    assert done.returncode == 2
    assert f"No such option: {option.partition('=')[0]}" in done.stderr


def test_no_command_is_wrong_usage(tmp_path: Path) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "envguard", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 2
    assert "no command" in done.stderr


# ---------------------------------------------------------------- a real memory cgroup


def _cgroup_root() -> tuple[Path, str] | None:
    """Where a memory cgroup may be made, and the name of its limit."""
    if os.geteuid() != 0:
        return None
    one = Path("/sys/fs/cgroup/memory")
    if (one / "memory.limit_in_bytes").exists():
        return one, "memory.limit_in_bytes"
    two = Path("/sys/fs/cgroup")
    if (two / "cgroup.subtree_control").exists() and "memory" in (
        two / "cgroup.subtree_control"
    ).read_text().split():
        return two, "memory.max"
    return None


@pytest.fixture
def limited(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A memory cgroup of this test, with a limit in MiB."""
    root = _cgroup_root()
    if root is None:
        pytest.skip("no memory cgroup can be made here: not root, or no writable hierarchy")
    folder = root[0] / f"envguard-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / root[1]).write_text(str(request.param * 2**20))
    except OSError as err:
        folder.rmdir() if folder.is_dir() else None
        pytest.skip(f"no memory cgroup can be made here: {err}")
    yield folder
    until = time.monotonic() + LONG_S
    while folder.is_dir() and time.monotonic() < until:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.1)


def run_inside(group: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    enter = f'echo $$ > {group / "cgroup.procs"}; exec "$@"'
    return subprocess.run(
        ["sh", "-c", enter, "sh", *argv(*command)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


@pytest.mark.parametrize("limited", [440], indirect=True)
def test_four_ranks_that_clone_their_state_at_save_die_of_host_memory(
    limited: Path, tmp_path: Path
) -> None:
    done = run_inside(limited, tmp_path, PYTHON, str(RANKS), "60", "all")
    assert done.returncode == 137
    record = load_record(records(tmp_path)[0])
    assert record.end is not None
    assert record.end["root_cause"] == "host-oom-save"
    assert record.memory.kills >= 1
    assert len(record.memory.workers()) == 4
    assert "host-oom-save" in done.stderr
    assert "oom_kill of the cgroup" in done.stderr
    assert "container-memory-limit" in done.stderr


@pytest.mark.parametrize("limited", [880], indirect=True)
def test_the_same_run_lives_when_only_the_limit_is_doubled(limited: Path, tmp_path: Path) -> None:
    assert run_inside(limited, tmp_path, PYTHON, str(RANKS), "60", "all").returncode == 0
    assert load_record(records(tmp_path)[0]).memory.phase_peaks["save"] > 400 * 2**20


@pytest.mark.parametrize("limited", [440], indirect=True)
def test_the_same_run_lives_when_only_rank_0_clones(limited: Path, tmp_path: Path) -> None:
    assert run_inside(limited, tmp_path, PYTHON, str(RANKS), "60", "zero").returncode == 0


def test_a_kill_that_the_cgroup_did_not_count_is_not_called_host_memory(tmp_path: Path) -> None:
    code = "import envguard, os; envguard.phase('save'); os.kill(os.getpid(), 9)"
    done = run(tmp_path, PYTHON, "-c", code)
    end = load_record(records(tmp_path)[0])
    assert done.returncode == 137
    if end.memory.kills_after is None:
        pytest.skip("this machine has no memory cgroup that counts kills")
    assert end.end is not None
    assert (end.end["verdict"], end.end["root_cause"]) == ("unknown", None)
    assert "1. maybe: someone else killed it" in done.stderr


@pytest.mark.parametrize(
    ("names", "marker"),
    [
        ((), "hf_empty"),
        (("config.json",), "hf_empty"),
        (("model.safetensors", "config.json"), "hf_weights_no_optimizer"),
        (("model.safetensors", "optimizer.pt"), "hf_trainer_json"),
        (("model.safetensors", "global_step500"), "hf_trainer_json"),
        (("__0_0.distcp",), "dcp_metadata"),
        (("__0_0.distcp", ".metadata"), None),
        (("model.safetensors", "optimizer.pt", "trainer_state.json"), None),
    ],
)
def test_files_of_a_checkpoint_tell_where_its_save_died(
    tmp_path: Path, names: tuple[str, ...], marker: str | None
) -> None:
    for name in names:
        (tmp_path / name).touch()
    found = read_marker(tmp_path, MATRIX.signals)
    assert (found.id if found else None) == marker


def test_the_folder_is_the_one_that_the_log_names(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoint-5").mkdir(parents=True)
    hits = scan(b"Saving model checkpoint to out/checkpoint-5\n").matches["phase:save"]
    (note,) = checkpoint_note(hits, tmp_path, MATRIX.signals)
    assert note.startswith("checkpoint-5: checkpoint-N exists, no weights in it; died while")
    assert checkpoint_note(hits, tmp_path / "elsewhere", MATRIX.signals) == ()
