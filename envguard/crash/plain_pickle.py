"""A reader of pickles of plain values: whatever would look up or call something is refused.

``pickle.load`` runs what a file says. This reader knows the opcodes of containers, text, bytes and
numbers, and bounds how much of each a file may ask for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from envguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_BYTES = 64 * 2**20
MOST_OPCODES = 4_000_000
MOST_MEMO = 1_000_000
DEEPEST = 64
_LONGEST_NUMBER = 64  # bytes of an integer, and characters of a written one
_KEYS = (str, int, float, bytes, type(None))


def read_plain_pickle(data: bytes, name: str) -> Any:
    """The value of a pickle of plain containers, text, bytes, numbers, booleans and None.

    Args:
        data: The whole file.
        name: Of the file, for messages.

    Returns:
        The value; parts of it may be one object, and one may hold itself.

    Raises:
        InputError: It is none, holds anything else, is cut off, or is beyond a bound.

    Source: CPython Lib/pickletools.py, the opcodes of protocols 0 to 5.
    """
    if len(data) > MOST_BYTES:
        raise InputError(f"{name}: is larger than {MOST_BYTES // 2**20} MiB, too large to read")
    reader = _Reader(data)
    try:
        return reader.read()
    except (IndexError, struct.error, KeyError, _DamagedError) as err:
        raise InputError(f"{name}: is no whole pickle: it breaks off or is damaged") from err
    except (ValueError, OverflowError) as err:  # text or a number that is none
        raise InputError(f"{name}: is no plain pickle: {err}") from err


class _DamagedError(Exception):
    """A value is put into what cannot hold it."""


class _Reader:
    """The stack machine of pickle, without the opcodes that reach out of it.

    Args:
        data: The pickle.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}

    def read(self) -> Any:
        for _ in range(MOST_OPCODES):
            opcode = self._data[self._at]
            self._at += 1
            if opcode == _STOP:
                return self._stack[-1]
            step = _STEPS.get(opcode)
            if step is None:
                raise ValueError(_refusal(opcode, self._at - 1))
            step(self)
        raise ValueError(f"it holds more than {MOST_OPCODES} operations")

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if count < 0 or len(piece) != count:
            raise IndexError(self._at)
        self._at += count
        return piece

    def number(self, form: str) -> int:
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def line(self) -> str:
        end = self._data.index(b"\n", self._at, self._at + _LONGEST_NUMBER)
        text = self._data[self._at : end]
        self._at = end + 1
        return text.decode("ascii")

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def push_container(self, value: Any, children: list[Any] | tuple[Any, ...] = ()) -> None:
        self._depths[id(value)] = 1
        self._deepen(value, children)
        self._stack.append(value)

    def _deepen(self, value: Any, children: list[Any] | tuple[Any, ...]) -> None:
        below = max((self._depths.get(id(child), 0) for child in children), default=0)
        depth = max(self._depths.get(id(value), 1), below + 1)
        if depth > DEEPEST:
            raise ValueError(f"it nests deeper than {DEEPEST}")
        self._depths[id(value)] = depth

    def mark(self) -> None:
        if len(self._marks) >= DEEPEST:
            raise ValueError(f"it nests deeper than {DEEPEST}")
        self._marks.append(len(self._stack))

    def since_mark(self) -> list[Any]:
        start = self._marks.pop()
        found = self._stack[start:]
        del self._stack[start:]
        return found

    def last(self, count: int) -> list[Any]:
        if count > len(self._stack):
            raise IndexError(count)
        found = self._stack[-count:]
        del self._stack[-count:]
        return found

    def extend(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise _DamagedError
        self._deepen(target, values)
        target.extend(values)

    def update(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, dict) or len(values) % 2:
            raise _DamagedError
        self._deepen(target, values)
        target.update(_pairs(values))

    def remember(self, index: int) -> None:
        if len(self._memo) >= MOST_MEMO:
            raise ValueError(f"it remembers more than {MOST_MEMO} values")
        self._memo[index] = self._stack[-1]

    def recall(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def remember_next(self) -> None:
        self.remember(len(self._memo))


def _pairs(values: list[Any]) -> dict[Any, Any]:
    keys = values[::2]
    if not all(isinstance(key, _KEYS) for key in keys):
        raise ValueError("a key of a dictionary is no plain value")
    return dict(zip(keys, values[1::2], strict=True))


def _written_integer(reader: _Reader) -> int | bool:
    text = reader.line()
    return text == "01" if text in {"00", "01"} else int(text.removesuffix("L"))


def _little(reader: _Reader, count: int) -> int:
    if count > _LONGEST_NUMBER:
        raise ValueError("it holds a number of more than 64 bytes")
    return int.from_bytes(reader.take(count), "little", signed=True)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _refusal(opcode: int, at: int) -> str:
    from pickletools import opcodes  # for a message that is seldom needed

    name = next((known.name for known in opcodes if known.code == chr(opcode)), hex(opcode))
    return f"byte {at} is {name}, which plain values do not need and which is never carried out"


_STOP = ord(".")
_STEPS: dict[int, Callable[[_Reader], None]] = {
    0x80: lambda r: _check_protocol(r.take(1)[0]),
    0x95: lambda r: _check_protocol(0 * r.number("<Q")),
    ord("("): _Reader.mark,
    ord("}"): lambda r: r.push_container({}),
    ord("]"): lambda r: r.push_container([]),
    ord(")"): lambda r: r.push(()),
    ord("t"): lambda r: _push_tuple(r, r.since_mark()),
    0x85: lambda r: _push_tuple(r, r.last(1)),
    0x86: lambda r: _push_tuple(r, r.last(2)),
    0x87: lambda r: _push_tuple(r, r.last(3)),
    ord("l"): lambda r: _push_list(r, r.since_mark()),
    ord("d"): lambda r: _push_dict(r, r.since_mark()),
    ord("a"): lambda r: r.extend(r.last(1)),
    ord("e"): lambda r: r.extend(r.since_mark()),
    ord("s"): lambda r: r.update(r.last(2)),
    ord("u"): lambda r: r.update(r.since_mark()),
    ord("N"): lambda r: r.push(None),
    0x88: lambda r: r.push(True),
    0x89: lambda r: r.push(False),
    ord("I"): lambda r: r.push(_written_integer(r)),
    ord("L"): lambda r: r.push(_written_integer(r)),
    ord("J"): lambda r: r.push(r.number("<i")),
    ord("K"): lambda r: r.push(r.number("<B")),
    ord("M"): lambda r: r.push(r.number("<H")),
    0x8A: lambda r: r.push(_little(r, r.number("<B"))),
    0x8B: lambda r: r.push(_little(r, r.number("<i"))),
    ord("F"): lambda r: r.push(float(r.line())),
    ord("G"): lambda r: r.push(struct.unpack(">d", r.take(8))[0]),
    ord("X"): lambda r: r.push(_text(r.take(r.number("<I")))),
    0x8C: lambda r: r.push(_text(r.take(r.number("<B")))),
    0x8D: lambda r: r.push(_text(r.take(r.number("<Q")))),
    ord("B"): lambda r: r.push(r.take(r.number("<I"))),
    ord("C"): lambda r: r.push(r.take(r.number("<B"))),
    0x8E: lambda r: r.push(r.take(r.number("<Q"))),
    ord("g"): lambda r: r.recall(int(r.line())),
    ord("h"): lambda r: r.recall(r.number("<B")),
    ord("j"): lambda r: r.recall(r.number("<I")),
    ord("p"): lambda r: r.remember(int(r.line())),
    ord("q"): lambda r: r.remember(r.number("<B")),
    ord("r"): lambda r: r.remember(r.number("<I")),
    0x94: _Reader.remember_next,
}


def _check_protocol(number: int) -> None:
    if number > 5:
        raise ValueError(f"its protocol is {number}")


def _push_tuple(reader: _Reader, values: list[Any]) -> None:
    reader.push_container(tuple(values), values)


def _push_list(reader: _Reader, values: list[Any]) -> None:
    reader.push_container(values, list(values))


def _push_dict(reader: _Reader, values: list[Any]) -> None:
    reader.push_container({})
    reader.update(values)
