"""Raw bytes of a log to clean pieces of lines: colours, prefixes, progress bars, odd encodings."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

CHUNK = 1 << 20
_LONGEST_CARRY = 1 << 16
_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_PREFIX = re.compile(
    r"\s{0,4}(?:"
    r"\[(?:rank|default)?(?P<a>\d{1,5})\](?:<std(?:err|out)>)?:\s?"
    r"|\[\d{1,3},(?P<b>\d{1,5})\]<std(?:err|out)>:\s?"
    r"|(?P<c>\d{1,5}): (?=\S)"
    r"|\((?:\w{1,40} )?pid=\d{1,9}(?:, ip=[\w.:]{1,45})?\)\s"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d)?\s"
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,64} [\w.-]{1,40}(?:\[\d{1,9}\])?:\s"
    r"|\[\s{0,8}\d{1,9}\.\d{6}\]\s"
    r")"
)
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def strip_prefix(text: str) -> tuple[str, int | None]:
    """Take off what launchers, kernels and containers put before a line.

    Returns:
        The rest, and the rank that a prefix names.
    """
    rank = None
    for _ in range(3):
        match = _PREFIX.match(text)
        if match is None:
            break
        named = match["a"] or match["b"] or match["c"]
        rank = int(named) if named is not None and rank is None else rank
        text = text[match.end() :]
    return text, rank


def read_blocks(stream: BinaryIO, chunk: int = CHUNK) -> Iterator[tuple[bytes, bool]]:
    """Cut a stream into blocks that end with a line end where lines are not endless.

    Args:
        stream: Binary; read once, front to back.
        chunk: Bytes to read at a time.

    Yields:
        A block without colours, and whether a line end closes it. UTF-16 with a byte order
        mark comes out as UTF-8.
    """
    carry = b""
    decoder: codecs.IncrementalDecoder | None = None
    is_first = True
    while raw := stream.read(chunk):
        if is_first:
            is_first = False
            decoder = _decoder_for(raw)
        if decoder is not None:
            raw = decoder.decode(raw).encode("utf-8", "replace")
        block = carry + raw
        cut = block.rfind(b"\n") + 1
        if not cut:
            if len(block) < _LONGEST_CARRY:
                carry = block
                continue
            cut = _soft_cut(block)
        elif len(block) - cut > _LONGEST_CARRY:
            cut = _soft_cut(block)
        carry = block[cut:]
        yield _without_ansi(block[:cut]), block[cut - 1 : cut] == b"\n"
    if carry:
        yield _without_ansi(carry), False


def _soft_cut(block: bytes) -> int:
    """Where to cut a line that does not end: after a progress bar or a blank, else anywhere."""
    tail = len(block) - 512
    cut = max(block.rfind(b"\r", tail), block.rfind(b" ", tail)) + 1
    return cut or len(block)


def _decoder_for(raw: bytes) -> codecs.IncrementalDecoder | None:
    for mark, name in _BOMS:
        if raw.startswith(mark):
            return codecs.getincrementaldecoder(name)("replace")
    return None


def _without_ansi(block: bytes) -> bytes:
    return _ANSI.sub(b"", block) if b"\x1b" in block else block
