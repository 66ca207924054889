"""Lockfiles and requirements files as subjects: told apart by name and content."""

from __future__ import annotations

import re
from dataclasses import replace
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
_LOOKS_LIKE = re.compile(
    r".+\.(?:toml|txt|lock|in|ya?ml|sh|bash|cfg|py|dockerfile|containerfile)"
    r"|(?:.*[/\\])?(?:Dockerfile|Containerfile)(?:\.[\w.-]{1,60})?",
    re.IGNORECASE,
)
EXPECTED = (
    "envguard reads pylock.toml, uv.lock, poetry.lock, pdm.lock, pixi.lock, requirements files "
    "(*.txt), pyproject.toml, setup.cfg, environment.yml, conda's explicit lists, pixi.toml, "
    "Dockerfiles and shell scripts"
)
SETUP_PY_HINT = (
    "name pyproject.toml, a requirements file or a lock, or check the environment after the "
    "installation: `envguard check --python .venv/bin/python`"
)
_NOT_YET = {"pipfile.lock": "Pipenv's lockfiles", "pipfile": "Pipenv's files"}


def looks_like_lockfile(word: str) -> bool:
    """Whether a word names a lockfile by its ending rather than a pin."""
    return "==" not in word and "://" not in word and bool(_LOOKS_LIKE.fullmatch(word))


def looks_like_dockerfile(base: str) -> bool:
    """Whether a file's name, in lower case, is one of a Dockerfile or Containerfile."""
    names = ("dockerfile", "containerfile")
    return base.startswith(names) or base.endswith(tuple(f".{name}" for name in names))


def refuse_others(name: str, base: str) -> None:
    """Refuse files that are known and not read.

    Args:
        name: Path as given, for the message.
        base: Its last part, in lower case.

    Raises:
        InputError: It is one of them.
    """
    if what := _NOT_YET.get(base):
        raise InputError(f"{name}: {what} are not read yet", hint=EXPECTED)
    if "conda-lock" in base:
        hint = "`conda-lock render --kind explicit` writes lists that are read"
        raise InputError(f"{name}: conda-lock's own format is not read", hint=hint)
    if base == "setup.py":
        raise InputError(f"{name}: setup.py is not run", hint=SETUP_PY_HINT)


def kind_by_name(base: str) -> str:
    """The format that a file's name tells; empty where the content has to."""
    if _PYLOCK.fullmatch(base):
        return "pylock"
    if base.endswith((".yml", ".yaml")):
        return "conda"
    if base.endswith((".sh", ".bash")) or looks_like_dockerfile(base):
        return "lines"
    return _NAMES.get(base, "")


_NAMES = {
    "uv.lock": "uv",
    "poetry.lock": "poetry",
    "pdm.lock": "pdm",
    "pixi.lock": "pixi-lock",
    "pixi.toml": "pixi",
    "pyproject.toml": "project",
    "setup.cfg": "setup",
}
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
    if base.endswith((".txt", ".in")) or is_explicit_list(text):
        return _read_list(text, name, read)
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
        case "conda" | "pixi" | "pixi-lock" as kind:
            return _read_conda(kind, text, name, target, read)
        case "project" | "setup" | "lines" as kind:
            return _read_project(kind, text, name, target, read)
        case _:
            raise InputError(f"{name}: not a lockfile that is understood", hint=EXPECTED)


def _read_list(text: str, name: str, read: Read | None) -> Locked:
    if is_explicit_list(text):
        from envguard.ingest.conda_env import parse_explicit_list

        return parse_explicit_list(text, name)
    from envguard.ingest.requirements import parse_requirements

    return parse_requirements(text, name, read)


def is_explicit_list(text: str) -> bool:
    """Whether a text is what ``conda list --explicit`` prints."""
    return any(line.strip() == "@EXPLICIT" for line in text[:20_000].splitlines())


def _read_conda(
    kind: str, text: str, name: str, target: LockfileTarget, read: Read | None
) -> Locked:
    from envguard.ingest.conda_env import parse_environment_yml, parse_pixi_lock, parse_pixi_toml

    if kind == "conda":
        return parse_environment_yml(text, name, read)
    parse = parse_pixi_toml if kind == "pixi" else parse_pixi_lock
    return parse(text, name, target)


def _read_project(
    kind: str, text: str, name: str, target: LockfileTarget, read: Read | None
) -> Locked:
    if kind == "lines":
        from envguard.ingest.install_lines import parse_install_lines

        return parse_install_lines(text, name, read)
    from envguard.ingest.pyproject import read_pyproject, read_setup_cfg
    from envguard.ingest.requirements import locked_of

    project = (read_pyproject if kind == "project" else read_setup_cfg)(text, name, read)
    if not project.statements and kind == "project" and is_pixi_project(text):
        from envguard.ingest.conda_env import parse_pixi_toml

        return parse_pixi_toml(text, name, target)
    locked = locked_of(project.statements, project.manager)
    return replace(
        locked,
        requires_python=project.requires_python,
        markers=project.markers,
        gaps=(*project.gaps, *locked.gaps),
    )


_PIXI = re.compile(r"^\[tool\.pixi\.", re.MULTILINE)


def is_pixi_project(text: str) -> bool:
    """Whether a ``pyproject.toml`` holds tables of pixi's."""
    return _PIXI.search(text) is not None


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
