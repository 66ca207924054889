"""Releases on GitHub: which files they hold, and what the server says about one of them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.web.client import RemoteFile, Web


RELEASE_BASE = "https://github.com"
_ASSET = re.compile(r'href="[^"]*/releases/download/[^"/]+/([^"/]+)"|sha256:([0-9a-f]{64})')


class Releases:
    """The releases of prebuilt wheels, each asked about once.

    Args:
        open_web: Gives the network; called when it is first needed, which few locks do.
        base: Where GitHub is; a mirror keeps its paths.
    """

    def __init__(self, open_web: Callable[[], Web], base: str = RELEASE_BASE) -> None:
        self.open_web = open_web
        self.base = base
        self._listings: dict[str, Mapping[str, str]] = {}
        self._files: dict[str, RemoteFile | None] = {}

    @cached_property
    def web(self) -> Web:
        """The network."""
        return self.open_web()

    def listing(self, url: str) -> Mapping[str, str]:
        """The files of a release with their sha256; empty where no list is to be had.

        Args:
            url: Its page ``/releases/expanded_assets/TAG``.
        """
        if url not in self._listings:
            page = self.web.page(url)
            self._listings[url] = parse_assets(page.text) if page else {}
        return self._listings[url]

    def file(self, url: str) -> RemoteFile | None:
        """What the server says about a file; None when it has none."""
        if url not in self._files:
            self._files[url] = self.web.file(url)
        return self._files[url]


def parse_assets(text: str) -> dict[str, str]:
    """Read the list of files of a GitHub release.

    Args:
        text: The page ``/releases/expanded_assets/TAG``.

    Returns:
        File name -> sha256, empty where the page states none; nothing where it lists no files.
    """
    found: dict[str, str] = {}
    last = ""
    for name, digest in _ASSET.findall(text):
        if name:
            last = unquote(name)
            found.setdefault(last, "")
        elif last and not found[last]:
            found[last] = digest
    return found
