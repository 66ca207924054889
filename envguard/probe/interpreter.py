"""An interpreter and what is installed in it, read in that interpreter."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from envguard.errors import InputError
from envguard.facts.environment import (
    Environment,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.facts.variables import printable
from envguard.probe.child import Child, ChildResult
from envguard.probe.description import PROBE, parse_description

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.probe.probe_options import ProbeOptions

_OLDEST = (3, 8)
# Works on Python 3.4 too, so that an old interpreter can say which it is. The scripts are read
# here because -I keeps their folder, and every other one but the standard library's, off the path.
_BOOTSTRAP = """\
import sys
if sys.version_info < (3, 8):
    sys.stdout.write('\\n{"envguard": 1, "too_old": "%d.%d.%d"}\\n' % sys.version_info[:3])
else:
    names = [{"__name__": script} for script in sys.argv[1:3]]
    for script, inner in zip(sys.argv[1:3], names):
        exec(compile(open(script, "rb").read(), script, "exec"), inner)
    names[1]["main"](names[0]["find_path"], int(sys.argv[3]))
"""
# Python 2 knows no -I; that it is Python 2 is all that has to be known of it.
_NO_ISOLATION = "Unknown option: -I"
_VERSION = re.compile(r"^Python (\d{1,4}(?:\.\d{1,4}){1,2})\s", re.MULTILINE)


def locate_python(python: str, options: ProbeOptions) -> str:
    """Find the interpreter that a person named.

    Args:
        python: A path, a virtual environment's folder, or a program name on PATH.
        options: For PATH.

    Raises:
        InputError: There is no such file, or it cannot be executed.
    """
    try:
        path = _find_python(Path(python), python, options)
    except (OSError, ValueError) as err:  # a folder that may not be searched, an endless name
        reason = (getattr(err, "strerror", None) or str(err)).lower()
        raise InputError(f"--python: {python!r} cannot be found: {reason}") from err
    if not os.access(path, os.X_OK):
        raise InputError(f"--python: {python!r} is not executable")
    return str(path.absolute())


def _find_python(path: Path, python: str, options: ProbeOptions) -> Path:
    if python and path.is_dir():
        places = (path / "bin" / "python", path / "Scripts" / "python.exe", path / "python.exe")
        found = next((place for place in places if place.exists()), None)
        if found is None:
            raise InputError(f"--python: folder {python!r} holds no bin/python")
        return found
    if python and path.exists():
        return path
    program = options.which(python) if os.sep not in python else None
    if not program:
        raise InputError(f"--python: {python!r} does not exist")
    return Path(program)


def is_running(python: str) -> bool:
    """Whether a path is the interpreter that runs envguard: the same file in the same folder.

    A virtual environment's python is a link to its base: the same file, another environment.
    """
    ours, theirs = Path(sys.executable).absolute(), Path(python).absolute()
    if ours == theirs:
        return True
    try:
        return ours.parent == theirs.parent and ours.samefile(theirs)
    except OSError:
        return False


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
    if python is None:
        environment, gaps = probe_running()
        marked = mark_active(environment, options.environ)
        return lambda: (marked, gaps)
    path = locate_python(python, options)
    if is_running(path):
        description = probe_running()
        return lambda: description
    child = start_interpreter(path, options)
    return lambda: collect_interpreter(child, python, path, options)


def start_interpreter(python: str, options: ProbeOptions) -> Child:
    """Start describing an interpreter; :func:`collect_interpreter` takes the answer.

    It runs nothing of its environment: isolated and without ``site``, it imports its standard
    library alone, and works out the path of its imports from text.
    """
    here = Path(__file__)
    scripts = [str(here.with_name(name)) for name in ("_path_child.py", "_child.py")]
    argv = [python, "-B", "-I", "-S", "-c", _BOOTSTRAP, *scripts, str(options.memory_bytes)]
    return Child(argv, environ=_environ(options), timeout_s=options.timeout_s)


def _environ(options: ProbeOptions) -> dict[str, str]:
    return {k: v for k, v in options.environ.items() if k != "__PYVENV_LAUNCHER__"}


def probe_running() -> tuple[Environment, tuple[Gap, ...]]:
    """Describe the interpreter that runs envguard, in this process."""
    from envguard.probe import _child

    # The folder of the entry point or, with -m, the current one: neither is the subject's.
    own = {"", *_absolute("."), *_absolute(str(Path(sys.argv[0]).parent))}
    path = sys.path[1:] if sys.path[:1] and sys.path[0] in own else sys.path
    return parse_description(_child.describe(list(path)))


def _absolute(folder: str) -> tuple[str, ...]:
    """A folder as ``sys.path`` names it; nothing where the working directory is gone."""
    try:
        return (str(Path(folder).absolute()),)
    except OSError:
        return ()


def mark_active(environment: Environment, environ: Mapping[str, str]) -> Environment:
    """Say whether an environment is the one that a shell has activated.

    A base environment of conda is active in many shells whose programs live elsewhere; it says
    nothing.

    Args:
        environment: Of an interpreter that was not asked for by name.
        environ: Variables of the process.
    """
    interpreter = environment.interpreter
    in_base = environ.get("CONDA_DEFAULT_ENV") == "base"
    named = environ.get("VIRTUAL_ENV") or ("" if in_base else environ.get("CONDA_PREFIX"))
    if not named or interpreter is None or interpreter.prefix is None:
        return environment
    is_active = _is_same_folder(named, interpreter.prefix)
    return replace(environment, interpreter=replace(interpreter, is_active=is_active))


def _is_same_folder(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


def collect_interpreter(
    child: Child, python: str, path: str, options: ProbeOptions
) -> tuple[Environment, tuple[Gap, ...]]:
    """Wait for the child and read its answer.

    Args:
        child: From :func:`start_interpreter`.
        python: What the person named, for messages.
        path: Where it lies.
        options: As for :func:`start_interpreter`.

    Raises:
        InputError: The program is no Python interpreter, or one too old to be inspected.
    """
    result = child.collect()
    if _NO_ISOLATION in result.stderr:
        _refuse_old(python, _old_version(path, options))
    answer = _answer(result.stdout)
    if answer is None:
        return Environment(), (_no_answer(result, python),)
    if "too_old" in answer:
        _refuse_old(python, str(answer["too_old"]))
    try:
        return parse_description(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise InputError(
            f"--python: {python!r} is not a Python interpreter (its description has no "
            f"usable {str(err)[:60]})"
        ) from err


def _refuse_old(python: str, version: str) -> NoReturn:
    oldest = ".".join(map(str, _OLDEST))
    raise InputError(
        f"--python: {python!r} is Python {version}; envguard inspects {oldest} and newer"
    )


def _old_version(path: str, options: ProbeOptions) -> str:
    """What an interpreter prints as its version, which runs nothing."""
    child = Child([path, "-E", "-S", "-V"], environ=_environ(options), timeout_s=options.timeout_s)
    result = child.collect()
    found = _VERSION.search(f"{result.stdout}\n{result.stderr}")
    return found.group(1) if found else "2"


def _answer(text: str) -> dict[str, Any] | None:
    """The last JSON object that is ours; a wrapper of the interpreter may print too."""
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
        return Gap(
            fact, result.reason, PROBE, say("{python}: {detail}", python=name, detail=result.detail)
        )
    words = result.last_words
    if result.status == 0 or not _speaks_python(result):
        said = f" (it said: {words[:120]})" if words else f" (it ended with {result.status})"
        raise InputError(f"--python: {python!r} is not a Python interpreter{said}")
    return Gap(
        fact,
        GapReason.UNREADABLE,
        PROBE,
        say("{python} {ending}", python=name, ending=result.ending),
    )


def _speaks_python(result: ChildResult) -> bool:
    return any(word in result.stderr for word in ("Traceback", "Python", "SyntaxError"))
