"""The packages of a subject that have a table, and what their builds were made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.environment import (
    Accelerator,
    Distribution,
    Manager,
    label_of_url,
    label_of_version,
)
from envguard.facts.findings import Evidence
from envguard.facts.machine import OperatingSystem, Platform
from envguard.matrix.packages import BuiltFor, PackageRange, PackageRelease, PackageTable
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import Provenance

_PYPI_WHEELS = Platform(OperatingSystem.LINUX, "x86_64")


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution of the subject that has a table.

    Args:
        distribution: As the subject states it.
        version: Its version, with a local label where it has one.
        table: Its table.
        release: Its row; None when it has none.
        like: The row that stands for it where it has none: what that says is inferred.
        ranges: What its table says about ranges that hold it.
    """

    distribution: Distribution
    version: Version
    table: PackageTable
    release: PackageRelease | None
    like: PackageRelease | None
    ranges: tuple[PackageRange, ...]

    @property
    def name(self) -> str:
        """Normalised name."""
        return self.distribution.name

    @property
    def words(self) -> str:
        """How a sentence names it: ``torchvision 0.21.0+cu124``."""
        return f"{self.name} {self.version}"

    @property
    def evidence(self) -> Evidence:
        """Its version, and who says so."""
        origin = self.distribution.installer or "metadata"
        return Evidence(f"distribution[{self.name}].version", str(self.version), origin)


class BuiltAgainst:
    """What a package's build was made for.

    Args:
        accelerator: CUDA, CPU or another vendor's.
        built: CUDA of a CUDA build, as far as known.
        origin: How it is known, for evidence.
        is_labelled: Its version or address says so; False: PyPI's wheel is known to be that.
        provenance: The row that says so; None for a label.
    """

    __slots__ = ("accelerator", "built", "is_labelled", "origin", "provenance")

    def __init__(
        self,
        accelerator: Accelerator,
        built: BuiltFor,
        origin: str,
        is_labelled: bool,
        provenance: Provenance | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.built = built
        self.origin = origin
        self.is_labelled = is_labelled
        self.provenance = provenance


def packages_of(facts: Facts, matrix: Matrix) -> Iterator[Package]:
    """The packages of a subject that have a table, torch itself left out.

    Of several distributions with one name only the one that imports take.
    """
    environment = facts.environment
    seen: set[str] = {"torch"}
    for distribution in (environment.distributions or ()) if environment else ():
        if distribution.name in seen or distribution.version is None:
            continue
        seen.add(distribution.name)
        table = matrix.packages(distribution.name)
        if table is not None:
            version = distribution.version
            release = table.release(version)
            like = table.release_like(version) if release is None else None
            yield Package(distribution, version, table, release, like, table.ranges(version))


def judged_torch(facts: Facts) -> TorchBuild | None:
    """The torch build whose companions can be judged: a release, for CUDA or the CPU.

    A pre-release or a vendor's own build pairs with companions that no table lists.
    """
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.version is None or torch.version.is_prerelease:
        return None
    return torch if torch.accelerator in {Accelerator.CUDA, Accelerator.CPU, None} else None


def is_pinned_only(facts: Facts) -> bool:
    """Whether the subject is pins or a lockfile: nothing is installed yet."""
    environment = facts.environment
    if environment is None:
        return False
    if environment.document is not None:
        return True
    torch = environment.torch
    if torch is not None:
        return torch.is_to_install
    return environment.interpreter is None or environment.interpreter.executable is None


def lists_everything(facts: Facts) -> bool:
    """Whether a distribution that is not listed is known to be missing."""
    environment = facts.environment
    if environment is None or environment.distributions is None or is_pinned_only(facts):
        return False
    return facts.gap("environment.distributions") is None and bool(
        environment.interpreter and environment.interpreter.executable
    )


def built_against(package: Package, facts: Facts) -> BuiltAgainst | None:
    """What a package's build was made for; None when that cannot be told."""
    distribution = package.distribution
    label = label_of_version(package.version)
    where = "version"
    for url in (distribution.url, distribution.index_url):
        if label.accelerator is None and url:
            label, where = label_of_url(url), "address"
    if label.accelerator is not None:
        major = label.cuda.major if label.cuda else None
        return BuiltAgainst(label.accelerator, BuiltFor(major, label.cuda), where, is_labelled=True)
    built = _of_pypi(package) if comes_from_pypi(package, facts) else None
    if built is None:
        return None
    cuda, provenance = built
    accelerator = Accelerator.CPU if cuda.major is None else Accelerator.CUDA
    return BuiltAgainst(accelerator, cuda, "PyPI's wheel", is_labelled=False, provenance=provenance)


def _of_pypi(package: Package) -> tuple[BuiltFor, Provenance] | None:
    release = package.release
    if release is not None and release.cuda is not None:
        return release.cuda, release.provenance
    ranges = (r for r in package.ranges if r.cuda is not None)
    found = next(ranges, None)
    return (found.cuda, found.provenance) if found and found.cuda else None


def comes_from_pypi(package: Package, facts: Facts) -> bool:
    """Whether a distribution without a label is PyPI's Linux x86_64 wheel, as far as one can see.

    Conda's builds carry no label either, and neither do wheels that someone built.
    """
    distribution, environment = package.distribution, facts.environment
    if package.version.local is not None or distribution.is_editable:
        return False
    if distribution.installer == "conda" or facts.machine.host.platform != _PYPI_WHEELS:
        return False
    index = (distribution.index_url or "").rstrip("/")
    if index and not index.endswith("/simple"):
        return False  # no mirror of PyPI's layout
    if distribution.url is not None and not index:
        return False  # a wheel from somewhere
    by_conda = environment is not None and environment.manager is Manager.CONDA
    return not by_conda or distribution.installer in {"pip", "uv"}
