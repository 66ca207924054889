"""Finds the prebuilt wheel of an extension for a torch build, or says that there is none."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from envguard.conditions import admits
from envguard.errors import NetworkError
from envguard.facts.machine import OperatingSystem
from envguard.facts.sentences import say
from envguard.lock.prebuilt_rows import Combination
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packaging.specifiers import SpecifierSet

    from envguard.lock.constraints import BuildTarget
    from envguard.lock.prebuilt_rows import WheelMatrix
    from envguard.lock.request import Target
    from envguard.matrix.rows import TorchBuildRow
    from envguard.web.client import RemoteFile, Web
    from envguard.web.releases import Releases

# The newest releases are asked about whatever the matrix says: it may be older than they are.
_ALWAYS_ASKED = 3
_MOST_ASKED = 6


@dataclass(frozen=True, slots=True)
class ReleaseWheel:
    """A prebuilt wheel that is there.

    Args:
        package: Normalised name.
        combination: What it was made for.
        url: Where it lies.
        sha256: Its digest.
        size: In bytes; None when the server does not say.
    """

    package: str
    combination: Combination
    url: str
    sha256: str
    size: int | None = None

    @property
    def requirement(self) -> Requirement:
        """For the resolver: by address, with its digest."""
        return Requirement(f"{self.package} @ {self.url}#sha256={self.sha256}")


@dataclass(frozen=True, slots=True)
class NoWheel:
    """There is no prebuilt wheel for a build.

    Args:
        reason: Why.
        can_be_built: Building it on the machine would help.
    """

    reason: str
    can_be_built: bool = False


def find_wheel(
    wheels: WheelMatrix,
    stated: SpecifierSet,
    build: TorchBuildRow,
    target: Target,
    situation: BuildTarget,
    releases: Releases,
) -> ReleaseWheel | NoWheel:
    """Find the newest prebuilt wheel that goes with a torch build.

    Args:
        wheels: What is known about the package's wheels.
        stated: The user's bounds on the package.
        build: The torch build.
        target: Python and platform.
        situation: For the GPUs.
        releases: Where wheels are looked for.

    Raises:
        NetworkError: A server does not answer, or a digest is not the one on record.
    """
    reason = _never(wheels, build, target, situation)
    if reason:
        return NoWheel(reason)
    wanted = list(islice(_candidates(wheels, stated, build, target), _MOST_ASKED))
    look = _remembered if releases.web.is_offline else _look_for
    found = next(filter(None, (look(wheels, one, releases) for one in wanted)), None)
    if found is not None:
        return found
    if releases.web.is_offline:
        _check_known(wheels, wanted)
    cuda = build.backend.cuda
    minor = ".".join(map(str, build.version.release[:2]))
    which = f"{wheels.name}{stated}"
    return NoWheel(
        say(
            "there is no prebuilt wheel of {release} for torch {torch}, CUDA {cuda}, "
            "{python} on {platform}",
            release=which,
            torch=minor,
            cuda=cuda.major if cuda else 0,
            python=target.python_tag,
            platform=target.platform,
        ),
        can_be_built=True,
    )


def is_recorded(
    wheels: WheelMatrix, stated: SpecifierSet, build: TorchBuildRow, target: Target
) -> bool:
    """Whether the matrix knows a prebuilt wheel for a torch build; nobody is asked."""
    return any(map(wheels.is_built, _candidates(wheels, stated, build, target)))


def _never(
    wheels: WheelMatrix, build: TorchBuildRow, target: Target, situation: BuildTarget
) -> str:
    """Why no wheel can serve, whatever was published."""
    if build.backend.cuda is None:
        return say("{package} needs a CUDA build of torch", package=wheels.name)
    if target.platform.system is not OperatingSystem.LINUX:
        return say("{package} publishes prebuilt wheels for Linux only", package=wheels.name)
    if build.cxx11_abi is None:
        return say(
            "the C++ ABI of {build} is not recorded, a wheel of {package} needs it",
            build=build.label,
            package=wheels.name,
        )
    lowest = situation.capability
    needed = [r.capability for r in wheels.table.ranges() if r.capability is not None]
    if lowest is not None and needed and lowest < min(needed):
        return say(
            "{package} serves compute capability {needed} and above, the machines have {lowest}",
            package=wheels.name,
            needed=min(needed),
            lowest=lowest,
        )
    return ""


def _candidates(
    wheels: WheelMatrix, stated: SpecifierSet, build: TorchBuildRow, target: Target
) -> Iterator[Combination]:
    """The wheels to look for, newest release first."""
    known = {release.version for release in wheels.table.releases}
    pinned = {Version(c.version) for c in stated if c.operator == "==" and "*" not in c.version}
    admitted = sorted((v for v in known | pinned if admits(stated, v)), reverse=True)
    for position, release in enumerate(admitted):
        for combination in _combinations(wheels, release, build, target):
            if position < _ALWAYS_ASKED or wheels.is_built(combination):
                yield combination


def _combinations(
    wheels: WheelMatrix, release: Version, build: TorchBuildRow, target: Target
) -> Iterator[Combination]:
    cuda = build.backend.cuda
    if cuda is not None and build.cxx11_abi is not None:
        yield Combination(
            release=release,
            torch=f"{build.version.major}.{build.version.minor}",
            cuda=wheels.label(release, cuda),
            cxx11_abi=build.cxx11_abi,
            python=target.python_tag,
            platform=f"linux_{target.platform.arch}",
        )


def _look_for(
    wheels: WheelMatrix, combination: Combination, releases: Releases
) -> ReleaseWheel | None:
    listing = releases.listing(wheels.listing_url(combination.release, releases.base))
    if not listing and not wheels.is_built(combination):
        return None
    for name in wheels.file_names(combination):
        if listing and name not in listing:
            continue
        url = wheels.url(combination.release, name, releases.base)
        file = releases.file(url)
        if file is not None:
            digest = _digest(wheels, name, listing.get(name, ""), file, url, releases.web)
            return ReleaseWheel(wheels.name, combination, url, digest, file.size)
    return None


def _digest(
    wheels: WheelMatrix, name: str, offered: str, file: RemoteFile, url: str, web: Web
) -> str:
    """The digest that the release offers, else the one computed from the file.

    Raises:
        NetworkError: It is not the one that is on record for this file.
    """
    recorded = wheels.recorded_digest(name)
    digest = offered or web.sha256(file, url)
    if recorded and digest != recorded:
        raise NetworkError(
            f"{file.url} has sha256 {digest}, on record is {recorded}",
            hint="the file was replaced: do not use it before you know why",
        )
    web.remember_digest(file, digest)
    return digest


def _remembered(
    wheels: WheelMatrix, combination: Combination, releases: Releases
) -> ReleaseWheel | None:
    """A wheel whose digest is on record, or was found out before."""
    for name in wheels.file_names(combination):
        url = wheels.url(combination.release, name, releases.base)
        is_built = wheels.is_built(combination)
        digest = releases.web.known_digest(url) or (is_built and wheels.recorded_digest(name))
        if digest:
            return ReleaseWheel(wheels.name, combination, url, digest)
    return None


def _check_known(wheels: WheelMatrix, wanted: Iterable[Combination]) -> None:
    """Refuse to say that there is none where one should be, only nobody was asked.

    Raises:
        NetworkError: One should be.
    """
    for combination in wanted:
        if wheels.is_built(combination):
            raise NetworkError(
                f"offline: the hash of the wheel of {wheels.name} {combination.release} for "
                f"{combination.words} is not known",
                hint="run it once without --offline",
            )


def nearest_wheel(
    wheels: WheelMatrix,
    stated: SpecifierSet,
    build: TorchBuildRow,
    target: Target,
    releases: Releases,
) -> str:
    """The combination nearest to a build that has a prebuilt wheel, for a sentence.

    Asked for on the network where there is one; empty when there is none at all.
    """
    platform = f"linux_{target.platform.arch}"
    found = [c for c in wheels.combinations() if c.platform == platform]
    near = sorted(found, key=lambda c: _distance(c, stated, build, target))
    for combination in near[:_MOST_ASKED]:
        if releases.web.is_offline or _look_for_name(wheels, combination, releases):
            return f"{wheels.name} {combination.release} for {combination.words}"
    return ""


def _look_for_name(wheels: WheelMatrix, combination: Combination, releases: Releases) -> bool:
    listing = releases.listing(wheels.listing_url(combination.release, releases.base))
    names = wheels.file_names(combination)
    if listing:
        return any(name in listing for name in names)
    urls = (wheels.url(combination.release, name, releases.base) for name in names)
    return any(releases.file(url) is not None for url in urls)


def _distance(
    found: Combination, stated: SpecifierSet, build: TorchBuildRow, target: Target
) -> tuple[object, ...]:
    cuda = build.backend.cuda
    major, minor = (int(part) for part in found.torch.split("."))
    return (
        found.python != target.python_tag,
        abs(100 * major + minor - 100 * build.version.major - build.version.minor),
        cuda is None or not found.cuda.startswith(str(cuda.major)),
        found.cxx11_abi != build.cxx11_abi,
        not admits(stated, found.release),
        tuple(-part for part in (*found.release.release, found.release.post or 0)),
    )
