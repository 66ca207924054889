"""What changed between two runs: command, configuration, environment, machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.facts.sentences import say
from envguard.supervise.run_record import RunRecord, list_records, load_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from envguard.facts.facts import Facts


# Packages whose change explains most, shown before the others.
_FIRST = ("python", "torch", "deepspeed", "transformers", "accelerate", "peft", "trl", "numpy")
_MOST = 14
_MOST_RECORDS = 400  # looked through, from the newest: each takes some milliseconds


def last_that_worked(root: Path, run: RunRecord) -> RunRecord | None:
    """The newest record of the same job that ended well, older than a run.

    Args:
        root: Folder of the records.
        run: The run to compare with; its script, or else its program, names the job.
    """
    older = [folder for folder in list_records(root) if folder.name < run.folder.name]
    for folder in older[: -_MOST_RECORDS - 1 : -1]:
        try:
            record = load_record(folder, with_samples=False)
        except DocumentError:
            continue
        if record.worked and job_of(record.command) == job_of(run.command):
            return record
    return None


def job_of(command: tuple[str, ...]) -> str:
    """What a command is about: its script or module, else its program."""
    words = [word.partition("=")[2] or word for word in command]
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    if scripts:
        return scripts[0]
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    return command[0].rpartition("/")[2] if command else ""


def shorten(changes: tuple[str, ...]) -> tuple[str, ...]:
    """The changes that a reader can take in, and how many there are besides."""
    if len(changes) <= _MOST:
        return changes
    return (*changes[: _MOST - 1], say("and {count} more changes", count=len(changes) - _MOST + 1))


def compare_runs(old: RunRecord, new: RunRecord) -> tuple[str, ...]:
    """The differences, one line each: ``torch 2.6.0 -> 2.7.0``.

    Args:
        old: The run that worked.
        new: The run that did not.
    """
    return tuple(_differences(old, new))


def _differences(old: RunRecord, new: RunRecord) -> Iterator[str]:
    if old.command != new.command:
        yield say("command: {old} -> {new}", old=" ".join(old.command), new=" ".join(new.command))
    yield from _of_maps("", old.files, new.files, is_hash=True)
    yield from _of_maps("", _machine(old.facts), _machine(new.facts))
    yield from _of_maps("variable ", _steady(old.variables), _steady(new.variables))
    packages = list(_of_maps("", _distributions(old.facts), _distributions(new.facts)))
    yield from sorted(packages, key=lambda line: line.partition(":")[0] not in _FIRST)


def _of_maps(
    what: str, old: Mapping[str, str], new: Mapping[str, str], *, is_hash: bool = False
) -> Iterator[str]:
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if is_hash:
            how = "was edited" if before and after else ("is new" if after else "is not named now")
            yield f"{name} {how}"
        else:
            yield f"{what}{name}: {before or '(none)'} -> {after or '(none)'}"


# Variables that differ from run to run without meaning anything.
_OF_EACH_RUN = (
    "SLURM_JOB",
    "SLURM_STEP",
    "SLURM_TASK",
    "SLURM_SRUN",
    "SLURM_LAUNCH",
    "MASTER_PORT",
)


def _steady(variables: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in variables.items() if not k.startswith(_OF_EACH_RUN)}


def _distributions(facts: Facts) -> dict[str, str]:
    environment = facts.environment
    if environment is None:
        return {}
    found = {d.name: str(d.version) for d in environment.distributions or ()}
    interpreter = environment.interpreter
    if interpreter is not None and interpreter.version is not None:
        found["python"] = str(interpreter.version)
    if environment.torch is not None and environment.torch.version is not None:
        found["torch"] = str(environment.torch.version)
    return found


def _machine(facts: Facts) -> dict[str, str]:
    machine = facts.machine
    pairs = {
        "interpreter": _interpreter(facts),
        "driver": machine.driver.version,
        "kernel": machine.host.kernel,
        "GPUs": ", ".join(gpu.name or "?" for gpu in machine.gpus or ()),
        "memory": _gib(machine.limits.ram_bytes),
        "memory limit of the container": _gib(machine.limits.cgroup_bytes),
        "size of /dev/shm": _gib(machine.limits.shm_bytes),
        "container": machine.host.container.value if machine.host.container else None,
    }
    return {name: str(value) for name, value in pairs.items() if value}


def _interpreter(facts: Facts) -> str | None:
    environment = facts.environment
    return environment.interpreter.executable if environment and environment.interpreter else None


def _gib(value: int | None) -> str | None:
    return None if value is None else f"{value / 2**30:.1f} GiB"
