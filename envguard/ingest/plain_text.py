"""Makes plain lines of what people paste: decoded, without colours, quotes, fences and tags."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from envguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_BYTES = 64 * 1024 * 1024
# A report has some hundred lines; without a bound, short lines cost many times their size.
_MAX_LINES = 300_000
# What matters stands in short lines; LD_LIBRARY_PATH is the longest of them.
_MAX_LINE = 16_384
_MAX_JSON_LINE = 1024 * 1024

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_QUOTE = re.compile(r"(?:[ \t]{0,3}>[ \t]?)+")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[ \t]*[\w+.-]{0,30}[ \t]*")
_TAG = re.compile(
    r"</?(?:details|summary|pre|code|br|p|div|span|b|i|strong|em|ul|li|h[1-6]|td|tr|table)"
    r"(?:\s[^<>]{0,300})?/?>",
    re.IGNORECASE,
)
# What CI systems, image builds, launchers and log drivers put before each line.
_PREFIX = re.compile(
    r"(?:\[?20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?(?:[ \t]|$)|#[0-9]{1,4} [0-9]{1,6}\.[0-9]{1,4}(?: |$)|"
    r"\[rank[0-9]{1,5}\]:(?: |$)|\[[0-9]{1,3},[0-9]{1,5}\]<std(?:out|err)>:(?: |$)|"
    r"\([A-Za-z_][\w.:]{0,60}[ ,]{1,2}(?:[\w=]{1,20}[ ,]{1,2})?pid=[0-9]{1,9}"
    r"(?:, ip=[0-9.]{7,15})?\)(?: |$)|[a-z][a-z0-9_.-]{0,60}[-_][0-9]{1,3} {1,20}\|(?: |$)){1,3}"
)
_ENTITIES = (
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", '"'),
    ("&#39;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
)
_ODD_CHARACTERS = {
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),  # halves of characters, which nothing prints
    **dict.fromkeys((0x00A0, 0x2007, 0x202F), " "),
    **dict.fromkeys((0, 0x200B, 0xFEFF)),
}
# PowerShell's redirection writes UTF-16 with a mark; the marks of UTF-32 begin like it.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_BEFORE = frozenset("20#[(abcdefghijklmnopqrstuvwxyz")


def decode_text(raw: bytes) -> str:
    """Decode a file of unknown origin; what cannot be decoded becomes U+FFFD.

    Args:
        raw: The whole file; a byte order mark decides, then NUL bytes as UTF-16 has them.
    """
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return raw[len(mark) :].decode(encoding, "replace")
    head = raw[:256]
    zeros = (head[0::2].count(0), head[1::2].count(0))
    if max(zeros) * 4 > len(head) and min(zeros) * 8 < max(zeros):
        return raw.decode("utf-16-be" if zeros[0] > zeros[1] else "utf-16-le", "replace")
    return raw.decode("utf-8", "replace")


def check_size(text: str, where: str) -> None:
    """Refuse what is too large to be a report.

    Raises:
        InputError: More than 64 MiB or 300 000 lines.
    """
    if len(text) > MAX_BYTES:
        raise InputError(f"{where}: larger than {MAX_BYTES // 1024**2} MiB")
    if text.count("\n") + text.count("\r") - text.count("\r\n") > _MAX_LINES:
        raise InputError(f"{where}: more than {_MAX_LINES} lines")


def clean_lines(text: str) -> Iterator[str]:
    """Take what a terminal, a web page or a mail programme has added off each line.

    Colours, Markdown quotes and fences, HTML tags and entities, odd spaces and invisible
    characters go; indentation stays. Overlong lines come out empty, so that the numbers of
    lines stay right.
    """
    return (_clean(line) if len(line) <= _limit(line) else "" for line in text.splitlines())


def _limit(line: str) -> int:
    """``pip list --format=json`` is one line, however many packages there are."""
    return _MAX_JSON_LINE if line.lstrip()[:2] == "[{" else _MAX_LINE


def _clean(line: str) -> str:
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if "\0" in line or not line.isascii():
        line = line.translate(_ODD_CHARACTERS)
    if line[:1] in _BEFORE and (prefix := _PREFIX.match(line)):
        line = line[prefix.end() :]
    if ">" in line:
        line = line[quote.end() :] if (quote := _QUOTE.match(line)) else line
        line = _TAG.sub("", line)
    if "&" in line:
        for entity, character in _ENTITIES:
            line = line.replace(entity, character)
    if "`" in line or "~" in line:
        line = "" if _FENCE.fullmatch(line) else line.strip("`")
    if "\\[" in line:  # Markdown editors escape the brackets of [pip3]
        line = line.replace("\\[", "[").replace("\\]", "]")
    return line.rstrip()


def strip_controls(text: str) -> str:
    """The text without colours and without control characters that XML forbids."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text) if "\x1b" in text else text)


def is_blank(line: str) -> bool:
    """Whether a line holds nothing but spaces."""
    return not line.strip()


# An environment is told at the start of a log or around its error, which ends it.
_MOST_HEAD, _MOST_TAIL = 512 * 1024, 256 * 1024


class KeptText:
    """The beginning and the end of a text that passes by in blocks, in bounded memory."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, block: bytes) -> None:
        """Take the next block."""
        room = _MOST_HEAD - len(self._head)
        if room > 0:
            self._head += block[:room]
            block = block[room:]
        self._tail += block[-_MOST_TAIL:]
        if len(self._tail) > 2 * _MOST_TAIL:
            del self._tail[:-_MOST_TAIL]

    @property
    def text(self) -> str:
        """What was kept; lines in the middle of a long text are missing."""
        return (self._head + self._tail[-_MOST_TAIL:]).decode("utf-8", "replace")
