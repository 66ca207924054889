"""What an installer takes today of requirements that leave the version open."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Label,
    Manager,
    TorchBuild,
    Wish,
    label_of_url,
    label_of_version,
)
from envguard.facts.versions import CPU, Backend
from envguard.matrix.packages import AbiKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envguard.facts.environment import Distribution, Environment
    from envguard.facts.machine import Platform
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageRelease, PackageTable

TORCH = "torch"
_MAX_TRIED = 80
# Images that hold no torch of their own.
_BARE_IMAGE = re.compile(
    r"(?:[\w.-]{1,60}\.[a-z]{2,10}/)?(?:library/|nvidia/(?:cuda|driver)|continuumio/|condaforge/"
    r"|mambaorg/|astral-sh/uv|ubuntu|debian|python|rockylinux|almalinux|fedora|centos|amazonlinux)"
    r"[\w./-]{0,60}(?::|@|$)"
)
# They have tables and are used without torch as well.
_WITHOUT_TORCH = frozenset({"numpy", "setuptools", "triton"})


def requirers_of_torch(environment: Environment, matrix: Matrix) -> Iterator[tuple[str, Version]]:
    """The pins whose own metadata require exactly one torch, and which.

    Yields:
        The pin's words (``torchvision 0.21.0``), and the torch version; with the pin's label
        where that says from which of the PyTorch indexes both are taken.
    """
    wanted = list(_exact_requirers(environment, matrix))
    if environment.in_order and wanted:
        wanted = [max(wanted, key=lambda one: one[0].line or 0)]
    for found, torch in wanted:
        yield f"{found.name} {found.version}", torch


def _exact_requirers(
    environment: Environment, matrix: Matrix
) -> Iterator[tuple[Distribution, Version]]:
    for found in environment.distributions or ():
        table = matrix.packages(found.name) if found.name in matrix.package_names else None
        row = table.release(found.version) if table and found.version else None
        clauses = tuple(row.requires.get(TORCH) or ()) if row else ()
        if found.version is None or len(clauses) != 1 or clauses[0].operator != "==":
            continue
        if clauses[0].version.endswith(".*"):
            continue
        torch = Version(clauses[0].version)
        if torch.local is None and label_of_version(found.version).accelerator is not None:
            torch = Version(f"{torch}+{found.version.local}")
        yield found, torch


def needs_torch(found: Distribution, matrix: Matrix) -> bool:
    """Whether a package requires torch, in its metadata or because it is compiled against it."""
    table = matrix.packages(found.name) if found.name not in {TORCH, *_WITHOUT_TORCH} else None
    if table is None:
        return False
    ranges = table.ranges(found.version)
    row = table.release(found.version) if found.version else None
    rows = [row] if row else list(table.releases[-1:])
    return (
        table.is_source_only
        or any(TORCH in row.requires for row in rows)
        or any(r.abi in {AbiKind.CLASSIC, AbiKind.STABLE} or TORCH in r.declares for r in ranges)
    )


def is_about_torch(found: Distribution, matrix: Matrix) -> bool:
    """Whether a package has to do with torch or a GPU, as far as the tables name it."""
    return found.name in matrix.package_names and found.name not in _WITHOUT_TORCH


class OpenPins:
    """The open requirements of an environment, against the tables.

    Args:
        environment: With wishes; its pins bound them.
        platforms: Where it may be installed.
        matrix: The tables.
    """

    def __init__(
        self, environment: Environment, platforms: tuple[Platform, ...], matrix: Matrix
    ) -> None:
        self.environment = environment
        self.platforms = platforms
        self.matrix = matrix
        interpreter = environment.interpreter
        self.python = interpreter.version if interpreter else None
        self._tag = interpreter.python_tag if interpreter else None
        self._bounds = dict(self._bounds_of_pins())
        found = environment.distribution(TORCH)
        self.by_conda = environment.is_open and found is not None and found.installer == "conda"

    def _bounds_of_pins(self) -> Iterator[tuple[str, SpecifierSet]]:
        """What the pins' own metadata require of other packages; nothing where lines follow."""
        if self.environment.in_order:
            return
        joined: dict[str, SpecifierSet] = {}
        for found in self.environment.distributions or ():
            if self.environment.wish(found.name) is not None:
                continue  # what was taken of a wish binds nothing
            table = self.matrix.packages(found.name) if found.version else None
            row = table.release(found.version) if table and found.version else None
            for name, bound in (row.requires if row else {}).items():
                joined[name] = joined.get(name, SpecifierSet()) & bound
        yield from joined.items()

    def torches(self) -> tuple[Version, ...]:
        """The torch releases that the wish for torch and the pins admit, oldest first."""
        wish = self.environment.wish(TORCH)
        bound = (wish.specifier if wish else SpecifierSet()) & self._bounds.get(
            TORCH, SpecifierSet()
        )
        known = (r.version for r in self.matrix.torch.releases)
        return tuple(v for v in _filtered(bound, known) if self._is_installable(v))

    def _is_installable(self, version: Version) -> bool:
        """Whether the indexes hold wheels of it for a platform and the Python."""
        if self.by_conda:
            return True
        for platform in self.platforms:
            label = self.label_of(version, platform)
            if label is None or label.accelerator not in {Accelerator.CUDA, Accelerator.CPU}:
                continue
            build = self.matrix.torch.build(version, Backend(label.cuda), platform)
            if build and (self._tag is None or not build.pythons or self._tag in build.pythons):
                return True
        return False

    def label_of(self, version: Version, platform: Platform) -> Label | None:
        """What an installer gets of a torch release without a label; None where it is not told.

        A label of an index makes a build the higher version, so pip takes it before the plain
        one; an index without a build of the release is passed over.
        """
        environment = self.environment
        own = environment.torch.index_url if environment.torch else None
        indexes = (own,) if own else environment.indexes
        labels = [label_of_url(url) for url in indexes if url and holds_torch(url)]
        labels = [label for label in labels if label.accelerator is not None]
        if environment.manager in {Manager.UV, Manager.UV_PROJECT}:
            labels = labels[:1]  # uv takes the first index that has the package
        served = {label for label in labels if self._is_served(version, platform, label)}
        if served:
            return served.pop() if len(served) == 1 else None
        if labels and (own or (indexes[0] and label_of_url(indexes[0]).accelerator)):
            plain = self.matrix.torch.pypi_backend(version, platform)
            return Label(Accelerator.CPU) if plain == CPU else labels[0]
        backend = self.matrix.torch.pypi_backend(version, platform)
        if backend is None:
            return None
        return Label(Accelerator.CUDA if backend.cuda else Accelerator.CPU, backend.cuda)

    def _is_served(self, version: Version, platform: Platform, label: Label) -> bool:
        if label.accelerator not in {Accelerator.CUDA, Accelerator.CPU}:
            return True
        return bool(self.matrix.torch.builds(version, platform, Backend(label.cuda)))

    def build_of(self, version: Version, origin: BuildOrigin) -> TorchBuild:
        """The build behind a release without a label, where all possible platforms agree."""
        torch = self.environment.torch
        if self.by_conda:
            label = Label(torch.accelerator, torch.cuda) if torch is not None else Label()
            return TorchBuild(version, label.accelerator, label.cuda, origin)
        labels = {self.label_of(version, platform) for platform in self.platforms}
        label = (labels.pop() if len(labels) == 1 else None) or Label()
        return TorchBuild(version, label.accelerator, label.cuda, origin)

    def releases(self, wish: Wish) -> tuple[PackageRelease, ...]:
        """The releases of a package that a wish and the pins admit, oldest first."""
        table = self.matrix.packages(wish.name)
        if table is None or not _has_releases(table):
            return ()
        bound = wish.specifier & self._bounds.get(wish.name, SpecifierSet())
        rows = {
            r.version: r
            for r in table.releases
            if not r.is_yanked and r.is_on_pypi and self._serves_python(r)
        }
        return tuple(rows[version] for version in _filtered(bound, rows))

    def _serves_python(self, release: PackageRelease) -> bool:
        if self.python is None or release.python is None:
            return True
        parts = len(self.python.release)
        texts = [str(self.python)] + ([f"{self.python}.99"] if parts < 3 else [])
        return any(release.python.contains(text, prereleases=True) for text in texts)

    def choose(self, torches: tuple[Version, ...]) -> tuple[Mapping[str, Version], Version | None]:
        """The newest release of each package with a wish, then the newest torch that all take.

        Args:
            torches: The torch releases that are left to choose from.

        Returns:
            Versions by package, and torch's; a package without one that goes with the others is
            left out.
        """
        left, picked = torches, {}
        for wish in sorted(self.environment.wishes, key=self._follows_torch):
            if wish.name == TORCH:
                continue
            for release in tuple(reversed(self.releases(wish)))[:_MAX_TRIED]:
                bound = release.requires.get(TORCH)
                narrowed = tuple(v for v in left if _admits(bound, v)) if bound else left
                if narrowed or not torches:
                    left, picked[wish.name] = narrowed, release.version
                    break
        return picked, left[-1] if left else None

    def _follows_torch(self, wish: Wish) -> bool:
        """The domain libraries have a release for each torch: what decides goes first."""
        return wish.name in self.matrix.uv.routed_packages


