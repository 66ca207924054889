"""What the two indexes hold: torch and its companions as published, their surroundings invented."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from tests.loopback.files import Served, source, wheel

_WHEELS = Path(__file__).with_name("wheels.json")
_PYTHONS = ("cp311", "cp312", "cp313")

# torch, backends, torchvision, torchaudio, triton: some releases as they were published.
_RELEASES = (
    ("2.3.1", ("cu121",), "0.18.1", "2.3.1", "==2.3.1"),
    ("2.8.0", ("cu126", "cu128", "cu129"), "0.23.0", "2.8.0", "==3.4.0"),
    ("2.9.1", ("cu126", "cu128", "cu129", "cu130"), "0.24.1", "2.9.1", "==3.5.1"),
    ("2.10.0", ("cu126", "cu128", "cu129", "cu130"), "0.25.0", "2.10.0", "==3.6.0"),
    ("2.11.0", ("cu126", "cu128", "cu129", "cu130"), "0.26.0", "2.11.0", "==3.6.0"),
    ("2.13.0", ("cu126", "cu129", "cu130", "cu132"), "0.28.0", "2.11.0", "==3.7.1"),
    ("2.14.1", ("cu126", "cu130", "cu132"), "0.29.1", "2.11.0", "~=3.8.0"),
    ("2.15.0", ("cu130", "cu132"), "0.29.2", "2.11.1", "~=3.9.0"),
)
_TRITONS = ("2.3.1", "3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")
_CU12 = (
    "nvidia-cublas-cu12==12.6.4.1",
    "nvidia-cuda-runtime-cu12==12.6.77",
    "nvidia-cudnn-cu12==9.10.2.21",
    "nvidia-nccl-cu12==2.27.3",
)
_CU13 = ("cuda-toolkit[cublas,cudart]==13.0.3", "nvidia-cudnn-cu13==9.20.0.48")
_PLAIN = ("filelock", "typing-extensions>=4.10.0", "sympy>=1.13.3", "networkx", "jinja2", "fsspec")
_PLATFORMS = {
    "manylinux_2_28_x86_64": "x86_64",
    "manylinux_2_28_aarch64": "aarch64",
    "win_amd64": "",
}

Pages = dict[str, list[Served]]


@cache
def recorded_hashes() -> dict[tuple[str, str], str]:
    """Folder and file name -> sha256 as public lockfiles record it."""
    document = json.loads(_WHEELS.read_text(encoding="utf-8"))
    return {(row["folder"], row["filename"]): row["sha256"] for row in document["wheels"]}


def _known(folder: str, file: Served) -> Served:
    sha256 = recorded_hashes().get((folder, file.filename))
    return file.with_hash(sha256) if sha256 else file


@cache
def torch_pages() -> dict[str, Pages]:
    """Backend -> project name -> files, of the PyTorch index."""
    backends = sorted({backend for release in _RELEASES for backend in release[1]} | {"cpu"})
    return {backend: _torch_index(backend) for backend in backends}


def _torch_index(backend: str) -> Pages:
    pages: Pages = {"torch": [], "torchvision": [], "torchaudio": []}
    for torch, backends, vision, audio, triton in _RELEASES:
        if backend not in (*backends, "cpu"):
            continue
        for tags in _tags():
            pages["torch"].append(_torch_wheel(torch, backend, triton, tags))
            pages["torchvision"].append(_vision_wheel(vision, torch, backend, tags))
            pages["torchaudio"].append(_audio_wheel(audio, torch, backend, tags))
    pages["torchaudio"] = list({file.filename: file for file in pages["torchaudio"]}.values())
    pages["triton"] = _triton_wheels()
    # The real index carries common packages too, sometimes newer than PyPI's: the bait.
    pages["requests"] = [wheel("requests", "99.0")]
    pages["filelock"] = [wheel("filelock", "99.0")]
    pages["numpy"] = [wheel("numpy", "99.0")]
    return pages


def _tags() -> list[str]:
    return [f"{py}-{py}-{platform}" for py in _PYTHONS for platform in _PLATFORMS]


def _torch_wheel(version: str, backend: str, triton: str, tags: str) -> Served:
    requires: tuple[str, ...] = _PLAIN
    if backend != "cpu" and "manylinux" in tags:
        cuda = _CU13 if backend.startswith("cu13") else _CU12
        condition = "; platform_system == 'Linux'"
        requires += (*(f"{r}{condition}" for r in cuda), f"triton{triton}{condition}")
    return _known(backend, wheel("torch", f"{version}+{backend}", tags, requires, python=">=3.9"))


def _vision_wheel(version: str, torch: str, backend: str, tags: str) -> Served:
    bound = f"torch=={torch}" if version < "0.29.1" else "torch>=2.14.0"
    requires = ("numpy", bound, "pillow>=5.3.0")
    return _known(backend, wheel("torchvision", f"{version}+{backend}", tags, requires))


def _audio_wheel(version: str, torch: str, backend: str, tags: str) -> Served:
    requires = () if version >= "2.11.0" else (f"torch=={torch}",)
    return _known(backend, wheel("torchaudio", f"{version}+{backend}", tags, requires))


def _triton_wheels() -> list[Served]:
    return [
        _known(
            "", wheel("triton", version, f"{py}-{py}-manylinux_2_27_{arch}.manylinux_2_28_{arch}")
        )
        for version in _TRITONS
        for py in _PYTHONS
        for arch in ("x86_64", "aarch64")
    ]


@cache
def further_pages() -> Pages:
    """An index of a team's own: a package that no other has, and a bait."""
    return {
        "own-kernels": [wheel("own-kernels", "1.0", requires=("numpy",))],
        "numpy": [wheel("numpy", "99.0")],
    }


