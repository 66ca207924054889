"""Finds the codes and causes that the package's own files and tables use."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"[A-Z]{3}[0-9]{3}")
SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@functools.cache
def package_trees() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the package, with its path."""
    paths = sorted((ROOT / "envguard").rglob("*.py"))
    return tuple((str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths)


def texts(node: ast.AST) -> list[str]:
    """Every text below a node."""
    return [
        item.value
        for item in ast.walk(node)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]


def choices(node: ast.expr | None) -> list[str]:
    """The texts that an expression can be: a constant, or one of a condition's branches."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.IfExp(body=body, orelse=orelse):
            return [*choices(body), *choices(orelse)]
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return [text for item in items for text in choices(item)]
        case ast.Call(func=ast.Name(id="frozenset"), args=[only]):
            return choices(only)
        case ast.Dict(keys=keys):
            return [text for key in keys for text in choices(key)]
        case ast.BoolOp(values=values):
            return [text for value in values for text in choices(value)]
        case _:
            return []


def pairs_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Codes with the causes that stand beside them: arguments, tuples, keywords."""
    for node in ast.walk(tree):
        rows: list[list[ast.expr]] = []
        if isinstance(node, ast.Call):
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            rows = [list(node.args), [*filter(None, (named.get("code"), named.get("cause")))]]
        elif isinstance(node, ast.Tuple):
            rows = [node.elts]
        for before, after in (pair for row in rows for pair in pairwise(row)):
            if isinstance(before, ast.Constant) and CODE.fullmatch(str(before.value)):
                yield from ((str(before.value), cause) for cause in _slugs(after))


def causes_of(tree: ast.Module) -> Iterator[str]:
    """Texts that are used as causes: by keyword, beside a code, or in a named list of causes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"cause", "slug"}:
            yield from _slugs(node.value)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "Cause" and node.args:
                yield from _slugs(node.args[0])
            for before, after in pairwise(node.args):
                yield from _beside(before, after)
        elif isinstance(node, ast.Tuple):
            for before, after in pairwise(node.elts):
                yield from _beside(before, after)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = " ".join(t.id for t in targets if isinstance(t, ast.Name))
            if re.search(r"CAUSE|CURED|EXPLAINS|\b(?:cause|slug)\b", names):
                yield from _slugs(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name.endswith(("_cause", "_cause_of")):
            returned = (item.value for item in ast.walk(node) if isinstance(item, ast.Return))
            yield from (slug for value in returned for slug in _slugs(value))


def _beside(before: ast.expr, after: ast.expr) -> list[str]:
    is_code = bool(choices(before)) and all(CODE.fullmatch(text) for text in choices(before))
    return _slugs(after) if is_code else []


def _slugs(node: ast.expr | None) -> list[str]:
    return [text for text in choices(node) if SLUG.fullmatch(text)]


@functools.cache
def table_words() -> frozenset[tuple[str, str]]:
    """Field and text of every ``cause``, ``causes`` and ``code`` that a data table states.

    Of the tables of causes: the codes of messages, and the causes that their own rows raise.
    """
    folder = ROOT / "compat_matrix"
    paths = [*folder.glob("*.toml"), *folder.glob("packages/*.toml")]
    tables = [tomllib.loads(path.read_text()) for path in paths]
    causes = [tomllib.loads(path.read_text()) for path in folder.glob("causes/*.toml")]
    found = {pair for table in tables for pair in _fields(table)}
    found |= {pair for table in causes for row in table.get("cause", ()) for pair in _raised(row)}
    return frozenset(found)


def _raised(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (("code", message["code"]) for message in row.get("says", ()) if "code" in message)
    if row.get("shown") or any(
        "any" in one or "signal" in one for one in row.get("hypothesis", ())
    ):
        yield "cause", row["slug"]


def _fields(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _fields(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in {"cause", "causes", "code"} and isinstance(item, str):
                yield from ((name, word) for word in item.split())
            else:
                yield from _fields(item)
