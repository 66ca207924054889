from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.machine import Platform
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile

LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.12"))
HEAD = 'version = 1\nrequires-python = ">=3.11"\n'
PYPI = 'source = { registry = "https://index.example/simple" }\n'


def package(name: str, version: str, more: str = "", source: str = PYPI) -> str:
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\n{source}{more}\n'


def root(more: str) -> str:
    return package("project", "0.1.0", more, 'source = { editable = "." }\n')


def listed(text: str) -> list[tuple[str, str]]:
    environment = load_lockfile("uv.lock", HEAD + text, target=LINUX).environment
    return [(d.name, str(d.version)) for d in environment.distributions or ()]


def test_what_the_project_does_not_need_is_left_out() -> None:
    text = root('dependencies = [{ name = "a" }]') + package("a", "1") + package("b", "2")
    assert listed(text) == [("a", "1")]


def test_dev_group_is_taken_and_other_groups_are_not() -> None:
    groups = '[package.dev-dependencies]\ndev = [{ name = "a" }]\ndocs = [{ name = "b" }]\n'
    assert listed(root(groups) + package("a", "1") + package("b", "2")) == [("a", "1")]


def test_extras_of_dependencies_are_followed() -> None:
    text = (
        root('dependencies = [{ name = "a", extra = ["fast"] }]')
        + package("a", "1", '[package.optional-dependencies]\nfast = [{ name = "b" }]\n')
        + package("b", "2")
    )
    assert listed(text) == [("a", "1"), ("b", "2")]


def test_version_and_source_of_an_edge_choose_among_entries() -> None:
    edge = 'dependencies = [{ name = "torch", version = "2.7.1+cu128" }]'
    text = root(edge) + package("torch", "2.7.1+cpu") + package("torch", "2.7.1+cu128")
    assert listed(text) == [("torch", "2.7.1+cu128")]


def test_script_locks_start_at_their_manifest() -> None:
    manifest = '[manifest]\nrequirements = [{ name = "a", specifier = ">=1" }]\n'
    assert listed(manifest + package("a", "1") + package("b", "2")) == [("a", "1")]


def test_lock_without_a_project_is_taken_whole() -> None:
    assert listed(package("a", "1") + package("b", "2")) == [("a", "1"), ("b", "2")]


def test_wheel_and_archive_addresses_are_direct() -> None:
    url = "https://download.pytorch.org/whl/cu126/torch-2.7.1%2Bcu126-cp312-cp312-linux_x86_64.whl"
    text = package("torch", "2.7.1+cu126", source=f'source = {{ url = "{url}" }}\n')
    environment = load_lockfile("uv.lock", HEAD + text, target=LINUX).environment
    torch = environment.distribution("torch")
    assert torch is not None
    assert torch.url == url
    assert torch.index_url is None
    assert environment.torch is not None
    assert str(environment.torch.cuda) == "12.6"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version = 1\npackage = 3\n", "uv.lock.package is a number, expected a list"),
        ("version = 1\npackage = [3]\n", r"uv\.lock\.package\[0\] is a number, expected a table"),
        ("version = 2\n", "lock version 2 is not understood"),
        ("package = []\n", "lock version None is not understood"),
        (HEAD + "[[package]]\nversion = '1'\n", r"uv\.lock:3: package\[0\]\.name is missing"),
        (HEAD + package("a", "x y"), r"package\[0\]\.version: 'x y' is no version"),
        (HEAD + package("a", "1", "wheels = 1"), r"wheels is a number, expected a list"),
        (HEAD + package("a", "1", "dependencies = [1]"), r"dependencies\[0\] is a number"),
        (HEAD + package("a", "1", "resolution-markers = ['x']"), "marker 'x'"),
        (HEAD + package("a", "1", source="source = 'x'\n"), "source is a string, expected a table"),
        (HEAD + root("dependencies = [{ name = 'a', marker = '(' }]"), "marker '\\('"),
        (HEAD + package("a", "1") * 61, "package a stands there 61 times"),
    ],
)
def test_errors_name_file_and_place(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_lockfile("uv.lock", text)
    assert caught.value.message.startswith("uv.lock")
