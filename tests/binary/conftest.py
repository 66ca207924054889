"""What the tests of compiled files share."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.binary.build import Workshop
from tests.binary.torchlike import TorchLike, make_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SITE = "python3.11/site-packages"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A folder to compile in."""
    folder = tmp_path / "workshop"
    folder.mkdir()
    return Workshop(folder)


@pytest.fixture(scope="session")
def torches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """Compiles a torch-like package for a C++ ABI, each once; the answer is its site folder."""
    made: dict[bool, Path] = {}

    def make(new_abi: bool) -> Path:
        if new_abi not in made:
            site = tmp_path_factory.mktemp("torch") / "site"
            made[new_abi] = make_torch(site, new_abi=new_abi).site
        return made[new_abi]

    return make


@pytest.fixture
def torch(tmp_path: Path, torches: Callable[[bool], Path]) -> TorchLike:
    """A torch-like package of the new C++ ABI in a site folder of its own."""
    return copy_torch(torches(True), tmp_path / SITE)


@pytest.fixture
def old_torch(tmp_path: Path, torches: Callable[[bool], Path]) -> TorchLike:
    """Likewise of the old one."""
    return copy_torch(torches(False), tmp_path / "old" / SITE)


def copy_torch(source: Path, site: Path) -> TorchLike:
    """Its search paths are relative, so a copy works like the first."""
    shutil.copytree(source, site)
    return TorchLike(Workshop(site), site / "torch")
