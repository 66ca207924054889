"""The lock as ``environment.yml`` for conda: Python from conda, everything else from pip."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from envguard.lock.formats.requirements import (
    RequirementsStyle,
    heading,
    index_lines,
    requirement_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.lock.lock_plan import LockPlan, Locks


def render_environment(locks: Locks, style: RequirementsStyle = RequirementsStyle.URLS) -> str:
    """The document as text, the same for equal plans.

    Every text is written as a JSON string, which is YAML too: no value can be taken for
    something else.

    Raises:
        InputError: There are several targets, or a pin has no sha256.

    Source: https://docs.conda.io/projects/conda/en/latest/user-guide/tasks/manage-environments.html
    """
    plan = locks.single("environment")
    return "\n".join((*(f"# {line}" for line in heading(plan)), *_lines(plan, style))) + "\n"


def _lines(plan: LockPlan, style: RequirementsStyle) -> Iterator[str]:
    target = plan.request.target
    yield f"name: {json.dumps(f'torch-{plan.build.backend.label}')}"
    yield "channels:"
    yield '  - "conda-forge"'
    yield "dependencies:"
    yield f"  - {json.dumps(f'python={target.python}.*')}"
    if target.is_free_threaded:
        yield '  - "python-freethreading"'
    yield '  - "pip"'
    yield "  - pip:"
    options = (line for line in index_lines(plan, style) if not line.startswith("#"))
    for line in (*options, *requirement_lines(plan, style, separator=" ")):
        yield f"      - {json.dumps(line)}"
