"""The code blocks of README and CONTRIBUTING, and whether the program prints what they show."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A code block of a document: its language, the word behind it, its text."""

    kind: str
    name: str
    text: str


def blocks_of(text: str, *kinds: str) -> list[Block]:
    """The blocks of some languages in a text, in their order."""
    found = [Block(m["kind"], m["name"] or "", m["text"]) for m in _BLOCK.finditer(text)]
    return [block for block in found if block.kind in kinds]


def commands(block: Block) -> Iterator[tuple[list[str], list[str]]]:
    """The commands behind ``$`` in a console block, each with the lines that it prints."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        first, _, shown = part.replace("\\\n", " ").partition("\n")
        yield shlex.split(first), shown.rstrip("\n").splitlines()


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What ``envguard`` prints for the words of a command, on both streams."""
    assert words[0] == "envguard"
    main(words[1:])
    out, err = capsys.readouterr()
    return [line.rstrip() for line in (err + out).splitlines()]


def holds(lines: list[str], shown: list[str]) -> bool:
    """Whether lines are what is shown; ``...`` is any lines, and inside of a line any text."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None
