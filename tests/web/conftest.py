"""The server that the client's tests ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.loopback.index import LoopbackIndex

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def index() -> Iterator[LoopbackIndex]:
    with LoopbackIndex() as server:
        yield server
