"""``check --no-deep`` and ``diagnose`` of a short log beside an empty typer command.

    python -m benchmarks.start_up [--torch-python PATH] [--runs N]

Budgets (design section 7): `check` at most 1.25x and `diagnose` at most 1.8x the empty command in
processor time; with an interpreter that has torch, `check` at most 1/12 of collect_env by the
clock. The wheel is built and installed into an environment of its own first, as people have it: the
tables decoded, the bytecode compiled.

What the measure needs, and where it stands: a module of a command is imported with the command
(cli/main.py), a table with its first use (matrix/loader.py), a decoded table is kept
(matrix/store.py), frozen dataclasses share their methods (values.py), a class is taken apart once
for all its rows (facts/codec.py), garbage is seldom searched for (__main__.py), typer converts only
what was typed (cli/main.py), patterns are compiled when a line holds their text, and a short log is
searched for the texts that it holds (crash/scan.py).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.side_by_side import print_ratio, print_timings, time_in_turn

_ROOT = Path(__file__).resolve().parents[1]
_EMPTY_NAME, _CHECK, _OF_TORCH = "empty typer command", "check", "check of torch"
_DIAGNOSE, _COLLECT = "diagnose of 45 lines", "collect_env"
_EMPTY = '''"""An empty typer command."""
import typer

app = typer.Typer()


@app.command()
def main() -> None:
    """Do nothing."""


app()
'''
_STEP = (
    "{'loss': 0.4321, 'grad_norm': 1.234, 'learning_rate': 1.9e-05, 'epoch': 0.%02d}\n"
    "[2026-11-29 14:28:%02d,442] [INFO] [logging.py:128:log_dist] [Rank 0] step=%d, skipped=0\n"
)
_LOG = (
    "[2026-11-29 14:20:01,100] [INFO] [launch.py:162:main] dist_world_size=8\n"
    + "".join(_STEP % (step, step, step * 10) for step in range(20))
    + "[INFO|trainer.py:3503] Saving model checkpoint to out/checkpoint-200\n"
    "[2026-11-29 14:28:41,001] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711\n"
    "[2026-11-29 14:28:51,456] [ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] "
    "exits with return code = -9\n"
    "srun: error: node17: task 0: Killed\n"
)


def install(folder: Path) -> str:
    """Build the wheel and install it with what it needs; the interpreter that has it."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wheels = folder / "wheels"
    # By way of a source archive: nothing is left in the checkout, and nothing of earlier is built.
    build = [sys.executable, "-m", "build", "--outdir", str(wheels), str(_ROOT)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = wheels.glob("*.whl")
    install = [str(python), "-m", "pip", "install", "--quiet", "--compile", str(wheel)]
    subprocess.run(install, check=True)
    return str(python)


def main() -> int:
    """Measure and print; exit status 1 when a budget is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch-python", help="interpreter with torch, for collect_env")
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python = install(Path(folder) / "env")
        kept = _measure(python, Path(folder), options.torch_python, options.runs)
    print("load:", *(f"{load:.1f}" for load in os.getloadavg()))
    return 0 if kept else 1


def _measure(python: str, folder: Path, torch_python: str | None, runs: int) -> bool:
    empty, log = folder / "empty_command.py", folder / "train.log"
    empty.write_text(_EMPTY)
    log.write_text(_LOG)
    # -I: this checkout, where it is started from, is not what is measured.
    program = [python, "-I", "-m", "envguard"]
    check = [*program, "check", "--no-deep"]
    commands = {
        _EMPTY_NAME: [python, "-I", str(empty)],
        _CHECK: check,
        _DIAGNOSE: [*program, "diagnose", str(log)],
    }
    if torch_python:
        commands[_OF_TORCH] = [*check, "--python", torch_python]
    timings = time_in_turn(commands, runs=runs, warmup=2, of_cpu=True)
    print_timings(timings)
    kept = print_ratio(timings, _DIAGNOSE, _EMPTY_NAME, 1.8)
    for name in commands.keys() & {_CHECK, _OF_TORCH}:
        kept &= print_ratio(timings, name, _EMPTY_NAME, 1.25)
    if torch_python:
        collect = [torch_python, "-m", "torch.utils.collect_env"]
        pair = {_OF_TORCH: commands[_OF_TORCH], _COLLECT: collect}
        timings = time_in_turn(pair, runs=max(3, runs // 8))
        print_timings(timings)
        kept &= print_ratio(timings, _OF_TORCH, _COLLECT, 1 / 12)
    return kept


if __name__ == "__main__":
    sys.exit(main())
