from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.ingest.lock_toml import Table, heading_lines, parse_toml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = ", r"x\.lock: not valid TOML: invalid value \(at end of document\)"),
        ("a = 1\nb = [\n", r"x\.lock: not valid TOML"),
        ("a = " + "[" * 100_000, r"x\.lock: not usable TOML: maximum recursion depth"),
        ("a = " + "1" * 10_000, r"x\.lock: not usable TOML: exceeds the limit"),
        ("a" + ".a" * 10_000 + " = 1", r"x\.lock:1: a line that no lockfile has"),
        ("x = 1\ny = {a" + ".a" * 10_000 + " = 1}", r"x\.lock:2: a line that no lockfile has"),
    ],
)
def test_damage_and_bombs_are_one_error(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_toml(text, "x.lock")


def test_long_lines_of_addresses_are_read() -> None:
    urls = ", ".join('"https://index.example/a.b.c.whl"' for _ in range(2000))
    assert len(parse_toml(f"urls = [{urls}]", "x.lock")["urls"]) == 2000


def test_headings_are_found_by_line() -> None:
    text = "a = 1\n[[package]]\nname = 'x'\n  [[ package ]]\n[[package.wheels]]\n"
    assert heading_lines(text, "package") == (2, 4)


def test_lines_are_left_out_where_they_do_not_match_the_entries() -> None:
    table = Table({"package": [{"name": "x"}]}, "x.lock")
    (entry,) = table.tables("package", (3, 9))
    assert entry.line is None
    assert entry.place == "x.lock.package[0]"
