"""The house stands as designed: imports point one way, a file has one subject, a name one thing."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.cli.main import COMMANDS
from envguard.lock import FORMATS as LOCK_FORMATS
from envguard.render import FORMATS
from envguard.show import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "envguard"

# The floors of the house, from the roof down. A room (the first name below envguard) imports from
# the floors below its own, never from a neighbour on its floor and never from above.
FLOORS = (
    ("__main__",),
    ("cli",),
    ("__init__",),  # what others import: ``envguard.phase``
    ("supervise",),
    ("crash", "lock", "smoke"),
    ("memory", "show"),
    ("judge",),
    ("checks", "backend"),
    ("conditions", "fit", "signatures"),
    ("probe", "ingest", "binary", "web"),
    ("matrix",),
    ("render",),
    ("facts",),
    ("files",),
    ("mangled",),
    ("errors", "printable", "redaction", "values", "wrappers", "_version"),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Rooms that import less than their floor would let them.
NARROW = {
    # Only the command line renders.
    "render": {"cli"},
    # What reads makes facts; what they mean is judged elsewhere.
    "matrix": set(FLOOR) - {"probe", "ingest", "binary"},
}
# ``python -m envguard`` and the installed command are one, and either tells of the other's name.
EXCEPT = {("envguard.cli", "envguard.__main__")}

# Module -> where it may be imported, as paths below the package.
CONFINED = {
    "typer": ("cli/",),
    "pynvml": ("probe/",),
    "torch": ("smoke/_",),
    "rich": ("cli/", "render/"),
    "elftools": ("binary/",),
    # binary/ reads parts of wheels where they lie; complaints.py asks which proxy a host would get.
    "requests": ("web/", "binary/", "lock/complaints.py"),
    "tomli_w": ("lock/",),
}

# Packages whose ``__init__`` registers their modules, one a family.
REGISTRIES = ("envguard.checks", "envguard.crash.rules")

READER = "reads one kind of text, told apart by detect.py or lockfile.py"
SOURCE = "reads one source of the machine; machine.py or interpreter.py asks them all"
EXAMINED = "one question about a compiled file; examination.py asks them all"
TERM = "one term of the peak; plan.py adds them up"
# Why a module is under 80 lines, over 600, or has one importer, which is in its own room.
REASONS = {
    "envguard._version": "built into the distribution's metadata, read without importing the rest",
    "envguard.errors": "the errors and exit codes are all that every room shares",
    "envguard.printable": "one rule: what a terminal may get",
    "envguard.facts.gaps": "one type and its reasons, which every reader returns",
    "envguard.binary.examination": "what is found in one file; environment.py walks the files",
    "envguard.binary.hashes": "the loader's hash tables, beside the symbols that they find",
    "envguard.binary.loading": EXAMINED,
    "envguard.binary.modules": EXAMINED,
    "envguard.binary.owners": EXAMINED,
    "envguard.binary.shadows": EXAMINED,
    "envguard.binary.resolving": "the loader's search, apart from what is linked",
    "envguard.binary.streaming": "unpacks a member of a wheel in bounded memory",
    "envguard.checks.wheel": "one family with the most codes",
    "envguard.cli.checking": "the judging part of a command, used where a command checks",
    "envguard.cli.defaults": "patches that make typer's start quick, in one place",
    "envguard.cli.live": "what check reads when the subject is this machine",
    "envguard.cli.lock_request": "the options of lock become a request",
    "envguard.cli.lock_run": "the request becomes a lock, written or compared",
    "envguard.cli.matrix_show": "a subcommand",
    "envguard.cli.matrix_update": "a subcommand",
    "envguard.cli.matrix_verify": "a subcommand",
    "envguard.crash.hang_words": "the sentences of a hang, apart from how it is judged",
    "envguard.crash.plain_pickle": "reads what a stranger wrote: bounded, and alone in a file",
    "envguard.crash.hypotheses": "what is said where nothing is established",
    "envguard.crash.status_words": "statuses in a log, read with their own table",
    "envguard.ingest.ds_report": READER,
    "envguard.ingest.line_facts": READER,
    "envguard.ingest.line_forms": "the table of what single lines state, apart from its reader",
    "envguard.ingest.block_yaml": "a language of its own, apart from who writes files in it",
    "envguard.ingest.lock_choose": "which entries of a lock an environment takes",
    "envguard.ingest.lock_pdm": READER,
    "envguard.ingest.lock_poetry": READER,
    "envguard.ingest.lock_pylock": READER,
    "envguard.ingest.lock_uv": READER,
    "envguard.ingest.nvidia_smi": READER,
    "envguard.ingest.nvidia_smi_query": READER,
    "envguard.lock.constraints": "every bound beside the request has one home",
    "envguard.lock.index_watch": "looks at the index while uv runs",
    "envguard.matrix.index": "a table",
    "envguard.matrix.verify": "every promise of the tables has one home",
    "envguard.memory.configs": "seven kinds of files that state a job",
    "envguard.memory.encoders": "model families that are no decoders",
    "envguard.memory.plan_findings": "the plan's sentences",
    "envguard.memory.model_files": "every form in which a model is stated",
    "envguard.memory.flat_yaml": "the part of YAML that trainers' files use",
    "envguard.memory.gpu": TERM,
    "envguard.memory.host": TERM,
    "envguard.probe.answers": "what each source said of one fact",
    "envguard.probe.description": "an interpreter's words become facts",
    "envguard.probe.host": SOURCE,
    "envguard.probe.kernel": SOURCE,
    "envguard.probe.libcuda": SOURCE,
    "envguard.probe.loader_path": SOURCE,
    "envguard.probe.nvidia_smi": SOURCE,
    "envguard.probe.nvml": SOURCE,
    "envguard.probe.toolkit": SOURCE,
    "envguard.probe.torch_file": SOURCE,
    "envguard.render.crash": "the part of a report that only diagnose has",
    "envguard.render.nagios": "a form of output with exit codes of its own",
    "envguard.render.stages": "the part of a report that only smoke has",
    "envguard.smoke.child_exit": "how a child ended, as smoke's stages need it",
    "envguard.smoke.smoke_findings": "smoke's sentences",
    "envguard.supervise.compare": "what two runs differ in",
    "envguard.supervise.phase_mark": "imported by training scripts: nothing else may come along",
    "envguard.supervise.private_files": "files that nobody else can read or swap",
    "envguard.supervise.run_record": "the record's shape, written and read back",
    "envguard.supervise.watching": "the watch beside the child; run.py starts and ends it",
    "envguard.web.releases": "addresses of release files, without a request",
    "envguard.crash.job_need": "asks the planner, which most logs never need",
    "envguard.crash.tracebacks": "what ends a traceback, by its place; scan.py finds it by name",
    "envguard.crash.samples": "what a record holds and a diagnosis reads, apart from who samples",
    "envguard.facts.sentences": "one rule: a sentence keeps its template",
    "envguard.lock.choose": "which build is tried after which; lock_plan.py keeps the reasons",
    "envguard.lock.ladder": "a text that only --explain prints",
    "envguard.matrix.causes": "everything that a cause is has one home",
    "envguard.matrix.order": "read by check, which needs no cause as long as all fits",
    "envguard.probe.machine": "all sources of this machine put together",
    "envguard.redaction": "one place decides what is secret",
    "envguard.smoke.smoke_report": "the envelope of one command",
    "envguard.supervise.sampling": "reads /proc, cgroups and NVML; watching.py decides when",
    "envguard.web.lock_limits": "time and memory of one lock, shared by uv and the web client",
}

# Names of modules that stand twice, about one subject: what is read, what is judged, what is shown.
SAME_SUBJECT = {
    "breaks": "the rows of known breaks, and the check of them",
    "companions": "packages that go with torch, checked and locked",
    "compiled": "compiled files, read and checked",
    "deepspeed": "DeepSpeed's rows, and its checks",
    "drivers": "the table of drivers, loaded and shown",
    "environment": "what is installed: the value, and its compiled files",
    "gpu": "GPUs: the family of checks, and a job's memory on one",
    "gpus": "the table of GPUs, loaded and shown",
    "host": "the host: read, checked, and a job's memory on it",
    "lock_record": "the record in a lock: the value, and the check of it",
    "machine": "a machine: the value, and how this one is read",
    "nvidia_smi": "nvidia-smi: run here, and pasted from elsewhere",
    "nvml": "NVML: read, and checked",
    "packages": "the tables of packages, loaded and shown",
    "phases": "phases of a run: told from a log, and drawn",
    "prebuilt": "prebuilt wheels: checked, and locked",
    "torch_builds": "the table of builds, loaded and shown",
    "wheel": "wheels: read, and checked",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The name under which a file is imported."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


PATHS = {name_of(path): path for path in modules()}
IS_CHILD = {
    name: path.stem.startswith("_") and "child" in path.stem for name, path in PATHS.items()
}
COMMAND_FILES = {f"envguard.cli.{command}" for command in COMMANDS}


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(PATHS[name].read_text(encoding="utf-8"))


def imports_of(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """What import statements import; a module of ours by its own name, not its package's."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in PATHS else node.module


