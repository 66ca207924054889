"""An interpreter and what is installed in it, read in that interpreter."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from envguard.errors import InputError
from envguard.facts.environment import (
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.torch_label import label_of_version
from envguard.facts.variables import printable
from envguard.probe.child import Child, ChildResult
from envguard.probe.torch_file import build_of, parse_version_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.probe.options import ProbeOptions

PROBE = "interpreter"
_OLDEST = (3, 8)
# Works on Python 2 too, so that an old interpreter can say which it is. With -c the first entry
# of sys.path is the current folder, which belongs to no program's imports.
_BOOTSTRAP = """\
import sys
if sys.version_info < (3, 8):
    sys.stdout.write('\\n{"envguard": 1, "too_old": "%d.%d.%d"}\\n' % sys.version_info[:3])
else:
    if sys.path[:1] == [""]: del sys.path[0]
    exec(compile(open(sys.argv[1], "rb").read(), sys.argv[1], "exec"))
"""


def locate_python(python: str, options: ProbeOptions) -> str:
    """Find the interpreter that a person named.

    Args:
        python: A path, a virtual environment's folder, or a program name on PATH.
        options: For PATH.

    Raises:
        InputError: There is no such file, or it cannot be executed.
    """
    path = Path(python)
    if path.is_dir():
        places = (path / "bin" / "python", path / "Scripts" / "python.exe", path / "python.exe")
        path = next((place for place in places if place.exists()), path)
        if path.is_dir():
            raise InputError(f"--python: folder {python!r} holds no bin/python")
    elif not path.exists():
        found = options.which(python)
        if found is None or os.sep in python:
            raise InputError(f"--python: {python!r} does not exist")
        path = Path(found)
    if not os.access(path, os.X_OK):
        raise InputError(f"--python: {python!r} is not executable")
    return str(path.absolute())


def is_running(python: str) -> bool:
    """Whether a path is the interpreter that runs envguard; links are not followed.

    A virtual environment's python is a link to its base: the same file, another environment.
    """
    return str(Path(python).absolute()) == str(Path(sys.executable).absolute())


def start_environment(
    python: str | None, options: ProbeOptions
) -> Callable[[], tuple[Environment, tuple[Gap, ...]]]:
    """Start describing an interpreter.

    Args:
        python: As for :func:`locate_python`; None is the running one, which needs no child.
        options: For PATH, the environment and the time limit.

    Returns:
        What to call for the answer; it may raise InputError as well.

    Raises:
        InputError: There is no such interpreter.
    """
    path = None if python is None else locate_python(python, options)
    if path is None or is_running(path):
        description = probe_running()
        return lambda: description
    child = start_interpreter(path, options)
    return lambda: collect_interpreter(child, python or path)


def start_interpreter(python: str, options: ProbeOptions) -> Child:
    """Start describing an interpreter; :func:`collect_interpreter` takes the answer."""
    script = str(Path(__file__).with_name("_child.py"))
    environ = {k: v for k, v in options.environ.items() if k != "__PYVENV_LAUNCHER__"}
    argv = [python, "-B", "-c", _BOOTSTRAP, script]
    return Child(argv, environ=environ, timeout_s=options.timeout_s)


def probe_running() -> tuple[Environment, tuple[Gap, ...]]:
    """Describe the interpreter that runs envguard, in this process."""
    from envguard.probe import _child

    # The folder of the entry point or, with -m, the current one: neither is the subject's.
    own = {"", str(Path.cwd()), str(Path(sys.argv[0]).absolute().parent)}
    path = sys.path[1:] if sys.path[:1] and sys.path[0] in own else sys.path
    return parse_description(_child.describe(list(path)))


def collect_interpreter(child: Child, python: str) -> tuple[Environment, tuple[Gap, ...]]:
    """Wait for the child and read its answer.

    Args:
        child: From :func:`start_interpreter`.
        python: What the person named, for messages.

    Raises:
        InputError: The program is no Python interpreter, or one too old to be inspected.
    """
    result = child.collect()
    answer = _answer(result.stdout)
    if answer is None:
        return Environment(), (_no_answer(result, python),)
    if "too_old" in answer:
        oldest = ".".join(map(str, _OLDEST))
        raise InputError(
            f"--python: {python!r} is Python {answer['too_old']}; "
            f"envguard inspects {oldest} and newer"
        )
    return parse_description(answer)


def _answer(text: str) -> dict[str, Any] | None:
    """The last JSON object that is ours; start-up files of the interpreter may print too."""
    for line in reversed(text.splitlines()):
        if line.startswith('{"envguard": '):
            try:
                answer = json.loads(line)
            except ValueError:
                return None
            return answer if isinstance(answer, dict) else None
    return None


def _no_answer(result: ChildResult, python: str) -> Gap:
    fact, name = "environment.interpreter", printable(python)
    if result.reason is not None:
        return Gap(fact, result.reason, PROBE, f"{name}: {result.detail}")
    words = result.last_words
    if result.status == 0 or not _speaks_python(result):
        said = f" (it said: {words[:120]})" if words else f" (it ended with {result.status})"
        raise InputError(f"--python: {python!r} is not a Python interpreter{said}")
    return Gap(fact, GapReason.UNREADABLE, PROBE, f"{name} {result.ending}")


def _speaks_python(result: ChildResult) -> bool:
    return any(word in result.stderr for word in ("Traceback", "Python", "SyntaxError"))


def parse_description(answer: dict[str, Any]) -> tuple[Environment, tuple[Gap, ...]]:
    """Turn the child's description into facts.

    Args:
        answer: What ``_child.py`` printed.

    Returns:
        The environment, distributions sorted by name; of several with one name, the one that
        imports take stands first.
    """
    interpreter = Interpreter(
        version=_version_or_none(answer["version"]),
        executable=answer["executable"] or None,
        implementation=answer["implementation"],
        prefix=answer["prefix"],
        is_venv=answer["prefix"] != answer["base_prefix"],
        is_conda=answer["is_conda"],
        is_free_threaded=answer["is_free_threaded"],
        sys_path=tuple(answer["sys_path"]),
    )
    distributions, gaps = _distributions(answer["distributions"])
    gaps += [_problem(reason, detail) for reason, detail in answer["problems"]]
    torch, torch_gaps = _torch(answer["torch"], distributions)
    environment = Environment(interpreter, distributions, torch)
    manager = _manager(environment, is_uv=answer["is_uv"])
    return replace(environment, manager=manager), (*gaps, *torch_gaps)


def _version_or_none(text: object) -> Version | None:
    try:
        return Version(str(text))
    except InvalidVersion:
        return None


def _problem(reason: str, detail: str) -> Gap:
    return Gap("environment.distributions", GapReason(reason), PROBE, detail)


def _distributions(
    records: list[dict[str, Any]],
) -> tuple[tuple[Distribution, ...], list[Gap]]:
    found = []
    gaps = []
    for record in records:
        distribution = _distribution(record)
        found.append(distribution)
        if distribution.version is None:
            fact = f"environment.distributions[{distribution.name}].version"
            detail = f"{record['version']!r} in {record['location']} is not a version"
            gaps.append(Gap(fact, GapReason.UNREADABLE, PROBE, detail))
    unique = dict.fromkeys(found)  # a development install is linked and on sys.path
    return tuple(sorted(unique, key=lambda d: d.name)), gaps


def normalise_name(name: str) -> str:
    """A distribution's name as indexes compare it; packaging.utils takes 15 ms to import.

    Source: PEP 503.
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(record: dict[str, Any]) -> Distribution:
    url = record.get("url")
    return Distribution(
        name=normalise_name(str(record["name"])),
        version=_version_or_none(record["version"]),
        location=record["location"],
        installer=record.get("installer"),
        url=printable(url) if isinstance(url, str) else None,
        is_editable=bool(record.get("is_editable")),
    )


