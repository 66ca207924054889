"""The releases that an index lists for packages of a request: the newest, and what it needs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from envguard.errors import EnvguardError
from envguard.lock.existence import INDEX_PAGE, fits
from envguard.redaction import strip_credentials
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packaging.utils import NormalizedName

    from envguard.lock.request import FurtherIndex, LockRequest
    from envguard.web.client import Web

_WORKERS = 4
_OLD_DAYS = 90
_DAYS_OF_A_RELEASE = 30  # where an index gives no dates


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of an index page, as far as a choice of releases needs it.

    Args:
        filename: Its name.
        url: Its address.
        python: ``Requires-Python``; empty when the page states none.
        uploaded: Its day, ``2026-06-30``; empty when the page states none.
        is_yanked: It was withdrawn.
        has_metadata: Its metadata can be had without it (PEP 658).
    """

    filename: str
    url: str
    python: str = ""
    uploaded: str = ""
    is_yanked: bool = False
    has_metadata: bool = False


@dataclass(frozen=True, slots=True)
class ListedRelease:
    """A release of which some file serves the target.

    Args:
        version: The release.
        uploaded: Day of its first file; empty when not known.
        python: ``Requires-Python``; empty for none.
        metadata_url: Where its metadata lie; empty where the index gives them in the file only.
        wheel_url: A wheel of it; empty for none.
        is_for_python: The target's Python is within ``python`` and the file's tags.
    """

    version: Version
    uploaded: str = ""
    python: str = ""
    metadata_url: str = ""
    wheel_url: str = ""
    is_for_python: bool = True


