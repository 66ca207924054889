"""Finds and runs the uv program: its own environment, a time limit, one clear error each."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

# 0.9.30 is the oldest release this is tested with: it takes `false` in exclude-newer-package and
# writes only the target's wheels into pylock.toml.
OLDEST_UV = Version("0.9.30")
_VERSION = re.compile(r"uv (\d+(?:\.\d+)+)")
_VERSION_TIMEOUT_S = 20.0
_TALK_BYTES = 256 * 1024
_REAP_S = 10.0

# uv's variables that say where packages come from and how to reach them. The others change what
# is resolved (UV_RESOLUTION, UV_OVERRIDE, UV_TORCH_BACKEND ...) and stay outside.
_KEPT = frozenset(
    {
        "UV_CACHE_DIR",
        "UV_CONCURRENT_DOWNLOADS",
        "UV_CONFIG_FILE",
        "UV_DEFAULT_INDEX",
        "UV_EXTRA_INDEX_URL",
        "UV_FIND_LINKS",
        "UV_HTTP_CONNECT_TIMEOUT",
        "UV_HTTP_RETRIES",
        "UV_HTTP_TIMEOUT",
        "UV_INDEX",
        "UV_INDEX_URL",
        "UV_INSECURE_HOST",
        "UV_KEYRING_PROVIDER",
        "UV_NATIVE_TLS",
        "UV_NO_CACHE",
        "UV_NO_CONFIG",
        "UV_OFFLINE",
        "UV_REQUEST_TIMEOUT",
        "UV_SYSTEM_CERTS",
    }
)
_DEFAULT_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")


@dataclass(frozen=True, slots=True)
class Uv:
    """A uv program that is new enough.

    Args:
        path: The program.
        version: What it says it is.
        variables: The environment that it runs in.
    """

    path: Path
    version: Version
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of uv ended.

    Args:
        returncode: Exit status; negative for a signal.
        talk: The end of what it said on stderr.
    """

    returncode: int
    talk: str


def find_uv(environ: Mapping[str, str], *, stated: Path | None = None) -> Uv:
    """Find uv and check that it is new enough.

    Args:
        environ: The variables that the user's own uv would see.
        stated: A certain program; None for the one that envguard was installed with, else the
            one on PATH.

    Raises:
        ToolError: There is none, it does not run, or it is too old.
    """
    path = stated or _installed_uv(environ)
    version = _read_version(path, environ)
    if version < OLDEST_UV:
        raise ToolError(
            f"uv {version} ({path}) is too old: envguard needs {OLDEST_UV} or newer",
            hint=f"upgrade it: pip install --upgrade 'uv>={OLDEST_UV}'",
        )
    return Uv(path, version, child_variables(environ))


class UvSearch:
    """A search for uv that goes on in the background: asking a program its version takes time.

    Args:
        environ: The variables that the user's own uv would see.
        stated: A certain program; None for the usual one.
    """

    def __init__(self, environ: Mapping[str, str], *, stated: Path | None = None) -> None:
        self._found: Uv | None = None
        self._error: ToolError | None = None
        arguments = (dict(environ), stated)
        self._thread = threading.Thread(target=self._search, args=arguments, daemon=True)
        self._thread.start()

    def _search(self, environ: Mapping[str, str], stated: Path | None) -> None:
        try:
            self._found = find_uv(environ, stated=stated)
        except ToolError as err:
            self._error = err

    def result(self) -> Uv:
        """What was found, when it is.

        Raises:
            ToolError: There is no usable uv.
        """
        self._thread.join()
        if self._found is None:
            raise self._error or ToolError("uv could not be looked for")
        return self._found


