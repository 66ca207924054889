"""Writes every table of ``compat_matrix/`` in its one form; comments stay where they stand.

Usage: ``python scripts/format_tables.py [--check] [--matrix DIR]``

A row is a ``[[block]]`` with a field a line, in the order of its table; what says where a row comes
from stands last. Rows inside a row are blocks that follow it, such as ``[[cause.says]]``. A pattern
is a literal string, a long text is folded, a short list stays on its line. Rows keep their order:
it means something in some tables.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import AoT, Array, Comment, Item, Table, Whitespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tomlkit.container import Container

ROOT = Path(__file__).resolve().parent.parent

WIDTH = 100
# What every row may end with, in this order.
_LAST = ("file", "source", "confidence", "certainty", "note")
# The other fields of each array, in their order; one that is not named follows those that are.
_FIELDS = {
    "accounting": "id fact rule",
    "binary": "version lib kind cpp stable py cxx11 cuda",
    "branch_support": "branch kind end_of_life released",
    "break": (
        "id when any_of scope cause title text predicate feature beside fix alternative workaround"
        " handled_by shows frames"
    ),
    "build": "versions torch platform backends targets ptx_known requires tools",
    "cause": "slug scope text cured_by_build crashes_natively decided_by explains same_matter",
    "cause.says": "id code title detail remedy command",
    "cause.shown": "says any all unless status survivable",
    "cause.hypothesis": (
        "id says rank any all unless signal phase survivable lines supports against experiment"
        " command"
    ),
    "channel": "name url",
    "chip": "chip capability",
    "code": "code causes title meaning found fix",
    "companion": "package version torch backend tag",
    "cuda_match": "package since before compares",
    "deciding": "id text command",
    "discriminator": "verdict exit_form decisive supporting against",
    "driver_branch": "branch windows cuda windows_firm",
    "evidence_tool": "name gives silent_when for_endings for_ranks says",
    "exception": "torch platform backends label unknown verified glibc cxx11_abi",
    "exit_signal": "signal name unsigned means usual_causes",
    "exit_status": "code means usual_causes",
    "fatbin": "torch platform file cubins ptx",
    "feature": "feature torch since deepspeed",
    "formula": (
        "id group expr low high unit moment rounded part_of what evidence measured confidence"
        " source certainty"
    ),
    "forward_compat": "cuda base_branches",
    "generation": "name first last last_branch aliases first_driver first_cuda",
    "gpu": "name capability segment chip also",
    "host": "name",
    "host_compiler": "cuda gcc_min gcc_max clang_max",
    "imported": "version imports error",
    "index": "torch platform backends more_pythons unverified",
    "kernel_module": "flavour first last product",
    "library": "names of kind cuda releases wheels folder apt dnf conda pip fix symbols",
    "launcher": "name outer_code truth says_root says_exit says_rank says_stop raises",
    "libs": "series backend cudnn nccl",
    "measurement": "id what result",
    "minor_version_compat": "major linux windows",
    "mixing": "major minors",
    "model": "name hub params config",
    "native_bug": "id signal gpus signature when cause title text fix command",
    "note": "topic text",
    "op": "names nvcc needs capability cuda_from_8_0 cuda torch since triton before",
    "other_vendor": "torch rocm xpu",
    "owner": "package modules files role built_for_torch entwined cure",
    "phase": "id marks regex literals",
    "platform_tag": "torch platform tag",
    "prebuilt": "version labels toolkits torch pythons abi excluded aarch64 exclude",
    "pypi": "torch platform backend pythons glibc cxx11_abi",
    "range": (
        "versions foreign declares cuda_choice cxx_flag label_cuda python removed cxx_min gcc_min"
        " loads abi torch cuda mismatch needs capability feature scope nvcc_min"
    ),
    "release": (
        "version released on_pypi yanked requires_python torchvision torchaudio triton python"
        " pythons requires extras minors skip_variable windows_wheel tested presets classifiers"
        " cudas other_libs platforms torch cuda cudnn nccl cxx_std cxx11_abi stable_headers"
        " cu13_core floor arch built_with code workflow_cuda"
    ),
    "requires": "torch platform commit requires triton_marker",
    "rule": "name",
    "runtime": "version gcc systems",
    "save_marker": "id observation means",
    "seen": "file release sha256 status",
    "signature": "id regex literals sample means proves",
    "size": "name bytes",
    "symptom": "id signatures",
    "status": "layer code name driver text class sticky action meaning decides cause",
    "toolkit_driver": "toolkit linux windows",
    "toolkit_targets": "major oldest",
    "unlabelled": "package platform builds until",
    "uuid_list": "package versions effect",
    "uv_driver": "backend linux windows",
    "wheel_tag": "torch platform tags build_tags",
    "wrong_estimator": "tool claim reality why",
}
_PATTERNS = frozenset({"regex"})
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_GAP = re.compile(r"(?<=\S) (?=\S)")
_HEAD = re.compile(r"(?:#[^\n]*\n)+")  # the comment lines a table begins with are about all of it
_STRING = r"""'{3}.*?'{3,5}|"{3}(?:\\.|.)*?"{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'"""
_COMMENT = re.compile(rf"{_STRING}|(#[^\n]*)", re.DOTALL)


class FormatError(ValueError):
    """A table that the form has no place for."""


@dataclass
class _Field:
    """A field: its name as it is written, what it holds, the comment lines before it."""

    key: str
    value: object
    comments: list[str]


@dataclass
class _Block:
    """What stands under one heading; the first block of a table has none."""

    heading: str
    comments: list[str] = field(default_factory=list)
    fields: list[_Field] = field(default_factory=list)


def format_table(text: str) -> str:
    """The text of a table in its form.

    Args:
        text: TOML in any form.

    Raises:
        FormatError: It holds what the form has no place for.
        ValueError: It is not TOML.
    """
    head = _HEAD.match(text)
    blocks, rest = _Reader().read(tomlkit.parse(text[head.end() :] if head else text))
    blocks.sort(key=lambda block: (block.heading == "[sources]", block.heading != ""))
    lines = [line for block in blocks for line in _write_block(block)]
    formed = "\n".join([*lines, *rest]).strip("\n") + "\n"
    if head:
        gap = "\n" if formed.startswith(("[", "#")) else ""
        formed = f"{head[0].rstrip()}\n{gap}{formed}"
    if tomllib.loads(formed) != tomllib.loads(text):
        raise FormatError("the form says something else than the table")
    if sorted(_comments_in(formed)) != sorted(_comments_in(text)):
        raise FormatError("a comment stands where the form has no place for it")
    return formed


def _comments_in(text: str) -> list[str]:
    return [match[1].rstrip() for match in _COMMENT.finditer(text) if match[1]]


class _Reader:
    """Takes a document apart; a comment goes before what it stands before or beside."""

    def __init__(self) -> None:
        self._comments: list[str] = []

    def read(self, document: Container) -> tuple[list[_Block], list[str]]:
        """Give the blocks in their order, and the comments that stand before nothing."""
        top = _Block("")
        blocks = [top]
        for key, item in self._items(document):
            if isinstance(item, AoT):
                blocks.extend(self._array(_key(key), item))
            elif isinstance(item, Table) and not item.is_super_table():
                blocks.extend(self._block(f"[{_key(key)}]", item))
            elif _are_rows(item.unwrap()):
                blocks.extend(self._rows(key, item.unwrap()))
            else:
                self._field(top, key, item)
        return blocks, self._take()

    def _items(self, container: Container) -> Iterator[tuple[str, Item]]:
        """The items that are no comments; those are kept until they are taken."""
        for key, item in container.body:
            if isinstance(item, Comment):
                self._comments.append(item.trivia.comment.rstrip())
            elif isinstance(item, Whitespace):
                if self._comments and "\n" in item.s:
                    self._comments.append("")
            elif key is not None:
                yield key.key, item

    def _take(self) -> list[str]:
        """The comments since the last time."""
        taken, self._comments = self._comments, []
        return taken

    def _array(self, name: str, rows: AoT) -> Iterator[_Block]:
        for row in rows.body:
            yield from self._block(f"[[{name}]]", row)

    def _block(self, heading: str, table: Table) -> Iterator[_Block]:
        """The block of a row, and those of the rows inside it."""
        self._beside(table)
        block = _Block(heading, self._take())
        below: list[_Block] = []
        for key, item in self._items(table.value):
            if isinstance(item, AoT):
                below.extend(self._array(f"{heading.strip('[]')}.{_key(key)}", item))
            else:
                self._field(block, key, item)
        yield block
        yield from below

    def _rows(self, key: str, rows: Sequence[Mapping[str, object]]) -> Iterator[_Block]:
        for row in rows:
            fields = [_Field(name, value, []) for name, value in row.items()]
            yield _Block(f"[[{_key(key)}]]", self._take(), fields)

    def _beside(self, item: Item) -> None:
        if item.trivia.comment:
            self._comments.append(item.trivia.comment.rstrip())

    def _field(self, block: _Block, key: str, item: Item) -> None:
        """Add a field; dotted keys that stand apart are one."""
        before = self._take()
        self._beside(item)
        if isinstance(item, Table):
            for _ in self._items(item.value):
                """Comments between dotted keys."""
        known = next((one for one in block.fields if one.key == key), None)
        has_comments = isinstance(item, Array) and any(_comments_in(item.as_string()))
        value = _Kept(item.as_string()) if has_comments else item.unwrap()
        comments = [*before, *self._take()]
        if known is None:
            block.fields.append(_Field(key, value, comments))
        elif isinstance(known.value, dict) and isinstance(value, dict):
            known.value |= value
            known.comments.extend(comments)


class _Kept(str):
    """The text of a list that holds comments: it stays as it is written."""

    __slots__ = ()


def _write_block(block: _Block) -> Iterator[str]:
    if block.heading:
        yield ""
    yield from block.comments
    if block.heading:
        yield block.heading
    for one in _ordered(block):
        yield from one.comments
        yield from _write_field(_key(one.key), one.value, is_pattern=one.key in _PATTERNS)


def _ordered(block: _Block) -> list[_Field]:
    if block.heading == "[sources]":
        return sorted(block.fields, key=lambda one: one.key)
    if not block.heading.startswith("[["):
        return block.fields
    order = _FIELDS.get(block.heading.strip("[]"), "").split()
    ranks = {name: rank - len(order) for rank, name in enumerate(order)}
    ranks |= {name: rank + 1 for rank, name in enumerate(_LAST) if name not in ranks}
    return sorted(block.fields, key=lambda one: ranks.get(one.key, 0))


def _write_field(key: str, value: object, *, is_pattern: bool = False) -> Iterator[str]:
    """The lines of a field; what does not fit one is spread out."""
    line = f"{key} = {_pattern(value) if is_pattern else _inline(value)}"
    if len(line) <= WIDTH or is_pattern or isinstance(value, _Kept):
        yield line
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _write_field(f"{key}.{_key(name)}", inner)
    elif isinstance(value, list) and value:
        yield f"{key} = ["
        for item in value:
            yield f"  {_inline(item)},"
        yield "]"
    elif isinstance(value, str) and _may_be_folded(value):
        yield f'{key} = """\\'
        yield from _folded(value)
    else:
        yield line


def _are_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _inline(value: object) -> str:
    """A value on one line."""
    match value:
        case _Kept():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(_inline, value))}]"
        case dict() if not value:
            return "{}"
        case dict():
            inner = (f"{_key(name)} = {_inline(item)}" for name, item in value.items())
            return f"{{ {', '.join(inner)} }}"
        case _:
            raise FormatError(f"{type(value).__name__} has no place in a table")


