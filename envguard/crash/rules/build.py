"""Builds of extensions: toolkits, compilers, isolation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


INSTALL_TOOLKIT = "install the CUDA toolkit of torch's CUDA major and set CUDA_HOME"


def check_toolkit_version(case: Case) -> Iterator[Finding]:
    """The toolkit's CUDA is not torch's: another major does not build, another minor may."""
    hit = case.log.first("cuda-version-mismatch") or case.log.first("cuda-version-differs")
    if hit is None:
        return
    nvcc = hit.groups.get("nvcc") or hit.groups.get("nvcc2", "")
    torch = hit.groups.get("torch") or hit.groups.get("torch2") or _torch_cuda(case)
    named = replace(hit, groups={**hit.groups, "nvcc": nvcc, "torch": torch})
    if nvcc.partition(".")[0] == torch.partition(".")[0]:
        yield make_finding(case, "toolkit-minor-mismatch-ok", Status.WARN, (named,))
    else:
        yield make_finding(case, "toolkit-major-mismatch", Status.FAIL, (named,))


def _torch_cuda(case: Case) -> str:
    torch = case.facts.environment.torch if case.facts.environment else None
    return str(torch.cuda) if torch is not None and torch.cuda is not None else "?"
