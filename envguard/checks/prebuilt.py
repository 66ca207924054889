"""The prebuilt family: wheels that name the torch, CUDA and C++ ABI they were built for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import CheckOptions, runtime_library, torch_evidence, torch_words
from envguard.checks.installed import is_pinned_only, judged_torch, packages_of
from envguard.checks.remedies import install_command
from envguard.facts.environment import Accelerator, Distribution, Manager, TorchBuild
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import say
from envguard.matrix.complete import possible_platforms
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.checks.installed import Package
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix

# 2.7.4.post1+cu12torch2.6cxx11abiFALSE; packaging lowers it.
_LABEL = re.compile(r"cu([0-9]{2,4})torch([0-9]+\.[0-9]+)[0-9.]*(?:cxx11abi(true|false))?", re.I)
_PYTHON = re.compile(r"-(cp[0-9]{2,3}t?)-cp[0-9]{2,3}t?-")


@dataclass(frozen=True, slots=True)
class WheelLabel:
    """What the name of a prebuilt wheel says.

    Args:
        cuda_major: CUDA major.
        torch: Major and minor of torch.
        cxx11_abi: Whether it uses the new C++ ABI; None when the name does not say.
        python: Python tag; empty when only the version is known.
        text: The label, for people.
        origin: Where it stands.
    """

    cuda_major: int
    torch: Version
    cxx11_abi: bool | None
    python: str
    text: str
    origin: str


def parse_wheel_label(distribution: Distribution) -> WheelLabel | None:
    """Read ``cu12torch2.6cxx11abiFALSE`` out of a version or a wheel's address.

    Returns:
        None where neither holds such a label.
    """
    local = distribution.version.local if distribution.version else None
    url = (distribution.url or "").replace("%2B", "+").replace("%2b", "+")
    match, origin = _LABEL.fullmatch(local or ""), "version"
    if match is None:
        match, origin = _LABEL.search(url.rpartition("/")[2]), "address"
    if match is None:
        return None
    abi = {"true": True, "false": False}.get((match[3] or "").lower())
    python = _PYTHON.search(url.rpartition("/")[2])
    tag = python[1] if python else ""
    return WheelLabel(int(match[1][:2]), Version(match[2]), abi, tag, match[0], origin)


class _Wheel:
    """A labelled wheel beside a torch build.

    Args:
        distribution: The wheel.
        label: What its name says.
        torch: The build.
        version: The build's version.
        cxx11_abi: The build's C++ ABI; None when not known.
        python: Python tag of the interpreter; empty when not known.
    """

    __slots__ = ("cxx11_abi", "distribution", "label", "python", "torch", "version")

    def __init__(
        self,
        distribution: Distribution,
        label: WheelLabel,
        torch: TorchBuild,
        version: Version,
        cxx11_abi: bool | None,
        python: str,
    ) -> None:
        self.distribution = distribution
        self.label = label
        self.torch = torch
        self.version = version
        self.cxx11_abi = cxx11_abi
        self.python = python


def check_prebuilt_wheels(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Prebuilt wheels against the torch build, by what their names say."""
    torch, environment = judged_torch(facts), facts.environment
    if torch is None or torch.version is None or environment is None:
        return
    tag = (environment.interpreter.python_tag if environment.interpreter else None) or ""
    for distribution in environment.distributions or ():
        label = parse_wheel_label(distribution)
        if label is not None:
            abi = _abi_of(torch, torch.version, facts, matrix)
            wheel = _Wheel(distribution, label, torch, torch.version, abi, tag)
            yield from _other_torch(wheel)
            yield from _other_abi(wheel)
            yield from _other_cuda(wheel)
            yield from _other_python(wheel)


def _other_torch(wheel: _Wheel) -> Iterator[Finding]:
    if wheel.label.torch.release[:2] != wheel.version.release[:2]:
        yield _finding(
            wheel,
            "ABI002",
            "abi-torch-version",
            say(
                "was built for torch {built}, not for {torch}",
                built=wheel.label.torch,
                torch=torch_words(wheel.torch),
            ),
            "torch's C++ symbols change from minor to minor: importing it fails with an undefined "
            "symbol.",
        )


def _other_abi(wheel: _Wheel) -> Iterator[Finding]:
    own = wheel.label.cxx11_abi
    if own is None or wheel.cxx11_abi is None or own == wheel.cxx11_abi:
        return
    symbol = "a basic_string of __cxx11" if own else "Ss"
    yield _finding(
        wheel,
        "ABI007",
        "abi-cxx11-flag",
        say(
            "was built for the {abi} C++ ABI, {torch} for the {torch_abi} one",
            abi=_abi_words(own),
            torch=torch_words(wheel.torch),
            torch_abi=_abi_words(wheel.cxx11_abi),
        ),
        say(
            "Builds of one torch version differ in it. Importing it fails with an undefined "
            "symbol that ends in {symbol}.",
            symbol=symbol,
        ),
    )


def _abi_words(is_new: bool) -> str:
    return "new" if is_new else "old"


def _other_cuda(wheel: _Wheel) -> Iterator[Finding]:
    cuda = wheel.torch.cuda
    if cuda is not None and wheel.label.cuda_major != cuda.major:
        yield _finding(
            wheel,
            "ABI003",
            "cudart-major-mismatch",
            say(
                "was built for CUDA {built}, {torch} for CUDA {cuda}",
                built=wheel.label.cuda_major,
                torch=torch_words(wheel.torch),
                cuda=cuda,
            ),
            say(
                "Importing it fails: {library} is missing.",
                library=runtime_library(wheel.label.cuda_major),
            ),
        )


