"""Tries the patterns of tables in a child with a limit; names those that can be made to hang."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import envguard
from envguard.errors import MatrixError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.loader import Matrix
    
TOTAL_S = 300.0  # all patterns of the shipped tables take 8 s of an unhurried processor
_EACH_S = 10.0
_SHOWN = 60


class TablePattern(NamedTuple):
    """A pattern of a table.

    Args:
        place: Table, row and field, for people.
        regex: As written.
        literals: A line is searched only when it holds one of them.
    """

    place: str
    regex: str
    literals: tuple[str, ...]


def patterns_of(matrix: Matrix) -> Iterator[TablePattern]:
    """Every pattern of the tables that runs over texts of others.

    Raises:
        MatrixError: The table cannot be read.
    """
    for place, row in matrix.causes.signature_places:
        yield TablePattern(f"{place}.regex ({row.id})", row.regex, row.literals)
    for index, phase in enumerate(matrix.signals.phases):
        place = f"evidence.toml: phase[{index}].regex ({phase.id})"
        yield TablePattern(place, phase.regex, phase.literals)


def try_tables(matrix: Matrix, total_s: float = TOTAL_S) -> tuple[str, ...]:
    """Attack the patterns in which tables differ from the shipped ones.

    Args:
        matrix: The tables of somebody else.
        total_s: After this many seconds the rest counts as not tried.

    Returns:
        One line a pattern that takes too long, naming table, row and pattern; empty when none
        does.

    Raises:
        MatrixError: The patterns cannot be read.
    """
    from envguard.matrix.loader import Matrix as Tables

    shipped = {pattern[1:] for pattern in patterns_of(Tables.load())}
    strange = tuple(item for item in patterns_of(matrix) if item[1:] not in shipped)
    return try_patterns(strange, total_s)


def try_patterns(patterns: tuple[TablePattern, ...], total_s: float = TOTAL_S) -> tuple[str, ...]:
    """Attack patterns in a child.

    Args:
        patterns: What to attack.
        total_s: After this many seconds the rest counts as not tried.

    Returns:
        As :func:`try_tables`.

    Raises:
        MatrixError: The child could not be run.
    """
    if not patterns:
        return ()
    costs = _costs(patterns, total_s)
    problems = [
        f"{item.place}: {_short(item.regex)} takes {cost:.0f} s for a megabyte of a text such as"
        f" {_short(text)}; the limit is {limit:g} s"
        for item, (cost, limit, text) in zip(patterns, costs, strict=False)
        if cost > limit
    ]
    if len(costs) < len(patterns):
        item = patterns[len(costs)]
        problems.append(f"{item.place}: {_short(item.regex)} did not come to an end in a trial")
    return tuple(problems)


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _costs(patterns: tuple[TablePattern, ...], total_s: float) -> list[tuple[float, float, str]]:
    """Cost, limit and text of each pattern up to the first one that did not end."""
    root = str(Path(envguard.__file__).resolve().parent.parent)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps([(item.regex, item.literals) for item in patterns]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": root},
            timeout=total_s,
            check=False,
        )
        said = done.stdout
    except subprocess.TimeoutExpired as err:
        said = err.stdout or b""
    except OSError as err:
        raise MatrixError(f"the patterns cannot be tried: {err}") from err
    whole = said.decode("utf-8", "replace").splitlines(keepends=True)
    return [tuple(json.loads(line)) for line in whole if line.endswith("\n")]


def main() -> None:
    """The child: one line of JSON for each pattern; one that does not end ends the child."""
    from envguard.matrix.pattern_cost import LIMIT_S_PER_MB, measure, slowness

    limit = LIMIT_S_PER_MB * slowness()
    for regex, literals in json.load(sys.stdin):
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_VIRTUAL, _EACH_S)  # its signal ends the process
        cost = measure(re.compile(regex), literals, limit=limit)
        print(json.dumps((cost.seconds_per_mb, limit, cost.text[:200])), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
