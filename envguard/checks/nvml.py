"""The nvml family: do the driver's sources agree, does it answer at all, does CUDA start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.container import image_libraries
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
from envguard.facts.machine import ContainerKind, OperatingSystem
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import DriverVersion
from envguard.fit import grade_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.findings import Evidence
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Host
    from envguard.matrix.loader import Matrix


_DRIVER_FACTS = ("machine.driver.version", "machine.driver.cuda", "machine.gpus")
_SYSTEM_DRIVER_MISMATCH = 803


def _has_linux_driver(host: Host) -> bool:
    """The driver's libraries and its kernel module come as one release."""
    is_linux = host.platform is None or host.platform.system is OperatingSystem.LINUX
    return is_linux and not host.is_wsl and not host.jetson


def check_libraries_match_kernel(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """The user-mode driver's libraries against the loaded kernel module."""
    if image_libraries(facts):
        return
    gaps = [
        g for g in facts.gaps if g.reason is GapReason.MISMATCH and g.fact.startswith("machine.")
    ]
    told = [gap for gap in gaps if gap.fact in _DRIVER_FACTS]
    others = library_versions(facts) if _has_linux_driver(facts.machine.host) else ()
    error = cuda_error(facts)
    if not (told or others or error == _SYSTEM_DRIVER_MISMATCH):
        return
    kernel = facts.machine.driver.version
    named = f" {kernel}" if kernel else ""
    yield Finding(
        code="NVM001",
        cause="nvml-kernel-userspace-mismatch",
        status=Status.FAIL,
        title=say(
            "the driver's libraries and its kernel module{versions} are of different releases",
            versions=named,
        ),
        detail=say(
            "{what_differs} Programs that start now cannot use the GPU; those that run "
            "already go on.",
            what_differs=_mismatch_words(told, others),
        ),
        evidence=_mismatch_evidence(facts, told),
        remedy=_mismatch_remedy(facts.machine.host),
    )


def library_versions(facts: Facts) -> tuple[DriverVersion, ...]:
    """Versions of the driver's libraries that differ from the kernel module's.

    A forward-compatibility libcuda differs on purpose and is left out.
    """
    kernel = facts.machine.driver.version
    if kernel is None:
        return ()
    has_compat = facts.machine.driver.compat_libcuda is not None
    texts = [
        reading.value
        for reading in readings_of(facts, "driver.user_mode_version")
        if not (has_compat and reading.probe == "libcuda")
    ]
    field = facts.machine.driver.user_mode_version
    if not texts and field is not None and not has_compat:
        texts = [str(field)]
    found = (_plain_version(text) for text in texts)
    return tuple(dict.fromkeys(v for v in found if v is not None and v != kernel))


def _plain_version(text: str) -> DriverVersion | None:
    """A library's version without the CUDA major that NVML puts in front: 12.550.54.15."""
    head, _, tail = text.partition(".")
    try:
        return DriverVersion.parse(tail if len(head) < 3 else text)
    except ValueError:
        return None


def _mismatch_words(told: list[Gap], others: tuple[DriverVersion, ...]) -> str:
    if others:
        return say("The libraries are of {versions}.", versions=", ".join(map(str, others)))
    if told:
        return say("{probe} says: {detail}.", probe=told[0].probe, detail=told[0].detail)
    return "cuInit says that the display driver and the CUDA driver do not match (803)."


def _mismatch_evidence(facts: Facts, told: list[Gap]) -> tuple[Evidence, ...]:
    names = ("driver.version", "driver.user_mode_version", "driver.libcuda", "driver.cuda_init")
    readings = [reading for name in names for reading in readings_of(facts, name)]
    return (*(reading_evidence(readings) or driver_evidence(facts)), *gap_evidence(told))


def _mismatch_remedy(host: Host) -> Remedy:
    if is_in_container(host):
        return Remedy(
            "on the host: reboot, or unload and load the nvidia kernel modules; then start a new "
            "container, so that it gets the host's libraries. If the host itself works, the image "
            "brings driver libraries of its own: remove them"
        )
    return Remedy(
        "reboot, or stop everything that uses the GPU and reload the modules: rmmod nvidia_uvm "
        "nvidia_drm nvidia_modeset nvidia && modprobe nvidia; hold the driver's packages back "
        "from unattended upgrades"
    )


def check_sources_agree(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """What the sources say of the driver and of the number of GPUs, one against the other."""
    machine = facts.machine
    names = ["driver.version"]
    if machine.driver.compat_libcuda is None:
        names.append("driver.cuda")
    for name in names:
        readings = readings_of(facts, name)
        if len({reading.value for reading in readings}) > 1:
            words = join_sentences(
                *(say("{probe} says {value}", probe=r.probe, value=r.value) for r in readings),
                by=", ",
            )
            yield Finding(
                code="NVM002",
                cause="sources-disagree",
                status=Status.WARN,
                title=say("sources disagree about {fact}: {answers}", fact=name, answers=words),
                detail="The answer rests on the source that reads it at first hand. A text of "
                "another time or another machine disagrees as well.",
                evidence=reading_evidence(readings),
                remedy=Remedy("run `envguard check` on the machine itself, now"),
            )
    yield from _missing_gpus(facts)


def _missing_gpus(facts: Facts) -> Iterator[Finding]:
    """GPUs on the bus that the driver does not list; a container is given only some."""
    machine = facts.machine
    if not machine.gpus or machine.host.container is not ContainerKind.NONE:
        return
    readings = [r for r in readings_of(facts, "gpu.count") if r.probe in {"pci", "procfs"}]
    present = max((int(r.value) for r in readings if r.value.isdecimal()), default=0)
    if present <= len(machine.gpus):
        return
    yield Finding(
        code="NVM002",
        cause="sources-disagree",
        status=Status.WARN,
        title=say(
            "{present} NVIDIA GPUs are in this machine, the driver lists {listed}",
            present=present,
            listed=len(machine.gpus),
        ),
        detail="A GPU that fell off the bus, that the driver does not support, or that is given "
        "to a virtual machine is missing from the list.",
        evidence=reading_evidence(readings_of(facts, "gpu.count")),
        remedy=Remedy("look for NVRM and Xid lines in the kernel log: dmesg | grep -iE 'nvrm|xid'"),
    )


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
        detail=say(
            "{probe} says: {detail}. It happens when systemd reloads its units (systemctl "
            "daemon-reload) and writes the device rules of the container anew, without the "
            "GPUs that were added behind its back.",
            probe=gaps[0].probe,
            detail=gaps[0].detail,
        ),
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
        title=say("asking the driver crashed ({probes})", probes=probes),
        detail=say(
            "{detail}. A process that loads the same library dies the same way; torch loads "
            "it at the first CUDA call.",
            detail=gaps[0].detail,
        ),
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
        title=say("the driver does not answer ({probes})", probes=probes),
        detail=say(
            "{detail}. A GPU in an error state, or a driver without persistence mode on a "
            "large machine, can take that long.",
            detail=gaps[0].detail,
        ),
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
        yield _not_started(
            say("cuInit returns {error}", error=readings[0].value), reading_evidence(readings)
        )
    word = word_of(facts, "torch.cuda.is_available")
    if word == "False" and _should_start(facts, matrix):
        gpus = gpu_words(facts.machine.selected_gpus)
        yield _not_started(
            say("torch.cuda.is_available() was False beside {gpus}", gpus=gpus),
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
