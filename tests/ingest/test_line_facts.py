"""None"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.facts.environment import Accelerator
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.ingest.detect import told_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.facts.facts import Facts

# Each text is retold in the form of its program; what it tells stands below.
TEXTS = {
    "transformers": """\
- `transformers` version: 4.48.0
- Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.35
- Python version: 3.10.14
- Huggingface_hub version: 0.27.1
- PyTorch version (GPU?): 2.5.1+cu121 (True)
- Tensorflow version (GPU?): not installed (NA)
- Using GPU in script?: <fill in>
- GPU type: NVIDIA A100-SXM4-80GB
""",
    "accelerate": """\
- `Accelerate` version: 1.2.1
- Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.35
- Python version: 3.10.14
- Numpy version: 1.26.4
- PyTorch version (GPU?): 2.5.1+cu121 (True)
- PyTorch XPU available: False
- System RAM: 503.50 GB
- GPU type: NVIDIA A100-SXM4-80GB
""",
    "sglang": """\
Python: 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]
CUDA available: True
GPU 0: NVIDIA A100-SXM4-80GB
GPU 0 Compute Capability: 8.0
CUDA_HOME: /usr/local/cuda
NVCC: Cuda compilation tools, release 12.4, V12.4.131
CUDA Driver Version: 550.54.15
PyTorch: 2.5.1+cu121
sglang: 0.4.1
flashinfer: 0.1.6+cu121torch2.4
NVIDIA Topology:
""",
    "lmdeploy": """\
sys.platform: linux
Python: 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]
CUDA available: True
MUSA available: False
GPU 0: NVIDIA A100-SXM4-80GB
CUDA_HOME: /usr/local/cuda
NVCC: Cuda compilation tools, release 12.4, V12.4.131
GCC: gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
PyTorch: 2.5.1+cu121
PyTorch compiling details: PyTorch built with:
  - GCC 9.3
  - CUDA Runtime 12.1
LMDeploy: 0.6.4+
""",
    "detectron2": """\
----------------------  -----------------------------------------------------------
sys.platform            linux
Python                  3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]
numpy                   1.26.4
detectron2              0.6 @/home/user/detectron2/detectron2
Compiler                GCC 11.4
CUDA compiler           CUDA 12.4
PyTorch                 2.5.1+cu121 @/home/user/env/lib/python3.10/site-packages/torch
PyTorch debug build     False
GPU available           Yes
GPU 0                   NVIDIA A100-SXM4-80GB (arch=8.0)
Driver version          550.54.15
CUDA_HOME               /usr/local/cuda
""",
    "mmengine": """\
{'sys.platform': 'linux',
 'Python': '3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]',
 'CUDA available': True,
 'GPU 0': 'NVIDIA A100-SXM4-80GB',
 'NVCC': 'Cuda compilation tools, release 12.4, V12.4.131',
 'GCC': 'gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0',
 'PyTorch': '2.5.1+cu121',
""",
    "comfyui": """\
Total VRAM 81051 MB, total RAM 515000 MB
pytorch version: 2.5.1+cu121
xformers version: 0.0.28.post3
Set vram state to: NORMAL_VRAM
Device: cuda:0 NVIDIA A100-SXM4-80GB : cudaMallocAsync
** Python version: 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]
""",
    "comfyui issue": """\
## System Information
- **ComfyUI Version:** 0.3.40
- **OS:** posix
- **Python Version:** 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]
- **PyTorch Version:** 2.5.1+cu121
## Devices

- **Name:** cuda:0 NVIDIA A100-SXM4-80GB : cudaMallocAsync
  - **Type:** cuda
""",
    "webui": """\
Python 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0]
Version: v1.9.4
NVIDIA A100-SXM4-80GB
python: 3.10.14  \u2022  torch: 2.5.1+cu121  \u2022  xformers: 0.0.28.post3  \u2022  gradio: 3.41.2
""",
    "kohya": """\
10:00:00-000001 INFO     Python version is 3.10.14 (main, May  6 2024) [GCC 11.2.0]
10:00:00-000002 INFO     nVidia toolkit detected
10:00:03-000003 INFO     Torch 2.5.1+cu121
10:00:03-000004 INFO     Torch backend: nVidia CUDA 12.1 cuDNN 90100
10:00:03-000005 INFO     Torch detected GPU: NVIDIA A100-SXM4-80GB VRAM 81051 Arch (8, 0) Cores 108
""",
    "unsloth": """\
