"""Whatever fails on envguard's own side: the command runs, its output and its status go through."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from envguard.signatures import SearchPattern
from envguard.supervise.output_search import OutputSearch
from envguard.supervise.run_record import list_records, load_record
from tests.stubs.compile import build_library, compiler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# tmpfs, prlimit, /proc and setpriv make the faults for real; other systems have none of them.
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the faults are made with Linux's means"
)

PYTHON = sys.executable
LONG_S = 120
NOBODY = 65534
# A child reaches its parent, envguard, with these.
OF_PARENT = """
import os, resource, signal, sys, time
import psutil
parent = os.getppid()
def limit(name, size):
    kind = getattr(resource, name)
    resource.prlimit(parent, kind, (size, resource.prlimit(parent, kind)[1]))
def others():
    return [p for p in psutil.Process(parent).children() if p.pid != os.getpid()]
"""


def argv(*command: str, options: Sequence[str] = ()) -> list[str]:
    return [PYTHON, "-m", "envguard", "run", "--no-probe", *options, "--", *command]


def run(folder: Path, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    options = more.pop("options", ())
    more = {"capture_output": True, "cwd": folder, **more}
    return subprocess.run(
        argv(*command, options=options), text=True, timeout=LONG_S, check=False, **more
    )


def run_python(folder: Path, code: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return run(folder, PYTHON, "-c", OF_PARENT + code, **more)


def in_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which RUN stands for envguard."""
    text = line.replace("RUN", shlex.join([PYTHON, "-m", "envguard", "run", "--no-probe"]))
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


def own_lines(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("envguard run: ")]


def end_of(folder: Path) -> dict[str, Any]:
    end = load_record(list_records(folder / ".envguard" / "runs")[-1]).end
    assert end is not None
    return dict(end)


# ---------------------------------------------------------------- a disk that is full


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


FILL = """
def fill():
    with open("filled", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
"""


def test_a_disk_that_fills_up_and_has_room_again_ends_the_record_and_not_the_job(
    mount: Path,
) -> None:
    code = FILL + (
        "print('step 1', flush=True)\n"
        "try: fill()\n"
        "except OSError: pass\n"
        "for n in range(40): print('x' * 1000, flush=True); time.sleep(0.02)\n"
        "os.remove('filled')\n"
        "print('done', flush=True)\n"
    )
    done = run_python(mount, code)
    assert done.returncode == 0
    assert done.stdout == "step 1\n" + ("x" * 1000 + "\n") * 40 + "done\n"
    assert own_lines(done.stderr)[1:] == [
        "envguard run: the record stopped: No space left on device"
    ]
    assert end_of(mount)["lost"] == {"the record stopped": "No space left on device"}


def test_a_save_that_the_disk_does_not_take_is_named(mount: Path) -> None:
    done = run_python(mount, FILL + "print('step 1', flush=True); time.sleep(1); fill()")
    assert done.returncode == 1
    assert "disk-full" in done.stderr
    assert "the record stopped: No space left on device" in done.stderr
    assert not list(mount.rglob("*.unfinished"))


def test_a_disk_that_is_full_before_the_start(mount: Path) -> None:
    with (mount / "filled").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as err:
            assert err.strerror == "No space left on device"  # noqa: PT017 - how the disk is filled
    done = run(mount, "sh", "-c", "echo out; echo CUDA out of memory >&2; exit 5")
    assert (done.returncode, done.stdout) == (5, "out\n")
    assert "the record stopped: No space left on device" in done.stderr
    assert "The program ended with exit status 5" in done.stderr


