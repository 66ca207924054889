"""What a project file asks for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Environment, Manager
from envguard.facts.machine import Platform
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import Lockfile, load_lockfile
from envguard.ingest.pyproject import poetry_bound, read_pyproject

LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.11"))
MAC = LockfileTarget(Platform.parse("macos-aarch64"), Version("3.11"))


def lock(text: str, target: LockfileTarget = LINUX, name: str = "pyproject.toml") -> Lockfile:
    def read(path: str, including: str) -> tuple[str, str]:
        assert including == name
        return path, "torch==2.1.2\n"

    return load_lockfile(name, text, target=target, read=read)


def load(text: str, target: LockfileTarget = LINUX) -> Environment:
    return lock(text, target).environment


def versions(environment: Environment) -> dict[str, str]:
    return {d.name: str(d.version) for d in environment.distributions or ()}


def test_dependencies_with_their_lines() -> None:
    text = '[project]\nname = "x"\ndependencies = [\n  "torch==2.1.2",\n  "numpy<2",\n]\n'
    environment = load(text)
    assert [(d.name, d.line) for d in environment.distributions or ()] == [
        ("numpy", 5),
        ("torch", 4),
    ]
    assert [str(wish) for wish in environment.wishes] == ["numpy<2"]
    assert environment.manager is Manager.PIP


EXTRAS = """
[project]
name = "x"
dependencies = ["numpy"]
[project.optional-dependencies]
gpu = ["torch==2.4.1"]
[dependency-groups]
dev = ["pytest", {include-group = "Lint_It"}]
lint-it = ["ruff"]
doc = ["sphinx"]
"""


def test_extras_and_groups_are_choices_and_dev_is_taken() -> None:
    found = lock(EXTRAS)
    assert set(versions(found.environment)) == {"numpy", "pytest", "ruff", "torch"}
    gap = next(gap for gap in found.gaps if gap.fact == "environment.torch")
    assert "extra gpu" in gap.detail


def test_a_group_that_includes_itself_is_refused() -> None:
    with pytest.raises(InputError, match="'a' is included and not there, or includes itself"):
        load('[dependency-groups]\na = [{include-group = "a"}]\n')


UV = """
[project]
name = "x"
dependencies = ["torch==2.6.0", "helper>=1", "tree"]
[tool.uv]
environments = ["sys_platform == 'linux'", "sys_platform == 'darwin'"]
[tool.uv.sources]
torch = [
  { index = "pt", marker = "sys_platform == 'linux'" },
  { index = "cpu", marker = "sys_platform == 'win32'" },
]
helper = { git = "https://i.example/helper", rev = "v1" }
tree = { path = "../tree", editable = true }
[[tool.uv.index]]
name = "pt"
url = "https://download.pytorch.org/whl/cu126"
explicit = true
[[tool.uv.index]]
name = "cpu"
url = "https://download.pytorch.org/whl/cpu"
explicit = true
"""


def test_sources_of_uv_hold_where_their_markers_do() -> None:
    linux, mac = load(UV), load(UV, MAC)
    assert linux.manager is Manager.UV_PROJECT
    assert linux.torch is not None
    assert str(linux.torch.cuda) == "12.6"
    assert mac.torch is not None
    assert mac.torch.accelerator is None  # the default index
    named = [g.detail for g in lock(UV).gaps if g.fact.endswith("]")]
    assert "helper @ git+https://i.example/helper" in named[0]
    assert "tree @ file:./../tree" in named[1]


def test_indexes_of_uv_that_are_not_explicit_serve_every_package() -> None:
    text = UV.replace("explicit = true", "explicit = false").replace("environments", "xx")
    assert load(text).indexes == (
        "",
        "https://download.pytorch.org/whl/cu126",
        "https://download.pytorch.org/whl/cpu",
    )


POETRY = """
[tool.poetry]
name = "x"
[tool.poetry.dependencies]
python = ">=3.9,<3.13"
torch = [
  {version = "^2.3.0", source = "pt", markers = "sys_platform == 'linux'"},
  {version = "2.2.0", platform = "darwin"},
]
flash-attn = {version = "^2.5", optional = true}
helper = {git = "https://i.example/helper.git"}
[tool.poetry.extras]
fa = ["flash-attn"]
[tool.poetry.group.dev.dependencies]
pytest = "~8.1"
[tool.poetry.group.doc]
optional = true
[tool.poetry.group.doc.dependencies]
sphinx = "*"
[[tool.poetry.source]]
name = "pt"
url = "https://download.pytorch.org/whl/cu118"
priority = "explicit"
"""


def test_poetry_with_sources_groups_and_alternatives() -> None:
    environment = load(POETRY)
    assert environment.manager is Manager.POETRY
    assert environment.torch is not None
    assert str(environment.torch.cuda) == "11.8"
    assert {str(wish) for wish in environment.wishes} == {"torch>=2.3.0,<3", "pytest>=8.1,<8.2"}
    assert set(versions(environment)) == {"torch", "helper", "pytest"}
    assert versions(load(POETRY, MAC))["torch"] == "2.2.0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("^2.1", ">=2.1,<3"),
        ("^0.3.2", ">=0.3.2,<0.4"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("~2.1", ">=2.1,<2.2"),
        ("~2", ">=2,<3"),
        ("2.1.0", "==2.1.0"),
        ("2.1.*", "==2.1.*"),
        ("*", ""),
        (">=2,<3", ">=2,<3"),
        ("^2.0 || ^3.0", ""),
    ],
)
def test_bounds_of_poetry(text: str, expected: str) -> None:
    assert poetry_bound(text, "p") == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 99), min_size=1, max_size=3), st.sampled_from("^~"))
def test_a_bound_of_poetry_holds_its_own_version(numbers: list[int], sign: str) -> None:
    text = ".".join(map(str, numbers))
    assert SpecifierSet(poetry_bound(sign + text, "p")).contains(text)


def test_pdm_and_dynamic_dependencies() -> None:
    text = """
