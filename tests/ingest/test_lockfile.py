from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.environment import Accelerator, BuildOrigin, Environment, Manager
from envguard.facts.gaps import GapReason
from envguard.facts.machine import Platform
from envguard.facts.versions import CudaVersion
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import Lockfile, load_lockfile, looks_like_lockfile
from tests.ingest.samples import LOCKS, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.12"))
ARM = LockfileTarget(Platform.parse("linux-aarch64"), Version("3.12"))
MAC = LockfileTarget(Platform.parse("macos-aarch64"), Version("3.12"))
WINDOWS = LockfileTarget(Platform.parse("windows-x86_64"), Version("3.11"))
NOWHERE = LockfileTarget()


def lock(name: str, target: LockfileTarget = LINUX) -> Lockfile:
    path = SAMPLES / "locks" / name
    return load_lockfile(path.name, path.read_text(), target=target)


def torch_words(environment: Environment) -> tuple[str, Accelerator | None, str]:
    torch = environment.torch
    assert torch is not None
    assert torch.origin is BuildOrigin.LOCKFILE
    return str(torch.version), torch.accelerator, str(torch.cuda)


CUDA_128 = ("2.7.1+cu128", Accelerator.CUDA, "12.8")
NOT_TOLD = ("None", None, "None")


@pytest.mark.parametrize(
    ("name", "target", "expected"),
    [
        ("uv_markers/uv.lock", LINUX, CUDA_128),
        ("uv_markers/uv.lock", ARM, CUDA_128),
        ("uv_markers/uv.lock", MAC, ("2.7.1", Accelerator.CPU, "None")),
        ("uv_markers/uv.lock", WINDOWS, ("2.7.1+cpu", Accelerator.CPU, "None")),
        ("uv_markers/uv.lock", NOWHERE, NOT_TOLD),
        ("uv_extras/uv.lock", LINUX, NOT_TOLD),
        ("uv_plain/uv.lock", LINUX, ("2.7.1", None, "None")),
        ("poetry_markers/poetry.lock", LINUX, CUDA_128),
        ("poetry_markers/poetry.lock", WINDOWS, ("2.7.1+cpu", Accelerator.CPU, "None")),
        ("poetry_extras/poetry.lock", LINUX, NOT_TOLD),
        ("pdm/pdm.lock", LINUX, CUDA_128),
        ("pdm/pdm.lock", MAC, ("2.7.1", None, "None")),
        ("pylock.markers.toml", LINUX, CUDA_128),
        ("pylock.markers.toml", WINDOWS, ("2.7.1+cpu", Accelerator.CPU, "None")),
        ("pylock.groups.toml", LINUX, ("2.9.1+cu130", Accelerator.CUDA, "13.0")),
        ("pylock.toml", LINUX, ("2.7.1+cu126", Accelerator.CUDA, "12.6")),
        ("requirements-exported.txt", LINUX, CUDA_128),
        ("requirements-exported.txt", WINDOWS, ("2.7.1+cpu", Accelerator.CPU, "None")),
        ("requirements-torch-index.txt", LINUX, ("2.1.0", Accelerator.CUDA, "12.1")),
        ("requirements-extra-index.txt", LINUX, ("2.1.0", None, "None")),
        ("requirements-labels.txt", LINUX, CUDA_128),
        ("requirements-urls.txt", LINUX, ("2.7.1+cu126", Accelerator.CUDA, "12.6")),
        ("requirements-annotated.txt", LINUX, ("2.5.1", Accelerator.CUDA, "12.4")),
        ("requirements-open.txt", LINUX, NOT_TOLD),
    ],
)
def test_torch_build_behind_a_lock(
    name: str, target: LockfileTarget, expected: tuple[str, Accelerator | None, str]
) -> None:
    assert torch_words(lock(name, target).environment) == expected