def _installed_uv(environ: Mapping[str, str]) -> Path:
    try:
        import uv

        return Path(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv", path=environ.get("PATH"))
    if found is None:
        raise ToolError("uv is not installed", hint="install it: pip install uv")
    return Path(found)


def _read_version(path: Path, environ: Mapping[str, str]) -> Version:
    try:
        answer = subprocess.run(
            [path, "--version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except OSError as err:
        raise ToolError(f"uv cannot be started: {path}: {err.strerror or err}") from err
    except subprocess.TimeoutExpired as err:
        raise ToolError(f"uv gives no answer: {path} --version") from err
    match = _VERSION.match(answer.stdout)
    if answer.returncode != 0 or match is None:
        said = (answer.stdout + answer.stderr).strip().partition("\n")[0][:200]
        raise ToolError(f"{path} is not uv: `--version` says {said!r}")
    return Version(match[1])


def child_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: everything, but of uv's own settings only those about indexes.

    Proxies, certificates, the cache folder and index credentials pass through.

    Args:
        environ: The variables to choose from.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("UV_") or name in _KEPT or _is_index_credential(name)
    }
    # The interpreter of this environment builds metadata; an activated one must not be used.
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH"):
        kept.pop(name, None)
    if stated := kept.get("UV_CONFIG_FILE"):
        kept["UV_CONFIG_FILE"] = str(Path(stated).absolute())  # uv runs in another folder
    return kept | {"UV_PYTHON_DOWNLOADS": "never", "DS_BUILD_OPS": "0"}


def _is_index_credential(name: str) -> bool:
    return name.startswith("UV_INDEX_") and name.endswith(("_USERNAME", "_PASSWORD"))


def with_default_index(variables: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment for a run whose default index is stated.

    A variable and no argument: an address can hold a password, and arguments can be seen.
    """
    others = {k: v for k, v in variables.items() if k not in _DEFAULT_INDEX_VARIABLES}
    return others | {"UV_DEFAULT_INDEX": url}


def run_uv(
    uv: Uv,
    arguments: Sequence[str],
    *,
    folder: Path,
    timeout_s: float,
    talk_bytes: int = _TALK_BYTES,
    meanwhile: Callable[[], None] | None = None,
) -> Ended:
    """Run uv in a folder, in a process group of its own that ends with this call.

    Args:
        uv: The program.
        arguments: What follows the program's name.
        folder: Working directory.
        timeout_s: How long it may take.
        talk_bytes: How much of the end of stderr is kept.
        meanwhile: What can be done while it runs.

    Raises:
        ToolError: It cannot be started, or takes too long.
    """
    with (folder / "talk").open("w+b") as talk:
        started = _Started()
        # A timer and a plain wait: waiting with a limit polls, and notices the end late.
        is_late = threading.Event()
        limit = threading.Timer(timeout_s, _end_late, (started, is_late))
        limit.daemon = True
        try:
            process = _start(uv, arguments, folder, talk, started)
            limit.start()
            if meanwhile is not None:
                meanwhile()
            process.wait()
        finally:  # also when the user interrupts
            limit.cancel()
            started.end()
        if is_late.is_set():
            raise ToolError(
                f"uv did not finish within {timeout_s:g} s",
                hint="the index may be slow: run it again, what was fetched is cached",
            )
        return Ended(process.returncode, _tail(talk, talk_bytes))


class _Started:
    """A program that was started, or could not be."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.error: OSError | None = None
        self.thread: threading.Thread | None = None

    def end(self) -> None:
        """End it, if it was started, with everything that it started itself."""
        if self.thread is not None:
            self.thread.join()
        if self.process is not None:
            _end_group(self.process)


def _start(
    uv: Uv, arguments: Sequence[str], folder: Path, talk: IO[bytes], started: _Started
) -> subprocess.Popen[bytes]:
    """Start uv, in a thread: there no signal can come between the start and knowing of it."""
    started.thread = threading.Thread(target=_spawn, args=(uv, arguments, folder, talk, started))
    started.thread.start()
    started.thread.join()
    if started.process is None:
        reason = started.error.strerror or started.error if started.error else "no reason is given"
        raise ToolError(f"uv cannot be started: {uv.path}: {reason}") from started.error
    return started.process


def _spawn(
    uv: Uv, arguments: Sequence[str], folder: Path, talk: IO[bytes], started: _Started
) -> None:
    windows = sys.platform == "win32"
    try:
        started.process = subprocess.Popen(
            [uv.path, *arguments],
            cwd=folder,
            env=dict(uv.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=talk,
            start_new_session=not windows,
            creationflags=0x200 if windows else 0,  # CREATE_NEW_PROCESS_GROUP
        )
    except OSError as err:
        started.error = err


def _tail(stream: IO[bytes], limit: int) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - limit))
    return stream.read(limit).decode("utf-8", "replace")


def _end_late(started: _Started, is_late: threading.Event) -> None:
    is_late.set()
    started.end()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End uv and the build backends that it started."""
    if sys.platform == "win32":
        if process.poll() is None:
            subprocess.run(
                ["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False
            )
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    process.wait(_REAP_S)
