"""Requirements out of any file that states some, as lines of a requirements file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.sentences import say
from envguard.ingest.lockfile import looks_like_dockerfile, refuse_others
from envguard.ingest.requirements import Statement, read_statements
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.ingest.conda_env import CondaSpec
    from envguard.ingest.requirements import Read

# Conda's packages that have another meaning, or none, for pip.
_NOT_FOR_PIP = frozenset(
    {
        "python",
        "pip",
        "cudatoolkit",
        "pytorch-cuda",
        "cuda-version",
        "cuda",
        "cuda-toolkit",
        "cuda-nvcc",
        "cpuonly",
        "pytorch-mutex",
        "cudnn",
        "nccl",
        "mkl",
        "gcc",
        "gxx",
        "cxx-compiler",
        "c-compiler",
        "git",
        "git-lfs",
        "ffmpeg",
    }
)


@dataclass(frozen=True, slots=True)
class RequestFile:
    """What a file asks for.

    Args:
        statements: As a requirements file would say it; extras and groups with their choice.
        notes: What was changed or left out on the way, as sentences.
        requires_python: Specifier text, or empty.
    """

    statements: tuple[Statement, ...]
    notes: tuple[str, ...] = ()
    requires_python: str = ""


def read_request_file(text: str, name: str, read: Read | None = None) -> RequestFile:
    """Read requirements, whatever kind of file states them.

    Args:
        text: The whole file.
        name: Its path; the last part tells the format.
        read: Gives the files that it includes; None leaves them out.

    Returns:
        The statements of requirements files (also of pyproject.toml, setup.cfg, Dockerfiles and
        shell scripts); conda's packages in the form that pip knows them by, which a note says.

    Raises:
        InputError: It is none of these; the message names file and line.
    """
    base = re.split(r"[/\\]", name)[-1].lower()
    refuse_others(name, base)
    plain = text.lstrip("\ufeff")
    if base == "pyproject.toml":
        from envguard.ingest.pyproject import read_pyproject

        project = read_pyproject(plain, name, read)
        return RequestFile(project.statements, (), project.requires_python)
    if base == "setup.cfg":
        from envguard.ingest.pyproject import read_setup_cfg

        project = read_setup_cfg(plain, name, read)
        return RequestFile(project.statements, (), project.requires_python)
    if base.endswith((".yml", ".yaml")):
        return _of_conda(plain, name, read)
    if looks_like_dockerfile(base) or base.endswith((".sh", ".bash")):
        from envguard.ingest.install_lines import install_statements

        return RequestFile(install_statements(plain, name, read))
    return RequestFile(tuple(read_statements(plain, name, read)))


def _of_conda(text: str, name: str, read: Read | None) -> RequestFile:
    from envguard.ingest.conda_env import read_environment_yml

    specs, lines = read_environment_yml(text, name)
    left = sorted({spec.name for spec in specs if spec.name in _NOT_FOR_PIP})
    notes = [say("{file} is conda's: what it asks for is locked in the form of pip", file=name)]
    if left:
        notes.append(say("left out, because pip has none: {packages}", packages=", ".join(left)))
    pip = [said for line in lines for said in read_statements(line, f"{name}:{line.line}", read)]
    return RequestFile((*_as_pip(specs, name), *pip), tuple(notes))


def _as_pip(specs: list[CondaSpec], name: str) -> Iterator[Statement]:
    for spec in specs:
        if spec.name in _NOT_FOR_PIP or spec.name.startswith("_"):
            continue
        bound = f"=={spec.version}" if spec.version else str(spec.bound)
        yield Statement(f"{spec.name}{bound}", f"{name}:{spec.line}", spec.line)
