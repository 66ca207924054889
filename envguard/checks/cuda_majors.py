"""The CUDA of what stands beside torch: companions from another index, NVIDIA's own packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, torch_evidence, torch_words
from envguard.checks.installed import judged_torch, made_for, packages_of
from envguard.checks.remedies import companion_pin, install_remedy, uninstall_command
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.matrix.libs_table import CudaMatch
from envguard.matrix.package_rows import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.checks.installed import Made, Package
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.loader import Matrix

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


def check_companion_cuda(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Companions that were made for another CUDA, for the CPU or for another vendor."""
    torch = judged_torch(facts)
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.cuda is None:
        return
    for package in packages_of(facts, matrix):
        made = made_for(package, facts)
        if made is not None:
            yield from _compare(package, made, torch, torch.cuda, facts, matrix, options)
        yield from _check_libraries(package, torch, torch.cuda, facts)


def _compare(
    package: Package,
    made: Made,
    torch: TorchBuild,
    cuda: CudaVersion,
    facts: Facts,
    matrix: Matrix,
    options: CheckOptions,
) -> Iterator[Finding]:
    match made.accelerator:
        case Accelerator.CPU:
            if made.is_labelled or package.name == "torchvision":
                yield _cpu_build(package, made, torch, facts, matrix, options)
        case Accelerator.CUDA:
            if made.built.major not in {None, cuda.major}:
                yield _other_major(package, made, torch, facts, matrix, options)
            elif made.built.cuda not in {None, cuda}:
                yield from _other_minor(package, made, torch, facts, matrix, options)
        case Accelerator.ROCM | Accelerator.XPU | Accelerator.MPS:
            yield _finding(
                package,
                made,
                torch,
                code="ABI005",
                cause="companion-from-other-index",
                status=Status.FAIL,
                title=f"{package.words} is a build for {made.accelerator.value}",
                detail=f"{torch_words(torch)} is one for CUDA: importing the two together fails or "
                "crashes.",
                remedy=_same_index(package, torch, facts, matrix, options),
            )


def _cpu_build(
    package: Package,
    made: Made,
    torch: TorchBuild,
    facts: Facts,
    matrix: Matrix,
    options: CheckOptions,
) -> Finding:
    is_vision = package.name == "torchvision"
    return _finding(
        package,
        made,
        torch,
        code="ABI004" if is_vision else "ABI005",
        cause="vision-cpu-build" if is_vision else "companion-from-other-index",
        status=Status.FAIL if is_vision else Status.WARN,
        title=f"{package.words} is a CPU build beside {torch_words(torch)}",
        detail="torchvision's operators (nms, roi_align ...) raise NotImplementedError on CUDA "
        "tensors."
        if is_vision
        else "It imports; what it would do on the GPU, it cannot.",
        remedy=_same_index(package, torch, facts, matrix, options),
    )


def _other_major(
    package: Package,
    made: Made,
    torch: TorchBuild,
    facts: Facts,
    matrix: Matrix,
    options: CheckOptions,
) -> Finding:
    mismatch = next((r.mismatch for r in package.ranges if r.mismatch is not None), None)
    is_domain = package.name in _DOMAIN
    degraded = mismatch is Mismatch.DEGRADED
    happens = {
        Mismatch.DEGRADED: "its compiled code is not loaded, the rest works.",
        Mismatch.NO_KERNELS: "it imports with a warning and has none of its kernels.",
    }.get(mismatch or Mismatch.IMPORT, "importing it fails.")
    return _finding(
        package,
        made,
        torch,
        code="ABI005" if is_domain else "ABI003",
        cause="companion-from-other-index" if is_domain else "cudart-major-mismatch",
        status=Status.WARN if degraded else Status.FAIL,
        title=f"{package.words} was built for CUDA {made.built}, {torch_words(torch)} for CUDA "
        f"{torch.cuda}",
        detail=f"It needs libcudart.so.{made.built.major}, which comes with a torch for CUDA "
        f"{made.built.major} only: {happens}",
        remedy=_same_index(package, torch, facts, matrix, options),
    )


