"""The work of ``envguard check``, imported while the children that look at the machine run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions
from envguard.cli.options import is_exact_fit
from envguard.cli.subject import read_subjects
from envguard.cli.tables import load_matrix
from envguard.judge import judge
from envguard.redaction import clean_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envguard.cli.options import MachineOptions, OutputOptions
    from envguard.cli.subject import Subject
    from envguard.facts.report import Report
    from envguard.probe import PendingFacts

_OWN = "this is the interpreter that envguard runs in; --python PATH judges another"


def check_subjects(
    words: Sequence[str],
    *,
    python: str | None,
    source: str | None,
    pending: PendingFacts | None,
    is_deep: bool,
    require_gpu: bool,
    driver_fit: str,
    torch_index: str,
    machine_options: MachineOptions,
    output: OutputOptions,
) -> tuple[Report, ...]:
    """Put the subject together and judge it; several files are judged one after the other.

    Args:
        words: Pins, and files.
        python: ``--python``.
        source: ``--from``.
        pending: This machine, where it is the subject.
        is_deep: Also read compiled files.
        require_gpu: No usable GPU is a failure.
        driver_fit: ``exact`` or ``same-major``.
        torch_index: Template of the PyTorch index.
        machine_options: What is stated.
        output: For ``--matrix``.
    """
    options = CheckOptions(require_gpu=require_gpu, exact_driver=is_exact_fit(driver_fit))
    matrix = load_matrix(output.matrix)
    subjects = read_subjects(
        words,
        source=source,
        python=python,
        options=machine_options,
        matrix=matrix,
        is_deep=is_deep,
        pending=pending,
    )
    is_own = not words and python is None and source is None
    reports = tuple(
        judge(
            found.facts,
            matrix,
            options,
            notes=_notes(found, is_own=is_own),
            torch_index=clean_addresses(torch_index),
        )
        for found in subjects
    )
    if len(reports) == 1:
        return reports
    named = zip(reports, subjects, strict=True)
    return tuple(replace(report, extra={"file": found.file}) for report, found in named)


def _notes(found: Subject, *, is_own: bool) -> tuple[str, ...]:
    environment = found.facts.environment
    lacks_torch = environment is not None and environment.torch is None
    return (*found.notes, _OWN) if is_own and lacks_torch else found.notes