def _other_python(wheel: _Wheel) -> Iterator[Finding]:
    if wheel.label.python and wheel.python and wheel.label.python != wheel.python:
        yield _finding(
            wheel,
            "ABI008",
            "wheel-for-other-python",
            say(
                "is a wheel for {built}, the interpreter is {python}",
                built=wheel.label.python,
                python=wheel.python,
            ),
            "pip refuses it.",
        )


def _abi_of(torch: TorchBuild, version: Version, facts: Facts, matrix: Matrix) -> bool | None:
    """The C++ ABI of a torch build: as read, else as recorded for every platform it can be on."""
    if torch.cxx11_abi is not None:
        return torch.cxx11_abi
    backend = torch.backend
    if backend is None:
        return None
    found = {
        build.cxx11_abi
        for platform in possible_platforms(facts.machine)
        for build in [matrix.torch.build(version, backend, platform)]
        if build is not None
    }
    return found.pop() if len(found) == 1 else None


def _finding(wheel: _Wheel, code: str, cause: str, title: str, detail: str) -> Finding:
    name, version, torch = wheel.distribution.name, wheel.distribution.version, wheel.torch
    abi = "" if wheel.cxx11_abi is None else f"cxx11abi{str(wheel.cxx11_abi).upper()}"
    series = ".".join(map(str, wheel.version.release[:2]))
    cuda = say("cu{major}", major=torch.cuda.major) if torch.cuda else ""
    python = say(" and {python}", python=wheel.python) if wheel.python else ""
    return Finding(
        code=code,
        cause=cause,
        status=Status.FAIL,
        title=say(
            "{package} {version} {mismatch}",
            package=name,
            version=version.public if version else "",
            mismatch=title,
        ),
        detail=detail,
        package=name,
        evidence=(
            Evidence(f"distribution[{name}].wheel", wheel.label.text, wheel.label.origin),
            *torch_evidence(torch),
        ),
        remedy=Remedy(
            say(
                "install the wheel of {package} that names {cuda}torch{series}{abi}{python}, "
                "or build it from source against this torch",
                package=name,
                cuda=cuda,
                series=series,
                abi=abi,
                python=python,
            )
        ),
        line=wheel.distribution.line,
    )


def check_source_builds(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Source archives that have to be compiled where no prebuilt wheel goes with this torch."""
    torch = judged_torch(facts)
    for package in packages_of(facts, matrix):
        if not package.table.is_source_only or package.name == "deepspeed":
            continue
        if parse_wheel_label(package.distribution) is not None:
            continue
        url = (package.distribution.url or "").partition("#")[0]
        if is_pinned_only(facts) and not url.endswith(".whl"):
            yield _isolated(package, facts)
        if torch is not None and torch.version is not None:
            yield from _no_wheel(package, torch, torch.version)


def _isolated(package: Package, facts: Facts) -> Finding:
    environment = facts.environment
    manager = environment.manager if environment else None
    pin = f"{package.name}=={package.version}"
    command = install_command(manager, (pin, "--no-build-isolation"))
    if manager in {Manager.POETRY, Manager.PDM}:
        command = ()  # both set it in their configuration, by package
    return Finding(
        code="PKG007",
        cause="build-isolation",
        status=Status.WARN,
        title=say(
            "{package} is a source archive: its setup needs torch while it builds",
            package=package.words,
        ),
        detail="An installer builds it apart from the environment, where there is no torch, and "
        "fails with ModuleNotFoundError: No module named 'torch'. Its setup fetches a prebuilt "
        "wheel where one exists and compiles with nvcc where none does.",
        package=package.name,
        evidence=(package.evidence,),
        remedy=Remedy(
            "install torch first, then this without build isolation; or pin the address of a "
            "prebuilt wheel",
            command,
        ),
        line=package.distribution.line,
    )


def _no_wheel(package: Package, torch: TorchBuild, version: Version) -> Iterator[Finding]:
    built = package.table.prebuilt(package.version)
    if built is None or torch.accelerator is not Accelerator.CUDA:
        return
    major = torch.cuda.major if torch.cuda else None
    no_torch, no_cuda = not built.serves(version), major not in {None, *built.cuda_majors}
    is_seen = package.table.has_seen_wheel(package.version, version, major)
    if is_seen or not (no_torch or no_cuda):
        return
    listed = ", ".join(dict.fromkeys(".".join(map(str, v.release[:2])) for v in built.torch))
    cudas = ", ".join(map(str, built.cuda_majors))
    yield Finding(
        code="ABI010",
        cause="abi-torch-version" if no_torch else "cudart-major-mismatch",
        status=Status.WARN,
        title=say(
            "no prebuilt wheel of {package} was made for {torch}",
            package=package.words,
            torch=torch_words(torch),
        ),
        detail=say(
            "Its release was built for torch {torches} and CUDA {cudas}. It works where it "
            "was compiled against this torch; a wheel for another one does not import.",
            torches=listed,
            cudas=cudas,
        ),
        package=package.name,
        evidence=(package.evidence, *torch_evidence(torch)),
        remedy=Remedy(
            say(
                "take a release of {package} with wheels for this torch, or compile it here: "
                "nvcc of torch's CUDA major, ninja, and --no-build-isolation",
                package=package.name,
            )
        ),
        source=built.provenance.source,
        line=package.distribution.line,
    )
