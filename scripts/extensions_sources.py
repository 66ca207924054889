"""The wording and the sources of the tables about packages."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_PLAIN = {"checked", "sources", "rule", "deepspeed"}
_NOT_REMARKS = {"source", "confidence"}
_WHEEL = re.compile(r"(wheel|elf|sdist):([^ !]+)")
_GIT = re.compile(r"git:([\w.-]+/[\w.-]+)@([^:\s]+)(?::(\S+))?")
_TAG = re.compile(r"git tag (v[\w.]+)")


class WordsError(ValueError):
    """A fact carries a remark without wording, or wording belongs to no fact."""


@dataclass
class Words:
    """Decoded ``extensions_words.toml`` and ``extensions_rules.toml``."""

    data: Row

    @classmethod
    def load(cls) -> Words:
        """Read the files beside this module."""
        here = Path(__file__)
        names = ("extensions_words.toml", "extensions_rules.toml")
        first, second = (
            tomllib.loads(here.with_name(name).read_text(encoding="utf-8")) for name in names
        )
        sources = {**first["sources"], **second.pop("sources")}
        return cls({**first, **second, "sources": sources})

    @property
    def checked(self) -> str:
        """ISO date at which the sources were read."""
        return str(self.data["checked"])

    def packages(self) -> list[str]:
        """The packages that get a table, sorted."""
        return sorted(
            name for name, own in self.data.items() if name not in _PLAIN and "section" in own
        )

    def package(self, name: str) -> Row:
        """What is written about a package."""
        own: Row = self.data[name]
        return own

    def notes(self, name: str, section: Row, book: SourceBook) -> list[Row]:
        """The remarks of a section in other words, in the order of the facts.

        Raises:
            WordsError: A remark has no wording, or wording no remark.
        """
        notes = self.data[name].get("notes", {})
        remarks = [key for key, value in section.items() if _is_remark(key, value)]
        if set(remarks) != set(notes):
            odd = sorted(set(remarks) ^ set(notes))
            raise WordsError(f"{name}: remarks and wording differ: {', '.join(odd)}")
        source = section.get("source", "")
        key = "wheel" if source.startswith("wheel") else next(iter(_repositories(source)), "wheel")
        kept = key if key in self.data["sources"] else "wheel"
        return [book.named({"topic": k, "text": notes[k]}, kept, "doc") for k in remarks]


def _is_remark(key: str, value: object) -> bool:
    rows = isinstance(value, list) and value and isinstance(value[0], dict)
    return key not in _NOT_REMARKS and not rows and not isinstance(value, dict)


def _repositories(text: str) -> list[str]:
    return [f"github-{match[1].replace('/', '-')}" for match in _GIT.finditer(text)]


@dataclass
class SourceBook:
    """The sources that the rows of one table name.

    A row read out of a file names the file; its source is the kind of file.

    Args:
        words: Wording.
        used: Address by key.
    """

    words: Words
    used: dict[str, str] = field(default_factory=dict)

    def named(self, row: Row, keys: str, confidence: str) -> Row:
        """Give a row sources that the wording knows by key.

        Raises:
            WordsError: A key is not known.
        """
        for key in keys.split():
            if key not in self.words.data["sources"]:
                raise WordsError(f"no address for source {key!r}")
            self.used[key] = self.words.data["sources"][key]
        return {**row, "source": keys.split(), "confidence": confidence}

    def finish(self, row: Row, text: str) -> Row:
        """Give a row the source that the facts state, with the file that was read.

        Raises:
            WordsError: The source text has an unknown form.
        """
        if match := _GIT.search(text):
            key, path = f"github-{match[1].replace('/', '-')}", match[3] or ""
            self.used[key] = f"https://github.com/{match[1]}/tree/"
            file, confidence = f"{match[2]}/{path}".rstrip("/"), "script"
        elif match := _TAG.search(text):
            key, file, confidence = "github-ModelCloud-GPTQModel", match[1], "script"
            self.used[key] = "https://github.com/ModelCloud/GPTQModel/tree/"
        elif match := _WHEEL.search(text):
            key, file = match[1], match[2]
            confidence = {"wheel": "metadata", "elf": "binary", "sdist": "script"}[key]
            self.used[key] = self.words.data["sources"][key]
        elif text.startswith("sdist PKG-INFO"):
            key, file, confidence = "sdist", text.split()[-1], "metadata"
            self.used[key] = self.words.data["sources"][key]
        elif text.startswith("index:"):
            key, file, confidence = "index", "", "metadata"
            self.used[key] = self.words.data["sources"][key]
        else:
            raise WordsError(f"no form for source {text!r}")
        done = {**row, "file": file} if file else dict(row)
        if "README" in text and key == "wheel":
            confidence = "doc"
        note = done.pop("note", None)
        done |= {"source": [key], "confidence": confidence}
        return {**done, "note": note} if note else done

    def addresses(self) -> dict[str, str]:
        """Address of each source that was named."""
        return dict(self.used)
