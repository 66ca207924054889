"""Reports as text and documents: one file per format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.render.json_document import render_json
from envguard.render.style import Style
from envguard.render.text import render_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.facts.report import Report

__all__ = ["FORMATS", "Style", "render_report"]

FORMATS: dict[str, Callable[[Report, Style], str]] = {
    "text": render_text,
    "json": render_json,
}


def render_report(report: Report, format_name: str, style: Style) -> str:
    """Render a report in one of ``FORMATS``."""
    return FORMATS[format_name](report, style)