class _Anchors(HTMLParser):
    """Collects the files of an HTML page."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.found: list[IndexFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        href = said.get("href")
        if tag != "a" or not href:
            return
        address = urljoin(self.url, href).partition("#")[0]
        self.found.append(
            IndexFile(
                filename=unquote(urlsplit(address).path.rpartition("/")[2]),
                url=address,
                python=said.get("data-requires-python") or "",
                is_yanked="data-yanked" in said,
                has_metadata="data-core-metadata" in said or "data-dist-info-metadata" in said,
            )
        )


def read_files(text: str, url: str) -> tuple[IndexFile, ...]:
    """Read the files of a page of the Simple API; empty where it is none.

    Args:
        text: The page, JSON or HTML.
        url: Where it lies, for relative addresses.

    Source: PEP 503, PEP 592, PEP 658, PEP 691, PEP 700.
    """
    if not text.lstrip().startswith("{"):
        anchors = _Anchors(url)
        anchors.feed(text)
        return tuple(anchors.found)
    try:
        return tuple(_json_file(entry, url) for entry in json.loads(text)["files"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _json_file(entry: Mapping[str, Any], url: str) -> IndexFile:
    return IndexFile(
        filename=str(entry["filename"]),
        url=urljoin(url, str(entry["url"])),
        python=str(entry.get("requires-python") or ""),
        uploaded=str(entry.get("upload-time") or "")[:10],
        is_yanked=bool(entry.get("yanked")),
        has_metadata=bool(entry.get("core-metadata") or entry.get("dist-info-metadata")),
    )


def list_releases(
    files: Iterable[IndexFile], name: str, request: LockRequest
) -> tuple[ListedRelease, ...]:
    """The releases within the request's bounds that have a file for the platform, newest first.

    Args:
        files: Of the package's page.
        name: Normalised name of the package.
        request: Its bounds, target and cut-off day.
    """
    stated = request.bounds_on(canonicalize_name(name))
    found: dict[Version, ListedRelease] = {}
    for file in files:
        release = None if file.is_yanked else _release_of(file, request)
        if release is None or not stated.contains(release.version, prereleases=True):
            continue
        known = found.get(release.version)
        found[release.version] = _better(known, release) if known else release
    final = [v for v in found if not v.is_prerelease]
    kept = found if stated.prereleases or not final else final
    return tuple(found[version] for version in sorted(kept, reverse=True))


def _better(one: ListedRelease, other: ListedRelease) -> ListedRelease:
    """Of two files of a release the one that says more about the target."""
    ranked = (one, other)
    return max(ranked, key=lambda found: (found.is_for_python, bool(found.wheel_url)))


def _release_of(file: IndexFile, request: LockRequest) -> ListedRelease | None:
    cutoff = request.exclude_newer
    if cutoff and file.uploaded and file.uploaded > cutoff[:10]:
        return None
    is_wheel = file.filename.endswith(".whl")
    target = request.target
    try:
        if is_wheel:
            _, version, _, tags = parse_wheel_filename(file.filename)
            is_for_python = any(fits(tag, target) for tag in tags)
            others = (fits(tag, target, is_any_python=True) for tag in tags)
            if not is_for_python and not any(others):
                return None
        else:
            _, version = parse_sdist_filename(file.filename)
            is_for_python = True
        admits = SpecifierSet(file.python).contains(f"{target.python}.99")
    except (ValueError, InvalidSpecifier):
        return None
    metadata = f"{file.url}.metadata" if is_wheel and file.has_metadata else ""
    wheel = file.url if is_wheel else ""
    is_for_python = is_for_python and admits
    return ListedRelease(version, file.uploaded, file.python, metadata, wheel, is_for_python)


class IndexReleases:
    """What an index lists for packages of one request, each page read once, several at a time.

    An index that cannot be read gives no releases: the resolver's own words say what is wrong
    with it.

    Args:
        request: Its bounds and its target.
        open_web: Gives the network; called once for each page.
    """

    def __init__(self, request: LockRequest, open_web: Callable[[], Web]) -> None:
        self._request, self._open_web = request, open_web
        self._found: dict[str, tuple[ListedRelease, ...]] = {}
        self._requires: dict[str, tuple[Requirement, ...]] = {}

    def read(self, indexes: Mapping[NormalizedName, str]) -> None:
        """Read the pages of packages that were not read yet.

        Args:
            indexes: Name and index of each.
        """
        todo = [
            (str(name), index)
            for name, index in indexes.items()
            if name not in self._found and index.startswith(("http://", "https://"))
        ]
        if not todo:
            return
        with ThreadPoolExecutor(min(_WORKERS, len(todo))) as pool:
            for (name, _), releases in zip(todo, pool.map(self._page, todo), strict=True):
                self._found[name] = releases

    def _page(self, asked: tuple[str, str]) -> tuple[ListedRelease, ...]:
        name, index = asked
        try:
            page = self._open_web().page(f"{index.rstrip('/')}/{name}/", accept=INDEX_PAGE)
        except EnvguardError:
            return ()
        return list_releases(read_files(page.text, page.url), name, self._request) if page else ()

    def admissible(self, name: str) -> tuple[ListedRelease, ...]:
        """The releases for the target's Python, newest first; empty when nothing is known."""
        return tuple(one for one in self._found.get(name, ()) if one.is_for_python)

    def newest(self, name: str) -> ListedRelease | None:
        """The newest release for the target's Python; None when nothing is known."""
        return next(iter(self.admissible(name)), None)

    def newer_python(self, name: str) -> ListedRelease | None:
        """A newer release than all for the target's Python, for another Python; None for none."""
        first = next(iter(self._found.get(name, ())), None)
        return None if first is None or first.is_for_python else first

    def lag_days(self, name: str, version: Version) -> int | None:
        """How long before the newest release a version came out; None when it is not known."""
        admissible = self.admissible(name)
        listed = [one.version.public for one in admissible]
        if version.public not in listed:
            return None
        position = listed.index(version.public)
        newest, found = admissible[0].uploaded, admissible[position].uploaded
        if not (newest and found):
            return position * _DAYS_OF_A_RELEASE
        days = (date.fromisoformat(newest) - date.fromisoformat(found)).days
        return max(days, min(position, 1))

    def is_old(self, name: str, version: Version) -> bool:
        """Whether a version is months behind the newest release for the target."""
        return (self.lag_days(name, version) or 0) > _OLD_DAYS

    def oldest_within(self, name: str, days: int) -> ListedRelease | None:
        """The oldest release that is no more days behind the newest; None when none is known."""
        near = (
            one for one in self.admissible(name) if (self.lag_days(name, one.version) or 0) <= days
        )
        return min(near, key=lambda one: one.version, default=None)

    def release(self, name: str, version: Version) -> ListedRelease | None:
        """A release as the page lists it; None when it does not."""
        wanted = version.public
        listed = self._found.get(name, ())
        return next((one for one in listed if one.version.public == wanted), None)

    def requires(self, release: ListedRelease | None) -> tuple[Requirement, ...]:
        """What a release requires: read from its metadata alone, no whole file is fetched.

        Returns:
            Empty where it requires nothing, or its metadata cannot be had.
        """
        url = (release.metadata_url or release.wheel_url) if release is not None else ""
        if release is not None and url and url not in self._requires:
            try:
                text = self._metadata(release)
            except EnvguardError:
                text = ""
            self._requires[url] = tuple(_requirements(text))
        return self._requires.get(url, ())

    def _metadata(self, release: ListedRelease) -> str:
        web = self._open_web()
        if release.metadata_url:
            page = web.page(release.metadata_url, accept="*/*")
            return page.text if page else ""
        key = f"{strip_credentials(release.wheel_url)}#METADATA"
        known = web.cache.page(key) if web.cache else None
        if known is not None or web.is_offline:
            return known.text if known else ""
        from envguard.binary.remote import read_remote_metadata  # where an index has no PEP 658
        from envguard.web.client import CachedPage

        text = read_remote_metadata(release.wheel_url)
        if web.cache:
            web.cache.keep_page(key, CachedPage(key, "a published file never changes", text))
        return text


