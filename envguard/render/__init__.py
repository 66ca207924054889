"""Reports as text and documents: one file per format."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from envguard.redaction import clean_value
from envguard.render.page import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from envguard.facts.report import Report

__all__ = ["FORMATS", "Style", "render_report", "render_reports"]

# Format -> module that holds ``render_<format>``; only the one that is asked for is imported.
FORMATS = {
    "text": "envguard.render.text",
    "json": "envguard.render.json_document",
    "markdown": "envguard.render.markdown",
    "sarif": "envguard.render.sarif",
    "junit": "envguard.render.junit",
    "github": "envguard.render.github",
}

# Formats of which a file holds one document: ``render_<format>s`` takes several reports.
_ONE_DOCUMENT = frozenset({"json", "sarif", "junit"})


def render_report(report: Report, format_name: str, style: Style) -> str:
    """Render a report in one of ``FORMATS``; whatever it holds, no secret is shown."""
    module = importlib.import_module(FORMATS[format_name])
    render = cast("Callable[[Report, Style], str]", getattr(module, f"render_{format_name}"))
    return render(clean_value(report), style)


def render_reports(reports: Sequence[Report], format_name: str, style: Style) -> str:
    """Render the reports of several files: one document, or one text after the other.

    Args:
        reports: One a file, each with the file's name in ``extra["file"]``; or a single one.
        format_name: One of ``FORMATS``.
        style: For text.
    """
    if len(reports) == 1:
        return render_report(reports[0], format_name, style)
    if format_name in _ONE_DOCUMENT:
        module = importlib.import_module(FORMATS[format_name])
        render = cast(
            "Callable[[Sequence[Report]], str]", getattr(module, f"render_{format_name}s")
        )
        return render([clean_value(report) for report in reports])
    from envguard.render.summary import tally_words  # only for several

    texts = [render_report(report, format_name, style) for report in reports]
    parting = "" if format_name == "github" or style.is_quiet else "\n"
    return parting.join((*texts, f"{tally_words(reports)}\n"))