def _text(text: str) -> str:
    """A text on one line: a literal string where a basic one would need escapes."""
    if not {'"', "\\"} & set(text) or _UNPRINTABLE.search(text):
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"'{text}'" if "'" not in text else _long_literal(text)


def _pattern(value: object) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{value!r} is no pattern")
    return _text(value) if _UNPRINTABLE.search(value) else _long_literal(value)


def _long_literal(text: str) -> str:
    is_literal = "'''" not in text and not text.endswith("'")
    return f"'''{text}'''" if is_literal else json.dumps(text, ensure_ascii=False)


def _may_be_folded(text: str) -> bool:
    """Whether it is words; a line of a log keeps its escapes and its spaces on one line."""
    is_plain = "\\" not in text and not text[:1].isspace() and not _UNPRINTABLE.search(text)
    return is_plain and bool(_GAP.search(text))


def _folded(text: str) -> Iterator[str]:
    """A text over several lines, each of which ends in a space and a backslash."""
    escaped = text.replace('"""', '""\\"')
    if escaped.endswith('"'):
        escaped = escaped[:-1] + '\\"'
    line = ""
    for part in _GAP.split(escaped):
        if line and len(line) + len(part) + 6 > WIDTH:
            yield f"  {line} \\"
            line = part
        else:
            line = f"{line} {part}" if line else part
    yield f'  {line}"""'


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 in form, 1 with ``--check`` when a table is not, 2 when one is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; name what would be")
    parser.add_argument("--matrix", type=Path, default=ROOT / "compat_matrix", help="the tables")
    options = parser.parse_args(arguments)
    changed = []
    for path in sorted(options.matrix.rglob("*.toml")):
        text = path.read_text(encoding="utf-8")
        try:
            formed = format_table(text)
        except ValueError as err:
            print(f"{path}: {err}", file=sys.stderr)
            return 2
        if formed != text:
            changed.append(path)
            if not options.check:
                path.write_text(formed, encoding="utf-8", newline="\n")
    for path in changed:
        print(f"{'not in form' if options.check else 'formatted'}: {path}")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
