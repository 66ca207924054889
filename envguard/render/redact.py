"""Take paths, host names and UUIDs out of a report before it leaves the machine."""

from __future__ import annotations

import platform
import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_UUID = re.compile(
    r"\b(GPU|MIG)-(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:/\d+/\d+)?\b",
    re.IGNORECASE,
)
# An absolute path of at least one folder; addresses (scheme://...) are left alone.
_POSIX = re.compile(r"(?<![\w:/.<])/(?:[^\s/'\",;:()<>|]+/)+([^\s/'\",;:()<>|]*)")
_WINDOWS = re.compile(r"\b[A-Za-z]:\\(?:[^\\\s'\",;<>|]+\\)+([^\\\s'\",;<>|]*)")
_SERIAL_VARIABLES = re.compile(r"SLURM_JOB_(?:USER|ACCOUNT|PARTITION|NODELIST)|SLURM.*HOST")


def redact_text(text: str) -> str:
    """Replace what names this machine: UUIDs, absolute paths (their last part is kept), host."""
    text = _UUID.sub(lambda m: f"{m[1].upper()}-<redacted>", text)
    text = _POSIX.sub(lambda m: f"<path>/{m[1]}" if m[1] else "<path>/", text)
    text = _WINDOWS.sub(lambda m: f"<path>\\{m[1]}", text)
    for name in {platform.node(), Path.home().name} - {"", "root", "localhost"}:
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "<redacted>", text)
    return text


def redact(value: T) -> T:
    """Redact every text inside a frozen value.

    Args:
        value: A dataclass, tuple, mapping or text; versions and enums stay as they are.
    """
    return _redacted(value)  # type: ignore[no-any-return]  # the shape is kept


def _redacted(value: Any) -> Any:
    match value:
        case str():
            return redact_text(value)
        case Enum():
            return value
        case (str() as name, str()) if _SERIAL_VARIABLES.fullmatch(name):
            return (name, "<redacted>")
        case tuple() | list():
            return type(value)(_redacted(item) for item in value)
        case dict():
            return {key: _redacted(item) for key, item in value.items()}
        case _ if is_dataclass(value) and not hasattr(value, "parse"):
            changed = {f.name: _redacted(getattr(value, f.name)) for f in fields(value)}
            return replace(value, **changed)  # type: ignore[type-var]  # an instance, not a class
        case _:
            return value