def test_a_folder_that_is_read_only(mount: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
    done = run(mount, "sh", "-c", "echo out; exit 5")
    assert (done.returncode, done.stdout) == (5, "out\n")
    assert "no record" in done.stderr
    assert "Read-only file system" in own_lines(done.stderr)[-1]


def test_a_folder_of_records_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    done = run(tmp_path, "sh", "-c", "exit 5", options=["--record", "f/runs", "-q"])
    assert done.returncode == 5
    assert own_lines(done.stderr) == [
        "envguard run: the record stopped: f/runs: cannot be written: Not a directory"
    ]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    line = 'mkdir gone; cd gone; rmdir "$PWD"; RUN -- sh -c "echo out; exit 5"'
    done = in_shell(tmp_path, line)
    assert (done.returncode, done.stdout) == (5, "out\n")


# ---------------------------------------------------------------- closed and broken streams


@pytest.mark.parametrize(
    "closed",
    ["<&-", ">&-", "2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full"],
)
def test_streams_that_are_closed_or_full(tmp_path: Path, closed: str) -> None:
    # ls opens a descriptor itself: it is shown without the standard ones where they are closed.
    line = 'sh -c "ls -l /proc/self/fd > fds{0}; echo out; exit 7" {1}'
    plain = in_shell(tmp_path, line.format(1, closed))
    ours = in_shell(tmp_path, "RUN -- " + line.format(2, closed))
    assert (plain.returncode, ours.returncode) == (7, 7)
    assert plain.stdout == ours.stdout
    first, second = ((tmp_path / f"fds{n}").read_text() for n in (1, 2))
    numbers = [re.findall(r" (\d+) ->", text) for text in (first, second)]
    assert numbers[0] == numbers[1]
    assert ".envguard" not in second


def test_a_reader_of_stderr_that_is_gone_does_not_change_the_status(tmp_path: Path) -> None:
    done = in_shell(tmp_path, "RUN -- sh -c 'exit 7' 2> >(exec true); echo $?")
    assert done.stdout == "7\n"


# ---------------------------------------------------------------- handles, processes, memory


@pytest.mark.parametrize("handles", [8, 10, 12, 14, 16, 18, 20, 24])
def test_too_few_handles(tmp_path: Path, handles: int) -> None:
    done = in_shell(tmp_path, f"ulimit -n {handles}; RUN -- sh -c 'echo out; exit 7' | cat; "
                    "exit ${PIPESTATUS[0]}")  # fmt: skip
    assert (done.returncode, done.stdout) == (7, "out\n")


def test_no_handle_is_free_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    code = (
        "limit('RLIMIT_NOFILE', 0)\n"
        "for n in range(30): print('line', n, flush=True); time.sleep(0.1)\n"
        "sys.exit(7)\n"
    )
    done = run_python(tmp_path, code)
    assert done.returncode == 7
    assert done.stdout == "".join(f"line {n}\n" for n in range(30))
    assert "Too many open files" in own_lines(done.stderr)[-1]
    assert "Traceback" not in done.stderr


def test_too_little_memory_is_left_to_compare_runs(tmp_path: Path) -> None:
    done = with_memory_left(tmp_path, 32 * 2**20)
    assert "The program ended with exit status 7" in done.stderr
    assert own_lines(done.stderr) == ["envguard run: earlier runs were not compared: MemoryError"]


def test_no_memory_is_left_for_the_diagnosis(tmp_path: Path) -> None:
    """What the interpreter holds already may do for one or another part; what does not is told."""
    done = with_memory_left(tmp_path, 0)
    assert "earlier runs were not compared: MemoryError" in own_lines(done.stderr)[-1]
    is_made = "The program ended with exit status 7" in done.stderr
    assert is_made != ("no diagnosis: MemoryError" in own_lines(done.stderr)[-1])
    assert "Traceback" not in done.stderr


def with_memory_left(folder: Path, left_bytes: int) -> subprocess.CompletedProcess[str]:
    """A run beside a large record, whose supervisor gets no more than so much memory at its end."""
    assert run(folder, "sh", "-c", "exit 0").returncode == 0
    start = list_records(folder / ".envguard" / "runs")[0] / "run.json"
    document = {**json.loads(start.read_text()), "padding": "x" * 40_000_000}
    start.write_text(json.dumps(document))
    size = f"psutil.Process(parent).memory_info().vms + {left_bytes}"
    done = run_python(folder, f"print('out', flush=True); limit('RLIMIT_AS', {size}); sys.exit(7)")
    assert (done.returncode, done.stdout) == (7, "out\n")
    return done


def test_a_limit_on_the_size_of_files_ends_the_record(tmp_path: Path) -> None:
    code = "limit('RLIMIT_FSIZE', 0); print('out', flush=True); sys.exit(7)"
    done = run_python(tmp_path, code)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "the record stopped: File too large" in own_lines(done.stderr)[-1]


# Another user, who may read everything: it is about what that user makes, and the interpreter of
# the tests often lies where nobody else gets.
AS_NOBODY = (
    f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "
    "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search --"
).split()


def as_nobody(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AS_NOBODY, *words],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that two users write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    can = os.geteuid() == 0 and shutil.which("setpriv") is not None
    if not can or as_nobody(folder, PYTHON, "-c", "import envguard").returncode:
        shutil.rmtree(folder)
        pytest.skip("only root, with setpriv, can be two users")
    yield folder
    shutil.rmtree(folder)


def test_no_process_is_left(shared: Path) -> None:
    line = f"ulimit -u 0; exec {shlex.join(argv('sh', '-c', 'echo $0; exit 7', 'out'))}"
    done = as_nobody(shared, "bash", "-c", line)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "runs without me" in done.stderr


# ---------------------------------------------------------------- neighbours and other users


def test_neighbours_that_do_not_decode(tmp_path: Path) -> None:
    run(tmp_path, "sh", "-c", "exit 0")
    place = list_records(tmp_path / ".envguard" / "runs")[0]
    deep = "[" * 50_000
    with (place / "samples.jsonl.0").open("a") as file:
        file.write(f"{deep}\n")
    assert load_record(place).memory.samples > 0
    texts = (deep, "{", "[]", '{"kind": "run", "command": 5}', '{"kind": "run", "variables": 5}')
    for number, text in enumerate(texts):
        for name in ("run.json", "end.json"):
            copy = Path(f"{place}-{number}-{name[0]}")
            shutil.copytree(place, copy)
            (copy / name).write_text(text)
    done = run(tmp_path, "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert own_lines(done.stderr) == []
    assert f"changed since run {place.name}, which worked" in done.stderr


def test_a_neighbour_that_never_ends(tmp_path: Path) -> None:
    run(tmp_path, "sh", "-c", "exit 0")
    runs = tmp_path / ".envguard" / "runs"
    place = list_records(runs)[0]
    (place / "samples.jsonl.0").unlink()
    os.mkfifo(place / "samples.jsonl.0")
    os.mkfifo(place / "output.log.1")
    (runs / "00000000-000000-1").mkdir()
    os.mkfifo(runs / "00000000-000000-1" / "run.json")
    assert run(tmp_path, "sh", "-c", "exit 7").returncode == 7
    assert load_record(place).worked


def modes(folder: Path) -> set[tuple[str, str]]:
    return {
        ("folder" if path.is_dir() else "file", oct(stat.S_IMODE(path.stat().st_mode)))
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize("mask", ["000", "022", "077", "777"])
def test_a_record_is_for_its_owner_only_whatever_the_umask(tmp_path: Path, mask: str) -> None:
    (tmp_path / "c.json").write_text("{}")
    (tmp_path / ".envguard" / "runs").mkdir(parents=True)
    code = "import envguard, sys; envguard.phase('save'); sys.exit(7)"
    words = shlex.join([PYTHON, "-c", code, "c.json"])
    assert in_shell(tmp_path, f"umask {mask}; RUN -- {words}").returncode == 7
    place = list_records(tmp_path / ".envguard" / "runs")[0]
    assert modes(place) == {("folder", "0o700"), ("file", "0o600")}
    assert load_record(place).phase == "save"


def test_two_users_share_a_folder_of_records(shared: Path) -> None:
    runs = shared / ".envguard" / "runs"
    runs.mkdir(parents=True)
    runs.chmod(0o777)
    assert run(shared, "sh", "-c", "exit 0").returncode == 0
    done = as_nobody(shared, *argv("sh", "-c", "exit 7"))
    assert done.returncode == 7
    assert own_lines(done.stderr) == []
    assert [path.stat().st_uid for path in list_records(runs)] == [0, NOBODY]
    assert run(shared, "sh", "-c", "exit 7").returncode == 7


def test_a_folder_of_another_user_is_not_written(shared: Path) -> None:
    (shared / ".envguard" / "runs").mkdir(parents=True)
    done = as_nobody(shared, *argv("sh", "-c", "echo out; exit 7"))
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "Permission denied" in own_lines(done.stderr)[-1]


@pytest.mark.parametrize("name", [".envguard", ".envguard/runs"])
def test_a_link_that_another_user_put_there_is_not_followed(shared: Path, name: str) -> None:
    (shared / "secret").mkdir()
    (shared / name).parent.mkdir(exist_ok=True)
    (shared / name).symlink_to(shared / "secret")
    os.chown(shared / name, NOBODY, NOBODY, follow_symlinks=False)
    done = run(shared, "sh", "-c", "exit 7", options=["-q"])
    assert done.returncode == 7
    assert own_lines(done.stderr)[-1].endswith("is a link of another user")
    assert list((shared / "secret").rglob("*")) == []


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".envguard").symlink_to(tmp_path / "elsewhere")
    assert run(tmp_path, "sh", "-c", "exit 7").returncode == 7
    assert len(list_records(tmp_path / "elsewhere" / "runs")) == 1


# ---------------------------------------------------------------- the clock


def test_a_clock_that_is_set_back_while_it_runs(tmp_path: Path, stub_libraries: Path) -> None:
    if compiler() is None:
        pytest.skip("the clock is set back by a library that is compiled here")
    clock = build_library("clock.c", stub_libraries / "clock.so")
    back = tmp_path / "set-back"
    environ = {**os.environ, "LD_PRELOAD": str(clock), "STUB_CLOCK_SET_BACK": str(back)}
    code = "print(time.time()); open('set-back', 'w'); time.sleep(1.5); print(time.time())"
    done = run_python(tmp_path, code, env=environ)
    before, after = map(float, done.stdout.split())
    assert after < before  # the stub does what it is for
    run(tmp_path, PYTHON, "-c", "import sys; sys.exit(7)", env=environ)
    names = [path.name for path in list_records(tmp_path / ".envguard" / "runs")]
    first, second = (load_record(tmp_path / ".envguard" / "runs" / name) for name in names)
    assert (first.worked, second.worked) == (True, False)
    assert first.end is not None
    assert 1 < first.end["seconds"] < LONG_S
    assert first.memory.samples > 2


# ---------------------------------------------------------------- the search


def test_a_search_that_stands_still_holds_nothing_up(tmp_path: Path) -> None:
    code = (
        "for process in others(): process.suspend()\n"
        "sys.stdout.write(('x' * 99 + '\\n') * 200_000)\n"
    )
    done = run_python(tmp_path, code)
    assert done.returncode == 0
    assert done.stdout == ("x" * 99 + "\n") * 200_000
    end = end_of(tmp_path)
    assert end["unsearched_bytes"] > 10_000_000
    assert "the output was not searched to its end" in own_lines(done.stderr)[-1]


def test_a_search_that_is_killed_is_said(tmp_path: Path) -> None:
    code = "for process in others(): process.kill()\nprint('out'); sys.exit(7)"
    done = run_python(tmp_path, code)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "the output was not searched to its end" in own_lines(done.stderr)[-1]


def test_a_pattern_that_never_comes_to_its_end_is_left(tmp_path: Path) -> None:
    slow = SearchPattern("slow", "(?:a+)+$", (b"aaaa",))
    found = SearchPattern("found", "NCCL WARN", (b"NCCL WARN",))
    search = OutputSearch([slow, found])
    search.feed(b"a" * 60 + b"!\n" + b"NCCL WARN one\n")
    search.feed(b"NCCL WARN two\n")
    log = search.finish(LONG_S)
    assert [hit.line for hit in log.matches["found"]] == [3]
    assert "not searched" in log.notes[0]
    assert log.lines == 3
    assert search.failure == ""
    assert not [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]


def test_the_search_of_a_log_that_is_hard_to_search_ends_after_the_job(tmp_path: Path) -> None:
    hostile = "".join(".so" * 1365 + f"{n}\n" for n in range(250))
    (tmp_path / "x.log").write_text(hostile)
    done = run(tmp_path, "cat", "x.log", options=["-q"])
    assert (done.returncode, done.stdout, done.stderr) == (0, hostile, "")


# ---------------------------------------------------------------- the rest


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text('echo "$1 $0"; exit 7\n')
    script.chmod(0o755)
    plain = subprocess.run(
        ["env", "./train", "a b"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    done = run(tmp_path, "./train", "a b")
    assert (done.returncode, done.stdout) == (7, "a b ./train\n")
    assert (plain.returncode, plain.stdout) == (done.returncode, done.stdout)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run(tmp_path, "train", "a b", env=environ).stdout == f"a b {script}\n"


@pytest.mark.parametrize("is_bound", [True, False])
def test_the_command_dies_with_envguard_where_that_is_asked_for(
    tmp_path: Path, is_bound: bool
) -> None:
    code = "print(os.getpid(), flush=True); time.sleep(300)"
    options = ["--die-with-parent"] * is_bound
    words = argv(PYTHON, "-c", OF_PARENT + code, options=options)
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout is not None
        job = psutil.Process(int(ours.stdout.readline()))
        ours.kill()
        ours.wait(LONG_S)
        if is_bound:
            job.wait(LONG_S)
        else:
            with pytest.raises(psutil.TimeoutExpired):
                job.wait(1)
            job.kill()


def test_what_is_left_behind_goes_on_printing(tmp_path: Path) -> None:
    code = "(sleep 2; echo late; echo too >&2) & echo now; exit 7"
    with subprocess.Popen(
        argv("sh", "-c", code, options=["-q"]),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == "now\n"
        assert ours.wait(LONG_S) == 7
        assert ours.communicate(timeout=LONG_S) == ("late\n", "too\n")


def test_a_file_that_grows_faster_than_it_is_read(tmp_path: Path) -> None:
    code = (
        "sys.stdout.write(('x' * 99 + '\\n') * 600_000); sys.stdout.flush()\n"
        "print('torch.OutOfMemoryError: CUDA out of memory.'); sys.exit(7)\n"
    )
    with (tmp_path / "log").open("w") as log:
        done = run_python(tmp_path, code, capture_output=False, stdout=log, stderr=subprocess.PIPE)
    assert done.returncode == 7
    assert (tmp_path / "log").stat().st_size > 60_000_000
    assert "CUDA out of memory" in done.stderr
    assert end_of(tmp_path)["lost"] == {}


def test_own_lines_carry_no_escapes(tmp_path: Path) -> None:
    done = run(tmp_path, "./\x1b[31mx\x9b\x7f")
    assert done.returncode == 127
    assert done.stderr == "envguard run: ./?[31mx??: command not found\n"
    code = "import envguard, time; envguard.phase('\\x1b[31m'); time.sleep(1)"
    done = run(tmp_path, PYTHON, "-c", code)
    assert "\x1b" not in done.stderr


def test_an_interrupt_while_it_is_diagnosed_keeps_the_status(tmp_path: Path) -> None:
    """The search is stopped by the job, so that envguard waits for it when the job has ended."""
    code = "for process in others(): process.suspend()\nprint('out', flush=True); sys.exit(7)"
    words = argv(PYTHON, "-c", OF_PARENT + code)
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as ours:
        process = psutil.Process(ours.pid)
        until = time.monotonic() + LONG_S
        while time.monotonic() < until and not _is_past_the_job(process):
            time.sleep(0.02)
        ours.send_signal(signal.SIGUSR1)  # some schedulers send it to all processes of a job
        ours.terminate()
        _, stderr = ours.communicate(timeout=LONG_S)
    assert ours.returncode == 7
    assert "interrupted" in own_lines(stderr)[-1]
    assert json.loads(next(tmp_path.rglob("end.json")).read_text())["status"] == 7


def _is_past_the_job(process: psutil.Process) -> bool:
    """Whether only the search is left, which the job stopped, and signals are held no more."""
    states = [child.status() for child in process.children()]
    text = Path(f"/proc/{process.pid}/status").read_text()
    blocked, caught = (
        int(text.partition(name)[2].split()[0], 16) for name in ("SigBlk:", "SigCgt:")
    )
    is_waiting = not blocked and not caught >> (signal.SIGCHLD - 1) & 1
    return states == [psutil.STATUS_STOPPED] and is_waiting


def test_a_search_that_is_behind_does_not_take_back_what_the_program_said(tmp_path: Path) -> None:
    code = (
        "import envguard\n"
        "for process in others(): process.suspend()\n"
        "print(\"{'loss': 0.5, 'grad_norm': 1.0, 'learning_rate': 1e-05}\", flush=True)\n"
        "time.sleep(1); envguard.phase('save'); time.sleep(1)\n"
        "for process in others(): process.resume()\n"
        "time.sleep(1); sys.exit(7)\n"
    )
    assert run_python(tmp_path, code).returncode == 7
    record = load_record(list_records(tmp_path / ".envguard" / "runs")[0])
    assert (record.phase, end_of(tmp_path)["phase"]) == ("save", "save")


def test_the_command_keeps_the_handles_that_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "read.txt").write_text("read\n")
    given = "RUN sh -c 'cat \"$1\" <&7; echo written >&8' - <(echo pipe) 7<read.txt 8>written.txt"
    done = in_shell(tmp_path, given)
    assert (done.returncode, done.stdout) == (0, "pipe\n")
    assert (tmp_path / "written.txt").read_text() == "written\n"


def test_the_command_gets_no_handle_of_ours(tmp_path: Path) -> None:
    shell = "exec 9>&-; for f in /proc/self/fd/*; do echo ${f##*/}; done"
    alone = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert run(tmp_path, "bash", "-c", shell).stdout == alone.stdout


def test_a_lock_is_free_when_the_command_has_ended(tmp_path: Path) -> None:
    line = "(flock 9; RUN true) 9>lock; flock -n lock echo free"
    assert in_shell(tmp_path, line).stdout == "free\n"


def test_the_command_gets_no_variable_that_it_would_not_have(tmp_path: Path) -> None:
    own = {"PATH": os.environ["PATH"]}  # without a locale the interpreter chooses one
    text = run(tmp_path, "env", env=own).stdout
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert names - {"ENVGUARD_PHASE_FILE"} == {"PATH"}


def test_a_search_that_is_hurried_before_it_began_is_not_lost() -> None:
    for _ in range(20):
        search = OutputSearch([])
        search.feed(b"a line\n")
        log = search.finish(0)
        assert (search.failure, log.lines) == ("", 1)
