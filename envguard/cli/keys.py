"""Which keys of ``[tool.envguard]`` are options of which command."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from envguard.cli.defaults import Option

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLAIN = (bool, int, float)


def long_options(command: Any) -> tuple[Option, ...]:
    """The long options of a built command; arguments and ``--help`` are none.

    Args:
        command: What typer made of a function.
    """
    return tuple(option for param in command.params for option in _options_of(param))


def keys_of_commands(commands: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The keys that each built command takes, by its name."""
    return {
        name: frozenset(option.key for option in long_options(command))
        for name, command in commands.items()
    }


def _options_of(param: Any) -> Iterator[Option]:
    descriptor = getattr(param, "type_descriptor", None)
    if param.param_type_name != "option" or descriptor is None or param.name == "help":
        return
    annotation = descriptor.annotation
    kind = annotation if annotation in _PLAIN else str
    choices: tuple[str, ...] = ()
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        choices = tuple(str(member.value) for member in annotation)
    for names, is_negative in ((param.opts, False), (param.secondary_opts, True)):
        for name in names:
            if name.startswith("--"):
                key = name.removeprefix("--")
                yield Option(key, param.name, kind, bool(param.multiple), choices, is_negative)
