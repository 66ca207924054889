"""Feeds odd documents to the program, family by family, and prints every input that breaks it.

Usage: ``python scripts/fuzz_readers.py FAMILY... [--minutes N] [--seed WORD] [--keep FOLDER]``

A fault is exit code 4, an exception that leaves the program, more processor time than
``--longest`` seconds or more memory than ``--memory`` GiB. One input of each kind of fault is
kept; ``FAMILY --only N`` runs case N of a seed once more. Exits with 1 when there was a fault.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typing import TYPE_CHECKING

from envguard.cli.main import main as envguard
from scripts.fuzz_families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACE = re.compile(r'File "[^"]*?(envguard/[^"]+|[^"/]+)", line ([0-9]+)')


class TooSlowError(BaseException):
    """A case took more processor time than it may; no ``except Exception`` stops it."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended.

    Args:
        code: The exit code; None where an exception left the program.
        fault: What broke, and where; empty when nothing did.
        said: What the program wrote to stderr.
    """

    code: int | None
    fault: str
    said: str


def run_case(family: str, random: Random, folder: Path, *, longest_s: float) -> CaseResult:
    """Make one case in an empty folder and run it in this process.

    Args:
        family: A key of ``FAMILIES``.
        random: Where the choices come from.
        folder: Empty; the working directory meanwhile.
        longest_s: Processor time that the case may take; 0 for no limit.
    """
    arguments = FAMILIES[family](random, folder)
    (folder / "arguments").write_bytes("\n".join(arguments).encode("utf-8", "surrogatepass"))
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    raw = io.BytesIO()
    stderr = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace")
    code: int | None = None
    fault = ""
    with contextlib.chdir(folder), contextlib.redirect_stdout(stdout), _traced(longest_s):
        try:
            with contextlib.redirect_stderr(stderr):
                code = int(envguard(arguments))
        except TooSlowError as err:
            fault = f"too slow: {_place(traceback.format_exception(err))}"
        except BaseException as err:  # noqa: BLE001 - nothing may leave main()
            fault = f"{type(err).__name__} left main: {_place(traceback.format_exception(err))}"
    stderr.flush()
    said = raw.getvalue().decode()
    if code == 4:
        fault = f"exit code 4: {said.strip().splitlines()[-2:]}: {_place([said])}"
    return CaseResult(code, fault, said)


def _place(lines: list[str]) -> str:
    """The innermost lines of envguard in a traceback."""
    found = [f"{file}:{line}" for file, line in _PLACE.findall("".join(lines))]
    inner = [place for place in found if place.startswith("envguard/")]
    return " < ".join(reversed(inner[-3:]))


@contextlib.contextmanager
def _traced(longest_s: float) -> Iterator[None]:
    """Tracebacks of failures on stderr, and an end to what takes too long."""

    def stop(number: int, frame: object) -> None:
        raise TooSlowError(f"signal {number}")

    os.environ["ENVGUARD_TRACEBACK"] = "1"
    before = signal.signal(signal.SIGVTALRM, stop) if longest_s else None
    if longest_s:
        signal.setitimer(signal.ITIMER_VIRTUAL, longest_s)
    try:
        yield
    finally:
        del os.environ["ENVGUARD_TRACEBACK"]
        if longest_s:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


def kind_of(fault: str) -> str:
    """Faults of one kind: the innermost place, without the values of the message."""
    head, _, place = fault.rpartition(": ")
    return place.partition(" < ")[0] or head


def fuzz(family: str, options: argparse.Namespace) -> Counter[str]:
    """Run the cases of a family until the time is over.

    Returns:
        How often each kind of fault came.
    """
    faults: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    end, number = time.monotonic() + 60 * options.minutes, options.only or 0
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            random = Random(f"{options.seed}:{family}:{number}")  # noqa: S311 - no secret
            outcome = run_case(family, random, folder, longest_s=options.longest)
            codes[str(outcome.code)] += 1
            kind = kind_of(outcome.fault)
            if outcome.fault and kind not in faults:
                print(f"{family} {number}: {outcome.fault:.1500}", flush=True)
                if options.keep:
                    keep = options.keep / f"{family}-{number}"
                    shutil.copytree(folder, keep, symlinks=True, dirs_exist_ok=True)
            faults.update([kind] if outcome.fault else [])
        if options.only is not None:
            print(outcome.said, file=sys.stderr)
            break
        number += 1
    print(f"{family}: {number} cases, exit codes {dict(codes)}, {len(faults)} kinds of fault")
    return faults


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 no fault, 1 a fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="+", choices=[*FAMILIES, "all"], help="kinds of input")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each family")
    parser.add_argument("--seed", default="0", help="another word gives other cases")
    parser.add_argument("--longest", type=float, default=10.0, help="processor seconds a case")
    parser.add_argument(
        "--memory", type=float, default=2.0, help="GiB of addresses; 0 for no limit"
    )
    parser.add_argument("--keep", type=Path, help="folder for inputs that broke the program")
    parser.add_argument("--only", type=int, help="run this case alone and show what it said")
    options = parser.parse_args(arguments)
    if options.memory and sys.platform != "win32":
        import resource

        most = int(options.memory * 1024**3)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    names = list(FAMILIES) if "all" in options.families else options.families
    return 1 if sum((fuzz(name, options) for name in names), Counter()) else 0


if __name__ == "__main__":
    sys.exit(main())
