from __future__ import annotations

import re
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import TYPE_CHECKING, ClassVar

import pytest

from envguard.binary.remote import printable, read_remote_wheel
from envguard.errors import NetworkError
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from collections.abc import Iterator

METADATA = """Metadata-Version: 2.1
Name: torch
Version: 2.99.0
Requires-Dist: filelock
Requires-Dist: nvidia-cublas-cu13==13.0.0; platform_system == "Linux"
Requires-Dist: triton==3.9.0

Name: not-this-one
"""
BIG = 3 * 1024 * 1024


def wheel_bytes() -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("torch/lib/libtorch_cuda.so", b"\x7fELF" + bytes(BIG))
        archive.writestr("torch/__init__.py", b"")
        archive.writestr("torch/_C.pyd", b"MZ")
        archive.writestr("torch-2.99.0.dist-info/METADATA", METADATA)
        archive.writestr("torch-2.99.0.dist-info/WHEEL", "Tag: cp311-cp311-linux_x86_64\n")
    return buffer.getvalue()


class Server(BaseHTTPRequestHandler):
    """Serves one wheel by ranges; the path names what it does wrong."""

    content: ClassVar[bytes] = wheel_bytes()
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Range", ""))
        match self.path.partition("?")[0]:
            case "/whole.whl":
                self.answer(200, self.content)
            case "/gone.whl":
                self.answer(404, b"")
            case "/moved.whl":
                self.send_response(302)
                self.send_header("Location", "/good.whl")
                self.send_header("Content-Length", "0")
                self.end_headers()
            case "/circle.whl":
                self.send_response(302)
                self.send_header("Location", "/circle.whl")
                self.send_header("Content-Length", "0")
                self.end_headers()
            case "/text.whl":
                self.part(b"this is no wheel" * 100)
            case "/short.whl":
                self.part(self.content, lie=10)
            case "/broken.whl":
                self.part(self.content, missing=10)
            case "/norange.whl":
                self.answer(206, b"xx")
            case _:
                self.part(self.content)

    def part(self, content: bytes, lie: int = 0, missing: int = 0) -> None:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"])
        assert match
        if match[1]:
            start, stop = int(match[1]), min(int(match[2]) + 1, len(content))
        else:
            start, stop = max(0, len(content) - int(match[2])), len(content)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.send_header("Content-Length", str(stop - start - lie))
        self.end_headers()
        self.wfile.write(content[start : stop - lie - missing])

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Say nothing."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_members_and_metadata_come_by_ranges(base: str) -> None:
    Server.asked.clear()
    found = read_remote_wheel(f"{base}/good.whl")
    assert [file.path for file in found.files] == ["torch/_C.pyd", "torch/lib/libtorch_cuda.so"]
    gap = found.files[1].gaps[0]
    assert gap.reason is GapReason.NOT_ASKED
    assert gap.detail.startswith("3.0 MiB of the wheel would have to be downloaded")
    assert found.files[1].cubin is None
    assert found.notes[0] == "torch 2.99.0 (cp311-cp311-linux_x86_64), 3.0 MiB"
    assert found.notes[1] == "requires nvidia-cublas-cu13==13.0.0, triton==3.9.0"
    assert "2 compiled files would take 3.0 MiB" in found.notes[2]
    assert Server.asked == ["bytes=-262144"]


def test_a_redirect_is_followed(base: str) -> None:
    assert len(read_remote_wheel(f"{base}/moved.whl").files) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("whole.whl", "does not send parts of files"),
        ("gone.whl", "the server answered 404"),
        ("circle.whl", "no answer"),
        ("text.whl", "not a readable wheel"),
        ("short.whl", "cut off"),
        ("broken.whl", "cut off"),
        ("norange.whl", "the server answered 206"),
    ],
)
def test_a_server_that_does_not_help_is_named(base: str, name: str, words: str) -> None:
    with pytest.raises(NetworkError, match=words) as caught:
        read_remote_wheel(f"{base}/{name}?token=secret")
    assert "secret" not in caught.value.message


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(NetworkError, match="no answer"):
        read_remote_wheel("http://127.0.0.1:9/x.whl")


def test_secrets_in_a_url_are_not_shown() -> None:
    url = "https://user:password@index.example:8443/a/b.whl?token=1#sha256=2"
    assert printable(url) == "https://index.example:8443/a/b.whl"
