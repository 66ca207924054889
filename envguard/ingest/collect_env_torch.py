"""The environment that a ``collect_env`` report describes: the imported torch, the packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Distribution,
    Environment,
    Manager,
    TorchBuild,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.torch_label import label_of_version
from envguard.ingest.conda_list import conda_row, torch_of_conda
from envguard.ingest.part import cuda_or_none, version_or_none
from envguard.ingest.pip_list import build_of_metadata, parse_freeze_line, sort_distributions

if TYPE_CHECKING:
    from envguard.facts.environment import Interpreter
    from envguard.ingest.collect_env_fields import Block

SOURCE = "collect_env"
_NOT_IMPORTABLE = frozenset({"", "N/A", "Could not collect", "None"})
# ``torch.version.cuda is None`` is printed as None, or as "Could not collect" where nvidia-smi
# or nvcc answered; "N/A" stands for a ROCm build or a torch that could not be imported.
_NO_CUDA = frozenset({"None", "Could not collect", "No CUDA"})
_NO_ROCM = frozenset({"", "N/A", "None", "Could not collect"})


def environment_of(
    block: Block, interpreter: Interpreter | None
) -> tuple[Environment, tuple[Gap, ...]]:
    """The environment of a report.

    Torch is the one that was imported; the package lines say what the metadata say, which can
    be another version. Where torch could not be imported, the metadata are all there is.

    Args:
        block: The report's fields.
        interpreter: Its interpreter.
    """
    distributions = _distributions(block)
    torch, gaps = _torch(block, distributions or ())
    if distributions is not None:
        detail = "only the packages that collect_env looks for are listed"
        gaps = (*gaps, Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail))
    elif block.packages:
        detail = "neither pip nor conda could be asked there"
        gaps = (*gaps, Gap("environment.distributions", GapReason.UNREADABLE, SOURCE, detail))
    environment = Environment(interpreter, distributions, torch, manager=_manager(block))
    return environment, gaps


def _manager(block: Block) -> Manager | None:
    if block.has_uv or any(tag == "uv" for tag, _ in block.packages):
        return Manager.UV
    rows = [conda_row(text) for tag, text in block.packages if tag == "conda"]
    by_conda = any(
        row and row.distribution.name == "torch" and row.distribution.installer == "conda"
        for row in rows
    )
    return Manager.CONDA if by_conda else None


def _distributions(block: Block) -> tuple[Distribution, ...] | None:
    """Both lists in one; of one name with two versions, pip's word stands first."""
    frozen = [parse_freeze_line(text) for tag, text in block.packages if tag != "conda"]
    rows = [conda_row(text) for tag, text in block.packages if tag == "conda"]
    found = [distribution for distribution in frozen if distribution]
    listed = {_public(distribution) for distribution in found}
    found += [r.distribution for r in rows if r and _public(r.distribution) not in listed]
    has_list = any(text.startswith("No relevant") for _, text in block.packages)
    vllm = version_or_none(block.text("vllm").split(" ")[0])
    if vllm is not None and not any(d.name == "vllm" for d in found):
        found.append(Distribution("vllm", vllm))
    return sort_distributions(found) if found or has_list else None


def _public(distribution: Distribution) -> tuple[str, str | None]:
    """Name and public version: what pip and conda agree on, as conda may leave the label out."""
    return distribution.name, distribution.version.public if distribution.version else None


def _torch(
    block: Block, distributions: tuple[Distribution, ...]
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    text = block.text("torch")
    version = version_or_none(text)
    if version is None:
        return _torch_of_metadata(block, text, distributions)
    accelerator, cuda_text = _accelerator(block, text)
    build = TorchBuild(
        version=version,
        accelerator=accelerator,
        cuda=cuda_or_none(cuda_text) if accelerator is Accelerator.CUDA else None,
        origin=BuildOrigin.REPORT,
    )
    if accelerator is None:
        detail = f"CUDA used to build PyTorch: {block.text('cuda') or 'not stated'}"
        return build, (Gap("environment.torch.cuda", GapReason.UNREADABLE, SOURCE, detail),)
    return build, ()


def _accelerator(block: Block, version: str) -> tuple[Accelerator | None, str]:
    """What the build drives, and the text of its CUDA release."""
    cuda, rocm, xpu = block.text("cuda"), block.text("rocm"), block.text("xpu")
    label = label_of_version(version_or_none(version))
    if rocm not in _NO_ROCM:
        return Accelerator.ROCM, ""
    if cuda_or_none(cuda) is not None:
        return Accelerator.CUDA, cuda
    if label.accelerator is Accelerator.XPU or xpu not in _NO_ROCM:
        return Accelerator.XPU, ""
    if cuda in _NO_CUDA:
        return Accelerator.CPU, ""
    return label.accelerator, str(label.cuda or "")


def _torch_of_metadata(
    block: Block, text: str, distributions: tuple[Distribution, ...]
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    """The build where no torch was imported."""
    conda = [text for tag, text in block.packages if tag == "conda"]
    listed = next((d for d in distributions if d.name == "torch"), None)
    build = build_of_metadata(listed) if listed else None
    if build is not None and build.accelerator is None:
        build = torch_of_conda(conda) or build
    if "torch" not in block.fields:
        return build, ()
    if text not in _NOT_IMPORTABLE:
        detail = f"PyTorch version: {text[:80]!r} is no version"
        return build, (Gap("environment.torch", GapReason.UNREADABLE, SOURCE, detail),)
    fact = "environment.torch" if build is None else "environment.torch.imported"
    detail = "torch could not be imported there"
    return build, (Gap(fact, GapReason.ABSENT, SOURCE, detail),)
