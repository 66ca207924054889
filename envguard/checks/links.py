"""The links family: extension modules that the loader would refuse, before anything is imported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.checks.context import torch_evidence, torch_words
from envguard.facts.binary import FoundBy, LinkFault, LinkProblem, Loading
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.checks.context import CheckOptions
    from envguard.facts.binary import BinaryFacts, Shadowing
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


_CUDA_LIBRARY = re.compile(r"lib(?:cudart|cublas|cublasLt|cufft|curand|cusparse|nvrtc)\.so\.(\d+)")
_VISION = frozenset({"torchvision", "torchaudio"})


def find_link_faults(facts: Facts, compiled: BinaryFacts) -> Iterator[Finding]:
    """Each module's first problem, in the words that Python would print."""
    torch = facts.environment.torch if facts.environment else None
    for problem in compiled.links:
        if not problem.is_first or (problem.is_driver and facts.machine.driver.version is None):
            continue
        cause = _cause_of(problem, torch, _abi_of(facts))
        package = _package_of(problem.module)
        yield Finding(
            code="LNK001",
            cause=cause,
            status=_status_of(problem),
            title=say("{package} will not load: {reason}", package=package, reason=_short(problem)),
            detail=_detail(problem),
            package=package,
            evidence=_evidence(problem, torch),
            remedy=_remedy(cause, package, torch),
        )


def _abi_of(facts: Facts) -> bool | None:
    """The C++ ABI of the installed libtorch: from its own file, else as the build states it."""
    file = facts.compiled.file("libtorch_python.so") if facts.compiled else None
    if file is not None and file.cxx11_abi is not None:
        return file.cxx11_abi
    torch = facts.environment.torch if facts.environment else None
    return torch.cxx11_abi if torch is not None else None


def _cause_of(problem: LinkProblem, torch: TorchBuild | None, abi: bool | None) -> str:
    match problem.fault:
        case LinkFault.MISSING_LIBRARY | LinkFault.UNUSABLE_LIBRARY:
            cuda = _CUDA_LIBRARY.fullmatch(problem.name)
            if cuda is None or torch is None:
                return "library-missing"
            if torch.accelerator is Accelerator.CPU:
                return "vision-cpu-build"
            return "cudart-major-mismatch"
        case LinkFault.MISSING_VERSION:
            is_stdcxx = problem.name.startswith(("GLIBCXX", "CXXABI"))
            return "libstdcxx-mismatch" if is_stdcxx else "glibc-too-old"
        case LinkFault.MISSING_SYMBOL:
            return _symbol_cause(problem, abi)


def _symbol_cause(problem: LinkProblem, abi: bool | None) -> str:
    if not problem.is_torch:
        return "ld-library-path-shadow" if "nvJitLink" in problem.name else "symbol-missing"
    if problem.cxx11_abi is not None and abi is not None and problem.cxx11_abi != abi:
        return "abi-cxx11-flag"
    package = _package_of(problem.module)
    return "vision-torch-mismatch" if package in _VISION else "abi-torch-version"


def _status_of(problem: LinkProblem) -> Status:
    """A module of torch's family has to load: packages that guard its import fail later on it."""
    if problem.one_of_several:
        return Status.WARN
    must_load = problem.is_torch or problem.loading is Loading.IMPORT
    return Status.FAIL if must_load else Status.WARN


def _package_of(module: str) -> str:
    """The top-level package of a module's path below or beside ``site-packages``."""
    tail = re.split(r"(?:site|dist)-packages/", module)[-1].lstrip("/")
    return tail.partition("/")[0].partition(".")[0] or module


def _short(problem: LinkProblem) -> str:
    match problem.fault:
        case LinkFault.MISSING_LIBRARY:
            return say("{library} is not there", library=problem.name)
        case LinkFault.UNUSABLE_LIBRARY:
            return say("{library} cannot be used", library=problem.name)
        case LinkFault.MISSING_VERSION:
            return say(
                "{library} is not in {provider}",
                library=problem.name,
                provider=(problem.provider or "").rpartition("/")[2],
            )
        case LinkFault.MISSING_SYMBOL:
            return (
                "it was built for another libtorch" if problem.is_torch else "a symbol is missing"
            )


