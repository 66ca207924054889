"""The report as one JSON document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from envguard.facts.report import report_document, reports_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envguard.facts.report import Report
    from envguard.render.page import Style


def render_json(report: Report, style: Style) -> str:
    """Render the document that the JSON Schema describes."""
    return json.dumps(report_document(report), indent=2, ensure_ascii=False)


def render_jsons(reports: Sequence[Report]) -> str:
    """Render the document of several files: the worst verdict, and the report of each."""
    return json.dumps(reports_document(reports), indent=2, ensure_ascii=False)
