"""The install family: is the torch that imports take the one that the metadata describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard._version import DISTRIBUTION
from envguard.checks.context import CheckOptions, gap_evidence, torch_evidence
from envguard.checks.remedies import install_command, uninstall_command
from envguard.facts.environment import BuildOrigin, Manager
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from envguard.facts.environment import Distribution, Environment, TorchBuild
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix

_IMPORTED = frozenset({BuildOrigin.VERSION_FILE, BuildOrigin.REPORT})
_OWN_MODULE_BEFORE = 12  # until then the pynvml distribution brought a module of its own


def check_torch_is_one(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The torch package that imports take against the distributions that call themselves torch."""
    environment = facts.environment
    torch = environment.torch if environment else None
    if environment is None or torch is None or torch.origin not in _IMPORTED:
        return
    listed = [
        d for d in environment.distributions or () if d.name in {"torch", "pytorch"} and d.version
    ]
    if torch.version is None or not listed or any(d.is_editable for d in listed):
        return
    strangers = [d for d in listed if not _describes(d, torch)]
    if not strangers:
        return
    if len(strangers) == len(listed):
        yield _shadowed(environment, torch, strangers)
    else:
        yield _second_copy(environment, torch, strangers)


def _describes(distribution: Distribution, torch: TorchBuild) -> bool:
    """Whether metadata can be those of a build; PyPI's carry no label.

    A build that calls itself ``2.9.0a0+git1a2b3c`` has the metadata that its maker gave it.
    """
    said, found = distribution.version, torch.version
    if said is None or found is None or said == found:
        return True
    if said.public != found.public:
        return False
    return said.local is None or found.local is None


def _is_same_place(distribution: Distribution, torch: TorchBuild) -> bool | None:
    """Whether the metadata lie beside the package that imports take; None when not known."""
    if torch.location is None or distribution.location is None:
        return None
    place = distribution.location.rstrip("/\\")
    return torch.location.startswith((f"{place}/", f"{place}\\"))


def _copy_words(distribution: Distribution, torch: TorchBuild) -> str:
    """How there came to be two."""
    mixed = "Files of two installations are mixed in one folder"
    earlier = "Another copy stands earlier on sys.path (user site, PYTHONPATH, conda under pip)"
    match _is_same_place(distribution, torch):
        case True:
            return mixed
        case False:
            return earlier
        case None:
            return say(
                "{reason}, or files of two installations are mixed in one folder", reason=earlier
            )


def _public(version: Version | None) -> str | None:
    return version.public if version is not None else None


def _shadowed(environment: Environment, torch: TorchBuild, listed: list[Distribution]) -> Finding:
    said = listed[0]
    is_overwritten = _public(said.version) == _public(torch.version) or _is_same_place(said, torch)
    where = say(" from {folder}", folder=torch.location) if torch.location else ""
    return Finding(
        code="INS002" if is_overwritten else "INS001",
        cause="wrong-install-active" if is_overwritten else "shadowed-install",
        status=Status.FAIL,
        title=say(
            "imports take torch {version}{where}, the metadata say {stated_version}",
            version=torch.version,
            where=where,
            stated_version=said.version,
        ),
        detail=say(
            "{copy}. Packages that were installed to fit torch {stated_version} meet "
            "{version}: undefined symbols, missing operators.",
            copy=_copy_words(said, torch),
            stated_version=said.version,
            version=torch.version,
        ),
        package="torch",
        evidence=_copies(torch, listed),
        remedy=_one_torch(environment, said),
    )


def _copies(torch: TorchBuild, listed: list[Distribution]) -> tuple[Evidence, ...]:
    said = tuple(
        Evidence("distributions[torch].version", str(d.version), d.location or "metadata")
        for d in listed
    )
    place = (Evidence("torch.location", torch.location, "sys.path"),) if torch.location else ()
    return (*torch_evidence(torch), *place, *said)


def _one_torch(environment: Environment, wanted: Distribution) -> Remedy:
    """Uninstalling takes away one copy at a time, so it is said twice."""
    manager = environment.manager
    text = say(
        "keep one torch only: uninstall it until none is left (look at python -c 'import "
        "torch; print(torch.__file__)'), then install torch {version} and its companions "
        "from one index; unset PYTHONPATH, and set PYTHONNOUSERSITE=1 to leave the user site "
        "out",
        version=wanted.version,
    )
    return Remedy(text, uninstall_command(manager, ("torch",)))


def _second_copy(
    environment: Environment, torch: TorchBuild, strangers: list[Distribution]
) -> Finding:
    other = strangers[0]
    place = f" ({other.location})" if other.location else ""
    owner = "conda" if other.installer == "conda" or other.name == "pytorch" else "another copy"
    return Finding(
        code="INS003",
        cause="duplicate-distributions",
        status=Status.WARN,
        title=say(
            "a second torch is installed: {other_version} beside {version}",
            other_version=other.version,
            version=torch.version,
        ),
        detail=say(
            "Imports take {version}; the metadata of {owner}{place} say {other_version}. The "
            "next install or update may bring that one back.",
            version=torch.version,
            owner=owner,
            place=place,
            other_version=other.version,
        ),
        package="torch",
        evidence=_copies(torch, strangers),
        remedy=_one_torch(environment, next(iter(strangers))),
    )


