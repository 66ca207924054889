"""What to do about a finding, as a command for the subject's package manager."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.environment import Manager
from envguard.facts.findings import Remedy
from envguard.facts.sentences import join_sentences, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from envguard.facts.environment import Environment, TorchBuild
    from envguard.matrix.loader import Matrix


def install_command(
    manager: Manager | None, pins: tuple[str, ...], index_url: str = ""
) -> tuple[str, ...]:
    """The command that installs requirements, for a package manager.

    Args:
        manager: Of the subject; None is taken for pip.
        pins: Requirements.
        index_url: The index to take them from; empty for the configured one. Poetry, PDM and
            conda name indexes in their configuration, so pip does it in their environment.
    """
    index = ("--index-url", index_url) if index_url else ()
    match manager:
        case Manager.UV:
            return ("uv", "pip", "install", *pins, *index)
        case Manager.UV_PROJECT:
            named = ("--index", f"{_index_name(index_url)}={index_url}") if index_url else ()
            return ("uv", "add", *pins, *named)
        case Manager.POETRY if not index_url:
            return ("poetry", "add", *pins)
        case Manager.PDM if not index_url:
            return ("pdm", "add", *pins)
        case Manager.POETRY | Manager.PDM | Manager.CONDA | Manager.PIP | None:
            return ("python", "-m", "pip", "install", *pins, *index)


def _index_name(url: str) -> str:
    """A name for an index: uv ties the packages that it adds to an index that has one."""
    from urllib.parse import urlsplit

    last = re.sub(r"[^A-Za-z0-9]+", "-", urlsplit(url).path.rstrip("/").rpartition("/")[2])
    return f"pytorch-{last}".rstrip("-")


def uninstall_command(manager: Manager | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """The command that removes distributions, for a package manager; empty where none does."""
    match manager:
        case Manager.UV:
            return ("uv", "pip", "uninstall", *names)
        case Manager.UV_PROJECT:
            return ()  # `uv remove` refuses what only another package asks for
        case Manager.POETRY:
            return ("poetry", "remove", *names)
        case Manager.PDM:
            return ("pdm", "remove", *names)
        case Manager.CONDA | Manager.PIP | None:
            return ("python", "-m", "pip", "uninstall", "-y", *names)


def pins_of(wanted: Mapping[str, SpecifierSet]) -> tuple[str, ...]:
    """Requirements as words: ``deepspeed>=0.14.4``."""
    return tuple(f"{name}{_sorted(specifier)}" for name, specifier in sorted(wanted.items()))


def _sorted(specifier: SpecifierSet) -> str:
    """A specifier with its lower bound first: packaging prints it in no order."""
    order = {">": 0, "~": 1, "=": 2, "<": 3, "!": 4}
    return ",".join(sorted(map(str, specifier), key=lambda text: (order[text[0]], text)))


def install_remedy(
    environment: Environment | None, pins: tuple[str, ...], *, index_url: str = "", text: str = ""
) -> Remedy:
    """A remedy that installs requirements.

    Args:
        environment: Whose package manager is used.
        pins: Requirements.
        index_url: Index to take them from; empty for the configured one.
        text: What to say; empty for ``install ...``.
    """
    manager = environment.manager if environment else None
    said = text or join_sentences(
        say("install {pins}", pins=", ".join(pins)),
        say("from {index_url}", index_url=index_url) if index_url else "",
    )
    return Remedy(said, install_command(manager, pins, index_url))


def companion_pin(
    package: str, torch: TorchBuild, matrix: Matrix, template: str
) -> tuple[str, str] | None:
    """The pin of a companion that was released for a torch build, and the index that holds it.

    Args:
        package: Normalised name of the companion.
        torch: The build.
        matrix: The tables.
        template: Address of the PyTorch index, ``{backend}`` to fill in.

    Returns:
        None when no release of it is known to go with this torch.
    """
    if torch.version is None:
        return None
    version = released_for(package, torch.version, matrix)
    if version is None:
        return None
    backend = torch.backend
    is_routed = package in matrix.uv.routed_packages
    if backend is None or torch.version.local is None or not is_routed:
        return f"{package}=={version}", ""
    # With its label: without one, pip is content with the build of another index.
    pin = f"{package}=={version}+{backend.label}"
    return pin, matrix.torch.index_url(backend, template)


def released_for(package: str, torch: Version, matrix: Matrix) -> Version | None:
    """The release of a package that was made for a torch release; None when none is known.

    Args:
        package: Normalised name.
        torch: The release.
        matrix: The tables.
    """
    release = matrix.torch.release(torch)
    if package == "torchvision":
        return release.torchvision[-1] if release and release.torchvision else None
    if package == "torchaudio":
        return release.torchaudio[-1] if release and release.torchaudio else None
    table = matrix.packages(package)
    found = table.versions_admitting("torch", torch) if table else ()
    exact = [r for r in found if any(s.operator == "==" for s in r.requires["torch"])]
    if exact:
        return exact[-1].version
    # An old release with an open bound admits every later torch and goes with none of them.
    newest = table.releases[-1:] if table else ()
    return newest[0].version if newest and newest[0] in found else None