==((====))==  Unsloth 2025.1.5: Fast Llama patching. Transformers: 4.48.0.
   \\\\   /|    NVIDIA A100-SXM4-80GB. Num GPUs = 1. Max memory: 79.151 GB. Platform: Linux.
O^O/ \\_/ \\    Torch: 2.5.1+cu121. CUDA: 8.0. CUDA Toolkit: 12.1. Triton: 3.1.0
\\        /    Bfloat16 = TRUE. FA [Xformers = 0.0.28.post3. FA2 = False]
""",
    "axolotl": """\
****************************************
**** Axolotl Dependency Versions *****
  accelerate: 1.2.1
        peft: 0.14.0
transformers: 4.48.0
         trl: 0.13.0
       torch: 2.5.1+cu121
bitsandbytes: 0.45.0
****************************************
NVIDIA A100-SXM4-80GB
""",
    "lightning": """\
* CUDA:
\t- GPU:
\t\t- NVIDIA A100-SXM4-80GB
\t- available:         True
\t- version:           12.1
* Lightning:
\t- lightning:         2.4.0
\t- torch:             2.5.1+cu121
* System:
\t- OS:                Linux
\t- python:            3.10.14
""",
    "xformers": """\
xFormers 0.0.28.post3
memory_efficient_attention.cutlassF:               available
pytorch.version:                                   2.5.1+cu121
pytorch.cuda:                                      available
gpu.compute_capability:                            8.0
gpu.name:                                          NVIDIA A100-SXM4-80GB
build.info:                                        available
build.cuda_version:                                1201
build.python_version:                              3.10.14
""",
    "bitsandbytes": """\
Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.35
  libc: glibc-2.35
Python: 3.10.14
PyTorch: 2.5.1+cu121
  CUDA: 12.1
  HIP: N/A
Related packages:
  accelerate: 1.2.1
PyTorch settings found: CUDA_VERSION=121, Highest Compute Capability: (8, 0).
GPU: NVIDIA A100-SXM4-80GB
""",
    "table": """\
| Component | Version |
|---|---|
| PyTorch | 2.5.1+cu121 |
| Python | 3.10.14 |
| GPU | NVIDIA A100-SXM4-80GB |
| Driver | 550.54.15 |
""",
    "cells": """\
In [1]: import torch
In [2]: torch.__version__
Out[2]: '2.5.1+cu121'

In [3]: torch.cuda.get_device_name(0)
Out[3]: 'NVIDIA A100-SXM4-80GB'
""",
    "one-liner": """\
$ python -V
Python 3.10.14
$ python -c "import torch; print(torch.__version__, torch.version.cuda)"
2.5.1+cu121 12.1
$ python -c "import torch; print(torch.cuda.get_device_name())"
NVIDIA A100-SXM4-80GB
""",
    "tools": """\
$ gcc --version
gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
$ nvcc --version
nvcc: NVIDIA (R) Cuda compiler driver
Cuda compilation tools, release 12.4, V12.4.131
$ ldd --version
ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35
$ uname -a
Linux node7 5.15.0-105-generic #115-Ubuntu SMP Mon Apr 15 09:52:04 UTC 2024 x86_64 GNU/Linux
$ cat /etc/os-release
PRETTY_NAME="Ubuntu 22.04.4 LTS"
$ pip show torch
Name: torch
Version: 2.5.1+cu121
Summary: Tensors
NVIDIA A100-SXM4-80GB
""",
    "prose": """\
Hi, training dies at the first step. I run torch 2.5.1+cu121, python 3.10.14 and driver 550.54.15
on one NVIDIA A100-SXM4-80GB, see below.
""",
    "list": """\