def imported_by(name: str) -> set[str]:
    """All that a module imports, wherever in it, for types alone among them."""
    return set(imports_of(ast.walk(tree_of(name))))


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def may_import(room: str, other: str) -> bool:
    if other == "__init__":  # ``import envguard`` alone brings a version
        return True
    return room == other or (FLOOR[room] < FLOOR[other] and room in NARROW.get(other, {room}))


def test_the_floors_hold_every_room_and_no_other() -> None:
    assert {room_of(name) for name in PATHS} == set(FLOOR)


@pytest.mark.parametrize("name", PATHS)
def test_imports_point_one_way(name: str) -> None:
    ours = {other for other in imported_by(name) if other.split(".")[0] == "envguard"}
    strays = {
        other
        for other in ours
        if not may_import(room_of(name), room_of(other)) and (name, other) not in EXCEPT
    }
    assert strays == set(), f"{name} reaches up or sideways"


def test_modules_import_each_other_in_no_circle() -> None:
    """Circles of imports that run when a module is loaded: each needs the other first."""
    graph = {name: set(imports_of(iter(tree_of(name).body))) & PATHS.keys() for name in PATHS}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as err:
        pytest.fail(" -> ".join(err.args[1]))


@pytest.mark.parametrize("module", CONFINED)
def test_heavy_modules_stay_in_their_rooms(module: str) -> None:
    strays = [
        str(path.relative_to(PACKAGE))
        for name, path in PATHS.items()
        if module in {other.split(".")[0] for other in imported_by(name)}
        and not str(path.relative_to(PACKAGE)).startswith(CONFINED[module])
    ]
    assert strays == []


