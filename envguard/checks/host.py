"""The host family: shared memory, locked memory, memory limits, and the loader's path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import CheckOptions, cuda_build, is_in_container, origin_of
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.machine import ContainerKind
from envguard.facts.sentences import join_sentences, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import Environment
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Machine
    from envguard.matrix.loader import Matrix


_MIB = 1024**2
_GIB = 1024**3
_RDMA_VARIABLES = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_NET_GDR_LEVEL", "NCCL_NET_PLUGIN")
_NODE_COUNTS = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
_ENOUGH_LOCKED = 64 * _MIB


def size_words(count: int) -> str:
    """A size for a sentence: ``64 MiB``, ``1.5 GiB``."""
    if count < _GIB:
        return f"{count / _MIB:.0f} MiB"
    return f"{count / _GIB:.1f} GiB".replace(".0 ", " ")


def _trains(facts: Facts) -> bool:
    """There is a torch whose programs would run here."""
    torch = facts.environment.torch if facts.environment else None
    return torch is not None and torch.accelerator in {Accelerator.CUDA, Accelerator.CPU}


def check_shared_memory(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The size of /dev/shm, which data loaders and NCCL fill."""
    size = facts.machine.limits.shm_bytes
    if size is None or not _trains(facts) or size > matrix.machines.size("docker-shm"):
        return
    in_docker = is_in_container(facts.machine.host)
    default = ", the default of docker" if in_docker else ""
    yield Finding(
        code="HST001",
        cause="shm-too-small",
        status=Status.WARN,
        title=say(
            "shared memory (/dev/shm) holds {size}{whose_default}",
            size=size_words(size),
            whose_default=default,
        ),
        detail="DataLoader workers hand over batches through it, and NCCL connects the ranks of a "
        "node through it. When it is full, processes die with a bus error (-7), 'unable to write "
        "to file </torch_...>' or 'No space left on device'.",
        evidence=(Evidence("limits.shm_bytes", str(size), "statvfs"),),
        remedy=Remedy(_shm_remedy(facts.machine)),
        source=matrix.machines.source("nccl-shm"),
    )


def _shm_remedy(machine: Machine) -> str:
    match machine.host.container:
        case ContainerKind.KUBERNETES:
            return (
                "mount an emptyDir with medium: Memory on /dev/shm; it counts as the pod's memory"
            )
        case ContainerKind.DOCKER | ContainerKind.PODMAN:
            return "start the container with --shm-size=8g or --ipc=host"
        case _:
            return "mount it larger: mount -o remount,size=8G /dev/shm"