* PyTorch: 2.5.1+cu121
* torch version 2.5.1+cu121
* driver 550.54.15
* GPU: 1x NVIDIA A100-SXM4-80GB
""",
}
HAS_GPU = {name for name in TEXTS if name not in {"tools"}}


def read(text: str) -> Facts:
    facts = told_facts(text, "x")
    assert facts is not None
    return facts


@pytest.mark.parametrize("name", TEXTS)
def test_every_form_tells_torch(name: str) -> None:
    environment = read(TEXTS[name]).environment
    assert environment is not None
    assert environment.torch is not None
    assert str(environment.torch.version) == "2.5.1+cu121"
    assert environment.torch.cuda == CudaVersion(12, 1)


@pytest.mark.parametrize("name", TEXTS)
def test_every_form_tells_the_gpu(name: str) -> None:
    gpus = read(TEXTS[name]).machine.gpus
    assert [gpu.name for gpu in gpus or ()] == ["NVIDIA A100-SXM4-80GB"]
    assert {gpu.capability for gpu in gpus or ()} <= {None, ComputeCapability(8, 0)}


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "3.10.14" in text])
def test_every_form_tells_python(name: str) -> None:
    environment = read(TEXTS[name]).environment
    assert environment is not None
    interpreter = environment.interpreter
    if name != "xformers":  # there it is the Python that built it
        assert interpreter is not None
        assert str(interpreter.version) == "3.10.14"


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "550.54.15" in text])
def test_every_form_tells_the_driver(name: str) -> None:
    assert str(read(TEXTS[name]).machine.driver.version) == "550.54.15"


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "release 12.4" in text])
def test_every_form_tells_the_toolkit(name: str) -> None:
    assert read(TEXTS[name]).machine.toolkit.nvcc == CudaVersion(12, 4)


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if "x86_64" in text])
def test_platform_lines_tell_the_host(name: str) -> None:
    host = read(TEXTS[name]).machine.host
    assert str(host.platform) == "linux-x86_64"
    assert str(host.glibc) == "2.35"


AROUND: dict[str, Callable[[str], str]] = {
    "indented": lambda line: f"      {line}",
    "quoted": lambda line: f"> {line}",
    "in a mail": lambda line: f"> > {line}",
    "CI": lambda line: f"2026-05-01T10:00:00.1234567Z {line}",
    "image build": lambda line: f"#12 34.567 {line}",
    "rank": lambda line: f"[rank0]: {line}",
    "worker": lambda line: f"(RayTrainWorker pid=4711, ip=10.0.0.3) {line}",
    "compose": lambda line: f"trainer-1  | {line}",
    "coloured": lambda line: f"\x1b[32m{line}\x1b[0m",
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", TEXTS)
def test_facts_survive_what_stands_around_lines(name: str, around: str) -> None:
    wrap = AROUND[around]
    wrapped = "\n".join(wrap(line) for line in TEXTS[name].splitlines())
    assert essence(read(wrapped)) == essence(read(TEXTS[name]))


def essence(facts: Facts) -> object:
    """What is known, without words about it."""
    machine, environment = facts.machine, facts.environment
    known = replace(machine, readings=())
    return known, environment and (environment.interpreter, environment.torch)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(TEXTS)),
    st.lists(
        st.sampled_from(["", "```", "<details>", "words of mine", "### Versions"]), max_size=4
    ),
)
def test_facts_survive_fences_and_tags(name: str, before: list[str]) -> None:
    text = "\n".join([*before, TEXTS[name], *reversed(before)])
    assert essence(read(text)) == essence(read(TEXTS[name]))


@settings(deadline=None)
@given(st.text(alphabet="torchpyCUDA 0123456789.:=+-|>`'\"()\nx*", max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    told_facts(text, "x")


@pytest.mark.parametrize(
    "line",
    [
        "flash-attn 2.7 requires torch>=2.4",
        "xformers 0.0.28 requires torch==2.5.0",
        "Collecting torch==2.1.0 (from -r requirements.txt (line 3))",
        "  Downloading torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl (766.7 MB)",
        "I tried torch 2.1.0 and it worked",
        "it works with torch 2.1.0",
        "please install pytorch 2.1.0",
        "pip install torch==2.1.0",
        "RUN pip install torch==2.1.0+cu121",
        '  File "/opt/torch-2.1.0/lib/x.py", line 3, in f',
        "/home/u/envs/torch2.1/lib/python3.10/site-packages/torch/cuda/__init__.py",
        "you need CUDA 12.1 or newer, torch 2.1 or higher",
        "And because you require torch==2.7.1, we can conclude that your requirements fail",
    ],
)
def test_wishes_and_attempts_are_not_what_runs(line: str) -> None:
    facts = told_facts(line, "x")
    assert facts is None or facts.environment is None or facts.environment.torch is None


def test_the_one_that_failed_counts_and_not_the_one_that_worked() -> None:
    found = read("With torch 2.1.0 it worked, but now torch 2.6.0+cu124 fails\n").environment
    assert found is not None
    assert found.torch is not None
    assert str(found.torch.version) == "2.6.0+cu124"


def test_a_report_beats_a_loose_line_and_the_difference_is_said() -> None:
    text = (
        "My driver 550.54.15 is fine\n\nPyTorch version: 2.5.1+cu121\n"
        "CUDA used to build PyTorch: 12.1\nNvidia driver version: 535.104.05\n"
    )
    facts = read(text)
    assert str(facts.machine.driver.version) == "535.104.05"
    gap = facts.gap("machine.driver.version.other")
    assert gap is not None
    assert "550.54.15" in gap.detail
    assert "535.104.05" in gap.detail


def test_of_two_reports_the_one_nearest_to_the_error_wins() -> None:
    one, other = (
        f"PyTorch version: {torch}\nCUDA used to build PyTorch: 12.4\nIs debug build: False\n"
        for torch in ("2.5.1+cu124", "2.6.0+cu124")
    )
    gap = "\n" * 30
    found = read(f"{one}{gap}{other}RuntimeError: CUDA error: no kernel image\n").environment
    assert found is not None
    assert found.torch is not None
    assert str(found.torch.version) == "2.6.0+cu124"
    found = read(f"{one}RuntimeError: CUDA error: no kernel image\n{gap}{other}").environment
    assert found is not None
    assert found.torch is not None
    assert str(found.torch.version) == "2.5.1+cu124"


def test_the_driver_that_torch_met_is_a_cuda_version() -> None:
    text = "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)."
    assert read(text).machine.driver.cuda == CudaVersion(12, 4)


@pytest.mark.parametrize(
    ("line", "count", "name"),
    [
        ("GPU: 4x A100 80GB", 4, "A100 80GB"),
        ("GPUs: 8 x NVIDIA H100 80GB HBM3", 8, "NVIDIA H100 80GB HBM3"),
        ("We train on 2x4090.", 2, "GeForce 4090"),
        ("- GPU type: Tesla V100-SXM2-32GB\n- GPU number: 8", 8, "Tesla V100-SXM2-32GB"),
        ("NVIDIA GeForce RTX 5090", 1, "NVIDIA GeForce RTX 5090"),
        ("on my RTX 3090 it crashes", 1, "RTX 3090"),
        ("GPU 0,1,2,3: NVIDIA A800-SXM4-80GB", 4, "NVIDIA A800-SXM4-80GB"),
    ],
)
def test_gpus_of_one_line(line: str, count: int, name: str) -> None:
    gpus = read(line).machine.gpus
    assert [gpu.name for gpu in gpus or ()] == [name] * count
    assert [gpu.index for gpu in gpus or ()] == list(range(count))


@pytest.mark.parametrize(
    "line",
    [
        "step 3090 of 4090",
        "listening on 127.0.0.1:4090",
        "loss at T 4: 0.3",
        "see issue #4090",
        "layer L 4",
    ],
)
def test_numbers_are_no_gpus(line: str) -> None:
    facts = told_facts(line, "x")
    assert facts is None or facts.machine.gpus is None


def test_what_builders_compared_is_told() -> None:
    text = (
        "RuntimeError: The detected CUDA version (11.8) mismatches the version that was used to "
        "compile\nPyTorch (12.1). Please make sure to use the same CUDA versions.\n"
    )
    assert read(text).machine.toolkit.nvcc == CudaVersion(11, 8)


def test_a_label_without_cuda_beside_a_named_cuda_is_no_cpu_build() -> None:
    found = read("OS: Windows 11\nArchitecture: AMD64\nPyTorch: 2.6.0\nCUDA: 12.4\n").environment
    assert found is not None
    assert found.torch is not None
    assert found.torch.accelerator is Accelerator.CUDA
    assert found.torch.cuda is None


def test_what_pip_left_behind_counts() -> None:
    text = (
        "Requirement already satisfied: torch==2.5.1 in ./venv/lib/python3.11/site-packages "
        "(2.5.1+cu121)\ntorchvision 0.20.1 requires torch==2.5.1, but you have torch 2.6.0 which "
        "is incompatible.\n"
    )
    found = read(text).environment
    assert found is not None
    assert found.torch is not None
    assert re.match(r"2\.[56]", str(found.torch.version))


def test_long_lines_and_many_facts_stay_bounded() -> None:
    assert told_facts("torch 2.5.1 " * 100_000, "x") is None
    many = "\n".join(f"torch 2.5.{n % 10}" for n in range(20_000))
    assert len(read(many).gaps) < 40
