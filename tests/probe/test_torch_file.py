"""torch/version.py, read as text."""

from __future__ import annotations

import pytest

from envguard.facts.environment import Accelerator
from envguard.facts.versions import CudaVersion
from envguard.probe.torch_file import build_of, parse_version_file

FILES = [
    ("__version__ = '2.7.1+cu128'\ncuda = '12.8'\nhip = None\n", Accelerator.CUDA, "12.8"),
    ("__version__ = '1.13.1'\ncuda: Optional[str] = '11.7'\n", Accelerator.CUDA, "11.7"),
    ('__version__ = "2.13.0+cpu"\ncuda: Optional[str] = None\n', Accelerator.CPU, None),
    ("__version__ = '2.6.0+rocm6.2'\ncuda = None\nhip = '6.2.41133'\n", Accelerator.ROCM, None),
    ("__version__ = '2.8.0+xpu'\ncuda = None\nxpu = '20250101'\n", Accelerator.XPU, None),
    ("__version__ = '2.5.0+cu121'\n", Accelerator.CUDA, None),
    ("__version__ = '2.5.0'\n", None, None),
]


@pytest.mark.parametrize(("text", "accelerator", "cuda"), FILES)
def test_builds_are_told_apart(
    text: str, accelerator: Accelerator | None, cuda: str | None
) -> None:
    build = build_of(parse_version_file(text), "/site/torch")
    assert build is not None
    assert build.accelerator is accelerator
    assert build.cuda == (CudaVersion.parse(cuda) if cuda else None)
    assert build.location == "/site/torch"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__version__ = compute()\n",
        "__version__ = None\n",
        "__version__ = 'not a version'\n",
        "    __version__ = '2.7.1'\n",
        "x__version__ = '2.7.1'\n",
        "__version__ == '2.7.1'\n",
        "__version__ = " + "(" * 5000 + "\n",
        "__version__ = '2.7.1\n",
        "__version__ = {[]: 1}\n",
        "__version__ = " + "-" * 30_000 + "1\n",
    ],
)
def test_a_file_without_a_literal_version_says_nothing(text: str) -> None:
    assert build_of(parse_version_file(text), "/site/torch") is None


def test_what_is_computed_is_left_out() -> None:
    found = parse_version_file("__version__ = '2.7.1'\ncuda = get()\ndebug = False\n")
    assert found == {"__version__": "2.7.1"}


def test_half_characters_are_replaced() -> None:
    found = parse_version_file("__version__ = '2.7.1'\ngit_version = '\\ud800'\n")
    assert found == {"__version__": "2.7.1", "git_version": "?"}
