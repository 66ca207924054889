"""The DeepSpeed family: the toolkit and compilers that its ops are built with on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, origin_of, torch_evidence, torch_words
from envguard.checks.installed import is_pinned_only, judged_torch, lists_everything, packages_of
from envguard.checks.remedies import install_remedy, pins_of
from envguard.conditions import bounds_hold
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import OperatingSystem
from envguard.facts.sentences import Text, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from envguard.checks.installed import Package
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.deepspeed import DeepspeedRelease
    from envguard.matrix.loader import Matrix


_SKIP = "DS_SKIP_CUDA_CHECK"
_FIRST_TO_IMPORT_WITHOUT = "ds-import-needs-toolkit"


def deepspeed_of(facts: Facts, matrix: Matrix) -> Package | None:
    """DeepSpeed among the distributions, or None."""
    environment = facts.environment
    if environment is None or environment.distribution("deepspeed") is None:
        return None
    return next((p for p in packages_of(facts, matrix) if p.name == "deepspeed"), None)


def _cuda_torch(facts: Facts) -> tuple[TorchBuild, CudaVersion] | None:
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.cuda is None:
        return None
    return torch, torch.cuda


def check_toolkit(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Nvcc against torch's CUDA, as DeepSpeed compares them before it builds an op."""
    package, build = deepspeed_of(facts, matrix), _cuda_torch(facts)
    if package is None or build is None:
        return
    torch, cuda = build
    nvcc = facts.machine.toolkit.nvcc
    if nvcc is None:
        yield from _missing(facts, package, torch, cuda, matrix)
        return
    row = matrix.deepspeed.release(package.version)
    is_firm = row is not None
    row = row or matrix.deepspeed.newest_before(package.version)
    if nvcc.major != cuda.major:
        yield _major_mismatch(facts, package, torch, nvcc, cuda, row)
    elif row is None or row.may_mix(nvcc, cuda):
        yield _fits(facts, package, torch, nvcc, cuda, row)
    else:
        yield _minor_mismatch(facts, package, torch, nvcc, cuda, row, is_firm=is_firm)


def toolkit_evidence(facts: Facts, nvcc: CudaVersion) -> Evidence:
    """Nvcc's release, and who says so."""
    origin = "nvcc" if facts.machine.toolkit.nvcc_path else "stated"
    return Evidence("toolkit.nvcc", str(nvcc), origin_of(facts, "toolkit.nvcc", origin))


def _is_skipping(facts: Facts, row: DeepspeedRelease | None) -> bool:
    """Whether the comparison is switched off, in releases that look at the variable."""
    value = facts.machine.variable(_SKIP)
    return value == "1" and (row is None or row.has_skip_variable)


def _major_mismatch(
    facts: Facts,
    package: Package,
    torch: TorchBuild,
    nvcc: CudaVersion,
    cuda: CudaVersion,
    row: DeepspeedRelease | None,
) -> Finding:
    skipped = _is_skipping(facts, row)
    detail = say(
        "{package} builds its ops (FusedAdam, CPUAdam ...) with nvcc on first use, raises "
        "CUDAMismatchException where the CUDA majors differ, and so does torch's own "
        "extension builder. import deepspeed works; what is already compiled works too.",
        package=package.words,
    )
    if skipped:
        detail = say(
            "{variable}=1 turns DeepSpeed's comparison off; torch's extension builder still "
            "refuses, and code that builds all the same may crash.",
            variable=_SKIP,
        )
    return Finding(
        code="DSP001",
        cause="toolkit-major-mismatch",
        status=Status.WARN if skipped else Status.FAIL,
        title=say(
            "the CUDA toolkit is {nvcc}, {torch} was built with CUDA {cuda}",
            nvcc=nvcc,
            torch=torch_words(torch),
            cuda=cuda,
        ),
        detail=detail,
        package="deepspeed",
        evidence=(package.evidence, toolkit_evidence(facts, nvcc), *torch_evidence(torch)),
        remedy=Remedy(
            say(
                "install a CUDA {cuda} toolkit and point CUDA_HOME to it, or a torch build "
                "for CUDA {nvcc}",
                cuda=cuda,
                nvcc=nvcc,
            )
        ),
        source=row.provenance.source if row else None,
        line=package.distribution.line,
    )


