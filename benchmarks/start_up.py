"""``check --no-deep`` beside an empty typer command and ``torch.utils.collect_env``.

    python -m benchmarks.start_up [--torch-python PATH] [--runs N]

Budgets (design section 7): at most 1.5x the empty command, at most 1/12 of collect_env.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import print_ratio, print_timings, time_in_turn

_EMPTY = '''"""An empty typer command."""
import typer

app = typer.Typer()


@app.command()
def main() -> None:
    """Do nothing."""


app()
'''


def main() -> int:
    """Measure and print; exit status 1 when a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", help="interpreter with torch, for collect_env")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    compileall.compile_dir(root / "envguard", quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty_command.py"
        empty.write_text(_EMPTY)
        check = [sys.executable, "-m", "envguard", "check", "--no-deep"]
        commands = {"empty typer command": [sys.executable, str(empty)], "check": check}
        if options.torch_python:
            python = options.torch_python
            commands["check of torch"] = [*check, "--python", python]
            commands["collect_env"] = [python, "-m", "torch.utils.collect_env"]
        timings = time_in_turn(commands, runs=options.runs)
    print_timings(timings)
    kept = print_ratio(timings, "check", "empty typer command", 1.5)
    if options.torch_python:
        kept &= print_ratio(timings, "check of torch", "empty typer command", 1.5)
        kept &= print_ratio(timings, "check of torch", "collect_env", 1 / 12)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
