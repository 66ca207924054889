"""Package indexes: which one serves what, and whether one lists a wheel for a target."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from packaging.utils import (
    NormalizedName,
    canonicalize_name,
)

from envguard.errors import InputError, NetworkError
from envguard.matrix.torch_builds import INDEX_TEMPLATE
from envguard.redaction import clean_text, strip_credentials
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.facts.versions import Backend


_HOST = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?", re.ASCII)
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# What may stand in an address that shells, pip, YAML and heredocs read: no quotes, blanks,
# backticks, ``$``, ``{`` or ``}``; pip fills in ``${NAME}`` from the environment.
_PLAIN_PATH = "/%:@,=~"


def _names(*words: str) -> frozenset[NormalizedName]:
    return frozenset(canonicalize_name(word) for word in words)


# These are built for one torch and one CUDA release; the other members of the torch family may
# come from any index where a mirror lacks them: each of their releases is pinned to one torch
# wherever it lies, or holds nothing of a CUDA release.
BUILT_WITH_TORCH = _names("torch", "torchaudio", "torchvision")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where packages come from.

    Args:
        torch: Address of the PyTorch index or a mirror; ``{backend}`` is filled in.
        default: Index for everything else; None for what uv is configured to use.
    """

    torch: str = INDEX_TEMPLATE
    default: str | None = None

    @property
    def is_mirror(self) -> bool:
        """Whether the PyTorch index is somebody's copy of it."""
        return self.torch.rstrip("/") != INDEX_TEMPLATE

    @property
    def has_backend(self) -> bool:
        """Whether each backend has an address of its own."""
        return "{backend}" in self.torch

    @property
    def is_flat(self) -> bool:
        """Whether it is one page of links (``torch_stable.html``), as its name says."""
        return urlsplit(self.torch).path.endswith((".html", ".htm"))

    def torch_url(self, backend: Backend) -> str:
        """The address for one backend."""
        return self.torch.replace("{backend}", backend.label).rstrip("/")


def make_index_settings(torch: str, default: str | None) -> IndexSettings:
    """Check the two addresses as they were given.

    Raises:
        InputError: One is not an address, or holds a placeholder other than ``{backend}``.
    """
    check_address("--torch-index", torch.replace("{backend}", "cpu"))
    if default is not None:
        check_address("--index-url", default)
    return IndexSettings(torch, default)


def check_address(option: str, address: str) -> None:
    """Refuse what is no address.

    Args:
        option: For the message.
        address: As it was given.

    Raises:
        InputError: It is none, or holds a placeholder.
    """
    shown = clean_text(address)
    if urlsplit(address).scheme not in {"http", "https", "file"}:
        raise InputError(
            f"{option}: {shown!r} is not an address",
            hint="it starts with https://, http:// or file://",
        )
    if re.search(r"[{}\s]", address):
        raise InputError(
            f"{option}: {shown!r} holds a placeholder that is not known",
            hint="variables are not filled in here: let the shell do it; a user and password of "
            "the address are used and never written, .netrc serves as well",
        )


def plain_index(url: str) -> str:
    """The address of an index as it is written: without credentials, nothing in it expands."""
    parts = urlsplit(strip_credentials(url))
    return urlunsplit(
        (
            parts.scheme,
            parts.netloc,
            _plain_path(parts.path),
            quote(parts.query, safe="%:@,=~/?+&"),
            "",
        )
    )


def plain_file(url: str) -> str:
    """The address of a file as it is written: no credentials, no query, nothing that expands.

    Args:
        url: As an index gives it.

    Raises:
        NetworkError: Its host is none.
    """
    parts = urlsplit(strip_credentials(url))
    if parts.scheme != "file" and not _HOST.fullmatch(parts.netloc):
        raise NetworkError(
            f"an index leads to {clean_text(url)!r}, which names no host",
            hint="an installer could fill in what it takes for a variable: use another index",
        )
    return urlunsplit((parts.scheme, parts.netloc, _plain_path(parts.path), "", ""))


def _plain_path(path: str) -> str:
    """A path with everything quoted that could mean something else; ``+`` as ``%2B``."""
    return _LONE_PERCENT.sub("%25", quote(path, safe=_PLAIN_PATH))


def is_same_index(one: str, other: str) -> bool:
    """Whether two addresses name one index, whatever credentials and final slash they carry."""
    return plain_index(one).rstrip("/") == plain_index(other).rstrip("/")
