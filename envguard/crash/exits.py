"""How processes ended: statuses in one form, who died first and of what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.sentences import say
from envguard.signatures import SignatureMatch
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.log import Log
    from envguard.matrix.evidence import LauncherRow, SignalsTable


SIGKILL, SIGSEGV, SIGBUS, SIGABRT, SIGTERM = 9, 11, 7, 6, 15
SIGHUP, SIGINT, SIGILL, SIGFPE = 1, 2, 4, 8

# NTSTATUS values that a crashing Windows process exits with, and the signal they stand for.
_WINDOWS = {
    0xC0000005: (SIGSEGV, "STATUS_ACCESS_VIOLATION"),
    0xC0000006: (SIGBUS, "STATUS_IN_PAGE_ERROR"),
    0xC000001D: (SIGILL, "STATUS_ILLEGAL_INSTRUCTION"),
    0xC0000094: (SIGFPE, "STATUS_INTEGER_DIVIDE_BY_ZERO"),
    0xC00000FD: (SIGSEGV, "STATUS_STACK_OVERFLOW"),
    0xC0000374: (SIGABRT, "STATUS_HEAP_CORRUPTION"),
    0xC0000409: (SIGABRT, "STATUS_STACK_BUFFER_OVERRUN"),
    0xC000013A: (SIGINT, "STATUS_CONTROL_C_EXIT"),
}


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended.

    Args:
        stated: The status as it was given.
        signal: Number of the signal that it died of; None for a plain exit.
        name: ``SIGKILL``, or the Windows status; empty for a plain exit.
        means: What the table says about it.
    """

    stated: int
    signal: int | None = None
    name: str = ""
    means: str = ""

    @property
    def is_success(self) -> bool:
        """Exit status 0."""
        return self.signal is None and self.stated == 0

    @property
    def text(self) -> str:
        """For a sentence: ``SIGKILL (137)``, ``exit status 3``."""
        return (
            say("{name} ({status})", name=self.name, status=self.stated)
            if self.name
            else say("exit status {status}", status=self.stated)
        )


def normalise_exit(code: int, table: SignalsTable) -> ExitStatus:
    """Bring an exit status to one form.

    Args:
        code: As a shell (137), Python (-9), DeepSpeed's launcher (247), Kubernetes (137) or
            Windows (0xC0000005, signed or not) states it.
        table: The signals.

    Returns:
        A signal where the status stands for one; 255 stays a plain status, because ``exit(-1)``
        and a lost ssh give it far more often than SIGHUP does.
    """
    unsigned = code & 0xFFFFFFFF
    if unsigned in _WINDOWS:
        number, name = _WINDOWS[unsigned]
        return ExitStatus(code, number, name, "a crash of native code on Windows")
    signal = _signal_of(code, table)
    row = table.signal(signal) if signal is not None else None
    if row is not None:
        return ExitStatus(code, row.number, row.name, row.means)
    plain = table.status(code)
    return ExitStatus(code, means=plain.means if plain else "")


def _signal_of(code: int, table: SignalsTable) -> int | None:
    if code < 0:
        return -code
    if code > 128 and table.signal(code - 128) is not None:
        return code - 128
    for row in table.signals:
        if code == row.unsigned and code != 255:
            return row.number
    return None


def status_of_signal(number: int, table: SignalsTable) -> ExitStatus:
    """The exit status of a process that died of a signal."""
    return normalise_exit(-number, table)


