"""Logs of installers: a CPU build where a CUDA build is wanted, guesses, another interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.findings import Status
from tests.crash.logs import report_of
from tests.crash.rules.test_driver import stated

if TYPE_CHECKING:
    from envguard.facts.facts import Facts


UNAVAILABLE = ">>> torch.cuda.is_available()\nFalse\n"
REPLACED = """\
Collecting torch==2.9.0 (from xformers==0.0.33->-r requirements.txt (line 35))
  Attempting uninstall: torch
    Found existing installation: torch 2.9.1+cu128
    Uninstalling torch-2.9.1+cu128:
      Successfully uninstalled torch-2.9.1+cu128
Successfully installed torch-2.9.0
"""
WINDOWS = stated(platform="windows-x86_64")
CPU_WHERE_CUDA_IS_WANTED: dict[str, tuple[str, Facts | None]] = {
    "pip replaces it, Windows stated": (REPLACED, WINDOWS),
    "pip replaces it, Windows seen": (rf"C:\app> pip install -r r.txt{chr(10)}{REPLACED}", None),
    "pip replaces it by a labelled one": (
        REPLACED.replace("torch-2.9.0\n", "torch-2.9.0+cpu torchvision-0.24.0+cpu\n"),
        None,
    ),
    "pip replaces it among others": (
        REPLACED.replace("installed torch-", "installed numpy-2.1.0 pillow-11.0 torch-"),
        WINDOWS,
    ),
    "uv replaces it": (" - torch==2.9.1+cu128\n + torch==2.9.0+cpu\n", None),
    "poetry replaces it": ("  - Updating torch (2.9.1+cu128 -> 2.9.0+cpu)\n", None),
    "a CUDA index, then a printed version": (
        "# PIP_EXTRA_INDEX_URL=http://cache.svc:8080/whl/cpu/ (default)\n"
        "$ pip install torch --index-url https://download.pytorch.org/whl/nightly/cu130\n"
        '$ python -c "import torch; print(torch.__version__)"\n2.12.0+cpu\n',
        None,
    ),
    "a CUDA index, then pip's own line": (
        "pip install torch -i https://mirror.example/whl/cu126\n"
        "Successfully installed torch-2.7.1+cpu\n",
        None,
    ),
    "uv's backend, then its own line": (
        "uv pip install torch --torch-backend=cu128\n + torch==2.7.1+cpu\n",
        None,
    ),
    "a label, then a version": (
        "pip install torch==2.7.1+cu126\nPyTorch version: 2.7.1+cpu\n",
        None,
    ),
    "a version and a GPU": (
        "PyTorch version: 2.9.1+cpu\nGPU 0: NVIDIA GeForce RTX 4090\n",
        None,
    ),
    "a version and a stated GPU": (
        "torch 2.9.1+cpu\nno kernels to run\n",
        stated("NVIDIA GB10", platform="linux-aarch64"),
    ),
    "a version, and torch sees nothing": (f"torch==2.9.1+cpu\n{UNAVAILABLE}", None),
    "Windows takes PyPI's": (f"Successfully installed torch-2.9.0\n{UNAVAILABLE}", WINDOWS),
    "conda, cudatoolkit": (
        "$ conda install pytorch cudatoolkit=10.1 -c pytorch\n"
        "  added / updated specs:\n    - cudatoolkit=10.1\n    - pytorch\n"
        "  cpuonly            pytorch/noarch::cpuonly-2.0-0\n"
        "  pytorch            pytorch/win-64::pytorch-1.10.0-py3.6_cpu_0\n"
        "  pytorch-mutex      pytorch/noarch::pytorch-mutex-1.0-cpu\n",
        None,
    ),
    "mamba, pytorch-cuda": (
        "mamba install pytorch pytorch-cuda=12.1 -c pytorch -c nvidia\n"
        "  + pytorch           2.1.0  py3.10_cpu_0        pytorch      87MB\n",
        None,
    ),
    "conda-forge": (
        "conda create -n x pytorch cuda-version=12.6\n"
        "  libtorch            conda-forge/linux-64::libtorch-2.5.1-cpu_mkl_he8ec5d7_108\n"
        "  pytorch             conda-forge/linux-64::pytorch-2.5.1-cpu_mkl_py312_h446997d_108\n",
        None,
    ),
    "conda list, and torch sees nothing": (
        f"pytorch                   1.8.1               py3.8_cpu_0    pytorch\n{UNAVAILABLE}",
        None,
    ),
}


@pytest.mark.parametrize("name", CPU_WHERE_CUDA_IS_WANTED)
def test_a_cpu_build_where_a_cuda_build_is_wanted(name: str) -> None:
    text, facts = CPU_WHERE_CUDA_IS_WANTED[name]
    assert report_of(text, facts=facts).root_cause == "cpu-wheel-selected"


HEALTHY_INSTALLS = {
    "a CPU build on purpose": (
        "$ pip install torch --index-url https://download.pytorch.org/whl/cpu\n"
        "Successfully installed torch-2.7.1+cpu\n"
    ),
    "uv, a CPU build on purpose": "uv pip install torch --torch-backend=cpu\n + torch==2.7.1+cpu\n",
    "conda, a CPU build on purpose": (
        "conda install pytorch torchvision cpuonly -c pytorch\n"
        "  pytorch            pytorch/linux-64::pytorch-1.10.0-py3.9_cpu_0\n"
    ),
    "a CPU build and no word of a GPU": "Successfully installed numpy-2.1 torch-2.7.1+cpu\n",
    "a CUDA build": (
        "$ pip install torch --index-url https://download.pytorch.org/whl/cu126\n"
        "Successfully installed torch-2.7.1+cu126\n"
    ),
    "a CUDA build in the place of a CPU build": (
        "    Uninstalling torch-2.6.0+cpu:\n      Successfully uninstalled torch-2.6.0+cpu\n"
        "$ pip install torch --index-url https://download.pytorch.org/whl/cu126\n"
        "Successfully installed torch-2.7.1+cu126\n"
    ),
    "a CPU build that is replaced again": (
        f"{REPLACED.replace('torch-2.9.0', 'torch-2.9.0+cpu')}"
        "$ pip install torch==2.9.0 --index-url https://download.pytorch.org/whl/cu128\n"
        "Successfully installed torch-2.9.0+cu128\n"
    ),
    "uv upgrades a CUDA build": " - torch==2.9.0+cu128\n + torch==2.9.1+cu128\n",
    "pip upgrades on Linux, where PyPI has CUDA": REPLACED,
    "conda, a CUDA build": (
        "conda install pytorch pytorch-cuda=12.1 -c pytorch -c nvidia\n"
        "  pytorch            pytorch/linux-64::pytorch-2.1.0-py3.10_cuda12.1_cudnn8.9.2_0\n"
        "  pytorch-mutex      pytorch/noarch::pytorch-mutex-1.0-cuda\n"
    ),
    "the torch that is there fits": (
        "$ pip install torch --index-url https://download.pytorch.org/whl/cu126\n"
        "Requirement already satisfied: torch in /env/lib/python3.11/site-packages (2.7.1+cu126)\n"
    ),
    "the torch that is there fits a package": (
        "$ pip install accelerate --extra-index-url https://download.pytorch.org/whl/cu126\n"
        "Requirement already satisfied: torch>=2.0 in /env/lib/python3.11/site-packages (from "
        "accelerate) (2.7.1)\n"
    ),
    "pip into a folder of its own": "pip install --target build/layer torch\nPython 3.11.9\n",
    "one Python": (
        "Python 3.11.9\nRequirement already satisfied: torch in "
        "/usr/lib/python3.11/site-packages (2.7.1)\n"
    ),
}


@pytest.mark.parametrize("name", HEALTHY_INSTALLS)
def test_a_healthy_install_shows_nothing_wrong(name: str) -> None:
    facts = stated() if "Linux" in name else None
    assert report_of(HEALTHY_INSTALLS[name], exit_code=0, facts=facts).verdict is Status.OK


def test_what_led_to_the_cpu_build_is_the_cause_where_it_is_known() -> None:
    label = (
        "ERROR: No matching distribution found for torch==2.6.0+cu121\n"
        "Successfully installed torch-2.6.0+cpu\n"
    )
    auto = "uv pip install torch --torch-backend=auto\n + torch==2.7.1+cpu\n"
    kept = (
        "pip install torch --index-url https://download.pytorch.org/whl/cu126\n"
        "Requirement already satisfied: torch in /env/lib/python3.11/site-packages (2.7.1+cpu)\n"
    )
    assert report_of(label).root_cause == "resolver-local-version"
    assert report_of(auto).root_cause == "resolver-auto-backend"
    assert report_of(kept).root_cause == "already-satisfied-other-tag"


def test_a_cpu_build_that_is_pinned_explains_a_failure_to_find_gpus() -> None:
    facts = stated("NVIDIA GB10", pins=("torch==2.9.1+cpu",), platform="linux-aarch64")
    text = (
        "Traceback (most recent call last):\n"
        '  File "/app/mjlab/utils/gpu.py", line 70, in select_gpus\n'
        "    selected = [available[i] for i in ids]\nIndexError: list index out of range\n"
    )
    assert report_of(text, facts=facts).root_cause == "cpu-wheel-selected"
    other = text.replace("/utils/gpu.py", "/utils/data.py").replace("select_gpus", "collate")
    report = report_of(other, facts=facts)
    assert report.verdict is Status.UNKNOWN
    assert "cpu-wheel-selected" in [f.cause for f in report.findings]


GUESSES = [
    "could not determine CUDA version from nvidia-smi, defaulting to cu126\n",
    "WARNING: Unable to detect the CUDA driver version, falling back to cu118\n",
    "Failed to parse nvidia-smi output; assuming cu121\n",
    "Can't detect GPU driver. Installing PyTorch cu124\n",
    "Could not detect CUDA version, falling back to cpu\n",
]


@pytest.mark.parametrize("text", GUESSES)
def test_a_guessed_backend_that_serves_no_gpu_here(text: str) -> None:
    facts = stated("NVIDIA GeForce RTX 5090", platform="windows-x86_64")
    assert report_of(text, facts=facts).root_cause == "resolver-auto-backend"


def test_a_guessed_backend_that_the_driver_does_not_serve() -> None:
    facts = stated("NVIDIA GeForce RTX 3090", driver="470.57.02")
    assert report_of(GUESSES[0], facts=facts).root_cause == "resolver-auto-backend"


@pytest.mark.parametrize("text", GUESSES[:4])
def test_a_guessed_backend_that_serves_the_gpu_is_nothing(text: str) -> None:
    facts = stated("NVIDIA GeForce RTX 4090", driver="560.35.03")
    assert report_of(text, exit_code=0, facts=facts).verdict is Status.OK
    assert report_of(text, exit_code=0).verdict is Status.OK


OTHER_PYTHONS = {
    "pip --target of a portable package": (
        "C:\\app> python --version\nPython 3.11\n"
        "C:\\app> pip install --target system\\python\\Lib\\site-packages torch\n"
        "C:\\app> system\\python\\python.exe --version\nPython 3.10\n"
        "ModuleNotFoundError: No module named 'torch'\n"
        "ImportError: No module named 'numpy.core._multiarray_umath'\n"
    ),
    "pip --target and a compiled part": (
        "pip3.11 install -t ./site-packages pillow\n"
        "ImportError: cannot import name '_imaging' from 'PIL' (/app/site-packages/PIL)\n"
    ),
    "numpy's own words": (
        "The following compiled module files exist, but seem incompatible\n"
        "with with either python 'cpython-310' or the platform 'win32':\n\n"
        "  * _multiarray_umath.cp311-win_amd64.pyd\n"
        "ImportError: Error importing numpy\n"
    ),
    "two Pythons' paths": (
        "Requirement already satisfied: torch in /usr/local/lib/python3.12/site-packages (2.7.1)\n"
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main\n'
        "ModuleNotFoundError: No module named 'torch'\n"
    ),
    "uv's environment and another Python": (
        "Using Python 3.12.4 environment at: .venv\n + torch==2.7.1\n"
        'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.11/site.py", line 1\n'
        "ModuleNotFoundError: No module named 'torch'\n"
    ),
}


@pytest.mark.parametrize("name", OTHER_PYTHONS)
def test_packages_that_another_python_holds(name: str) -> None:
    assert report_of(OTHER_PYTHONS[name]).root_cause == "wrong-interpreter-inspected"


def test_a_wheel_of_another_tag() -> None:
    wheel = "torch-2.7.1+cu128-cp311-cp311-win_amd64.whl"
    text = f"ERROR: {wheel} is not a supported wheel on this platform.\n"
    assert report_of(text).root_cause == "wheel-for-other-python"


def test_a_torch_that_is_missing_in_the_only_python_is_missing() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main\n'
        "ModuleNotFoundError: No module named 'torch'\n"
    )
    assert report_of(text).root_cause == "torch-missing"
