"""The house stands as designed: imports point one way, heavy modules stay where they belong."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "envguard"

# Room -> the rooms it may import. A room is the first name below envguard.
ALLOWED = {
    "_version": set(),
    "errors": set(),
    "files": {"errors"},
    "printable": set(),
    "redaction": set(),
    "values": set(),
    "process": set(),
    "facts": {"errors", "files"},
    "matrix": {"facts", "errors", "files"},
    "fetch": {"matrix", "facts", "errors"},
    "show": {"backend", "matrix", "facts", "errors"},
    "probe": {"facts", "errors", "files", "process"},
    "ingest": {"facts", "errors", "files"},
    "binary": {"facts", "errors", "files"},
    "checks": {"matrix", "facts", "errors"},
    "backend": {"matrix", "facts", "errors"},
    "judge": {"checks", "backend", "matrix", "facts", "errors"},
    "lock": {
        "checks",
        "backend",
        "judge",
        "matrix",
        "facts",
        "errors",
        "files",
        "process",
    },
    "smoke": {"checks", "backend", "matrix", "facts", "errors", "process"},
    "crash": {"memory", "checks", "backend", "judge", "matrix", "facts", "errors", "files"},
    "memory": {"checks", "backend", "matrix", "facts", "errors", "files"},
    "envs": {"lock", "smoke", "checks", "backend", "matrix", "facts", "errors", "files", "process"},
    "fleet": {"checks", "backend", "judge", "matrix", "facts", "errors"},
    "render": {"facts", "errors", "files"},
}
FREE = {"cli", "__main__", "__init__"}
# What every room may import: who we are, and what text from elsewhere looks like.
COMMON = {"__init__", "_version", "printable", "redaction", "values"}

# Module -> where it may be imported, as paths below the package.
CONFINED = {
    "typer": ("cli/",),
    "pynvml": ("probe/",),
    "torch": ("smoke/_",),
    "rich": ("cli/", "render/"),
    "elftools": ("binary/",),
}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py")
    if room in FREE:
        return
    rooms = {room_of(name) for name in imports_of(path) if name.split(".")[0] == "envguard"}
    strays = rooms - {room} - COMMON - ALLOWED[room]
    assert strays == set(), f"{relative} reaches into {strays}"


@pytest.mark.parametrize("module", sorted(CONFINED))
def test_heavy_modules_stay_in_their_rooms(module: str) -> None:
    places = CONFINED[module]
    strays = [
        str(path.relative_to(PACKAGE))
        for path in modules()
        if module in {name.split(".")[0] for name in imports_of(path)}
        and not str(path.relative_to(PACKAGE)).startswith(places)
    ]
    assert strays == []


@pytest.mark.parametrize(
    "path",
    [p for p in modules() if p.name.startswith("_") and "child" in p.name],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_children_import_nothing_of_envguard(path: Path) -> None:
    assert not [name for name in imports_of(path) if name.split(".")[0] == "envguard"]


def test_check_starts_without_heavy_modules() -> None:
    code = (
        "import sys; from envguard.cli.app import main; "
        "main(['check', 'torch==2.7.1+cu128', '--gpu', 'H100', '--driver', '570.26', "
        "'--format', 'json']); "
        "heavy = {'requests', 'pynvml', 'torch', 'elftools', 'importlib.metadata', 'email', "
        "'asyncio', 'rich'} & set(sys.modules); print(sorted(heavy), file=sys.stderr)"
    )
    before = subprocess.run(
        [sys.executable, "-c", "import sys, typer; print(sorted(set(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = set(ast.literal_eval(done.stderr.strip().splitlines()[-1]))
    brought_by_typer = set(ast.literal_eval(before.stdout))
    assert loaded - brought_by_typer - {"importlib.metadata", "email"} == set()


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after some code."""
    shown = f"{code}; import sys; print(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stderr.strip().splitlines()[-1]))


def test_the_version_is_told_without_loading_a_command() -> None:
    loaded = loaded_by("from envguard.cli.main import main; main(['--version'])")
    assert {name for name in loaded if name.startswith("envguard.")} <= {
        "envguard._version",
        "envguard.errors",
        "envguard.printable",
        "envguard.files",
        "envguard.cli",
        *(
            f"envguard.cli.{name}"
            for name in ("app", "defaults", "failure", "keys", "output", "quick")
        ),
    }


def test_the_program_searches_seldom_for_garbage_and_not_at_exit() -> None:
    code = (
        "import gc, sys; from envguard.__main__ import entry\n"
        "sys.argv = ['envguard', '--version']\n"
        "try: entry()\n"
        "except SystemExit as end: print(end.code, gc.get_threshold()[0], gc.get_freeze_count())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, threshold, frozen = map(int, done.stdout.splitlines()[-1].split())
    assert status == 0
    assert threshold > gc.get_threshold()[0]
    assert frozen > 5_000


def test_lock_starts_uv_without_what_is_needed_afterwards() -> None:
    loaded = loaded_by("import envguard.cli.lock, envguard.cli.lock_run, envguard.cli.lock_request")
    assert "envguard.lock.resolve" in loaded
    late = ("existence", "ladder", "locks", "pins", "previous", "pylock", "reqfile", "web")
    seldom = {"envguard.facts.findings", "envguard.facts.lock_record", "hashlib", "html.parser"}
    assert loaded & {*(f"envguard.lock.{name}" for name in late), *seldom} == set()


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_opens_with_a_sentence(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text
    assert text.splitlines()[0].endswith((".", "?", "``"))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert len(path.read_text().splitlines()) <= 350
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    long = [f.name for f in functions if _body_lines(f) > 50]
    assert long == []


def _body_lines(function: ast.FunctionDef) -> int:
    """Lines of statements: neither the signature (a command's options) nor the docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = (first.end_lineno or 0) + 1 if is_docstring else first.lineno
    return (function.end_lineno or 0) - start + 1


def test_words_leave_the_program_through_the_net_alone() -> None:
    """Whoever prints past ``write_text``, ``say`` and ``tell`` could show a secret."""
    doors = {"cli/out.py", "cli/main.py"}
    strays = [
        str(path.relative_to(PACKAGE))
        for path in modules()
        if "typer.echo(" in path.read_text() and str(path.relative_to(PACKAGE)) not in doors
    ]
    assert strays == []
