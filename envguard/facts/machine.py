"""What a machine is: host, driver, GPUs, toolkit and limits."""

from __future__ import annotations

from enum import Enum

from packaging.version import Version

from envguard.facts.versions import (
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from envguard.values import dataclass


class OperatingSystem(Enum):
    """Operating systems that torch is built for; the value is the option's first word."""

    LINUX = "linux"
    WINDOWS = "windows"
    MACOS = "macos"


@dataclass(frozen=True, slots=True)
class Platform:
    """Operating system and processor, as ``--platform`` states them.

    Args:
        system: The operating system.
        arch: ``x86_64`` or ``aarch64`` on every system (never ``AMD64`` or ``arm64``).
    """

    system: OperatingSystem
    arch: str

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Read ``linux-x86_64``, ``windows-x86_64``, ``macos-aarch64``.

        Raises:
            ValueError: The text names another system or processor.
        """
        system, _, arch = text.strip().lower().partition("-")
        arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
        names = {"darwin": "macos", "win32": "windows", "win": "windows"}
        system = names.get(system, system)
        if system not in {s.value for s in OperatingSystem} or arch not in {"x86_64", "aarch64"}:
            raise ValueError(f"{text!r} is not a platform such as linux-x86_64")
        return cls(OperatingSystem(system), arch)

    def __str__(self) -> str:
        return f"{self.system.value}-{self.arch}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says about one fact; several may disagree, and that is evidence.

    Args:
        fact: Name of the fact, e.g. ``driver.version``.
        value: As the source prints it.
        probe: The source: ``nvml``, ``libcuda``, ``sysfs``, ``procfs``, ``nvidia-smi`` ...
    """

    fact: str
    value: str
    probe: str


class ContainerKind(Enum):
    """What kind of container the process runs in."""

    NONE = "none"
    DOCKER = "docker"
    PODMAN = "podman"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"
    LXC = "lxc"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Host:
    """The operating system around the GPUs.

    Args:
        platform: System and processor.
        os_release: For people, e.g. ``Ubuntu 24.04.4 LTS``.
        kernel: Kernel release.
        glibc: Version of the GNU C library; None on musl, macOS and Windows too.
        is_wsl: Runs under the Windows Subsystem for Linux.
        container: Kind of container; None when not known.
        jetson: Board model of an NVIDIA Tegra device, empty when it is none.
    """

    platform: Platform | None = None
    os_release: str | None = None
    kernel: str | None = None
    glibc: Version | None = None
    is_wsl: bool | None = None
    container: ContainerKind | None = None
    jetson: str | None = None


class KernelModule(Enum):
    """Flavour of the loaded NVIDIA kernel module."""

    OPEN = "open"
    PROPRIETARY = "proprietary"


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver.

    Args:
        version: Of the kernel-mode driver.
        cuda: Newest CUDA that the user-mode driver's API supports; not what is installed.
        user_mode_version: Of libcuda / NVML where it differs from the kernel's or is known.
        kernel_module: Flavour of the kernel module.
        is_loaded: The kernel module is loaded; False is *known to be absent*.
        compat_libcuda: Path of a forward-compatibility libcuda that the loader would take.
        nvswitches: How many NVSwitch devices the kernel drives.
        has_fabric_manager: The daemon that sets up NVSwitches runs; None where there are no
            switches, or when not known.
    """

    version: DriverVersion | None = None
    cuda: CudaVersion | None = None
    user_mode_version: DriverVersion | None = None
    kernel_module: KernelModule | None = None
    is_loaded: bool | None = None
    compat_libcuda: str | None = None
    nvswitches: int | None = None
    has_fabric_manager: bool | None = None


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG instance of a GPU."""

    uuid: str
    profile: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Args:
        index: NVML index (PCI order); not the CUDA ordinal.
        name: Product name as the driver prints it.
        capability: Its compute capability.
        memory_bytes: Total device memory.
        uuid: ``GPU-...``.
        pci_bus_id: ``00000000:17:00.0``.
        mig_enabled: MIG mode is on.
        mig_devices: The instances; empty when there are none.
        is_virtual: A vGPU.
        is_visible: Selected by CUDA_VISIBLE_DEVICES; None when not known.
    """

    index: int
    name: str | None = None
    capability: ComputeCapability | None = None
    memory_bytes: int | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    mig_enabled: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    is_virtual: bool | None = None
    is_visible: bool | None = None


@dataclass(frozen=True, slots=True)
class Toolkit:
    """The CUDA toolkit: needed to build extensions, never to run wheels.

    Args:
        nvcc: Release of nvcc.
        nvcc_path: Where nvcc lies.
        cuda_home: The folder that torch's extension builder would use.
        gcc: Version of the host C++ compiler that nvcc would use.
        ninja: Version of ninja.
    """

    nvcc: CudaVersion | None = None
    nvcc_path: str | None = None
    cuda_home: str | None = None
    gcc: Version | None = None
    ninja: Version | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Host-memory limits in bytes; None is not known, or no limit where a field says so.

    Args:
        ram_bytes: Physical memory.
        available_bytes: MemAvailable at the time of reading.
        swap_bytes: Total swap.
        cgroup_bytes: Tightest memory limit of the cgroup ancestry; None is no limit found.
        cgroup_version: 1 or 2.
        shm_bytes: Size of /dev/shm.
        memlock_bytes: RLIMIT_MEMLOCK; None is unlimited or not known.
        address_space_bytes: RLIMIT_AS; None is unlimited or not known.
    """

    ram_bytes: int | None = None
    available_bytes: int | None = None
    swap_bytes: int | None = None
    cgroup_bytes: int | None = None
    cgroup_version: int | None = None
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    address_space_bytes: int | None = None

    @property
    def host_memory_bytes(self) -> int | None:
        """The tightest of physical memory, cgroup and ulimit, or None when none is known."""
        known = [
            n
            for n in (self.ram_bytes, self.cgroup_bytes, self.address_space_bytes)
            if n is not None
        ]
        return min(known, default=None)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as far as it is known.

    Args:
        host: Operating system facts.
        driver: Driver facts.
        gpus: The GPUs in NVML order; None when not known, empty when known to be none.
        toolkit: CUDA toolkit facts.
        limits: Host-memory limits.
        variables: Environment variables that change what CUDA, torch or the loader does.
        readings: Every source's own word on the driver and GPUs.
        library_path_files: CUDA libraries in the folders of LD_LIBRARY_PATH, which the loader
            takes before those of wheels; None when not looked for.
    """

    host: Host = Host()
    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] | None = None
    toolkit: Toolkit = Toolkit()
    limits: Limits = Limits()
    variables: tuple[tuple[str, str], ...] = ()
    readings: tuple[Reading, ...] = ()
    library_path_files: tuple[str, ...] | None = None

    @property
    def selected_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that a process here would use (all whose visibility is not False)."""
        return tuple(gpu for gpu in self.gpus or () if gpu.is_visible is not False)

    def variable(self, name: str) -> str | None:
        """The value of a recorded environment variable, or None."""
        return dict(self.variables).get(name)
