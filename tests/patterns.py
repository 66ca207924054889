"""Every pattern that the program's own code holds, and the methods by which each is used."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
# Tuples of patterns whose one method a reader of the module knows.
_KNOWN_USES = {"envguard.lock._NAMES": "fullmatch"}
_USES = frozenset({"match", "fullmatch"})


@dataclass(frozen=True, slots=True)
class Found:
    """A pattern of the code.

    Args:
        place: Module, and name or line.
        pattern: Compiled.
        use: ``search``, or the one method by which it is used.
    """

    place: str
    pattern: re.Pattern[Any]
    use: str


def patterns_of_the_code() -> list[Found]:
    """All of them, one of a kind, in the order of their modules."""
    kept: dict[tuple[object, int, str], Found] = {}
    for path in sorted((ROOT / "envguard").rglob("*.py")):
        for found in _of_module(path):
            kept.setdefault((found.pattern.pattern, found.pattern.flags, found.use), found)
    return list(kept.values())


def _of_module(path: Path) -> Iterator[Found]:
    text = path.read_text(encoding="utf-8")
    if not re.search(r"^\s*import re$", text, re.MULTILINE):
        return
    if path.name.startswith("_") and path.stem != "__init__":
        sys.path.insert(0, str(path.parent))  # what runs beside its like imports them by name
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(name)
    tree = ast.parse(text)
    held: set[object] = set()
    for label, value in vars(module).items():
        for pattern in _inside(value):
            held.add(pattern.pattern)
            place = f"{name}.{label}"
            yield Found(place, pattern, _KNOWN_USES.get(place) or _use_of(tree, label))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_of_re(node.func) and node.args:
            yield from (f for f in _of_call(module, node) if f.pattern.pattern not in held)


def _inside(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for item in (*value, *value.values()):
            yield from _inside(item)
    elif isinstance(value, tuple | list | frozenset | set):
        for item in value:
            yield from _inside(item)


def _is_of_re(node: ast.expr) -> bool:
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return is_attribute and node.value.id == "re" and hasattr(re, node.attr)  # type: ignore[attr-defined]  # just told


def _of_call(module: ModuleType, node: ast.Call) -> Iterator[Found]:
    """``re.search(_NAME, text)`` and its like; what is put together of values is not known here."""
    text: object = None
    if isinstance(node.args[0], ast.Constant):
        text = node.args[0].value
    elif isinstance(node.args[0], ast.Name):
        text = getattr(module, node.args[0].id, None)
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if isinstance(text, str | bytes) and method != "escape":
        use = method if method in _USES else "search"
        yield Found(f"{module.__name__}:{node.lineno}", re.compile(text), use)


def _use_of(tree: ast.Module, label: str) -> str:
    """The one method that a module calls on a name; ``search`` where it is another, or none."""
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == label
    }
    mentions = sum(isinstance(n, ast.Name) and n.id == label for n in ast.walk(tree))
    calls = sum(
        isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == label
        for n in ast.walk(tree)
    )
    is_plain = len(called) == 1 and called <= _USES and mentions == calls + 1
    return called.pop() if is_plain else "search"