def _fits(
    facts: Facts,
    package: Package,
    torch: TorchBuild,
    nvcc: CudaVersion,
    cuda: CudaVersion,
    row: DeepspeedRelease | None,
) -> Finding:
    same = nvcc == cuda
    return Finding(
        code="DSP000" if same else "DSP002",
        cause="toolkit-fits" if same else "toolkit-minor-mismatch-ok",
        status=Status.OK,
        title=say(
            "the CUDA toolkit {nvcc} builds ops for {torch}", nvcc=nvcc, torch=torch_words(torch)
        )
        if same
        else say(
            "the CUDA toolkit is {nvcc} and torch's CUDA {cuda}: DeepSpeed lets these differ",
            nvcc=nvcc,
            cuda=cuda,
        ),
        detail="" if same else "It warns and builds; minors of one CUDA major are compatible.",
        package="deepspeed",
        evidence=(package.evidence, toolkit_evidence(facts, nvcc), *torch_evidence(torch)),
        source=row.provenance.source if row else None,
    )


def _minor_mismatch(
    facts: Facts,
    package: Package,
    torch: TorchBuild,
    nvcc: CudaVersion,
    cuda: CudaVersion,
    row: DeepspeedRelease,
    *,
    is_firm: bool,
) -> Finding:
    skipped = _is_skipping(facts, row)
    escape = say(", or set {variable}=1", variable=_SKIP) if row.has_skip_variable else ""
    detail = _why_refused(package, nvcc, row, is_firm=is_firm)
    if skipped:
        detail = say(
            "{variable}=1 turns the comparison off; minors of one CUDA major are compatible.",
            variable=_SKIP,
        )
    return Finding(
        code="DSP008",
        cause="toolkit-minor-mismatch",
        status=Status.OK if skipped else Status.WARN,
        title=say(
            "the CUDA toolkit is {nvcc} and torch's CUDA {cuda}: DeepSpeed refuses to build ops",
            nvcc=nvcc,
            cuda=cuda,
        ),
        detail=detail,
        package="deepspeed",
        evidence=(package.evidence, toolkit_evidence(facts, nvcc), *torch_evidence(torch)),
        remedy=Remedy(
            say("install a CUDA {cuda} toolkit{alternative}", cuda=cuda, alternative=escape)
        ),
        source=row.provenance.source,
        line=package.distribution.line,
    )


def _why_refused(
    package: Package, nvcc: CudaVersion, row: DeepspeedRelease, *, is_firm: bool
) -> Text:
    mixed = ", ".join(str(v) for v in sorted(row.mixes.get(nvcc.major, ())))
    table = (
        say("its table holds {pairs}", pairs=mixed)
        if mixed
        else say("it has no table for CUDA {major}", major=nvcc.major)
    )
    said = (
        ""
        if is_firm
        else say(" (as {version} does; this release is not recorded)", version=row.version)
    )
    return say(
        "{package} compares the minors too{confirmation}: {table}. Building an op raises "
        "CUDAMismatchException; import deepspeed works.",
        package=package.words,
        confirmation=said,
        table=table,
    )


def _missing(
    facts: Facts, package: Package, torch: TorchBuild, cuda: CudaVersion, matrix: Matrix
) -> Iterator[Finding]:
    """No nvcc: known from looking for one, or likely from a report in which none answered."""
    gap = facts.gap("machine.toolkit.nvcc")
    if gap is None or gap.reason is not GapReason.ABSENT:
        return
    row = matrix.breaks.named(_FIRST_TO_IMPORT_WITHOUT)
    here = {package.name: package.version}
    breaks_import = row is not None and bounds_hold(row.when, here) is True
    # collect_env asks for nvcc on PATH only; our own probe looks where torch and DeepSpeed do.
    is_known = gap.probe == "toolkit"
    is_fatal = breaks_import and is_known and bool(facts.machine.selected_gpus)
    doubt = (
        ""
        if is_known
        else say(
            " ({probe}: {detail}; it may lie elsewhere)",
            probe=gap.probe,
            detail=gap.detail or "no answer",
        )
    )
    happens = (
        "With a GPU visible import deepspeed raises MissingCUDAException: CUDA_HOME does not exist."
        if breaks_import
        else "import deepspeed works; building an op (FusedAdam, CPUAdam ...) raises."
    )
    yield Finding(
        code="DSP003",
        cause="toolkit-missing",
        status=Status.FAIL if is_fatal else Status.WARN,
        title=say("no CUDA toolkit for {package} to build its ops with", package=package.words),
        detail=say(
            "torch's wheel brings runtime libraries and no nvcc{doubt}. {consequence}",
            doubt=doubt,
            consequence=happens,
        ),
        package="deepspeed",
        evidence=(
            package.evidence,
            Evidence("toolkit.nvcc", "none", gap.probe),
            *torch_evidence(torch),
        ),
        remedy=_toolkit_remedy(cuda, row.fix if row and breaks_import else {}),
        source=row.provenance.source if row else None,
        line=package.distribution.line,
    )


