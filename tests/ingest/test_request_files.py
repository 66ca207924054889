"""Requirements out of any file that states some."""

from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.ingest.request_files import read_request_file


def asked(text: str, name: str) -> list[str]:
    found = read_request_file(text, name).statements
    return [f"{said.option} {said.text}".strip() for said in found]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("requirements.txt", "torch<3\n--pre\n", ["torch<3", "--pre"]),
        ("a/pyproject.toml", '[project]\ndependencies = ["torch<3"]\n', ["torch<3"]),
        ("setup.cfg", "[options]\ninstall_requires = torch<3\n", ["torch<3"]),
        ("Dockerfile", "FROM x\nRUN pip install 'torch<3'\n", ["torch<3"]),
        ("install.sh", "uv add 'torch<3'\n", ["torch<3"]),
        (
            "environment.yml",
            "dependencies:\n- python=3.10\n- pytorch=2.1.0\n- numpy=1.26\n- pip:\n  - x\n",
            ["torch==2.1.0", "numpy==1.26.*", "x"],
        ),
    ],
)
def test_every_kind_comes_down_to_lines(name: str, text: str, expected: list[str]) -> None:
    assert asked(text, name) == expected


def test_the_form_of_pip_is_said_of_condas_files() -> None:
    found = read_request_file(
        "dependencies:\n- python=3.10\n- pytorch\n- cudatoolkit=11.8\n", "e.yml"
    )
    assert found.notes == (
        "e.yml is conda's: what it asks for is locked in the form of pip",
        "left out, because pip has none: cudatoolkit, python",
    )


def test_setup_py_is_not_run() -> None:
    with pytest.raises(InputError, match=r"setup\.py is not run"):
        read_request_file("import os", "setup.py")