def _has_releases(table: PackageTable) -> bool:
    return bool(table.document.data.get("release"))


def _filtered(bound: SpecifierSet, versions: Iterable[Version]) -> list[Version]:
    """As an installer filters: pre-releases only where there is nothing else, or by name."""
    return sorted(bound.filter(versions))


def _admits(bound: SpecifierSet, version: Version) -> bool:
    return bound.contains(version.public, prereleases=True)


def holds_torch(url: str) -> bool:
    """Whether an index whose path names an accelerator may hold torch.

    Projects publish their own wheels in folders that are named like torch's.
    """
    return not (urlsplit(url).hostname or "").endswith(".github.io")


def settle(
    environment: Environment, platforms: tuple[Platform, ...], matrix: Matrix
) -> Environment:
    """Give each wish the release that an installer takes today.

    Args:
        environment: Of a document; what is pinned in it stays.
        platforms: Where it may be installed.
        matrix: The tables.

    Returns:
        The environment with a version for each wish whose releases are in the tables, and with
        the torch that it leads to. Torch is brought along where it is not named and a package
        requires it.
    """
    pins, torch = OpenPins(environment, platforms, matrix), environment.torch
    is_fixed = torch is not None and torch.version is not None
    is_open = _leaves_torch_open(environment, torch, matrix)
    torches = (
        (Version(torch.version.public),)
        if torch is not None and torch.version is not None
        else pins.torches()
        if is_open
        else ()
    )
    picked, version = pins.choose(torches)
    distributions = tuple(
        replace(d, version=_labelled(picked[d.name], d.name, torch, matrix))
        if d.version is None and d.name in picked
        else d
        for d in environment.distributions or ()
    )
    if not is_fixed and is_open and version is not None:
        torch = _build_today(pins, torch, version)
        distributions = tuple(
            replace(d, version=version) if d.name == TORCH and d.version is None else d
            for d in distributions
        )
    return replace(environment, distributions=distributions, torch=torch)


