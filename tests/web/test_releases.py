"""Lists of files of GitHub releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.web.client import Web
from envguard.web.releases import Releases, parse_assets

if TYPE_CHECKING:
    from tests.loopback.index import LoopbackIndex

PAGE = """
<div data-view-component="true" class="Box Box--condensed mt-3"><ul>
<li class="Box-row d-flex"><a href="/Dao-AILab/flash-attention/releases/download/v2.8.3/flash_attn-2.8.3%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl" rel="nofollow">
<span class="Truncate-text text-bold">flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl</span></a>
<span>sha256:4e2f9e39313266b1544b68138b15b91ee6221eccf14f7902b7c6620351340810</span>
<clipboard-copy value="sha256:4e2f9e39313266b1544b68138b15b91ee6221eccf14f7902b7c6620351340810"></clipboard-copy></li>
<li class="Box-row d-flex"><a href="/Dao-AILab/flash-attention/releases/download/v2.8.3/other.whl">other</a></li>
<li><a href="/Dao-AILab/flash-attention/archive/refs/tags/v2.8.3.zip">Source code</a></li>
</ul></div>
"""  # noqa: E501 - as the page has it


def test_files_and_digests_are_read() -> None:
    assert parse_assets(PAGE) == {
        "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl": (
            "4e2f9e39313266b1544b68138b15b91ee6221eccf14f7902b7c6620351340810"
        ),
        "other.whl": "",
    }


def test_page_without_files_lists_none() -> None:
    assert parse_assets("<html>sign in</html>") == {}


def test_release_is_asked_about_once(index: LoopbackIndex) -> None:
    releases = Releases(Web, index.releases)
    url = f"{index.releases}/Dao-AILab/flash-attention/releases/expanded_assets/v2.8.3"
    index.forget()
    assert len(releases.listing(url)) == 19
    assert releases.listing(url) == releases.listing(url)
    assert releases.listing(f"{url}.post9") == {}
    assert releases.file(f"{index.releases}/nothing.whl") is None
    assert releases.file(f"{index.releases}/nothing.whl") is None
    assert len(index.paths) == 3
