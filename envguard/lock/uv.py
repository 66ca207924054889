"""The uv program: found, configured, run in a process group with limits."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.errors import InputError, ToolError
from envguard.files import read_utf8
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from envguard.lock.request import Target
    from envguard.web.lock_limits import LockLimits


_PROGRAMS = frozenset({"uv", "uv.exe"})
_SCRIPTS = frozenset({"bin", "Scripts"})


def packaged_uv(site: Path) -> tuple[Path, Version] | None:
    """Find the program in what the installer recorded of the package.

    Args:
        site: The folder that packages are installed in.

    Returns:
        The program and its version; None where the record does not say, or where another program
        lies in its place.

    Source: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
    """
    try:
        names = [name for name in os.listdir(site) if name.startswith("uv-")]  # noqa: PTH208 - quick
        infos = [name for name in names if name.endswith(".dist-info")]
        if len(infos) != 1:
            return None
        version = Version(infos[0].removesuffix(".dist-info").removeprefix("uv-"))
        record = (site / infos[0] / "RECORD").read_text(encoding="utf-8")
        for path, size in _programs(record, site):
            if path.stat().st_size == size:
                return path, version
    except (OSError, ValueError):
        return None
    return None


def _programs(record: str, site: Path) -> Iterator[tuple[Path, int]]:
    """Programs named uv in a record, each with its recorded size."""
    for line in record.splitlines():
        name, *rest = line.rsplit(",", 2)
        path = Path(os.path.normpath(site / name.strip('"')))
        if len(rest) == 2 and path.name in _PROGRAMS and path.parent.name in _SCRIPTS:
            yield path, int(rest[1] or -1)


_MOST_BYTES = 16 * 1024 * 1024
_SYSTEM_FOLDER = "/etc/xdg"
_SYSTEM_FILE = "/etc/uv/uv.toml"


def without_torch_backend(variables: Mapping[str, str], folder: Path) -> Mapping[str, str]:
    """The environment for uv in which ``[pip] torch-backend`` is not set.

    That setting makes uv ask the PyTorch index for the torch family whatever the project says,
    and no option turns it off. What else the settings files say is kept.

    Args:
        variables: The environment; it decides which files uv reads.
        folder: Where a copy of the settings may be written.

    Returns:
        The same environment where no file sets it.
    """
    if variables.get("UV_NO_CONFIG") not in {None, "", "0", "false"}:
        return variables
    documents = [found for path in _files(variables) if (found := _read(path)) is not None]
    if not any("torch-backend" in _pip(document) for document in documents):
        return variables
    import tomli_w

    merged: dict[str, Any] = {}
    for document in documents:  # the user's comes first and wins
        _lay_under(merged, document)
    merged["pip"] = {k: v for k, v in _pip(merged).items() if k != "torch-backend"}
    path = folder / "uv.toml"
    path.write_text(tomli_w.dumps(merged), encoding="utf-8")
    return {**variables, "UV_CONFIG_FILE": str(path)}


def default_index(variables: Mapping[str, str]) -> str | None:
    """The index that uv takes everything from that no other is stated for.

    Args:
        variables: The environment that uv runs in.

    Returns:
        None where nothing states one and uv's own default holds.
    """
    stated = variables.get("UV_DEFAULT_INDEX") or variables.get("UV_INDEX_URL")
    if stated or variables.get("UV_NO_CONFIG") not in {None, "", "0", "false"}:
        return stated
    documents = (_read(path) for path in _files(variables))
    return next((url for found in documents if found and (url := _index_in(found))), None)


def _index_in(document: Mapping[str, Any]) -> str:
    tables = document.get("index")
    listed = [t for t in tables if isinstance(t, dict)] if isinstance(tables, list) else []
    urls = [table.get("url") for table in listed if table.get("default") is True]
    plain = [document.get("index-url"), _pip(document).get("index-url")]
    return next((url for url in (*urls, *plain) if isinstance(url, str)), "")


def _files(variables: Mapping[str, str]) -> Iterator[Path]:
    """The settings files in the order in which uv ranks them."""
    if stated := variables.get("UV_CONFIG_FILE"):
        yield Path(stated)
        return
    if roaming := variables.get("APPDATA"):
        yield Path(roaming) / "uv" / "uv.toml"
    home = variables.get("HOME")
    if folder := variables.get("XDG_CONFIG_HOME") or (home and f"{home}/.config"):
        yield Path(folder) / "uv" / "uv.toml"
    if system := variables.get("PROGRAMDATA"):
        yield Path(system) / "uv" / "uv.toml"
    for place in (variables.get("XDG_CONFIG_DIRS") or _SYSTEM_FOLDER).split(":"):
        yield Path(place) / "uv" / "uv.toml"
    yield Path(_SYSTEM_FILE)


def _read(path: Path) -> dict[str, Any] | None:
    """The settings; None where there is no such file, or uv itself will complain about it."""
    try:
        return tomllib.loads(read_utf8(path, _MOST_BYTES))
    except (InputError, ValueError, RecursionError):
        return None


def _pip(document: Mapping[str, Any]) -> Mapping[str, Any]:
    table = document.get("pip")
    return table if isinstance(table, dict) else {}


def _lay_under(upper: dict[str, Any], lower: Mapping[str, Any]) -> None:
    """Fill in what is not stated: tables by key, lists one after the other."""
    for key, value in lower.items():
        known = upper.get(key)
        if known is None:
            upper[key] = value
        elif isinstance(known, list) and isinstance(value, list):
            upper[key] = [*known, *value]
        elif isinstance(known, dict) and isinstance(value, dict):
            _lay_under(known, value)


# uv takes the version and the platform of a target from options, but that it is free-threaded
# only from the interpreter's own answer. The answer is JSON on standard output.
_ROLE = """\
#!/bin/sh
{python} "$@" | sed 's/"gil_disabled": *false/"gil_disabled": true/'
"""


def interpreter_for(target: Target, folder: Path) -> str:
    """The interpreter to hand to uv.

    Args:
        target: What is locked for.
        folder: Where a program may be written.

    Raises:
        InputError: The target is free-threaded and this system cannot stand in for it.
    """
    if not target.is_free_threaded:
        return sys.executable
    if sys.platform == "win32":
        raise InputError(
            "--python-version: free-threaded Python cannot be locked for on Windows",
            hint="lock on Linux or macOS, with --platform",
        )
    program = folder / "python"
    program.write_text(_ROLE.format(python=shlex.quote(sys.executable)), encoding="utf-8")
    program.chmod(0o755)
    return str(program)


_TALK_BYTES = 256 * 1024
_REAP_S = 10.0
_OUT_OF_MEMORY = "memory allocation of"


class MemoryLimitError(ToolError):
    """uv took more memory than it may have."""


@dataclass(frozen=True, slots=True)
class UvExit:
    """How a run of uv ended.

    Args:
        returncode: Exit status; negative for a signal.
        talk: The end of what it said on stderr.
    """

    returncode: int
    talk: str

    @property
    def is_out_of_memory(self) -> bool:
        """Whether it took more memory than it may have."""
        return self.returncode != 0 and _OUT_OF_MEMORY in self.talk


def run_uv(
    uv: Uv,
    arguments: Sequence[str],
    *,
    folder: Path,
    limits: LockLimits,
    talk_bytes: int = _TALK_BYTES,
    doing: str = "uv",
    started: RunningUv | None = None,
) -> UvExit:
    """Run uv in a folder, in a process group of its own that ends with this call.

    Args:
        uv: The program.
        arguments: What follows the program's name.
        folder: Working directory.
        limits: What it may take.
        talk_bytes: How much of the end of stderr is kept.
        doing: What it does, for messages.
        started: A handle by which another thread can end it.

    Raises:
        ToolError: It cannot be started, or takes too long.
        MemoryLimitError: It takes too much memory.
    """
    with (folder / "talk").open("w+b") as talk:
        started = started or RunningUv()
        # A timer and a plain wait: waiting with a limit polls, and notices the end late.
        is_late = threading.Event()
        limit = threading.Timer(limits.left_s(), _end_late, (started, is_late))
        limit.daemon = True
        try:
            process = _start(uv, arguments, folder, talk, started)
            _limit_memory(process.pid, limits.memory_bytes)
            limit.start()
            process.wait()
        finally:  # also when the user interrupts
            limit.cancel()
            started.end()
        if is_late.is_set():
            raise limits.late_error(doing)
        ended = UvExit(process.returncode, _tail(talk, talk_bytes))
        if ended.is_out_of_memory:
            raise MemoryLimitError(
                f"{doing} took more than {limits.memory_bytes / 1024**3:.1f} GiB of memory",
                hint="a page of an index may have no end: check the addresses of the indexes",
            )
        return ended


class RunningUv:
    """A program that was started, or could not be."""

    def __init__(self) -> None:
        self.is_over = False
        self.process: subprocess.Popen[bytes] | None = None
        self.error: OSError | None = None
        self.thread: threading.Thread | None = None

    def end(self) -> None:
        """End it, if it was started, with everything that it started itself; it never will be."""
        self.is_over = True
        # a signal can come between the making of the thread and its start
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()
        if self.process is not None:
            _end_group(self.process)


def _start(
    uv: Uv, arguments: Sequence[str], folder: Path, talk: IO[bytes], started: RunningUv
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
    uv: Uv, arguments: Sequence[str], folder: Path, talk: IO[bytes], started: RunningUv
) -> None:
    windows = sys.platform == "win32"
    if started.is_over:
        return
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


def _limit_memory(pid: int, most_bytes: int) -> None:
    """Let a process, and what it will start, have only so much data, where the platform can."""
    if sys.platform != "linux":
        return
    import resource

    try:
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        stated = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        most = min([most_bytes, *stated])
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or this system lets nobody limit another process


def _tail(stream: IO[bytes], limit: int) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - limit))
    return stream.read(limit).decode("utf-8", "replace")


def _end_late(started: RunningUv, is_late: threading.Event) -> None:
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


# 0.9.30 is the oldest release this is tested with: it takes `false` in exclude-newer-package and
# writes only the target's wheels into pylock.toml.
OLDEST_UV = Version("0.9.30")
_VERSION = re.compile(r"uv (\d+(?:\.\d+)+)")
_VERSION_TIMEOUT_S = 20.0

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


def find_uv(environ: Mapping[str, str], *, stated: Path | None = None) -> Uv:
    """Find uv and check that it is new enough.

    Args:
        environ: The variables that the user's own uv would see.
        stated: A certain program; None for the one that envguard was installed with, else the
            one on PATH.

    Raises:
        ToolError: There is none, it does not run, or it is too old.
    """
    path, version = (stated, None) if stated else _installed_uv(environ)
    version = version or _read_version(path, environ)
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


def _installed_uv(environ: Mapping[str, str]) -> tuple[Path, Version | None]:
    """The program, and its version where that is known without asking it."""
    package = find_spec("uv")
    if package is not None and package.origin is not None:
        found = packaged_uv(Path(package.origin).parent.parent)
        if found is not None:
            return found
    try:
        import uv

        return Path(uv.find_uv_bin()), None
    except (ImportError, FileNotFoundError):
        program = shutil.which("uv", path=environ.get("PATH"))
    if program is None:
        raise ToolError("uv is not installed", hint="install it: pip install uv")
    return Path(program), None


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