def _other_minor(
    package: Package,
    made: Made,
    torch: TorchBuild,
    facts: Facts,
    matrix: Matrix,
    options: CheckOptions,
) -> Iterator[Finding]:
    """One CUDA major, two minors: only what compares them at import minds."""
    compares = matrix.libs.cuda_match(package.name, package.version)
    if compares is CudaMatch.MINOR:
        yield _finding(
            package,
            made,
            torch,
            code="ABI005",
            cause="companion-from-other-index",
            status=Status.FAIL,
            title=f"{package.words} was built for CUDA {made.built}, {torch_words(torch)} for "
            f"CUDA {torch.cuda}",
            detail="It compares the two when it is imported, and raises RuntimeError where they "
            "differ.",
            remedy=_same_index(package, torch, facts, matrix, options),
        )
    elif package.name in _DOMAIN and made.is_labelled:
        yield _finding(
            package,
            made,
            torch,
            code="ABI009",
            cause="companion-from-other-index",
            status=Status.OK,
            title=f"{package.words} comes from another index than {torch_words(torch)}",
            detail="Both are for the same CUDA major, so it works.",
        )


def _finding(
    package: Package,
    made: Made,
    torch: TorchBuild,
    *,
    code: str,
    cause: str,
    status: Status,
    title: str,
    detail: str,
    remedy: Remedy | None = None,
) -> Finding:
    what = made.accelerator.value if made.built.major is None else f"CUDA {made.built}"
    built = Evidence(f"distribution[{package.name}].built_for", what, made.origin)
    return Finding(
        code=code,
        cause=cause,
        status=status,
        title=title,
        detail=detail,
        package=package.name,
        evidence=(package.evidence, built, *torch_evidence(torch)),
        remedy=remedy,
        source=made.provenance.source if made.provenance else None,
        line=package.distribution.line,
    )


def _same_index(
    package: Package, torch: TorchBuild, facts: Facts, matrix: Matrix, options: CheckOptions
) -> Remedy:
    backend = torch.backend
    index = matrix.torch.index_url(backend, options.torch_index) if backend else ""
    if package.name not in matrix.uv.routed_packages or not index:
        return Remedy(
            f"install a build of {package.name} for CUDA {torch.cuda}, from its own releases, or "
            f"the torch that its wheel was built for"
        )
    found = companion_pin(package.name, torch, matrix, options.torch_index)
    pin = found[0] if found else package.name
    return install_remedy(facts.environment, (pin,), index_url=index)


def _check_libraries(
    package: Package, torch: TorchBuild, cuda: CudaVersion, facts: Facts
) -> Iterator[Finding]:
    """A package that packs a library for each CUDA release needs one for torch's."""
    release = package.release
    choice = next((r for r in package.ranges if r.takes_same_major is not None), None)
    if release is None or not release.libraries or choice is None or cuda in release.libraries:
        return
    same_major = any(library.major == cuda.major for library in release.libraries)
    if choice.takes_same_major and same_major:
        return
    listed = ", ".join(str(library) for library in release.libraries)
    yield Finding(
        code="ABI003",
        cause="cuda-library-missing" if same_major else "cudart-major-mismatch",
        status=Status.FAIL,
        title=f"{package.words} has no library for CUDA {cuda}",
        detail=f"It looks for the library of torch's CUDA release and packs those of {listed}: "
        "its CUDA functions raise."
        + (" BNB_CUDA_VERSION makes it take another one." if same_major else ""),
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
        return Remedy(f"install a torch for a CUDA release that {package.name} has a library for")
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
    listed = "; ".join(f"CUDA {m}: {', '.join(sorted(by_cuda[m]))}" for m in sorted(by_cuda))
    shared = sorted(name for name in doubled if name in _SAME_FILES)
    clash = (
        f" {', '.join(shared)} of both majors install the same files: only the one that was "
        "installed last is there, and uninstalling the other removes them."
        if shared
        else " Their files have different names; torch takes those of its own major."
    )
    manager = environment.manager if environment else None
    return Finding(
        code="ABI006",
        cause="mixed-cuda-major-packages",
        status=Status.WARN,
        title=f"NVIDIA packages of {len(by_cuda)} CUDA majors are installed together",
        detail=f"{listed}.{clash}",
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
