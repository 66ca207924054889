"""Starts the children that look at the machine; imports nothing that they need not wait for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from envguard.probe.child import Child

if TYPE_CHECKING:
    from envguard.probe.probe_options import ProbeOptions


_WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"  # not on the PATH of services there


# In this order in the CSV; facts/nvidia_smi_text.py reads them.
_SMI_QUERY = "--query-gpu=index,name,uuid,driver_version,compute_cap,memory.total,pci.bus_id"


class SmiChildren(NamedTuple):
    """Two calls at once: only the table states the CUDA version, only the CSV whole names."""

    table: Child
    csv: Child


class StartedProbe(NamedTuple):
    """Children that look at the machine."""

    nvml: Child
    libcuda: Child
    nvidia_smi: SmiChildren | None

    def stop(self) -> None:
        """End the children whose answers were not taken."""
        for child in (self.nvml, self.libcuda, *(self.nvidia_smi or ())):
            child.stop()


def start_machine(options: ProbeOptions) -> StartedProbe:
    """Start asking NVML, libcuda and, with ``all_sources``, nvidia-smi."""
    return StartedProbe(
        nvml=start_nvml(options),
        libcuda=start_libcuda(options),
        nvidia_smi=start_nvidia_smi(options) if options.all_sources else None,
    )


def start_nvml(options: ProbeOptions) -> Child:
    """Start asking NVML, in an interpreter like ours but isolated and without site."""
    return _start_script("_nvml_child.py", [_pynvml_folder()], options)


def start_libcuda(options: ProbeOptions) -> Child:
    """Start asking the user-mode driver.

    ``cuDriverGetVersion`` needs no ``cuInit``, which opens every GPU and can take a second;
    that is done only with ``cuda_init``, or when the library is a forward-compatibility one.
    """
    return _start_script("_libcuda_child.py", ["--init"] if options.cuda_init else [], options)


def _start_script(name: str, words: list[str], options: ProbeOptions) -> Child:
    script = str(Path(__file__).with_name(name))
    argv = [sys.executable, "-I", "-S", script, *words]
    return Child(argv, environ=options.environ, timeout_s=options.timeout_s)


def _pynvml_folder() -> str:
    """Where pynvml lies, found without importing it; empty when it is not installed."""
    from importlib.util import find_spec

    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        return ""
    folder = Path(spec.origin).parent
    return str(folder.parent if spec.submodule_search_locations else folder)


def start_nvidia_smi(options: ProbeOptions) -> SmiChildren | None:
    """Start both calls of nvidia-smi; None when there is none.

    One call takes as long as NVML's own start-up, hundreds of milliseconds on a large machine,
    and says nothing that NVML does not. So ``check`` asks NVML, libcuda and the kernel's files,
    and nvidia-smi only where NVML gave no full answer; ``probe`` asks all of them, because a
    document that is read elsewhere should hold every source's word.
    """
    program = options.which("nvidia-smi")
    if program is None and options.path(_WSL_SMI).exists():
        program = str(options.path(_WSL_SMI))
    if program is None:
        return None
    csv = [program, _SMI_QUERY, "--format=csv,noheader,nounits"]
    return SmiChildren(
        table=Child([program], environ=options.environ, timeout_s=options.timeout_s),
        csv=Child(csv, environ=options.environ, timeout_s=options.timeout_s),
    )
