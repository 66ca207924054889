"""What a person reads is made by ``say``: no f-string reaches a title, detail, note or remedy."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parents[1] / "envguard"

# Who takes a sentence: the parameters, and their places where they are given without a name.
TAKERS: dict[str, dict[str, int | None]] = {
    "Finding": {"title": 3, "detail": 4},
    "Remedy": {"text": 0},
    "Gap": {"detail": 3},
    "Recommendation": {"why": 3},
    "Message": {"title": None, "detail": None, "remedy": None},
    "replace": {"title": None, "detail": None, "notes": None},
    "install_remedy": {"text": None},
    "suspect": {"supports": None, "against": None, "experiment": None},
    "make_report": {"notes": None},
    "judge": {"notes": None},
    "diagnose": {"notes": None},
}
# Keywords that are a sentence, whoever is called.
ALWAYS = ("title", "detail")
# Parameters of a module's own functions that are handed on as a sentence.
HANDED_ON = frozenset({"title", "detail", "note", "notes", "text"})
# Rooms that lay out what others said, and tables of figures.
LAYOUT = ("render", "show", "web")


@dataclass
class Module:
    """A module, and what of it a sentence is followed through."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    around: dict[ast.AST, ast.FunctionDef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = {n.name: n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)}
        for function in (n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)):
            for node in ast.walk(function):
                self.around[node] = function


def _sentences(module: Module) -> Iterator[ast.expr]:
    """Every argument that a person reads."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            of = node.func.value
            if node.func.attr in {"append", "extend"} and getattr(of, "attr", "") == "notes":
                yield from node.args
            continue
        if not isinstance(node.func, ast.Name):
            continue
        takes = TAKERS.get(node.func.id) or _parameters(module.functions.get(node.func.id))
        named = {*takes, *ALWAYS}
        yield from (word.value for word in node.keywords if word.arg in named)
        for place in takes.values():
            given = node.args[: place + 1] if place is not None else []
            if place is not None and len(given) > place:
                yield given[place]


def _parameters(function: ast.FunctionDef | None) -> dict[str, int | None]:
    """The parameters of a function of the module that are a finding's sentence."""
    makes = function is not None and ast.unparse(function.returns or ast.Constant(None))
    if function is None or not makes or not any(name in makes for name in ("Finding", "Remedy")):
        return {}
    names = [arg.arg for arg in function.args.args]
    found: dict[str, int | None] = {n: i for i, n in enumerate(names) if n in HANDED_ON}
    return found | {arg.arg: None for arg in function.args.kwonlyargs if arg.arg in HANDED_ON}


def _made_of(module: Module, node: ast.expr, seen: set[ast.AST]) -> Iterator[ast.AST]:
    """The expressions that a sentence can be, through choices, locals and functions."""
    if node in seen:
        return
    seen.add(node)
    yield node
    match node:
        case ast.IfExp():
            inner = [node.body, node.orelse]
        case ast.BoolOp():
            inner = node.values
        case ast.Tuple() | ast.List():
            inner = node.elts
        case ast.Starred() | ast.NamedExpr():
            inner = [node.value]
        case ast.GeneratorExp() | ast.ListComp():
            inner = [node.elt]
        case ast.Name():
            changed, inner = _local(module, node)
            yield from changed
        case ast.Call(func=ast.Name(id=name)) if name in module.functions:
            inner = _returned(module.functions[name])
        case ast.Call(func=ast.Name(id="join_sentences")):
            inner = node.args
        case _:
            return
    for one in inner:
        yield from _made_of(module, one, seen)


def _local(module: Module, name: ast.Name) -> tuple[list[ast.AST], list[ast.expr]]:
    """The statements that lengthen a local text, and the values that it is given."""
    function = module.around.get(name)
    changed: list[ast.AST] = []
    values: list[ast.expr] = []
    for node in ast.walk(function) if function else ():
        match node:
            case ast.Assign(targets=[target], value=value) if _binds(target, name.id):
                values.extend(_bound(target, value, name.id))
            case ast.AugAssign(target=ast.Name(id=name.id), value=value):
                values.append(value)
                if not isinstance(value, ast.Tuple | ast.List | ast.ListComp):
                    changed.append(node)
            case _:
                pass
    return changed, values


