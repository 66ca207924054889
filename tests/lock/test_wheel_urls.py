"""Every recorded wheel is what a lock for its package, backend, Python and platform leads to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import Backend
from envguard.lock.companions import torch_family
from envguard.lock.existence import choose_wheel, listed_wheels
from envguard.lock.package_index import IndexSettings
from envguard.lock.project import Problem
from envguard.lock.request import Target
from envguard.lock.resolve import resolve
from envguard.web.client import Web
from tests.loopback.recorded import Recorded, recorded_wheels

if TYPE_CHECKING:
    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

HOST = re.compile(r"https://(?:download|download-r2)\.pytorch\.org/whl/")
OTHER_VENDORS = re.compile(r"rocm[0-9.]+|xpu")


@dataclass(frozen=True)
class Case:
    """What a recorded wheel is for."""

    wheel: Recorded
    package: str
    version: Version
    backend: Backend
    channel: str
    target: Target


def is_judged(wheel: Recorded) -> bool:
    is_other = OTHER_VENDORS.search(f"{wheel.folder} {wheel.filename}")
    return not (is_other or "s390x" in wheel.filename)


def case_of(wheel: Recorded) -> Case:
    name, version, _, tags = parse_wheel_filename(wheel.filename)
    tag = sorted(tags, key=str)[0]
    channel, _, backend = f"/{wheel.folder}".rpartition("/")
    python = re.fullmatch(r"cp3(\d+)", tag.interpreter)
    assert python is not None
    glibcs = [int(g) for t in tags for g in re.findall(r"manylinux_2_(\d+)_", t.platform)]
    return Case(
        wheel=wheel,
        package=name,
        version=version,
        backend=Backend.parse(backend or "cu128"),  # what lies in the root serves every backend
        channel=channel,
        target=Target(
            platform=_platform(tag.platform),
            python=Version(f"3.{python[1]}"),
            glibc=Version(f"2.{max(glibcs, default=17)}"),
            is_free_threaded=tag.abi.endswith("t"),
        ),
    )


def _platform(tag: str) -> Platform:
    system = next(
        name
        for word, name in (("win", "windows"), ("macosx", "macos"), ("linux", "linux"))
        if word in tag
    )
    arch = "x86_64" if tag.endswith(("x86_64", "amd64")) else "aarch64"
    return Platform.parse(f"{system}-{arch}")


CASES = [case_of(wheel) for wheel in recorded_wheels() if is_judged(wheel)]
OTHERS = [wheel for wheel in recorded_wheels() if not is_judged(wheel)]


def test_all_recorded_wheels_are_looked_at() -> None:
    assert len(recorded_wheels()) == 380
    assert sum(len(wheel.hosts) for wheel in recorded_wheels()) == 487
    assert (len(CASES), len(OTHERS)) == (338, 42)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.wheel.path)
def test_wheel_is_below_the_index_that_is_asked(case: Case, matrix: Matrix) -> None:
    template = f"https://download.pytorch.org/whl{case.channel}/{{backend}}"
    index = IndexSettings(template).torch_url(case.backend)
    folder = index if case.wheel.folder else "https://download.pytorch.org/whl"
    path = f"{folder}/".removeprefix("https://download.pytorch.org")
    for url in case.wheel.urls:
        host = url.removeprefix("https://").partition("/")[0]
        assert matrix.index.holds_same_file(host)
        assert url.startswith(f"https://{host}{path}")
        assert "+" not in url


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.wheel.path)
def test_wheel_is_the_one_that_is_chosen(case: Case, index: LoopbackIndex, web: Web) -> None:
    folder = case.wheel.folder or "cu128"
    address = f"{index.address}/recorded/{folder}"
    wheels = listed_wheels(address, case.package, web, is_flat=False)
    assert wheels is not None
    found = choose_wheel(wheels, case.package, case.version, case.backend.label, case.target)
    assert found is not None
    assert (found.filename, found.sha256) == (case.wheel.filename, case.wheel.sha256)
    quoted = found.url.rpartition("/")[2]
    assert quoted == case.wheel.path.rpartition("/")[2]


@pytest.fixture(scope="module")
def web() -> Web:
    return Web()


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.package == "torch"],
    ids=lambda case: case.wheel.path,
)
def test_torch_is_asked_for_by_the_version_in_the_wheels_name(case: Case, matrix: Matrix) -> None:
    build = matrix.torch.build(case.version, case.backend, case.target.platform)
    if case.version < matrix.torch.releases[0].version:
        pytest.skip("older than the tables")
    assert build is not None
    assert Requirement(f"torch=={build.label}").specifier.contains(case.version)
    assert build.label == str(case.version)
    if build.pythons:
        assert case.target.python_tag in build.pythons


@pytest.mark.parametrize("wheel", OTHERS, ids=lambda wheel: wheel.path)
def test_other_vendors_and_processors_are_no_backend_of_ours(wheel: Recorded) -> None:
    if "s390x" in wheel.filename:
        with pytest.raises(ValueError, match="is not a platform"):
            Platform.parse("linux-s390x")
        return
    word = OTHER_VENDORS.search(wheel.folder)
    if word is not None:
        with pytest.raises(ValueError, match="is not a backend"):
            Backend.parse(word[0])
    else:
        assert wheel.package in {
            "pytorch-triton-xpu",
            "pytorch-triton-rocm",
            "triton-rocm",
            "triton-xpu",
        }


@pytest.mark.parametrize(
    "path",
    [
        "cu128/torch-2.8.0%2Bcu128-cp313-cp313t-manylinux_2_28_x86_64.whl",
        "cu128/torchvision-0.22.1-cp312-cp312-manylinux_2_28_aarch64.whl",
        "cu129/torchaudio-2.8.0-cp313-cp313-manylinux_2_28_aarch64.whl",
        "cpu/torch-2.9.0%2Bcpu-cp312-cp312-win_arm64.whl",
        "cu126/torch-2.8.0%2Bcu126-cp311-cp311-win_amd64.whl",
        "cpu/torch-2.9.0-cp314-cp314t-macosx_11_0_arm64.whl",
        "cu118/torch-2.0.0%2Bcu118-cp310-cp310-linux_x86_64.whl",
        "test/cu128/torch-2.8.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl",
        "triton-3.6.0-cp314-cp314t-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    ],
)
def test_resolver_takes_the_recorded_wheel(
    path: str, index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    case = next(case for case in CASES if case.wheel.path == path)
    folder = case.wheel.folder or "cu128"
    problem = Problem(
        requirements=(Requirement(f"{case.package}=={case.version}"),),
        torch_index=f"{index.address}/recorded/{folder}",
        target=case.target,
        family=torch_family(matrix),
        default_index=index.default,
    )
    pins = {pin.name: pin for pin in resolve(problem, uv)}
    (artifact,) = pins[canonicalize_name(case.package)].artifacts
    assert artifact.filename == case.wheel.filename
    assert artifact.sha256 == case.wheel.sha256
    assert artifact.url.rpartition("/")[2] == case.wheel.path.rpartition("/")[2]
