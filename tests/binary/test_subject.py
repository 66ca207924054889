from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envguard.binary.inspected import InspectedEnvironment


def subject(
    folder: Path, torch: Path | None = None, executable: Path | None = None
) -> InspectedEnvironment:
    return InspectedEnvironment((folder,), torch, {}, executable)


@pytest.mark.parametrize(
    ("folder", "tag"),
    [
        ("/env/lib/python3.11/site-packages", "311"),
        ("/env/lib/python3.13t/site-packages", "313t"),
        ("/env/site", None),
    ],
)
def test_the_interpreter_is_told_from_the_folder(folder: str, tag: str | None) -> None:
    assert subject(Path(folder)).python_tag == tag


def test_the_interpreter_is_told_from_torchs_own_extension(tmp_path: Path) -> None:
    (tmp_path / "_C.cpython-312-x86_64-linux-gnu.so").write_bytes(b"")
    assert subject(Path("/env/site"), tmp_path).python_tag == "312"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from typing import Optional\ncuda: Optional[str] = '12.1'\n", "cu121"),
        ('cuda = "13.0"\n', "cu130"),
        ("cuda: Optional[str] = None\n", "cpu"),
        ("", "cpu"),
    ],
)
def test_how_torch_names_its_cuda_release(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "version.py").write_text(text)
    assert subject(tmp_path, tmp_path).torch_cuda == name


def test_the_processor_is_that_of_the_interpreter(tmp_path: Path) -> None:
    own = subject(tmp_path, executable=Path(sys.executable)).machine
    assert own in {"x86_64", "aarch64"}
    assert subject(tmp_path).machine == own
    assert subject(tmp_path, executable=tmp_path / "gone").machine == own