def _binds(target: ast.expr, name: str) -> bool:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)


def _bound(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr]:
    if not isinstance(target, ast.Tuple):
        return [value]
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
        return []
    pairs = zip(target.elts, value.elts, strict=True)
    return [given for part, given in pairs if isinstance(part, ast.Name) and part.id == name]


def _returned(function: ast.FunctionDef) -> list[ast.expr]:
    says = ast.unparse(function.returns or ast.Constant(None))
    if not any(word in says for word in ("str", "Text")):
        return []
    return [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]


def _is_patched(node: ast.AST) -> bool:
    """Whether a text is put together in a way that loses its template."""
    match node:
        case ast.JoinedStr() | ast.AugAssign():
            return True
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str()) | ast.JoinedStr()):
            return True
        case ast.BinOp(op=ast.Add()):
            return not any(isinstance(n, ast.Tuple | ast.List) for n in (node.left, node.right))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr=method)):
            return method in {"format", "format_map", "join"}
        case _:
            return False


def patched_sentences(source: str) -> list[int]:
    """The lines of a module where a sentence is put together without ``say``."""
    module = Module(ast.parse(source))
    found: dict[int, None] = defaultdict()
    for sentence in _sentences(module):
        for node in _made_of(module, sentence, set()):
            if _is_patched(node):
                found[getattr(node, "lineno", 0)] = None
    return sorted(found)


def modules() -> list[Path]:
    return sorted(
        path
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in LAYOUT and not path.name.endswith("_child.py")
    )


def test_no_sentence_is_put_together_without_say() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in modules()
        if (lines := patched_sentences(path.read_text()))
    }
    assert not found


FORMS = {
    "argument": "Finding('A', 'b', s, f'{x} fails')",
    "any call": "make_finding(case, detail=x + y)",
    "keyword": "Gap('a', r, 'p', detail=f'{x} fails')",
    "remedy": "Remedy(f'install {x}')",
    "choice": "Remedy('a' if y else f'install {x}')",
    "percent": "Remedy('install %s' % x)",
    "format": "Remedy('install {}'.format(x))",
    "concatenation": "Remedy('install ' + x)",
    "join": "Remedy('; '.join(x))",
    "replace": "replace(finding, title=f'maybe: {x}')",
    "local": "text = f'install {x}'\n    Remedy(text)",
    "unpacked": "a, text = 1, f'install {x}'\n    Remedy(text)",
    "lengthened": "text = 'install '\n    text += x\n    Remedy(text)",
    "notes": "make_report(notes=(*more, f'taken from {x}'))",
    "noted": "self.notes.append(f'taken from {x}')",
    "function": "Remedy(_text(x))",
    "helper": "_finding('A', f'{x} fails')",
    "generator": "replace(found, notes=tuple_of, detail=join_sentences(*(f'{y}' for y in x)))",
}
OWN = (
    "\ndef _text(x) -> str:\n    return f'install {x}'\n"
    "\ndef _finding(code, title) -> Finding:\n    return Finding(code, 'b', s, title)\n"
)


@pytest.mark.parametrize("form", FORMS)
def test_every_way_around_say_is_seen(form: str) -> None:
    assert patched_sentences(f"def check(x, y):\n    {FORMS[form]}\n{OWN}")


def test_what_say_made_is_no_fault() -> None:
    said = "say('install {name}', name=f'{x}-cuda')"
    text = f"def check(x):\n    title = {said} if x else 'plain'\n    Finding('A', 'b', s, title)\n"
    assert patched_sentences(text) == []
    assert patched_sentences(f"def check(x):\n    Remedy(join_sentences({said}, 'plain'))\n") == []
