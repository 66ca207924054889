"""A Simple API server (PEP 503, 658, 691) that can be told to misbehave."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from tests.loopback.recorded import recorded_pages
from tests.loopback.releases import release_files
from tests.loopback.world import default_pages, further_pages, torch_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.loopback.files import Served

USER, PASSWORD = "reader", "s3cret-Passw0rd"
_JSON = "application/vnd.pypi.simple.v1+json"


class Trouble(Enum):
    """Ways to misbehave."""

    MISSING = 404
    FORBIDDEN = 403
    UNAUTHORIZED = 401
    BROKEN = 500
    SLOW = "slow"
    TRUNCATED = "truncated"
    DROPPED = "dropped"
    GARBAGE = "garbage"
    ELSEWHERE = "elsewhere"  # a redirect to another server, over plain http
    HUGE = "huge"  # 50 MB of page
    REPLACED = "replaced"  # another file than the one announced
    DRIPPING = "dripping"  # a byte now and then
    HEADLESS = "headless"  # HEAD is refused, GET is not
    UNLISTED = "unlisted"  # no list of a release's files


@dataclass
class State:
    """What the handler threads share."""

    troubles: dict[str, Trouble] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class LoopbackIndex:
    """The server.

    Addresses: ``/whl/BACKEND/`` (PyTorch index, HTML), ``/simple/`` (default index, JSON),
    ``/flat/BACKEND/`` and ``/flat/torch_stable.html`` (one page of links), ``/all/`` (one index
    for everything, torch from cu126), ``/further/`` (a team's own), and all of them once more
    under ``/private``, for those who know the password.
    """

    def __init__(self) -> None:
        self._state = State()
        handler = type("Handler", (_Handler,), {"state": self._state})
        self._server = _QuietServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def private_address(self) -> str:
        """Under ``/private``, with the credentials in the address."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self._server.server_port}/private"

    @property
    def torch(self) -> str:
        """The template of the PyTorch index."""
        return f"{self.address}/whl/{{backend}}"

    @property
    def default(self) -> str:
        return f"{self.address}/simple"

    @property
    def releases(self) -> str:
        """Where GitHub is."""
        return f"{self.address}/gh"

    @property
    def paths(self) -> list[str]:
        """Paths asked for so far."""
        with self._state.lock:
            return [path for path, _ in self._state.requests]

    @property
    def statuses(self) -> list[int]:
        """Statuses answered so far."""
        with self._state.lock:
            return list(self._state.statuses)

    def forget(self) -> None:
        """Begin a new list of requests."""
        with self._state.lock:
            self._state.requests.clear()
            self._state.statuses.clear()

    @contextlib.contextmanager
    def trouble(self, prefix: str, trouble: Trouble) -> Iterator[None]:
        """Misbehave for all paths that begin with a prefix."""
        self._state.troubles[prefix] = trouble
        try:
            yield
        finally:
            del self._state.troubles[prefix]

    def __enter__(self) -> LoopbackIndex:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _QuietServer(ThreadingHTTPServer):
    """Clients that hang up are nothing to talk about."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


class _Handler(BaseHTTPRequestHandler):
    state: State
    prefix = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.prefix = ""
        path = unquote(self.path.split("?")[0])
        with self.state.lock:
            self.state.requests.append((path, self.headers.get("Authorization", "")))
        trouble = next((t for p, t in self.state.troubles.items() if path.startswith(p)), None)
        is_over = trouble is Trouble.HEADLESS and self.command == "GET"
        if trouble is not None and not is_over:
            self._misbehave(trouble)
            return
        if path.startswith("/private/"):
            if not self._knows_password():
                self._reply(401, b"who are you", "text/plain")
                return
            path, self.prefix = path.removeprefix("/private"), "/private"
        self._serve(path)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _knows_password(self) -> bool:
        expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {expected}"

    def _misbehave(self, trouble: Trouble) -> None:
        match trouble:
            case Trouble.SLOW:
                time.sleep(20)
                self._reply(503, b"late", "text/plain")
            case Trouble.TRUNCATED:
                self._reply(200, b"<html><body><a href=", "text/html", length=100_000)
                self.close_connection = True
            case Trouble.DROPPED:
                self.close_connection = True
            case Trouble.GARBAGE:
                self._reply(200, b"\x00\xff not an index \xfe", _JSON)
            case Trouble.ELSEWHERE:
                self._redirect("http://elsewhere.example/simple/")
            case Trouble.HUGE:
                link = b'<a href="x-1.0-py3-none-any.whl">x</a>\n'
                self._reply(200, link * (50_000_000 // len(link)), "text/html")
            case Trouble.DRIPPING:
                self._drip()
            case Trouble.REPLACED:
                self._reply(200, b"not the wheel that it was", "application/octet-stream")
            case Trouble.HEADLESS:
                self._reply(403, b"this address is for GET", "text/plain")
            case Trouble.UNLISTED:
                self._reply(404, b"no list", "text/plain")
            case _:
                self._reply(int(trouble.value), b"no", "text/plain")

    def _serve(self, path: str) -> None:
        parts = [part for part in path.split("/") if part]
        match parts:
            case ["whl", backend, name] if name.endswith((".whl", ".metadata")):
                self._file(torch_pages().get(backend, {}), name)
            case ["whl", backend, name] if name in torch_pages().get(backend, {}):
                self._page(torch_pages()[backend][name], f"{self.prefix}/whl/{backend}")
            case ["whl", *_]:
                self._reply(403, b"<Error>AccessDenied</Error>", "application/xml")
            case ["flat", backend] if backend in torch_pages():
                files = [f for page in torch_pages()[backend].values() for f in page]
                self._page(files, f"{self.prefix}/whl/{backend}")
            case ["flat", "torch_stable.html"]:
                self._everything()
            case ["simple", name] if name in default_pages():
                self._json(name, default_pages()[name])
            case ["all", name] if name in torch_pages()["cu126"] and name.startswith("t"):
                self._page(torch_pages()["cu126"][name], f"{self.prefix}/whl/cu126")
            case ["all", name] if name in default_pages():
                self._json(name, default_pages()[name])
            case ["recorded", *folder, name] if name.endswith((".whl", ".metadata")):
                self._file(recorded_pages().get("/".join(folder), {}), name)
            case ["recorded", *folder, name] if name in recorded_pages().get("/".join(folder), {}):
                place = "/".join(folder)
                self._page(recorded_pages()[place][name], f"{self.prefix}/recorded/{place}")
            case ["further", name] if name.endswith((".whl", ".metadata")):
                self._file(further_pages(), name)
            case ["further", name] if name in further_pages():
                self._page(further_pages()[name], f"{self.prefix}/further")
            case ["files", name]:
                self._file(default_pages(), name)
            case ["gh", owner, name, "releases", "expanded_assets", tag]:
                self._assets(f"{owner}/{name}", tag)
            case ["gh", owner, name, "releases", "download", tag, file]:
                self._redirect(f"/gh/assets/{quote(f'{owner}/{name}/{tag}/{file}')}")
            case ["gh", "assets", owner, name, tag, file]:
                self._file({"": release_files().get((f"{owner}/{name}", tag), [])}, file)
            case _:
                self._reply(404, b"not here", "text/plain")

    def _page(self, files: list[Served], folder: str) -> None:
        links = "".join(_link(file, folder) for file in files)
        self._reply(200, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")

    def _everything(self) -> None:
        links = "".join(
            _link(file, f"/whl/{backend}")
            for backend, pages in torch_pages().items()
            for name in ("torch", "torchvision", "torchaudio", "triton")
            for file in pages[name]
        )
        self._reply(200, f"<html><body>{links}</body></html>".encode(), "text/html")

    def _json(self, name: str, files: list[Served]) -> None:
        document = {
            "meta": {"api-version": "1.1"},
            "name": name,
            "files": [_entry(f, self.prefix) for f in files],
        }
        self._reply(200, json.dumps(document).encode(), _JSON)

    def _file(self, pages: dict[str, list[Served]], name: str) -> None:
        wanted = name.removesuffix(".metadata")
        found = next((f for page in pages.values() for f in page if f.filename == wanted), None)
        if found is None:
            self._reply(404, b"no such file", "text/plain")
        elif name.endswith(".metadata"):
            self._reply(200, found.metadata.encode(), "text/plain")
        elif found.content is None:
            self._reply(404, b"only its name, hash and metadata are known here", "text/plain")
        else:
            self._reply(200, found.content, "application/octet-stream")

    def _assets(self, repository: str, tag: str) -> None:
        files = release_files().get((repository, tag))
        if files is None:
            self._reply(404, b"no such release", "text/plain")
            return
        rows = "".join(_asset(repository, tag, file) for file in files)
        self._reply(200, f"<div>{rows}</div>".encode(), "text/html")

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(20):
                self.wfile.write(b" ")
                time.sleep(0.5)
        self.close_connection = True

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _reply(self, status: int, body: bytes, kind: str, *, length: int | None = None) -> None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if status == 200 and self.headers.get("If-None-Match") == etag:
            status, body, length = 304, b"", None
        with self.state.lock:
            self.state.statuses.append(status)
        self.send_response(status)
        if status in {200, 304}:
            self.send_header("ETag", etag)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length or len(body)))
        is_kept = status in {200, 304}
        self.send_header("Cache-Control", "max-age=600" if is_kept else "no-store")
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest's output is for the tests."""


def _link(file: Served, folder: str) -> str:
    href = f"{folder}/{quote(file.filename)}#sha256={file.sha256}"
    core = f' data-core-metadata="sha256={file.metadata_sha256}"' if file.metadata else ""
    return f'<a href="{href}"{core}>{file.filename}</a><br>\n'


def _entry(file: Served, prefix: str) -> dict[str, object]:
    entry: dict[str, object] = {
        "filename": file.filename,
        "url": f"{prefix}/files/{quote(file.filename)}",
        "hashes": {"sha256": file.sha256},
        "requires-python": file.requires_python,
        "upload-time": file.uploaded,
    }
    if file.content is not None:
        entry["size"] = len(file.content)
    if file.metadata:
        entry["core-metadata"] = {"sha256": file.metadata_sha256}
    return entry


def _asset(repository: str, tag: str, file: Served) -> str:
    """A row as GitHub writes it: the link, then the digest."""
    href = f"/{repository}/releases/download/{tag}/{quote(file.filename)}"
    digest = f'<clipboard-copy value="sha256:{file.sha256}"></clipboard-copy>'
    return f'<li><a href="{href}">{file.filename}</a>{digest if file.is_digest_told else ""}</li>\n'
