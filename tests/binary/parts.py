"""A server on this machine that sends a wheel in parts, whole, cut off or wrongly."""

from __future__ import annotations

import re
import threading
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 1024 * 1024


class Habit(Enum):
    """How the server answers."""

    PARTS = "parts"
    WHOLE = "whole"  # whatever part is asked for
    CUT = "cut"  # large parts end early
    CUT_WHOLE = "cut whole"
    OTHER = "other"  # large parts are of another place
    REFUSES = "refuses"  # large parts are forbidden
    DAMAGED = "damaged"  # a byte of a large part is another


class PartServer:
    """Serves the files of a folder below ``/files/`` and lists them at ``/simple/torch/``.

    Args:
        folder: The folder.
        habit: How it answers.

    Attributes:
        sent: Bytes that envguard itself was sent.
    """

    def __init__(self, folder: Path, habit: Habit = Habit.PARTS) -> None:
        self.folder, self.habit = folder, habit
        self.sent = 0
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _QuietServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def url(self, name: str) -> str:
        return f"{self.address}/files/{name}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that hangs up before the end is what some tests do."""


class _Handler(BaseHTTPRequestHandler):
    owner: PartServer

    def do_GET(self) -> None:
        place, _, name = self.path.rpartition("/")
        path = self.owner.folder / name
        if place == "/simple/torch" and not name:
            self._list()
        elif place == "/files" and path.is_file():
            self._file(path.read_bytes())
        else:
            self._answer(404, b"not here")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _list(self) -> None:
        names = sorted(path.name for path in self.owner.folder.glob("*.whl"))
        links = "".join(f'<a href="/files/{name}">{name}</a>\n' for name in names)
        self._answer(200, links.encode(), kind="text/html")

    def _file(self, content: bytes) -> None:
        habit = self.owner.habit
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if match is None or habit in {Habit.WHOLE, Habit.CUT_WHOLE}:
            self._answer(200, content, cut=len(content) // 2 if habit is Habit.CUT_WHOLE else 0)
            return
        if match[1]:
            start, stop = int(match[1]), min(int(match[2]) + 1, len(content))
        else:
            start, stop = max(0, len(content) - int(match[2])), len(content)
        data = content[start:stop]
        is_large = len(data) > MEGABYTE
        if is_large and habit is Habit.REFUSES:
            self._answer(403, b"no")
            return
        if is_large and habit is Habit.DAMAGED:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
        first = start + 1 if is_large and habit is Habit.OTHER else start
        place = f"bytes {first}-{stop - 1}/{len(content)}"
        cut = len(data) // 2 if is_large and habit is Habit.CUT else 0
        self._answer(206, data, place=place, cut=cut)

    def _answer(
        self, status: int, body: bytes, *, kind: str = "", place: str = "", cut: int = 0
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        if self.owner.habit not in {Habit.WHOLE, Habit.CUT_WHOLE}:
            self.send_header("Accept-Ranges", "bytes")  # uv asks before it wants a part
        if place:
            self.send_header("Content-Range", place)
        self.end_headers()
        if self.command != "HEAD":
            if self.headers.get("User-Agent") == "envguard":  # uv asks too
                self.owner.sent += len(body) - cut
            self.wfile.write(body[: len(body) - cut])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base class
        """Say nothing."""
