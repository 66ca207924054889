"""Whether importing a package loads one of its modules, read off its Python files.

Asked only for a module that would not load: an import inside ``try`` or inside a function belongs
to something optional (a back end, a codec), and the package works without it.
"""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from envguard.facts.binary import Loading

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_FILES = 20_000
_MOST_BYTES = 4 * 1024 * 1024
_CATCHES = frozenset(
    {"ImportError", "OSError", "Exception", "BaseException", "ModuleNotFoundError"}
)
_ORDER = (Loading.IMPORT, Loading.GUARDED, Loading.LAZY)


class Place(NamedTuple):
    """How a module is loaded, and the line that says so (``folder/file.py:12``)."""

    loading: Loading
    line: str | None = None


def find_loading(package: str, module: str) -> Place:
    """How a package loads one of its extension modules.

    Args:
        package: Folder of the top-level package.
        module: Path of the module below it.

    Returns:
        The most binding import statement found; UNKNOWN when no statement names the module, as
        with operator libraries, whose file names are put together at run time.
    """
    stem = module.rpartition("/")[2].partition(".")[0]
    found: dict[Loading, str] = {}
    for path in _python_files(package):
        text = _text(path)
        if stem.encode() in text and b"import" in text:
            for loading, line in _imports_of(text, stem):
                name = os.path.relpath(path, os.path.dirname(package))  # noqa: PTH120 - text paths
                found.setdefault(loading, f"{name}:{line}")
        if Loading.IMPORT in found:
            break
    return next(
        (Place(kind, found[kind]) for kind in _ORDER if kind in found), Place(Loading.UNKNOWN)
    )


def _python_files(package: str) -> Iterator[str]:
    left = _MOST_FILES
    for folder, names, files in os.walk(package):
        names[:] = sorted(name for name in names if name not in {"__pycache__", "tests", "test"})
        for name in sorted(files):
            left -= 1
            if left < 0:
                return
            if name.endswith(".py"):
                yield f"{folder}/{name}"


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a text path
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def _imports_of(text: bytes, stem: str) -> Iterator[tuple[Loading, int]]:
    """Every import statement of a module in one file, with how binding it is."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    word = re.compile(rf"(?:.*\.)?{re.escape(stem)}(?:\..*)?")
    pending: list[tuple[ast.AST, Loading]] = [(tree, Loading.IMPORT)]
    while pending:
        node, loading = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            if _names(node, word):
                yield loading, node.lineno
            continue
        pending.extend(
            (child, _inside(node, child, loading)) for child in ast.iter_child_nodes(node)
        )


def _names(node: ast.Import | ast.ImportFrom, word: re.Pattern[str]) -> bool:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        names.append(node.module)
    return any(word.fullmatch(name) for name in names)


def _inside(node: ast.AST, child: ast.AST, loading: Loading) -> Loading:
    """How binding a statement inside another one is."""
    if loading is Loading.LAZY or isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    ):
        return Loading.LAZY
    if isinstance(node, ast.If) and child in node.body and _is_typing_only(node):
        return Loading.LAZY
    if isinstance(node, ast.Try) and child in node.body and any(map(_catches, node.handlers)):
        return Loading.GUARDED
    return loading


def _is_typing_only(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.dump(node.test)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler swallows a failed import; one that raises again does not."""
    if any(isinstance(inner, ast.Raise) for inner in ast.walk(handler)):
        return False
    return handler.type is None or any(
        isinstance(name, ast.Name) and name.id in _CATCHES for name in ast.walk(handler.type)
    )
