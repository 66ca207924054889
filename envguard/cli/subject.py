"""From options to facts: this machine, a file, or what is stated, and which overrules which."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.facts import Facts
from envguard.facts.sentences import say
from envguard.ingest.report_part import fill_facts
from envguard.ingest.stated import StatedMachine, apply_stated, parse_stated, stated_facts
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envguard.cli.options import MachineOptions
    from envguard.facts.environment import Environment
    from envguard.matrix.loader import Matrix
    from envguard.probe import PendingFacts


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged, remarks on how it came together, and the file that it is, if it is one."""

    facts: Facts
    notes: tuple[str, ...] = ()
    file: str = ""


# Variables of neighbours that state a fact about the machine -> the option they stand for.
_NEIGHBOURS = {
    "UV_CUDA_DRIVER_VERSION": "driver",
    "CONDA_OVERRIDE_CUDA": "cuda_driver",
    "CONDA_OVERRIDE_CUDA_ARCH": "compute_capability",
    "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "cuda_driver",
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "compute_capability",
}


def read_stated(options: MachineOptions) -> StatedMachine:
    """Parse the machine options."""
    return parse_stated(
        gpu=options.gpu,
        compute_capability=options.compute_capability,
        driver=options.driver,
        cuda_driver=options.cuda_driver,
        nvcc=options.nvcc,
        platform=options.platform,
        glibc=options.glibc,
        python_version=options.python_version,
        ram=options.ram,
    )


def overlay_neighbours(
    facts: Facts, stated: StatedMachine, environ: Mapping[str, str]
) -> tuple[Facts, tuple[str, ...]]:
    """Honour neighbours' variables on this machine, where no option states the same.

    Raises:
        InputError: A variable holds something else than its meaning.
    """
    notes: list[str] = []
    for name, option in _NEIGHBOURS.items():
        text = environ.get(name, "").strip()
        if not text or _is_stated(stated, option):
            continue
        try:
            facts, _ = apply_stated(facts, _stated_by_variable(option, text))
        except InputError as err:
            raise InputError(f"{name}={text!r}: {err.message.partition(': ')[2]}") from err
        notes.append(
            say(
                "{option} {text} is taken from {source}",
                option=option.replace("_", " "),
                text=text,
                source=name,
            )
        )
    return facts, tuple(notes)


def _is_stated(stated: StatedMachine, option: str) -> bool:
    values = {
        "driver": stated.driver,
        "cuda_driver": stated.cuda_driver,
        "compute_capability": stated.capabilities,
    }
    return bool(values[option])


def _stated_by_variable(option: str, text: str) -> StatedMachine:
    match option:
        case "driver":
            return parse_stated(driver=text)
        case "cuda_driver":
            return parse_stated(cuda_driver=text)
        case _:
            number = text.lower().removeprefix("sm_")
            dotted = number if "." in number else f"{number[:-1]}.{number[-1:]}"
            return parse_stated(compute_capability=[dotted])


def live_facts(python: str | None, *, all_sources: bool = False) -> Facts:
    """Probe this machine and an interpreter on it."""
    from envguard.probe import ProbeOptions, probe_facts

    return probe_facts(python, options=ProbeOptions(all_sources=all_sources))


def read_compiled(facts: Facts) -> Facts:
    """Read the compiled files of a live environment, without running them."""
    environment = facts.environment
    interpreter = environment.interpreter if environment is not None else None
    if environment is None or interpreter is None or not interpreter.sys_path:
        return facts
    from envguard.binary.cache import cache_folder
    from envguard.binary.environment import read_environment

    location = environment.torch.location if environment.torch is not None else None
    compiled = read_environment(
        _package_folders(environment),
        Path(location) if location else None,
        os.environ,
        cache_folder(os.environ),
        executable=Path(interpreter.executable) if interpreter.executable else None,
    )
    return replace(facts, compiled=compiled)


def _absolute(entries: Iterable[str]) -> Iterator[Path]:
    """Entries of ``sys.path`` as folders; without a working directory no relative one is any."""
    for entry in filter(None, entries):
        with contextlib.suppress(OSError):
            yield Path(entry).absolute()


def _package_folders(environment: Environment) -> tuple[Path, ...]:
    """The folders of ``sys.path`` that hold distributions, in its order: no standard library."""
    homes = set(_absolute(d.location or "" for d in environment.distributions or ()))
    path = environment.interpreter.sys_path if environment.interpreter is not None else ()
    return tuple(folder for folder in _absolute(path) if folder in homes)


def check_gpu_names(stated: StatedMachine, matrix: Matrix) -> None:
    """Refuse a stated GPU name that the tables do not know.

    Raises:
        InputError: With the nearest known names as hint.
    """
    for name in stated.gpus:
        if stated.capabilities or matrix.gpus.find(name):
            continue
        near = ", ".join(matrix.gpus.suggest(name))
        hint = f"did you mean: {near}? or " if near else ""
        raise InputError(
            f"--gpu: no GPU named {name!r} is known",
            hint=f"{hint}state --compute-capability beside it",
        )


def read_subject(
    words: Sequence[str],
    *,
    source: str | None,
    python: str | None,
    options: MachineOptions,
    matrix: Matrix,
    is_strict: bool = True,
    is_deep: bool = False,
    pending: PendingFacts | None = None,
    told: Facts | None = None,
) -> Subject:
    """Put the one subject of a command together.

    Args:
        words: Pins, or a file.
        source: ``--from``: a file, or ``-`` for standard input.
        python: ``--python``: another interpreter on this machine.
        options: Machine options.
        matrix: For the names of GPUs.
        is_strict: Refuse a GPU name that the tables do not know; else it is a gap.
        is_deep: Also read the compiled files of a live environment.
        pending: This machine, where its reading was begun before.
        told: What the log of a run says of the machine that ran it.

    Raises:
        InputError: Contradicting options, several files, or something that cannot be read.
    """
    found = read_subjects(
        words,
        source=source,
        python=python,
        options=options,
        matrix=matrix,
        is_strict=is_strict,
        is_deep=is_deep,
        pending=pending,
        told=told,
    )
    if len(found) > 1:
        files = ", ".join(one.file for one in found)
        raise InputError(f"one lockfile at a time, not {len(found)}: {files}")
    return found[0]


