"""Resolutions by the real uv against loopback indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import NetworkError, ToolError
from envguard.lock.companions import torch_family
from envguard.lock.failures import UnsolvableError
from envguard.lock.request import Target
from envguard.lock.resolve import Problem, resolve
from envguard.lock.runner import find_uv
from tests.lock.conftest import LINUX
from tests.loopback.files import wheel
from tests.loopback.index import Trouble

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.lock.pins import Pin
    from envguard.lock.runner import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

TRITON = canonicalize_name("triton")


@pytest.fixture
def problem(index: LoopbackIndex, matrix: Matrix) -> Problem:
    return Problem(
        requirements=(Requirement("torch==2.14.1+cu126"),),
        torch_index=f"{index.address}/whl/cu126",
        target=Target(LINUX, Version("3.12"), Version("2.31")),
        family=torch_family(matrix),
        default_index=index.default,
    )


def asking(problem: Problem, *words: str) -> Problem:
    return replace(
        problem, requirements=(*problem.requirements, *(Requirement(word) for word in words))
    )


def versions(pins: tuple[Pin, ...]) -> dict[str, str]:
    return {pin.name: str(pin.version) for pin in pins}


def origins(pins: tuple[Pin, ...], problem: Problem) -> set[str]:
    """Names of the packages that come from the torch index."""
    return {pin.name for pin in pins if pin.index_url == problem.torch_index}


def test_family_comes_from_its_index_and_nothing_else_does(
    problem: Problem, uv: Uv, index: LoopbackIndex
) -> None:
    # The torch index offers requests, filelock and numpy 99, the default index torch and triton.
    pins = resolve(asking(problem, "timm", "requests"), uv)
    assert origins(pins, problem) == {"torch", "torchvision", "triton"}
    assert versions(pins) == {
        "filelock": "3.20.0",
        "fsspec": "2026.3.0",
        "jinja2": "3.1.6",
        "networkx": "3.6.1",
        "numpy": "2.4.1",
        "nvidia-cublas-cu12": "12.6.4.1",
        "nvidia-cuda-runtime-cu12": "12.6.77",
        "nvidia-cudnn-cu12": "9.10.2.21",
        "nvidia-nccl-cu12": "2.27.3",
        "pillow": "12.1.0",
        "pyyaml": "6.0.4",
        "requests": "2.34.2",
        "sympy": "1.14.0",
        "timm": "1.0.20",
        "torch": "2.14.1+cu126",
        "torchvision": "0.29.1+cu126",
        "triton": "3.8.0",
        "typing-extensions": "4.16.0",
    }
    assert {pin.index_url for pin in pins} == {index.default, problem.torch_index}


def test_published_wheel_keeps_its_published_hash(problem: Problem, uv: Uv) -> None:
    older = replace(problem, requirements=(Requirement("torch==2.8.0+cu126"),))
    pins = {pin.name: pin for pin in resolve(older, uv)}
    (artifact,) = pins[canonicalize_name("torch")].artifacts
    assert artifact.filename == "torch-2.8.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert artifact.url.endswith(
        "/whl/cu126/torch-2.8.0%2Bcu126-cp312-cp312-manylinux_2_28_x86_64.whl"
    )
    assert artifact.sha256 == "ce6e6a1f4803ad62d1fe51cec3fe5ca14bcd8bc7cace7b09d5590f8147fa16ad"


def test_expected_companion_that_nothing_needs_is_left_out(problem: Problem, uv: Uv) -> None:
    pins = resolve(replace(problem, companions=frozenset({canonicalize_name("torchaudio")})), uv)
    assert "torchaudio" not in versions(pins)
    assert "triton" in origins(pins, problem)


def test_expected_companion_saves_the_default_index_a_question(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    index.forget()
    resolve(replace(problem, companions=frozenset({TRITON})), fresh_uv)
    assert "/whl/cu126/triton/" in index.paths
    assert "/simple/triton/" not in index.paths


def test_triton_may_come_from_elsewhere_where_a_mirror_lacks_it(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    with index.trouble("/whl/cu126/triton", Trouble.MISSING):
        pins = resolve(replace(problem, companions=frozenset({TRITON})), fresh_uv)
    assert origins(pins, problem) == {"torch"}
    assert versions(pins)["triton"] == "3.8.0"


def test_torchvision_may_not_come_from_elsewhere(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    with (
        index.trouble("/whl/cu126/torchvision", Trouble.MISSING),
        pytest.raises(UnsolvableError, match="torchvision was not found"),
    ):
        resolve(asking(problem, "timm"), fresh_uv)


def test_bounds_on_the_family_hold_only_where_the_family_comes_from(
    problem: Problem, uv: Uv
) -> None:
    bounds = (Requirement("torchvision==0.29.1+cu126"), Requirement("torchaudio==2.11.0+cu126"))
    pins = resolve(replace(asking(problem, "timm", "torchaudio"), family_bounds=bounds), uv)
    assert versions(pins)["torchvision"] == "0.29.1+cu126"
    assert versions(pins)["torchaudio"] == "2.11.0+cu126"


def test_constraints_bound_what_comes_along(problem: Problem, uv: Uv) -> None:
    constrained = replace(asking(problem, "timm"), constraints=(Requirement("numpy<2"),))
    assert versions(resolve(constrained, uv))["numpy"] == "1.26.4"


@pytest.mark.parametrize(("glibc", "version"), [("2.31", "1.0"), ("2.35", "2.0")])
def test_wheels_run_on_the_glibc_of_the_target(
    problem: Problem, uv: Uv, glibc: str, version: str
) -> None:
    target = Target(LINUX, Version("3.12"), Version(glibc))
    pins = resolve(replace(asking(problem, "newglibc"), target=target), uv)
    assert versions(pins)["newglibc"] == version


@pytest.mark.parametrize(
    ("platform", "python", "tags"),
    [
        ("linux-aarch64", "3.13", "cp313-cp313-manylinux_2_28_aarch64"),
        ("windows-x86_64", "3.11", "cp311-cp311-win_amd64"),
    ],
)
def test_other_platforms_and_pythons_are_locked_from_here(
    problem: Problem, uv: Uv, platform: str, python: str, tags: str
) -> None:
    target = Target(LINUX.parse(platform), Version(python))
    pins = {pin.name: pin for pin in resolve(replace(problem, target=target), uv)}
    (artifact,) = pins[canonicalize_name("torch")].artifacts
    assert artifact.filename == f"torch-2.14.1+cu126-{tags}.whl"
    assert ("triton" in pins) == platform.startswith("linux")


def test_source_distribution_tells_what_it_needs(problem: Problem, uv: Uv) -> None:
    pins = {pin.name: pin for pin in resolve(asking(problem, "deepspeed"), uv)}
    (artifact,) = pins[canonicalize_name("deepspeed")].artifacts
    assert artifact.filename == "deepspeed-0.19.8.tar.gz"
    assert "hjson" in pins


def test_source_that_needs_torch_to_say_what_it_needs_is_one_clear_line(
    problem: Problem, uv: Uv
) -> None:
    with pytest.raises(ToolError) as caught:
        resolve(asking(problem, "needs-torch-to-build"), uv)
    assert caught.value.message == (
        "needs-torch-to-build 1.0 has no wheel for the target and its source does not say what "
        "it needs without being built: ModuleNotFoundError: No module named "
        "'torch_that_is_not_there'"
    )


def test_cut_off_holds_for_all_but_the_torch_index(problem: Problem, uv: Uv) -> None:
    pins = resolve(replace(asking(problem, "fresh"), exclude_newer="2026-08-01"), uv)
    assert versions(pins)["fresh"] == "1.0"
    assert versions(pins)["torch"] == "2.14.1+cu126"


def test_page_of_links_serves_as_torch_index(
    problem: Problem, uv: Uv, index: LoopbackIndex
) -> None:
    flat = replace(problem, torch_index=f"{index.address}/flat/torch_stable.html", is_flat=True)
    pins = resolve(asking(flat, "torchvision"), uv)
    assert origins(pins, flat) == {"torch", "torchvision", "triton"}


def test_one_index_may_serve_everything(problem: Problem, uv: Uv, index: LoopbackIndex) -> None:
    one = f"{index.address}/all"
    pins = resolve(replace(problem, torch_index=one, default_index=one), uv)
    assert {pin.index_url for pin in pins} == {one}
    assert versions(pins)["torch"] == "2.14.1+cu126"


def test_private_indexes_are_read_and_the_password_stays_out(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    private = replace(
        problem,
        torch_index=f"{index.private_address}/whl/cu126",
        default_index=f"{index.private_address}/simple",
    )
    pins = resolve(private, fresh_uv)
    assert {pin.index_url for pin in pins} == {
        f"{index.address}/private/whl/cu126",
        f"{index.address}/private/simple",
    }
    assert "s3cret" not in repr(pins)


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
