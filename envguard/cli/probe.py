"""``envguard probe``: this machine as a facts document."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated

import typer

from envguard.cli.out import write_text
from envguard.cli.subject import live_facts
from envguard.errors import ExitCode
from envguard.facts.facts import facts_document
from envguard.printable import escaped_in_json


def probe(
    python: Annotated[
        str | None, typer.Option("--python", help="Another interpreter on this machine.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> int:
    """Write what this machine is as a JSON document that `check --from` reads anywhere."""
    facts = live_facts(python, all_sources=True)
    document = json.dumps(facts_document(facts), indent=2, ensure_ascii=False)
    write_text(document, output, clean=escaped_in_json)
    return ExitCode.FITS
