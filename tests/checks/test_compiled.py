"""What the installed files say, against GPUs, matrix and loader."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from envguard.checks.compiled import full_targets
from envguard.checks.context import CheckOptions
from envguard.facts.binary import (
    BinaryFacts,
    CodeCount,
    CompiledCache,
    CompiledFile,
    FoundBy,
    LinkFault,
    LinkProblem,
    Loading,
    Shadowing,
)
from envguard.facts.environment import Accelerator, BuildOrigin, Environment, TorchBuild
from envguard.facts.facts import Facts, facts_document, parse_facts_document
from envguard.facts.findings import Finding, Status
from envguard.facts.machine import Driver, Gpu, Host, Machine, Platform
from envguard.facts.versions import CodeTarget, ComputeCapability, CudaVersion, DriverVersion
from envguard.judge import judge
from envguard.matrix.loader import Matrix

MATRIX = Matrix.load()
SITE = "/srv/env/lib/python3.12/site-packages"


def counts(**numbers: int) -> tuple[CodeCount, ...]:
    return tuple(
        CodeCount(ComputeCapability(int(name[2:-1]), int(name[-1])), "", number)
        for name, number in numbers.items()
    )


# as read from the wheel of torch 2.14.1 for CUDA 13.0
LIBTORCH = CompiledFile(
    "torch/lib/libtorch_cuda.so",
    cubin=counts(sm75=475, sm80=475, sm86=475, sm89=1, sm90=475, sm100=475, sm120=475, sm121=1),
    ptx=(),
)
LINALG = CompiledFile(
    "torch/lib/libtorch_cuda_linalg.so",
    cubin=counts(sm80=65, sm86=65, sm90=65, sm100=65, sm120=65),
    ptx=(),
)
T4 = Gpu(0, name="Tesla T4", capability=ComputeCapability(7, 5))
L4 = Gpu(1, name="NVIDIA L4", capability=ComputeCapability(8, 9))


def facts(compiled: BinaryFacts, *gpus: Gpu, version: str = "2.14.1+cu130") -> Facts:
    torch = TorchBuild(
        Version(version), Accelerator.CUDA, CudaVersion(13, 0), BuildOrigin.VERSION_FILE
    )
    machine = Machine(
        host=Host(platform=Platform.parse("linux-x86_64"), glibc=Version("2.35")),
        driver=Driver(version=DriverVersion.parse("580.95.05"), cuda=CudaVersion(13, 0)),
        gpus=gpus or (T4,),
    )
    return Facts(machine, Environment(torch=torch, distributions=()), compiled=compiled)


def findings(subject: Facts, code: str) -> list[Finding]:
    report = judge(subject, MATRIX, CheckOptions(), torch_index="https://index.example/{backend}")
    return [finding for finding in report.findings if finding.code == code]


def problem(**changes: object) -> LinkProblem:
    base = LinkProblem(
        module=f"{SITE}/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so",
        needed_by=f"{SITE}/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so",
        fault=LinkFault.MISSING_SYMBOL,
        name="_ZN3c105ErrorC2ENS_14SourceLocationESs",
        message="undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        is_torch=True,
        loading=Loading.IMPORT,
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # named as the fields are


def test_a_few_pieces_for_a_target_are_not_coverage() -> None:
    found = full_targets(BinaryFacts(files=(LIBTORCH, LINALG)))
    assert [str(target) for target in found or ()] == [
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_90",
        "sm_100",
        "sm_120",
    ]


def test_the_list_that_the_build_reports_wins() -> None:
    flags = (CodeTarget.parse("sm_80"), CodeTarget.parse("compute_80"))
    library = CompiledFile("torch/lib/libtorch_python.so", arch_flags=flags)
    assert full_targets(BinaryFacts(files=(LIBTORCH, library))) == flags


def test_a_library_without_code_for_the_gpu_is_named_with_what_it_serves() -> None:
    subject = facts(BinaryFacts(files=(LIBTORCH, LINALG)), T4, L4)
    (finding,) = findings(subject, "BIN001")
    assert finding.status is Status.WARN
    assert finding.gpus == (0,)
    assert "linear algebra" in finding.detail


def test_nvidias_own_libraries_choose_for_themselves() -> None:
    cublas = CompiledFile("nvidia/cu13/lib/libcublas.so.13", cubin=counts(sm80=9), ptx=())
    assert findings(facts(BinaryFacts(files=(LIBTORCH, cublas))), "BIN001") == []


def test_installed_code_wins_over_the_matrix_and_the_contradiction_is_said() -> None:
    own = CompiledFile("torch/lib/libtorch_cuda.so", cubin=counts(sm70=400, sm75=400), ptx=())
    volta = Gpu(0, name="Tesla V100", capability=ComputeCapability(7, 0))
    subject = facts(BinaryFacts(files=(own,)), volta)
    assert [f.status for f in findings(subject, "GPU000")] == [Status.OK]
    (finding,) = findings(subject, "BIN002")
    assert "sm_70 more" in finding.detail
    assert findings(facts(BinaryFacts(files=(LIBTORCH,))), "BIN002") == []


@pytest.mark.parametrize(
    ("changes", "cause", "status"),
    [
        ({}, "abi-torch-version", Status.FAIL),
        ({"cxx11_abi": False}, "abi-cxx11-flag", Status.FAIL),
        ({"loading": Loading.LAZY}, "abi-torch-version", Status.FAIL),
        (
            {"loading": Loading.LAZY, "is_torch": False, "name": "png_read"},
            "symbol-missing",
            Status.WARN,
        ),
        ({"one_of_several": True}, "abi-torch-version", Status.WARN),
        ({"module": f"{SITE}/torchvision/_C.so"}, "vision-torch-mismatch", Status.FAIL),
        (
            {"fault": LinkFault.MISSING_LIBRARY, "name": "libcudart.so.12", "is_torch": False},
            "cudart-major-mismatch",
            Status.FAIL,
        ),
        (
            {"fault": LinkFault.MISSING_LIBRARY, "name": "libavcodec.so.60", "is_torch": False},
            "library-missing",
            Status.FAIL,
        ),
        (
            {
                "fault": LinkFault.MISSING_VERSION,
                "name": "GLIBCXX_3.4.30",
                "provider": "/usr/lib/libstdc++.so.6",
                "is_torch": False,
            },
            "libstdcxx-mismatch",
            Status.FAIL,
        ),
        (
            {"fault": LinkFault.MISSING_VERSION, "name": "GLIBC_2.38", "is_torch": False},
            "glibc-too-old",
            Status.FAIL,
        ),
        (
            {"name": "__nvJitLinkComplete_12_4, version libnvJitLink.so.12", "is_torch": False},
            "ld-library-path-shadow",
            Status.FAIL,
        ),
    ],
)
def test_a_module_that_will_not_load(
    changes: dict[str, object], cause: str, status: Status
) -> None:
    python = CompiledFile("torch/lib/libtorch_python.so", cxx11_abi=True)
    compiled = BinaryFacts(files=(LIBTORCH, python), links=(problem(**changes),), checked=3)
    (finding,) = findings(facts(compiled), "LNK001")
    assert (finding.cause, finding.status) == (cause, status)
    assert "undefined symbol: _ZN3c10" in finding.detail


def test_modules_that_link_are_said_in_one_line() -> None:
    (finding,) = findings(facts(BinaryFacts(files=(LIBTORCH,), checked=70)), "LNK000")
    assert finding.title == "70 extension modules would find what they need"


def test_a_library_of_the_system_in_front_of_the_wheels_is_a_warning() -> None:
    shadow = Shadowing(
        "libnccl.so.2",
        "torch/lib/libtorch_cuda.so",
        "/usr/local/lib/libnccl.so.2",
        FoundBy.LD_LIBRARY_PATH,
        (f"{SITE}/nvidia/nccl/lib/libnccl.so.2",),
        in_environment=False,
    )
    (finding,) = findings(facts(BinaryFacts(shadowed=(shadow,))), "LNK002")
    assert (finding.cause, finding.status) == ("nccl-shadowed", Status.WARN)
    fine = replace(shadow, found_by=FoundBy.RPATH, in_environment=True)
    assert findings(facts(BinaryFacts(shadowed=(fine,))), "LNK002") == []


def test_a_compiled_cache_for_another_gpu_is_stale() -> None:
    cache = CompiledCache("/srv/cache/fused_adam", "/srv/cache/fused_adam/fused_adam.so")
    old = replace(cache, targets=(CodeTarget.parse("sm_80"),))
    (finding,) = findings(facts(BinaryFacts(caches=(old,))), "BIN003")
    assert finding.remedy is not None
    assert finding.remedy.command == ("rm", "-r", "/srv/cache/fused_adam")
    fresh = replace(cache, targets=(CodeTarget.parse("sm_75"),))
    assert findings(facts(BinaryFacts(caches=(fresh,))), "BIN003") == []
    judged = facts(BinaryFacts(caches=(old,)))
    assert findings(replace(judged, environment=Environment()), "BIN003") == []  # nobody's


def test_compiled_facts_survive_the_document() -> None:
    subject = facts(BinaryFacts(files=(LIBTORCH,), links=(problem(),), checked=1))
    assert parse_facts_document(facts_document(subject), "machine.json") == subject
