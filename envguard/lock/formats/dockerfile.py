"""The lock as a part of a Dockerfile: everything that it installs stands in it, with hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.lock.formats.requirements import (
    RequirementsStyle,
    heading,
    index_lines,
    requirement_lines,
)
from envguard.lock.pins import glibc_needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.lock.lock_plan import LockPlan, Locks


_END = "REQUIREMENTS"
_FILE = "/tmp/requirements.txt"  # noqa: S108 - in the image, and removed there


def render_dockerfile(locks: Locks, style: RequirementsStyle = RequirementsStyle.URLS) -> str:
    """The lines for after ``FROM``, the same for equal plans.

    Raises:
        InputError: There are several targets, the target is no Linux, or a pin has no sha256.

    Source: https://docs.docker.com/reference/dockerfile/#here-documents
    """
    plan = locks.single("dockerfile")
    if plan.request.target.platform.system.value != "linux":
        raise InputError(
            f"--format dockerfile: images are Linux, not {plan.request.target.platform}"
        )
    return "\n".join(_lines(plan, style)) + "\n"


def _lines(plan: LockPlan, style: RequirementsStyle) -> Iterator[str]:
    target = plan.request.target
    yield "# syntax=docker/dockerfile:1"
    yield from (f"# {line}" for line in heading(plan))
    yield f"# Goes after FROM: an image with Python {target.python_words}{_glibc(plan)}."
    if plan.driver_floor or plan.driver_exact:
        floor = plan.driver_floor or plan.driver_exact
        yield f"# The host needs NVIDIA driver {floor} or newer; no driver belongs into the image."
        yield "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    yield f"COPY <<'{_END}' {_FILE}"
    yield from (line for line in index_lines(plan, style) if not line.startswith("#"))
    yield from requirement_lines(plan, style)
    yield _END
    major, minor = target.python.major, target.python.minor
    yield (
        f'RUN python -c "import sys; sys.exit(sys.version_info[:2] != ({major}, {minor}))" \\\n'
        f" && python -m pip install --no-cache-dir --no-deps --require-hashes -r {_FILE} \\\n"
        f" && rm {_FILE}"
    )


def _glibc(plan: LockPlan) -> str:
    needs = [v for v in (plan.build.glibc, glibc_needed(plan.pins)) if v is not None]
    return f" and glibc {max(needs)} or newer" if needs else ""
