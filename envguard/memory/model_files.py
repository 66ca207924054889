"""Reads --model: a folder, a config.json, a safetensors header or index, or a name of the hub."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.errors import DocumentError, InputError
from envguard.facts.facts import decode_json
from envguard.facts.sentences import say
from envguard.files import is_file, is_folder, read_beginning
from envguard.memory.model_config import count_model, read_json
from envguard.memory.public_models import find_public, guess_shape, near_names
from envguard.memory.settings import stated_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envguard.matrix.memory import MemoryTable
    from envguard.memory.models import ModelShape


_MOST_PARAMS = 100 * 10**12
_LAYER = re.compile(r"\.(?:layers|h|blocks?)\.([0-9]{1,5})\.")
# A safetensors file begins with the length of its header, which the format limits to this.
_LENGTH, _HEADER_LIMIT = 8, 100_000_000
_INDEX = "model.safetensors.index.json"


def load_model(text: str | Path, table: MemoryTable, hub: Path | None = None) -> ModelShape:
    """Read a model description.

    Args:
        text: A folder, a config.json, a ``*.safetensors`` file or index, or a name of the hub.
        table: For models by name, and for the widths of one of which only the size is known.
        hub: Where models that were fetched before lie; None is not looked at.

    Raises:
        InputError: Unreadable, too large, without the fields that a count needs, or a name that
            is not known.
    """
    path = Path(text)
    if is_folder(path):
        return _from_folder(path, table)
    if is_file(path) or path.suffix in {".json", ".safetensors"}:
        return _from_file(path, table)
    return _from_name(str(text), table, hub)


def _from_folder(folder: Path, table: MemoryTable) -> ModelShape:
    for name in ("config.json", _INDEX):
        if is_file(folder / name):
            return _from_file(folder / name, table)
    headers = sorted(folder.glob("*.safetensors"))
    if headers:
        return _from_headers(headers, table)
    return _from_file(folder / "config.json", table)  # which says what is missing


def _from_file(path: Path, table: MemoryTable) -> ModelShape:
    if path.suffix == ".safetensors":
        return _from_headers([path], table)
    document = read_json(path).document
    if "weight_map" in document:
        return _from_index(document, path, table)
    return count_model(document, str(path))


def _from_name(text: str, table: MemoryTable, hub: Path | None) -> ModelShape:
    """A model by name: as it was fetched before, or as the table has it."""
    config = _fetched(text, hub)
    if config is not None:
        return count_model(read_json(config).document, str(config))
    found = find_public(text, table)
    if found is not None:
        return found
    near = ", ".join(near_names(text, table))
    raise InputError(
        f"--model: {text!r} is neither a file nor a model whose shape is known here",
        hint=f"known are {near}" if near else "state a config.json, or the size: --params 7.6B",
    )


def _fetched(name: str, hub: Path | None) -> Path | None:
    """The config.json of a model in the local cache of the hub; the newest where it has several."""
    if hub is None or not re.fullmatch(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?", name):
        return None
    folder = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    if not is_folder(folder):
        return None
    found = [path for path in folder.glob("*/config.json") if is_file(path)]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _from_index(document: Mapping[str, object], path: Path, table: MemoryTable) -> ModelShape:
    """A checkpoint's index: its total, and the names of its tensors."""
    metadata, names = document.get("metadata"), document["weight_map"]
    if not isinstance(names, dict) or not names:
        raise DocumentError(f"{path}: weight_map: expected an object of tensor names")
    if not isinstance(metadata, dict):
        raise DocumentError(f"{path}: metadata: is missing")
    params, note = _total(metadata, path)
    shape = guess_shape(params, table, layers=_layers(names))
    used = ("metadata", "weight_map")
    return replace(shape, fields=used, notes=(*shape.notes, *note))


def _layers(names: Iterable[object]) -> int | None:
    return len({int(found[1]) for name in names if (found := _LAYER.search(str(name)))}) or None


def _total(metadata: Mapping[str, object], path: Path) -> tuple[int, tuple[str, ...]]:
    counted = metadata.get("total_parameters")
    if counted is not None:
        place = f"{path}: metadata.total_parameters"
        return stated_number(counted, place, least=1, most=_MOST_PARAMS), ()
    place = f"{path}: metadata.total_size"
    most = 2 * _MOST_PARAMS
    size = stated_number(metadata.get("total_size"), place, least=2, most=most, what="a size")
    note = say(
        "{file} states bytes only: its tensors are taken to be of 2 bytes an element",
        file=path.name,
    )
    return size // 2, (note,)


def _from_headers(paths: list[Path], table: MemoryTable) -> ModelShape:
    """The headers of a checkpoint's files: every tensor with its shape."""
    tensors: dict[str, tuple[int, ...]] = {}
    for path in paths:
        tensors.update(_read_header(path))
    params = sum(_elements(shape) for shape in tensors.values())
    if not params:
        raise DocumentError(f"{paths[0]}: holds no tensor")
    shape = guess_shape(params, table, layers=_layers(tensors))
    return replace(_with_widths(shape, tensors), fields=("safetensors header",))


def _read_header(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by name, out of the first bytes of a file.

    Raises:
        DocumentError: It is no safetensors file.
    """
    start = read_beginning(path, _LENGTH)
    length = int.from_bytes(start, "little")
    if len(start) < _LENGTH or not 2 <= length <= _HEADER_LIMIT:
        raise DocumentError(f"{path}: does not begin as a safetensors file does")
    text = read_beginning(path, _LENGTH + length)[_LENGTH:].decode("utf-8", "replace")
    header = decode_json(text, str(path))
    if not isinstance(header, dict):
        raise DocumentError(f"{path}: the header is no object")
    return {
        name: _shape(value, f"{path}: {name[:60]}")
        for name, value in header.items()
        if name != "__metadata__"
    }


def _shape(value: object, place: str) -> tuple[int, ...]:
    shape = value.get("shape") if isinstance(value, dict) else None
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise DocumentError(f"{place}: expected a tensor with its shape")
    return tuple(shape)


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for side in shape:
        count *= side
    return count


def _with_widths(shape: ModelShape, tensors: Mapping[str, tuple[int, ...]]) -> ModelShape:
    """The shape with what the tensors' names tell for certain: vocabulary, widths."""
    embedding = _sides(tensors, r"(?:embed_tokens|wte|word_embeddings|embed_in)\.weight\Z")
    up = _sides(tensors, r"\.(?:up_proj|gate_proj|w1|fc1|dense_h_to_4h)\.weight\Z")
    if embedding is None or up is None or up[1] != embedding[1]:
        return shape
    vocab, hidden = embedding
    return replace(
        shape,
        name=f"widths as its tensors have them, the rest {shape.name}",
        vocab=vocab,
        hidden=hidden,
        ffn=up[0],
        largest_module=max(vocab, up[0]) * hidden,
        largest_matrix=up[0] * hidden,
        others=(),
    )


def _sides(tensors: Mapping[str, tuple[int, ...]], pattern: str) -> tuple[int, int] | None:
    for name, shape in tensors.items():
        if len(shape) == 2 and re.search(pattern, name):
            return shape[0], shape[1]
    return None