def _toolkit_remedy(cuda: CudaVersion, pins: Mapping[str, SpecifierSet]) -> Remedy:
    text = say("install the CUDA {cuda} toolkit and set CUDA_HOME", cuda=cuda)
    if not pins:
        return Remedy(text)
    return Remedy(say("{text}; or {pins}", text=text, pins=", ".join(pins_of(pins))))


def check_windows_build(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """On Windows DeepSpeed compiles its ops while it is installed, which needs torch there."""
    package = deepspeed_of(facts, matrix)
    platform = facts.machine.host.platform
    if package is None or not is_pinned_only(facts) or facts.machine.host.is_wsl:
        return
    if platform is None or platform.system is not OperatingSystem.WINDOWS:
        return
    row = matrix.deepspeed.release(package.version)
    if row is None or row.has_windows_wheel or package.distribution.url is not None:
        return
    torch = facts.environment.torch if facts.environment else None
    is_stated = torch is not None and torch.is_to_install
    cuda = say("CUDA {cuda} ", cuda=torch.cuda) if torch and torch.cuda else "CUDA "
    yield Finding(
        code="DSP007",
        cause="build-isolation",
        status=Status.FAIL if is_stated else Status.WARN,
        title=say(
            "{package} has no Windows wheel, and its build does not find torch",
            package=package.words,
        ),
        detail="On Windows its setup compiles the ops while installing. An installer builds it "
        "apart from the environment: 'Unable to import torch, please visit ...'. With "
        "--no-build-isolation it needs the CUDA toolkit and Visual Studio's compiler.",
        package="deepspeed",
        evidence=(
            package.evidence,
            Evidence("host.platform", str(platform), "stated"),
            *(torch_evidence(torch) if torch else ()),
        ),
        remedy=Remedy(
            say(
                "install torch, the {cuda}toolkit and Visual Studio's C++ build tools first, "
                "then DeepSpeed without build isolation; or use WSL",
                cuda=cuda,
            ),
            (
                "python",
                "-m",
                "pip",
                "install",
                "--no-build-isolation",
                f"deepspeed=={package.version}",
            ),
        ),
        source=row.provenance.source,
        line=package.distribution.line,
    )


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
        title=say("nvcc {nvcc} does not accept GCC {gcc}", nvcc=nvcc, gcc=gcc),
        detail=say(
            "It takes GCC {oldest} to {newest}. Ops that are built on first use fail {how}; "
            "import deepspeed works.",
            oldest=row.gcc_min,
            newest=row.gcc_max,
            how="with 'unsupported GNU version'" if newer else "in the compiler",
        ),
        package="deepspeed",
        evidence=(
            package.evidence,
            Evidence("toolkit.gcc", str(gcc), "gcc"),
            toolkit_evidence(facts, nvcc),
        ),
        remedy=Remedy(say("install GCC {newest} and set CC and CXX to it", newest=row.gcc_max)),
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
                title=say(
                    "GCC {gcc} has no C++{standard}, which the headers of {torch} demand",
                    gcc=gcc,
                    standard=row.cxx_min,
                    torch=torch_words(torch),
                ),
                detail="Ops that are built on first use fail in torch's headers; import deepspeed "
                "works.",
                package="deepspeed",
                evidence=(
                    package.evidence,
                    Evidence("toolkit.gcc", str(gcc), "gcc"),
                    *torch_evidence(torch),
                ),
                remedy=Remedy(
                    say(
                        "install GCC {oldest} or newer and set CC and CXX to it", oldest=row.gcc_min
                    )
                ),
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
