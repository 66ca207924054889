"""Dumps of torch's flight recorder: which collectives a rank called, and which did not end."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.crash.collectives import Call, RankStand
from envguard.crash.plain_pickle import MOST_BYTES, read_plain_pickle
from envguard.errors import InputError
from envguard.files import is_file, is_folder, read_beginning, read_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PICKLE = re.compile(rb"\x80[\x02-\x05](?:\x95.{8})?}", re.DOTALL)
_JSON = re.compile(
    rb'\s{0,9}\{[^\x00]{0,4000}?"(?:comm_lib_version|nccl_version|pg_status|pg_config)"'
)
_HEAD = 4096
_RANK = re.compile(r"(\d{1,6})(?:\.\w{1,8})?$")
_ENDED = "completed"
_OF_TORCH = ("/torch/distributed/", "/torch/nn/parallel/", "/torch/autograd/", "/contextlib.py")
_MOST_FILES = 8192


def split_dumps(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Tell dumps from logs: by what a file begins with, and folders by what lies in them.

    Args:
        names: As the user gave them.

    Returns:
        The others, and the dumps, those of a folder in the order of their names.
    """
    others: list[str] = []
    dumps: list[Path] = []
    for name in names:
        found = list(_dumps_in(name))
        dumps += found
        if not found:
            others.append(name)
    return tuple(others), tuple(dumps)


def _dumps_in(name: str) -> Iterator[Path]:
    if is_file(name):
        if _is_dump(Path(name)):
            yield Path(name)
    elif is_folder(name):
        files = sorted(Path(name).iterdir(), key=lambda path: (len(path.name), path.name))
        yield from (path for path in files[:_MOST_FILES] if is_file(path) and _is_dump(path))


def _is_dump(path: Path) -> bool:
    try:
        head = read_beginning(path, _HEAD)
    except (OSError, InputError):
        return False  # whoever reads it as a log says why it cannot be read
    return bool(_PICKLE.match(head) or _JSON.match(head))


def read_dumps(paths: Sequence[Path]) -> tuple[RankStand, ...]:
    """How far each rank came, by its dump.

    Args:
        paths: Files as torch writes them on a time-out, ``nccl_trace_rank_3``.

    Raises:
        InputError: A file is no dump, or cannot be read.

    Source: pytorch torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, getCollectiveTrace.
    """
    return tuple(stand for path in paths for stand in _read(path))


def _read(path: Path) -> Iterator[RankStand]:
    data = read_bounded(path, MOST_BYTES)
    document = (
        _json(data, path) if data.lstrip()[:1] == b"{" else read_plain_pickle(data, str(path))
    )
    if not isinstance(document, dict) or not isinstance(
        document.get("entries"), (list, type(None))
    ):
        raise InputError(
            f"{path}: is no dump of torch's flight recorder: it has no list of entries"
        )
    rank = _rank_of(document, path)
    by_group: dict[str, list[Mapping[str, Any]]] = {}
    for entry in document.get("entries") or ():
        if isinstance(entry, dict) and not entry.get("is_p2p"):
            by_group.setdefault(_group(entry), []).append(entry)
    configs, states = document.get("pg_config"), document.get("pg_status")
    for group, entries in by_group.items():
        members = _members(configs, group)
        yield _stand(
            rank, group, entries, members, _part(states, str(entries[-1].get("pg_id"))), path
        )


def _json(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as err:
        raise InputError(f"{path}: is no whole JSON document") from err


def _rank_of(document: Mapping[str, Any], path: Path) -> int:
    told = document.get("rank")
    if isinstance(told, int):
        return told
    match = _RANK.search(path.name)
    if match is None:
        raise InputError(
            f"{path}: the rank is told by the number at the end of the name, and there is none"
        )
    return int(match[1])


def _group(entry: Mapping[str, Any]) -> str:
    """The group as the watchdog writes it: ``0(default_pg)``."""
    told = entry.get("process_group")
    if isinstance(told, (tuple, list)) and len(told) == 2:
        name, kind = str(told[0]), str(told[1])
        return f"{name}({kind})" if kind and kind != "undefined" else name
    return str(entry.get("pg_id", ""))


def _members(configs: Any, group: str) -> tuple[int, ...]:
    told = _part(configs, group.partition("(")[0]).get("ranks")
    return tuple(int(n) for n in re.findall(r"\d{1,6}", told)) if isinstance(told, str) else ()


def _part(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _stand(
    rank: int,
    group: str,
    entries: list[Mapping[str, Any]],
    members: tuple[int, ...],
    state: Mapping[str, Any],
    path: Path,
) -> RankStand:
    numbered = [(n, e) for e in entries if (n := _number(e.get("collective_seq_id"))) is not None]
    calls = {number: _call(entry) for number, entry in numbered}
    open_ones = [(n, e) for n, e in numbered if e.get("state") != _ENDED and not e.get("retired")]
    waits_at, open_entry = min(open_ones, key=lambda pair: pair[0], default=(None, {}))
    enqueued = max(calls, default=None)
    words = (
        f"waits in {calls[waits_at].text}, number {waits_at}"
        if waits_at is not None
        else f"all that it called ended, up to number {enqueued}"
    )
    return RankStand(
        rank,
        group,
        waits_at,
        calls,
        enqueued,
        _number(state.get("last_completed_collective")),
        _caller(open_entry or (numbered[-1][1] if numbered else {})),
        members,
        ((path.name, words),),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _call(entry: Mapping[str, Any]) -> Call:
    name = str(entry.get("profiling_name", "")).rpartition(":")[2][:60]
    return Call(name, _elements(entry.get("input_sizes")), _elements(entry.get("output_sizes")))


def _elements(sizes: Any) -> int | None:
    """Elements of all tensors together; the dump holds a list of their shapes."""
    if not isinstance(sizes, list):
        return None
    shapes = [shape for shape in sizes if isinstance(shape, list)]
    if not all(isinstance(n, int) and 0 <= n < 2**48 for shape in shapes for n in shape):
        return None
    return sum(math.prod(shape[:16]) for shape in shapes)


def _caller(entry: Mapping[str, Any]) -> str:
    """The innermost line that is not torch's own, ``train.py:88``."""
    frames = entry.get("frames")
    for frame in frames[:200] if isinstance(frames, list) else ():
        name = str(frame.get("filename", "")) if isinstance(frame, dict) else ""
        if name and not any(part in name for part in _OF_TORCH):
            return f"{Path(name).name}:{frame.get('line', '?')}"
    return ""
