"""A machine made of files: stub libraries with their scripts, programs, and a system's folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.probe.probe_options import ProbeOptions
from tests.stubs.compile import CUDA, NVML, build_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GIB = 1024**3


@dataclass(frozen=True)
class StubInstance:
    """A MIG instance as NVML would describe it."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    memory: int = 5 * GIB


@dataclass(frozen=True)
class StubGpu:
    """A GPU as NVML would describe it; an empty text or None is left unanswered."""

    name: str = "NVIDIA A100-SXM4-40GB"
    capability: str = "8.0"
    memory: int | None = 40 * GIB
    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    bus: str = "00000000:07:00.0"
    mig: bool | None = None
    instances: tuple[StubInstance, ...] = ()
    virtualization: int = 0
    fabric: str | None = None  # NVML's state and result, e.g. "3:0"
    licensed: bool | None = None


A100 = StubGpu()
T4 = StubGpu(
    "Tesla T4", "7.5", 15 * GIB, "GPU-99999999-8888-7777-6666-555555555555", "00000000:3B:00.0"
)


@dataclass
class StubMachine:
    """Builds a machine in a folder; what is not added is not there.

    Args:
        folder: An empty folder of its own.
        libraries: Where compiled stubs are kept between tests.
    """

    folder: Path
    libraries: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        self.bin.mkdir()
        self.lib.mkdir()
        self.environ |= {"PATH": str(self.bin), "LD_LIBRARY_PATH": str(self.lib)}
        self.without_driver()

    @property
    def root(self) -> Path:
        """Stands for ``/``."""
        return self.folder / "root"

    @property
    def bin(self) -> Path:
        """The only folder on PATH."""
        return self.folder / "bin"

    @property
    def lib(self) -> Path:
        """The folder that the loader searches before the system's."""
        return self.folder / "lib"

    def options(self, *, timeout_s: float = 20.0, **flags: bool) -> ProbeOptions:
        """Options that look at this machine alone."""
        return ProbeOptions(
            root=self.root,
            environ=dict(self.environ),
            timeout_s=timeout_s,
            now="2026-11-29T00:00:00Z",
            **flags,
        )

    def write(self, name: str, text: str) -> Path:
        """Add a system file, e.g. ``/proc/meminfo``."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name: str, script: str) -> Path:
        """Add a shell script to PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def without_driver(self) -> None:
        """NVML says that no driver is loaded, libcuda that it serves no CUDA."""
        self.nvml(do={"nvmlInitWithFlags": "9"})
        self.libcuda(cuda=None)

    def nvml(
        self,
        *gpus: StubGpu,
        driver: str | None = "550.54.15",
        cuda: int | None = 12040,
        do: Mapping[str, str] | None = None,
        without: tuple[str, ...] = (),
    ) -> None:
        """Install NVML.

        Args:
            gpus: In NVML order.
            driver: Driver version.
            cuda: CUDA version as NVML's number.
            do: Function, or ``function:gpu`` -> an NVML code to return, or ``hang``,
                ``segfault``, ``abort``, ``exit``.
            without: Functions that this library lacks.
        """
        lines = [f"{name} {word}" for name, word in (do or {}).items()]
        lines += [f"driver {driver}"] if driver else []
        lines += [f"nvml 12.{driver}"] if driver else []
        lines += [f"cuda {cuda}"] if cuda else []
        lines.append(f"count {len(gpus)}")
        for index, gpu in enumerate(gpus):
            lines += _gpu_lines(index, gpu)
        self._install(NVML, "nvml.c", "ENVGUARD_STUB_NVML", lines, without)

    def libcuda(
        self,
        *gpus: StubGpu,
        cuda: int | None = 12040,
        do: Mapping[str, str] | None = None,
        without: tuple[str, ...] = (),
        release: str = "",
        errors: Mapping[int, str] | None = None,
    ) -> None:
        """Install libcuda.

        Args:
            gpus: In CUDA order.
            cuda: What cuDriverGetVersion says.
            do: Function, or ``load`` -> a CUDA error to return, or ``hang``, ``segfault`` ...
            without: Functions that this library lacks.
            release: The driver release in the name of the real file, as in an installed one.
            errors: Names of CUDA errors.
        """
        lines = [f"{name} {word}" for name, word in (do or {}).items()]
        lines += [f"error{code} {name}" for code, name in (errors or {}).items()]
        lines += [f"cuda {cuda}"] if cuda else []
        lines.append(f"count {len(gpus)}")
        for index, gpu in enumerate(gpus):
            lines += _gpu_lines(index, gpu)
        self._install(CUDA, "cuda.c", "ENVGUARD_STUB_CUDA", lines, without)
        if release:
            link = self.lib / CUDA
            link.rename(self.lib / f"libcuda.so.{release}")
            link.symlink_to(f"libcuda.so.{release}")

    def _install(
        self,
        name: str,
        source: str,
        variable: str,
        lines: Sequence[str],
        without: tuple[str, ...],
    ) -> None:
        variant = "-".join(("all", *without))
        library = build_library(source, self.libraries / variant / name, without=without)
        place = self.lib / name
        place.unlink(missing_ok=True)
        place.hardlink_to(library)
        script = self.folder / f"{name}.txt"
        script.write_text("".join(f"{line}\n" for line in lines))
        self.environ[variable] = str(script)


def _gpu_lines(index: int, gpu: StubGpu) -> list[str]:
    values = {
        "name": gpu.name,
        "capability": gpu.capability,
        "memory": gpu.memory,
        "uuid": gpu.uuid,
        "bus": gpu.bus,
        "mig": None if gpu.mig is None else int(gpu.mig),
        "virtualization": gpu.virtualization,
        "fabric": gpu.fabric,
        "licensed": None if gpu.licensed is None else int(gpu.licensed),
    }
    lines = [
        f"gpu{index}.{key} {value}" for key, value in values.items() if value not in {None, ""}
    ]
    for slot, instance in enumerate(gpu.instances):
        lines.append(f"gpu{index}.mig{slot}.uuid {instance.uuid}")
        lines.append(f"gpu{index}.mig{slot}.name {instance.name}")
        lines.append(f"gpu{index}.mig{slot}.memory {instance.memory}")
    return lines
