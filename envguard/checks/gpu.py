"""The gpu family: does the build hold code for every selected GPU, and which GPUs are selected."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.compiled import full_targets
from envguard.checks.context import (
    CheckOptions,
    gpu_evidence,
    gpu_words,
    index_words,
    origin_of,
    torch_evidence,
)
from envguard.checks.context import torch_words as words
from envguard.facts.environment import Accelerator, TorchBuild
from envguard.facts.findings import Evidence, Finding, Remedy, Source, Status
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import CodeTarget, CudaVersion
from envguard.fit import CodeFit, CodeGrade, grade_code, grade_driver
from envguard.matrix.complete import possible_platforms
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu, Platform
    from envguard.facts.versions import Backend, ComputeCapability
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow


@dataclass(frozen=True, slots=True)
class _Code:
    """The code targets of a build and where they are known from; of one platform, or of all."""

    torch: TorchBuild
    cuda: CudaVersion
    targets: tuple[CodeTarget, ...] | None
    is_ptx_known: bool
    is_firm: bool
    origin: str
    source: Source | None
    platform: str = ""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        if self.targets is None:
            return torch_evidence(self.torch)
        listed = " ".join(str(target) for target in self.targets)
        return (*torch_evidence(self.torch), Evidence("torch.targets", listed, self.origin))


def _codes_of(facts: Facts, matrix: Matrix) -> tuple[_Code, ...]:
    """What the build contains: one entry, or one per platform that the machine can be."""
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.cuda is None:
        return ()
    read = full_targets(facts.compiled) if facts.compiled is not None else None
    if read is not None:
        return (_Code(torch, torch.cuda, read, True, True, "machine code", None),)
    if torch.targets is not None:
        return (_Code(torch, torch.cuda, torch.targets, True, True, torch.origin.value, None),)
    nothing = _Code(torch, torch.cuda, None, False, False, "matrix", None)
    if torch.backend is None or torch.version is None:
        return (nothing,)
    platforms = possible_platforms(facts.machine)
    rows = [
        row
        for platform in platforms
        if (row := _row_of(torch.version, torch.backend, platform, matrix)) is not None
    ]
    found = facts.environment.distribution("torch") if facts.environment else None
    if not rows and found is not None and found.installer == "conda":
        rows = [row for p in platforms for row in _near_rows(torch, p, matrix)]
    return tuple(_code_of_row(torch, torch.cuda, row) for row in rows) or (nothing,)


def _row_of(
    version: Version, backend: Backend, platform: Platform, matrix: Matrix
) -> TorchBuildRow | None:
    """The row of a build.

    A nightly has none of its own: the release that it led to tells what it likely holds, and
    where that has no build for this CUDA any more, the last release before it that had one.
    """
    row = matrix.torch.build(Version(version.base_version), backend, platform)
    if row is not None or not version.is_devrelease:
        return row
    older = (r.version for r in matrix.torch.releases if r.version < version)
    rows = (matrix.torch.build(v, backend, platform) for v in sorted(older, reverse=True))
    return next((row for row in rows if row is not None), None)


def _near_rows(torch: TorchBuild, platform: Platform, matrix: Matrix) -> Iterator[TorchBuildRow]:
    """The wheel that conda's build is likest: of the release, for the nearest CUDA of its major."""
    cuda = torch.cuda
    if cuda is None or torch.version is None:
        return
    builds = matrix.torch.builds(torch.version, platform)
    pairs = [(b, b.backend.cuda) for b in builds if b.targets is not None]
    alike = [(abs(c.minor - cuda.minor), b) for b, c in pairs if c and c.major == cuda.major]
    if alike:
        row = min(alike, key=lambda pair: pair[0])[1]
        yield replace(row, provenance=replace(row.provenance, is_firm=False))


def _code_of_row(torch: TorchBuild, cuda: CudaVersion, row: TorchBuildRow) -> _Code:
    is_release = torch.version is not None and not torch.version.is_prerelease
    firm, source = row.provenance.is_firm and is_release, row.provenance.source
    platform = str(row.platform)
    return _Code(torch, cuda, row.targets, row.is_ptx_known, firm, "matrix", source, platform)


