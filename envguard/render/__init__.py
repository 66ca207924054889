"""Reports as text and documents: one file per format."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from envguard.redaction import clean_value
from envguard.render.page import Style

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.facts.report import Report

__all__ = ["FORMATS", "Style", "render_report"]

# Format -> module that holds ``render_<format>``; only the one that is asked for is imported.
FORMATS = {
    "text": "envguard.render.text",
    "json": "envguard.render.json_document",
    "markdown": "envguard.render.markdown",
    "sarif": "envguard.render.sarif",
    "junit": "envguard.render.junit",
    "github": "envguard.render.github",
}


def render_report(report: Report, format_name: str, style: Style) -> str:
    """Render a report in one of ``FORMATS``; whatever it holds, no secret is shown."""
    module = importlib.import_module(FORMATS[format_name])
    render = cast("Callable[[Report, Style], str]", getattr(module, f"render_{format_name}"))
    return render(clean_value(report), style)
