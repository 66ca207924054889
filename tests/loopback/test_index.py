"""The loopback index serves what an index serves, and misbehaves when told to."""

from __future__ import annotations

import hashlib
import io
import json
import urllib.error
import urllib.request
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.loopback.index import LoopbackIndex, Trouble
from tests.loopback.world import recorded_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def index() -> Iterator[LoopbackIndex]:
    with LoopbackIndex() as server:
        yield server


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback
        body: bytes = answer.read()
        return body


def test_torch_page_states_recorded_hashes_of_published_wheels(index: LoopbackIndex) -> None:
    page = read(f"{index.address}/whl/cu126/torch/").decode()
    assert (
        "torch-2.8.0%2Bcu126-cp312-cp312-manylinux_2_28_x86_64.whl"
        "#sha256=ce6e6a1f4803ad62d1fe51cec3fe5ca14bcd8bc7cace7b09d5590f8147fa16ad" in page
    )


def test_recorded_wheels_are_sha256_and_have_names() -> None:
    for (_, filename), sha256 in recorded_hashes().items():
        assert filename.endswith(".whl")
        assert len(bytes.fromhex(sha256)) == 32


def test_invented_wheel_has_the_hash_that_its_page_states(index: LoopbackIndex) -> None:
    document = json.loads(read(f"{index.address}/simple/timm/"))
    (file,) = document["files"]
    content = read(f"{index.address}{file['url']}")
    assert hashlib.sha256(content).hexdigest() == file["hashes"]["sha256"]
    metadata = read(f"{index.address}{file['url']}.metadata")
    assert hashlib.sha256(metadata).hexdigest() == file["core-metadata"]["sha256"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.read("timm-1.0.20.dist-info/METADATA") == metadata


@pytest.mark.parametrize(
    ("trouble", "status"),
    [(Trouble.MISSING, 404), (Trouble.FORBIDDEN, 403), (Trouble.BROKEN, 500)],
)
def test_trouble_is_answered_below_its_prefix_only(
    index: LoopbackIndex, trouble: Trouble, status: int
) -> None:
    with index.trouble("/whl", trouble):
        with pytest.raises(urllib.error.HTTPError) as caught:
            read(f"{index.address}/whl/cu126/torch/")
        caught.value.close()
        assert caught.value.code == status
        assert b"timm" in read(f"{index.address}/simple/timm/")
    assert b"torch-2.14.1" in read(f"{index.address}/whl/cu126/torch/")


def test_private_tree_wants_the_password(index: LoopbackIndex) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        read(f"{index.address}/private/simple/timm/")
    caught.value.close()
    assert caught.value.code == 401


def test_backend_that_is_not_published_is_forbidden_like_on_the_real_index(
    index: LoopbackIndex,
) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        read(f"{index.address}/whl/cu999/torch/")
    caught.value.close()
    assert caught.value.code == 403