@pytest.mark.parametrize(
    ("name", "manager"),
    [
        ("uv_plain/uv.lock", Manager.UV_PROJECT),
        ("poetry_markers/poetry.lock", Manager.POETRY),
        ("pdm/pdm.lock", Manager.PDM),
        ("pylock.markers.toml", Manager.UV),
        ("pylock.toml", Manager.PIP),
        ("requirements-labels.txt", Manager.PIP),
    ],
)
def test_manager_is_whose_lock_it_is(name: str, manager: Manager) -> None:
    assert lock(name).environment.manager is manager


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("uv_markers/uv.lock", 83),
        ("poetry_markers/poetry.lock", 84),
        ("pdm/pdm.lock", 36),
        ("pylock.markers.toml", 62),
        ("requirements-exported.txt", 30),
        ("requirements-urls.txt", 1),
    ],
)
def test_entries_carry_their_line(name: str, line: int) -> None:
    torch = lock(name).environment.distribution("torch")
    assert torch is not None
    assert torch.line == line
    text = (SAMPLES / "locks" / name).read_text().splitlines()
    assert text[line - 1].startswith(("[[package", "torch"))


def test_wheel_for_the_target_and_index_are_stated() -> None:
    torch = lock("uv_markers/uv.lock", ARM).environment.distribution("torch")
    assert torch is not None
    assert torch.index_url == "https://download.pytorch.org/whl/cu128"
    assert torch.url == (
        "https://download.pytorch.org/whl/cu128/"
        "torch-2.7.1%2Bcu128-cp312-cp312-manylinux_2_28_aarch64.whl"
    )


def test_plain_index_is_left_to_the_platforms_default() -> None:
    environment = lock("uv_plain/uv.lock").environment
    assert environment.torch is not None
    assert environment.torch.index_url is None
    torch = environment.distribution("torch")
    assert torch is not None
    assert torch.index_url == "https://index.example/simple"


def test_extras_are_named_where_torch_is_in_no_default_selection() -> None:
    for name in ("uv_extras/uv.lock", "poetry_extras/poetry.lock"):
        found = lock(name)
        (gap,) = [gap for gap in found.gaps if gap.fact == "environment.torch"]
        assert gap.reason is GapReason.NOT_ASKED
        assert "2.7.1+cpu with extra cpu" in gap.detail
        assert "2.7.1+cu128 with extra cu128" in gap.detail
        versions = [str(d.version) for d in found.environment.distributions or ()]
        assert "2.7.1+cpu" in versions
        assert "2.7.1+cu128" in versions


def test_alternatives_are_named_where_the_platform_is_not_stated() -> None:
    found = lock("pylock.markers.toml", NOWHERE)
    (gap,) = [gap for gap in found.gaps if gap.fact == "environment.torch"]
    assert gap.reason is GapReason.NOT_ASKED
    assert '2.7.1+cu128 (line 62, sys_platform == "linux")' in gap.detail


def test_same_build_on_every_platform_needs_none_stated() -> None:
    text = "torch==2.7.1+cu128 ; sys_platform == 'linux'\ntorch==2.7.1+cu128\n"
    environment = load_lockfile("r.txt", text).environment
    assert environment.torch is not None
    assert environment.torch.cuda == CudaVersion(12, 8)


def test_other_platforms_only_is_absent() -> None:
    found = lock("pdm/pdm.lock", WINDOWS)
    assert found.environment.torch is None
    gap = next(gap for gap in found.gaps if gap.fact == "environment.torch")
    assert gap.reason is GapReason.ABSENT
    assert "none of them for windows-x86_64" in gap.detail


def test_missing_wheel_for_the_target_is_a_gap() -> None:
    found = lock("pdm/pdm.lock", ARM)
    gap = next(g for g in found.gaps if g.fact == "environment.distributions[torch].url")
    assert gap.reason is GapReason.ABSENT
    assert "linux-aarch64" in gap.detail


def test_python_that_the_lock_does_not_admit_is_a_mismatch() -> None:
    target = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.9"))
    gap = next(
        g for g in lock("uv_plain/uv.lock", target).gaps if g.fact == "environment.interpreter"
    )
    assert gap.reason is GapReason.MISMATCH


