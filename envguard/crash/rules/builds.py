"""Builds and installs: toolkits, build isolation, resolvers and indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

INSTALL_TOOLKIT = "install the CUDA toolkit of torch's CUDA major and set CUDA_HOME"
_AUTO_CPU = Outcome(
    "CRS016",
    "resolver-auto-backend",
    "uv's automatic choice gave the CPU build",
    "--torch-backend=auto did not recognise the GPU.",
    "name the backend: --torch-backend=cuNNN for this driver",
)
_ISOLATION = Outcome(
    "CRS034",
    "build-isolation",
    "the build does not see the installed torch",
    "pip builds in an environment of its own, which holds no torch; installing torch again "
    "changes nothing.",
    "install with --no-build-isolation, after torch",
)
TOOLKIT = Outcome(
    "CRS013",
    "toolkit-major-mismatch",
    "the CUDA toolkit {nvcc} is of another major than torch's CUDA {torch}",
    "Extensions are compiled with the toolkit and loaded beside torch's libraries: the majors "
    "have to be the same.",
    "install torch built for the toolkit's major, or the toolkit of torch's CUDA {torch}",
)
TOOLKIT_MINOR = Outcome(
    "CRS013",
    "toolkit-minor-mismatch-ok",
    "the CUDA toolkit {nvcc} and torch's CUDA {torch} differ in the minor only",
    "That compiles, as a rule.",
    "set DS_SKIP_CUDA_CHECK=1 where DeepSpeed stops for it",
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "an extension is to be compiled and there is no CUDA toolkit",
            "torch brings run-time libraries and no nvcc. What nvidia-smi prints as CUDA version "
            "is the driver's, not a toolkit.",
            INSTALL_TOOLKIT,
        ),
        ("missing-cuda-home",),
        unless=("build-without-torch",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "once the build sees torch, it will ask for a CUDA toolkit",
            "The second barrier behind the first.",
            INSTALL_TOOLKIT,
        ),
        ("missing-cuda-home",),
        needs=("build-without-torch",),
        status=Status.WARN,
    ),
    WordRule(_ISOLATION, ("build-without-torch",)),
    WordRule(
        _ISOLATION,
        ("no-module-torch",),
        needs=("pip-build-words",),
        unless=("build-without-torch",),
    ),
    WordRule(
        Outcome(
            "CRS039",
            "torch-missing",
            "there is no torch in the interpreter that ran this",
            "Another interpreter than the one with torch ran the program.",
            "activate the environment, or install torch into this one",
        ),
        ("no-module-torch",),
        unless=("pip-build-words", "build-without-torch"),
    ),
    WordRule(
        Outcome(
            "CRS101",
            "toolkit-too-old-for-gpu",
            "the compiler of this CUDA toolkit does not know the GPU",
            "nvcc, or the ptxas that Triton brings, is older than the GPU (or has dropped it).",
            "use a toolkit that knows the GPU, and a Triton that brings a newer ptxas (or "
            "TRITON_PTXAS_PATH); TORCH_CUDA_ARCH_LIST limits what is compiled for",
        ),
        ("nvcc-unknown-gpu",),
    ),
    WordRule(
        Outcome(
            "CRS102",
            "host-compiler-not-accepted",
            "nvcc does not accept this host compiler",
            "Each CUDA toolkit accepts compilers up to a version.",
            "name an older compiler: CC=gcc-12 CXX=g++-12, or take a newer toolkit",
            ("env", "CC=gcc-12", "CXX=g++-12"),
        ),
        ("gcc-not-accepted",),
    ),
    WordRule(_AUTO_CPU, ("uv-auto-cpu",)),
    WordRule(_AUTO_CPU, ("torch-cpu-line",), needs=("uv-auto-words",), unless=("uv-auto-cpu",)),
    # Nothing wrong was installed: the resolver stopped before it chose.
    WordRule(
        Outcome(
            "CRS016",
            "resolver-auto-backend",
            "uv could not read the driver's version",
            "With several GPUs, or under WSL, --torch-backend=auto of older releases cannot parse "
            "what nvidia-smi prints.",
            "name the backend: --torch-backend=cuNNN for this driver, or upgrade uv",
        ),
        ("uv-driver-parse",),
        status=Status.WARN,
    ),
    WordRule(
        Outcome(
            "CRS018",
            "resolver-local-version",
            "no index that was asked holds {name} {version}",
            "Labels such as +cu128 are on the PyTorch index only, and not every release has every "
            "label there.",
            "add the index of that label, or take a release that has it: `envguard lock torch`",
            ("envguard", "lock", "torch"),
        ),
        ("no-such-local-version",),
    ),
    WordRule(
        Outcome(
            "CRS018",
            "resolver-local-version",
            "the resolver takes a version with a label and the one without for two",
            "torchvision and torchaudio require torch without its label. pip and uv count "
            "X+cuNNN as X; some releases of Poetry do not.",
            "require the versions without labels, and take them from one source that holds this "
            "build only; or install the set with pip or uv",
        ),
        ("version-solving-failed",),
        needs=("solver-torch-label",),
    ),
)


def check_build_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


def check_toolkit_version(case: Case) -> Iterator[Finding]:
    """The toolkit's CUDA is not torch's: another major does not build, another minor may."""
    hit = case.log.first("cuda-version-mismatch")
    if hit is None:
        return
    nvcc = hit.groups.get("nvcc") or hit.groups.get("nvcc2", "")
    torch = hit.groups.get("torch") or hit.groups.get("torch2") or _torch_cuda(case)
    named = replace(hit, groups={**hit.groups, "nvcc": nvcc, "torch": torch})
    if nvcc.partition(".")[0] == torch.partition(".")[0]:
        yield make_finding(case, TOOLKIT_MINOR, Status.WARN, (named,))
    else:
        yield make_finding(case, TOOLKIT, Status.FAIL, (named,))


def _torch_cuda(case: Case) -> str:
    torch = case.facts.environment.torch if case.facts.environment else None
    return str(torch.cuda) if torch is not None and torch.cuda is not None else "?"
