"""Builds of extensions: toolkits, compilers, isolation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch


INSTALL_TOOLKIT = "install the CUDA toolkit of torch's CUDA major and set CUDA_HOME"


def check_toolkit_version(case: Case) -> Iterator[Finding]:
    """The toolkit's CUDA is not torch's: another major does not build, another minor may."""
    stops = case.log.first("built-with-cuda")
    hit = case.log.first("cuda-version-mismatch") or case.log.first("cuda-version-differs")
    shown = hit or stops
    if shown is None:
        return
    nvcc = _value(hit, "nvcc") or _value(case.log.last("nvcc-release"), "nvcc")
    torch = _value(shown, "torch") or _value(stops, "torch") or _torch_cuda(case)
    also = case.matches("nvcc-release", "built-with-cuda")
    named = replace(shown, groups={**shown.groups, "nvcc": nvcc or "?", "torch": torch or "?"})
    is_minor = bool(nvcc and torch) and _major(nvcc) == _major(torch)
    if is_minor and stops is None:
        yield make_finding(case, "toolkit-minor-mismatch-ok", Status.WARN, (named,))
    elif is_minor:
        yield make_finding(case, "toolkit-minor-mismatch", Status.FAIL, (named, *also))
    elif case.log.has("isolated-torch"):
        also = (*also, *case.matches("isolated-torch"))
        yield make_finding(case, "toolkit-major-mismatch.isolated", Status.FAIL, (named, *also))
    else:
        yield make_finding(case, "toolkit-major-mismatch", Status.FAIL, (named, *also))


def _major(cuda: str) -> str:
    return cuda.partition(".")[0]


def _value(hit: SignatureMatch | None, name: str) -> str:
    """What a signature names under this name, whichever of its alternatives matched."""
    if hit is None:
        return ""
    return next(
        (value for key, value in hit.groups.items() if key.rstrip("0123456789") == name), ""
    )


def _torch_cuda(case: Case) -> str:
    torch = case.facts.environment.torch if case.facts.environment else None
    return str(torch.cuda) if torch is not None and torch.cuda is not None else ""


def check_host_compiler(case: Case) -> Iterator[Finding]:
    """A GCC or clang that nvcc refuses, with the newest one that it names."""
    hit = case.log.first("gcc-not-accepted")
    if hit is None:
        return
    most = hit.groups.get("most", "")
    message = case.matrix.causes.message("host-compiler-not-accepted")
    if most and "clang" not in hit.text:
        command = ("env", f"CC=gcc-{most}", f"CXX=g++-{most}", f"NVCC_CCBIN=g++-{most}")
        message = replace(
            message, remedy=message.remedy.replace("gcc-12", f"gcc-{most}"), command=command
        )
        message = replace(message, remedy=message.remedy.replace("g++-12", f"g++-{most}"))
    yield make_finding(case, message, Status.FAIL, (hit,), more=build_evidence(case))


# Fact, its name in the evidence, and the signature that tells it.
_TOLD = (
    ("nvcc", "toolkit.nvcc", "nvcc-release"),
    ("gcc", "toolkit.gcc", "gcc-release"),
    ("targets", "build.targets", "build-targets"),
    ("jobs", "build.jobs", "build-jobs"),
)


def build_evidence(case: Case) -> tuple[Evidence, ...]:
    """What the output of a build names: the releases of nvcc and GCC, GPU targets, jobs.

    Returns:
        One entry a fact that is told, the last line that tells it counting; targets are joined.
    """
    found = []
    for name, fact, signature in _TOLD:
        hits = tuple(case.log.all(signature))
        values = [_value(hit, name) or _value(hit, "target") for hit in hits]
        told = list(dict.fromkeys(value.strip() for value in values if value))
        if told:
            text = " ".join(told) if name == "targets" else told[-1]
            found.append(Evidence(fact, text, f"{case.log.name} {hits[-1].place}"))
    return tuple(found)


def check_build_memory(case: Case) -> Iterator[Finding]:
    """A compiler that was killed, with the number of jobs where the output names it."""
    hits = case.matches("compiler-killed")
    if hits:
        told = build_evidence(case)
        yield make_finding(case, "build-out-of-memory", Status.FAIL, hits, more=told)
