from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.matrix.packages import PackageTable
from envguard.matrix.reading import Document
from envguard.web.registry import Registry, python_for, verify_table, verify_tables
from tests.web.test_registry import index

__all__ = ["index"]  # a fixture

ROW: dict[str, object] = {
    "version": "1.2.0",
    "python": ">=3.8",
    "pythons": "py3",
    "requires": {"torch": "==2.8.0"},
    "source": "s",
    "confidence": "metadata",
}


def table(*rows: dict[str, object], **scalars: object) -> PackageTable:
    data = {
        "name": "demo-wheel",
        "releases": "all",
        **scalars,
        "release": list(rows),
        "sources": {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}},
    }
    return PackageTable(Document("packages/demo-wheel.toml", data))


def test_a_table_that_agrees_has_no_line(index: str) -> None:
    assert list(verify_table(table(ROW), Registry(index), None)) == []


def test_every_drift_is_a_line(index: str) -> None:
    row = {**ROW, "python": ">=3.9", "requires": {"torch": "==2.7.0"}}
    assert list(verify_table(table(row), Registry(index), 1)) == [
        "packages/demo-wheel.toml: 1.2.0: python: '>=3.9', found '>=3.8'",
        "packages/demo-wheel.toml: 1.2.0: requires.torch: '==2.7.0', found '==2.8.0'",
    ]


def test_a_release_without_a_row_and_one_without_a_release(index: str) -> None:
    missing, unread = list(verify_table(table({**ROW, "version": "1.1.0"}), Registry(index), None))
    assert missing == "packages/demo-wheel.toml: 1.2.0: row: '', found 'published, has no row'"
    assert unread.startswith("packages/demo-wheel.toml: 1.1.0: not read: ")


def test_source_archives_are_only_counted(index: str) -> None:
    row = {**ROW, "requires": {"torch": "==2.7.0"}}
    assert list(verify_table(table(row, source_only=True), Registry(index), None)) == []


def test_what_the_registry_does_not_have_is_not_asked_for() -> None:
    unlisted = table(ROW, unlisted=True)
    assert list(verify_table(unlisted, Registry("http://127.0.0.1:9/simple"), None)) == []


def test_tables_are_asked_side_by_side_and_told_in_their_order(index: str) -> None:
    rows = [{**ROW, "python": f">=3.{minor}"} for minor in (9, 8, 10)]
    assert list(verify_tables(map(table, rows), Registry(index), None)) == [
        "packages/demo-wheel.toml: 1.2.0: python: '>=3.9', found '>=3.8'",
        "packages/demo-wheel.toml: 1.2.0: python: '>=3.10', found '>=3.8'",
    ]


@pytest.mark.parametrize(
    ("fields", "python"),
    [
        ({"pythons": "cp39 cp310 cp313t"}, "3.9"),
        ({"pythons": "cp310-abi3"}, "3.10"),
        ({"pythons": "py3", "python": ">=3.11"}, "3.11"),
        ({"pythons": "py3", "python": "<3.13,>=3.9"}, "3.9"),
    ],
)
def test_a_python_that_a_release_has_a_wheel_for(fields: dict[str, object], python: str) -> None:
    release = table({**ROW, **fields}).release(Version("1.2.0"))
    assert release is not None
    assert python_for(release) == python
