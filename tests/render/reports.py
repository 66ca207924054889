"""Reports that the format tests render, with text that tries to break out of each format."""

from __future__ import annotations

from packaging.version import Version

from envguard.facts.environment import Accelerator, Environment, TorchBuild
from envguard.facts.facts import Facts
from envguard.facts.findings import Evidence, Finding, Remedy, Source, Status
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, Host, Machine, OperatingSystem, Platform
from envguard.facts.report import Recommendation, Report, make_report
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion

HOSTILE = 'a|b `c` <d> & "e" %0A ::error:: \x1b[31m\x00 ]]> \u2028 *f*'
UUID = "GPU-12345678-1234-1234-1234-123456789abc"


def finding(status: Status, code: str = "GPU001", **changes: object) -> Finding:
    values: dict[str, object] = {
        "code": code,
        "cause": "arch-missing-old-gpu",
        "status": status,
        "title": f"title of {status.value}",
        "detail": f"detail, {HOSTILE}",
        "gpus": (0,),
        "package": "torch",
        "evidence": (Evidence("gpu[0].capability", "7.0", "nvml"),),
        "remedy": Remedy("install another build", ("pip", "install", "torch==2.11.0+cu126")),
        "source": Source("https://index.example/source", "2026-11-29"),
        "line": 12,
    }
    return Finding(**{**values, **changes})  # type: ignore[arg-type]  # named as the fields are


def facts(document: str | None = None) -> Facts:
    machine = Machine(
        host=Host(platform=Platform(OperatingSystem.LINUX, "x86_64")),
        driver=Driver(version=DriverVersion.parse("535.104.05"), cuda=CudaVersion(12, 2)),
        gpus=(Gpu(0, name="Tesla V100", capability=ComputeCapability(7, 0), uuid=UUID),),
        variables=(("LD_LIBRARY_PATH", "/srv/secret/lib:/srv/other/lib"),),
    )
    torch = TorchBuild(Version("2.11.0+cu128"), Accelerator.CUDA, CudaVersion(12, 8))
    environment = Environment(torch=torch, document=document)
    gap = Gap("machine.toolkit.nvcc", GapReason.ABSENT, "toolkit", "no /srv/cuda/bin/nvcc")
    return Facts(machine, environment, (gap,), "2026-11-29T00:00:00Z")


def report(*findings: Finding, document: str | None = None) -> Report:
    return make_report(
        "check",
        facts(document),
        findings,
        matrix_version="2026.11.29",
        cause_order=("arch-missing-old-gpu",),
        recommended=Recommendation(
            "2.11.0", "cu126", "https://index.example/whl/cu126", "it has the code", ("pip", "x")
        ),
        notes=("a note",),
    )


def full_report(document: str | None = None) -> Report:
    """One finding of each status, in an order that is not that of their gravity."""
    codes = dict(zip(Status, ("GPU001", "GPU007", "DRV006", "DRV000", "WHL003"), strict=True))
    findings = [finding(status, codes[status]) for status in reversed(Status)]
    return report(*findings, document=document)
