"""Requirements out of any file that states some, as lines of a requirements file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.sentences import say
from envguard.ingest.lockfile import (
    is_explicit_list,
    is_pixi_project,
    kind_by_name,
    refuse_others,
)
from envguard.ingest.requirements import Statement, read_statements
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
# Build strings of packages that hold Python: py311h..., pyhd8ed1ab_0, py3.10_cuda11.8_cudnn8.
_PYTHON_BUILD = re.compile(r"(?:\w{0,40}_)?py(?:\d|h)")


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
    if is_explicit_list(plain):
        return _of_explicit_list(plain, name)
    match kind_by_name(base):
        case "pylock" | "uv" | "poetry" | "pdm" | "pixi-lock":
            raise InputError(
                f"{name}: is a lock, which holds answers and no requirements",
                hint=f"name the file that it was made from; `envguard check {name}` judges it",
            )
        case "project" | "setup" as kind:
            return _of_project(kind, plain, name, read)
        case "conda":
            return _of_conda(plain, name, read)
        case "pixi":
            return _of_pixi(plain, name)
        case "lines":
            from envguard.ingest.install_lines import install_statements

            return RequestFile(install_statements(plain, name, read))
        case _:
            return RequestFile(tuple(read_statements(plain, name, read)))


def _of_project(kind: str, text: str, name: str, read: Read | None) -> RequestFile:
    from envguard.ingest.pyproject import read_pyproject, read_setup_cfg

    project = (read_pyproject if kind == "project" else read_setup_cfg)(text, name, read)
    if kind == "project" and not project.statements and is_pixi_project(text):
        return _of_pixi(text, name)
    notes = tuple(gap.detail for gap in project.gaps)
    return RequestFile(project.statements, notes, project.requires_python)


def _of_conda(text: str, name: str, read: Read | None) -> RequestFile:
    from envguard.ingest.conda_env import pip_statements, read_environment_yml

    specs, lines = read_environment_yml(text, name)
    return _in_form_of_pip(specs, pip_statements(lines, name, read), name)


def _of_pixi(text: str, name: str) -> RequestFile:
    from envguard.ingest.conda_env import read_pixi

    found = read_pixi(text, name)
    asked = _in_form_of_pip(found.specs, found.statements, name)
    if not found.left_out:
        return asked
    left = say(
        "{file}: what is asked for on single platforms only is left out: {tables}",
        file=name,
        tables=", ".join(found.left_out),
    )
    return RequestFile(asked.statements, (*asked.notes, left), asked.requires_python)


def _of_explicit_list(text: str, name: str) -> RequestFile:
    """The Python packages of an explicit list, which its build strings tell from the others."""
    from envguard.ingest.conda_env import read_explicit_list

    specs = read_explicit_list(text, name)
    kept = [spec for spec in specs if _PYTHON_BUILD.match(spec.build) or spec.name == "python"]
    return _in_form_of_pip(kept, (), name)


def _in_form_of_pip(
    specs: list[CondaSpec], statements: Iterable[Statement], name: str
) -> RequestFile:
    """What conda installs as pip knows it; its Python becomes the bound on the target's."""
    left = sorted({spec.name for spec in specs if spec.name in _NOT_FOR_PIP})
    notes = [say("{file} is conda's: what it asks for is locked in the form of pip", file=name)]
    if left:
        notes.append(say("left out, because pip has none: {packages}", packages=", ".join(left)))
    python = next((spec for spec in specs if spec.name == "python"), None)
    return RequestFile(
        (*_as_pip(specs, name), *statements),
        tuple(notes),
        _python_bound(python) if python is not None else "",
    )


def _python_bound(spec: CondaSpec) -> str:
    if spec.version is None:
        return str(spec.bound)
    return f"=={spec.version.major}.{spec.version.minor}.*"


def _as_pip(specs: list[CondaSpec], name: str) -> Iterator[Statement]:
    for spec in specs:
        if spec.name in _NOT_FOR_PIP or spec.name.startswith("_"):
            continue
        bound = f"=={spec.version}" if spec.version else str(spec.bound)
        yield Statement(f"{spec.name}{bound}", f"{name}:{spec.line}", spec.line)