[project]
name = "x"
dynamic = ["dependencies"]
[tool.setuptools.dynamic]
dependencies = { file = ["requirements.txt"] }
[tool.pdm.dev-dependencies]
dev = ["-e file:///x", "pytest==8.0"]
[[tool.pdm.source]]
name = "torch"
url = "https://download.pytorch.org/whl/cu121"
"""
    environment = load(text)
    assert environment.manager is Manager.PDM
    assert versions(environment)["torch"] == "2.1.2"
    assert environment.indexes[-1] == "https://download.pytorch.org/whl/cu121"


def test_bounds_on_python_leave_the_target_out() -> None:
    found = lock('[project]\nname = "x"\nrequires-python = ">=3.12"\ndependencies = ["torch"]\n')
    assert any(gap.fact == "environment.interpreter" for gap in found.gaps)
    both = "sys_platform == 'linux'\", \"sys_platform == 'darwin'"
    narrow = UV.replace(both, "sys_platform == 'win32'")
    assert any(gap.fact == "environment.platform" for gap in lock(narrow).gaps)


def test_setup_cfg_and_setup_py() -> None:
    text = "[options]\npython_requires = >=3.8\ninstall_requires =\n  torch==2.1.2\n  numpy # x\n"
    environment = lock(text.replace(" # x", ""), name="setup.cfg").environment
    assert versions(environment) == {"torch": "2.1.2", "numpy": "None"}
    assert versions(
        lock("[options]\ninstall_requires = file: r.txt\n", name="setup.cfg").environment
    )
    with pytest.raises(InputError, match="states no requirements"):
        lock("[flake8]\n", name="setup.cfg")
    with pytest.raises(InputError, match=r"setup\.py is not run") as caught:
        lock("import os\n", name="setup.py")
    assert "pyproject.toml" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "[project]\ndependencies = 3\n",
        "[project]\ndependencies = ['a b c']\n",
        "[dependency-groups]\na = [3]\n",
        "[tool.uv.sources]\ntorch = 3\n",
        "[tool.poetry.dependencies]\ntorch = 3\n",
        "[tool.poetry.dependencies]\ntorch = '^x'\n",
        "[project\n",
        "[project]\ndependencies = ['x']\n[tool.uv.sources]\nx = {url = 'x', marker = '('}\n",
    ],
)
def test_what_is_no_project_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match=r"^pyproject\.toml"):
        lock(text)


def test_dependencies_that_a_program_states_are_a_gap() -> None:
    found = lock('[project]\nname = "x"\ndynamic = ["dependencies", "version"]\n')
    gap = next(gap for gap in found.gaps if gap.fact == "environment.distributions")
    assert gap.detail == "pyproject.toml: its dependencies are dynamic: what states them is not run"


def test_an_empty_project_asks_for_nothing() -> None:
    assert read_pyproject("[build-system]\nrequires = ['hatchling']\n", "p.toml").statements == ()
