"""``[tool.envguard]`` in pyproject.toml: defaults for any long option."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.errors import InputError
from envguard.files import is_file, read_bounded
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_MOST_BYTES = 16 * 1024 * 1024
_KINDS = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}


@dataclass(frozen=True, slots=True)
class Option:
    """A long option of a command, as a key of the table may name it.

    Args:
        key: Without the dashes: ``fail-on``.
        parameter: What the command calls it.
        kind: ``bool``, ``int``, ``float`` or ``str``.
        is_repeatable: It takes several values.
        choices: The words it takes; empty for any.
        is_negative: ``--no-deep``: true means that the parameter is false.
    """

    key: str
    parameter: str
    kind: type
    is_repeatable: bool = False
    choices: tuple[str, ...] = ()
    is_negative: bool = False


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults for one command.

    Args:
        path: The file they stand in; None where there is none.
        values: Parameter of the command, and value.
        keys: The options they are for, without dashes.
    """

    path: Path | None = None
    values: tuple[tuple[str, Any], ...] = ()
    keys: frozenset[str] = frozenset()


def read_defaults(
    command: str,
    options: Iterable[Option],
    everyones: Callable[[], Mapping[str, frozenset[str]]],
    folder: Path | None = None,
) -> Defaults:
    """Read the defaults for one command from the nearest pyproject.toml.

    Keys are names of long options without the dashes (``torch-index = "..."``); a table named
    after a command (``[tool.envguard.check]``) holds defaults for that command only.

    Args:
        command: Name of the command.
        options: The command's.
        everyones: The keys of every command; called where a key is none of this one's.
        folder: Where to start looking; the working directory when None.

    Raises:
        InputError: The file is not TOML, a key names no option, or its value has another type.
    """
    path = _nearest(folder)
    table = _table(path) if path is not None else {}
    if path is None or not table:
        return Defaults()
    known = {option.key: option for option in options}
    values: dict[str, Any] = {}
    keys: set[str] = set()
    for place, key, value in _entries(table, command, path, everyones):
        option = known.get(key)
        if option is None:
            _check_is_others(place, key, command, everyones)
            continue
        values[option.parameter] = _converted(option, value, place)
        keys.add(key)
    return Defaults(path, tuple(values.items()), frozenset(keys))


def _entries(
    table: Mapping[str, Any],
    command: str,
    path: Path,
    everyones: Callable[[], Mapping[str, frozenset[str]]],
) -> Sequence[tuple[str, str, Any]]:
    """Place, key and value of every entry that concerns a command; its own table comes last."""
    general, own = [], []
    for name, value in table.items():
        place = f"{path}: tool.envguard.{name}"
        if name == command and not isinstance(value, dict):
            raise InputError(f"{place} is not a table")
        if not isinstance(value, dict):
            general.append((place, name.replace("_", "-"), value))
        elif name == command:
            own = [(f"{place}.{k}", k.replace("_", "-"), v) for k, v in value.items()]
        elif name not in everyones():
            raise InputError(f"{place} is a table, and no command is named {name}")
    return (*general, *own)


def _check_is_others(
    place: str, key: str, command: str, everyones: Callable[[], Mapping[str, frozenset[str]]]
) -> None:
    if f".{command}." in place:
        raise InputError(f"{place}: {command} has no option --{key}")
    if not any(key in keys for keys in everyones().values()):
        raise InputError(f"{place}: no command has an option --{key}")


def _converted(option: Option, value: object, place: str) -> object:
    if option.is_repeatable:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise InputError(f"{place}: expected a list of strings, found {_kind(value)}")
        return items
    is_number = option.kind is float and type(value) is int
    if type(value) is not option.kind and not is_number:
        raise InputError(f"{place}: expected {_KINDS[option.kind]}, found {_kind(value)}")
    if option.choices and value not in option.choices:
        raise InputError(f"{place}: {value!r} is none of {', '.join(option.choices)}")
    return not value if option.is_negative else value


def _kind(value: object) -> str:
    match value:
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return _KINDS.get(type(value), "a date or time")


def _nearest(folder: Path | None) -> Path | None:
    try:
        start = folder or Path.cwd()
    except OSError:  # the working directory is gone
        return None
    for candidate in (start, *start.parents):
        path = candidate / "pyproject.toml"
        if is_file(path):
            return path
    return None


def _table(path: Path) -> dict[str, Any]:
    raw = read_bounded(path, _MOST_BYTES)
    if b"envguard" not in raw:  # the common case costs no parse
        return {}
    import tomllib

    try:
        document = tomllib.loads(raw.decode())
    except RecursionError as err:
        raise InputError(f"{path}: not valid TOML: nested too deeply") from err
    except ValueError as err:  # TOMLDecodeError, no UTF-8, or more digits than Python reads
        raise InputError(f"{path}: not valid TOML: {err}") from err
    tool = document.get("tool", {})
    table = tool.get("envguard", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise InputError(f"{path}: tool.envguard is not a table")
    return table