_NAMES = {
    "SIGHUP": SIGHUP,
    "SIGINT": SIGINT,
    "SIGILL": SIGILL,
    "SIGABRT": SIGABRT,
    "SIGBUS": SIGBUS,
    "SIGFPE": SIGFPE,
    "SIGKILL": SIGKILL,
    "SIGSEGV": SIGSEGV,
    "SIGTERM": SIGTERM,
}
_WORDS = {
    "Killed": SIGKILL,
    "Terminated": SIGTERM,
    "Hangup": SIGHUP,
    "segmentation fault": SIGSEGV,
    "floating-point exception": SIGFPE,
    "Segmentation fault": SIGSEGV,
    "Bus error": SIGBUS,
    "Aborted": SIGABRT,
    "Illegal instruction": SIGILL,
    "Floating point exception": SIGFPE,
}
# Commands of training as the kernel names them; it tells of other programs' crashes as well.
_COMMANDS = ("python", "pt_", "ray::", "torchrun", "deepspeed", "accelerate")
_TRAPS = {"invalid opcode": SIGILL, "divide error": SIGFPE, "general protection": SIGSEGV}
# Words of whoever watches over the memory of a container, a job, a unit or a node.
_OUT_OF_MEMORY = (
    "k8s-oomkilled",
    "docker-oom-flag",
    "slurm-oom-event",
    "slurm-srun-oom",
    "batch-memory-limit",
    "systemd-oom",
    "ray-memory-monitor",
)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """One process that ended badly.

    Args:
        status: Of what.
        source: Who says so: ``torchrun``, ``deepspeed``, ``--exit-code`` ...
        rank: Its rank, where the source knows it.
        pid: Its process id, where the source knows it.
        match: The line that says so.
    """

    status: ExitStatus
    source: str
    rank: int | None = None
    pid: int | None = None
    match: SignatureMatch | None = None


def find_process_exits(
    log: Log, exit_code: int | None, table: SignalsTable
) -> tuple[ProcessExit, ...]:
    """Everything that tells how processes ended, the most telling first.

    A launcher that names the first failure is believed before the status that the user states,
    because torchrun and accelerate turn every cause into 1 and DeepSpeed reports the first rank
    that it found dead. Ranks that were stopped with SIGTERM come last: they follow another.

    Args:
        log: The evidence.
        exit_code: What the user states.
        table: The signals.
    """
    found = [*_by_launchers(log, table), *_stated(exit_code, table), *_by_words(log, table)]
    return tuple(sorted(found, key=lambda process_exit: process_exit.status.signal == SIGTERM))


def _stated(exit_code: int | None, table: SignalsTable) -> Iterator[ProcessExit]:
    if exit_code is not None and exit_code not in {0, 1}:
        yield ProcessExit(normalise_exit(exit_code, table), "--exit-code")


def _by_launchers(log: Log, table: SignalsTable) -> Iterator[ProcessExit]:
    for row in table.launchers:
        yield from _first_failure(row, log, table)
    for row in table.launchers:
        for name in row.says_exit:
            yield from (d for hit in log.all(name) for d in _told(hit, row.name, table))


def _first_failure(row: LauncherRow, log: Log, table: SignalsTable) -> Iterator[ProcessExit]:
    """What the last block about the first failure says, whose rank stands in a line of its own."""
    root = log.last(*row.says_root)
    if root is None:
        return
    block = [hit for hit in log.all(*row.says_exit) if hit.order > root.order]
    ranks = [hit.number("rank", "r") for hit in log.all(*row.says_rank) if hit.order > root.order]
    rank = next((number for number in ranks if number is not None), None)
    for hit in block[:1]:
        yield from _told(hit, row.name, table, rank=rank)


def _told(
    hit: SignatureMatch, source: str, table: SignalsTable, *, rank: int | None = None
) -> Iterator[ProcessExit]:
    """The ending that a line tells: as a status, as a signal's number, or by its name."""
    rank = hit.number("rank", "r") if rank is None else rank
    code = hit.number("code")
    number = hit.number("n", "n2", "n3") or _NAMES.get(hit.groups.get("name", ""))
    if code is not None:
        yield ProcessExit(normalise_exit(code, table), source, rank, hit.number("pid"), hit)
    elif number is not None:
        yield ProcessExit(_signal_status(number, table), source, rank, hit.number("pid"), hit)


