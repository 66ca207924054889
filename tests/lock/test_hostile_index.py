"""Indexes that would flood, hold up or mislead whoever reads them: one line says what they did."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.errors import InputError, ToolError
from envguard.lock.resolve import resolve
from envguard.lock.uv import MemoryLimitError, find_uv, run_uv
from envguard.web.lock_limits import LockLimits
from tests.lock.conftest import TARGET, V100
from tests.loopback.hostile import PHRASE, Authority, HostileServer
from tests.loopback.index import PASSWORD, USER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from envguard.lock.project import Problem
    from envguard.lock.uv import Uv
    from tests.loopback.index import LoopbackIndex

    Lock = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def hostile() -> Iterator[HostileServer]:
    with HostileServer() as server:
        yield server


@pytest.fixture
def lock(index: LoopbackIndex, environ: dict[str, str], tmp_path: Path) -> Lock:
    """Run the command as a process with a cold cache, against one torch index."""

    def run(torch: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        indexes = ("--torch-index", torch, "--index-url", index.default)
        own = {"UV_CACHE_DIR": str(tmp_path / "cold"), "ENVGUARD_CACHE_DIR": str(tmp_path / "own")}
        return subprocess.run(
            [sys.executable, "-m", "envguard", "lock", "torch", *V100, *TARGET, *indexes, *words],
            cwd=tmp_path,
            env={**environ, **own, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return run


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a clean failure."""
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = (li for li in done.stderr.splitlines() if li.startswith("envguard: error: "))
    return line


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("endless", "the page is larger than 32 MiB"),
        ("bomb", "the page is larger than 32 MiB"),
        ("drip", "the server is too slow"),
        ("heads", "no answer within"),
        ("hang", "it does not answer in time"),
    ],
)
def test_page_without_an_end_is_one_line(
    lock: Lock, hostile: HostileServer, kind: str, said: str
) -> None:
    torch = f"{hostile.address}/{kind}/whl/{{backend}}"
    line = error_of(lock(torch, "--time-limit", "24"))
    assert f"{hostile.address}/{kind}/whl/cu126/torch/: {said}" in line


def test_endless_page_of_the_default_index_is_found_too(
    lock: Lock, hostile: HostileServer, index: LoopbackIndex
) -> None:
    done = lock(index.torch, "timm", "--index-url", f"{hostile.address}/endless/simple")
    assert f"{hostile.address}/endless/simple/timm/: the page is larger than" in error_of(done)


# Elsewhere uv runs without a limit of memory, so there is nothing that could be tried.
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA is Linux's")
def test_endless_page_that_nobody_looked_at_stops_at_the_limit_of_memory(
    uv: Uv, hostile: HostileServer, tmp_path: Path
) -> None:
    page = f"{hostile.address}/endless/simple"
    (tmp_path / "in.txt").write_text("timm\n")
    words = ("pip", "compile", "--quiet", "--no-cache", "--default-index", page, "in.txt")
    limits = LockLimits(120, memory_bytes=512 * 1024**2)
    with pytest.raises(MemoryLimitError, match=r"uv took more than 0\.5 GiB of memory"):
        run_uv(uv, words, folder=tmp_path, limits=limits)


def test_index_that_says_nothing_ends_with_the_time_of_the_whole_lock(
    problem: Problem, uv: Uv, tmp_path: Path, hostile: HostileServer
) -> None:
    """A page that nobody named hangs: no look is at it, the limit is one for all runs of uv."""
    fresh = find_uv({**uv.variables, "UV_CACHE_DIR": str(tmp_path), "UV_HTTP_TIMEOUT": "100"})
    limits = LockLimits(3)
    limits.looked_at.add(f"{hostile.address}/hang/whl/torch/")
    with pytest.raises(ToolError, match="within 3 s, the limit") as caught:
        resolve(replace(problem, torch_index=f"{hostile.address}/hang/whl"), fresh, limits=limits)
    assert f"{hostile.address}/hang/whl" in caught.value.message
    assert limits.left_s() == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_time_limit_is_a_number_of_seconds(seconds: float) -> None:
    with pytest.raises(InputError, match="--time-limit"):
        LockLimits(seconds)


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (401, "refuses access: 401 Unauthorized", "credentials"),
        (403, "refuses access: 403 Forbidden", "credentials"),
        (404, "has no page for torch", "check the address"),
        (407, "asks for credentials: 407 Proxy Authentication Required", "HTTPS_PROXY"),
        (410, "there is no such page: 410 Gone", "check the address"),
        (418, "it answers 418 I'm a Teapot", "check the address"),
        (429, "it answers 429 Too Many Requests and asks to wait 37 s", "wait and run it again"),
        (500, "it answers 500 Internal Server Error", "run it again later"),
        (503, "it answers 503 Service Unavailable and asks to wait 37 s", "run it again later"),
        (599, "it answers 599", "run it again later"),
    ],
)
def test_status_is_told_as_what_it_is(
    lock: Lock, hostile: HostileServer, status: int, said: str, hint: str
) -> None:
    address = hostile.address.replace("//", f"//{USER}:{PASSWORD}@")
    done = lock(f"{address}/{status}/whl/{{backend}}")
    line = error_of(done)
    assert said in line
    assert f"{hostile.address}/{status}/whl/cu126" in line
    assert "has no torch" not in line
    assert hint in done.stderr
    assert PASSWORD not in done.stderr
    assert PHRASE.split()[0] not in done.stderr  # the server's own words are not repeated


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("loop", "more than 5 redirects"),
        ("tofile", "file:///etc/passwd` is not a valid HTTP URI"),
        ("lie", 'Unsupported `Content-Type` "application/zip"'),
    ],
)
def test_answer_that_is_no_page_is_one_line(
    lock: Lock, hostile: HostileServer, kind: str, said: str
) -> None:
    line = error_of(lock(f"{hostile.address}/{kind}/whl/{{backend}}"))
    assert said in line
    assert f"{hostile.address}/{kind}/whl/cu126/" in line


