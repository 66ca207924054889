"""Crash logs of tests/crashes: a header of ``# key: value`` lines, then the log as it stands.

A log lies in the folder that is named as the table of causes which holds the cause that it expects;
what expects ``ok`` lies in ``nothing``.
"""

from __future__ import annotations

import io
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.crash.case import Circumstances
from envguard.crash.diagnose import diagnose
from envguard.crash.phases import Phase
from envguard.crash.scan import scan_stream
from envguard.facts.facts import Facts
from envguard.ingest.stated import parse_stated, stated_facts
from envguard.ingest.stated_pins import add_pins
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from envguard.facts.report import Report

FOLDER = Path(__file__).resolve().parents[1] / "crashes"
LOGS = {path.stem: path for path in sorted(FOLDER.rglob("*.txt"), key=lambda path: path.stem)}
MATRIX = Matrix.load()


@dataclass(frozen=True)
class CrashLog:
    """One file of tests/crashes.

    ``expect`` is ``[STATUS] CODE CAUSE`` of the finding that comes first; fail where no status is
    given.
    """

    name: str
    expect: str
    text: str
    options: dict[str, str]

    def facts(self) -> Facts:
        options = self.options
        gpu = options["gpu"].split(" | ") if "gpu" in options else []
        if not {"gpu", "platform", "subject"} & set(options):
            return Facts()
        stated = parse_stated(
            gpu=gpu, driver=options.get("driver"), platform=options.get("platform")
        )
        facts, _ = stated_facts(stated)
        pins = shlex.split(options.get("subject", ""))
        environment = add_pins(None, pins) if pins else None
        return Facts(facts.machine, environment, facts.gaps)


def load_log(path: Path) -> CrashLog:
    options: dict[str, str] = {}
    lines = path.read_text().splitlines(keepends=True)
    while lines and lines[0].startswith("# ") and ": " in lines[0]:
        key, _, value = lines.pop(0)[2:].strip().partition(": ")
        options[key] = value
    return CrashLog(path.stem, options.pop("expect"), "".join(lines), options)


def report_of(
    text: str | bytes,
    *,
    exit_code: int | None = None,
    phase: str | None = None,
    facts: Facts | None = None,
) -> Report:
    raw = text.encode() if isinstance(text, str) else text
    return diagnose(
        scan_stream(io.BytesIO(raw), MATRIX, "train.log"),
        facts or Facts(),
        MATRIX,
        Circumstances(exit_code, Phase(phase) if phase else None),
        torch_index=DEFAULT_TORCH_INDEX,
    )
