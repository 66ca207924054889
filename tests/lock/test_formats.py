"""Lockfiles as text: the same for equal plans, valid by the standard, free of secrets."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, cast

import pytest
from packaging.pylock import Pylock
from packaging.tags import Tag
from packaging.utils import canonicalize_name

from envguard.errors import InputError
from envguard.lock import FORMATS, format_of, render_lock
from envguard.lock.formats.requirements import RequirementsStyle
from envguard.lock.lock_plan import LockPlan, plan_lock
from envguard.lock.package_index import IndexSettings
from tests.lock.conftest import ask, v100

if TYPE_CHECKING:
    from packaging.markers import Environment

    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

GOLDEN = Path(__file__).with_name("golden")
FORMS = [
    ("pylock", RequirementsStyle.URLS),
    ("requirements", RequirementsStyle.URLS),
    ("requirements", RequirementsStyle.INDEX),
]


@pytest.fixture(scope="module")
def plan(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> LockPlan:
    request = ask(index, "torch==2.8.0+cu126", "torchaudio", "deepspeed", machines=(v100(),))
    return plan_lock(request, matrix, uv)


@pytest.fixture(scope="module")
def private_plan(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> LockPlan:
    settings = IndexSettings(
        f"{index.private_address}/whl/{{backend}}", f"{index.private_address}/simple"
    )
    request = replace(ask(index, "torch", machines=(v100(),)), indexes=settings)
    return plan_lock(request, matrix, uv)


@pytest.mark.parametrize(
    ("form", "style", "name"),
    [
        ("pylock", RequirementsStyle.URLS, "pylock.toml"),
        ("requirements", RequirementsStyle.URLS, "requirements-urls.txt"),
        ("requirements", RequirementsStyle.INDEX, "requirements-index.txt"),
    ],
)
def test_lock_is_written_as_agreed(
    plan: LockPlan,
    index: LoopbackIndex,
    matrix: Matrix,
    form: str,
    style: RequirementsStyle,
    name: str,
) -> None:
    text = render_lock(plan, form, style).replace(index.address, "http://index.example")
    text = text.replace(matrix.manifest.data_version, "2026.11.29")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("form", "style"), FORMS)
def test_equal_requests_give_equal_bytes(
    plan: LockPlan,
    index: LoopbackIndex,
    matrix: Matrix,
    uv: Uv,
    form: str,
    style: RequirementsStyle,
) -> None:
    request = ask(index, "deepspeed", "torchaudio", "torch==2.8.0+cu126", machines=(v100(),))
    again = plan_lock(request, matrix, uv)
    assert render_lock(again, form, style) == render_lock(plan, form, style)


@pytest.mark.parametrize(("form", "style"), FORMS)
def test_no_format_holds_credentials(
    private_plan: LockPlan, form: str, style: RequirementsStyle
) -> None:
    text = render_lock(private_plan, form, style)
    assert "s3cret" not in text
    assert "reader" not in text
    assert "/private/whl/cu126" in text


def test_pylock_is_valid_and_selects_for_its_target(plan: LockPlan) -> None:
    document = tomllib.loads(render_lock(plan, "pylock"))
    lock = Pylock.from_dict(document)
    environment = cast("Environment", plan.request.target.marker_variables)
    tags = [
        Tag("cp312", "cp312", "manylinux_2_28_x86_64"),
        Tag("py3", "none", "any"),
        Tag("cp312", "cp312", "manylinux_2_27_x86_64"),
    ]
    selected = {package.name for package, _ in lock.select(environment=environment, tags=tags)}
    assert selected == {pin.name for pin in plan.pins}


def test_every_package_names_its_index(plan: LockPlan, index: LoopbackIndex) -> None:
    document = tomllib.loads(render_lock(plan, "pylock"))
    by_index: dict[str, set[str]] = {}
    for package in document["packages"]:
        by_index.setdefault(package["index"], set()).add(package["name"])
    assert by_index[f"{index.address}/whl/cu126"] == {"torch", "torchaudio", "triton"}
    assert set(by_index) == {f"{index.address}/whl/cu126", index.default}


def test_table_of_envguard_says_what_the_lock_was_made_for(
    plan: LockPlan, matrix: Matrix, index: LoopbackIndex
) -> None:
    table = tomllib.loads(render_lock(plan, "pylock"))["tool"]["envguard"]
    assert table["schema_version"] == 1
    assert table["matrix_version"] == matrix.manifest.data_version
    assert (table["torch"], table["backend"]) == ("2.8.0", "cu126")
    assert table["index_url"] == f"{index.address}/whl/cu126"
    assert (table["driver_exact"], table["driver_floor"]) == ("560.28.03", "525.60.13")
    assert table["driver_fit"] == "same-major"
    assert (table["platform"], table["python"], table["glibc"]) == ("linux-x86_64", "3.12", "2.28")
    assert "sm_70" in table["code_targets"]
    assert table["machines"] == [
        {
            "driver": "535.104.05",
            "glibc": "2.31",
            "platform": "linux-x86_64",
            "gpus": [{"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0"}],
        }
    ]
    assert table["reasons"] == [plan.why]


def test_rejected_builds_keep_their_reasons(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    plan = plan_lock(ask(index, "torch", machines=(v100(),)), matrix, uv)
    table = tomllib.loads(render_lock(plan, "pylock"))["tool"]["envguard"]
    newest = next(r for r in table["rejected"] if (r["torch"], r["backend"]) == ("2.15.0", "cu130"))
    assert newest["reasons"][0] == "CUDA 13.0 needs a driver 580 or newer, the driver is 535.104.05"


def test_plus_is_quoted_in_addresses_of_requirements(plan: LockPlan) -> None:
    text = render_lock(plan, "requirements", RequirementsStyle.URLS)
    line = next(line for line in text.splitlines() if line.startswith("torch @"))
    assert "/torch-2.8.0%2Bcu126-cp312-cp312-manylinux_2_28_x86_64.whl#sha256=ce6e6a1f" in line
    assert "+" not in line


def test_each_requirement_has_a_hash(plan: LockPlan) -> None:
    for style in RequirementsStyle:
        text = render_lock(plan, "requirements", style)
        assert text.count("sha256") >= len(plan.pins)


def test_pin_without_sha256_cannot_be_a_requirement(plan: LockPlan) -> None:
    torch = next(pin for pin in plan.pins if pin.name == canonicalize_name("torch"))
    odd = replace(torch, artifacts=(replace(torch.artifacts[0], hashes=(("md5", "00"),)),))
    with pytest.raises(InputError, match="the index gives no sha256"):
        render_lock(replace(plan, pins=(odd,)), "requirements")


@pytest.mark.parametrize(
    ("path", "stated", "form"),
    [
        (None, None, "pylock"),
        (None, "requirements", "requirements"),
        ("pylock.toml", None, "pylock"),
        ("a/pylock.cu126.toml", None, "pylock"),
        ("requirements.txt", None, "requirements"),
        ("requirements-gpu.txt", None, "requirements"),
        ("lock.txt", "requirements", "requirements"),
    ],
)
def test_name_of_the_file_says_the_format(path: str | None, stated: str | None, form: str) -> None:
    assert format_of(PurePath(path) if path else None, stated) == form


@pytest.mark.parametrize(
    ("path", "stated"),
    [
        ("lock.toml", None),
        ("lock.toml", "pylock"),
        ("pylock.a.b.toml", "pylock"),
        ("pylock.toml", "requirements"),
    ],
)
def test_name_that_installers_would_not_read_is_refused(path: str, stated: str | None) -> None:
    with pytest.raises(InputError, match=path):
        format_of(PurePath(path), stated)


def test_formats_are_registered() -> None:
    assert set(FORMATS) == {"pylock", "requirements", "uv-project", "environment", "dockerfile"}
