"""The container family: which user-mode driver a process inside an image or WSL really loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    cuda_error,
    driver_evidence,
    gpu_evidence,
    gpu_words,
    is_in_container,
    reading_evidence,
    readings_of,
    word_of,
)
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.machine import OperatingSystem
from envguard.facts.sentences import say
from envguard.matrix.rows import MarketSegment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu, Machine, Reading
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import DriverBranch


def image_libraries(facts: Facts) -> tuple[Reading, ...]:
    """The words that show a libcuda inside the image that is not the kernel module's.

    A runtime that passes GPUs mounts the host's libraries; a file on the root file system of a
    container is part of its image.

    Returns:
        Path, mount and version of that library; empty when there is none, or it matches.
    """
    driver = facts.machine.driver
    is_own = word_of(facts, "driver.libcuda_mount") == "/"
    if not (is_own and is_in_container(facts.machine.host)) or driver.compat_libcuda is not None:
        return ()
    versions = [r for r in readings_of(facts, "driver.user_mode_version") if r.probe == "libcuda"]
    if driver.version is None or not versions or versions[0].value == str(driver.version):
        return ()
    places = (*readings_of(facts, "driver.libcuda"), *readings_of(facts, "driver.libcuda_mount"))
    return (*places, *versions, *readings_of(facts, "driver.version"))


_NOT_SUPPORTED_ON_DEVICE = 804
_WSL_FOLDER = "/usr/lib/wsl/"
# What forward compatibility is made for; workstation cards only as selected SKUs.
_SUPPORTED = frozenset({MarketSegment.DATACENTER, MarketSegment.JETSON})
_DROP_COMPAT = (
    "take the compat folder out of LD_LIBRARY_PATH and of /etc/ld.so.conf.d (the host's own "
    "driver serves builds of its CUDA major), or update the host's driver"
)


def compat_libcuda(facts: Facts, matrix: Matrix) -> str | None:
    """How a forward-compatibility libcuda shows, in words; None where none does.

    Its path says so, or its CUDA is newer than the kernel driver's branch can offer.
    """
    machine = facts.machine
    if machine.driver.compat_libcuda is not None:
        return say("{library} is loaded", library=machine.driver.compat_libcuda)
    branch = _own_branch(machine, matrix)
    api = machine.driver.cuda
    if branch is None or api is None or api <= branch.cuda or not branch.provenance.is_firm:
        return None
    return say(
        "CUDA {api} is offered, and driver R{branch} itself offers {cuda}",
        api=api,
        branch=branch.branch,
        cuda=branch.cuda,
    )


def _own_branch(machine: Machine, matrix: Matrix) -> DriverBranch | None:
    """The kernel driver's branch where the tables hold exactly that one, on Linux."""
    host, version = machine.host, machine.driver.version
    is_linux = host.platform is None or host.platform.system is OperatingSystem.LINUX
    if version is None or not is_linux or host.is_wsl or host.jetson:
        return None
    branch = matrix.drivers.branch_of(version, OperatingSystem.LINUX)
    return branch if branch is not None and branch.branch == version.branch else None


def unsupported_gpus(facts: Facts, matrix: Matrix) -> tuple[tuple[Gpu, ...], bool]:
    """The GPUs that forward compatibility is not made for.

    Returns:
        They, and whether all of them are consumer cards. A GPU whose name is not known is
        left out.
    """
    found: list[Gpu] = []
    segments: set[MarketSegment] = set()
    for gpu in facts.machine.selected_gpus:
        of_gpu = {model.segment for model in matrix.gpus.find(gpu.name or "")}
        if of_gpu and not of_gpu & _SUPPORTED:
            found.append(gpu)
            segments |= of_gpu
    return tuple(found), segments == {MarketSegment.CONSUMER}


