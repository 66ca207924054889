"""The pairing family: was a package's compiled code built for this torch, and for its CUDA."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.checks.context import CheckOptions, runtime_library, torch_evidence, torch_words
from envguard.checks.installed import (
    BuiltAgainst,
    Package,
    built_against,
    judged_torch,
    packages_of,
)
from envguard.checks.remedies import companion_pin, install_remedy, uninstall_command
from envguard.conditions import admits
from envguard.facts.environment import Accelerator, TorchBuild
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import CudaVersion
from envguard.matrix.packages import AbiKind, Mismatch
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


_HAPPENS = {
    Mismatch.IMPORT: "Importing it fails with an undefined symbol or a missing operator.",
    Mismatch.NO_KERNELS: "It imports with a warning and has none of its kernels.",
    Mismatch.DEGRADED: "It says so and goes on without its compiled code.",
    Mismatch.ABORT: "Importing it ends the process.",
    None: "Its compiled code may not load.",
}
_OPERATOR = (
    "import torchvision raises 'operator torchvision::nms does not exist', or an undefined symbol."
)


@dataclass(frozen=True, slots=True)
class _Misfit:
    """A package whose compiled code was built for another torch.

    Args:
        package: The package.
        torch: The build beside it.
        status: How grave that is.
        bound: The torch that it was built for.
        mismatch: What happens; None when not recorded.
        provenance: The row that says so.
    """

    package: Package
    torch: TorchBuild
    status: Status
    bound: SpecifierSet
    mismatch: Mismatch | None
    provenance: Provenance


def check_built_for_torch(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Compiled packages against the torch that they were built for."""
    torch = judged_torch(facts)
    if torch is None or torch.version is None:
        return
    for package in packages_of(facts, matrix):
        if package.version.is_prerelease and package.release is None:
            continue  # a nightly or a vendor's build: it was not built for a release
        misfit = _judge(package, torch, torch.version)
        if misfit is not None:
            yield _finding(misfit, _remedy(misfit, facts, matrix, options))


def _judge(package: Package, torch: TorchBuild, version: Version) -> _Misfit | None:
    """What a package's code was built for, where this torch is another; None where it fits."""
    found = built_for(package)
    if found is None or admits(found[0], version):
        return None
    bound, provenance = found
    kind, mismatch = _kind(package), _mismatch(package)
    is_grave = mismatch in {Mismatch.IMPORT, Mismatch.ABORT, Mismatch.NO_KERNELS}
    # torch keeps its symbols within a minor, as a rule; code on its stable ABI runs on later ones.
    near = _is_near(bound, version)
    later = kind is AbiKind.STABLE and _is_above(bound, version)
    severe = is_grave and provenance.is_firm and not near and not later
    status = Status.FAIL if severe else Status.WARN
    return _Misfit(package, torch, status, bound, mismatch, provenance)


def built_for(package: Package) -> tuple[SpecifierSet, Provenance] | None:
    """The torch releases that a package's compiled code goes with.

    An exact requirement says so for a package that is compiled; a range says so where the table
    knows it better. None for packages without compiled code, or where nothing is recorded.
    """
    for found in package.ranges:
        specifier = found.torch if found.torch is not None else found.loads
        if specifier is not None:
            return specifier, found.provenance
    release = package.release
    if release is None:
        return None
    if release.torch is not None:
        return release.torch, release.provenance
    if _kind(package) in {None, AbiKind.NONE}:
        return None
    required = release.requires.get("torch")
    return (required, release.provenance) if required else None


def _kind(package: Package) -> AbiKind | None:
    return next((r.abi for r in package.ranges if r.abi is not None), None)


def _mismatch(package: Package) -> Mismatch | None:
    return next((r.mismatch for r in package.ranges if r.mismatch is not None), None)


def _is_near(specifier: SpecifierSet, torch: Version) -> bool:
    """Whether only the patch differs."""
    pinned = (s.version.removesuffix(".*") for s in specifier if s.operator == "==")
    return any(Version(text).release[:2] == torch.release[:2] for text in pinned)


def _is_above(specifier: SpecifierSet, torch: Version) -> bool:
    bounds = [Version(s.version.removesuffix(".*")) for s in specifier]
    return bool(bounds) and all(Version(torch.public) > bound for bound in bounds)


