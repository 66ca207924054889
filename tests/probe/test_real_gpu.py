"""The probe on a real NVIDIA machine: all sources must say the same."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from envguard.probe import ProbeOptions, probe_machine

if TYPE_CHECKING:
    from envguard.facts.machine import Machine

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def machine() -> Machine:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("needs an NVIDIA GPU: no nvidia-smi on PATH")
    found, _ = probe_machine(ProbeOptions(all_sources=True, cuda_init=True))
    return found


def words(machine: Machine, fact: str) -> dict[str, str]:
    return {r.probe: r.value for r in machine.readings if r.fact == fact}


def test_every_gpu_is_described(machine: Machine) -> None:
    assert machine.gpus
    for gpu in machine.gpus:
        assert gpu.name
        assert gpu.capability is not None
        assert gpu.uuid is not None
        assert gpu.pci_bus_id is not None


def test_the_driver_is_loaded_and_known(machine: Machine) -> None:
    assert machine.driver.is_loaded is True
    assert machine.driver.version is not None
    assert machine.driver.cuda is not None
    assert machine.driver.user_mode_version is not None


def test_nvml_and_nvidia_smi_agree(machine: Machine) -> None:
    for fact in ("driver.version", "driver.cuda", "gpu.count", "gpu[0].name", "gpu[0].capability"):
        said = words(machine, fact)
        assert said["nvml"] == said["nvidia-smi"], fact


def test_libcuda_starts_and_sees_the_selected_gpus(machine: Machine) -> None:
    assert words(machine, "driver.cuda_init") == {"libcuda": "CUDA_SUCCESS (0)"}
    assert words(machine, "cuda.count") == {"libcuda": str(len(machine.selected_gpus))}
    assert words(machine, "driver.cuda")["libcuda"] == str(machine.driver.cuda)
