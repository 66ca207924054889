"""Pages and files of web servers: what they answer, what is kept, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.errors import NetworkError
from envguard.web.client import CachedPage, Timeouts, Web, WebCache, cache_folder
from tests.loopback.index import PASSWORD, Trouble

if TYPE_CHECKING:
    from pathlib import Path

    from tests.loopback.index import LoopbackIndex


def torch_page(index: LoopbackIndex) -> str:
    return f"{index.address}/whl/cu126/torch/"


def test_page_is_asked_for_once(index: LoopbackIndex) -> None:
    index.forget()
    web = Web()
    first, second = web.page(torch_page(index)), web.page(torch_page(index))
    assert first is second
    assert first is not None
    assert "torch-2.14.1" in first.text
    assert index.paths == ["/whl/cu126/torch/"]


def test_page_that_did_not_change_is_not_sent_again(index: LoopbackIndex, tmp_path: Path) -> None:
    cache = WebCache(tmp_path)
    first = Web(cache).page(torch_page(index))
    index.forget()
    again = Web(cache).page(torch_page(index))
    assert again == first
    assert index.statuses == [304]


def test_changed_page_replaces_the_kept_one(index: LoopbackIndex, tmp_path: Path) -> None:
    cache = WebCache(tmp_path)
    cache.keep_page(torch_page(index), CachedPage(torch_page(index), '"old"', "old text"))
    page = Web(cache).page(torch_page(index))
    assert page is not None
    assert "torch-2.14.1" in page.text
    offline = Web(cache, is_offline=True).page(torch_page(index))
    assert offline is not None
    assert (offline.text, offline.is_old) == (page.text, True)


def test_offline_asks_nobody(index: LoopbackIndex, tmp_path: Path) -> None:
    index.forget()
    web = Web(WebCache(tmp_path), is_offline=True)
    assert web.page(torch_page(index)) is None
    with pytest.raises(NetworkError, match="offline: whether"):
        web.file(torch_page(index))
    assert index.paths == []


@pytest.mark.parametrize("trouble", [Trouble.MISSING, Trouble.FORBIDDEN])
def test_403_and_404_are_absence(index: LoopbackIndex, trouble: Trouble) -> None:
    with index.trouble("/whl/cu126", trouble):
        assert Web().page(torch_page(index)) is None
        assert Web().file(torch_page(index)) is None


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (Trouble.BROKEN, "it answers 500 Internal Server Error"),
        (Trouble.UNAUTHORIZED, "refuses access: 401"),
        (Trouble.TRUNCATED, "the answer was cut off"),
        (Trouble.DROPPED, "no answer"),
        (Trouble.SLOW, "it does not answer in time"),
        (Trouble.ELSEWHERE, "redirects to http://elsewhere.example/simple/, which is not https"),
        (Trouble.HUGE, "the page is larger than 32 MiB"),
        (Trouble.DRIPPING, "the server is too slow"),
    ],
)
def test_trouble_is_a_network_error_in_one_line(
    index: LoopbackIndex, trouble: Trouble, said: str, tmp_path: Path
) -> None:
    cache = WebCache(tmp_path / "cache")
    web = Web(cache, timeouts=Timeouts(connect_s=2, read_s=1, page_s=1.5))
    with index.trouble("/whl", trouble), pytest.raises(NetworkError) as caught:
        web.page(torch_page(index))
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert not (tmp_path / "cache").exists()


def test_server_that_is_down_is_a_network_error() -> None:
    with pytest.raises(NetworkError, match=r"http://127\.0\.0\.1:9/x/: no answer") as caught:
        Web().page("http://127.0.0.1:9/x/")
    assert "--offline" in caught.value.hint


def test_password_opens_the_page_and_stays_out_of_cache_and_errors(
    index: LoopbackIndex, tmp_path: Path
) -> None:
    web = Web(WebCache(tmp_path))
    page = web.page(f"{index.private_address}/whl/cu126/torch/")
    assert page is not None
    assert page.url == f"{index.address}/private/whl/cu126/torch/"
    kept = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert "torch-2.14.1" in kept
    assert PASSWORD not in kept
    with index.trouble("/private", Trouble.BROKEN), pytest.raises(NetworkError) as caught:
        Web().page(f"{index.private_address}/whl/cu126/torch/")
    assert PASSWORD not in f"{caught.value.message} {caught.value.hint}"


def test_file_is_hashed_while_it_comes_in_and_only_once(
    index: LoopbackIndex, tmp_path: Path
) -> None:
    from tests.loopback.releases import release_files

    served = release_files()["Dao-AILab/causal-conv1d", "v1.6.1.post4"][0]
    url = (
        f"{index.releases}/Dao-AILab/causal-conv1d/releases/download/v1.6.1.post4/"
        f"{served.filename.replace('+', '%2B')}"
    )
    cache = WebCache(tmp_path)
    web = Web(cache)
    file = web.file(url)
    assert file is not None
    assert served.content is not None
    assert (file.size, file.url) == (len(served.content), url)
    assert web.sha256(file, url) == served.sha256
    index.forget()
    assert Web(cache).sha256(file, url) == served.sha256
    assert index.paths == []
    assert Web(cache, is_offline=True).known_digest(url) == served.sha256


def test_address_that_refuses_head_is_asked_for_its_first_byte(index: LoopbackIndex) -> None:
    url = f"{index.address}/files/timm-1.0.20-py3-none-any.whl"
    known = Web().file(url)
    with index.trouble("/files", Trouble.HEADLESS):
        assert Web().file(url) == known
        assert Web().file(url.replace("timm", "tomm")) is None


def test_download_that_ends_early_is_no_digest(index: LoopbackIndex, tmp_path: Path) -> None:
    cache = WebCache(tmp_path)
    web = Web(cache)
    url = f"{index.address}/files/timm-1.0.20-py3-none-any.whl"
    file = web.file(url)
    assert file is not None
    with index.trouble("/files", Trouble.TRUNCATED), pytest.raises(NetworkError, match="cut off"):
        web.sha256(file, url)
    assert cache.last_digest(url) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": 1}', '{"key": "K", "value": {"a": 1}}'])
def test_broken_cache_is_no_cache(tmp_path: Path, text: str) -> None:
    cache = WebCache(tmp_path)
    cache.keep_page("K", CachedPage("u", "e", "t"))
    (path,) = tmp_path.rglob("page-*.json")
    path.write_text(text)
    assert cache.page("K") is None


def test_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = WebCache(tmp_path / "file")
    cache.keep_page("K", CachedPage("u", "e", "t"))
    assert cache.page("K") is None


@pytest.mark.parametrize(
    ("environ", "system", "folder"),
    [
        ({"ENVGUARD_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/x/envguard"),
        ({"HOME": "/h"}, "linux", "/h/.cache/envguard"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Caches/envguard"),
        ({"LOCALAPPDATA": "/l"}, "win32", "/l/envguard/cache"),
        ({}, "linux", None),
    ],
)
def test_cache_lies_where_it_is_usual(
    environ: dict[str, str], system: str, folder: str | None
) -> None:
    found = cache_folder(environ, system)
    assert (found.as_posix() if found else None) == folder
