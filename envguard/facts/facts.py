"""Facts: a machine and an environment at one moment, and what is not known about them."""

from __future__ import annotations

import json
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from envguard.errors import DocumentError
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.environment import Environment
from envguard.facts.gaps import Gap
from envguard.facts.machine import Machine
from envguard.files import read_utf8
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from envguard.facts.binary import BinaryFacts  # noqa: TC004 - the codec imports it late

SCHEMA_VERSION = 1
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known about one machine and one environment.

    Args:
        machine: The machine.
        environment: The environment; None when the subject has none.
        gaps: What is not known, with the reason.
        compiled: What the installed compiled files say; None when they were not read.
        taken_at: ISO 8601 UTC time of reading, empty for stated facts.
    """

    machine: Machine = field(default_factory=Machine)
    environment: Environment | None = None
    gaps: tuple[Gap, ...] = ()
    taken_at: str = ""
    compiled: BinaryFacts | None = None

    def gap(self, fact: str) -> Gap | None:
        """The first gap for this fact, or None."""
        return next((gap for gap in self.gaps if gap.fact == fact), None)

    def with_gaps(self, *gaps: Gap) -> Facts:
        """A copy with further gaps."""
        return replace(self, gaps=(*self.gaps, *gaps))


def facts_document(facts: Facts) -> dict[str, Any]:
    """The JSON document of ``probe -o``: ``schema_version``, ``kind`` and the facts."""
    return {"schema_version": SCHEMA_VERSION, "kind": "facts", **to_dict(facts)}


def parse_facts_document(document: object, where: str) -> Facts:
    """Read a facts document back.

    Args:
        document: Decoded JSON.
        where: Name of the file, for messages.

    Raises:
        DocumentError: Another kind of document, a newer schema, or a field of the wrong shape.
    """
    if not isinstance(document, dict):
        raise DocumentError(f"{where}: a facts document is a JSON object")
    if document.get("kind") != "facts":
        raise DocumentError(f"{where}: not a facts document (its kind is {document.get('kind')!r})")
    check_schema_version(document.get("schema_version"), where)
    body = {k: v for k, v in document.items() if k not in {"schema_version", "kind"}}
    return from_dict(Facts, body, where)


def check_schema_version(found: object, where: str) -> None:
    """Refuse a document whose schema this program does not know.

    Raises:
        DocumentError: The version is missing, not an integer, or newer.
    """
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise DocumentError(f"{where}: schema_version {found!r} is not a positive integer")
    if found > SCHEMA_VERSION:
        raise DocumentError(
            f"{where}: schema_version {found} is newer than {SCHEMA_VERSION}, the newest that "
            "this envguard reads",
            hint="upgrade envguard",
        )


def load_facts(path: Path) -> Facts:
    """Load a facts document from a file.

    Raises:
        InputError: Unreadable or too large.
        DocumentError: Truncated, or not a facts document.
    """
    text = read_utf8(path, _MAX_BYTES)
    return parse_facts_document(decode_json(text, str(path)), str(path))


def decode_json(
    text: str, where: str, build: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> object:
    """Decode JSON with an error that names the file and place.

    Args:
        text: The document.
        where: Name of the file, for messages.
        build: Makes each object of its keys and values; None makes a dict.

    Raises:
        DocumentError: The text is not one JSON document.
    """
    try:
        return json.loads(text, object_pairs_hook=build)
    except json.JSONDecodeError as err:
        place = f"{where}:{err.lineno}:{err.colno}"
        raise DocumentError(f"{place}: not valid JSON: {err.msg.lower()}") from err
    except (RecursionError, ValueError) as err:
        raise DocumentError(f"{where}: not usable JSON: {err}") from err