def _finding(misfit: _Misfit, remedy: Remedy) -> Finding:
    package, torch = misfit.package, misfit.torch
    is_vision = package.name == "torchvision"
    happens = _OPERATOR if is_vision else _HAPPENS[misfit.mismatch]
    if misfit.status is Status.WARN and misfit.mismatch is not Mismatch.DEGRADED:
        happens = say(
            "{consequence} It may work all the same: the two are close, or the rule is inferred.",
            consequence=happens,
        )
    return Finding(
        code="ABI001" if is_vision else "ABI002",
        cause="vision-torch-mismatch" if is_vision else "abi-torch-version",
        status=misfit.status,
        title=say(
            "{package} was built for torch{bound}, not for {torch}",
            package=package.words,
            bound=misfit.bound,
            torch=torch_words(torch),
        ),
        detail=happens,
        package=package.name,
        evidence=(package.evidence, *torch_evidence(torch)),
        remedy=remedy,
        source=misfit.provenance.source,
        line=package.distribution.line,
    )


def _remedy(misfit: _Misfit, facts: Facts, matrix: Matrix, options: CheckOptions) -> Remedy:
    name = misfit.package.name
    found = companion_pin(name, misfit.torch, matrix, options.torch_index)
    if found is None:
        return Remedy(
            say(
                "install a release of {package} that was built for torch {version}, or "
                "torch{bound}",
                package=name,
                version=misfit.torch.version,
                bound=misfit.bound,
            )
        )
    pin, index_url = found
    return install_remedy(facts.environment, (pin,), index_url=index_url)


_DOMAIN = frozenset({"torchvision", "torchaudio"})
_SUFFIXED = re.compile(r"(nvidia-[a-z0-9-]+?)-cu([0-9]{2})")
# From CUDA 13 on these carry no suffix, and the toolkit's major in their version.
_UNSUFFIXED = frozenset(
    {
        "cuda-toolkit",
        "nvidia-cublas",
        "nvidia-cuda-cupti",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
        "nvidia-nvjitlink",
        "nvidia-nvtx",
    }
)
# These install the same file names whatever their CUDA major: the last one installed is there.
_SAME_FILES = frozenset({"nvidia-cudnn", "nvidia-cusparselt", "nvidia-nccl", "nvidia-nvshmem"})


@dataclass(frozen=True, slots=True)
class _Beside:
    """A package whose build is known, beside a CUDA build of torch.

    Args:
        package: The package.
        made: What it was made for.
        torch: The build.
        cuda: The build's CUDA.
    """

    package: Package
    made: BuiltAgainst
    torch: TorchBuild
    cuda: CudaVersion


