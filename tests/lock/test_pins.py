"""Reading what uv writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import NetworkError, ToolError
from envguard.lock.pins import Artifact, Pin, glibc_needed, parse_listing, parse_uv_pylock

# As uv 0.13.9 writes it.
LISTING = """\
jinja2==3.1.6
    # via torch
    # from https://user:secret@index.example/simple
nvidia-cublas-cu12==12.6.4.1 ; sys_platform == 'linux'
    # via torch
    # from https://index.example/simple
torch==2.14.1+cu126
    # via
    #   envguard-lock (pyproject.toml)
    #   timm
    #   torchvision
    # from https://mirror.example/whl/cu126
typing-extensions==4.16.0
    # via pydantic
"""

PYLOCK = Path(__file__).with_name("said").joinpath("pylock.toml").read_text(encoding="utf-8")


def test_listing_gives_origin_and_parents_without_credentials() -> None:
    found = {item.name: item for item in parse_listing(LISTING)}
    assert [str(item.version) for item in found.values()] == [
        "3.1.6",
        "12.6.4.1",
        "2.14.1+cu126",
        "4.16.0",
    ]
    assert found[canonicalize_name("jinja2")].index_url == "https://index.example/simple"
    torch = found[canonicalize_name("torch")]
    assert torch.parents == {"envguard-lock", "timm", "torchvision"}
    assert torch.index_url == "https://mirror.example/whl/cu126"
    assert found[canonicalize_name("typing-extensions")].index_url == ""


def test_pylock_gives_pins_by_name_with_wheels_before_sources() -> None:
    names = ("torch", "numpy", "deepspeed")
    origins = {canonicalize_name(name): f"https://{name}.example" for name in names}
    deepspeed, numpy, torch = parse_uv_pylock(PYLOCK, origins)
    assert torch.version == Version("2.14.1+cu126")
    assert torch.marker == "sys_platform == 'linux'"
    assert torch.index_url == "https://torch.example"
    assert torch.artifacts == (
        Artifact(
            "torch-2.14.1+cu126-cp312-cp312-manylinux_2_28_x86_64.whl",
            "https://mirror.example/whl/cu126/torch-2.14.1%2Bcu126-cp312-cp312-manylinux_2_28_x86_64.whl",
            (("sha256", "aa00"),),
            None,
        ),
    )
    assert [(a.filename, a.size) for a in numpy.artifacts] == [
        ("numpy-2.4.1-a.whl", 11),
        ("numpy-2.4.1-b.whl", 12),
    ]
    assert [a.is_wheel for a in deepspeed.artifacts] == [False]
    assert deepspeed.artifacts[0].sha256 == "ee"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("packages = 3", "cannot be read"),
        ("[[packages]]\nversion = '1'", "cannot be read"),
        ("lock-version = ", "cannot be read"),
        ("[[packages]]\nname = 'x'\nversion = '1'", "names no file for x"),
        (
            "[[packages]]\nname = 'x'\nversion = 'one'\n"
            "sdist = { url = 'https://i.example/x', hashes = { sha256 = 'a' } }",
            "names a version that is none: 'one'",
        ),
        (
            "[[packages]]\nname = 'x'\nversion = '1'\n"
            "wheels = [{ path = 'w/x-1.whl', hashes = { sha256 = 'a' } }]",
            "x comes from a local folder",
        ),
    ],
)
def test_unusable_pylock_is_a_tool_error(text: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_uv_pylock(text, {})
    assert said in caught.value.message


def test_file_without_hash_is_refused() -> None:
    text = "[[packages]]\nname = 'x'\nversion = '1'\nwheels = [{ url = 'https://i.example/x.whl' }]"
    with pytest.raises(NetworkError, match=r"the index gives no hash for x\.whl"):
        parse_uv_pylock(text, {})


def pin_of(*filenames: str) -> Pin:
    artifacts = tuple(
        Artifact(name, f"https://i.example/{name}", (("sha256", "0"),)) for name in filenames
    )
    return Pin(canonicalize_name("x"), Version("1"), "", "https://i.example", artifacts)


@pytest.mark.parametrize(
    ("filenames", "needed"),
    [
        (["x-1-cp312-cp312-manylinux_2_28_x86_64.whl"], "2.28"),
        (["x-1-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"], "2.27"),
        (["x-1-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"], "2.17"),
        (["x-1-cp37-cp37m-manylinux1_x86_64.whl"], "2.5"),
        (["x-1-a-manylinux_2_34_x86_64.whl", "x-1-b-manylinux_2_17_x86_64.whl"], "2.17"),
        (["x-1-py3-none-any.whl"], None),
        (["x-1.tar.gz"], None),
        (["x-1-cp312-cp312-linux_x86_64.whl"], None),
    ],
)
def test_glibc_that_a_pin_needs_is_read_from_its_wheels(
    filenames: list[str], needed: str | None
) -> None:
    assert glibc_needed([pin_of(*filenames)]) == (Version(needed) if needed else None)


def test_most_demanding_pin_decides_the_glibc() -> None:
    pins = [pin_of("x-1-py3-none-manylinux_2_17_x86_64.whl"), pin_of("x-1-py3-none-any.whl")]
    assert glibc_needed(pins) == Version("2.17")
    assert glibc_needed([*pins, pin_of("x-1-py3-none-manylinux_2_34_x86_64.whl")]) == Version(
        "2.34"
    )