def _detail(problem: LinkProblem) -> str:
    when = {
        Loading.IMPORT: "Importing the package raises ImportError",
        Loading.GUARDED: "The package imports without it and goes on; what needs it fails with",
        Loading.LAZY: "The first use of what needs it raises ImportError",
        Loading.UNKNOWN: "Loading the module raises ImportError",
    }[problem.loading]
    others = say(" {count} more are missing.", count=problem.others) if problem.others else ""
    place = say(" ({loader} loads it.)", loader=problem.loaded_from) if problem.loaded_from else ""
    return say(
        "{when}: {message}.{more}{where}",
        when=when,
        message=problem.message,
        more=others,
        where=place,
    )


def _evidence(problem: LinkProblem, torch: TorchBuild | None) -> tuple[Evidence, ...]:
    found = [Evidence("module", problem.module, "machine code")]
    if problem.needed_by != problem.module:
        found.append(Evidence("needed by", problem.needed_by, "machine code"))
    if problem.cxx11_abi is not None:
        found.append(Evidence("module.cxx11_abi", str(problem.cxx11_abi), "machine code"))
    return (*found, *(torch_evidence(torch) if torch else ()))


def _remedy(cause: str, package: str, torch: TorchBuild | None) -> Remedy:
    build = torch_words(torch) if torch else "the torch that is installed"
    match cause:
        case "libstdcxx-mismatch":
            return Remedy(
                "let the newer libstdc++ come first: in conda `conda install -c conda-forge "
                "libstdcxx-ng`, else take the older one off LD_LIBRARY_PATH"
            )
        case "ld-library-path-shadow":
            return Remedy("unset LD_LIBRARY_PATH for this program")
        case "glibc-too-old":
            return Remedy(
                say(
                    "take a build of {package} for this system's glibc, or a newer image",
                    package=package,
                )
            )
        case "library-missing" | "symbol-missing":
            return Remedy(say("reinstall {package} together with what it needs", package=package))
        case _:
            return Remedy(
                say(
                    "install the {package} that was built for {torch}", package=package, torch=build
                )
            )


def find_shadowed_libraries(compiled: BinaryFacts) -> Iterator[Finding]:
    """A library of the system that the loader takes before the one that the wheels bring."""
    for shadow in compiled.shadowed:
        if shadow.found_by is FoundBy.LD_LIBRARY_PATH and not shadow.in_environment:
            yield _shadow_finding(shadow)


def _shadow_finding(shadow: Shadowing) -> Finding:
    return Finding(
        code="LNK002",
        cause="nccl-shadowed" if "nccl" in shadow.name else "ld-library-path-shadow",
        status=Status.WARN,
        title=say(
            "LD_LIBRARY_PATH puts {winner} before the one that was installed", winner=shadow.winner
        ),
        detail=say(
            "{library} would otherwise come from {other}. A library of another release "
            "can miss symbols or crash.",
            library=shadow.name,
            other=shadow.others[0],
        )
        if shadow.others
        else say("{library} comes from outside the environment.", library=shadow.name),
        evidence=(Evidence("LD_LIBRARY_PATH", shadow.winner, "machine code"),),
        remedy=Remedy("unset LD_LIBRARY_PATH for this program"),
    )


def check_modules_link(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Extension modules of an environment whose compiled files were read."""
    compiled = facts.compiled
    if compiled is None:
        return
    if compiled.checked and not compiled.links:
        plural = "" if compiled.checked == 1 else "s"
        yield Finding(
            code="LNK000",
            cause="modules-link",
            status=Status.OK,
            title=say(
                "{count} extension module{plural} would find what they need",
                count=compiled.checked,
                plural=plural,
            ),
        )

    yield from find_link_faults(facts, compiled)


def check_shadowed_libraries(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """Libraries of the system in front of those that the wheels bring."""
    if facts.compiled is None:
        return

    yield from find_shadowed_libraries(facts.compiled)
