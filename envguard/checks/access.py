"""The nvml family, second half: does the driver answer at all, and does CUDA start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    cuda_build,
    cuda_error,
    driver_evidence,
    gap_evidence,
    gpu_words,
    is_in_container,
    reading_evidence,
    readings_of,
    word_of,
)
from envguard.facts.findings import Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind
from envguard.matrix.fit import grade_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.findings import Evidence
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Host
    from envguard.matrix.loader import Matrix

# Errors of cuInit that other checks speak of, since they know what stands behind them: a system
# that is not ready, a driver mismatch, a compatibility libcuda on the wrong GPU.
_TOLD_ELSEWHERE = frozenset({0, 802, 803, 804})


def check_nvml_access(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A container that lost its GPUs, and drivers that crash or do not answer."""
    gaps = [
        gap
        for gap in facts.gaps
        if gap.fact.startswith(("machine.driver", "machine.gpus"))
        # a tool that fails beside a library that answers keeps nobody from the GPU
        and not (gap.probe == "nvidia-smi" and facts.machine.gpus is not None)
    ]
    crashed = [gap for gap in gaps if gap.reason is GapReason.CRASHED]
    late = [gap for gap in gaps if gap.reason is GapReason.TIMED_OUT]
    lost = [gap for gap in gaps if _is_lost_access(gap, facts.machine.host)]
    if crashed:
        yield _crash(crashed)
    if late:
        yield _silence(late)
    if lost and facts.machine.gpus is None and not late:
        yield _lost_access(facts, matrix, lost)


def _is_lost_access(gap: Gap, host: Host) -> bool:
    if host.is_wsl or host.jetson or host.container is ContainerKind.NONE:
        return False
    words = gap.detail.lower()
    if "device handle" in words:
        return False  # one GPU is lost, not the access to all
    if "nvml_error_unknown" in words or "initialize nvml: unknown error" in words:
        return True
    return gap.reason is GapReason.FORBIDDEN and is_in_container(host)


def _lost_access(facts: Facts, matrix: Matrix, gaps: list[Gap]) -> Finding:
    return Finding(
        code="NVM003",
        cause="nvml-cgroup-reload",
        status=Status.FAIL,
        title="this container has lost its access to the GPUs",
        detail=f"{gaps[0].probe} says: {gaps[0].detail}. It happens when systemd reloads its units "
        "(systemctl daemon-reload) and writes the device rules of the container anew, without the "
        "GPUs that were added behind its back.",
        evidence=(*driver_evidence(facts), *gap_evidence(gaps)),
        remedy=Remedy(
            "start the container again; to prevent it, pass the device nodes (--device "
            "/dev/nvidia0 ...) or CDI devices, or use cgroupfs as the cgroup driver"
        ),
        source=matrix.machines.source("cgroup-reload"),
    )


def _crash(gaps: list[Gap]) -> Finding:
    probes = " and ".join(dict.fromkeys(gap.probe for gap in gaps))
    return Finding(
        code="NVM004",
        cause="libcuda-crash",
        status=Status.FAIL,
        title=f"asking the driver crashed ({probes})",
        detail=f"{gaps[0].detail}. A process that loads the same library dies the same way; torch "
        "loads it at the first CUDA call.",
        evidence=gap_evidence(gaps),
        remedy=Remedy(
            "install the driver anew, and take other copies of libcuda.so.1 and libnvidia-ml.so.1 "
            "out of LD_LIBRARY_PATH"
        ),
    )


def _silence(gaps: list[Gap]) -> Finding:
    probes = " and ".join(dict.fromkeys(gap.probe for gap in gaps))
    return Finding(
        code="NVM005",
        cause="driver-not-answering",
        status=Status.UNKNOWN,
        title=f"the driver does not answer ({probes})",
        detail=f"{gaps[0].detail}. A GPU in an error state, or a driver without persistence mode "
        "on a large machine, can take that long.",
        evidence=gap_evidence(gaps),
        remedy=Remedy("look for Xid lines in the kernel log; start nvidia-persistenced"),
    )


def check_nvml_on_tegra(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """NVML is absent from Jetson boards, and that is no fault."""
    absent = [
        gap
        for gap in facts.gaps
        if gap.probe == "nvml" and gap.reason is GapReason.ABSENT and gap.fact == "machine.gpus"
    ]
    if not facts.machine.host.jetson or not absent:
        return
    yield Finding(
        code="NVM006",
        cause="nvml-missing-tegra",
        status=Status.OK,
        title="NVML is absent, as it is on this Jetson's releases",
        detail="torch asks it only to word its out-of-memory errors; 'NVML_SUCCESS == r INTERNAL "
        "ASSERT FAILED' there means out of memory.",
        evidence=gap_evidence(absent),
        source=matrix.machines.source("nvml-tegra"),
    )


def check_cuda_initialises(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """What happened when CUDA was really started: by the probe, or by torch in a report."""
    error = cuda_error(facts)
    if error is not None and error not in _TOLD_ELSEWHERE and facts.machine.selected_gpus:
        readings = readings_of(facts, "driver.cuda_init")
        yield _not_started(f"cuInit returns {readings[0].value}", reading_evidence(readings))
    word = word_of(facts, "torch.cuda.is_available")
    if word == "False" and _should_start(facts, matrix):
        gpus = gpu_words(facts.machine.selected_gpus)
        yield _not_started(
            f"torch.cuda.is_available() was False beside {gpus}",
            reading_evidence(readings_of(facts, "torch.cuda.is_available")),
        )


def _should_start(facts: Facts, matrix: Matrix) -> bool:
    """A CUDA build with a GPU and a driver that serves it: nothing known speaks against it."""
    build, machine = cuda_build(facts), facts.machine
    if build is None or not machine.selected_gpus or machine.driver.version is None:
        return False
    fit = grade_driver(machine.driver, machine.host, build[1], matrix.drivers)
    return fit.grade.serves


def _not_started(title: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        code="NVM007",
        cause="cuda-init-failed",
        status=Status.FAIL,
        title=title,
        detail="The driver's version and the build fit, so the process itself was kept from the "
        "GPU: libraries of another release than the kernel module, a container without the device "
        "nodes, a fabric manager or vGPU licence that is missing, CUDA_VISIBLE_DEVICES, or a GPU "
        "in an error state.",
        evidence=evidence,
        remedy=Remedy(
            "run `envguard probe` on the machine itself: it compares libraries and kernel module "
            "and says what CUDA answers"
        ),
    )