def _torch(
    found: dict[str, Any] | None, distributions: tuple[Distribution, ...]
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    """The build that ``import torch`` takes: its own file first, else the metadata."""
    metadata = next((d for d in distributions if d.name == "torch"), None)
    if found is None:
        return _torch_without_package(metadata)
    location = str(found["location"])
    text = found["version_file"]
    build = build_of(parse_version_file(text), location) if text else None
    if build is not None:
        return build, ()
    what = "a single module" if found.get("is_module") else "a folder without a usable version.py"
    detail = f"{location} is {what}, yet it is what `import torch` takes"
    gap = Gap("environment.torch", GapReason.UNREADABLE, PROBE, detail)
    if metadata is None or not location.startswith(f"{metadata.location}{os.sep}"):
        return None, (gap,)
    return _of_metadata(metadata, location), (gap,)


def _torch_without_package(
    metadata: Distribution | None,
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    if metadata is None:
        detail = "no torch on sys.path"
        return None, (Gap("environment.torch", GapReason.ABSENT, PROBE, detail),)
    detail = f"metadata of torch {metadata.version} in {metadata.location}, but no package torch"
    return None, (Gap("environment.torch", GapReason.MISMATCH, PROBE, detail),)


def _of_metadata(metadata: Distribution, location: str) -> TorchBuild:
    label = label_of_version(metadata.version)
    return TorchBuild(
        version=metadata.version,
        accelerator=label.accelerator,
        cuda=label.cuda,
        origin=BuildOrigin.METADATA,
        location=location,
    )


def _manager(environment: Environment, *, is_uv: bool) -> Manager | None:
    """Who manages the environment: torch's installer, else who made it, else the commonest."""
    torch = environment.distribution("torch")
    names = [torch.installer] if torch and torch.installer else []
    if is_uv:
        names.append("uv")
    installers = [d.installer for d in environment.distributions or () if d.installer]
    names += sorted(set(installers), key=lambda name: (-installers.count(name), name))
    known = {manager.value: manager for manager in Manager}
    found = [known[name] for name in names if name in known]
    if not found and environment.interpreter and environment.interpreter.is_conda:
        return Manager.CONDA
    return found[0] if found else None
