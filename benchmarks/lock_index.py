"""A default index as heavy as the real one, beside the loopback index for torch.

Names, requirements and the weight of the pages are those of a real resolution; the files are
invented. Answers can be delayed, and pages can be due for revalidation at every request, as
PyPI's are ten minutes after they were read.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tests.loopback.files import Served, wheel
from tests.loopback.world import default_pages

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORLD = Path(__file__).with_name("lock_world.json")
_JSON = "application/vnd.pypi.simple.v1+json"
# What others bring along is not bounded: only the newest release of each package counts.
_OLDEST = "0.0.{}"


def load_pages() -> Mapping[str, list[Served]]:
    """Project name -> files; NVIDIA's packages as the loopback index has them."""
    rows = json.loads(_WORLD.read_text(encoding="utf-8"))["packages"]
    pages = {name: files for name, files in default_pages().items() if name != "torch"}
    return {**pages, **{row["name"]: _files(row) for row in rows}}


def _files(row: Mapping[str, object]) -> list[Served]:
    name, version = str(row["name"]), str(row["version"])
    requires = row["requires"]
    newest = wheel(name, version, requires=tuple(requires) if isinstance(requires, list) else ())
    old = wheel(name, "0.0.0")
    count = int(str(row["files"])) - 1
    filename = old.filename.replace("-0.0.0-", "-{}-")
    return [
        newest,
        *(
            Served(filename.format(_OLDEST.format(i)), old.sha256, old.metadata)
            for i in range(count)
        ),
    ]


class HeavyIndex:
    """The server.

    Args:
        delay_s: How long it takes to answer.
        is_fresh: Pages need not be asked for again within ten minutes.
    """

    def __init__(self, *, delay_s: float = 0.0, is_fresh: bool = True) -> None:
        pages = load_pages()
        bodies = {name: _body(name, files) for name, files in pages.items()}
        metadata = {f"{f.filename}.metadata": f.metadata for p in pages.values() for f in p[:1]}
        handler = type(
            "Handler",
            (_Handler,),
            {"bodies": bodies, "metadata": metadata, "delay_s": delay_s, "is_fresh": is_fresh},
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def default(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def __enter__(self) -> HeavyIndex:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


def _body(name: str, files: list[Served]) -> bytes:
    entries = [
        {
            "filename": file.filename,
            "url": f"/files/{file.filename}",
            "hashes": {"sha256": file.sha256},
            "requires-python": file.requires_python,
            "upload-time": file.uploaded,
            "size": 100_000,
            "core-metadata": {"sha256": file.metadata_sha256},
        }
        for file in files
    ]
    return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": entries}).encode()


class _Handler(BaseHTTPRequestHandler):
    bodies: Mapping[str, bytes] = {}
    metadata: Mapping[str, str] = {}
    delay_s = 0.0
    is_fresh = True
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer after the delay."""
        time.sleep(self.delay_s)
        kind, name = [part for part in unquote(self.path).split("/") if part][:2]
        if kind == "simple" and name in self.bodies:
            lasting = "max-age=600" if self.is_fresh else "max-age=0"
            self._reply(self.bodies[name], lasting, _JSON)
        elif name in self.metadata:
            self._reply(self.metadata[name].encode(), "max-age=365000000, immutable", "text/plain")
        else:
            self.send_error(404)

    def _reply(self, body: bytes, lasting: str, kind: str) -> None:
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        is_known = self.headers.get("If-None-Match") == etag
        self.send_response(304 if is_known else 200)
        self.send_header("ETag", etag)
        self.send_header("Cache-Control", lasting)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", "0" if is_known else str(len(body)))
        self.end_headers()
        if not is_known:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
