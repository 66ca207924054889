# Runs inside the inspected interpreter, which was started with -I -S: standard library only,
# Python 3.8 syntax, no envguard import, one JSON object on the last line of stdout.
"""Describes this interpreter and what is installed in it, without importing any of it."""

from __future__ import annotations

import json
import os
import re
import stat
import sys

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_HEAD = 1024  # Name and Version are among the first lines of METADATA
_KINDS = (".dist-info", ".egg-info")
_SUFFIXES = (".py", ".so", ".pyd")
# Import hooks of editable installs: setuptools, hatchling, scikit-build-core, meson-python.
_HOOK = re.compile(
    r"__editable___.+_finder\.py|_editable_impl_.+\.py|__editables_.+\.py|_.+_editable(?:_loader)?\.py"
)
_MAPPED = re.compile(
    r"""['"]torch['"]\s{0,9}[:,]\s{0,9}('(?:[^'\\\n]|\\.){1,4096}'|"(?:[^"\\\n]|\\.){1,4096}")"""
)
_LEVELS = {"alpha": "a", "beta": "b", "candidate": "rc", "final": ""}
_CONDA_NAMES = frozenset(
    (
        "cuda-compat",
        "cuda-cudart",
        "cuda-nvcc",
        "cuda-version",
        "cudatoolkit",
        "cudnn",
        "libgcc",
        "libgcc-ng",
        "libstdcxx",
        "libstdcxx-ng",
        "libtorch",
        "nccl",
        "pytorch",
        "pytorch-cuda",
        "pytorch-gpu",
        "pytorch-mutex",
    )
)


def describe(path: list[str], not_run: Sequence[str] = ()) -> dict[str, object]:
    """Describe the running interpreter.

    Args:
        path: Where imports are looked up, in order; the script's own folder left out.
        not_run: Files with code that a start of it would have run, and this one did not.
    """
    # The import hooks of editable installs put a name on the path that is no place.
    path = [entry for entry in path if not entry.endswith(".__path_hook__")]
    problems: list[list[str]] = []
    entries = _folders(path)
    found = _conda_records()
    for entry in entries:
        found += _distributions(entry, problems)
    answer = {
        "envguard": 1,
        "version": _version(),
        "executable": sys.executable,
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "is_conda": os.path.isdir(os.path.join(sys.prefix, "conda-meta")),
        "is_free_threaded": "free-threading" in sys.version,
        "is_uv": _is_made_by_uv(),
        "sys_path": [os.path.abspath(p) if os.path.exists(p) else p for p in path],
        "distributions": found,
        "torch": _find_torch(entries),
        "problems": problems,
        "not_run": list(not_run),
    }
    return {key: _clean(value) for key, value in answer.items()}


def _version() -> str:
    info = sys.version_info
    level = _LEVELS[info.releaselevel]
    suffix = level + str(info.serial) if level else ""
    return "{}.{}.{}{}".format(info[0], info[1], info[2], suffix)


def _is_made_by_uv() -> bool:
    text = _read(os.path.join(sys.prefix, "pyvenv.cfg")) or ""
    return any(line.partition("=")[0].strip() == "uv" for line in text.splitlines())


def _folders(path: list[str]) -> list[str]:
    """The entries that are folders, each folder once (lib64 is often a link to lib)."""
    seen = set()
    folders = []
    for entry in path:
        try:
            stat = os.stat(entry or ".")
        except (OSError, ValueError):
            continue
        key = (stat.st_dev, stat.st_ino)
        if key not in seen and os.path.isdir(entry or "."):
            seen.add(key)
            folders.append(entry or os.getcwd())
    return folders