def _signal_status(number: int, table: SignalsTable) -> ExitStatus:
    return status_of_signal(number, table)


def _by_workers(log: Log, table: SignalsTable) -> Iterator[ProcessExit]:
    """Data loader workers, which their parent tells about in an exception of its own."""
    for hit in log.all("dl-killed", "dl-crash"):
        number = _WORDS.get((hit.groups.get("s") or hit.groups.get("what", "")).strip())
        if number is not None:
            yield ProcessExit(
                _signal_status(number, table), "DataLoader", None, hit.number("pid"), hit
            )


def _by_handlers(log: Log, table: SignalsTable) -> Iterator[ProcessExit]:
    """Debuggers, handlers of signals, the kernel, mpirun and systemd."""
    for hit in log.all("debugger-signal"):
        named = (hit.groups.get(f"name{n}") for n in ("", "2", "3", "4", "5"))
        name = next((text for text in named if text), "SIGSEGV")
        number = hit.number("n") or _NAMES[name]
        yield ProcessExit(_signal_status(number, table), "debugger", None, None, hit)
    for hit in log.all("kernel-segfault", "kernel-trap"):
        if hit.groups["comm"].startswith(_COMMANDS):
            number = _TRAPS.get(hit.groups.get("what", ""), SIGSEGV)
            yield ProcessExit(_signal_status(number, table), "kernel", None, hit.number("pid"), hit)
    for hit in log.all("mpi-signal", "systemd-exit"):
        source = "mpirun" if hit.id == "mpi-signal" else "systemd"
        number = hit.number("n", "n2", "n3") or 0
        yield ProcessExit(_signal_status(number, table), source, None, None, hit)


def _by_words(log: Log, table: SignalsTable) -> Iterator[ProcessExit]:
    yield from _by_handlers(log, table)
    yield from _by_workers(log, table)
    for hit in log.all("caught-signal"):
        yield ProcessExit(
            _signal_status(hit.number("n", "n2") or 0, table), "signal handler", None, None, hit
        )
    for hit in log.all("faulthandler-segv"):
        number = _WORDS.get(hit.groups["what"])
        if number is not None:
            yield ProcessExit(_signal_status(number, table), "faulthandler", hit.rank, None, hit)
    for hit in log.all("shell-death"):
        yield ProcessExit(
            _signal_status(_WORDS[hit.groups["what"]], table), "shell", None, None, hit
        )
    for hit in log.all("return-code-words"):
        code = hit.number("code")
        if code not in {0, 1, None}:
            yield ProcessExit(normalise_exit(int(code or 0), table), "log", None, None, hit)
    if log.has(*_OUT_OF_MEMORY):
        yield ProcessExit(_signal_status(SIGKILL, table), "container or batch system")
    for hit in log.all("kernel-oom-memcg", "kernel-oom-global", "kernel-oom-constraint"):
        yield ProcessExit(_signal_status(SIGKILL, table), "kernel", None, hit.number("pid"), hit)
    for hit in log.all("sigkill-words"):
        if not log.has("deepspeed-killing") or "SIGKILL" in hit.text:
            yield ProcessExit(_signal_status(SIGKILL, table), "log", None, None, hit)


def count_ranks(log: Log, table: SignalsTable) -> int | None:
    """How many ranks ran on this node, as far as the log tells; None when it does not."""
    named = [hit for row in table.launchers for hit in log.all(*row.says_rank, *row.says_stop)]
    stated = [
        number
        for hit in log.all("ranks-words")
        if (number := hit.number("n", "n2", "n3", "n4", "n5", "n6", "n7"))
    ]
    counted = [(hit.number("r") or 0) + 1 for hit in log.all("local-rank-words")]
    counted += [n + 1 for hit in named if (n := hit.number("local", "r")) is not None]
    pids = {hit.groups["pid"] for hit in named if "pid" in hit.groups}
    most = max([*stated, *counted], default=0)
    return max(most, len(pids)) or None
