from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import zipfile
from pathlib import Path

import pytest

from envguard.errors import DocumentError
from envguard.matrix.release import (
    DataRelease,
    pack_release,
    parse_release,
    require_safe,
    unpack_release,
)

ROOT = Path(__file__).resolve().parents[2]
URL = "https://data.example/releases/release.json"
SHA = "a" * 64
DOCUMENT = {
    "schema_version": 1,
    "data_version": "2026.12.15",
    "archive": "envguard-matrix-2026.12.15.zip",
    "sha256": SHA,
    "size": 1000,
}


def parse(**changes: object) -> DataRelease:
    return parse_release(json.dumps({**DOCUMENT, **changes}), URL)


def zipped(**members: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def described(raw: bytes) -> DataRelease:
    digest = hashlib.sha256(raw).hexdigest()
    return DataRelease("2026.12.15", "https://data.example/x.zip", digest, len(raw))


def test_a_document_names_an_archive_beside_it() -> None:
    assert parse() == DataRelease(
        "2026.12.15",
        "https://data.example/releases/envguard-matrix-2026.12.15.zip",
        SHA,
        1000,
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"schema_version": 2}, "schema_version 2 is not the one this envguard reads"),
        ({"data_version": "soon"}, "data_version: 'soon' has not the form of one"),
        ({"sha256": "A" * 64}, "sha256: "),
        ({"size": 0}, "size: 0 is no size"),
        ({"size": 10**9}, "size: 1000000000 is no size"),
        ({"size": True}, "size: True is no size"),
        ({"archive": ""}, "archive: '' has not the form of one"),
        ({"archive": "http://data.example/x.zip"}, "only https addresses"),
        ({"archive": "file:///etc/passwd"}, "only https addresses"),
        ({"archive": "https://[x"}, "is no address"),
    ],
)
def test_a_document_of_another_form_is_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        parse(**changes)


@pytest.mark.parametrize("text", ["", "[]", "null", "<html>", '"x"', "[" * 100_000])
def test_a_text_that_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=r"release\.json"):
        parse_release(text, URL)


@pytest.mark.parametrize("url", ["https://a.example/x", "http://127.0.0.1:80/x", "http://[::1]/x"])
def test_https_and_this_machine_are_safe(url: str) -> None:
    require_safe(url)


@pytest.mark.parametrize(
    "url", ["http://a.example/x", "ftp://a.example/x", "x", "file:///x", "", "https://"]
)
def test_other_addresses_are_not(url: str) -> None:
    with pytest.raises(DocumentError, match="only https"):
        require_safe(url)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(DocumentError, match="is no address"):
        require_safe("https://[x")


def test_tables_survive_packing_and_unpacking(tmp_path: Path) -> None:
    raw, text = pack_release(ROOT / "compat_matrix", "x.zip")
    release = parse_release(text, "https://data.example/release.json")
    unpack_release(raw, release, tmp_path)
    source = ROOT / "compat_matrix"
    expected = {p.relative_to(source) for p in source.rglob("*.toml")}
    assert {p.relative_to(tmp_path) for p in tmp_path.rglob("*.toml")} == expected
    assert all((tmp_path / p).read_bytes() == (source / p).read_bytes() for p in expected)


def test_the_same_tables_give_the_same_archive() -> None:
    folder = ROOT / "compat_matrix"
    assert pack_release(folder, "x.zip") == pack_release(folder, "x.zip")


def test_tables_without_a_version_are_not_packed(tmp_path: Path) -> None:
    (tmp_path / "manifest.toml").write_text("schema_version = 1\n")
    with pytest.raises(DocumentError, match="data_version: is missing"):
        pack_release(tmp_path, "x.zip")


def test_an_archive_with_another_hash_is_refused(tmp_path: Path) -> None:
    raw = zipped(**{"manifest.toml": "x = 1"})
    release = described(raw)
    with pytest.raises(DocumentError, match="is not what its document says"):
        unpack_release(raw + b"0", release, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["../evil.toml", "/etc/evil.toml", "packages/../../x.toml", "run.py", "a/b.toml", "UP.toml"],
)
def test_an_archive_that_holds_something_else_is_refused(tmp_path: Path, name: str) -> None:
    raw = zipped(**{"manifest.toml": "x = 1", name: "evil"})
    with pytest.raises(DocumentError, match="is no table"):
        unpack_release(raw, described(raw), tmp_path)
    assert list(tmp_path.rglob("*.toml")) == []


def test_an_archive_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="not a readable archive"):
        unpack_release(b"PK nothing", described(b"PK nothing"), tmp_path)


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    raw = bytearray(zipped(**{"manifest.toml": "x = 1"}))
    raw[raw.index(b"PK\x01\x02") + 8] |= 1  # the flag of encryption, in the directory
    raw[6] |= 1  # and at the file
    with pytest.raises(DocumentError, match=r"not a readable archive: .*encrypted"):
        unpack_release(bytes(raw), described(bytes(raw)), tmp_path)


@pytest.mark.parametrize("seed", range(300))
def test_an_archive_with_a_byte_changed_is_read_or_refused(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - which byte, not a secret
    raw = bytearray(zipped(**{"manifest.toml": "x = 1\n" * 40, "packages/a.toml": "y = 2"}))
    for _ in range(draw.randint(1, 3)):
        raw[draw.randrange(len(raw))] = draw.randrange(256)
    with contextlib.suppress(DocumentError):
        unpack_release(bytes(raw), described(bytes(raw)), tmp_path)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.toml", b"#" * (129 * 1024 * 1024))
    raw = buffer.getvalue()
    assert len(raw) < 1024 * 1024
    with pytest.raises(DocumentError, match="unpacks to more than"):
        unpack_release(raw, described(raw), tmp_path)
