"""Addresses of indexes, and what of them may be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.errors import InputError
from envguard.facts.versions import CPU, Backend
from envguard.lock.package_index import IndexSettings, is_same_index, make_index_settings
from envguard.redaction import clean_text, strip_credentials


def test_backend_is_filled_into_the_torch_index() -> None:
    settings = IndexSettings()
    url = settings.torch_url(Backend.parse("cu126"))
    assert url == "https://download.pytorch.org/whl/cu126"
    assert not settings.is_mirror


def test_mirror_without_placeholder_serves_every_backend_from_one_address() -> None:
    settings = make_index_settings("https://mirror.example/torch_stable.html", None)
    assert settings.torch_url(CPU) == "https://mirror.example/torch_stable.html"
    assert settings.is_flat
    assert settings.is_mirror
    assert not settings.has_backend


@pytest.mark.parametrize(
    ("url", "stripped"),
    [
        ("https://u:p@index.example/simple/", "https://index.example/simple/"),
        ("https://u:p%40ss@index.example:8080/x", "https://index.example:8080/x"),
        ("https://tok@index.example/a.whl?token=abc&v=1", "https://index.example/a.whl?v=1"),
        (
            "https://index.example/a.whl?X-Amz-Signature=00ff&X-Amz-Credential=me",
            "https://index.example/a.whl",
        ),
        (
            "https://index.example/a%2Bcu126.whl#sha256=1",
            "https://index.example/a%2Bcu126.whl#sha256=1",
        ),
        ("file:///srv/wheels", "file:///srv/wheels"),
    ],
)
def test_credentials_are_stripped_from_addresses(url: str, stripped: str) -> None:
    assert strip_credentials(url) == stripped


def test_credentials_are_redacted_inside_a_text() -> None:
    text = "failed for https://me:s3cret@index.example/simple/torch/ and http://x@b/?token=s3cret"
    assert "s3cret" not in clean_text(text)
    assert "index.example/simple/torch/" in clean_text(text)


def test_indexes_are_the_same_whatever_their_credentials() -> None:
    assert is_same_index("https://u:p@i.example/whl/cu126/", "https://i.example/whl/cu126")
    assert not is_same_index("https://i.example/whl/cu126", "https://i.example/whl/cu128")


@pytest.mark.parametrize(
    ("torch", "default", "named"),
    [
        ("mirror.example/whl", None, "--torch-index"),
        ("https://mirror.example/{version}", None, "--torch-index"),
        ("https://mirror.example/{backend}", "index.example/simple", "--index-url"),
        ("https://mirror.example/{backend}", "ftp://u:s3cret@index.example", "--index-url"),
    ],
)
def test_what_is_no_address_is_refused(torch: str, default: str | None, named: str) -> None:
    with pytest.raises(InputError, match=named) as caught:
        make_index_settings(torch, default)
    assert "s3cret" not in caught.value.message


WORD = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/@:?#%[]\\"), min_size=9
)


@given(user=WORD, password=WORD)
def test_no_user_or_password_survives(user: str, password: str) -> None:
    url = f"https://{user}:{password}@index.example/simple/torch/?page=2"
    assert strip_credentials(url) == "https://index.example/simple/torch/?page=2"
    said = clean_text(f"cannot read {url} (twice: {url})")
    assert user not in said
    assert password not in said