def test_dependencies_of_another_processor_are_left_out() -> None:
    names = [d.name for d in lock("uv_markers/uv.lock", ARM).environment.distributions or ()]
    assert names == ["deepspeed", "filelock", "numpy", "torch"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_environments_survive_their_document(path: Path) -> None:
    environment = load_lockfile(path.name, path.read_text(), target=LINUX).environment
    document = json.loads(json.dumps(to_dict(environment)))
    assert from_dict(Environment, document, "x") == environment


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("environment.yml", "environment.yml:2: indented otherwise"),
        ("envs/conda-lock.yml", "envs/conda-lock.yml: conda-lock's own format is not read"),
        ("Pipfile.lock", "Pipfile.lock: Pipenv's lockfiles are not read yet"),
        ("some.toml", "some.toml: not a lockfile that is understood"),
        ("cargo.lock", "cargo.lock: not a lockfile that is understood"),
    ],
)
def test_other_files_are_refused_by_name(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_lockfile(name, "[tool]\nx = 1\n")


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("uv_plain/uv.lock", "frozen.toml"),
        ("poetry_markers/poetry.lock", "frozen.lock"),
        ("pdm/pdm.lock", "frozen.lock"),
        ("pylock.toml", "frozen.toml"),
    ],
)
def test_content_tells_where_the_name_does_not(sample: str, name: str) -> None:
    text = (SAMPLES / "locks" / sample).read_text()
    renamed = load_lockfile(name, text, target=LINUX).environment
    assert renamed.distributions == lock(sample).environment.distributions


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("uv.lock", True),
        ("envs/pylock.gpu.toml", True),
        ("requirements.txt", True),
        ("environment.yml", True),
        ("torch==2.7.1+cu128", False),
        ("torch", False),
        ("torch @ https://index.example/torch.txt", False),
    ],
)
def test_words_that_look_like_lockfiles(word: str, expected: bool) -> None:
    assert looks_like_lockfile(word) is expected


def test_a_large_lock_is_refused() -> None:
    with pytest.raises(InputError, match=r"uv\.lock: larger than 32 MiB"):
        load_lockfile("uv.lock", "#" * (33 * 1024 * 1024))


def test_unlabelled_wheel_of_a_cuda_index_is_the_default_build() -> None:
    """The folders for CUDA hold the plain wheels of processors without such a build."""
    index = "https://download.pytorch.org/whl/cu121"
    wheel = f"{index}/torch-2.3.0-cp312-cp312-manylinux2014_aarch64.whl"
    text = f"""version = 1
requires-python = ">=3.12"
[[package]]
name = "torch"
version = "2.3.0"
source = {{ registry = "{index}" }}
wheels = [{{ url = "{wheel}" }}]
"""
    found = load_lockfile("uv.lock", text, target=ARM)
    assert torch_words(found.environment) == ("2.3.0", None, "None")
    assert found.environment.torch is not None
    assert found.environment.torch.index_url is None  # the tables tell what that is


def uv_lock(bounds: str) -> str:
    return f"""version = 1
{bounds}
[[package]]
name = "torch"
version = "2.6.0+cu126"
source = {{ registry = "https://download.pytorch.org/whl/cu126" }}
"""


@pytest.mark.parametrize(
    ("bounds", "fact"),
    [
        ('requires-python = "==3.11.*"', "environment.interpreter"),
        (
            """requires-python = ">=3.10"\nsupported-markers = ["python_full_version < '3.11'"]""",
            "environment.interpreter",
        ),
        (
            """requires-python = ">=3.10"\nresolution-markers = ["sys_platform == 'win32'"]""",
            "environment.platform",
        ),
    ],
)
def test_bounds_of_a_uv_lock_that_leave_the_target_out(bounds: str, fact: str) -> None:
    found = load_lockfile("uv.lock", uv_lock(bounds), target=LINUX)
    gap = next(gap for gap in found.gaps if gap.fact == fact)
    assert gap.reason is GapReason.MISMATCH
    inside = uv_lock(
        bounds.replace("3.11", "3.12").replace("< '3.12'", "<'4'").replace("win32", "linux")
    )
    assert not [g for g in load_lockfile("uv.lock", inside, target=LINUX).gaps if g.fact == fact]
