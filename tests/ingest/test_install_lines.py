"""Install lines of Dockerfiles and shell scripts."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.errors import InputError
from envguard.facts.environment import Environment, Manager
from envguard.ingest.lockfile import load_lockfile

CU124 = "https://download.pytorch.org/whl/cu124"


def load(text: str, name: str = "Dockerfile", files: dict[str, str] | None = None) -> Environment:
    def read(path: str, including: str) -> tuple[str, str]:
        if path not in (files or {}):
            raise InputError(f"{path}: not there")
        return path, (files or {})[path]

    return load_lockfile(name, text, read=read).environment


def versions(environment: Environment) -> dict[str, str]:
    return {d.name: str(d.version) for d in environment.distributions or ()}


def test_continuations_variables_and_an_index() -> None:
    text = f"""FROM nvidia/cuda:12.4.1-devel-ubuntu22.04 AS base
ENV TORCH_VERSION=2.5.1 \\
    OTHER=1
FROM base
RUN apt-get update && pip3 install --no-cache-dir \\
    # why
    torch==${{TORCH_VERSION}} "torchvision<1" \\
    --index-url {CU124} && rm -rf /x
"""
    environment = load(text)
    assert versions(environment) == {"torch": "2.5.1", "torchvision": "None"}
    assert environment.torch is not None
    assert str(environment.torch.cuda) == "12.4"
    assert environment.image == "nvidia/cuda:12.4.1-devel-ubuntu22.04"


@pytest.mark.parametrize(
    ("image", "torch"),
    [
        ("pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel", "2.4.0+cu124"),
        ("docker.io/pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime", "1.13.1+cu116"),
    ],
)
def test_images_of_pytorch_hold_a_torch(image: str, torch: str) -> None:
    assert versions(load(f"FROM {image}\nRUN pip install numpy\n"))["torch"] == torch


def test_a_later_install_replaces_the_torch_of_the_image() -> None:
    text = "FROM pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel\nRUN pip install torch==2.6.0\n"
    assert versions(load(text)) == {"torch": "2.6.0"}


def test_images_of_servers_and_pythons() -> None:
    assert versions(load("FROM vllm/vllm-openai:v0.6.3\n")) == {"vllm": "0.6.3"}
    environment = load("FROM python:3.10-slim\nRUN pip install torch\n")
    assert environment.interpreter is not None
    assert str(environment.interpreter.version) == "3.10"


def test_only_the_last_stage_and_what_it_builds_on_count() -> None:
    text = """FROM a AS one
RUN pip install torch==1.0
FROM b AS two
RUN pip install torch==2.0
FROM two
RUN pip install numpy==1.0
"""
    assert versions(load(text)) == {"torch": "2.0", "numpy": "1.0"}


@pytest.mark.parametrize(
    "line",
    [
        "pip install torch==2.4.1",
        "pip3.10 install -U torch==2.4.1",
        "python3 -m pip --no-cache-dir install torch==2.4.1 2>&1 | tee log",
        "sudo -E /usr/bin/python -m pip install 'torch==2.4.1'",
        "uv pip install --system torch==2.4.1 -p 3.11",
        "uv add torch==2.4.1",
        "poetry add torch==2.4.1",
        "V=2.4.1; pip install torch==$V",
        "export V=2.4.1 && pip install torch==${V}",
        "pip install torch==${V:-2.4.1}",
        "if true; then pip install torch==2.4.1; fi",
        "conda run -n x pip install torch==2.4.1",
        "pip install \\\n  torch==2.4.1 \\\n  --pre",
        "(cd x && pip install torch==2.4.1)",
    ],
)
def test_install_lines_in_every_spelling(line: str) -> None:
    assert versions(load(f"#!/bin/sh\n{line}\n", "install.sh"))["torch"] == "2.4.1"


def test_conda_lines() -> None:
    text = (
        "conda create -y -n x python=3.10\n"
        "mamba install pytorch==2.3.0 pytorch-cuda=12.1 -c pytorch -y\n"
    )
    environment = load(text, "install.sh")
    assert environment.manager is Manager.CONDA
    assert environment.torch is not None
    assert (str(environment.torch.version), str(environment.torch.cuda)) == ("2.3.0", "12.1")


def test_requirements_files_are_found_beside_the_file() -> None:
    text = "FROM x\nCOPY requirements.txt /app/\nRUN pip install -r /app/requirements.txt\n"
    assert versions(load(text, files={"requirements.txt": "torch==2.1.0\n"})) == {"torch": "2.1.0"}
    found = load_lockfile("Dockerfile", text)
    assert any("is not there to be read" in gap.detail for gap in found.gaps)


def test_forms_of_run() -> None:
    text = """FROM x
RUN --mount=type=cache,target=/var/cache/pip pip install torch==2.1.0
RUN ["pip", "install", "numpy==1.0"]
RUN <<EOT
pip install einops==0.8.0
EOT
"""
    assert versions(load(text)) == {"torch": "2.1.0", "numpy": "1.0", "einops": "0.8.0"}


def test_what_only_the_shell_knows_is_named() -> None:
    found = load_lockfile("install.sh", "pip install torch==$(cat v) numpy==1.0\n")
    assert versions(found.environment) == {"numpy": "1.0"}
    assert any("torch==" in gap.detail for gap in found.gaps)


def test_uv_takes_its_backend_by_name() -> None:
    environment = load("uv pip install torch==2.6.0 --torch-backend=cu126\n", "install.sh")
    assert environment.indexes == ("", "https://download.pytorch.org/whl/cu126")


def test_a_script_that_installs_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"run\.sh: holds no install line"):
        load("echo hello\n", "run.sh")


@settings(deadline=None)
@given(st.text(alphabet="pip install torch=2.4$(){}'\"\\\n&;|<-# FROMRUNV", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for name in ("Dockerfile", "x.sh"):
        with suppress(InputError):
            load(text, name)
