"""Settings files of uv, without the one setting that would send it to another torch index."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.errors import InputError
from envguard.files import read_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
