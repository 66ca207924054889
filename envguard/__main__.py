"""``python -m envguard`` and the console script: a guard that stands before anything is imported.

An exit status of 1 means "does not fit". An interrupt, an import that fails and a module of the
standard library that PYTHONPATH shadows must not end with it, and they can come before the program
has begun. So this file imports nothing but what the interpreter has loaded when it starts, or has
built in.
"""

import _signal  # type: ignore[import-not-found]  # built in; signal.py loads enum, re and more
import gc
import os
import sys

from envguard._version import DISTRIBUTION, __version__

# As typing.TYPE_CHECKING, without typing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_INTERRUPTED, _FAILED = 130, 4
# New objects that start a search for garbage. What is loaded and read stays until the end:
# Python's own 700 search it dozens of times, which takes longer than some commands do.
_GARBAGE_THRESHOLD = 200_000
_LONGEST = 400
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded
_CURE = (
    f"a distribution named envguard, another project's, has files among those of {DISTRIBUTION}: "
    f"python -m pip uninstall envguard && python -m pip install --force-reinstall {DISTRIBUTION}"
)


def entry() -> None:
    """Run the program and leave with its status."""
    gc.set_threshold(_GARBAGE_THRESHOLD)
    is_heeded = _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN
    if is_heeded:
        _signal.signal(_signal.SIGINT, _leave)
    try:
        if _is_overlaid():
            _say(_CURE)
        from envguard.cli.main import run_program

        status = run_program(_raise_interrupts if is_heeded else _do_nothing)
        if is_heeded:
            _signal.signal(_signal.SIGINT, _leave)
    except KeyboardInterrupt:
        _leave()
    except BaseException as err:  # noqa: BLE001 - a crash or sys.exit of a stranger is no verdict
        _fail(err)
    sys.exit(status)


def foreign_entry() -> None:
    """Where the command that another project installed under our name leads to: to the cure."""
    _say(_CURE)
    sys.exit(_FAILED)


def _leave(_number: int = 0, _frame: "FrameType | None" = None) -> "NoReturn":
    """End at once: nothing was begun, or all was said.

    An exception would be lost where the import of a module or a destructor swallows it.
    """
    _say("interrupted")
    os._exit(_INTERRUPTED)


def _raise_interrupts() -> None:
    """From here on there may be children and files to clean up."""
    sys.unraisablehook = _heed_lost_interrupts
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _heed_lost_interrupts(lost: "sys.UnraisableHookArgs") -> None:
    """An interrupt that came in a callback of an import or a destructor would only be printed."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(lost)


def _do_nothing() -> None:
    pass


def _is_overlaid() -> bool:
    """Whether files of the other project stand among ours, or its metadata beside them.

    Source: the wheel envguard 0.1 (``envguard/__init__.py``, ``cli.py``, ``validator.py``).
    """
    if os.path.exists(f"{_HERE}/cli.py"):  # noqa: PTH110 - pathlib is not loaded
        return True
    try:
        names = os.listdir(os.path.dirname(_HERE))  # noqa: PTH120, PTH208 - likewise
    except OSError:
        return False
    return any(_is_its_metadata(name) for name in names)


def _is_its_metadata(name: str) -> bool:
    is_metadata = name.endswith((".dist-info", ".egg-info"))
    return is_metadata and name.lower().startswith("envguard-")


def _fail(err: BaseException) -> "NoReturn":
    """Say in one line what the program died of before it could say so itself."""
    where = _last_file(err)
    words = f"{type(err).__name__}: {err}" + (f" ({where})" if where else "")
    if os.environ.get("PYTHONPATH") and not where.startswith(_HERE):
        words += "; PYTHONPATH may shadow a module"
    message = f"cannot run: {words}"
    own = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if "--format=json" in own or "--format json" in " ".join(own):
        _write(1, _document(message))
    _say(f"error: {message}")
    os._exit(_FAILED)


def _document(message: str) -> str:
    """What an error looks like in JSON, made by hand: the json module may be what is broken."""
    plain = message.translate({ord('"'): "'", ord("\\"): "/"}).encode("ascii", "replace").decode()
    return (
        f'{{"schema_version": 1, "tool": {{"name": "envguard", "version": "{__version__}"}}, '
        f'"error": {{"message": "{_shown(plain)}", "hint": "", "exit_code": {_FAILED}}}}}'
    )


def _last_file(err: BaseException) -> str:
    """The file that was run when it happened, or that could not be compiled."""
    if isinstance(err, SyntaxError) and err.filename:
        return err.filename
    frame = err.__traceback__
    name = ""
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        frame = frame.tb_next
    return "" if name.startswith("<") else name


def _say(text: str) -> None:
    """One line on stderr, whatever state Python's own streams are in."""
    _write(2, f"envguard: {_shown(text)}")


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:_LONGEST]


def _write(stream: int, line: str) -> None:
    try:
        os.write(stream, f"{line}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody listens


if __name__ == "__main__":
    entry()