def _read(path: str, limit: int = 1048576) -> str | None:
    """The text of a regular file, undecodable bytes replaced; None when it cannot be read.

    A pipe or a device in the place of a file would never end.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return os.read(handle, limit).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)


def _list(folder: str, problems: list[list[str]]) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as err:
        reason = "forbidden" if isinstance(err, PermissionError) else "unreadable"
        problems.append([reason, "{}: {}".format(folder, err.strerror)])
        return []


def _distributions(folder: str, problems: list[list[str]]) -> list[dict[str, object]]:
    """What the metadata folders of one entry of sys.path say."""
    found = []
    names = _list(folder, problems)
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith("~") and name.endswith(_KINDS):
            problems.append(["unreadable", path + ": left behind by an interrupted uninstall"])
        elif name.endswith(_KINDS):
            found.append(_installed(folder, name, problems))
        elif name.endswith(".egg-link"):
            found.append(_linked(path, name, problems))
    return [record for record in found if record]


def _installed(folder: str, name: str, problems: list[list[str]]) -> dict[str, object]:
    path = os.path.join(folder, name)
    project, _, rest = name.rpartition(".")[0].partition("-")
    record: dict[str, object] = {
        "name": project,
        "version": rest.partition("-")[0] or None,
        "location": folder,
    }
    files = ("METADATA",) if name.endswith(".dist-info") else ("PKG-INFO", "")
    texts = [_read(os.path.join(path, file) if file else path, _HEAD) for file in files]
    head = _parse_head(next((text for text in texts if text), ""))
    if "name" not in head or "version" not in head:
        problems.append(["unreadable", path + ": its metadata holds no name and version"])
    record.update(head)
    if name.endswith(".dist-info"):
        _add_origin(path, record)
    return record


def _parse_head(text: str) -> dict[str, object]:
    """Name and version out of the header fields of METADATA or PKG-INFO."""
    head: dict[str, object] = {}
    for line in text.splitlines():
        if not line.strip():
            break
        key, colon, value = line.partition(":")
        if colon and key.strip().lower() in ("name", "version") and value.strip():
            head.setdefault(key.strip().lower(), value.strip())
    return head


def _add_origin(path: str, record: dict[str, object]) -> None:
    """Add the installer and where the distribution came from (PEP 376, PEP 610)."""
    installer = _read(os.path.join(path, "INSTALLER"), 256)
    if installer and installer.strip():
        record["installer"] = installer.split()[0].lower()
    text = _read(os.path.join(path, "direct_url.json"))
    if not text:
        return
    try:
        origin = json.loads(text)
    except ValueError:
        return
    if isinstance(origin, dict):
        record["url"] = origin.get("url")
        folder = origin.get("dir_info")
        record["is_editable"] = isinstance(folder, dict) and folder.get("editable") is True


def _linked(path: str, name: str, problems: list[list[str]]) -> dict[str, object]:
    """A development install: the link names the folder that holds the egg-info."""
    lines = (_read(path) or "").splitlines()
    target = lines[0].strip() if lines else ""
    project = name.rpartition(".")[0]
    inner = project.replace("-", "_") + ".egg-info"
    if target and os.path.isdir(os.path.join(target, inner)):
        record = _installed(target, inner, problems)
        record["name"] = record["name"] or project
    else:
        record = {"name": project, "version": None, "location": target or os.path.dirname(path)}
    record["is_editable"] = True
    return record


def _conda_records() -> list[dict[str, object]]:
    """Conda packages that decide about CUDA; the file names alone tell name and version."""
    folder = os.path.join(sys.prefix, "conda-meta")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    parts = [name[: -len(".json")].rsplit("-", 2) for name in names if name.endswith(".json")]
    return [
        {"name": part[0], "version": part[1], "location": folder, "installer": "conda"}
        for part in parts
        if len(part) == 3 and part[0] in _CONDA_NAMES
    ]


def _find_torch(entries: list[str]) -> dict[str, object] | None:
    """The package that ``import torch`` would take, and the text of its version.py."""
    namespace = None
    for entry in entries:
        folder = os.path.join(entry, "torch")
        if os.path.isfile(os.path.join(folder, "__init__.py")):
            return _torch_at(folder)
        for suffix in _SUFFIXES:
            if os.path.isfile(folder + suffix):
                return {"location": folder + suffix, "version_file": None, "is_module": True}
        if namespace is None and os.path.isdir(folder):
            namespace = folder
    edited = _edited_torch(entries)
    if edited:
        return _torch_at(edited)
    return {"location": namespace, "version_file": None} if namespace else None


def _torch_at(folder: str) -> dict[str, object]:
    return {"location": folder, "version_file": _read(os.path.join(folder, "version.py"), 65536)}


def _edited_torch(entries: list[str]) -> str | None:
    """The source folder that an editable install's import hook maps torch to."""
    for entry in entries:
        try:
            names = [name for name in os.listdir(entry) if _HOOK.fullmatch(name)]
        except OSError:
            continue
        for name in sorted(names):
            folder = _mapped_torch(_read(os.path.join(entry, name)) or "")
            if folder:
                return folder
    return None


def _mapped_torch(text: str) -> str | None:
    """The folder in ``{'torch': '/src/torch'}`` or ``map_module('torch', '/src/torch/...')``."""
    import ast

    found = _MAPPED.search(text)
    if found is None:
        return None
    try:
        place = ast.literal_eval(found.group(1))  # a lone string literal
    except (ValueError, SyntaxError):
        return None
    folder = os.path.dirname(place) if place.endswith("__init__.py") else place
    return folder if "\0" not in folder and os.path.isdir(folder) else None


def _clean(value: object) -> object:
    """Replace what cannot be encoded: names of files need not be text."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    return value


def limit_memory(more: int) -> None:
    """Let this process take only so many bytes more; Linux, elsewhere nothing counts them."""
    try:
        import resource

        with open("/proc/self/statm", "rb") as file:
            now = int(file.read().split()[5]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = now + more if hard == resource.RLIM_INFINITY else min(hard, now + more)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, OSError, ValueError):
        return


def main(
    find_path: Callable[[Mapping[str, str]], tuple[list[str], list[str]]], memory_bytes: int
) -> None:
    """Print the description.

    Args:
        find_path: Of ``_path_child.py``.
        memory_bytes: How much memory it may take besides what the interpreter took to start.
    """
    limit_memory(memory_bytes)
    try:
        text = "\n" + json.dumps(describe(*find_path(os.environ))) + "\n"
    except MemoryError:
        sys.exit("Python was given no more memory: the limit is {} MiB".format(memory_bytes >> 20))
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("ascii"))
    sys.stdout.buffer.flush()
