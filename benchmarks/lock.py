"""``lock`` beside the bare ``uv pip compile`` of the same packages.

    python -m benchmarks.lock [--runs N]

Budget (design section 7): at most 1.3x the bare command. torch comes from a loopback index and
everything else from the index that uv is configured to use, so the network has its say in both:
run it on a quiet line and look at the medians.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.side_by_side import print_ratio, print_timings, time_in_turn
from envguard.lock.runner import find_uv
from tests.loopback.index import LoopbackIndex

_PACKAGES = ("transformers", "accelerate", "datasets", "peft", "trl", "deepspeed", "numpy")
_MACHINE = ("--gpu", "Tesla V100", "--driver", "535.104.05", "--glibc", "2.31")
_TARGET = ("--platform", "linux-x86_64", "--python-version", "3.12")
_PROJECT = """\
[project]
name = "bare"
version = "0"
requires-python = ">=3.12"
dependencies = [{packages}, "torch==2.14.1+cu126", "triton"]

[[tool.uv.index]]
name = "torch"
url = "{index}/whl/cu126"
explicit = true

[tool.uv.sources]
torch = {{ index = "torch" }}
triton = {{ index = "torch" }}
"""


def bare_command(folder: Path, index: LoopbackIndex) -> list[str]:
    """The same resolution without envguard, its build already known."""
    packages = ", ".join(f'"{name}"' for name in _PACKAGES)
    project = folder / "pyproject.toml"
    project.write_text(_PROJECT.format(packages=packages, index=index.address))
    return [
        *(str(find_uv(os.environ).path), "pip", "compile", "--quiet", "--generate-hashes"),
        *("--python", sys.executable, "--python-version", "3.12"),
        *("--python-platform", "x86_64-manylinux_2_31", "--format", "pylock.toml", str(project)),
    ]


def lock_command(index: LoopbackIndex) -> list[str]:
    """The command of envguard."""
    lock = [sys.executable, "-m", "envguard", "lock", "-q", "--torch-index", index.torch]
    return [*lock, *_PACKAGES, *_MACHINE, *_TARGET]


def main() -> int:
    """Measure and print; exit status 1 when the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    compileall.compile_dir(Path(__file__).resolve().parents[1] / "envguard", quiet=1)
    with tempfile.TemporaryDirectory() as folder, LoopbackIndex() as index:
        os.environ["UV_CACHE_DIR"] = str(Path(folder) / "cache")
        commands = {
            "uv pip compile": bare_command(Path(folder), index),
            "lock": lock_command(index),
        }
        timings = time_in_turn(commands, runs=options.runs)
    print_timings(timings)
    return 0 if print_ratio(timings, "lock", "uv pip compile", 1.3) else 1


if __name__ == "__main__":
    sys.exit(main())
