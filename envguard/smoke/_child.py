# Runs inside the inspected interpreter: standard library and torch only, Python 3.8 syntax,
# no envguard import. Its answer is JSON lines in the side file named by its argument and not
# on stdout: torch and what it loads print there, and a line per stage survives a crash.
"""Run the asked stages one after another and write down each beginning and end."""

import faulthandler
import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from typing import Any, Callable, Dict, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_MESSAGE = 8000
MAX_FRAMES = 8
SIBLINGS = ("_device_child", "_reference_child", "_parallel_child", "_deepspeed_child")


def load_sibling(name: str) -> Any:
    """Load a file of this folder without putting the folder on the module search path."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name + ".py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def leave_own_folder() -> None:
    """Take this file's folder off ``sys.path``: its modules must not shadow anything."""
    if sys.path and os.path.abspath(sys.path[0] or ".") == HERE:
        del sys.path[0]


def forbid_core_dumps() -> None:
    """A crash here is a result; it must not leave gigabytes of core file behind."""
    try:
        import resource
    except ImportError:  # Windows
        return
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def be_the_first_to_go() -> None:
    """Where memory runs out, the kernel shall end this test and not somebody's training."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # not Linux, or not permitted


class Memory:
    """Resident memory of this process, in bytes; None where the system does not say."""

    def now(self) -> Optional[int]:
        """What is resident now."""
        return self._status("VmRSS:")

    def __init__(self) -> None:
        self._highest = 0

    def begin(self) -> None:
        """Forget the peak so far; where the system does not allow that, peaks never fall."""
        self._highest = 0
        self._reset_peak()

    def peak(self) -> Optional[int]:
        """The highest since ``begin``, or since the start."""
        found = self._system_peak()
        return None if found is None else max(found, self._highest)

    def cost(self, action: Callable[[], Any]) -> Tuple[Any, Optional[int]]:
        """What an action returns, and by how much it raised resident memory at most.

        None where the system cannot forget an older and higher peak.
        """
        self._highest = self.peak() or 0
        is_reset, before = self._reset_peak(), self.now()
        result = action()
        after = self._system_peak()
        if not is_reset or before is None or after is None:
            return result, None
        return result, max(0, after - before)

    def _reset_peak(self) -> bool:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            return False  # not Linux, or not permitted: the peak is then that of the whole life
        return True

    def _system_peak(self) -> Optional[int]:
        found = self._status("VmHWM:")
        if found is not None:
            return found
        try:
            import resource
        except ImportError:  # Windows
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def _status(self, key: str) -> Optional[int]:
        try:
            with open("/proc/self/status", "rb") as file:
                lines = file.read().decode("ascii", "replace").splitlines()
        except OSError:
            return None
        found = [line.split() for line in lines if line.startswith(key)]
        return int(found[0][1]) * 1024 if found else None


class Progress:
    """The side file: one JSON document a line, each written by one system call."""

    def __init__(self, path: str) -> None:
        binary = getattr(os, "O_BINARY", 0)  # Windows
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | binary, 0o600)

    def write(self, record: Dict[str, Any]) -> None:
        """Append one record."""
        os.write(self.fd, json.dumps(record).encode("ascii") + b"\n")


def is_machinery(path: str) -> bool:
    """Whether a frame is the import system's or this child's own: it tells a reader nothing."""
    return (
        path.startswith("<frozen importlib")
        or os.path.dirname(path) == HERE
        or path == importlib.__file__
    )


def describe_error(err: BaseException) -> Dict[str, Any]:
    """What a stage raised: kind, type, message and the last frames, innermost last."""
    frames = traceback.extract_tb(err.__traceback__)
    shown = [frame for frame in frames if not is_machinery(frame.filename)]
    kind = getattr(err, "smoke_kind", "exception")
    if not shown and isinstance(err, AttributeError):  # a stage uses what this torch lacks
        shown = list(frames)
    try:
        message = str(err)
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide the error
        message = "(its text cannot be printed)"
    return {
        "kind": kind,
        "type": getattr(err, "smoke_type", type(err).__name__),
        "message": message[:MAX_MESSAGE],
        "module": getattr(err, "name", None) if isinstance(err, ImportError) else None,
        "frames": [
            "%s:%s in %s" % (frame.filename, frame.lineno, frame.name)
            for frame in shown[-MAX_FRAMES:]
        ],
        "faults": getattr(err, "smoke_faults", ""),  # of a process that the stage started
    }


def measure(stage: Any, run: Any, memory: Memory) -> Dict[str, Any]:
    """Run one stage; whatever it raises is its result."""
    memory.begin()
    started = time.monotonic()
    outcome: Dict[str, Any] = {"status": "ok"}
    try:
        outcome["details"] = stage(run) or {}
        run.synchronize()  # a kernel's error belongs to the stage that launched it
    except BaseException as err:  # noqa: BLE001 - SystemExit raised by a library counts too
        outcome = {"status": "fail", "error": describe_error(err)}
        if outcome["error"]["kind"] == "skip":
            outcome = {"status": "skip", "reason": outcome["error"]["message"]}
    outcome["seconds"] = round(time.monotonic() - started, 6)
    outcome["rss_peak_bytes"] = memory.peak()
    return outcome


def run_stages(plan: Dict[str, Any], progress: Progress, faults: Any) -> Any:
    """Run the stages whose needs were met; the others are written down as not reached.

    Returns the ``Run``, which may have something left to close.
    """
    for name in SIBLINGS:
        load_sibling(name)
    library = load_sibling("_stages_child")
    memory = Memory()
    run = library.Run(plan["device"], plan["scratch"], importlib.import_module, memory)
    unmet: Dict[str, str] = {}
    for item in plan["stages"]:
        name = item["id"]
        missing = [need for need in item["needs"] if need in unmet]
        if missing:
            unmet[name] = missing[0]
            reason = "needs " + missing[0]
            progress.write(
                {"event": "end", "stage": name, "status": "not-reached", "reason": reason}
            )
            continue
        progress.write({"event": "begin", "stage": name, "rss_bytes": memory.now()})
        run.begin(name, item["limit_s"], progress.write)
        # exit=True: an orphan of a killed envguard ends by itself as well
        faulthandler.dump_traceback_later(item["limit_s"], file=faults, exit=True)
        outcome = measure(library.STAGES[name], run, memory)
        faulthandler.cancel_dump_traceback_later()
        if outcome["status"] == "fail":
            unmet[name] = name
        progress.write(dict(outcome, event="end", stage=name, device=run.device))
    return run


def main(plan_text: str) -> None:
    """Entry point; the plan is JSON, made by ``envguard.smoke.smoke_run``."""
    leave_own_folder()
    forbid_core_dumps()
    be_the_first_to_go()
    plan = json.loads(plan_text)
    progress = Progress(plan["progress"])
    faults = os.open(plan["faults"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    faulthandler.enable(file=faults)
    python = ".".join(str(part) for part in sys.version_info[:3])
    progress.write({"event": "start", "python": python, "pid": os.getpid()})
    run = run_stages(plan, progress, faults)
    # How the interpreter ends is a stage too; its result is the exit status.
    progress.write({"event": "begin", "stage": "shutdown", "rss_bytes": Memory().now()})
    faulthandler.dump_traceback_later(plan["shutdown_limit_s"], file=faults, exit=True)
    run.close()


if __name__ == "__main__":
    main(sys.argv[1])
