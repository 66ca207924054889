"""Whether importing a package loads one of its modules, read off its Python files."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING, NamedTuple

from envguard.facts.binary import Loading
from envguard.files import read_beginning
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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


_MOST_FILES, _MOST_PARSED = 20_000, 150
_MOST_BYTES = 4 * 1024 * 1024
_NOT_LOADED = frozenset({"__pycache__", "tests", "test", "testing", "benchmarks", "examples"})


class ImportSite(NamedTuple):
    """How a module is loaded, and the line that says so (``folder/file.py:12``)."""

    loading: Loading
    line: str | None = None


def find_loading(site: str, packages: Iterable[str], module: str) -> ImportSite:
    """How importing the packages of one distribution loads one of its extension modules.

    Import statements are followed from the packages' own ``__init__.py``, as Python would run
    them. What stands behind a ``try`` that survives a failure is guarded; what stands in functions,
    or in files that the packages do not import by themselves, is lazy.

    Args:
        site: Folder that holds the packages.
        packages: Their names.
        module: Path of the extension module.

    Returns:
        UNKNOWN when no import statement names the module, as with operator libraries, whose file
        names are put together at run time.
    """
    names, dotted = tuple(packages), _dotted(site, module)
    statements = list(_statements(site, names, dotted))
    plain = [s for s in statements if not s.context.is_guarded]
    if any(not statement.context.is_deferred for statement in plain):
        place = _Walk(site, dotted).place(names)
        if place is not None:
            return place
    if plain:
        return ImportSite(Loading.LAZY, plain[0].line)
    return (
        ImportSite(Loading.GUARDED, statements[0].line)
        if statements
        else ImportSite(Loading.UNKNOWN)
    )


def _dotted(site: str, module: str) -> str:
    folder, _, base = module.removeprefix(f"{site}/").rpartition("/")
    return ".".join(filter(None, (*folder.split("/"), base.partition(".")[0])))


class _Walk:
    """Follows import statements to one module.

    Args:
        site: Folder that holds the packages.
        goal: Dotted name of the module.
    """

    def __init__(self, site: str, goal: str) -> None:
        self._site = site
        self._goal = goal
        self._seen: set[str] = set()
        self._guarded: list[str] = []
        self._guarded_line: str | None = None
        self._left = _MOST_PARSED

    def place(self, packages: Iterable[str]) -> ImportSite | None:
        """What is reached without a guard counts first; None when the module is not reached."""
        line = self._follow(list(packages))
        if line is not None:
            return ImportSite(Loading.IMPORT, line)
        line = self._guarded_line or self._follow(self._guarded)
        return None if line is None else ImportSite(Loading.GUARDED, line)

    def _follow(self, pending: list[str]) -> str | None:
        """The line that loads the module, among those that run when some modules are imported."""
        while pending:
            for statement in self._imports(pending.pop()):
                if statement.context.is_deferred:
                    continue
                is_guarded = statement.context.is_guarded
                if statement.loads(self._goal):
                    if not is_guarded:
                        return statement.line
                    self._guarded_line = self._guarded_line or statement.line
                (self._guarded if is_guarded else pending).extend(statement.names)
        return None

    def _imports(self, dotted: str) -> Iterator[Import]:
        """The statements that importing a module runs, those of the packages above it too."""
        parts = dotted.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            path = None if name in self._seen else _file_of(self._site, name)
            self._seen.add(name)
            if path is not None and self._left > 0:
                self._left -= 1
                yield from _parse(self._site, path, name)


def _file_of(site: str, dotted: str) -> str | None:
    base = f"{site}/{dotted.replace('.', '/')}"
    places = (f"{base}/__init__.py", f"{base}.py")
    return next((place for place in places if os.path.isfile(place)), None)  # noqa: PTH113 - text


def _parse(site: str, path: str, dotted: str) -> Iterator[Import]:
    label = path.removeprefix(f"{site}/")
    is_package = path.endswith("/__init__.py")
    return imports_of(_text(path), dotted, is_package=is_package, label=label)


def _statements(site: str, packages: tuple[str, ...], goal: str) -> Iterator[Import]:
    """Every statement that loads a module, in any file of the packages."""
    stem = goal.rpartition(".")[2].encode()
    for package in packages:
        for path in _python_files(f"{site}/{package}"):
            if stem in _text(path):
                dotted = path.removeprefix(f"{site}/").removesuffix(".py").removesuffix("/__init__")
                statements = _parse(site, path, dotted.replace("/", "."))
                yield from (s for s in statements if s.loads(goal))


def _python_files(package: str) -> Iterator[str]:
    left = _MOST_FILES
    for folder, names, files in os.walk(package):
        names[:] = sorted(name for name in names if name not in _NOT_LOADED)
        for name in sorted(files):
            left -= 1
            if left < 0:
                return
            if name.endswith(".py"):
                yield f"{folder}/{name}"


def _text(path: str) -> bytes:
    try:
        return read_beginning(path, _MOST_BYTES)
    except OSError:
        return b""
