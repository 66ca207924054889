"""A checkpoint's cost in host memory, in words."""

from __future__ import annotations

from envguard.facts.report import report_document
from envguard.render.page import Style
from envguard.render.stages import stage_lines
from envguard.smoke.result import describe_memory
from envguard.smoke.smoke_report import smoke_report
from tests.smoke.fake import MATRIX, run_fake


def test_the_cost_stands_beside_the_size_of_the_state() -> None:
    details = {
        "state_bytes": 33554432,
        "save_rss_bytes": 1048576,
        "load_rss_bytes": 35651584,
    }
    assert describe_memory(details) == "32 MiB: save +1 MiB, load +34 MiB"


def test_what_was_not_measured_is_not_stated() -> None:
    assert describe_memory({"state_bytes": 33554432, "save_rss_bytes": None}) == ""
    assert describe_memory({}) == ""


def test_the_table_shows_the_cost() -> None:
    report = smoke_report(run_fake(stages=("checkpoint",)), MATRIX)
    (stage,) = [s for s in report_document(report)["stages"] if s["id"] == "checkpoint"]
    assert stage["details"]["load_rss_bytes"] > 20 * 2**20  # it reads 32 MiB back
    lines = list(stage_lines(report.extra["stages"], Style(width=80)))
    (line,) = [line for line in lines if " checkpoint " in line]
    assert "  32 MiB: save +" in line
    assert max(map(len, lines)) <= 80
