"""Numbered statuses of the driver, CUDA and its libraries: what each means, what decides."""

from __future__ import annotations

import re
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.errors import MatrixError
    from envguard.matrix.reading import Document, Row


XID, CUDA, NCCL = "xid", "cuda", "nccl"
_LAYERS = {
    XID: "Xid of the driver",
    CUDA: "CUDA",
    NCCL: "NCCL",
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cufft": "cuFFT",
    "cusolver": "cuSOLVER",
    "cusparse": "cuSPARSE",
    "nvrtc": "NVRTC",
}
# A layer and a number, as people write them: xid-79, Xid 79, CUDA error 802, cudnn 3000.
_NUMBERED = re.compile(
    rf"(?P<layer>{'|'.join(_LAYERS)})(?: ?driver| ?runtime)?(?: ?error| ?status| ?failure)?"
    r"[ :=(#-]{0,3}(?P<code>\d{1,5})(?![\d\w]|\.\d)",
    re.IGNORECASE,
)
_ENOUGH = 12  # characters of a message that was cut short
_NAME = re.compile(r"[A-Za-z]\w{5,90}")
_TEXT_AFTER = re.compile(
    r"(?:error|failure)(?: \d{1,5})?(?: in)?[:= '\"]{1,3}(?P<text>[^\n]{3,200})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Deciding:
    """What decides among the causes of a status.

    Args:
        id: Its name, by which statuses ask for it.
        text: The one thing to look at or to change.
        command: It as a command; empty where it is none.
    """

    id: str
    text: str
    provenance: Provenance
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A status that the driver or a library gives.

    Args:
        layer: Who gives it: ``xid``, ``cuda`` (runtime and driver share their numbers), ``nccl``,
            ``cudnn`` ...
        code: Its number.
        name: ``cudaErrorInvalidValue``, ``CUDNN_STATUS_BAD_PARAM``.
        meaning: What it means, as the end of a sentence.
        decides: The :class:`Deciding` that tells its causes apart.
        driver: The driver's name of the same number; empty where it has none.
        text: Its message as the library prints it; empty where it prints the name.
        kind: ``app``, ``env``, ``hw``, ``link``, ``build``, ``follow`` ...; empty for libraries.
        is_sticky: After it the process cannot use the GPU any more.
        action: NVIDIA's immediate action for an Xid, else empty.
        cause: The cause to which it points as a rule; empty for none.
    """

    layer: str
    code: int
    name: str
    meaning: str
    decides: str
    provenance: Provenance
    driver: str = ""
    text: str = ""
    kind: str = field(default="", metadata={"key": "class"})
    is_sticky: bool = field(default=False, metadata={"key": "sticky"})
    action: str = ""
    cause: str = ""

    @property
    def library(self) -> str:
        """Who gives it, for a person: ``CUDA runtime and driver``, ``cuDNN``."""
        if self.layer != CUDA:
            return _LAYERS[self.layer]
        if self.driver:
            return "CUDA runtime and driver"
        return "CUDA driver" if self.name.startswith("CUDA_") else "CUDA runtime"

    @property
    def label(self) -> str:
        """Name and number for a person: ``Xid 79``, ``cudaErrorUnknown (999)``."""
        return f"Xid {self.code}" if self.layer == XID else f"{self.name} ({self.code})"


class StatusTable:
    """The rows of ``errors.toml``.

    Raises:
        MatrixError: A row misses a field, names a layer or what decides that there is not, or
            stands twice.
    """

    def __init__(self, document: Document) -> None:
        self.deciding = {row.text("id"): row.build(Deciding) for row in document.rows("deciding")}
        self._by_code: dict[tuple[str, int], StatusRow] = {}
        for row in document.rows("status"):
            status = row.build(StatusRow)
            key = (status.layer, status.code)
            if problem := self._problem(row, status, key):
                raise problem
            self._by_code[key] = status

    def _problem(self, row: Row, status: StatusRow, key: tuple[str, int]) -> MatrixError | None:
        if status.layer not in _LAYERS:
            return row.error("layer", f"{status.layer!r} is none of {', '.join(_LAYERS)}")
        if status.decides not in self.deciding:
            return row.error("decides", f"there is no {status.decides!r}")
        if key in self._by_code:
            return row.error("code", f"{status.code} of {status.layer} stands twice")
        return None

    @property
    def rows(self) -> tuple[StatusRow, ...]:
        """All statuses, in the order of the table."""
        return tuple(self._by_code.values())

    @cached_property
    def _by_name(self) -> dict[str, tuple[StatusRow, ...]]:
        names: dict[str, tuple[StatusRow, ...]] = {}
        for row in self.rows:
            for name in filter(None, (row.name, row.driver)):
                names[name.lower()] = (row, *names.get(name.lower(), ()))
        return names

    @cached_property
    def _by_text(self) -> tuple[tuple[str, StatusRow], ...]:
        """CUDA's messages, the longest first: some begin as others do."""
        told: dict[str, StatusRow] = {}
        for row in self.rows:
            if row.layer == CUDA and row.text:
                told.setdefault(row.text.rstrip(".").lower(), row)
        return tuple(sorted(told.items(), key=lambda item: -len(item[0])))

    def status(self, layer: str, code: int) -> StatusRow | None:
        """A status by its layer and number, or None."""
        return self._by_code.get((layer, code))

    def named(self, name: str) -> tuple[StatusRow, ...]:
        """The statuses of a name, the newest first; cuDNN 8 and 9 number theirs differently."""
        return self._by_name.get(name.lower(), ())

    def told(self, text: str) -> StatusRow | None:
        """The CUDA status whose message a text is or begins with, or whose name it is; or None.

        The messages of two statuses can be alike; the first of the table is given.
        """
        said = text.strip().lower()
        rows = self.named(said.rstrip("."))
        if rows:
            return rows[0]
        found = (row for message, row in self._by_text if _begins(said, message))
        cut = (row for message, row in self._by_text if message.startswith(said.strip("'. ")))
        return next(found, None) or (next(cut, None) if len(said) >= _ENOUGH else None)

    def nccl(self, text: str) -> StatusRow | None:
        """An NCCL result by its name or the start of its text, or None."""
        said = text.strip().lower()
        rows = (row for row in self.rows if row.layer == NCCL)
        heads = ((row.text.partition(" (")[0].lower(), row) for row in rows)
        return next((row for head, row in heads if said.startswith((head, row.name.lower()))), None)

    def find(self, words: str) -> tuple[StatusRow, ...]:
        """The statuses that words mean: a name, a layer with a number, or a message.

        Args:
            words: ``xid-79``, ``CUDA error 802``, ``CUDNN_STATUS_NOT_SUPPORTED``, or a line of a
                program that holds such a one.

        Returns:
            Them, the newest first; nothing where the words mean none.
        """
        for name in _NAME.findall(words.replace("-", "_")):
            if rows := self.named(name):
                return rows
        numbered = _NUMBERED.search(words)
        if numbered is not None:
            row = self.status(numbered["layer"].lower(), int(numbered["code"]))
            return (row,) if row is not None else ()
        return tuple(row for text in _texts(words) if (row := self.told(text)) is not None)[:1]


def _texts(words: str) -> Iterator[str]:
    after = _TEXT_AFTER.search(words)
    if after is not None:
        yield after["text"]
    yield words


def _begins(said: str, message: str) -> bool:
    rest = said.removeprefix(message)
    return rest is not said and not rest[:1].isalnum() and said.startswith(message)
