"""The stages of a smoke test as a table for a person."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from envguard.render.page import Style

_MARKS = {
    "ok": ("ok", "green"),
    "fail": ("FAIL", "red"),
    "skip": ("skip", "dim"),
}
_HEAD = f"{'':<6}{'stage':<16}{'time':>9}{'peak memory':>13}"


def stage_lines(stages: Sequence[Mapping[str, Any]], style: Style) -> Iterator[str]:
    """One line a stage: how it went, how long it took, the host memory at its peak.

    Args:
        stages: The ``stages`` member of a smoke report.
        style: How it looks.
    """
    reached = [stage for stage in stages if stage["status"] != "not-reached"]
    if reached:
        yield style.paint(_HEAD.rstrip(), "dim")
    for stage in reached:
        word, colour = _MARKS.get(str(stage["status"]), ("?", "dim"))
        figures = f"{stage['id']:<16}{_seconds(stage):>9}{_memory(stage):>13}"
        yield f"{style.paint(f'{word:<6}', colour)}{figures}  {_remark(stage, style)}".rstrip()
    left_out = [str(stage["id"]) for stage in stages if stage["status"] == "not-reached"]
    if left_out:
        text = "not reached: " + ", ".join(left_out)
        for line in textwrap.wrap(
            text, style.width, initial_indent="-     ", subsequent_indent=" " * 6
        ):
            yield style.paint(line, "dim")


def _seconds(stage: Mapping[str, Any]) -> str:
    seconds = stage.get("seconds")
    return "" if seconds is None else f"{seconds:.2f} s"


def _memory(stage: Mapping[str, Any]) -> str:
    peak = stage.get("rss_peak_bytes")
    return "" if peak is None else f"{peak / 2**20:.0f} MiB"


def _remark(stage: Mapping[str, Any], style: Style) -> str:
    """What it is for; or, for one that did not pass, why: in what room the line leaves."""
    error = stage.get("error")
    message = (error["message"].strip() or error["type"]) if error else ""
    text = message or stage.get("reason") or stage.get("remark") or stage["title"]
    line = str(text).partition("\n")[0]
    room = max(20, style.width - len(_HEAD) - 2)
    return line if len(line) <= room else line[: room - 3] + "..."