@pytest.mark.parametrize("name", [name for name, is_child in IS_CHILD.items() if is_child])
def test_children_import_nothing_of_envguard(name: str) -> None:
    assert not [other for other in imported_by(name) if other.split(".")[0] == "envguard"]


def test_check_starts_without_heavy_modules() -> None:
    code = (
        "import sys; from envguard.cli.main import main; "
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
        "envguard.redaction",
        "envguard.values",
        "envguard.cli",
        "envguard.cli.main",
        "envguard.cli.defaults",
        "envguard.cli.out",
        "envguard.render",
        "envguard.render.page",
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
    late = {"envguard.web.client", "envguard.lock.formats.pylock"}
    assert late | {"envguard.lock.resolve"} <= set(PATHS)
    assert "envguard.lock.resolve" in loaded
    assert loaded & {*late, "requests", "hashlib"} == set()


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_opens_with_a_sentence(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text
    assert text.splitlines()[0].endswith((".", "?", "``"))


def importers() -> dict[str, set[str]]:
    """Module -> the modules of the package that import it."""
    found: dict[str, set[str]] = {name: set() for name in PATHS}
    for name in PATHS:
        for other in imported_by(name) & PATHS.keys() - {name}:
            found[other].add(name)
    return found


def is_registered(name: str) -> bool:
    """Whether something finds a module by a registry, or runs it elsewhere: a reason in itself."""
    package = name.rpartition(".")[0]
    formats = {*FORMATS.values(), *LOCK_FORMATS.values(), *TABLES.values()}
    return (
        package in REGISTRIES
        or name in formats
        or name in COMMAND_FILES
        or IS_CHILD.get(name, False)
    )


def odd_sizes() -> dict[str, str]:
    """Modules whose size or whose only importer needs a reason, with what is odd."""
    by_whom = importers()
    odd = {}
    for name, path in PATHS.items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if path.name == "__init__.py" or (is_registered(name) and lines <= 600):
            continue
        near = {room_of(other) for other in by_whom[name]} <= {room_of(name)}
        if not 80 <= lines <= 600:
            odd[name] = f"{lines} lines"
        elif near and len(by_whom[name]) <= 1:
            odd[name] = f"only {', '.join(by_whom[name]) or 'nobody'} imports it"
    return odd


def test_an_odd_size_or_an_only_importer_has_a_reason() -> None:
    assert {name: why for name, why in odd_sizes().items() if name not in REASONS} == {}


def test_a_reason_is_about_a_module_that_needs_one() -> None:
    assert REASONS.keys() - odd_sizes().keys() == set()


@pytest.mark.parametrize("name", PATHS)
def test_functions_are_never_over_fifty_lines(name: str) -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(tree_of(name)) if isinstance(node, kinds)]
    assert [f.name for f in functions if _body_lines(f) > 50] == []


def public_classes() -> Counter[str]:
    return Counter(
        node.name
        for name in PATHS
        if not IS_CHILD[name]
        for node in tree_of(name).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_no_name_of_a_public_class_stands_for_two_things() -> None:
    assert sorted(name for name, times in public_classes().items() if times > 1) == []


def module_names() -> Counter[str]:
    """Names of files that can be mistaken; a rule's is its table's, a command's its command's."""
    return Counter(
        path.stem
        for name, path in PATHS.items()
        if path.name != "__init__.py"
        and not IS_CHILD[name]
        and name not in COMMAND_FILES
        and not name.startswith(("envguard.crash.rules.", "envguard.lock.formats."))
    )


def test_no_name_of_a_module_stands_for_two_things() -> None:
    twice = {name for name, times in module_names().items() if times > 1}
    assert sorted(twice - SAME_SUBJECT.keys()) == []


def test_the_list_of_names_that_stand_twice_holds_no_other() -> None:
    assert (
        sorted(SAME_SUBJECT.keys() - {n for n, times in module_names().items() if times > 1}) == []
    )


def test_rules_are_named_as_the_tables_of_causes() -> None:
    tables = {path.stem for path in (ROOT / "compat_matrix" / "causes").glob("*.toml")}
    rules = {path.stem for path in (PACKAGE / "crash" / "rules").glob("*.py")}
    assert rules - tables - {"__init__"} == set()


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
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
