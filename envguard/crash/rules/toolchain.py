"""What compilers, linkers and ninja say when an extension does not build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.builds import INSTALL_TOOLKIT
from envguard.crash.rules.model import Outcome, WordRule, apply_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Finding

_WORDS = ()


def check_toolchain_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)