@cache
def default_pages() -> Pages:
    """Project name -> files, of the index for everything else."""
    files = [
        *_surroundings(),
        *_pypi_torch(),
        *_triton_wheels(),
        wheel("timm", "1.0.20", requires=("torch", "torchvision", "pyyaml")),
        wheel("accelerate", "1.15.0", requires=("numpy", "psutil", "torch>=2.0.0")),
        wheel("oldlib", "1.0", requires=("torch<2.11",)),
        wheel("pinned", "0.11.0", requires=("torch==2.8.0", "torchaudio==2.8.0")),
        wheel("server", "0.2.5", requires=("torch>=2.1",), uploaded="2023-12-14T00:00:00Z"),
        wheel("server", "0.5.0", requires=("torch==2.4.1",), uploaded="2024-09-01T00:00:00Z"),
        wheel("server", "0.11.0", requires=("torch==2.8.0",), uploaded="2025-10-02T00:00:00Z"),
        wheel("server", "0.19.1", requires=("torch==2.11.0",), uploaded="2026-04-02T00:00:00Z"),
        wheel("server", "0.33.0", requires=("torch==2.13.0",), uploaded="2026-10-02T00:00:00Z"),
        wheel("server", "0.34.0", requires=("torch==2.15.0",), uploaded="2026-11-02T00:00:00Z"),
        wheel("trainer", "2.0", requires=("server",)),
        wheel("audiolib", "1.0", requires=("torchaudio==2.8.0",)),
        wheel("modern", "1.0", requires=("numpy>=2",)),
        wheel("ancient", "1.0", requires=("numpy<2",)),
        wheel("winonly", "1.0", "py3-none-win_amd64"),
        wheel("onlypy311", "1.0", "cp311-cp311-manylinux_2_17_x86_64"),
        wheel("newglibc", "2.0", "py3-none-manylinux_2_34_x86_64"),
        wheel("newglibc", "1.0", "py3-none-manylinux_2_17_x86_64"),
        wheel("fresh", "2.0", uploaded="2026-10-01T00:00:00Z"),
        wheel("fresh", "1.0", uploaded="2026-01-01T00:00:00Z"),
        wheel("oldspeed", "1.0", requires=("deepspeed<0.14",)),
        wheel("deepspeed", "0.13.5", requires=("torch", "numpy")),
        source("deepspeed", "0.19.8", ("torch>=2.0.0", "numpy", "psutil", "hjson")),
        source("flash-attn", "2.8.3", preamble="import torch_that_is_not_there"),
        source("needs-torch-to-build", "1.0", preamble="import torch_that_is_not_there"),
    ]
    pages: Pages = {}
    for file in files:
        pages.setdefault(file.filename.split("-")[0].replace("_", "-"), []).append(file)
    return pages


def _surroundings() -> list[Served]:
    versions = {
        "filelock": "3.20.0",
        "typing-extensions": "4.16.0",
        "sympy": "1.14.0",
        "mpmath": "1.3.0",
        "networkx": "3.6.1",
        "jinja2": "3.1.6",
        "fsspec": "2026.3.0",
        "pillow": "12.1.0",
        "psutil": "7.2.1",
        "hjson": "3.1.0",
        "einops": "0.8.1",
        "pyyaml": "6.0.4",
        "requests": "2.34.2",
        "nvidia-cublas-cu12": "12.6.4.1",
        "nvidia-cuda-runtime-cu12": "12.6.77",
        "nvidia-cudnn-cu12": "9.10.2.21",
        "nvidia-nccl-cu12": "2.27.3",
        "nvidia-cudnn-cu13": "9.20.0.48",
        "nvidia-cublas": "13.1.0.3",
        "nvidia-cuda-runtime": "13.0.96",
    }
    plain = [wheel(name, version) for name, version in versions.items()]
    toolkit = (
        "nvidia-cublas; extra == 'cublas'",
        "nvidia-cuda-runtime; extra == 'cudart'",
    )
    return [
        *plain,
        wheel("numpy", "1.26.4"),
        wheel("numpy", "2.4.1"),
        wheel("cuda-toolkit", "13.0.3", requires=toolkit),
    ]


def _pypi_torch() -> list[Served]:
    """PyPI's builds carry no label; newest first in line wherever the family is not routed."""
    found = []
    for torch, _, vision, audio, triton in _RELEASES:
        requires = (*_PLAIN, *_CU13, f"triton{triton}; platform_system == 'Linux'")
        for tags in ("cp311-cp311-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_x86_64"):
            found.append(wheel("torch", torch, tags, requires))
            found.append(wheel("torchvision", vision, tags, (f"torch=={torch}", "numpy")))
            found.append(wheel("torchaudio", audio, tags))
    return list({file.filename: file for file in found}.values())