def test_wrong_password_is_told_as_that(lock: Lock, index: LoopbackIndex) -> None:
    wrong = index.private_address.replace(PASSWORD, "Wr0ngOne")
    done = lock(f"{wrong}/whl/{{backend}}")
    assert f"{index.address}/private/whl/cu126 refuses access: 401 Unauthorized" in error_of(done)
    assert "Wr0ngOne" not in done.stderr


# A certificate that has expired or names another host has to be made, and no dependency makes one.
@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")
@pytest.mark.parametrize(
    ("host", "years", "is_trusted", "said"),
    [
        ("IP:127.0.0.1", (2020, 2040), True, "has no page for torch"),
        ("IP:127.0.0.1", (2020, 2040), False, "its certificate is signed by nobody who is trusted"),
        ("IP:127.0.0.1", (2020, 2021), True, "its certificate has expired"),
        ("DNS:other.example", (2020, 2040), True, "its certificate is for another host"),
    ],
)
def test_certificate_that_is_not_accepted_is_named(
    lock: Lock,
    tmp_path: Path,
    host: str,
    years: tuple[int, int],
    is_trusted: bool,
    said: str,
) -> None:
    authority = Authority(tmp_path)
    trust = {"SSL_CERT_FILE": str(authority.certificate)} if is_trusted else {}
    with HostileServer(authority.signed("server", host, years=years)) as server:
        done = lock(f"{server.address}/404/whl/{{backend}}", **trust)
        line = error_of(done)
        assert said in line
        assert server.address in line
    assert is_trusted or "SSL_CERT_FILE" in done.stderr


def test_plain_server_at_a_tls_address_is_named(lock: Lock, hostile: HostileServer) -> None:
    address = hostile.address.replace("http:", "https:")
    assert "speaks no TLS" in error_of(lock(f"{address}/404/whl/{{backend}}"))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_dead_proxy_is_named_without_its_password(lock: Lock, scheme: str) -> None:
    proxy = {f"{scheme.upper()}_PROXY": f"http://{USER}:{PASSWORD}@127.0.0.1:9"}
    done = lock(f"{scheme}://index.example/whl/{{backend}}", **proxy)
    line = error_of(done)
    assert f"{scheme}://index.example/whl/cu126/" in line
    assert "/ (through the proxy http://127.0.0.1:9): " in (line)
    assert "Connection refused" in line
    assert PASSWORD not in done.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_that_wants_a_password_is_told_as_that(
    lock: Lock, hostile: HostileServer, scheme: str
) -> None:
    proxy = {f"{scheme.upper()}_PROXY": hostile.address}
    done = lock(f"{scheme}://index.example/whl/{{backend}}", **proxy)
    line = error_of(done)
    assert f"{scheme}://index.example/whl/cu126/" in line
    assert "/: the proxy on the way asks for credentials" in line
    assert "407" in line


# A certificate that has expired or names another host has to be made, and no dependency makes one.
@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")
def test_page_without_an_end_is_found_behind_an_authority_of_ones_own(
    lock: Lock, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate = authority.signed("server", "IP:127.0.0.1", years=(2020, 2040))
    with HostileServer(certificate) as server:
        torch = f"{server.address}/endless/whl/{{backend}}"
        line = error_of(lock(torch, SSL_CERT_FILE=str(authority.certificate)))
    assert "/endless/whl/cu126/torch/: the page is larger than 32 MiB" in line