def check_companion_cuda(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Companions that were made for another CUDA, for the CPU or for another vendor."""
    torch = judged_torch(facts)
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.cuda is None:
        return
    for package in packages_of(facts, matrix):
        made = built_against(package, facts)
        if made is not None:
            beside = _Beside(package, made, torch, torch.cuda)
            for finding in _compare(beside, matrix):
                remedy = (
                    None
                    if finding.status is Status.OK
                    else _same_index(beside, facts, matrix, options)
                )
                yield replace(finding, remedy=remedy)
        yield from _check_libraries(package, torch, torch.cuda, facts)


def _compare(beside: _Beside, matrix: Matrix) -> Iterator[Finding]:
    made, cuda = beside.made, beside.cuda
    match made.accelerator:
        case Accelerator.CPU:
            if made.is_labelled or beside.package.name == "torchvision":
                yield _cpu_build(beside)
        case Accelerator.CUDA:
            if made.built.major not in {None, cuda.major}:
                yield _other_major(beside)
            elif made.built.cuda not in {None, cuda}:
                yield from _other_minor(beside, matrix)
        case Accelerator.ROCM | Accelerator.XPU | Accelerator.MPS:
            yield _cuda_finding(
                beside,
                "ABI005",
                "companion-from-other-index",
                Status.FAIL,
                say(
                    "{package} is a build for {accelerator}",
                    package=beside.package.words,
                    accelerator=made.accelerator.value,
                ),
                say(
                    "{torch} is one for CUDA: importing the two together fails or crashes.",
                    torch=torch_words(beside.torch),
                ),
            )


def _cpu_build(beside: _Beside) -> Finding:
    title = say(
        "{package} is a CPU build beside {torch}",
        package=beside.package.words,
        torch=torch_words(beside.torch),
    )
    if beside.package.name == "torchvision":
        detail = say(
            "torchvision's operators (nms, roi_align ...) raise NotImplementedError on CUDA "
            "tensors."
        )
        return _cuda_finding(beside, "ABI004", "vision-cpu-build", Status.FAIL, title, detail)
    detail = say("It imports; what it would do on the GPU, it cannot.")
    return _cuda_finding(beside, "ABI005", "companion-from-other-index", Status.WARN, title, detail)


def _other_major(beside: _Beside) -> Finding:
    package, built = beside.package, beside.made.built
    mismatch = next((r.mismatch for r in package.ranges if r.mismatch is not None), None)
    happens = {
        Mismatch.DEGRADED: "its compiled code is not loaded, the rest works.",
        Mismatch.NO_KERNELS: "it imports with a warning and has none of its kernels.",
    }.get(mismatch or Mismatch.IMPORT, "importing it fails.")
    is_domain = package.name in _DOMAIN
    return _cuda_finding(
        beside,
        "ABI005" if is_domain else "ABI003",
        "companion-from-other-index" if is_domain else "cudart-major-mismatch",
        Status.WARN if mismatch is Mismatch.DEGRADED else Status.FAIL,
        say(
            "{package} was built for CUDA {built}, {torch} for CUDA {cuda}",
            package=package.words,
            built=built,
            torch=torch_words(beside.torch),
            cuda=beside.cuda,
        ),
        say(
            "It needs {library}, which comes with a torch for CUDA {major} only: {consequence}",
            library=runtime_library(built.major),
            major=built.major,
            consequence=happens,
        ),
    )


def _other_minor(beside: _Beside, matrix: Matrix) -> Iterator[Finding]:
    """One CUDA major, two minors: only what compares them at import minds."""
    from envguard.matrix.libs import CudaMatch  # loaded with its table

    package = beside.package
    compares = matrix.libs.cuda_match(package.name, package.version)
    if compares is CudaMatch.MINOR:
        yield _cuda_finding(
            beside,
            "ABI005",
            "companion-from-other-index",
            Status.FAIL,
            say(
                "{package} was built for CUDA {built}, {torch} for CUDA {cuda}",
                package=package.words,
                built=beside.made.built,
                torch=torch_words(beside.torch),
                cuda=beside.cuda,
            ),
            "It compares the two when it is imported, and raises RuntimeError where they differ.",
        )
    elif package.name in _DOMAIN and beside.made.is_labelled:
        yield _cuda_finding(
            beside,
            "ABI009",
            "companion-of-same-major",
            Status.OK,
            say(
                "{package} comes from another index than {torch}",
                package=package.words,
                torch=torch_words(beside.torch),
            ),
            "Both are for the same CUDA major, so it works.",
        )


def _cuda_finding(
    beside: _Beside, code: str, cause: str, status: Status, title: str, detail: str
) -> Finding:
    package, made = beside.package, beside.made
    what = made.accelerator.value if made.built.major is None else f"CUDA {made.built}"
    built = Evidence(f"distribution[{package.name}].built_for", what, made.origin)
    return Finding(
        code=code,
        cause=cause,
        status=status,
        title=title,
        detail=detail,
        package=package.name,
        evidence=(package.evidence, built, *torch_evidence(beside.torch)),
        source=made.provenance.source if made.provenance else None,
        line=package.distribution.line,
    )


def _same_index(beside: _Beside, facts: Facts, matrix: Matrix, options: CheckOptions) -> Remedy:
    package, backend = beside.package, beside.torch.backend
    if package.name not in matrix.uv.routed_packages or backend is None:
        return Remedy(
            say(
                "install a build of {package} for CUDA {cuda}, from its own releases, or the "
                "torch that its wheel was built for",
                package=package.name,
                cuda=beside.cuda,
            )
        )
    index = matrix.torch.index_url(backend, options.torch_index)
    found = companion_pin(package.name, beside.torch, matrix, options.torch_index)
    public = (found[0] if found else f"{package.name}=={package.version.public}").partition("+")[0]
    return install_remedy(facts.environment, (f"{public}+{backend.label}",), index_url=index)


def _check_libraries(
    package: Package, torch: TorchBuild, cuda: CudaVersion, facts: Facts
) -> Iterator[Finding]:
    """A package that packs a library for each CUDA release needs one for torch's."""
    release = package.release
    choice = next((r for r in package.ranges if r.cuda_choice is not None), None)
    if release is None or not release.libraries or choice is None or cuda in release.libraries:
        return
    same_major = any(library.major == cuda.major for library in release.libraries)
    if choice.cuda_choice == "same-major" and same_major:
        return
    listed = ", ".join(str(library) for library in release.libraries)
    yield Finding(
        code="ABI003",
        cause="cuda-library-missing" if same_major else "cudart-major-mismatch",
        status=Status.FAIL,
        title=say("{package} has no library for CUDA {cuda}", package=package.words, cuda=cuda),
        detail=join_sentences(
            say(
                "It looks for the library of torch's CUDA release and packs those of {listed}: "
                "its CUDA functions raise.",
                listed=listed,
            ),
            "BNB_CUDA_VERSION makes it take another one." if same_major else "",
        ),
        package=package.name,
        evidence=(package.evidence, *torch_evidence(torch)),
        remedy=_newer_libraries(package, cuda, facts),
        source=release.provenance.source,
        line=package.distribution.line,
    )


def _newer_libraries(package: Package, cuda: CudaVersion, facts: Facts) -> Remedy:
    serving = (r for r in package.table.releases if cuda in r.libraries)
    found = next((r for r in serving if r.version > package.version), None)
    if found is None:
        return Remedy(
            say(
                "install a torch for a CUDA release that {package} has a library for",
                package=package.name,
            )
        )
    return install_remedy(facts.environment, (f"{package.name}>={found.version}",))


def check_nvidia_packages(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """NVIDIA's libraries of two CUDA majors side by side."""
    environment = facts.environment
    majors: dict[str, dict[int, str]] = {}
    for distribution in (environment.distributions or ()) if environment else ():
        version = distribution.version
        found = _library(distribution.name, version.major if version else None)
        if found is not None and distribution.installer != "conda":
            majors.setdefault(found[0], {})[found[1]] = distribution.name
    doubled = {
        name: sorted(by_major.items()) for name, by_major in majors.items() if len(by_major) > 1
    }
    everything = {major for by_major in majors.values() for major in by_major}
    if len(everything) > 1:
        yield _mixed(facts, majors, doubled)


def _library(name: str, major: int | None) -> tuple[str, int] | None:
    """What a distribution is and for which CUDA major."""
    if match := _SUFFIXED.fullmatch(name):
        return match[1], int(match[2])
    if name in _UNSUFFIXED and major is not None and major >= 13:
        return name, major
    return None


def _clash(shared: list[str]) -> str:
    if not shared:
        return "Their files have different names; torch takes those of its own major."
    return say(
        "{packages} of both majors install the same files: only the one that was installed last "
        "is there, and uninstalling the other removes them.",
        packages=", ".join(shared),
    )


def _mixed(
    facts: Facts, majors: dict[str, dict[int, str]], doubled: dict[str, list[tuple[int, str]]]
) -> Finding:
    environment = facts.environment
    torch = environment.torch if environment else None
    own = torch.cuda.major if torch and torch.cuda else None
    by_cuda: dict[int, list[str]] = {}
    for by_major in majors.values():
        for major, name in by_major.items():
            by_cuda.setdefault(major, []).append(name)
    strangers = tuple(
        sorted(
            name for major, several in by_cuda.items() if own and major != own for name in several
        )
    )
    listed = join_sentences(
        *(
            say("CUDA {major}: {packages}", major=m, packages=", ".join(sorted(by_cuda[m])))
            for m in sorted(by_cuda)
        ),
        by="; ",
    )
    shared = sorted(name for name in doubled if name in _SAME_FILES)
    manager = environment.manager if environment else None
    return Finding(
        code="ABI006",
        cause="mixed-cuda-major-packages",
        status=Status.WARN,
        title=say(
            "NVIDIA packages of {count} CUDA majors are installed together", count=len(by_cuda)
        ),
        detail=join_sentences(say("{listed}.", listed=listed), _clash(shared)),
        evidence=(
            *(
                Evidence(f"distribution[{name}]", f"for CUDA {major}", "metadata")
                for major in sorted(by_cuda)
                for name in sorted(by_cuda[major])[:4]
            ),
            *(torch_evidence(torch) if torch else ()),
        ),
        remedy=Remedy(
            "remove those of the other major, then reinstall torch so that its own are complete",
            uninstall_command(manager, strangers) if strangers else (),
        ),
    )