def check_compat_libcuda(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A forward-compatibility libcuda: on GPUs that it is made for, over a driver that it fits."""
    shown = compat_libcuda(facts, matrix)
    error = cuda_error(facts)
    if shown is None and error != _NOT_SUPPORTED_ON_DEVICE:
        return
    gpus, is_consumer = unsupported_gpus(facts, matrix)
    if gpus or error == _NOT_SUPPORTED_ON_DEVICE:
        refused = error == _NOT_SUPPORTED_ON_DEVICE or (error is None and is_consumer)
        yield _on_wrong_gpu(facts, matrix, gpus, shown or "", refused=refused)
    elif error != 0:
        yield from _over_wrong_driver(facts, matrix)


def _on_wrong_gpu(
    facts: Facts, matrix: Matrix, gpus: tuple[Gpu, ...], shown: str, *, refused: bool
) -> Finding:
    named = gpu_words(gpus) if gpus else "this GPU"
    outcome = (
        "cuInit fails with error 804 (forward compatibility was attempted on non supported HW) and "
        "torch.cuda.is_available() is False"
        if refused
        else "cuInit may fail with error 804 (forward compatibility was attempted on non supported "
        "HW); where it works, nobody promises that it goes on working"
    )
    said = say("{shown}. ", shown=shown) if shown else ""
    return Finding(
        code="CTR001",
        cause="compat-libcuda-in-image-on-geforce",
        status=Status.FAIL if refused else Status.WARN,
        title=say(
            "a forward-compatibility libcuda is used on {gpu}, which does not support it", gpu=named
        ),
        detail=say(
            "{how_it_shows}It is made for data-center GPUs: {outcome}.",
            how_it_shows=said,
            outcome=outcome,
        ),
        gpus=tuple(gpu.index for gpu in gpus),
        evidence=(
            *driver_evidence(facts),
            *_path_evidence(facts),
            *(e for gpu in gpus[:4] for e in gpu_evidence(facts, gpu)),
        ),
        remedy=Remedy(_DROP_COMPAT),
        source=matrix.machines.source("forward-compat"),
    )


def _path_evidence(facts: Facts) -> tuple[Evidence, ...]:
    path = facts.machine.driver.compat_libcuda
    found = (Evidence("driver.compat_libcuda", path, "libcuda"),) if path else ()
    return (*found, *reading_evidence(readings_of(facts, "driver.cuda_init")))


def _over_wrong_driver(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel driver's branch against those that the compat package of that CUDA works on."""
    branch, api = _own_branch(facts.machine, matrix), facts.machine.driver.cuda
    if branch is None or api is None or api == branch.cuda:
        return
    if api < branch.cuda:
        yield _older_than_driver(facts, matrix, branch, api)
        return
    row = matrix.support.forward_compat_of(api)
    if row is None or branch.branch in row.base_branches:
        return
    listed = ", ".join(f"R{number}" for number in row.base_branches)
    yield Finding(
        code="CTR002",
        cause="forward-compat-base-branch",
        status=Status.WARN,
        title=say(
            "cuda-compat of CUDA {api} is not made for driver R{branch}",
            api=api,
            branch=branch.branch,
        ),
        detail=say("NVIDIA names {branches} as the drivers that it works on.", branches=listed),
        evidence=(*driver_evidence(facts), *_path_evidence(facts)),
        remedy=Remedy(
            say(
                "install a driver of {branches}, or one that serves CUDA {api} by itself",
                branches=listed,
                api=api,
            )
        ),
        source=row.provenance.source,
    )


def _older_than_driver(
    facts: Facts, matrix: Matrix, branch: DriverBranch, api: CudaVersion
) -> Finding:
    return Finding(
        code="CTR002",
        cause="forward-compat-base-branch",
        status=Status.FAIL,
        title=say(
            "the compatibility libcuda (CUDA {api}) is older than driver R{branch}",
            api=api,
            branch=branch.branch,
        ),
        detail=say(
            "It serves older kernel drivers only; cuInit fails with error 803 (system has "
            "unsupported display driver / cuda driver combination). R{branch} serves CUDA {cuda} "
            "by itself.",
            branch=branch.branch,
            cuda=branch.cuda,
        ),
        evidence=(*driver_evidence(facts), *_path_evidence(facts)),
        remedy=Remedy(_DROP_COMPAT),
        source=matrix.machines.source("forward-compat"),
    )


def check_image_libraries(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Driver libraries that an image brings, in the place of the host's."""
    found = image_libraries(facts)
    if not found:
        return
    path, version = found[0].value, facts.machine.driver.version
    own = word_of(facts, "driver.user_mode_version")
    yield Finding(
        code="CTR003",
        cause="driver-libs-baked-in-image",
        status=Status.FAIL,
        title=say(
            "the image brings a libcuda of another release than the kernel module {version}",
            version=version,
        ),
        detail=say(
            "{path} is part of the image and not mounted from the host ({own}). The "
            "user-mode driver and the kernel module must be of one release.",
            path=path,
            own=own,
        ),
        evidence=reading_evidence(found),
        remedy=Remedy(
            "build the image without driver packages (libnvidia-compute-*, nvidia-driver-*, "
            "cuda-drivers): the container runtime mounts the host's libraries"
        ),
        source=matrix.machines.source("container-devices"),
    )


def check_wsl_libcuda(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Under WSL: a Linux driver's libcuda in front of the one that Windows provides."""
    host = facts.machine.host
    path = word_of(facts, "driver.libcuda")
    if not host.is_wsl or path is None or path.startswith(_WSL_FOLDER) or is_in_container(host):
        return
    versions = [r for r in readings_of(facts, "driver.user_mode_version") if r.probe == "libcuda"]
    if not versions:
        return  # only a Linux driver's file carries its version in its name
    yield Finding(
        code="CTR004",
        cause="wsl-driver-shadow",
        status=Status.FAIL,
        title="a Linux driver's libcuda stands in front of the one of WSL",
        detail=say(
            "{path} is loaded; it looks for a kernel module that WSL does not have. The "
            "Windows driver provides {folder}lib/libcuda.so.1.",
            path=path,
            folder=_WSL_FOLDER,
        ),
        evidence=reading_evidence((*readings_of(facts, "driver.libcuda"), *versions)),
        remedy=Remedy(
            "remove the driver packages inside WSL (apt purge 'libnvidia-compute-*' "
            "'nvidia-driver-*' 'cuda-drivers*') and run ldconfig; cuda-toolkit packages may stay"
        ),
        source=matrix.machines.source("wsl-driver"),
    )
