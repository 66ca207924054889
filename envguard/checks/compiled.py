"""The compiled family: what the installed files hold, against the GPUs and against the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, gpu_words, torch_evidence, torch_words
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import CodeKind
from envguard.fit import CodeGrade, grade_code, grade_driver
from envguard.matrix.complete import possible_platforms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.binary import BinaryFacts, CompiledFile
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu
    from envguard.facts.versions import CodeTarget
    from envguard.matrix.loader import Matrix

_MAIN = "libtorch_cuda.so"
# What the parts of libtorch serve; a part that is not named here is named by its file.
_SERVES = {
    "libtorch_cuda_linalg.so": "dense linear algebra (torch.linalg: inverses, decompositions)",
    "libtorch_nvshmem.so": "symmetric memory over NVSHMEM",
    "_C.so": "its compiled operators",
    "_C_stable.so": "its compiled operators",
}


def full_targets(compiled: BinaryFacts) -> tuple[CodeTarget, ...] | None:
    """The code that libtorch holds for all its operations; None when it was not read.

    The list that the build itself reports wins; else the targets with at least half as many
    pieces as the best served one, because a few operations are compiled for more targets.
    """
    reported = next((f.arch_flags for f in compiled.files if f.arch_flags), None)
    if reported:
        return reported
    main = compiled.file(_MAIN)
    return _well_served(main) if main is not None and main.cubin else None


def _well_served(file: CompiledFile) -> tuple[CodeTarget, ...]:
    most = max((count.count for count in file.cubin or ()), default=0)
    cubins = [c.target(CodeKind.CUBIN) for c in file.cubin or () if c.count * 2 >= most]
    ptx = [c.target(CodeKind.PTX) for c in file.ptx or () if c.count * 2 >= most]
    return tuple(sorted([*cubins, *ptx]))


def check_code_per_library(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """A part of torch or of a companion that lacks code for a GPU which torch itself serves."""
    torch = facts.environment.torch if facts.environment else None
    if facts.compiled is None or torch is None or torch.cuda is None:
        return
    driver = grade_driver(facts.machine.driver, facts.machine.host, torch.cuda, matrix.drivers)
    main = full_targets(facts.compiled)
    for file in facts.compiled.files:
        name = file.path.rpartition("/")[2]
        if name == _MAIN or not file.cubin or not _is_of_an_extension(file.path):
            continue
        missing = [
            gpu
            for gpu in facts.machine.selected_gpus
            if _runs(main, gpu, torch, driver.grade.can_jit)
            and not _runs(_well_served(file), gpu, torch, driver.grade.can_jit)
        ]
        if missing:
            yield _part_lacks_code(torch, file, tuple(missing))


def _is_of_an_extension(path: str) -> bool:
    """NVIDIA's own libraries choose their code themselves: only torch and extensions count."""
    return not path.startswith("nvidia/") and ".libs/" not in path


def _runs(
    targets: tuple[CodeTarget, ...] | None, gpu: Gpu, torch: TorchBuild, can_jit: bool | None
) -> bool:
    if gpu.capability is None:
        return False
    grade = grade_code(targets, gpu.capability, torch.cuda, can_jit=can_jit).grade
    return grade.runs or (grade is CodeGrade.UNKNOWN and can_jit is None)


def _part_lacks_code(torch: TorchBuild, file: CompiledFile, gpus: tuple[Gpu, ...]) -> Finding:
    name = file.path.rpartition("/")[2]
    package = file.path.partition("/")[0]
    serves = _SERVES.get(name, say("what {name} holds", name=name))
    listed = " ".join(str(target) for target in _well_served(file))
    return Finding(
        code="BIN001",
        cause="library-lacks-code-for-gpu",
        status=Status.WARN,
        title=say("{path} has no code for {gpu}", path=file.path, gpu=gpu_words(gpus)),
        detail=say(
            "{torch} itself does. What fails is {served}: it stops with 'no kernel image is "
            "available' there. The file holds {listed}.",
            torch=torch_words(torch),
            served=serves,
            listed=listed,
        ),
        gpus=tuple(gpu.index for gpu in gpus),
        package=package,
        evidence=(*torch_evidence(torch), Evidence(f"{file.path}.targets", listed, "machine code")),
        remedy=Remedy(
            "run these operations on the CPU, or take a build for an older CUDA "
            "(`envguard check` with --torch-index names one)"
        ),
    )


def check_code_against_matrix(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """The installed code against the matrix: the files win, and a contradiction is said."""
    torch = facts.environment.torch if facts.environment else None
    if facts.compiled is None or torch is None or torch.version is None or torch.backend is None:
        return
    found = full_targets(facts.compiled)
    row = matrix.torch.build(torch.version, torch.backend, possible_platforms(facts.machine)[0])
    if found is None or row is None or row.targets is None or torch.version.is_prerelease:
        return
    here, there = set(found), set(row.targets)
    if here == there or (not row.is_ptx_known and there <= here):
        return
    more = " ".join(str(target) for target in sorted(here - there)) or "nothing"
    less = " ".join(str(target) for target in sorted(there - here)) or "nothing"
    yield Finding(
        code="BIN002",
        cause="matrix-contradicts-installed-code",
        status=Status.WARN,
        title=say(
            "the installed {torch} is not the build that the matrix describes",
            torch=torch_words(torch),
        ),
        detail=say(
            "The files hold {more} more and {less} less than the matrix says. The files were "
            "believed. A build from source or from another channel explains it; otherwise "
            "the matrix is wrong and a report helps.",
            more=more,
            less=less,
        ),
        package="torch",
        evidence=(
            *torch_evidence(torch),
            Evidence("torch.targets", " ".join(map(str, found)), "machine code"),
            Evidence("torch.targets", " ".join(map(str, row.targets)), "matrix"),
        ),
        source=row.provenance.source,
    )


def check_stale_caches(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Extensions compiled on this machine that will not load, or not run, beside this torch."""
    torch = facts.environment.torch if facts.environment else None
    if torch is None:
        return  # nothing here loads them; they may be another environment's
    for cache in facts.compiled.caches if facts.compiled else ():
        reasons = [problem.message for problem in cache.problems[:1]]
        lacking = [
            gpu
            for gpu in facts.machine.selected_gpus
            if cache.targets and not _runs(cache.targets, gpu, torch, True)
        ]
        if lacking:
            reasons.append(say("no code for {gpu}", gpu=gpu_words(tuple(lacking))))
        if not reasons:
            continue
        yield Finding(
            code="BIN003",
            cause="stale-compiled-extension",
            status=Status.WARN,
            title=say("a compiled extension in {folder} is stale", folder=cache.folder),
            detail=say(
                "It was built for another torch or GPU and will be loaded again: {reasons}.",
                reasons=join_sentences(*reasons, by="; "),
            ),
            gpus=tuple(gpu.index for gpu in lacking),
            evidence=(Evidence("extension", cache.file, "machine code"),),
            remedy=Remedy("clear it; it is compiled anew", ("rm", "-r", cache.folder)),
        )