def check_locked_memory(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The limit of locked memory, where RDMA between nodes is going to be used."""
    limit = facts.machine.limits.memlock_bytes
    hint = _rdma_hint(facts.machine)
    if limit is None or limit >= _ENOUGH_LOCKED or hint is None or not _trains(facts):
        return
    name, value = hint
    yield Finding(
        code="HST002",
        cause="memlock-too-small",
        status=Status.WARN,
        title=say(
            "only {limit} of memory may be locked, and {variable}={value} hints at RDMA",
            limit=size_words(limit),
            variable=name,
            value=value,
        ),
        detail="Registering memory with an InfiniBand or RoCE adapter locks it. NCCL then fails "
        "with 'ibv_create_cq failed' or 'Cannot allocate memory', or falls back to sockets.",
        evidence=(
            Evidence("limits.memlock_bytes", str(limit), "getrlimit"),
            Evidence(f"variables.{name}", value, "environment"),
        ),
        remedy=Remedy(
            "raise it to unlimited: --ulimit memlock=-1 for a container, LimitMEMLOCK=infinity for "
            "slurmd, memlock lines in /etc/security/limits.conf"
        ),
        source=matrix.machines.source("nccl-shm"),
    )


def _rdma_hint(machine: Machine) -> tuple[str, str] | None:
    """The variable that shows that ranks talk over RDMA; None where NCCL is told not to."""
    if machine.variable("NCCL_IB_DISABLE") == "1" or machine.variable("NCCL_NET") == "Socket":
        return None
    for name in _RDMA_VARIABLES:
        value = machine.variable(name)
        if value:
            return name, value
    for name in _NODE_COUNTS:
        value = machine.variable(name) or ""
        if value.isdecimal() and int(value) > 1:
            return name, value
    return None


def check_container_memory(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """A memory limit of the control group that is smaller than one GPU's own memory.

    Such a host cannot even hold a checkpoint that fills a GPU. Whether a given training run fits
    is what `envguard plan` computes.
    """
    machine = facts.machine
    limit, ram = machine.limits.cgroup_bytes, machine.limits.ram_bytes
    largest = max((gpu.memory_bytes or 0 for gpu in machine.selected_gpus), default=0)
    if limit is None or (ram is not None and limit >= ram) or limit >= largest:
        return
    if not _trains(facts):
        return
    of_ram = say(" of the machine's {memory}", memory=size_words(ram)) if ram else ""
    yield Finding(
        code="HST003",
        cause="container-memory-limit",
        status=Status.WARN,
        title=say(
            "processes here may use {limit}{of_memory}, less than one GPU holds",
            limit=size_words(limit),
            of_memory=of_ram,
        ),
        detail=say(
            "The control group ends a process at {limit} with SIGKILL (-9, 137); a GPU holds "
            "{gpu_memory}. Loading or saving a checkpoint passes through host memory.",
            limit=size_words(limit),
            gpu_memory=size_words(largest),
        ),
        evidence=(
            Evidence("limits.cgroup_bytes", str(limit), "cgroup"),
            Evidence("gpu.memory_bytes", str(largest), origin_of(facts, "gpu.count")),
        ),
        remedy=Remedy(
            "raise the container's or job's memory limit; `envguard plan` tells how much is needed"
        ),
    )


_FILE = re.compile(
    r"lib(?P<name>[A-Za-z_+]{1,60}?)(?P<part>_[a-z_]{1,60})?\.so\.(?P<version>[0-9.]+)"
)
# Library -> the distribution that brings it, without -cu12. Those that libtorch itself names come
# by its DT_RPATH, which goes before LD_LIBRARY_PATH; these are looked for by other libraries of the
# wheels, whose DT_RUNPATH goes after it.
_BROUGHT_BY = {
    "cudnn": "nvidia-cudnn",
    "nvJitLink": "nvidia-nvjitlink",
    "nvrtc": "nvidia-cuda-nvrtc",
}
_MAJOR_ONLY = 1


def check_library_path(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Older copies of what wheels bring, in the folders of LD_LIBRARY_PATH."""
    environment, files = facts.environment, facts.machine.library_path_files
    if cuda_build(facts) is None or environment is None or not files:
        return
    if facts.compiled is not None:
        return  # the compiled files themselves were read: they tell who loads what
    older = [(path, *pair) for path in files if (pair := _older(path, environment)) is not None]
    if not older:
        return
    yield Finding(
        code="HST004",
        cause="ld-library-path-shadow",
        status=Status.FAIL if _breaks_import(older) else Status.WARN,
        title=say(
            "LD_LIBRARY_PATH puts older libraries before those of the wheels: {library}",
            library=older[0][0],
        ),
        detail=say(
            "{libraries} The loader takes the first of them, and newer libraries then miss "
            "symbols: 'undefined symbol: __nvJitLink...', "
            "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH.",
            libraries=_words(older),
        ),
        package="torch",
        evidence=(
            Evidence(
                "variables.LD_LIBRARY_PATH",
                facts.machine.variable("LD_LIBRARY_PATH") or "",
                "environment",
            ),
            *(Evidence("library_path_files", path, "listing") for path, _, _ in older[:8]),
        ),
        remedy=Remedy(
            "unset LD_LIBRARY_PATH for programs that use torch (env -u LD_LIBRARY_PATH ...), or "
            "take the toolkit's folder out of it"
        ),
        source=matrix.machines.source("library-path"),
    )


def _older(path: str, environment: Environment) -> tuple[str, str] | None:
    """The version in a file's name and that of the wheel, where the file is the older one.

    A file named after its major alone says nothing; the file it links to is listed as well.
    """
    match = _FILE.fullmatch(path.rpartition("/")[2])
    brought = _BROUGHT_BY.get(match["name"]) if match else None
    if match is None or brought is None:
        return None
    found = _version(match["version"])
    wheel = _wheel_version(brought, environment)
    if found is None or wheel is None or len(found.release) <= _MAJOR_ONLY:
        return None
    is_same_major = found.release[0] == wheel.release[0]
    depth = min(len(found.release), len(wheel.release))
    if not is_same_major or found.release[:depth] >= wheel.release[:depth]:
        return None
    return str(found), str(wheel)


def _version(text: str) -> Version | None:
    try:
        return Version(text.strip("."))
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


def _wheel_version(name: str, environment: Environment) -> Version | None:
    """The version of the distribution, with or without its CUDA suffix."""
    for distribution in environment.distributions or ():
        if distribution.name in {name, f"{name}-cu11", f"{name}-cu12", f"{name}-cu13"}:
            return distribution.version
    return None


def _breaks_import(older: list[tuple[str, str, str]]) -> bool:
    """An older nvJitLink of another CUDA minor lacks symbols that libcusparse asks for by name."""
    for path, found, wheel in older:
        if "/libnvJitLink.so" in path and Version(found).release[:2] < Version(wheel).release[:2]:
            return True
    return False


def _words(older: list[tuple[str, str, str]]) -> str:
    shown = [
        say(
            "{path} is {version}, the wheel's is {wheel_version}",
            path=path,
            version=found,
            wheel_version=wheel,
        )
        for path, found, wheel in older[:3]
    ]
    more = say(" (and {count} more)", count=len(older) - 3) if len(older) > len(shown) else ""
    return say("{libraries}{more}.", libraries=join_sentences(*shown, by="; "), more=more)


def check_preload(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Libraries that LD_PRELOAD puts in the place of the wheels' own."""
    value = facts.machine.variable("LD_PRELOAD")
    if not value or cuda_build(facts) is None:
        return
    names = [word for word in re.split(r"[ :]+", value) if word]
    nccl = [name for name in names if "libnccl.so" in name]
    others = [n for n in names if re.search(r"lib(cuda|cud|cublas|nvJitLink|torch|c10)", n)]
    if not nccl and not others:
        return
    listed = ", ".join((*nccl, *others))
    yield Finding(
        code="HST005",
        cause="nccl-shadowed" if nccl else "ld-library-path-shadow",
        status=Status.WARN,
        title=say("LD_PRELOAD loads {listed} before everything else", listed=listed),
        detail="It takes the place of the library that torch was built and tested with; a "
        "different release of it can crash or hang.",
        package="torch",
        evidence=(Evidence("variables.LD_PRELOAD", value, "environment"),),
        remedy=Remedy("unset LD_PRELOAD, unless that library is wanted"),
    )
