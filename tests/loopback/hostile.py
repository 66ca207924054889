"""A server whose answers harm whoever reads them without limits, over http or TLS; a proxy too."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

PHRASE = "Ask mallory at evil.example"
_LINKS = b'<a href="x-1.0-py3-none-any.whl">x</a>\n' * 10_000
_CONFIGURATION = """\
[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
[any]
commonName = supplied
"""


def gzip_bomb() -> bytes:
    """16 GiB of blanks in 16 MB: one block that stands for itself, a thousand times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH)
    return first + block * 1000


class HostileServer:
    """The server: the first part of a path says how it misbehaves.

    A number is a status; ``endless``, ``bomb``, ``drip``, ``heads`` (a head that never ends),
    ``hang``, ``loop``, ``tofile``, ``lie``.

    Args:
        certificate: Certificate and key for TLS; None for plain http.
    """

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.paths: list[str] = []
        handler = type("Handler", (_Handler,), {"paths": self.paths})
        self._server = _QuietServer(("127.0.0.1", 0), handler)
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HostileServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are nothing to talk about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.paths.append(self.path)
        kind = self.path.split("/")[1]
        if kind.isdecimal():
            self._status(int(kind))
            return
        getattr(self, f"_{kind}", self._ask)()

    def do_CONNECT(self) -> None:
        self._ask()

    def _status(self, status: int) -> None:
        self.send_response(status, PHRASE)
        self.send_header("Retry-After", "37")
        self._end(b"")

    def _ask(self) -> None:
        """As a proxy that wants to know who asks."""
        self.send_response(407)
        self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
        self._end(b"")

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Connection", "close")
        self.end_headers()
        while True:
            self.wfile.write(_LINKS)

    def _bomb(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Encoding", "gzip")
        self._end(gzip_bomb())

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self._trickle(b" ")

    def _heads(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        self._trickle(b"x")

    def _trickle(self, byte: bytes) -> None:
        for _ in range(600):
            self.wfile.write(byte)
            time.sleep(0.2)
        self.close_connection = True

    def _hang(self) -> None:
        time.sleep(120)
        self.close_connection = True

    def _loop(self) -> None:
        self._lead(self.path)

    def _tofile(self) -> None:
        self._lead("file:///etc/passwd")

    def _lead(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self._end(b"")

    def _lie(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/zip")
        self._end(b'{"meta": {"api-version": "1.1"}, "name": "torch", "files": []}')

    def _end(self, body: bytes) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest's output is for the tests."""


class Authority:
    """Signs certificates for loopback with openssl.

    Args:
        folder: Where keys and certificates are written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "ca.cnf").write_text(_CONFIGURATION)
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        self.certificate = folder / "ca.pem"
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key"),
            *("-out", "ca.pem", "-days", "2", "-subj", "/CN=authority"),
        )

    def signed(self, name: str, host: str, *, years: tuple[int, int]) -> tuple[Path, Path]:
        """A certificate and its key.

        Args:
            name: Of the files.
            host: As an alternative name: ``IP:127.0.0.1``.
            years: First of January of which it begins, and of which it ends.
        """
        (self._folder / "ext.cnf").write_text(f"subjectAltName = {host}\n")
        self._openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key"),
            *("-out", f"{name}.csr", "-subj", f"/CN={name}"),
        )
        begin, end = (f"{year}0101000000Z" for year in years)
        self._openssl(
            *("ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key"),
            *("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", "ext.cnf", "-notext"),
            *("-startdate", begin, "-enddate", end),
        )
        return self._folder / f"{name}.pem", self._folder / f"{name}.key"

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True)