def check_torch_is_whole(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Metadata without a package, or something else named torch in its place."""
    environment = facts.environment
    if environment is None or environment.torch is not None:
        return
    broken = {GapReason.MISMATCH, GapReason.UNREADABLE}
    gaps = [g for g in facts.gaps if g.fact == "environment.torch" and g.reason in broken]
    if not gaps or gaps[0].probe != "interpreter":
        return
    said = environment.distribution("torch")
    pin = f"torch=={said.version}" if said and said.version else "torch"
    yield Finding(
        code="INS004",
        cause="shadowed-install" if gaps[0].reason is GapReason.UNREADABLE else "broken-install",
        status=Status.FAIL,
        title="`import torch` does not find the torch that was installed",
        detail=say("{detail}.", detail=gaps[0].detail),
        package="torch",
        evidence=gap_evidence(gaps),
        remedy=Remedy(
            "move away what stands in its place, then install torch again",
            _reinstall(environment.manager, pin),
        ),
    )


def _reinstall(manager: Manager | None, pin: str) -> tuple[str, ...]:
    flag = "--reinstall" if manager is Manager.UV else "--force-reinstall"
    return (*install_command(manager, (pin,)), flag) if manager in {Manager.PIP, Manager.UV} else ()


def _is_entwined(name: str, matrix: Matrix) -> bool:
    """Whether two releases of a package in one environment do harm."""
    row = matrix.owners.owner(name)
    return row is not None and row.entwined


def check_duplicates(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Several copies of a package whose releases must fit each other."""
    environment = facts.environment
    copies: dict[str, list[Distribution]] = {}
    for distribution in (environment.distributions if environment else None) or ():
        if distribution.version is not None:
            copies.setdefault(distribution.name, []).append(distribution)
    several = {name: found for name, found in copies.items() if len(_releases(found)) > 1}
    # The table of owners is read only where something is there twice.
    twice = {name: found for name, found in several.items() if _is_entwined(name, matrix)}
    if not twice:
        return
    words = "; ".join(
        f"{name} {' and '.join(str(d.version) for d in found)}" for name, found in twice.items()
    )
    yield Finding(
        code="INS003",
        cause="duplicate-distributions",
        status=Status.WARN,
        title=say("several releases of one package are installed: {packages}", packages=words),
        detail="Imports take the one that stands first on sys.path; tools that read metadata may "
        "take the other.",
        package=next(iter(twice)) if len(twice) == 1 else None,
        evidence=tuple(
            Evidence(f"distributions[{d.name}].version", str(d.version), d.location or "metadata")
            for found in twice.values()
            for d in found
        ),
        remedy=Remedy(
            "keep one copy of each: python -m pip uninstall it until none is left, then install it"
        ),
    )


def _releases(found: list[Distribution]) -> set[str]:
    return {d.version.public for d in found if d.version is not None}


def check_active_environment(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """Another environment is activated than the one that was looked at."""
    interpreter = facts.environment.interpreter if facts.environment else None
    if interpreter is None or interpreter.is_active is not False:
        return
    machine = facts.machine
    variable = "VIRTUAL_ENV" if machine.variable("VIRTUAL_ENV") else "CONDA_PREFIX"
    active = machine.variable(variable) or ""
    yield Finding(
        code="INS005",
        cause="wrong-interpreter-inspected",
        status=Status.WARN,
        title=say(
            "the active environment is {active}, and another one was inspected", active=active
        ),
        detail=say(
            "envguard looked at {folder}, the environment that it runs in.",
            folder=interpreter.prefix,
        ),
        evidence=(
            Evidence(f"variables.{variable}", active, "environment"),
            Evidence("interpreter.prefix", interpreter.prefix or "", "interpreter"),
        ),
        remedy=Remedy(
            say("inspect the active one, or install {package} into it", package=DISTRIBUTION),
            ("envguard", "check", "--python", active),
        ),
    )


def check_nvml_module(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Two distributions that both bring the module ``pynvml``."""
    environment = facts.environment
    wrapper = environment.distribution("pynvml") if environment else None
    bindings = environment.distribution("nvidia-ml-py") if environment else None
    if wrapper is None or bindings is None or wrapper.version is None:
        return
    if wrapper.version.major >= _OWN_MODULE_BEFORE:
        return  # a wrapper that depends on nvidia-ml-py and brings no such module
    yield Finding(
        code="INS006",
        cause="duplicate-nvml-module",
        status=Status.WARN,
        title=say(
            "pynvml {wrapper_version} and nvidia-ml-py {bindings_version} both bring `pynvml`",
            wrapper_version=wrapper.version,
            bindings_version=bindings.version,
        ),
        detail="Which of the two is imported depends on the order of installation; the old one "
        "does not know newer drivers.",
        package="pynvml",
        evidence=tuple(
            Evidence(f"distributions[{d.name}].version", str(d.version), d.location or "metadata")
            for d in (wrapper, bindings)
        ),
        remedy=Remedy(
            "remove pynvml and install nvidia-ml-py again, which is the maintained one",
            uninstall_command(environment.manager if environment else None, ("pynvml",)),
        ),
        source=matrix.machines.source("pynvml"),
    )
