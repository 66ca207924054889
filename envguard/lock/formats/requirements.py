"""The lock as a requirements file: by address for the torch family, or by index."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.lock.package_index import is_same_index, plain_file, plain_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.lock.lock_plan import LockPlan, Locks
    from envguard.lock.pins import Artifact, Pin


class RequirementsStyle(Enum):
    """How the torch family is named.

    ``URLS`` works with any index and cannot be taken from another one; ``INDEX`` needs both
    indexes at install time.
    """

    URLS = "urls"
    INDEX = "index"


def render_requirements(locks: Locks, style: RequirementsStyle = RequirementsStyle.URLS) -> str:
    """The document as text, the same for equal plans.

    Raises:
        InputError: The style needs a sha256 that the index does not give, or there are several
            targets.
    """
    plan = locks.single("requirements")
    head = (f"# {line}" for line in heading(plan))
    lines = (*index_lines(plan, style), *requirement_lines(plan, style))
    return "\n".join((*head, *lines, *carried_lines(plan))) + "\n"


def carried_lines(plan: LockPlan) -> Iterator[str]:
    """What the request names by address or path: pip refuses such lines beside hashes."""
    if plan.request.passed:
        yield "# Not locked and not judged, from the request; install these after the rest:"
        yield from (f"#   pip install --no-deps {line.text}" for line in plan.request.passed)


def heading(plan: LockPlan) -> Iterator[str]:
    """What the lock is for, without comment marks."""
    target = plan.request.target
    yield (
        f"envguard lock: torch {plan.build.label} for {target.platform}, "
        f"Python {target.python_words}"
    )
    yield f"{plan.why} (matrix {plan.matrix_version})"
    for item in plan.bounds:
        yield f"{item.requirement}: {item.reason}"


def requirement_lines(
    plan: LockPlan, style: RequirementsStyle, *, separator: str = " \\\n    "
) -> Iterator[str]:
    """One requirement for each pin.

    Args:
        plan: The lock.
        style: How the torch family is named.
        separator: Between a requirement and its hashes.

    Raises:
        InputError: A pin has no sha256.
    """
    further = {name for name, _ in plan.request.from_index}
    for pin in plan.pins:
        is_elsewhere = plan.comes_from_torch_index(pin) or pin.name in further
        is_by_url = style is RequirementsStyle.URLS and is_elsewhere
        if is_by_url or not pin.index_url:
            yield _by_url(pin)
        else:
            yield _by_hash(pin, separator)


def index_lines(plan: LockPlan, style: RequirementsStyle) -> Iterator[str]:
    """The default index where it was stated; in the index style every index that is needed."""
    elsewhere = (p.index_url for p in plan.pins if not plan.comes_from_torch_index(p))
    others = sorted({plain_index(url) for url in elsewhere if url})
    stated = plan.request.indexes.default
    others.sort(key=lambda url: stated is None or not is_same_index(url, stated))
    if style is RequirementsStyle.INDEX:
        yield "# for pip; uv also needs --index-strategy unsafe-best-match"
        first, *more = others or [plan.torch_index]
        yield f"--index-url {first}"
        yield from (f"{_option_for(url)} {url}" for url in more)
        if others:
            yield f"--extra-index-url {plan.torch_index}"
    elif stated is not None:
        yield f"--index-url {plain_index(stated)}"


def _option_for(url: str) -> str:
    """A local folder besides the stated indexes is one of uv's find-links."""
    return "--find-links" if url.startswith("file:") else "--extra-index-url"


def _by_url(pin: Pin) -> str:
    artifact = pin.artifacts[0]
    marker = f" ; {pin.marker}" if pin.marker else ""
    return f"{pin.name} @ {plain_file(artifact.url)}#sha256={_sha256(artifact)}{marker}"


def _by_hash(pin: Pin, separator: str) -> str:
    marker = f" ; {pin.marker}" if pin.marker else ""
    hashes = sorted({_sha256(artifact) for artifact in pin.artifacts})
    return separator.join(
        (f"{pin.name}=={pin.version}{marker}", *(f"--hash=sha256:{digest}" for digest in hashes))
    )


def _sha256(artifact: Artifact) -> str:
    digest = artifact.sha256
    if digest is None:
        raise InputError(
            f"{artifact.filename}: the index gives no sha256, which a requirements file needs",
            hint="write a pylock.toml instead",
        )
    return digest
