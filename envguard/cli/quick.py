"""Options that were not given cost nothing: their defaults are not converted.

typer builds a converter for every option of a command, whether it was given or not, and imports
pydantic for the first of them: more time than a whole check takes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable


def _process_value(param: Any, convert: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """Convert only what was typed and is not what it has to be already."""
    idle = value is None or value is param.default or _is_ready(param, value)
    if not idle or (param.required and value is None):
        return convert(ctx, value)
    if value is None and (param.nargs == -1 or getattr(param, "multiple", False)):
        value = ()
    return value if param.callback is None else param.callback(ctx, param, value)


def _is_ready(param: Any, value: Any) -> bool:
    descriptor = getattr(param, "type_descriptor", None)
    annotation = getattr(descriptor, "annotation", None)
    if isinstance(value, (list, tuple)):
        is_list = annotation in (list[str], list[str] | None)
        return is_list and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return annotation is bool
    return isinstance(value, str) and annotation in (str, str | None)


def _is_flag(param: Any) -> bool:
    descriptor = getattr(param, "type_descriptor", None)
    return getattr(descriptor, "annotation", None) is bool


class _QuickParams:
    """A command whose parameters, ``--help`` included, are quick."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # the mixed-in class's
        for param in params:
            if "process_value" not in vars(param):
                quick = functools.partial(_process_value, param, param.process_value)
                param.process_value = quick
            if _is_flag(param) and param.metavar is None:
                param.metavar = ""  # newer typers write <bool> behind a flag that takes no value
        return params


class QuickCommand(_QuickParams, TyperCommand):
    """A command."""


class QuickGroup(_QuickParams, TyperGroup):
    """A group of commands."""
