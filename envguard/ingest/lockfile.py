"""Lockfiles and requirements files as subjects: told apart by name and content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.environment import Environment
from envguard.facts.gaps import Gap
from envguard.ingest.lock_choose import choose_entries
from envguard.ingest.lock_entry import Locked, LockfileTarget, check_counts
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.ingest.requirements import Read


_PYLOCK = re.compile(r"pylock(?:\.[^.]+)?\.toml")
_CONDA = re.compile(r"(?:environment|conda-lock|.*conda.*)\.(?:ya?ml|lock)", re.IGNORECASE)
_LOOKS_LIKE = re.compile(r".+\.(?:toml|txt|lock|in|ya?ml)", re.IGNORECASE)
EXPECTED = (
    "envguard reads pylock.toml, uv.lock, poetry.lock, pdm.lock and requirements files (*.txt)"
)
_NOT_YET = {
    "pipfile.lock": "Pipenv's lockfiles",
    "pixi.lock": "pixi's lockfiles",
    "environment.yml": "conda environment files",
}


def looks_like_lockfile(word: str) -> bool:
    """Whether a word names a lockfile by its ending rather than a pin."""
    return "==" not in word and "://" not in word and bool(_LOOKS_LIKE.fullmatch(word))


def refuse_others(name: str, base: str) -> None:
    """Refuse files that are known and not read.

    Args:
        name: Path as given, for the message.
        base: Its last part, in lower case.

    Raises:
        InputError: It is one of them.
    """
    what = _NOT_YET.get(base) or ("conda files" if _CONDA.fullmatch(base) else None)
    if what is not None:
        raise InputError(f"{name}: {what} are not read yet", hint=EXPECTED)
    if base == "pyproject.toml":
        hint = "name its lockfile, or `envguard lock` it first"
        raise InputError(f"{name}: states wishes, not pins", hint=hint)


def kind_by_name(base: str) -> str:
    """The format that a file's name tells; empty where the content has to."""
    names = {"uv.lock": "uv", "poetry.lock": "poetry", "pdm.lock": "pdm"}
    return "pylock" if _PYLOCK.fullmatch(base) else names.get(base, "")


MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Lockfile:
    """What a lockfile says for a target.

    Args:
        environment: Its pins, the torch build, and what envguard wrote into it.
        gaps: What it leaves open.
    """

    environment: Environment
    gaps: tuple[Gap, ...]


def load_lockfile(
    name: str, text: str, *, target: LockfileTarget | None = None, read: Read | None = None
) -> Lockfile:
    """Read a lockfile for a target.

    Args:
        name: Path as given; its last part tells the format, else the content does.
        text: The whole file.
        target: Where it shall be installed; None is not known.
        read: Gives the files that a requirements file includes; None leaves them out.

    Returns:
        The environment that it locks there. Each distribution carries its line.

    Raises:
        InputError: A format that is not read, or a file that is not what its name says; the
            message names file and place.
    """
    if len(text) > MAX_BYTES:
        raise InputError(f"{name}: larger than {MAX_BYTES // 1024**2} MiB")
    wanted = target or LockfileTarget()
    locked = _read(name, text.lstrip("\ufeff"), wanted, read)
    check_counts(locked.entries, name)
    environment, gaps = choose_entries(locked, wanted, name)
    return Lockfile(environment, gaps)


def _read(name: str, text: str, target: LockfileTarget, read: Read | None) -> Locked:
    base = re.split(r"[/\\]", name)[-1].lower()
    refuse_others(name, base)
    if base.endswith((".txt", ".in")):
        from envguard.ingest.requirements import parse_requirements

        return parse_requirements(text, name, read)
    match kind_by_name(base) or _kind_by_content(text, name):
        case "pylock":
            from envguard.ingest.lock_pylock import parse_pylock

            return parse_pylock(text, name)
        case "uv":
            from envguard.ingest.lock_uv import parse_uv_lock

            return parse_uv_lock(text, name)
        case "poetry":
            from envguard.ingest.lock_poetry import parse_poetry_lock

            return parse_poetry_lock(text, name)
        case "pdm":
            from envguard.ingest.lock_pdm import parse_pdm_lock

            return parse_pdm_lock(text, name)
        case _:
            raise InputError(f"{name}: not a lockfile that is understood", hint=EXPECTED)


def _kind_by_content(text: str, name: str) -> str:
    """TOML of another name: each format has a key of its own."""
    from envguard.ingest.lock_toml import parse_toml

    document = parse_toml(text, name)
    metadata = document.get("metadata")
    keys = metadata.keys() if isinstance(metadata, dict) else set()
    if "lock-version" in document:
        return "pylock"
    if "lock_version" in keys:
        return "pdm"
    if keys & {"lock-version", "content-hash"}:
        return "poetry"
    return "uv" if "version" in document and "requires-python" in document else ""
