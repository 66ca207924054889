"""None"""

from __future__ import annotations

from packaging.version import Version

from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Distribution,
    Environment,
    TorchBuild,
)
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, Machine
from envguard.facts.versions import CudaVersion, DriverVersion
from envguard.ingest.report_part import ReportPart, merge_parts, value_of


def driver(text: str, cuda: CudaVersion | None = None) -> Facts:
    return Facts(Machine(driver=Driver(version=DriverVersion.parse(text), cuda=cuda)))


def test_cuda_version_of_another_driver_is_not_mixed_in() -> None:
    merged = merge_parts(
        [
            ReportPart(9, driver("535.104.05", CudaVersion(12, 2))),
            ReportPart(1, driver("470.82.01")),
        ],
        "x",
    )
    assert str(merged.machine.driver.version) == "470.82.01"
    assert merged.machine.driver.cuda is None


def test_cuda_version_of_the_same_driver_completes_it() -> None:
    merged = merge_parts(
        [
            ReportPart(1, driver("535.104.05")),
            ReportPart(9, driver("535.104.05", CudaVersion(12, 2))),
        ],
        "x",
    )
    assert merged.machine.driver.cuda == CudaVersion(12, 2)


def test_gpus_of_another_product_do_not_complete_the_first_list() -> None:
    first = Facts(Machine(gpus=(Gpu(0, name="Tesla T4"),)))
    other = Facts(Machine(gpus=(Gpu(0, name="NVIDIA L4", memory_bytes=24),)))
    merged = merge_parts([ReportPart(1, first), ReportPart(2, other)], "x")
    assert merged.machine.gpus == (Gpu(0, name="Tesla T4"),)


def test_lists_of_different_length_are_not_mixed() -> None:
    first = Facts(Machine(gpus=(Gpu(0, name="Tesla T4"),)))
    other = Facts(Machine(gpus=(Gpu(0, name="Tesla T4", uuid="GPU-1"), Gpu(1, name="Tesla T4"))))
    merged = merge_parts([ReportPart(1, first), ReportPart(2, other)], "x")
    assert merged.machine.gpus == (Gpu(0, name="Tesla T4"),)


def test_variable_that_hides_gpus_marks_them() -> None:
    machine = Machine(
        gpus=(Gpu(0, name="Tesla T4"), Gpu(1, name="Tesla T4")),
        variables=(("CUDA_VISIBLE_DEVICES", "1"),),
    )
    merged = merge_parts([ReportPart(0, Facts(machine))], "x")
    assert [gpu.is_visible for gpu in merged.machine.gpus or ()] == [False, True]


def test_metadata_complete_the_build_of_the_same_version_only() -> None:
    report = TorchBuild(Version("2.1.0"), origin=BuildOrigin.REPORT)
    same = TorchBuild(Version("2.1.0+cu118"), Accelerator.CUDA, CudaVersion(11, 8))
    other = TorchBuild(Version("2.2.0+cu118"), Accelerator.CUDA, CudaVersion(11, 8))
    for metadata, cuda in ((same, CudaVersion(11, 8)), (other, None)):
        parts = [
            ReportPart(0, Facts(environment=Environment(torch=metadata))),
            ReportPart(1, Facts(environment=Environment(torch=report))),
        ]
        merged = merge_parts(parts, "x").environment
        assert merged is not None
        assert merged.torch is not None
        assert merged.torch.origin is BuildOrigin.REPORT
        assert merged.torch.cuda == cuda


def test_different_torch_versions_leave_readings() -> None:
    parts = [
        ReportPart(i, Facts(environment=Environment(torch=TorchBuild(Version(v), origin=origin))))
        for i, (v, origin) in enumerate(
            (("2.6.0", BuildOrigin.REPORT), ("2.8.0", BuildOrigin.METADATA))
        )
    ]
    readings = merge_parts(parts, "x").machine.readings
    assert [(r.fact, r.value, r.probe) for r in readings] == [
        ("torch.version", "2.6.0", "report"),
        ("torch.version", "2.8.0", "metadata"),
    ]


def test_mismatch_stays_a_gap_although_a_version_is_known() -> None:
    gap = Gap("machine.driver.version", GapReason.MISMATCH, "nvidia-smi", "mismatch")
    parts = [ReportPart(0, Facts(gaps=(gap,))), ReportPart(1, driver("535.104.05"))]
    assert gap in merge_parts(parts, "x").gaps


def test_filled_gaps_go() -> None:
    gap = Gap("machine.driver.version", GapReason.ABSENT, "collect_env", "")
    parts = [ReportPart(0, Facts(gaps=(gap,))), ReportPart(1, driver("535.104.05"))]
    assert merge_parts(parts, "x").gap("machine.driver.version") is None


def test_values_are_found_by_their_dotted_names() -> None:
    facts = Facts(
        Machine(gpus=(Gpu(3, name="T4"),)),
        Environment(distributions=(Distribution("torch", Version("2.1.0")),)),
    )
    assert value_of(facts, "machine.gpus[3].name") == "T4"
    assert value_of(facts, "machine.gpus[0].name") is None
    assert value_of(facts, "environment.distributions[torch].version") == Version("2.1.0")
    assert value_of(facts, "environment.nonsense.version") is None
