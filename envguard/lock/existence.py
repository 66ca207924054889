"""Whether an index lists a wheel for a Python and platform, read from its page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from packaging.tags import Tag
from packaging.utils import (
    NormalizedName,
    canonicalize_name,
    parse_wheel_filename,
)
from packaging.version import Version

from envguard.errors import NetworkError
from envguard.facts.machine import OperatingSystem
from envguard.lock.package_index import plain_file
from envguard.redaction import strip_credentials
from envguard.values import dataclass
from envguard.web.failures import NO_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.lock.request import LockRequest, Target
    from envguard.matrix.rows import TorchBuildRow
    from envguard.web.client import Web


# How a page of an index is asked for: the JSON form if there is one.
INDEX_PAGE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


@dataclass(frozen=True, slots=True)
class ListedWheel:
    """A wheel that an index lists.

    Args:
        filename: Its name.
        name: Normalised name of the package.
        version: With its local label.
        build: Build number and what follows it; empty for none.
        tags: What it runs on.
        url: Where it lies, without credentials.
        sha256: What the index states; empty when it states none.
    """

    filename: str
    name: NormalizedName
    version: Version
    build: tuple[int, str] | tuple[()]
    tags: frozenset[Tag]
    url: str
    sha256: str


class _Links(HTMLParser):
    """Collects the addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.extend(value for name, value in attrs if name == "href" and value)


def parse_page(text: str, url: str) -> tuple[ListedWheel, ...]:
    """Read the wheels of a page of the Simple API, HTML or JSON, or of a page of links.

    Args:
        text: The page.
        url: Where it lies, for relative addresses.

    Raises:
        NetworkError: It is JSON and no page of the Simple API.

    Source: PEP 503, PEP 691.
    """
    if text.lstrip().startswith("{"):
        pairs = _json_links(text, url)
    else:
        links = _Links()
        links.feed(text)
        pairs = [(link, "") for link in links.found]
    found = (_listed(urljoin(url, link), sha256) for link, sha256 in pairs)
    return tuple(wheel for wheel in found if wheel is not None)


def _json_links(text: str, url: str) -> list[tuple[str, str]]:
    try:
        files = json.loads(text)["files"]
        return [(file["url"], file.get("hashes", {}).get("sha256", "")) for file in files]
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise NetworkError(f"{strip_credentials(url)}: no page of an index: {err}") from err


def _listed(address: str, sha256: str) -> ListedWheel | None:
    parts = urlsplit(address)
    filename = unquote(parts.path.rpartition("/")[2])
    try:
        name, version, build, tags = parse_wheel_filename(filename)
    except ValueError:
        return None  # a source archive, or a link to something else
    kind, _, digest = parts.fragment.partition("=")
    stated = sha256 or (digest if kind == "sha256" else "")
    try:
        url = plain_file(address)
    except NetworkError:
        return None  # its host is none
    return ListedWheel(filename, name, version, build, tags, url, stated)


def choose_wheel(
    wheels: Iterable[ListedWheel], name: str, version: Version, backend: str, target: Target
) -> ListedWheel | None:
    """The wheel of one version that an installer takes for a target; None when none serves it.

    Args:
        wheels: What the index of the backend lists.
        name: Of the package.
        version: Its version; a local label does not matter.
        backend: The label that its wheels carry, unless they carry none.
        target: Python and platform.
    """
    wanted, public = canonicalize_name(name), version.public
    fitting = [
        wheel
        for wheel in wheels
        if wheel.name == wanted
        and wheel.version.public == public
        and wheel.version.local in {None, backend}
        and any(fits(tag, target) for tag in wheel.tags)
    ]
    return max(fitting, key=lambda wheel: _rank(wheel, target), default=None)


def _rank(wheel: ListedWheel, target: Target) -> tuple[object, ...]:
    """As installers rank: a label is newer than none, its own ABI first, then the build number."""
    is_own = any(tag.abi == target.python_tag for tag in wheel.tags)
    is_stable = any(tag.abi == "abi3" for tag in wheel.tags)
    return (wheel.version, is_own, is_stable, wheel.build, wheel.filename)


def fits(tag: Tag, target: Target, *, is_any_python: bool = False) -> bool:
    """Whether a wheel of this tag runs on a target, or with another Python on its platform."""
    is_for_python = is_any_python or _fits_python(tag, target)
    return is_for_python and _fits_platform(tag.platform, target)


def _fits_python(tag: Tag, target: Target) -> bool:
    major, minor = target.python.major, target.python.minor
    if tag.interpreter in {f"py{major}", f"py{major}{minor}"} and tag.abi == "none":
        return True
    if tag.abi in {"abi3", "none"} and tag.interpreter.startswith(f"cp{major}"):
        digits = tag.interpreter.removeprefix(f"cp{major}")
        is_old_enough = digits.isdecimal() and int(digits) <= minor
        is_exact = digits == str(minor)
        return (is_exact if tag.abi == "none" else is_old_enough) and not (
            target.is_free_threaded and tag.abi == "abi3"
        )
    return tag.interpreter == f"cp{major}{minor}" and tag.abi == target.python_tag


def _fits_platform(platform: str, target: Target) -> bool:
    if platform == "any":
        return True
    arch = target.platform.arch
    match target.platform.system:
        case OperatingSystem.LINUX:
            return platform.endswith(arch) and _fits_glibc(platform, arch, target)
        case OperatingSystem.WINDOWS:
            return platform == {"x86_64": "win_amd64", "aarch64": "win_arm64"}[arch]
        case OperatingSystem.MACOS:
            names = {"x86_64": "x86_64", "aarch64": "arm64"}
            return platform.startswith("macosx") and platform.endswith((names[arch], "universal2"))


def _fits_glibc(platform: str, arch: str, target: Target) -> bool:
    kind = platform.removesuffix(f"_{arch}")
    if kind == "linux":
        return True
    if not kind.startswith("manylinux"):
        return False
    needed = _LEGACY.get(kind) or tuple(int(part) for part in kind.split("_")[1:3])
    return target.glibc is None or needed <= (target.glibc.major, target.glibc.minor)


def listed_wheels(
    index: str, name: str, web: Web, *, is_flat: bool
) -> tuple[ListedWheel, ...] | None:
    """The wheels that an index lists for a package.

    Args:
        index: Its address, possibly with credentials.
        name: Normalised name of the package.
        web: The network.
        is_flat: The index is one page of links.

    Returns:
        None when it has no such page, or none is known offline.

    Raises:
        NetworkError: It gives no answer that can be read.
    """
    address = index if is_flat else f"{index.rstrip('/')}/{name}/"
    page = web.page(address, accept=INDEX_PAGE)
    return parse_page(page.text, page.url) if page else None


def absent_from_index(build: TorchBuildRow, request: LockRequest, web: Web) -> str:
    """Why the torch index cannot give a build for the target.

    Returns:
        The reason; empty when it lists a wheel, or, offline, when nothing is known.

    Raises:
        NetworkError: The index gives no answer that can be read.
    """
    indexes, target = request.indexes, request.target
    index = indexes.torch_url(build.backend)
    wheels = listed_wheels(index, "torch", web, is_flat=indexes.is_flat)
    shown = strip_credentials(index)
    if wheels is None:
        return "" if web.is_offline else f"{shown} {NO_PAGE}"
    backend = build.backend.label
    if choose_wheel(wheels, "torch", build.version, backend, target):
        return ""
    if not any(w.version.public == str(build.version) for w in wheels if w.name == "torch"):
        return f"{shown} does not have it"
    return f"{shown} has no wheel of it for {target.python_tag} on {target.platform}"
