"""Words of the driver's kernel module: which GPUs it takes, and which it could not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Finding

# What the kernel says of a GPU that it leaves alone explains what programs say later.
REFUSED = (
    "kernel-legacy-driver",
    "kernel-open-module-needed",
    "kernel-closed-module-needed",
    "kernel-gpu-not-listed",
    "kernel-other-driver",
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS007",
            "driver-branch-dropped-gpu",
            "the driver no longer supports this GPU and ignores it",
            "The kernel says that the {branch} branch is the last one that supports it: the driver "
            "is too new for the GPU.",
            "install a driver of branch {branch}",
        ),
        ("kernel-legacy-driver",),
    ),
    WordRule(
        Outcome(
            "CRS008",
            "kernel-module-flavour",
            "this GPU needs the open kernel modules, and the proprietary ones are loaded",
            "Blackwell and Grace Hopper are served by the open modules only.",
            "install the open flavour of the same driver (packages that end in -open), and reboot",
        ),
        ("kernel-open-module-needed",),
    ),
    WordRule(
        Outcome(
            "CRS008",
            "kernel-module-flavour",
            "this GPU needs the proprietary kernel modules, and the open ones are loaded",
            "The open modules serve GPUs with a system processor (GSP): Turing and newer. A newer "
            "driver changes nothing, and branches after 580 have dropped the GPUs before Turing.",
            "install the proprietary flavour of this driver, of a branch that still lists the GPU "
            "(580 for Maxwell, Pascal and Volta), and reboot",
        ),
        ("kernel-closed-module-needed",),
    ),
    WordRule(
        Outcome(
            "CRS105",
            "driver-too-old-for-gpu",
            "this driver does not know the GPU",
            "The kernel module found the GPU and its list of products does not hold it: the driver "
            "was released before the GPU.",
            "install a newer driver",
        ),
        ("kernel-gpu-not-listed",),
        unless=("kernel-legacy-driver",),
    ),
    WordRule(
        Outcome(
            "CRS006",
            "no-gpu-visible",
            "another kernel driver holds the GPU",
            "nouveau, or a driver for virtual machines (vfio), took the GPU before NVIDIA's.",
            "keep the other driver from loading (blacklist nouveau), and reboot",
            ("lspci", "-nnk", "-d", "10de:"),
        ),
        ("kernel-other-driver",),
        unless=("kernel-legacy-driver",),
    ),
    WordRule(
        Outcome(
            "CRS106",
            "gpu-init-failed",
            "the kernel module is loaded and could not start the GPU",
            "What failed is in the lines around: firmware (GSP) that is missing or of another "
            "version, a BIOS that assigns no memory window, power, or a defect.",
            "look at the first NVRM line of a boot; reinstall driver and firmware of one version, "
            "and see whether the GPU works in another slot or machine",
            ("journalctl", "-k", "-b", "--grep", "NVRM"),
        ),
        ("kernel-gpu-not-started",),
        unless=(*REFUSED, "xid", "fallen-off", "nvml-mismatch"),
    ),
)


def check_kernel_words(case: Case) -> Iterator[Finding]:
    """Words of the kernel module that name the cause."""
    yield from apply_words(_WORDS, case)
