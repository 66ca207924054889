"""Whether an index lists a wheel, and which one an installer would take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import NetworkError
from envguard.facts.machine import Platform
from envguard.facts.versions import Backend
from envguard.lock.existence import absent_from_index, choose_wheel, fits, listed_wheels, parse_page
from envguard.lock.request import Target
from envguard.web.client import Web
from tests.lock.conftest import LINUX, ask
from tests.loopback.index import Trouble

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow
    from tests.loopback.index import LoopbackIndex

PAGE = """<!DOCTYPE html><html><body>
<a href="/whl/cu128/torch-2.8.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl#sha256=aa">x</a>
<a href="torch-2.8.0%2Bcu128-1-cp312-cp312-manylinux_2_28_x86_64.whl#sha256=bb">build 1</a>
<a href="https://user:secret@files.example/torch-2.8.0%2Bcu128-cp313-cp313t-linux_x86_64.whl">t</a>
<a href="torch-2.8.0.tar.gz">source</a> <a href="../">up</a> <a name="here">no address</a>
</body></html>"""


def target(
    python: str = "3.12",
    platform: str = "linux-x86_64",
    glibc: str | None = "2.31",
    *,
    free: bool = False,
) -> Target:
    return Target(
        Platform.parse(platform), Version(python), Version(glibc) if glibc else None, free
    )


def test_page_is_read_as_links_with_hashes() -> None:
    found = parse_page(PAGE, "https://index.example/whl/cu128/torch/")
    assert [(wheel.url, wheel.sha256) for wheel in found] == [
        (
            "https://index.example/whl/cu128/torch-2.8.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl",
            "aa",
        ),
        (
            "https://index.example/whl/cu128/torch/"
            "torch-2.8.0%2Bcu128-1-cp312-cp312-manylinux_2_28_x86_64.whl",
            "bb",
        ),
        ("https://files.example/torch-2.8.0%2Bcu128-cp313-cp313t-linux_x86_64.whl", ""),
    ]


def test_later_build_of_a_wheel_is_taken() -> None:
    found = parse_page(PAGE, "https://index.example/whl/cu128/torch/")
    chosen = choose_wheel(found, "torch", Version("2.8.0"), "cu128", target())
    assert chosen is not None
    assert chosen.sha256 == "bb"


def test_free_threaded_python_has_wheels_of_its_own() -> None:
    found = parse_page(PAGE, "https://index.example/")
    with_gil = choose_wheel(found, "torch", Version("2.8.0"), "cu128", target("3.13"))
    without = choose_wheel(found, "torch", Version("2.8.0"), "cu128", target("3.13", free=True))
    assert with_gil is None
    assert without is not None


@pytest.mark.parametrize(
    ("filename", "aim", "is_fitting"),
    [
        ("x-1-py3-none-any.whl", target(), True),
        ("x-1-cp310-abi3-manylinux_2_28_x86_64.whl", target(), True),
        ("x-1-cp310-abi3-manylinux_2_28_x86_64.whl", target("3.13", free=True), False),
        ("x-1-cp313-abi3-manylinux_2_28_x86_64.whl", target(), False),
        ("x-1-cp312-cp312-manylinux_2_34_x86_64.whl", target(), False),
        ("x-1-cp312-cp312-manylinux_2_34_x86_64.whl", target(glibc=None), True),
        ("x-1-cp312-cp312-manylinux1_x86_64.whl", target(), True),
        ("x-1-cp312-cp312-musllinux_1_2_x86_64.whl", target(), False),
        ("x-1-cp312-cp312-win_amd64.whl", target(), False),
        ("x-1-cp312-cp312-win_arm64.whl", target(platform="windows-aarch64"), True),
        ("x-1-cp311-none-macosx_10_9_x86_64.whl", target("3.11", "macos-x86_64"), True),
        ("x-1-cp311-none-macosx_10_9_x86_64.whl", target("3.12", "macos-x86_64"), False),
        ("x-1-cp312-cp312-macosx_11_0_universal2.whl", target(platform="macos-aarch64"), True),
    ],
)
def test_tags_say_where_a_wheel_runs(filename: str, aim: Target, is_fitting: bool) -> None:
    (wheel,) = parse_page(f'<a href="{filename}">x</a>', "https://index.example/")
    assert any(fits(tag, aim) for tag in wheel.tags) == is_fitting


def test_json_page_is_read_too(index: LoopbackIndex) -> None:
    found = listed_wheels(index.default, "timm", Web(), is_flat=False)
    assert found is not None
    assert [wheel.filename for wheel in found] == ["timm-1.0.20-py3-none-any.whl"]
    assert len(found[0].sha256) == 64


def test_json_that_is_no_index_is_a_network_error() -> None:
    with pytest.raises(NetworkError, match="no page of an index"):
        parse_page('{"detail": "not an index"}', "https://me:s3cret@index.example/simple/x/")


def build(matrix: Matrix, version: str, backend: str) -> TorchBuildRow:
    found = matrix.torch.build(Version(version), Backend.parse(backend), LINUX)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("version", "backend", "python", "reason"),
    [
        ("2.8.0", "cu126", "3.12", ""),
        ("2.8.0", "cu126", "3.10", "/whl/cu126 has no wheel of it for cp310 on linux-x86_64"),
        ("2.12.1", "cu126", "3.12", "/whl/cu126 does not have it"),
        ("2.5.1", "cu124", "3.12", "/whl/cu124 has no page for torch"),  # answers 403
    ],
)
def test_index_is_asked_for_the_wheel_of_a_python(
    index: LoopbackIndex, matrix: Matrix, version: str, backend: str, python: str, reason: str
) -> None:
    request = ask(index, "torch", target=target(python))
    found = absent_from_index(build(matrix, version, backend), request, Web())
    assert found == (f"{index.address}{reason}" if reason else "")


def test_page_of_links_is_asked_as_one_page(index: LoopbackIndex, matrix: Matrix) -> None:
    request = ask(index, "torch", torch=f"{index.address}/flat/torch_stable.html")
    web = Web()
    index.forget()
    assert absent_from_index(build(matrix, "2.8.0", "cu126"), request, web) == ""
    assert absent_from_index(build(matrix, "2.8.0", "cu128"), request, web) == ""
    assert index.paths == ["/flat/torch_stable.html"]


def test_nobody_is_asked_offline(index: LoopbackIndex, matrix: Matrix) -> None:
    request = replace(ask(index, "torch"), is_offline=True)
    index.forget()
    found = absent_from_index(build(matrix, "2.5.1", "cu124"), request, Web(is_offline=True))
    assert (found, index.paths) == ("", [])


def test_index_in_trouble_is_no_absence(index: LoopbackIndex, matrix: Matrix) -> None:
    with index.trouble("/whl", Trouble.BROKEN), pytest.raises(NetworkError, match="answers 500"):
        absent_from_index(build(matrix, "2.8.0", "cu126"), ask(index, "torch"), Web())
