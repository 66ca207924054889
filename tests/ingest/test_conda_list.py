from __future__ import annotations

import json

import pytest

from envguard.facts.environment import Accelerator, Environment, Manager
from envguard.facts.versions import CudaVersion
from envguard.ingest.conda_list import torch_of_conda
from envguard.ingest.detect import load_text
from tests.ingest.samples import load


def environment(name: str) -> Environment:
    found = load(name).environment
    assert found is not None
    return found


def test_list_states_interpreter_prefix_and_build() -> None:
    found = environment("conda_list.txt")
    assert found.manager is Manager.CONDA
    assert found.interpreter is not None
    assert str(found.interpreter.version) == "3.10.13"
    assert found.interpreter.prefix == "/home/user/miniconda3/envs/train"
    assert found.torch is not None
    assert str(found.torch.version) == "2.1.2"
    assert found.torch.cuda == CudaVersion(11, 8)
    assert [(d.name, d.installer) for d in found.distributions or ()] == [
        ("cudatoolkit", "conda"),
        ("deepspeed", "pip"),
        ("numpy", "conda"),
        ("python", "conda"),
        ("torch", "conda"),
        ("triton", "conda"),
    ]


def test_export_form() -> None:
    found = environment("conda_export.txt")
    assert found.torch is not None
    assert found.torch.accelerator is Accelerator.CPU


def test_json_form() -> None:
    records = [
        {"name": "pytorch", "version": "2.3.1", "build_string": "cuda120_py312", "channel": "x"},
        {"name": "trl", "version": "0.9.4", "build_string": "pypi_0", "channel": "pypi"},
    ]
    found = load_text(json.dumps(records, indent=2), "x").environment
    assert found is not None
    assert [(d.name, d.installer) for d in found.distributions or ()] == [
        ("torch", "conda"),
        ("trl", None),
    ]


@pytest.mark.parametrize(
    ("row", "accelerator", "cuda"),
    [
        ("pytorch 2.1.0 py3.10_cuda12.1_cudnn8.9.2_0 pytorch", Accelerator.CUDA, "12.1"),
        ("pytorch 2.1.0 cuda118_py310h6f85f1c_300 conda-forge", Accelerator.CUDA, "11.8"),
        ("pytorch 2.7.0 cuda126_mkl_py312_h30b5a27_300 conda-forge", Accelerator.CUDA, "12.6"),
        ("pytorch 1.10.0 cuda112py38h3d13190_1 conda-forge", Accelerator.CUDA, "11.2"),
        ("pytorch 2.1.0 py3.10_cpu_0 pytorch", Accelerator.CPU, "None"),
        ("pytorch 2.3.1 cpu_mkl_py312h5bf6c0b_100 conda-forge", Accelerator.CPU, "None"),
        ("torch 2.1.0+cu118 pypi_0 pypi", Accelerator.CUDA, "11.8"),
        ("pytorch 2.1.0 py310h_0 somewhere", None, "None"),
    ],
)
def test_build_strings_tell_the_build(row: str, accelerator: Accelerator, cuda: str) -> None:
    build = torch_of_conda([row])
    assert build is not None
    assert build.accelerator is accelerator
    assert str(build.cuda) == cuda
