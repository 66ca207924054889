"""The names of lockfiles: which words name one, and what a name tells of the format."""

from __future__ import annotations

import re

from envguard.errors import InputError

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