def check_code_for_gpus(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Machine code or usable PTX for the compute capability of every selected GPU."""
    codes = _codes_of(facts, matrix)
    gpus = facts.machine.selected_gpus
    if not codes or not gpus:
        return
    cuda = codes[0].cuda
    driver = grade_driver(facts.machine.driver, facts.machine.host, cuda, matrix.drivers)
    is_read = codes[0].origin != "matrix"  # what was read wins over what can be derived
    oldest = None if is_read else matrix.support.oldest_target(cuda)
    fits: dict[CodeGrade, list[tuple[Gpu, CodeFit]]] = {}
    for gpu in gpus:
        fit = _agreed_fit(codes, gpu, driver.grade.can_jit)
        if _is_too_old(gpu, oldest):
            fit = CodeFit(CodeGrade.NONE)
        fits.setdefault(fit.grade, []).append((gpu, fit))
    some_run = any(grade.runs for grade in fits)
    for grade, pairs in fits.items():
        found = _finding_of(facts, codes, grade, pairs, some_run=some_run)
        if all(_is_too_old(gpu, oldest) for gpu, _ in pairs):
            found = _certain(
                found, say("CUDA {cuda} makes code from {oldest} on.", cuda=cuda, oldest=oldest)
            )
        elif grade is CodeGrade.NONE and not is_read:
            firsts = [_first_cuda(gpu, matrix) for gpu, _ in pairs]
            first = min((version for version in firsts if version is not None), default=None)
            if first is not None and None not in firsts and cuda < first:
                found = _certain(
                    found,
                    say("CUDA {first_cuda} is the first that makes code for it.", first_cuda=first),
                )
        yield found


def _is_too_old(gpu: Gpu, oldest: ComputeCapability | None) -> bool:
    """No compiler of this CUDA makes code for the GPU, so no build holds any, known or not."""
    return oldest is not None and gpu.capability is not None and gpu.capability < oldest


def _first_cuda(gpu: Gpu, matrix: Matrix) -> CudaVersion | None:
    """The oldest CUDA that makes machine code which the GPU runs; None when not recorded.

    That is code for its own generation, or for an older one of the same major capability.
    """
    capability = gpu.capability
    if capability is None:
        return None
    kin = [
        generation.first_cuda
        for generation in matrix.drivers.generations
        if generation.last.major == capability.major and generation.first <= capability
    ]
    return None if None in kin else min(filter(None, kin), default=None)


def _certain(found: Finding, reason: str) -> Finding:
    return replace(
        found,
        status=Status.FAIL,
        detail=say("{detail} {reason}", detail=found.detail, reason=reason),
    )


def _agreed_fit(codes: tuple[_Code, ...], gpu: Gpu, can_jit: bool | None) -> CodeFit:
    """The fit that every possible platform agrees on, else unknown."""
    if gpu.capability is None:
        return CodeFit(CodeGrade.UNKNOWN)
    fits = [
        grade_code(
            code.targets, gpu.capability, code.cuda, can_jit=can_jit, is_ptx_known=code.is_ptx_known
        )
        for code in codes
    ]
    if len({fit.grade for fit in fits}) > 1 and len({fit.grade.runs for fit in fits}) > 1:
        return CodeFit(CodeGrade.UNKNOWN)
    return fits[0]


def _finding_of(
    facts: Facts,
    codes: tuple[_Code, ...],
    grade: CodeGrade,
    pairs: list[tuple[Gpu, CodeFit]],
    *,
    some_run: bool,
) -> Finding:
    code, gpus = codes[0], tuple(gpu for gpu, _ in pairs)
    evidence = (*code.evidence, *(e for gpu in gpus[:4] for e in gpu_evidence(facts, gpu)))
    match grade:
        case CodeGrade.NATIVE | CodeGrade.COMPATIBLE:
            return _running(code, gpus, pairs[0][1], evidence)
        case CodeGrade.JIT:
            return _jit(code, gpus, pairs[0][1], evidence)
        case CodeGrade.NONE | CodeGrade.JIT_BLOCKED:
            return _missing(code, gpus, grade, evidence, some_run=some_run)
        case CodeGrade.UNKNOWN:
            return _unknown(codes, gpus, evidence)


def _indices(gpus: tuple[Gpu, ...]) -> tuple[int, ...]:
    return tuple(gpu.index for gpu in gpus)


def _running(
    code: _Code, gpus: tuple[Gpu, ...], fit: CodeFit, evidence: tuple[Evidence, ...]
) -> Finding:
    capability = gpus[0].capability
    beyond = capability is not None and all(
        target.capability < capability for target in code.targets or ()
    )
    title = say("{torch} has code for {gpu}", torch=words(code.torch), gpu=gpu_words(gpus))
    if not code.is_firm:
        title = say("{title}, as far as can be inferred", title=title)
    detail = say(
        "{target} runs on compute capability {capability}.",
        target=fit.target,
        capability=capability,
    )
    if beyond:
        detail = join_sentences(
            detail,
            "torch may warn that the GPU is newer than it supports; the warning compares "
            "numbers only and can be ignored.",
        )
    number, cause = ("GPU000", "code-for-gpu")
    if not code.is_firm:
        number, cause = ("GPU008", "arch-inferred")
    elif beyond:
        number, cause = ("GPU004", "arch-false-positive-warning")
    return Finding(
        code=number,
        cause=cause,
        status=Status.OK if code.is_firm else Status.WARN,
        title=title,
        detail=detail,
        gpus=_indices(gpus),
        package="torch",
        evidence=evidence,
        source=code.source,
    )


def _jit(
    code: _Code, gpus: tuple[Gpu, ...], fit: CodeFit, evidence: tuple[Evidence, ...]
) -> Finding:
    return Finding(
        code="GPU005",
        cause="arch-by-ptx-only",
        status=Status.WARN,
        title=say(
            "{torch} runs on {gpu} only after compiling its PTX",
            torch=words(code.torch),
            gpu=gpu_words(gpus),
        ),
        detail=say(
            "The driver compiles {target} at the first use of each kernel: the first run "
            "takes minutes, and code that ships no PTX (cuBLAS, cuDNN parts) may still be "
            "missing.",
            target=fit.target,
        ),
        gpus=_indices(gpus),
        package="torch",
        evidence=evidence,
        source=code.source,
    )


def _missing(
    code: _Code,
    gpus: tuple[Gpu, ...],
    grade: CodeGrade,
    evidence: tuple[Evidence, ...],
    *,
    some_run: bool,
) -> Finding:
    number, cause = _missing_cause(code, gpus[0], some_run=some_run)
    listed = " ".join(str(target) for target in code.targets or ())
    detail = say(
        "Compute capability {capability} needs other code{held}.",
        capability=gpus[0].capability,
        held=say(" than the build holds ({targets})", targets=listed) if listed else "",
    )
    if grade is CodeGrade.JIT_BLOCKED:
        detail = say(
            "Of {targets} only the PTX would serve compute capability {capability}, and this "
            "driver is older than CUDA {cuda}: it cannot compile it.",
            targets=listed,
            capability=gpus[0].capability,
            cuda=code.cuda,
        )
    if some_run:
        detail = join_sentences(detail, "Other GPUs of this machine are served.")
    return Finding(
        code=number,
        cause=cause,
        status=Status.FAIL if code.is_firm else Status.UNKNOWN,
        title=say("{torch} has no code for {gpu}", torch=words(code.torch), gpu=gpu_words(gpus)),
        detail=say(
            "{detail} The first kernel fails with 'no kernel image is available'.", detail=detail
        ),
        gpus=_indices(gpus),
        package="torch",
        evidence=evidence,
        remedy=_hide_remedy(gpus) if some_run else None,
        source=code.source,
    )


def _missing_cause(code: _Code, gpu: Gpu, *, some_run: bool) -> tuple[str, str]:
    if some_run:
        return "GPU003", "mixed-gpus-arch"
    capability = gpu.capability
    oldest = min((t.capability for t in code.targets or ()), default=None)
    if "jetson" in (gpu.name or "").lower() or "orin" in (gpu.name or "").lower():
        return "GPU006", "jetson-needs-l4t-build"
    if oldest is not None and capability is not None and capability > oldest:
        return "GPU002", "arch-missing-new-gpu"
    return "GPU001", "arch-missing-old-gpu"


def _hide_remedy(gpus: tuple[Gpu, ...]) -> Remedy:
    return Remedy(
        say(
            "hide GPU {index} with CUDA_VISIBLE_DEVICES (set CUDA_DEVICE_ORDER=PCI_BUS_ID so "
            "that the numbers are these)",
            index=index_words(gpus),
        )
    )


def _unknown(
    codes: tuple[_Code, ...], gpus: tuple[Gpu, ...], evidence: tuple[Evidence, ...]
) -> Finding:
    code = codes[0]
    detail, remedy = _why_unknown(codes, gpus)
    return Finding(
        code="GPU007",
        cause="arch-not-known",
        status=Status.UNKNOWN,
        title=say(
            "cannot tell whether {torch} has code for {gpu}",
            torch=words(code.torch),
            gpu=gpu_words(gpus),
        ),
        detail=detail,
        gpus=_indices(gpus),
        package="torch",
        evidence=evidence,
        remedy=Remedy(remedy),
        source=code.source,
    )


def _why_unknown(codes: tuple[_Code, ...], gpus: tuple[Gpu, ...]) -> tuple[str, str]:
    """What keeps it from being told, and what would help."""
    on_machine = "run `envguard check` on the machine itself, where the installed code is read"
    if any(gpu.capability is None for gpu in gpus):
        detail = say("The compute capability of the GPU is not known.")
        return detail, say("state --compute-capability, or {what_helps}", what_helps=on_machine)
    if all(code.targets is None for code in codes):
        return say(
            "The matrix holds no row about what {torch} contains.", torch=words(codes[0].torch)
        ), on_machine
    if len({code.targets for code in codes}) > 1:
        listed = join_sentences(
            *(
                say(
                    "on {platform} {targets}",
                    platform=code.platform,
                    targets=" ".join(str(target) for target in code.targets or ()),
                )
                for code in codes
            ),
            by="; ",
        )
        detail = say(
            "The build holds other code on each platform, and which it is is not stated: "
            "{targets}.",
            targets=listed,
        )
        return detail, say("state --platform, or {what_helps}", what_helps=on_machine)
    detail = say("No machine code serves it, and whether the build holds PTX is not recorded.")
    return detail, on_machine


VARIABLE = "CUDA_VISIBLE_DEVICES"
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


def check_visible_devices(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Entries that name no GPU: CUDA ignores them and everything behind them."""
    listed, gpus = facts.machine.variable(VARIABLE), facts.machine.gpus
    if not listed or not gpus:
        return
    entries = [entry.strip() for entry in listed.split(",")]
    wrong = next((i for i, entry in enumerate(entries) if _names_nothing(entry, gpus)), None)
    if wrong in {None, 0} or entries[wrong or 0] in {"-1", ""}:
        return  # none, or nothing is left: then every GPU is hidden, which is said elsewhere
    lost = ", ".join(entries[wrong:])
    yield Finding(
        code="GPU012",
        cause="cuda-visible-devices-invalid",
        status=Status.WARN,
        title=say(
            "{variable} names a GPU that does not exist: {entry}",
            variable=VARIABLE,
            entry=entries[wrong or 0],
        ),
        detail=say(
            "This machine has {gpu_count} GPUs. CUDA reads the list up to the first entry "
            "that names none, so {ignored} is ignored.",
            gpu_count=len(gpus),
            ignored=lost,
        ),
        evidence=(
            Evidence(f"variables.{VARIABLE}", listed, "environment"),
            Evidence("gpu.count", str(len(gpus)), origin_of(facts, "gpu.count")),
        ),
        remedy=Remedy(
            say(
                "correct {variable}; with CUDA_DEVICE_ORDER=PCI_BUS_ID its numbers are those "
                "of nvidia-smi",
                variable=VARIABLE,
            )
        ),
    )


def _names_nothing(entry: str, gpus: tuple[Gpu, ...]) -> bool:
    """Whether an entry surely names no GPU; under MIG numbers count instances."""
    if entry.startswith("GPU-"):
        uuids = [gpu.uuid for gpu in gpus]
        return None not in uuids and not any((u or "").startswith(entry) for u in uuids)
    if entry.startswith("MIG-"):
        return False  # instances may be hidden from NVML
    if any(gpu.mig_enabled for gpu in gpus):
        return False
    match = _NUMBER.match(entry)
    return match is None or not 0 <= int(match[0]) < len(gpus)


def empty_mig_gpus(facts: Facts) -> tuple[Gpu, ...]:
    """GPUs in MIG mode without an instance, so far as NVML itself says so.

    A text that mentions MIG mode need not list the instances.
    """
    asked_nvml = any(r.probe == "nvml" and r.fact == "gpu.count" for r in facts.machine.readings)
    if not asked_nvml:
        return ()
    return tuple(
        gpu
        for gpu in facts.machine.selected_gpus
        if gpu.mig_enabled
        and not gpu.mig_devices
        and not any(g.fact.startswith(f"machine.gpus[{gpu.index}].mig_") for g in facts.gaps)
    )


def check_mig_instances(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A GPU in MIG mode is no CUDA device by itself: only its instances are."""
    empty = empty_mig_gpus(facts)
    if not empty:
        return
    is_all = len(empty) == len(facts.machine.selected_gpus)
    yield Finding(
        code="GPU009",
        cause="no-gpu-visible" if is_all else "mig-without-instances",
        status=Status.FAIL if is_all and options.require_gpu else Status.WARN,
        title=say("{gpu} is in MIG mode and has no instance", gpu=gpu_words(empty)),
        detail="CUDA does not list such a GPU: torch.cuda.is_available() is False where there is "
        "no other.",
        gpus=tuple(gpu.index for gpu in empty),
        evidence=tuple(Evidence(f"gpu[{gpu.index}].mig_enabled", "true", "nvml") for gpu in empty),
        remedy=Remedy(
            "create instances (nvidia-smi mig -cgi <profile> -C), or switch MIG off "
            "(nvidia-smi -mig 0)"
        ),
        source=matrix.machines.source("mig-enumeration"),
    )


def check_uuid_lists(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Packages that read CUDA_VISIBLE_DEVICES themselves and take numbers only."""
    listed = facts.machine.variable(VARIABLE) or ""
    environment = facts.environment
    if environment is None or not ("MIG-" in listed or "GPU-" in listed):
        return
    for row in matrix.machines.uuid_lists:
        found = environment.distribution(row.package)
        version = found.version if found else None
        if row.package == "torch" and environment.torch is not None:
            version = environment.torch.version
        if version is None or not row.concerns(version):
            continue
        yield Finding(
            code="GPU010",
            cause="mig-uuid-parsing",
            status=Status.WARN,
            title=say(
                "{package} {version} cannot read UUIDs in {variable}",
                package=row.package,
                version=version,
                variable=VARIABLE,
            ),
            detail=say(
                "With {variable}={value} {effect}.",
                variable=VARIABLE,
                value=listed,
                effect=row.effect,
            ),
            package=row.package,
            evidence=(
                Evidence(f"variables.{VARIABLE}", listed, "environment"),
                Evidence(f"{row.package}.version", str(version), "environment"),
            ),
            remedy=Remedy(
                "list the GPUs by number, in a container that is given only these (one MIG "
                "instance is number 0), or take a release that reads UUIDs"
            ),
            source=row.provenance.source,
        )
