"""A CPU build of torch: beside a GPU, where a GPU may be, and where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    driver_evidence,
    gpu_words,
    torch_evidence,
    torch_words,
)
from envguard.checks.jetson import JETSON_REMEDY
from envguard.checks.presence import has_driver
from envguard.checks.remedies import install_remedy
from envguard.facts.environment import Manager
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.versions import CPU, Backend
from envguard.matrix.complete import possible_platforms
from envguard.matrix.fit import needs_own_code

if TYPE_CHECKING:
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.source import Source
    from envguard.matrix.loader import Matrix


def cpu_build_finding(
    facts: Facts, matrix: Matrix, torch: TorchBuild, options: CheckOptions
) -> Finding:
    """Judge a CPU build by what is known of the machine's GPUs.

    Args:
        facts: Completed facts.
        matrix: The tables.
        torch: The build.
        options: What the user insists on.
    """
    beside = _beside(facts, options)
    if beside and (board := _board(facts)):
        return _not_for_board(facts, torch, board)
    if beside:
        return _wasted(facts, matrix, torch, beside)
    better = _missed_backend(facts, matrix, torch) if facts.machine.gpus is None else None
    if better is not None:
        return _may_be_wasted(facts, matrix, torch, better, options)
    return Finding(
        code="WHL005",
        cause="cpu-build",
        status=Status.OK,
        title=f"{torch_words(torch)} is a CPU build",
        detail=f"It runs without a GPU{_why(torch)}; no GPU is known here.",
        package="torch",
        evidence=torch_evidence(torch),
    )


def _why(torch: TorchBuild) -> str:
    derived = torch.version is None or torch.version.local is None
    return " (PyPI holds only a CPU build for this platform)" if derived else ""


def _beside(facts: Facts, options: CheckOptions) -> str:
    """What the build stands beside, so that it is wasted; empty when nothing is known."""
    machine = facts.machine
    if machine.selected_gpus:
        return f"beside {gpu_words(machine.selected_gpus)}"
    if machine.gpus is None and machine.host.jetson:
        return f"on a {machine.host.jetson}, which has a GPU"
    if machine.gpus is None and has_driver(machine):
        named = machine.driver.version or f"for CUDA {machine.driver.cuda}"
        return f"beside the NVIDIA driver {named}"
    return "where a GPU is required" if options.require_gpu else ""


def _board(facts: Facts) -> str:
    """The Jetson that the machine is, whose torch comes from NVIDIA only; empty for another."""
    gpus = facts.machine.selected_gpus
    own = [g for g in gpus if g.capability is not None and needs_own_code(g.capability)]
    if own and len(own) == len(gpus):
        return own[0].name or f"a Jetson of compute capability {own[0].capability}"
    return facts.machine.host.jetson or "" if not gpus else ""


def _not_for_board(facts: Facts, torch: TorchBuild, board: str) -> Finding:
    return Finding(
        code="GPU006",
        cause="jetson-needs-l4t-build",
        status=Status.FAIL,
        title=f"{torch_words(torch)} is a CPU build on {board}",
        detail=f"It never uses a GPU{_why(torch)}, and a CUDA build for ARM servers has no code "
        "for this board's.",
        gpus=tuple(gpu.index for gpu in facts.machine.selected_gpus),
        package="torch",
        evidence=torch_evidence(torch),
        remedy=JETSON_REMEDY,
    )


def _wasted(facts: Facts, matrix: Matrix, torch: TorchBuild, beside: str) -> Finding:
    chosen = facts.machine.variable("UV_TORCH_BACKEND")
    by_uv = chosen == "auto" and torch.version is not None and torch.version.local == "cpu"
    detail = f"It never uses a GPU{_why(torch)}."
    if by_uv:
        detail += " UV_TORCH_BACKEND=auto let uv choose, and uv did not find the GPU."
    return Finding(
        code="WHL002",
        cause="resolver-auto-backend" if by_uv else "cpu-wheel-selected",
        status=Status.FAIL,
        title=f"{torch_words(torch)} is a CPU build {beside}",
        detail=detail,
        gpus=tuple(gpu.index for gpu in facts.machine.selected_gpus),
        package="torch",
        evidence=(*torch_evidence(torch), *driver_evidence(facts), *_chosen(chosen)),
        remedy=Remedy("name the backend: uv pip install --torch-backend cu128 ...")
        if by_uv
        else None,
        source=matrix.machines.source("uv-auto") if by_uv else _row_source(facts, matrix, torch),
    )


def _chosen(value: str | None) -> tuple[Evidence, ...]:
    return (Evidence("variables.UV_TORCH_BACKEND", value, "environment"),) if value else ()


def _row_source(facts: Facts, matrix: Matrix, torch: TorchBuild) -> Source | None:
    """Where PyPI's wheels of this release were read, for a build that came from there."""
    if torch.version is None or torch.version.local is not None:
        return None
    platforms = possible_platforms(facts.machine)
    row = matrix.torch.build(torch.version, CPU, platforms[0])
    return row.provenance.source if row else None


def _came_from_pypi(facts: Facts, torch: TorchBuild) -> bool:
    """PyPI's wheels carry no label in their metadata, whatever ``torch.__version__`` says."""
    environment = facts.environment
    found = environment.distribution("torch") if environment else None
    version = found.version if found else torch.version
    by_conda = environment is not None and environment.manager is Manager.CONDA
    return version is not None and version.local is None and not by_conda


def _missed_backend(facts: Facts, matrix: Matrix, torch: TorchBuild) -> Backend | None:
    """The newest CUDA build of the same release that the PyTorch index holds.

    Returns:
        None unless PyPI's wheel is a CPU build on every platform that this machine can be, and
        this build came from there.
    """
    release = matrix.torch.release(torch.version) if torch.version else None
    if release is None or not _came_from_pypi(facts, torch):
        return None
    platforms = possible_platforms(facts.machine)
    if any(release.pypi.get(platform) != CPU for platform in platforms):
        return None
    backends = {b for p in platforms for b in release.variants.get(p, ()) if b.cuda is not None}
    return max(
        backends, key=lambda b: (b.cuda.major, b.cuda.minor) if b.cuda else (0, 0), default=None
    )


def _may_be_wasted(
    facts: Facts, matrix: Matrix, torch: TorchBuild, better: Backend, options: CheckOptions
) -> Finding:
    platforms = " and ".join(str(platform) for platform in possible_platforms(facts.machine))
    public = torch.version.public if torch.version else ""
    url = matrix.torch.index_url(better, options.torch_index)
    is_driver_absent = facts.machine.driver.is_loaded is False
    return Finding(
        code="WHL006",
        cause="cpu-wheel-selected",
        status=Status.WARN if is_driver_absent else Status.FAIL,
        title=f"{torch_words(torch)} is the CPU build that PyPI holds for {platforms}",
        detail="It never uses a GPU. Nobody asked for a CPU build, and nothing says that the "
        "machine has no NVIDIA GPU. CUDA builds of this release are on the PyTorch index only.",
        package="torch",
        evidence=torch_evidence(torch),
        remedy=install_remedy(
            facts.environment,
            (f"torch=={public}+{better.label}",),
            index_url=url,
            text=f"take a CUDA build such as {better.label}; where the CPU is meant, pin "
            f"torch=={public}+cpu",
        ),
        source=_row_source(facts, matrix, torch),
    )