def _requirements(body: str) -> Iterator[Requirement]:
    raw, _ = parse_email(body)
    for text in raw.get("requires_dist", []):
        try:
            yield Requirement(text)
        except InvalidRequirement:
            continue


def bounds_on(
    name: str, requires: Iterable[Requirement], extras: Iterable[str], request: LockRequest
) -> SpecifierSet:
    """What requirements of a package ask of another one on the target.

    Args:
        name: Normalised name of the other one.
        requires: The requirements.
        extras: Of the package that are asked for.
        request: For the target.
    """
    bounds = SpecifierSet()
    for requirement in requires:
        if canonicalize_name(requirement.name) == name and _applies(requirement, extras, request):
            bounds &= requirement.specifier
    return bounds


def _applies(requirement: Requirement, extras: Iterable[str], request: LockRequest) -> bool:
    marker, variables = requirement.marker, request.target.marker_variables
    if marker is None:
        return True
    return any(marker.evaluate({**variables, "extra": extra}) for extra in ("", *extras))


def further_places(
    names: Iterable[str], indexes: Iterable[FurtherIndex], web: Web
) -> tuple[tuple[NormalizedName, FurtherIndex], ...]:
    """The first further index that has each of some packages; those that none has are left out.

    Args:
        names: Of packages that the default index lacks.
        indexes: In the order in which files name them.
        web: The network.
    """
    found: dict[NormalizedName, FurtherIndex] = {}
    for index in indexes:
        for name in map(canonicalize_name, sorted(names)):
            address = index.url if index.is_flat else f"{index.url.rstrip('/')}/{name}/"
            page = None if name in found else web.page(address, accept=INDEX_PAGE)
            files = read_files(page.text, page.url) if page else ()
            if any(_is_of(file.filename, name) for file in files):
                found[name] = index
    return tuple(found.items())


def _is_of(filename: str, name: NormalizedName) -> bool:
    stem = filename.split("-")[0] if filename.endswith(".whl") else filename.rpartition("-")[0]
    return bool(stem) and canonicalize_name(stem) == name
