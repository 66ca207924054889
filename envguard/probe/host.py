"""The operating system around the GPUs: platform, C library, container, WSL, Jetson."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import ContainerKind, Host, Platform

if TYPE_CHECKING:
    from envguard.probe.probe_options import ProbeOptions

_SYSTEMS = {"linux": "linux", "win32": "windows", "darwin": "macos"}


def probe_host(options: ProbeOptions) -> tuple[Host, tuple[Gap, ...]]:
    """Describe the host; what this kind of system does not have is False or None without gap."""
    platform, gaps = _platform(options)
    if sys.platform != "linux":
        host = Host(platform=platform, os_release=_foreign_release(), is_wsl=False)
        return host, gaps
    host = Host(
        platform=platform,
        os_release=_os_release(options),
        kernel=_kernel(options),
        glibc=_glibc(),
        is_wsl=is_wsl(options),
        container=probe_container(options),
        jetson=_jetson(options),
    )
    if host.glibc is None:
        detail = "this system's C library is not glibc (musl, for instance)"
        gaps = (*gaps, Gap("machine.host.glibc", GapReason.ABSENT, "host", detail))
    if host.os_release is None:
        detail = "/etc/os-release holds no PRETTY_NAME"
        gaps = (*gaps, Gap("machine.host.os_release", GapReason.ABSENT, "host", detail))
    return host, gaps


def running_platform(environ_arch: str | None = None) -> Platform:
    """The platform of the running interpreter's machine.

    Args:
        environ_arch: ``PROCESSOR_ARCHITECTURE``, used on Windows only.

    Raises:
        ValueError: Torch is not built for this system or processor.
    """
    system = _SYSTEMS.get(sys.platform, sys.platform)
    arch = (environ_arch or "") if sys.platform == "win32" else os.uname().machine
    return Platform.parse(f"{system}-{arch}")


def _platform(options: ProbeOptions) -> tuple[Platform | None, tuple[Gap, ...]]:
    try:
        return running_platform(options.environ.get("PROCESSOR_ARCHITECTURE")), ()
    except ValueError as err:
        return None, (Gap("machine.host.platform", GapReason.ABSENT, "host", str(err)),)


def _foreign_release() -> str:
    import platform

    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return f"{platform.system()} {platform.release()}"


def _kernel(options: ProbeOptions) -> str:
    text = options.read_or_none("/proc/sys/kernel/osrelease") or ""
    return text.strip() or os.uname().release


def _os_release(options: ProbeOptions) -> str | None:
    for name in ("/etc/os-release", "/usr/lib/os-release"):
        for line in (options.read_or_none(name) or "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "PRETTY_NAME":
                return value.strip().strip("\"'") or None
    return None


def _glibc() -> Version | None:
    """The C library that this process runs on; None on musl."""
    try:
        words = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
        return Version(words[1]) if words[:1] == ["glibc"] else None
    except (ValueError, OSError, InvalidVersion, IndexError):
        return None


def is_wsl(options: ProbeOptions) -> bool:
    """Whether this is the Windows Subsystem for Linux: its kernel says so, or it has a dxg."""
    version = options.read_or_none("/proc/version") or ""
    return "microsoft" in version.lower() or options.path("/dev/dxg").exists()


def probe_container(options: ProbeOptions) -> ContainerKind:
    """The kind of container, from the marks that each runtime leaves.

    Source: the marker files and variables that docker, podman, kubelet, apptainer and
    systemd-nspawn's container interface document.
    """
    environ = options.environ
    if "APPTAINER_CONTAINER" in environ or "SINGULARITY_CONTAINER" in environ:
        return ContainerKind.APPTAINER
    marks = (
        ("/.singularity.d", ContainerKind.APPTAINER),
        ("/run/secrets/kubernetes.io", ContainerKind.KUBERNETES),
        ("/var/run/secrets/kubernetes.io", ContainerKind.KUBERNETES),
        ("/run/.containerenv", ContainerKind.PODMAN),
        ("/.dockerenv", ContainerKind.DOCKER),
    )
    if "KUBERNETES_SERVICE_HOST" in environ:
        return ContainerKind.KUBERNETES
    for mark, kind in marks:
        if options.path(mark).exists():
            return kind
    return _named_container(options)


def _named_container(options: ProbeOptions) -> ContainerKind:
    words = options.read_or_none("/run/systemd/container") or options.environ.get("container", "")
    paths = options.read_or_none("/proc/1/cgroup") or ""
    names = {
        "kubepods": ContainerKind.KUBERNETES,
        "docker": ContainerKind.DOCKER,
        "podman": ContainerKind.PODMAN,
        "libpod": ContainerKind.PODMAN,
        "lxc": ContainerKind.LXC,
    }
    for name, kind in names.items():
        if name in words or f"/{name}" in paths:
            return kind
    return ContainerKind.OTHER if words.strip() else ContainerKind.NONE


def _jetson(options: ProbeOptions) -> str:
    """The board model of a Tegra device; empty when it is none."""
    model = (options.read_or_none("/proc/device-tree/model") or "").strip("\0 \n")
    is_tegra = options.path("/etc/nv_tegra_release").exists()
    if is_tegra or ("NVIDIA" in model and "Jetson" in model):
        return model or "NVIDIA Tegra"
    return ""
