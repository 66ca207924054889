"""The links family: extension modules that the loader would refuse, before anything is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.checks.context import CheckOptions
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


def check_modules_link(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Extension modules of an environment whose compiled files were read."""
    compiled = facts.compiled
    if compiled is None:
        return
    if compiled.checked and not compiled.links:
        plural = "" if compiled.checked == 1 else "s"
        yield Finding(
            code="LNK000",
            cause="modules-link",
            status=Status.OK,
            title=f"{compiled.checked} extension module{plural} would find what they need",
        )
    from envguard.checks.link_faults import find_link_faults

    yield from find_link_faults(facts, compiled)


def check_shadowed_libraries(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """Libraries of the system in front of those that the wheels bring."""
    if facts.compiled is None:
        return
    from envguard.checks.link_faults import find_shadowed_libraries

    yield from find_shadowed_libraries(facts.compiled)
