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
_WORDS = ()


def check_kernel_words(case: Case) -> Iterator[Finding]:
    """Words of the kernel module that name the cause."""
    yield from apply_words(_WORDS, case)
