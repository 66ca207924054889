"""The host that a ``collect_env`` report describes: system, processor, kernel, C library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Host, OperatingSystem, Platform
from envguard.ingest.part import version_or_none

if TYPE_CHECKING:
    from packaging.version import Version

    from envguard.facts.environment import TorchBuild
    from envguard.ingest.collect_env_fields import Block

SOURCE = "collect_env"
_UNKNOWN = frozenset({"", "N/A", "Could not collect", "None"})
_GLIBC = re.compile(r"glibc-?([0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)")
_IN_BRACKETS = re.compile(r" ?\(([A-Za-z0-9_]{2,12})\)$")
_ARCHITECTURES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "x64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
}
_ARCHITECTURE_WORD = re.compile(r"\b(x86_64|AMD64|x64|aarch64|ARM64|arm64)\b")
_SYSTEMS = (
    ("windows", OperatingSystem.WINDOWS),
    ("macos", OperatingSystem.MACOS),
    ("mac os", OperatingSystem.MACOS),
    ("darwin", OperatingSystem.MACOS),
    ("linux", OperatingSystem.LINUX),
)
# From these versions on Python asks the C library itself; before, it reads the newest symbol
# version that its own executable needs, which is only a lower bound.
# Source: CPython's platform.libc_ver (3.8) and platform.platform (3.9).
_TRUE_LIBC_VER = (3, 8)
_TRUE_PLATFORM = (3, 9)
# Until this release CUDA builds of the PyTorch index were for x86_64 only.
_FIRST_AARCH64_CUDA = (2, 4)


def host_of(
    block: Block, python: Version | None, torch: TorchBuild | None
) -> tuple[Host, tuple[Gap, ...]]:
    """The host of a report.

    Args:
        block: The report's fields.
        python: Its Python version, which decides what its glibc figures mean.
        torch: Its torch build; a labelled CUDA build tells the processor where nothing else does.
    """
    os_text, platform_text = block.text("os"), block.text("platform")
    system = _system(os_text, platform_text)
    arch = _arch(block) or _arch_of_build(system, torch)
    kernel = _kernel(platform_text)
    glibc, glibc_gaps = _glibc(block, system, python)
    host = Host(
        platform=Platform(system, arch) if system and arch else None,
        os_release=_release(os_text),
        kernel=kernel,
        glibc=glibc,
        is_wsl=_is_wsl(os_text, kernel),
        jetson="NVIDIA Tegra" if _is_tegra(block, kernel) else None,
    )
    gaps = glibc_gaps
    if host.platform is None:
        said = f"{os_text or 'no OS line'}; {platform_text or 'no platform line'}"
        detail = f"system and processor are not both stated ({said})"[:200]
        gaps = (*gaps, Gap("machine.host.platform", GapReason.UNREADABLE, SOURCE, detail))
    return host, gaps


def _system(*texts: str) -> OperatingSystem | None:
    for text in reversed(texts):  # the platform line names the system, the OS line a product
        low = text.lower()
        for word, system in _SYSTEMS:
            if word in low:
                return system
    known = [text for text in texts if text not in _UNKNOWN]
    return OperatingSystem.LINUX if known and _looks_like_linux(known[0]) else None


def _looks_like_linux(text: str) -> bool:
    words = ("ubuntu", "debian", "centos", "red hat", "rocky", "fedora", "suse", "alma", "arch")
    return any(word in text.lower() for word in words)


def _arch(block: Block) -> str | None:
    """The processor, from whichever line states it."""
    places = (
        block.text("os"),
        block.text("platform").replace("-", " "),
        block.text("architecture"),
        block.text("python"),  # Windows: [MSC v.1943 64 bit (AMD64)]
    )
    for place in places:
        if match := _ARCHITECTURE_WORD.search(place):
            return _ARCHITECTURES[match[1].lower()]
    return None


def _arch_of_build(system: OperatingSystem | None, torch: TorchBuild | None) -> str | None:
    """Old reports name no processor; a CUDA build with a label was made for few."""
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.version is None:
        return None
    if system is OperatingSystem.WINDOWS:
        return "x86_64"
    is_labelled = (torch.version.local or "").startswith("cu")
    is_old = torch.version.release < _FIRST_AARCH64_CUDA
    return "x86_64" if system is OperatingSystem.LINUX and is_labelled and is_old else None


def _is_wsl(os_text: str, kernel: str | None) -> bool | None:
    if "wsl" in os_text.lower() or (kernel and "microsoft" in kernel.lower()):
        return True
    return False if kernel else None


def _is_tegra(block: Block, kernel: str | None) -> bool:
    """Whether the kernel says so, or the GPU, which has another driver there."""
    gpus = " ".join(block.fields.get("gpus", [])[:4]).lower()
    return "tegra" in (kernel or "").lower() or "(nvgpu)" in gpus or "tegra" in gpus


def _release(text: str) -> str | None:
    """``Ubuntu 22.04.4 LTS (x86_64)`` without the processor."""
    if text in _UNKNOWN:
        return None
    match = _IN_BRACKETS.search(text)
    if match and match[1].lower() in {*_ARCHITECTURES, "ppc64le"}:
        return text[: match.start()].strip() or None
    return text


def _kernel(text: str) -> str | None:
    """The kernel in ``Linux-5.15.0-1037-aws-x86_64-with-glibc2.31``; None where it is left out."""
    if not text.startswith("Linux-"):
        return None
    head = text.partition("-with-")[0].removeprefix("Linux-")
    kernel, dash, _ = head.rpartition("-")
    return kernel if dash and kernel[:1].isdigit() else None


def _glibc(
    block: Block, system: OperatingSystem | None, python: Version | None
) -> tuple[Version | None, tuple[Gap, ...]]:
    """The C library's version, where the figure means what it says."""
    if system is not OperatingSystem.LINUX:
        return None, ()
    release = python.release[:2] if python else (0, 0)
    found = ""
    for name, first in (("libc", _TRUE_LIBC_VER), ("platform", _TRUE_PLATFORM)):
        match = _GLIBC.search(block.text(name))
        if match and release >= first:
            return version_or_none(match[1]), ()
        found = found or (match[1] if match else "")
    reason, detail = GapReason.ABSENT, "the report does not state it"
    if "musl" in block.text("platform"):
        detail = "the system's C library is musl"
    elif found:
        reason = GapReason.UNREADABLE
        detail = f"{found} is what the interpreter was linked for; the system's may be newer"
    return None, (Gap("machine.host.glibc", reason, SOURCE, detail),)
