from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.wheel import check_jetson_build
from envguard.facts.environment import BuildOrigin
from envguard.facts.machine import Machine, Platform
from envguard.facts.versions import CudaVersion
from tests.checks.sample import H100, environment, facts, machine, said, torch_build


def board(model: str) -> Machine:
    on = replace(machine(driver="540.4.0", cuda="12.6"), gpus=None)
    host = replace(on.host, jetson=model, platform=Platform.parse("linux-aarch64"))
    return replace(on, host=host)


@pytest.mark.parametrize(
    ("model", "version", "expected"),
    [
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.9.1+cu126", ("GPU006", "fail")),
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.15.0+cu132", None),
        ("NVIDIA Jetson AGX Thor Developer Kit", "2.9.1+cu130", None),
        ("NVIDIA Tegra", "2.9.1+cu126", ("GPU011", "unknown")),
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.99.0+cu126", ("GPU011", "unknown")),
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.5.0a0+872d972e41.nv24.8", None),
        ("", "2.9.1+cu126", None),
    ],
)
def test_server_builds_on_boards(
    model: str, version: str, expected: tuple[str, str] | None
) -> None:
    found = said(check_jetson_build, facts(board(model), environment(torch_build(version))))
    assert [(code, status) for code, _, status in found] == ([expected] if expected else [])


def test_a_build_of_nvidia_carries_no_label() -> None:
    orin = board("NVIDIA Jetson AGX Orin")
    cuda = CudaVersion(12, 6)
    own = torch_build("2.8.0", cuda=cuda, accelerator=torch_build().accelerator)
    assert said(check_jetson_build, facts(orin, environment(own))) == []
    from_pypi = replace(own, origin=BuildOrigin.PIN)
    assert said(check_jetson_build, facts(orin, environment(from_pypi)))[0][2] == "unknown"


def test_a_listed_gpu_is_judged_by_its_own_capability() -> None:
    on = replace(board("NVIDIA Jetson AGX Orin"), gpus=(H100,))
    assert said(check_jetson_build, facts(on, environment(torch_build("2.9.1+cu126")))) == []
