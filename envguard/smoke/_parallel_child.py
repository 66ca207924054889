# Runs inside the inspected interpreter, loaded by _child.py: standard library and torch only,
# Python 3.8 syntax, no envguard import.
"""The stages with a process group: of one rank here, and of several under torchrun."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional, Tuple

from _device_child import (  # type: ignore[import-not-found]  # _child.py registered it
    Run,
    SkipError,
)
from _reference_child import compare  # type: ignore[import-not-found]  # likewise

RANK_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_rank_child.py")
CPU_RANKS = 2
OUTPUT_CAP = 65536
FAULTS_CAP = 20000
# A launcher's variables would make the ranks join somebody else's job.
LAUNCHER_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "ROLE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
)
FAILURE = re.compile(r"\brank\s*:\s*([0-9]+)[^\n]*\n\s*exitcode\s*:\s*(-?[0-9]+)")


class RanksError(Exception):
    """The ranks failed.

    Args:
        message: Which rank, and how.
        kind: In what way, as the parent names it.
        type_name: The signal's name, or the exception's class.
        faults: What faulthandler wrote in that rank.
    """

    def __init__(self, message: str, kind: str, type_name: str = "", faults: str = "") -> None:
        super().__init__(message)
        self.smoke_kind = kind
        self.smoke_type = type_name
        self.smoke_faults = faults


def find_distributed(run: Run) -> Any:
    """``torch.distributed``; a build without it is no failure."""
    distributed = getattr(run.torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise SkipError("this torch is built without torch.distributed")
    return distributed


def backend_of(run: Run) -> str:
    """What serves the device."""
    return "nccl" if run.on_cuda else "gloo"


def start_group(run: Run) -> Any:
    """A process group of this process alone; it needs no network."""
    distributed = find_distributed(run)
    store = distributed.FileStore(os.path.join(run.scratch, "store-" + run.stage), 1)
    distributed.init_process_group(backend_of(run), store=store, rank=0, world_size=1)
    return distributed


def stage_distributed(run: Run) -> Dict[str, Any]:
    """A process group of one and an all-reduce: NCCL on a GPU, gloo on the CPU."""
    run.part("start")
    distributed = start_group(run)
    try:
        run.part("all-reduce")
        tensor = run.tensor([1.0, 2.0, 3.0])
        distributed.all_reduce(tensor)
        compare("an all-reduce of one rank", tensor.tolist(), [1.0, 2.0, 3.0], 0.0)
    finally:
        distributed.destroy_process_group()
    return {"backend": backend_of(run)}


def stage_all_reduce(run: Run) -> Dict[str, Any]:
    """An all-reduce over all GPUs under torchrun; on the CPU over two processes."""
    find_distributed(run)
    ranks = run.torch.cuda.device_count() if run.on_cuda else CPU_RANKS
    if ranks < 2:
        raise SkipError("torch sees one GPU, and an all-reduce takes two")
    limit_s = 0.7 * run.limit_s  # the ranks', then the launcher's, then this stage's
    output, status = run_launcher(run, ranks, limit_s)
    os.write(2, output)
    results = [read_result(run.scratch, rank) for rank in range(ranks)]
    if status != 0:
        raise explain_ranks(run.scratch, results, output.decode("utf-8", "replace"), status)
    expected = ranks * (ranks + 1) / 2
    for rank, result in enumerate(results):
        found = (result or {}).get("sum", [])
        compare("the all-reduce in rank %d" % rank, found, [expected] * 1024, 0.0)
    return {"backend": backend_of(run), "ranks": ranks}


def run_launcher(run: Run, ranks: int, limit_s: float) -> Any:
    """Run the ranks under torchrun: the end of its output, and its status (None: ended here)."""
    environment = {k: v for k, v in os.environ.items() if k not in LAUNCHER_VARIABLES}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-u", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc_per_node=%d" % ranks, RANK_SCRIPT]  # torch before 2.0 knows no hyphens
    command += [run.scratch, backend_of(run), str(limit_s)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    reader = TailReader(process.stdout)
    reader.start()
    try:
        status: Optional[int] = process.wait(0.85 * run.limit_s)
    except subprocess.TimeoutExpired:
        status = None
        end(process, 0.05 * run.limit_s)
    reader.join(1.0)
    return reader.tail, status


def end(process: Any, patience_s: float) -> None:
    """End torchrun gently first: then it ends its ranks, which are in sessions of their own."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()


class TailReader(threading.Thread):
    """Reads a pipe to its end and keeps the last bytes."""

    def __init__(self, source: Any) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.tail = b""

    def run(self) -> None:
        """Read until all writers are gone."""
        while True:
            chunk = os.read(self.source.fileno(), 65536)
            if not chunk:
                return
            self.tail = (self.tail + chunk)[-OUTPUT_CAP:]


def read_text(path: str, cap: int) -> str:
    """The head of a file; empty when there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(cap).decode("utf-8", "replace")
    except OSError:
        return ""


def read_result(scratch: str, rank: int) -> Optional[Dict[str, Any]]:
    """What a rank wrote down; None when it did not get that far."""
    try:
        found = json.loads(read_text(os.path.join(scratch, "rank-%d.json" % rank), 1 << 20))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def explain_ranks(
    scratch: str, results: List[Optional[Dict[str, Any]]], output: str, status: Optional[int]
) -> RanksError:
    """Which rank failed first, and how: from torchrun's summary and the ranks' own files."""
    count = len(results)
    paths = [os.path.join(scratch, "rank-%d.faults" % rank) for rank in range(count)]
    faults = [read_text(path, FAULTS_CAP) for path in paths]
    deaths = [(rank, code) for rank, code in read_failures(output) if rank < count and code < 0]
    if deaths:  # the root stands last in the summary
        rank, code = deaths[-1]
        words = "rank %d of %d died of %s (status %d)" % (rank, count, signal_name(-code), code)
        return RanksError(words, "signal", signal_name(-code), faults[rank])
    errors = [
        (r.get("at", 0.0), k, r["error"]) for k, r in enumerate(results) if r and has_error(r)
    ]
    if errors:
        _, rank, error = min(errors)
        words = "rank %d of %d: %s" % (rank, count, error["message"])
        return RanksError(words, "exception", error["type"])
    waiting = [rank for rank in range(count) if faults[rank].startswith("Timeout (")]
    if waiting:
        words = "rank %s of %d did not end in its time" % (", ".join(map(str, waiting)), count)
        return RanksError(words, "hang", "", faults[waiting[0]])
    if status is None:
        return RanksError("torchrun did not end in its time", "hang")
    words = "torchrun exited with status %d: %s" % (status, last_line(output))
    return RanksError(words, "exit")


def read_failures(output: str) -> List[Tuple[int, int]]:
    """Rank and status of each failure in torchrun's summary, but for ranks that it ended."""
    found = [(int(match.group(1)), int(match.group(2))) for match in FAILURE.finditer(output)]
    return [(rank, code) for rank, code in found if code != -signal.SIGTERM]


def has_error(result: Dict[str, Any]) -> bool:
    """Whether a rank wrote down that it raised."""
    error = result.get("error")
    return isinstance(error, dict) and {"type", "message"} <= set(error)


def signal_name(number: int) -> str:
    """``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def last_line(output: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in output.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else "it said nothing"
