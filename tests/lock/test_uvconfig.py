"""Settings files of uv without the one setting that leads to another torch index."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.lock.resolve import resolve
from envguard.lock.uv import default_index, find_uv, without_torch_backend
from tests.lock.problems import asking, origins

if TYPE_CHECKING:
    from envguard.lock.project import Problem
    from tests.loopback.index import LoopbackIndex


def settings(folder: Path, text: str) -> dict[str, str]:
    (folder / "uv").mkdir(parents=True, exist_ok=True)
    (folder / "uv" / "uv.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(folder), "XDG_CONFIG_DIRS": str(folder / "none")}


def test_settings_without_it_are_left_alone(tmp_path: Path) -> None:
    variables = settings(tmp_path, '[pip]\nresolution = "lowest"\n')
    assert without_torch_backend(variables, tmp_path) is variables
    assert without_torch_backend({}, tmp_path) == {}


def test_everything_else_is_kept(tmp_path: Path) -> None:
    own = settings(
        tmp_path / "own",
        '[pip]\ntorch-backend = "auto"\nresolution = "lowest"\n'
        '[[index]]\nurl = "https://own.example"\n',
    )
    system = tmp_path / "system"
    settings(
        system,
        'offline = true\n[pip]\nresolution = "highest"\nno-header = true\n'
        '[[index]]\nurl = "https://system.example"\n',
    )
    found = without_torch_backend({**own, "XDG_CONFIG_DIRS": str(system)}, tmp_path)
    assert tomllib.loads(Path(found["UV_CONFIG_FILE"]).read_text()) == {
        "pip": {"resolution": "lowest", "no-header": True},
        "index": [{"url": "https://own.example"}, {"url": "https://system.example"}],
        "offline": True,
    }


def test_stated_settings_file_is_the_only_one(tmp_path: Path) -> None:
    ignored = settings(tmp_path, '[pip]\ntorch-backend = "cu128"\n')
    stated = tmp_path / "stated.toml"
    stated.write_text("offline = true\n")
    variables = {**ignored, "UV_CONFIG_FILE": str(stated)}
    assert without_torch_backend(variables, tmp_path) is variables
    stated.write_text('[pip]\ntorch-backend = "cu128"\n')
    assert without_torch_backend(variables, tmp_path) is not variables
    assert (
        without_torch_backend({**variables, "UV_NO_CONFIG": "1"}, tmp_path)["UV_NO_CONFIG"] == "1"
    )


@pytest.mark.parametrize("text", ["{", "pip = 3\n"])
def test_settings_that_are_broken_are_uvs_to_complain_about(tmp_path: Path, text: str) -> None:
    variables = settings(tmp_path, text)
    assert without_torch_backend(variables, tmp_path) is variables


def test_resolution_asks_no_other_torch_index(
    problem: Problem, environ: dict[str, str], index: LoopbackIndex, tmp_path: Path
) -> None:
    """With the setting, uv would ask download.pytorch.org, which is out of reach here."""
    text = '[pip]\ntorch-backend = "cu128"\n[[index]]\ndefault = true\n'
    odd = settings(tmp_path, f'{text}url = "{index.default}"\n')
    uv = find_uv({**environ, **odd, "UV_CACHE_DIR": str(tmp_path / "cache")})
    pins = resolve(replace(asking(problem, "timm"), default_index=None), uv)
    assert origins(pins, problem) == {"torch", "torchvision", "triton"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[[index]]\nurl = "https://a.example"\ndefault = true\n', "https://a.example"),
        ('[[index]]\nurl = "https://a.example"\n', None),
        ('index-url = "https://b.example"\n', "https://b.example"),
        ('[pip]\nindex-url = "https://c.example"\n', "https://c.example"),
        ('index = "nonsense"\npip = 3\n', None),
        ("", None),
    ],
)
def test_default_index_is_read_from_the_settings(
    tmp_path: Path, text: str, found: str | None
) -> None:
    (tmp_path / "uv.toml").write_text(text)
    variables = {"UV_CONFIG_FILE": str(tmp_path / "uv.toml")}
    assert default_index(variables) == found
    assert default_index({**variables, "UV_NO_CONFIG": "1"}) is None
    stated = {**variables, "UV_DEFAULT_INDEX": "https://d.example"}
    assert default_index(stated) == "https://d.example"
