"""The import statements of one Python file: what each loads, and whether it may fail."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_CATCHES = frozenset(
    {"ImportError", "OSError", "Exception", "BaseException", "ModuleNotFoundError"}
)


class Context(NamedTuple):
    """What a statement stands in.

    Args:
        is_guarded: A ``try`` around it survives a failed import.
        is_deferred: It runs when a function is called, not when the file is imported.
    """

    is_guarded: bool = False
    is_deferred: bool = False


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement.

    Args:
        names: Dotted names that it may load: of ``from a import b`` both ``a`` and ``a.b``.
        context: What it stands in.
        line: ``package/file.py:12``.
    """

    names: tuple[str, ...]
    context: Context
    line: str

    def loads(self, module: str) -> bool:
        """Whether it loads a module."""
        return any(name == module or name.startswith(f"{module}.") for name in self.names)


def imports_of(text: bytes, module: str, *, is_package: bool, label: str) -> Iterator[Import]:
    """The import statements of a file, in no order.

    Args:
        text: Whole file; one that Python cannot parse has none.
        module: Its dotted name, for relative imports.
        is_package: It is an ``__init__.py``.
        label: How to name the file in :attr:`Import.line`.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    package = module if is_package else module.rpartition(".")[0]
    pending: list[tuple[ast.AST, Context]] = [(tree, Context())]
    while pending:
        node, context = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield Import(tuple(_names(node, package)), context, f"{label}:{node.lineno}")
        elif isinstance(node, ast.stmt | ast.Module | ast.ExceptHandler | ast.match_case):
            pending.extend((c, _inside(node, c, context)) for c in ast.iter_child_nodes(node))


def _names(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        above = parts[: len(parts) - node.level + 1]
        base = ".".join(filter(None, (*above, base)))
    yield base
    yield from (f"{base}.{alias.name}" for alias in node.names)


def _inside(node: ast.AST, child: ast.AST, context: Context) -> Context:
    """The context of a statement inside another one."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return context._replace(is_deferred=True)
        case ast.If(test=test, body=body) if child in body and "TYPE_CHECKING" in ast.dump(test):
            return context._replace(is_deferred=True, is_guarded=True)
        case ast.Try(body=body, handlers=handlers) if child in body:
            return context._replace(is_guarded=context.is_guarded or any(map(_catches, handlers)))
        case _:
            return context


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler swallows a failed import; one that raises again does not."""
    if any(isinstance(inner, ast.Raise) for inner in ast.walk(handler)):
        return False
    return handler.type is None or any(
        isinstance(name, ast.Name) and name.id in _CATCHES for name in ast.walk(handler.type)
    )
