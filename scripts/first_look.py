"""Puts fresh reports to the program once, before anything is mended, and counts the judgements.

A set is a folder of TOML files, one a report: what a person would type, what stood in the texts,
and what an expert answered who has not seen the program. ``ask`` runs the program on each and keeps
its answers in the folder (once: only a first look measures, a second run needs another folder).
``sheet`` prints report and answer side by side for somebody who judges by meaning and writes
``judged.toml``. ``count`` pools the judged sets::

    python scripts/first_look.py ask SET [--envguard "envguard"]
    python scripts/first_look.py sheet SET > sheet.md
    python scripts/first_look.py count SET...

A report::

    id = "007"
    kind = "report"                 # or "control" (nothing is wrong), "not-knowable"
    argv = ["diagnose", "log.txt", "--gpu", "RTX 4090"]
    [texts]
    "log.txt" = '''...'''
    [answer]
    verdict = "fail"                # fail, warn, unknown, ok
    acceptable = ["unknown"]
    cause = "in words"
    fix = "in words"

A judgement, in ``judged.toml``::

    [007]
    cause = "yes"                   # is the first cause named the true one: yes, no, none
    invented = false                # a cause is called established that is not there
    fix = "partly"                  # would the printed fix have helped: yes, partly, no, harmful
    kind = "what kind of reasoning was missing"
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TIMEOUT_S = 120
ANSWERS = "answers.json"
JUDGED = "judged.toml"
SHOWN_FINDINGS = 4
SHOWN_CHARACTERS = 6000
# variables that would describe another environment or machine than the report does
FOREIGN = re.compile(
    r"VIRTUAL_ENV|CONDA_|PYTHONPATH|LD_LIBRARY_PATH|UV_|NV_VARIANT_|ENVGUARD_|CUDA_"
)

Record = dict[str, Any]


def load_reports(folder: Path) -> dict[str, Record]:
    """The reports of one set by id; two files with one id are refused."""
    reports: dict[str, Record] = {}
    for path in sorted(folder.glob("*.toml")):
        if path.name == JUDGED:
            continue
        report = tomllib.loads(path.read_text(encoding="utf-8"))
        if report["id"] in reports:
            raise SystemExit(f"{path}: the id {report['id']} stands twice")
        reports[report["id"]] = report
    if not reports:
        raise SystemExit(f"{folder}: no reports")
    return reports


def ask_one(report: Record, program: list[str]) -> Record:
    """Run the program on one report in a folder of its own; what it printed, or what went wrong."""
    environment = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in report.get("texts", {}).items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [*program, *report["argv"], "--format", "json"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"trouble": f"no answer in {TIMEOUT_S} s"}
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"exit": done.returncode, "trouble": (done.stderr or done.stdout).strip()[:500]}
    return {"exit": done.returncode, **shorten(document)}


def shorten(document: Record) -> Record:
    """What a judge reads of a report document: verdict, causes in order, first findings, build."""
    findings = [f for f in document.get("findings", []) if f.get("status") not in {"ok", "skip"}]
    told = [f["cause"] for f in findings if f.get("cause")]
    error = document.get("error") or {}
    return {
        "verdict": document.get("verdict"),
        "root_cause": document.get("root_cause"),
        "first": document.get("root_cause") or next(iter(told), None),
        "told": told,
        "findings": [
            {key: f.get(key) for key in ("status", "cause", "title", "detail", "remedy")}
            for f in findings[:SHOWN_FINDINGS]
        ],
        "recommended": document.get("recommended"),
        **({"trouble": str(error)} if error else {}),
    }


def ask(folder: Path, program: list[str]) -> None:
    """Ask once; a set that has answers is refused."""
    target = folder / ANSWERS
    if target.exists():
        raise SystemExit(f"{target} exists: a set is looked at once")
    reports = load_reports(folder)
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda report: ask_one(report, program), reports.values())
        target.write_text(json.dumps(dict(zip(reports, answers, strict=True)), indent=1))


def print_sheet(folder: Path) -> None:
    """Report, expected answer and the program's answer, one after the other."""
    answers = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
    for key, report in load_reports(folder).items():
        sys.stdout.write(f"\n# {key} {report.get('title', '')}\n{report.get('url', '')}\n")
        sys.stdout.write(f"$ envguard {shlex.join(report['argv'])}\n")
        for name, text in report.get("texts", {}).items():
            sys.stdout.write(f"--- {name}\n{text.strip()[-SHOWN_CHARACTERS:]}\n")
        sys.stdout.write(
            f"--- expert\n{json.dumps(report['answer'], indent=1, ensure_ascii=False)}\n"
        )
        sys.stdout.write(f"--- program\n{json.dumps(answers[key], indent=1, ensure_ascii=False)}\n")


def is_right(report: Record, answer: Record, judged: Record) -> bool:
    """Whether the verdict is the expert's, or less certain with the true cause named first."""
    expected = report["answer"]
    if answer.get("verdict") in {expected["verdict"], *expected.get("acceptable", [])}:
        return True
    if expected["verdict"] == "ok":
        return answer.get("verdict") == "warn" and not judged.get("invented")
    less_certain = expected["verdict"] in {"fail", "warn"} and answer.get("verdict") == "unknown"
    return less_certain and report["argv"][0] == "diagnose" and judged.get("cause") == "yes"


def count(folders: list[Path]) -> None:
    """Print the figures of the sets, pooled, and the kinds that were wrong."""
    tally: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for folder in folders:
        answers = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
        judgements = tomllib.loads((folder / JUDGED).read_text(encoding="utf-8"))
        for key, report in load_reports(folder).items():
            judged = judgements[key]
            right = is_right(report, answers[key], judged)
            tally["reports"] += 1
            tally["verdict right"] += right
            control = report["kind"] == "control"
            tally["controls"] += control
            tally["invented on controls"] += control and bool(judged.get("invented"))
            tally["invented"] += bool(judged.get("invented"))
            if not control:
                tally["with a cause"] += 1
                tally["first cause right"] += judged["cause"] == "yes"
                tally[f"fix {judged['fix']}"] += 1
            if not right or (not control and judged["cause"] != "yes"):
                kinds[judged.get("kind", "")] += 1
                told = f"{answers[key].get('verdict')} {answers[key].get('first')}"
                sys.stdout.write(f"{folder.name}/{key}: {told}: {judged.get('kind', '')}\n")
    for name, number in sorted(tally.items()):
        sys.stdout.write(f"{name}: {number}\n")
    share = 100 * tally["verdict right"] / tally["reports"]
    named = 100 * tally["first cause right"] / max(tally["with a cause"], 1)
    sys.stdout.write(f"verdict {share:.0f} %, first named cause {named:.0f} %\n")


def main() -> None:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("ask", "sheet", "count"):
        command = commands.add_parser(name)
        command.add_argument("sets", nargs="+", type=Path)
        command.add_argument("--envguard", default="envguard", help="the program to ask")
    args = parser.parse_args()
    if args.command == "count":
        count(args.sets)
        return
    for folder in args.sets:
        if args.command == "ask":
            ask(folder, shlex.split(args.envguard))
        else:
            print_sheet(folder)


if __name__ == "__main__":
    main()