def _build_today(pins: OpenPins, torch: TorchBuild | None, version: Version) -> TorchBuild:
    """What is known of the build stays: of an index with a label, or of conda's file."""
    build = pins.build_of(version, BuildOrigin.WISHED)
    if pins.by_conda:
        return build
    return replace(build, index_url=torch.index_url if torch is not None else None)


def _leaves_torch_open(environment: Environment, torch: TorchBuild | None, matrix: Matrix) -> bool:
    """Whether an installer chooses the torch: it is a wish, or only required by another."""
    if environment.image and not _BARE_IMAGE.match(environment.image):
        return False  # it may hold a torch, which an installer keeps
    if environment.wish(TORCH) is not None:
        return torch is None or torch.version is None
    if torch is not None or environment.distribution(TORCH) is not None:
        return False
    if environment.document is None or environment.manager is Manager.CONDA:
        return False
    return any(needs_torch(found, matrix) for found in environment.distributions or ())


def _labelled(version: Version, name: str, torch: TorchBuild | None, matrix: Matrix) -> Version:
    """The domain libraries come from the index that torch's label names, made for that torch."""
    pinned = torch.version if torch is not None else None
    if pinned is None or pinned.local is None or name not in matrix.uv.routed_packages:
        return version
    release = matrix.torch.release(pinned)
    pairs = (
        {"torchvision": release.torchvision, "torchaudio": release.torchaudio} if release else {}
    )
    paired = pairs.get(name, ())
    return Version(f"{paired[-1] if paired else version}+{pinned.local}")
