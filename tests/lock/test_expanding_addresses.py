"""A mirror's page cannot make the owner of a lock send variables of the environment."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote, urlsplit

import pytest
from packaging.version import Version

from envguard.errors import InputError, NetworkError
from envguard.lock import FORMATS, render_lock
from envguard.lock.formats.requirements import RequirementsStyle
from envguard.lock.lock_plan import LockPlan, plan_lock
from envguard.lock.package_index import make_index_settings, plain_file, plain_index
from envguard.lock.request import Target
from tests.lock.conftest import LINUX, ask, v100
from tests.loopback.world import torch_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

SECRET = "TOPSECRET"
VARIABLES = {"SECRET_ENV": SECRET}
TEMPLATES = {
    "query": "/files/{name}?a=${{SECRET_ENV}}",
    "folder": "/files/${{SECRET_ENV}}/{name}",
    "quoted": "/files/a%20'b`id`%22$SECRET_ENV/{name}?x=1",
}


class Mirror:
    """A copy of the torch index whose links are made from a template; it keeps what it is asked.

    Args:
        template: Of the links.
    """

    def __init__(self, template: str) -> None:
        self.asked: list[str] = []
        handler = type("Handler", (_Handler,), {"asked": self.asked, "template": template})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def torch(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/whl/{{backend}}"

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []
    template = ""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        parts = [part for part in unquote(urlsplit(self.path).path).split("/") if part]
        pages = torch_pages().get("cu126", {})
        if parts[0] == "whl" and parts[2] in pages:
            links = "".join(
                f'<a href="{self.template.format(name=quote(f.filename))}#sha256={f.sha256}">x</a>'
                for f in pages[parts[2]]
            )
            self._reply(200, f"<html><body>{links}</body></html>".encode(), "text/html")
            return
        files = (f for page in pages.values() for f in page if f.filename == parts[-1])
        content = next((f.content for f in files if f.content), None)
        self._reply(200 if content else 404, content or b"", "application/octet-stream")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest's output is for the tests."""


@pytest.fixture(scope="module", params=sorted(TEMPLATES))
def mirror(request: pytest.FixtureRequest) -> Iterator[Mirror]:
    with Mirror(TEMPLATES[request.param]) as server:
        yield server


@pytest.fixture(scope="module")
def plan(mirror: Mirror, index: LoopbackIndex, matrix: Matrix, uv: Uv) -> LockPlan:
    here = Version(f"{sys.version_info.major}.{sys.version_info.minor}")
    target = Target(LINUX, here, Version("2.28"))
    request = ask(index, "torch", machines=(v100(),), target=target, torch=mirror.torch)
    return plan_lock(request, matrix, uv)


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("style", list(RequirementsStyle))
def test_no_form_holds_a_query_or_anything_that_expands(
    plan: LockPlan, form: str, style: RequirementsStyle
) -> None:
    text = render_lock(plan, form, style)
    assert "2.14.1" in text
    assert "${" not in text
    assert "$SECRET_ENV" not in text
    assert "`" not in text.replace("`uv lock`", "")
    assert "?" not in "".join(line for line in text.splitlines() if "http" in line)


def test_query_that_is_left_out_is_told(plan: LockPlan, mirror: Mirror) -> None:
    told = [note for note in plan.notes if "without the query" in note]
    has_query = any("?" in path for path in mirror.asked)
    assert bool(told) == has_query
    assert not has_query or "torch" in told[0]


# Real installs: elsewhere pip and uv would find no wheel to ask for.
@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
    reason="the loopback indexes have wheels for this platform up to Python 3.13",
)
@pytest.mark.parametrize("name", ["requirements.txt", "pylock.toml"])
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_installers_ask_without_the_secret(
    plan: LockPlan,
    mirror: Mirror,
    uv: Uv,
    environ: dict[str, str],
    tmp_path: Path,
    name: str,
    tool: str,
) -> None:
    path = tmp_path / name
    path.write_text(render_lock(plan, "pylock" if name == "pylock.toml" else "requirements"))
    mirror.asked.clear()
    commands = {
        "pip": [
            *(sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check"),
            *("install", "--no-deps", "--no-cache-dir", "--target", str(tmp_path / "to")),
            *("-r", str(path)),
        ],
        "uv": [
            *(str(uv.path), "pip", "install", "--no-deps", "--no-cache", "--python"),
            *(sys.executable, "--target", str(tmp_path / "to"), "-r", str(path)),
        ],
    }
    own = {**environ, **VARIABLES, "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(commands[tool], env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert any("torch-2.14.1" in unquote(path) for path in mirror.asked)
    assert not [path for path in mirror.asked if SECRET in path]
    assert not [path for path in mirror.asked if "?" in path]


def test_host_that_expands_is_refused() -> None:
    with pytest.raises(NetworkError, match="names no host"):
        plain_file("https://${SECRET_ENV}.evil.example/torch-2.14.1-cp312-cp312-linux_x86_64.whl")


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://u:p@h.example:8443/a+b.whl?x=${A}#f", "https://h.example:8443/a%2Bb.whl"),
        ("https://h.example/a%2Bb%zz$A{B}.whl", "https://h.example/a%2Bb%25zz%24A%7BB%7D.whl"),
        ("http://[::1]:80/a b\"'`<>|\\^.whl", "http://[::1]:80/a%20b%22%27%60%3C%3E%7C%5C%5E.whl"),
        ("file:///srv/a b.whl", "file:///srv/a%20b.whl"),
    ],
)
def test_address_of_a_file_is_written_plain(url: str, written: str) -> None:
    assert plain_file(url) == written
    assert plain_file(written) == written


def test_address_of_an_index_keeps_its_query_and_nothing_that_expands() -> None:
    written = plain_index("https://u:p@h.example/simple/$A?feed=${B}&token=t")
    assert written == "https://h.example/simple/%24A?feed=%24%7BB%7D"
    assert plain_index(written) == written


def test_placeholder_in_a_stated_index_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match="placeholder that is not known") as caught:
        make_index_settings("https://h.example/{backend}", "https://h.example/${TOKEN}/simple")
    assert "let the shell do it" in caught.value.hint