def read_subjects(
    words: Sequence[str],
    *,
    source: str | None,
    python: str | None,
    options: MachineOptions,
    matrix: Matrix,
    is_strict: bool = True,
    is_deep: bool = False,
    pending: PendingFacts | None = None,
    told: Facts | None = None,
) -> tuple[Subject, ...]:
    """Put the subjects of a command together: each file that it names, on the same machine.

    Args:
        words: Pins and files; the pins are laid over each file.
        source: As for :func:`read_subject`, and so are the others.
        python: Likewise.
        options: Likewise.
        matrix: Likewise.
        is_strict: Likewise.
        is_deep: Likewise.
        pending: Likewise.
        told: Likewise.

    Returns:
        One a file, in their order; one where no file is named.

    Raises:
        InputError: Contradicting options, or something that cannot be read.
    """
    stated = read_stated(options)
    if is_strict:
        check_gpu_names(stated, matrix)
    if source is not None and python is not None:
        raise InputError("--from and --python exclude each other: one subject at a time")
    _check_one_machine(source, python, options, stated)
    facts, notes = _base_facts(source, python, options, stated, pending, told)
    is_live = source is None and not options.machine and not stated.is_other_machine
    if is_deep and is_live and not words:
        facts = read_compiled(facts)
    if not words:
        return (Subject(facts, notes),)
    from envguard.cli.inputs import is_lockfile

    is_python_stated = bool(python or options.python_version or source or options.machine)
    files = list(dict.fromkeys(word for word in words if is_lockfile(word)))
    pins = [word for word in words if word not in files]
    base = Subject(facts, notes)
    return tuple(
        _with_words(base, file, pins, is_python_stated=is_python_stated) for file in files or [""]
    )


def _check_one_machine(
    source: str | None, python: str | None, options: MachineOptions, stated: StatedMachine
) -> None:
    """Refuse options that describe two machines.

    Raises:
        InputError: One of them would be passed over in silence.
    """
    if source is not None and options.machine:
        raise InputError("--from and --machine exclude each other: one machine at a time")
    if python is not None and source is None and not options.machine and stated.is_other_machine:
        raise InputError(
            "--python names an interpreter of this machine; --gpu, --compute-capability and "
            "--platform describe another one",
            hint="`envguard probe --python PATH -o FILE`, then --from FILE with these options",
        )


def _base_facts(
    source: str | None,
    python: str | None,
    options: MachineOptions,
    stated: StatedMachine,
    pending: PendingFacts | None,
    told: Facts | None,
) -> tuple[Facts, tuple[str, ...]]:
    if source is not None:
        facts, notes = apply_stated(fill_facts(read_source(source), told), stated)
        name = "standard input" if source == "-" else source
        return facts, (say("facts are read from {source}", source=name), *notes)
    if options.machine:
        return _machine_file(options.machine, python, stated)
    if told is not None and python is None:
        return apply_stated(told, stated)
    if stated.is_other_machine:
        return stated_facts(stated)
    found = live_facts(python) if pending is None else pending.collect()
    return lay_stated(found, stated, is_python_named=python is not None)


def lay_stated(
    found: Facts, stated: StatedMachine, *, is_python_named: bool = False
) -> tuple[Facts, tuple[str, ...]]:
    """Lay what is stated, and neighbours' variables, over this machine.

    Where this machine has no NVIDIA driver, a stated one is another machine's: nothing but what
    is stated is known of that.

    Args:
        found: This machine as it was read.
        stated: What the options say.
        is_python_named: The environment was asked for, whatever machine it shall run on.

    Returns:
        The facts, and one remark for each that was overruled or taken from a variable.
    """
    machine = found.machine
    known = (machine.driver.version, machine.driver.cuda, machine.driver.is_loaded, machine.gpus)
    if (stated.driver or stated.cuda_driver) and not any(known):
        return stated_facts(stated, found.environment if is_python_named else None)
    facts, overruled = apply_stated(found, stated)
    facts, notes = overlay_neighbours(facts, stated, os.environ)
    return facts, (*overruled, *notes)


def _machine_file(
    paths: Sequence[Path], python: str | None, stated: StatedMachine
) -> tuple[Facts, tuple[str, ...]]:
    if len(paths) > 1:
        raise InputError("--machine: check judges one machine; `envguard lock` takes several")
    if python is not None:
        raise InputError("--machine and --python exclude each other: the file is another machine")
    return apply_stated(read_source(str(paths[0])), stated)


def read_source(source: str) -> Facts:
    """Read ``--from``: a file or standard input, told apart by content."""
    from envguard.cli.inputs import read_facts

    return read_facts(source)


def _with_words(
    base: Subject, file: str, pins: Sequence[str], *, is_python_stated: bool
) -> Subject:
    """A file, if one is named, takes the environment's place, pins are laid over it."""
    from envguard.cli.inputs import lay_lockfile
    from envguard.ingest.stated_pins import add_pins

    facts, notes = base.facts, base.notes
    if file:
        facts, remarks = lay_lockfile(facts, file, is_python_stated=is_python_stated)
        notes = (*notes, *remarks)
    if pins:
        facts = replace(facts, environment=add_pins(facts.environment, pins))
    return Subject(facts, notes, file)
