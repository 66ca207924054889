"""A data release: newer tables in an archive, and the document that describes it."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from envguard.errors import DocumentError
from envguard.matrix.store import sources
from envguard.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
MOST_BYTES = 32 * 1024 * 1024
_MOST_UNPACKED = 128 * 1024 * 1024
_MOST_FILES = 500
_VERSION = re.compile(r"[0-9]{4}\.[0-9]{2}\.[0-9]{2}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MEMBER = re.compile(r"(?:(?:causes|packages)/)?[a-z0-9][a-z0-9_.-]{0,80}\.toml")
# What zipfile raises on archives that are cut, encrypted (RuntimeError), of a newer kind
# (NotImplementedError, a RuntimeError), or lie about their parts.
_UNREADABLE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
    struct.error,
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class DataRelease:
    """What a release document says.

    Args:
        data_version: Date of the data, ``2026.12.15``; later ones compare greater.
        archive_url: Where the archive lies.
        sha256: Of the archive.
        size: Of the archive, in bytes.
    """

    data_version: str
    archive_url: str
    sha256: str
    size: int


def parse_release(text: str, url: str) -> DataRelease:
    """Read a release document.

    Args:
        text: JSON: ``schema_version``, ``data_version``, ``archive``, ``sha256``, ``size``.
        url: Where it was read; the archive's address may be relative to it.

    Raises:
        DocumentError: It is none, is of a newer kind, or its archive lies on plain http.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise DocumentError(f"{url}: not a release document: {err}") from err
    if not isinstance(data, dict) or data.get("schema_version") != FORMAT:
        kind = data.get("schema_version") if isinstance(data, dict) else None
        raise DocumentError(
            f"{url}: schema_version {kind!r} is not the one this envguard reads ({FORMAT})"
        )
    size = data.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= MOST_BYTES:
        raise DocumentError(f"{url}: size: {size!r} is no size up to {MOST_BYTES} bytes")
    archive = _address(_field(data, "archive", re.compile(r"\S{1,2000}"), url), url)
    return DataRelease(
        data_version=_field(data, "data_version", _VERSION, url),
        archive_url=archive,
        sha256=_field(data, "sha256", _SHA256, url),
        size=size,
    )


def _field(data: dict[str, object], name: str, pattern: re.Pattern[str], url: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise DocumentError(f"{url}: {name}: {str(value)[:80]!r} has not the form of one")
    return value


def _address(text: str, url: str) -> str:
    """An address beside another one, or of its own."""
    try:
        archive = urljoin(url, text)
    except ValueError as err:
        raise DocumentError(f"{url}: archive: {text[:80]!r} is no address: {err}") from err
    require_safe(archive)
    return archive


def require_safe(url: str) -> None:
    """Refuse an address over which anybody could send anything.

    Raises:
        DocumentError: It is neither https nor on this machine.
    """
    try:
        parts = urlsplit(url)
    except ValueError as err:
        raise DocumentError(f"{url}: is no address: {err}") from err
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not parts.hostname or (parts.scheme != "https" and not is_local):
        raise DocumentError(f"{url}: only https addresses are asked for data")


def unpack_release(raw: bytes, release: DataRelease, folder: Path) -> None:
    """Check an archive and unpack its tables into an empty folder.

    Args:
        raw: The archive.
        release: What it has to be.
        folder: An existing folder.

    Raises:
        DocumentError: It is not the archive that the document describes, or holds something else
            than tables.
        OSError: The folder cannot be written.
    """
    where = release.archive_url
    digest = hashlib.sha256(raw).hexdigest()
    if len(raw) != release.size or digest != release.sha256:
        raise DocumentError(
            f"{where}: sha256 {digest} of {len(raw)} bytes is not what its document says"
            f" ({release.sha256}, {release.size} bytes)"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            _unpack(archive, where, folder)
    except _UNREADABLE as err:
        raise DocumentError(f"{where}: not a readable archive: {err}") from err


def _unpack(archive: zipfile.ZipFile, where: str, folder: Path) -> None:
    members = archive.infolist()
    names = [member.filename for member in members]
    strange = next((name for name in names if not _MEMBER.fullmatch(name)), None)
    if strange is not None:
        raise DocumentError(f"{where}: {strange[:80]!r} is no table")
    if len(set(names)) != len(names) or len(names) > _MOST_FILES:
        raise DocumentError(f"{where}: holds a table twice, or more than {_MOST_FILES}")
    left = _MOST_UNPACKED
    for name in ("causes", "packages"):
        (folder / name).mkdir()
    for member in members:
        with archive.open(member) as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            raise DocumentError(f"{where}: unpacks to more than {_MOST_UNPACKED} bytes")
        (folder / member.filename).write_bytes(content)


def pack_release(folder: Path, archive_name: str) -> tuple[bytes, str]:
    """Pack the tables of a folder as people edit them; the same tables give the same bytes.

    Args:
        folder: Folder of the tables.
        archive_name: How the archive will be called beside its document.

    Returns:
        The archive, and its release document.

    Raises:
        DocumentError: The manifest states no data version.
    """
    manifest = (folder / "manifest.toml").read_text(encoding="utf-8")
    stated = re.search(r'^data_version = "([^"]*)"$', manifest, re.MULTILINE)
    if stated is None or not _VERSION.fullmatch(stated[1]):
        raise DocumentError(f"{folder}/manifest.toml: data_version: is missing or no date")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources(folder):
            name = path.relative_to(folder).as_posix()
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    raw = buffer.getvalue()
    document = {
        "schema_version": FORMAT,
        "data_version": stated[1],
        "archive": archive_name,
        "sha256": hashlib.sha256(raw).hexdigest(),
        "size": len(raw),
    }
    return raw, json.dumps(document, indent=2) + "\n"
