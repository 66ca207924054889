"""What an installer takes today of requirements that leave the release open."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from envguard.facts.facts import Facts
from envguard.facts.machine import Host, Machine, Platform
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile
from envguard.matrix.complete import complete_facts
from envguard.matrix.loader import Matrix
from envguard.matrix.picks import holds_torch

if TYPE_CHECKING:
    from envguard.facts.environment import Environment


@cache
def tables() -> Matrix:
    return Matrix.load()


def settled(text: str, platform: str = "linux-x86_64") -> Environment:
    on = Platform.parse(platform)
    found = load_lockfile("r.txt", text, target=LockfileTarget(on))
    facts = Facts(machine=Machine(host=Host(platform=on)), environment=found.environment)
    environment = complete_facts(facts, tables()).environment
    assert environment is not None
    return environment


def torch(text: str, platform: str = "linux-x86_64") -> tuple[str, str]:
    build = settled(text, platform).torch
    assert build is not None
    backend = build.backend
    return str(build.version), backend.label if backend else ""


CU124 = "https://download.pytorch.org/whl/cu124"
NEWEST = str(max(release.version for release in Matrix.load().torch.releases))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch\nxformers==0.0.21\n", ("2.0.1", "cu117")),
        ("torch>=2.1,<2.7\n", ("2.6.0", "cu124")),
        ("torch==2.4.*\n", ("2.4.1", "cu121")),
        (
            "torch==2.9.0\n--extra-index-url https://download.pytorch.org/whl/cu130\n",
            ("2.9.0", "cu130"),
        ),
        # an index without a build of the release is passed over
        (
            "torch==2.9.0\n--extra-index-url https://download.pytorch.org/whl/cu118\n",
            ("2.9.0", "cu128"),
        ),
        (
            "torch==2.4.1\n--extra-index-url https://download.pytorch.org/whl/cpu\n",
            ("2.4.1", "cpu"),
        ),
        # two indexes with builds of it: which one is taken is not told
        (
            f"torch==2.4.1\n--extra-index-url {CU124}\n--extra-index-url {CU124[:-3]}118\n",
            ("2.4.1", ""),
        ),
        (f"torch\n--index-url {CU124}\n", ("2.6.0", "cu124")),
        (
            "torch==2.1.0\n--find-links https://team.github.io/index/whl/cu118/\n",
            ("2.1.0", "cu121"),
        ),
        ("vllm==0.6.3\ntorch\n", ("2.4.0", "cu121")),
        ("vllm<0.6.4\n", ("2.4.0", "cu121")),
        ("torchvision<0.20\ntorch\n", ("2.4.1", "cu121")),
        ("bitsandbytes\ntorch<2.5\n", ("2.4.1", "cu121")),
    ],
)
def test_the_torch_that_comes(text: str, expected: tuple[str, str]) -> None:
    assert torch(text) == expected


@pytest.mark.parametrize(
    ("platform", "text", "backend"),
    [
        ("windows-x86_64", "torch==2.4.1\n", "cpu"),
        ("windows-x86_64", f"torch==2.5.1\n--index-url {CU124}\n", "cu124"),
        ("windows-x86_64", f"torch==2.5.1\n--extra-index-url {CU124}\n", "cu124"),
        ("linux-aarch64", "torch==2.4.1\n", "cpu"),
        ("linux-aarch64", f"torch==2.3.0\n--extra-index-url {CU124[:-3]}121\n", "cpu"),
    ],
)
def test_the_default_build_of_a_platform_is_known(platform: str, text: str, backend: str) -> None:
    assert torch(text, platform)[1] == backend


def test_a_torch_that_no_line_names_is_brought_along() -> None:
    assert torch("accelerate==1.0.0\n")[0] == NEWEST
    assert settled("requests\n").torch is None
    assert settled("numpy\n").torch is None


def test_the_domain_libraries_follow_a_pinned_torch() -> None:
    environment = settled("torch==2.4.1+cu118\ntorchvision\ntorchaudio\nxformers\n")
    versions = {d.name: str(d.version) for d in environment.distributions or ()}
    assert versions == {
        "torch": "2.4.1+cu118",
        "torchvision": "0.19.1+cu118",
        "torchaudio": "2.4.1+cu118",
        "xformers": "0.0.28.post1+cu118",
    }


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", NEWEST),
        ("python:3.12-slim", NEWEST),
        ("ghcr.io/astral-sh/uv:python3.12-bookworm", NEWEST),
        ("team/pytorch:th2.6.0-cu124-devel", "None"),
        ("registry.example:5000/base", "None"),
        ("nvcr.io/nvidia/pytorch:24.05-py3", "2.4.0a0"),
    ],
)
def test_an_image_may_hold_the_torch_already(image: str, expected: str) -> None:
    on = Platform.parse("linux-x86_64")
    text = f"FROM {image}\nRUN pip install torch accelerate\n"
    found = load_lockfile("Dockerfile", text, target=LockfileTarget(on))
    facts = Facts(machine=Machine(host=Host(platform=on)), environment=found.environment)
    environment = complete_facts(facts, tables()).environment
    assert environment is not None
    assert environment.torch is not None
    assert str(environment.torch.version) == expected


def test_lines_of_a_script_follow_each_other() -> None:
    """The last package that requires one torch brings it, whatever an earlier one brought."""
    text = "pip install xformers==0.0.28\npip install vllm==0.6.4\n"
    found = load_lockfile("x.sh", text, target=LockfileTarget(Platform.parse("linux-x86_64")))
    environment = complete_facts(Facts(environment=found.environment), tables()).environment
    assert environment is not None
    assert environment.torch is not None
    assert str(environment.torch.version) == "2.5.1"


def test_project_pages_hold_their_own_wheels() -> None:
    assert holds_torch("https://download.pytorch.org/whl/cu118")
    assert not holds_torch("https://team.github.io/autogptq-index/whl/cu118/")
