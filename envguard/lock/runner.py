"""Finds the uv program and makes the environment that it runs in."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from envguard.errors import ToolError
from envguard.lock.uvpackage import packaged_uv

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
