"""Package indexes: which one serves what, and addresses that can be shown to anyone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from packaging.utils import NormalizedName, canonicalize_name

from envguard.errors import InputError
from envguard.matrix.torch_table import INDEX_TEMPLATE

if TYPE_CHECKING:
    from envguard.facts.versions import Backend

_USERINFO = re.compile(r"(?<=://)[^/\s]*@")
_SECRET_PARAMETER = re.compile(
    r"token|secret|password|passwd|signature|sig|key|credential|auth|x-amz-.*", re.IGNORECASE
)
_SECRET_IN_TEXT = re.compile(
    r"([?&][^=?&\s]*(?:token|secret|passw|sig|key|credential|auth)[^=&\s]{0,200}=)[^&\s#)>'\"`]+",
    re.IGNORECASE,
)


def _names(*words: str) -> frozenset[NormalizedName]:
    return frozenset(canonicalize_name(word) for word in words)


# Members of the torch family that hold nothing of one CUDA release: where a mirror lacks them,
# any index will do.
CUDA_FREE = _names("pytorch-triton", "torcharrow", "torchserve", "torchtune", "triton")


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
    shown = redact(address)
    if urlsplit(address).scheme not in {"http", "https", "file"}:
        raise InputError(
            f"{option}: {shown!r} is not an address",
            hint="it starts with https://, http:// or file://",
        )
    if re.search(r"[{}\s]", address):
        raise InputError(f"{option}: {shown!r} holds a placeholder that is not known")


def strip_credentials(url: str) -> str:
    """An address without user, password and parameters that look like secrets."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    kept = [pair for pair in parameters if not _SECRET_PARAMETER.search(pair[0])]
    query = parts.query if len(kept) == len(parameters) else urlencode(kept)
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))


def redact(text: str) -> str:
    """A text in which no address carries a user, a password or a token."""
    return _SECRET_IN_TEXT.sub(r"\1***", _USERINFO.sub("", text))


def is_same_index(one: str, other: str) -> bool:
    """Whether two addresses name one index, whatever credentials and final slash they carry."""
    return strip_credentials(one).rstrip("/") == strip_credentials(other).rstrip("/")
