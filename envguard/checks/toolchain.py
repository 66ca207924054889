"""The toolchain family: host compiler and ninja, for ops that DeepSpeed builds on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, torch_evidence, torch_words
from envguard.checks.deepspeed import deepspeed_of, toolkit_evidence
from envguard.checks.installed import judged_torch, lists_everything
from envguard.checks.remedies import install_remedy
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from envguard.checks.installed import Package
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.loader import Matrix


def check_compilers(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The host compiler and ninja for ops that are built on first use."""
    package, torch = deepspeed_of(facts, matrix), judged_torch(facts)
    if package is None or torch is None or torch.version is None:
        return
    gcc, nvcc = facts.machine.toolkit.gcc, facts.machine.toolkit.nvcc
    if gcc is not None and nvcc is not None and torch.accelerator is Accelerator.CUDA:
        yield from _host_compiler(facts, package, gcc, nvcc, matrix)
    if gcc is not None:
        yield from _standard(package, torch, torch.version, gcc, matrix)
    yield from _ninja(facts, package)


def _host_compiler(
    facts: Facts, package: Package, gcc: Version, nvcc: CudaVersion, matrix: Matrix
) -> Iterator[Finding]:
    row = matrix.toolkits.host_compiler(nvcc)
    if row is None or row.gcc_min <= gcc.major <= row.gcc_max:
        return
    newer = gcc.major > row.gcc_max
    yield Finding(
        code="DSP004",
        cause="host-compiler-not-accepted",
        status=Status.WARN,
        title=f"nvcc {nvcc} does not accept GCC {gcc}",
        detail=f"It takes GCC {row.gcc_min} to {row.gcc_max}. Ops that are built on first use fail "
        + ("with 'unsupported GNU version'" if newer else "in the compiler")
        + "; import deepspeed works.",
        package="deepspeed",
        evidence=(
            package.evidence,
            Evidence("toolkit.gcc", str(gcc), "gcc"),
            toolkit_evidence(facts, nvcc),
        ),
        remedy=Remedy(f"install GCC {row.gcc_max} and set CC and CXX to it"),
        source=row.provenance.source,
    )


def _standard(
    package: Package, torch: TorchBuild, version: Version, gcc: Version, matrix: Matrix
) -> Iterator[Finding]:
    table = matrix.packages("torch")
    for row in table.ranges(version) if table else ():
        if row.gcc_min is not None and gcc.major < row.gcc_min:
            yield Finding(
                code="DSP006",
                cause="compiler-too-old-for-torch",
                status=Status.WARN,
                title=f"GCC {gcc} has no C++{row.cxx_min}, which the headers of "
                f"{torch_words(torch)} demand",
                detail="Ops that are built on first use fail in torch's headers; import deepspeed "
                "works.",
                package="deepspeed",
                evidence=(
                    package.evidence,
                    Evidence("toolkit.gcc", str(gcc), "gcc"),
                    *torch_evidence(torch),
                ),
                remedy=Remedy(f"install GCC {row.gcc_min} or newer and set CC and CXX to it"),
                source=row.provenance.source,
            )


def _ninja(facts: Facts, package: Package) -> Iterator[Finding]:
    gap = facts.gap("machine.toolkit.ninja")
    environment = facts.environment
    if facts.machine.toolkit.ninja is not None or environment is None or gap is None:
        return
    installed = environment.distribution("ninja") is not None
    if gap.reason is not GapReason.ABSENT or installed or not lists_everything(facts):
        return
    yield Finding(
        code="DSP005",
        cause="ninja-missing",
        status=Status.WARN,
        title="ninja is missing, which builds DeepSpeed's ops",
        detail="Building an op on first use raises RuntimeError: Ninja is required to load C++ "
        "extensions; import deepspeed works.",
        package="deepspeed",
        evidence=(package.evidence, Evidence("toolkit.ninja", "none", gap.probe)),
        remedy=install_remedy(environment, ("ninja",)),
    )
