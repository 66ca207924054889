"""Resolutions that fail, and settings around uv that must not change the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envguard.errors import NetworkError, ToolError
from envguard.lock.complaints import UnsolvableError
from envguard.lock.resolve import resolve
from envguard.lock.uv import find_uv
from tests.lock.problems import asking, origins, versions
from tests.loopback.files import wheel
from tests.loopback.index import Trouble

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.lock.project import Problem
    from envguard.lock.uv import Uv
    from tests.loopback.index import LoopbackIndex


def test_unreachable_index_is_named(problem: Problem, fresh_uv: Uv) -> None:
    gone = replace(problem, torch_index="http://127.0.0.1:9/whl/cu126")
    with pytest.raises(NetworkError) as caught:
        resolve(gone, fresh_uv)
    assert caught.value.message.startswith(
        "index cannot be read: http://127.0.0.1:9/whl/cu126/torch/: Connection refused"
    )


@pytest.mark.parametrize(
    ("prefix", "trouble", "said"),
    [
        ("/whl", Trouble.BROKEN, "/whl/cu126/torch/: it answers 500 Internal Server Error"),
        ("/whl", Trouble.DROPPED, "/whl/cu126/torch/: connection closed before message completed"),
        ("/whl", Trouble.TRUNCATED, "/whl/cu126/torch/: end of file before message length reached"),
        ("/whl", Trouble.GARBAGE, "/whl/cu126/torch/: expected value at line 1 column 1"),
        ("/whl", Trouble.UNAUTHORIZED, "/whl/cu126 refuses access: 401 Unauthorized"),
        ("/simple", Trouble.BROKEN, "it answers 500 Internal Server Error"),
        ("/simple", Trouble.UNAUTHORIZED, "/simple refuses access: 401 Unauthorized"),
    ],
)
def test_index_in_trouble_is_a_network_error(
    problem: Problem,
    fresh_uv: Uv,
    index: LoopbackIndex,
    prefix: str,
    trouble: Trouble,
    said: str,
) -> None:
    with index.trouble(prefix, trouble), pytest.raises(NetworkError) as caught:
        resolve(problem, fresh_uv)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_slow_index_is_a_network_error(
    problem: Problem, environ: dict[str, str], index: LoopbackIndex, tmp_path: Path
) -> None:
    hasty = {**environ, "UV_HTTP_TIMEOUT": "1", "UV_CACHE_DIR": str(tmp_path)}
    with index.trouble("/whl", Trouble.SLOW), pytest.raises(NetworkError, match="timed out"):
        resolve(problem, find_uv(hasty))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nosuch",), "nosuch was not found in the package registry"),
        (("modern", "ancient"), "numpy<2"),
        (("modern", "ancient"), "numpy>=2"),
        (("winonly",), "winonly==1.0 has no wheels with a matching platform tag"),
        (("onlypy311",), "onlypy311==1.0 has no wheels with a matching Python ABI tag"),
    ],
)
def test_impossible_request_says_why_in_one_line(
    problem: Problem, uv: Uv, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UnsolvableError) as caught:
        resolve(asking(problem, *words), uv)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert "envguard-lock" not in caught.value.message


def test_offline_without_cache_says_so(problem: Problem, fresh_uv: Uv) -> None:
    with pytest.raises(NetworkError, match=r"offline: torch is not in uv's cache"):
        resolve(replace(problem, is_offline=True), fresh_uv)


def test_offline_with_cache_gives_the_same_pins(problem: Problem, fresh_uv: Uv) -> None:
    online = resolve(problem, fresh_uv)
    assert resolve(replace(problem, is_offline=True), fresh_uv) == online


def test_settings_of_the_user_other_than_indexes_change_nothing(
    problem: Problem, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text(
        'no-sources = true\nresolution = "lowest"\n[pip]\nno-sources = true\n'
        'resolution = "lowest"\npython-platform = "windows"\n'
    )
    settings = {"UV_RESOLUTION": "lowest", "UV_TORCH_BACKEND": "cpu", "UV_NO_SOURCES": "1"}
    odd = find_uv({**environ, "XDG_CONFIG_HOME": str(tmp_path), **settings})
    pins = resolve(asking(problem, "timm"), odd)
    assert origins(pins, problem) == {"torch", "torchvision", "triton"}
    assert versions(pins)["numpy"] == "2.4.1"


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_index_that_uv_is_configured_to_use_is_used(
    problem: Problem, environ: dict[str, str], index: LoopbackIndex, variable: str
) -> None:
    configured = find_uv({**environ, variable: index.default})
    pins = resolve(replace(problem, default_index=None), configured)
    assert {pin.index_url for pin in pins} == {index.default, problem.torch_index}


def test_index_in_the_users_uv_toml_is_used(
    problem: Problem, environ: dict[str, str], index: LoopbackIndex, tmp_path: Path
) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text(f'[[index]]\nurl = "{index.default}"\ndefault = true\n')
    configured = find_uv({**environ, "XDG_CONFIG_HOME": str(tmp_path)})
    pins = resolve(replace(problem, default_index=None), configured)
    assert {pin.index_url for pin in pins} == {index.default, problem.torch_index}


def test_answer_does_not_depend_on_configuration_being_read(
    problem: Problem, environ: dict[str, str]
) -> None:
    bounds = (Requirement("torchaudio==2.11.0"),)
    asked = replace(asking(problem, "torchaudio", "timm"), family_bounds=bounds)
    bare = find_uv({**environ, "UV_NO_CONFIG": "1"})
    assert resolve(asked, bare) == resolve(asked, find_uv(environ))


def test_project_around_the_working_directory_is_not_seen(
    problem: Problem, uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\nversion = "0"\n[tool.uv]\nno-sources = true\noffline = true\n'
        'constraint-dependencies = ["numpy<2"]\n'
    )
    monkeypatch.chdir(tmp_path)
    pins = resolve(asking(problem, "timm"), uv)
    assert versions(pins)["numpy"] == "2.4.1"


def test_package_from_a_local_folder_says_where_it_lies(
    problem: Problem, environ: dict[str, str], tmp_path: Path
) -> None:
    local = wheel("only-here", "1.0")
    assert local.content is not None
    (tmp_path / local.filename).write_bytes(local.content)
    with_folder = find_uv({**environ, "UV_FIND_LINKS": str(tmp_path)})
    pins = {pin.name: pin for pin in resolve(asking(problem, "only-here"), with_folder)}
    pin = pins[canonicalize_name("only-here")]
    assert pin.index_url == tmp_path.as_uri()
    assert pin.artifacts[0].sha256 == local.sha256


def test_project_that_uv_ignores_is_found_out(
    problem: Problem, tmp_path: Path, environ: dict[str, str]
) -> None:
    """A uv that takes everything from the default index must not produce a lock."""
    program = tmp_path / "uv"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "uv 99.0.0" && exit\n'
        "printf 'torch==2.14.1+cu126\\n    # from http://127.0.0.1:9/simple\\n'"
        " > requirements.txt\n"
    )
    program.chmod(0o755)
    with pytest.raises(ToolError) as caught:
        resolve(problem, find_uv(environ, stated=program))
    assert "torch 2.14.1+cu126 comes from http://127.0.0.1:9/simple" in caught.value.message
