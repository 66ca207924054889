"""Nothing that is read is run: no format that holds code, and no way to start any."""

from __future__ import annotations

import ast
import os
import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stubs.machine import StubMachine

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("envguard", "compat_matrix", "scripts", "benchmarks")
# Modules whose formats build objects or hold code, and those that run a file.
MODULES = frozenset({"pickle", "_pickle", "pickletools", "marshal", "shelve", "dbm", "jsonpickle"})
MODULES |= {"dill", "cloudpickle", "joblib", "yaml", "ruamel", "numpy"}
MODULES |= {"runpy", "code", "codeop", "imp"}
BUILTINS = frozenset({"eval", "exec", "compile", "__import__"})
# Where code of ours is started by a name or a place that is not read from data.
ALLOWED = {
    "exec_module": {"envguard/smoke/_child.py"},  # the files beside it
    "exec": {"envguard/values.py"},  # what dataclasses writes: the names of a class's fields
    # what they have just saved themselves
    "torch.load": {"envguard/smoke/_stages_child.py", "benchmarks/_memory_cpu_child.py"},
    "pickletools": {"envguard/crash/plain_pickle.py"},  # reads the opcodes, makes no object
    "import_module": {
        "benchmarks/_memory_cpu_child.py",
        "envguard/cli/main.py",
        "envguard/facts/codec.py",
        "envguard/lock/__init__.py",
        "envguard/lock/resolve.py",
        "envguard/matrix/loader.py",
        "envguard/render/__init__.py",
        "envguard/show/__init__.py",
        "envguard/smoke/_deepspeed_child.py",
        "envguard/smoke/_device_child.py",
        "envguard/smoke/_rank_child.py",
    },
}


def files() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def starts_of(tree: ast.AST) -> Iterator[str]:
    """What a file imports or calls that could run what it reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from {a.name.partition(".")[0] for a in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from {(node.module or "").partition(".")[0]} & MODULES
        elif isinstance(node, ast.Call):
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name):
        yield from {node.func.id} & {*BUILTINS, "import_module"}
    name = ast.unparse(node.func)
    for end in ("exec_module", "load_module", "import_module", "torch.load", "os.system", "popen"):
        if name.endswith(f".{end}") or name == end:
            yield end
    yield from ("shell=" for word in node.keywords if word.arg == "shell")


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_starts_what_it_reads(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    found = set(starts_of(ast.parse(path.read_text(encoding="utf-8"))))
    assert {start for start in found if name not in ALLOWED.get(start, ())} == set()


@pytest.mark.parametrize(
    ("code", "start"),
    [
        ("import pickle", "pickle"),
        ("from yaml import load", "yaml"),
        ("eval(text)", "eval"),
        ("importlib.import_module(text)", "import_module"),
        ("run.torch.load(path)", "torch.load"),
        ("subprocess.run(text, shell=True)", "shell="),
        ("spec.loader.exec_module(module)", "exec_module"),
    ],
)
def test_the_guard_sees_them(code: str, start: str) -> None:
    assert start in set(starts_of(ast.parse(code)))


class Bomb:
    """Leaves a folder behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def checkpoint(path: Path, data: bytes) -> None:
    """What torch.save writes: a zip archive with a pickle in it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)


COMMANDS = (
    ("inspect", "{}"),
    ("check", "{}"),
    ("check", "--from", "{}"),
    ("diagnose", "{}"),
    ("plan", "--model", "{}", "--gpus", "1", "--gpu-memory", "80", "--host-memory", "64"),
    ("lock", "-r", "{}", "--offline"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda w: "-".join(w[:2]))
@pytest.mark.parametrize("name", ["a.pkl", "model.pt", "pytorch_model.bin", "a.whl", "config.json"])
def test_a_pickle_is_never_loaded(
    tmp_path: Path, words: tuple[str, ...], name: str, no_driver: StubMachine
) -> None:
    mark, file = tmp_path / "mark", tmp_path / name
    data = pickle.dumps(Bomb(mark))
    if name in {"model.pt", "a.whl"}:
        checkpoint(file, data)
    else:
        file.write_bytes(data)
    assert main([word.format(file) for word in words]) in {0, 2, 3}
    assert not mark.exists()
    pickle.loads(data)  # noqa: S301 - that the bomb is a live one
    assert mark.exists()


@pytest.mark.parametrize("name", ["environment.yml", "accelerate.yaml", "requirements.txt"])
def test_a_tag_of_yaml_is_never_obeyed(tmp_path: Path, name: str, no_driver: StubMachine) -> None:
    mark, file = tmp_path / "mark", tmp_path / name
    tag = f'!!python/object/apply:os.mkdir ["{mark}"]'
    file.write_text(f"name: {tag}\ndependencies:\n  - {tag}\n  - pip\ncompute_environment: {tag}\n")
    plan = ["plan", "--params", "1B", "--gpus", "1", "--gpu-memory", "80", "--host-memory", "64"]
    for words in (["check", str(file)], [*plan, "--config", str(file)]):
        assert main(words) in {0, 2, 3}
    assert not mark.exists()
