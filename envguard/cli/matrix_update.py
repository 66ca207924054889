"""``envguard matrix update``: fetch newer tables, check them, keep them beside the shipped ones."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.cli.out import write_page
from envguard.cli.tables import load_matrix
from envguard.errors import DocumentError, ExitCode, InputError, MatrixError
from envguard.matrix.loader import Matrix
from envguard.matrix.release import MOST_BYTES, parse_release, require_safe, unpack_release
from envguard.matrix.store import has_tables, pack

if TYPE_CHECKING:
    from envguard.cli.matrix_options import NetworkOptions
    from envguard.cli.out import PageOptions
    from envguard.matrix.release import DataRelease
    from envguard.render.page import Style
    from envguard.web.client import Web

_MOST_DOCUMENT = 64 * 1024


def update(name: str, network: NetworkOptions, page: PageOptions) -> int:
    """Fetch a data release that is newer than the tables in use.

    It is kept in the user's cache folder and used only where ``--matrix`` names it.

    Raises:
        InputError: No address, one that is not https, or a document or archive that is none.
        NetworkError: No answer.
    """
    from envguard.web.client import Web

    if name:
        raise InputError(f"matrix update takes no name, not {name!r}")
    if network.offline:
        raise InputError("matrix update asks a server, and --offline forbids it")
    url = network.source
    if not url:
        raise InputError(
            "matrix update: no address is known",
            hint="name one with --from URL, or with ENVGUARD_MATRIX_URL",
        )
    require_safe(url)
    matrix, web = load_matrix(page.matrix), Web()
    text = web.content(url, _MOST_DOCUMENT).decode("utf-8", "replace")
    release = parse_release(text, url)
    folder, is_fresh = None, False
    if release.data_version > matrix.manifest.data_version:
        _require_stated(release, network.sha256)
        folder, is_fresh = _keep(release, web)
    _say(release, folder, matrix, page, is_fresh=is_fresh)
    return ExitCode.FITS


def _require_stated(release: DataRelease, stated: str) -> None:
    """Hold a release to the hash that the user knows from elsewhere.

    Raises:
        InputError: It is no hash, or not that of the release.
    """
    wanted = stated.strip().lower().removeprefix("sha256:")
    if stated and not re.fullmatch("[0-9a-f]{64}", wanted):
        raise InputError(f"--sha256: {stated[:80]!r} is no sha256 of 64 hexadecimal digits")
    if stated and wanted != release.sha256:
        raise DocumentError(
            f"{release.archive_url}: sha256 {release.sha256} is offered, --sha256 names {wanted}"
        )


def _say(
    release: DataRelease, folder: Path | None, matrix: Matrix, page: PageOptions, *, is_fresh: bool
) -> None:
    current = matrix.manifest.data_version
    body = {
        "found": release.data_version,
        "archive": release.archive_url,
        "sha256": release.sha256,
        "folder": str(folder) if folder else None,
        "from_cache": folder is not None and not is_fresh,
    }

    def text(style: Style) -> str:
        if folder is None:
            return f"nothing newer: {release.data_version} is offered, {current} is in use\n"
        came = f"were fetched from {release.archive_url}"
        if not is_fresh:
            came = "were fetched before: the copy in the cache was used"
        return (
            f"tables of {release.data_version} {came}\n"
            f"sha256 {release.sha256}\n"
            f"they are used where they are named: --matrix {folder}\n"
        )

    write_page(page, matrix.manifest.data_version, command="matrix update", body=body, text=text)


def _keep(release: DataRelease, web: Web) -> tuple[Path, bool]:
    """Download, check and store a release; what is there already stays.

    Returns:
        Its folder, and whether it was downloaded now.

    Raises:
        InputError: The archive is not what its document says, or its tables break a promise.
        NetworkError: No answer.
    """
    from envguard.binary.cache import cache_folder

    place = cache_folder(os.environ) / "matrix" / f"{release.data_version}-{release.sha256[:12]}"
    if has_tables(place):
        return place, False
    raw = web.content(release.archive_url, min(release.size, MOST_BYTES))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=place.parent, prefix=".new-"))
        try:
            unpack_release(raw, release, fresh)
            _prove(release, fresh)
            pack(fresh)
            fresh.replace(place)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as err:
        if has_tables(place):  # another update was faster
            return place, True
        raise InputError(f"{place}: cannot be written: {err.strerror or err}") from err
    return place, True


def _prove(release: DataRelease, folder: Path) -> None:
    """Refuse tables that this envguard cannot read, or that break a promise."""
    from envguard.matrix.pattern_cost import try_tables
    from envguard.matrix.verify import verify

    try:
        matrix = Matrix.load(folder)
    except MatrixError as err:
        raise DocumentError(f"{release.archive_url}: {err.message}", err.hint) from err
    if matrix.manifest.data_version != release.data_version:
        raise DocumentError(
            f"{release.archive_url}: its tables are of {matrix.manifest.data_version}, not of"
            f" {release.data_version}"
        )
    problems = verify(matrix) or try_tables(matrix)
    if problems:
        raise DocumentError(f"{release.archive_url}: {len(problems)} problems: {problems[0]}")
