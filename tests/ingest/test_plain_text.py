"""None"""

from __future__ import annotations

import codecs

import pytest

from envguard.errors import InputError
from envguard.ingest.plain_text import check_size, clean_lines, decode_text


@pytest.mark.parametrize(
    "raw",
    [
        "Grüße\n".encode(),
        codecs.BOM_UTF8 + "Grüße\n".encode(),
        codecs.BOM_UTF16_LE + "Grüße\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Grüße\n".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "Grüße\n".encode("utf-32-le"),
        ("Grüße" * 40 + "\n").encode("utf-16-le"),
        ("Grüße" * 40 + "\n").encode("utf-16-be"),
    ],
)
def test_encodings_are_told(raw: bytes) -> None:
    assert decode_text(raw).startswith("Grüße")
    assert decode_text(raw).endswith("\n")


def test_what_cannot_be_decoded_is_replaced() -> None:
    assert decode_text(b"torch==2.1 \xff\xfe\x00") == "torch==2.1 \ufffd\ufffd\x00"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\x1b[1;32mOK\x1b[0m", "OK"),
        ("\x1b]0;title\x07text", "text"),
        ("> > quoted", "quoted"),
        (">quoted", "quoted"),
        ("```text", ""),
        ("~~~", ""),
        ("`inline`", "inline"),
        ("<details><summary>env</summary>x</details>", "envx"),
        ("a &gt;= b &amp; c", "a >= b & c"),
        ("\\[pip3\\] torch==2.1", "[pip3] torch==2.1"),
        ("a\u00a0b\u200b", "a b"),
        ("    indented  ", "    indented"),
        ("| <unknown> |", "| <unknown> |"),
    ],
)
def test_what_pages_and_terminals_add_goes(line: str, expected: str) -> None:
    assert list(clean_lines(line)) == [expected]


def test_overlong_lines_come_out_empty_and_numbers_stay() -> None:
    assert list(clean_lines("a\n" + "x" * 20_000 + "\nb\n")) == ["a", "", "b"]


def test_every_kind_of_line_end_ends_a_line() -> None:
    assert list(clean_lines("a\r\nb\rc\nd")) == ["a", "b", "c", "d"]


def test_more_lines_than_any_report_has_are_refused() -> None:
    with pytest.raises(InputError, match=r"big\.txt: more than 300000 lines"):
        check_size("\n" * 2_000_001, "big.txt")
