"""``lock`` beside the bare ``uv pip compile`` of the same packages.

    python -m benchmarks.lock [--runs N] [--configured]

Budget (design section 7): at most 1.3x the bare command. Torch comes from the loopback index,
everything else from an index as heavy as the real one, fresh in uv's cache or due for
revalidation. What lock adds is a fixed time (an interpreter, the tables, a second pass of uv from
its cache), so the ratio says as much about the index as about lock: the difference is printed too.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lock_index import HeavyIndex
from benchmarks.side_by_side import print_ratio, print_timings, time_in_turn
from envguard.lock.uv import find_uv
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


@dataclass(frozen=True, slots=True)
class Setting:
    """A default index to measure with.

    Args:
        name: For the report.
        delay_s: How long it takes to answer.
        is_fresh: What was read before need not be asked for again.
    """

    name: str
    delay_s: float
    is_fresh: bool


SETTINGS = (
    Setting("cache warm and fresh", 0.0, is_fresh=True),
    Setting("cache warm, 20 ms a revalidation", 0.02, is_fresh=False),
    Setting("cache warm, 50 ms a revalidation", 0.05, is_fresh=False),
    Setting("cache warm, 100 ms a revalidation", 0.1, is_fresh=False),
)


def measure(setting: Setting, runs: int) -> bool:
    """Measure with one index of our own; whether the budget was kept."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackIndex() as torch,
        HeavyIndex(delay_s=setting.delay_s, is_fresh=setting.is_fresh) as rest,
    ):
        os.environ["UV_DEFAULT_INDEX"] = rest.default
        return compare(setting.name, Path(folder), torch, runs)


def compare(name: str, folder: Path, torch: LoopbackIndex, runs: int) -> bool:
    """Run both in turn and print medians, ratio and difference."""
    os.environ["UV_CACHE_DIR"] = str(folder / "cache")
    commands = {"uv pip compile": bare_command(folder, torch), "lock": lock_command(torch)}
    timings = time_in_turn(commands, runs=runs)
    print(f"{name}:")
    print_timings(timings)
    bare, lock = (timings[key].median_s for key in commands)
    print(f"lock takes {(lock - bare) * 1e3:.0f} ms more")
    return print_ratio(timings, "lock", "uv pip compile", 1.3)


def main() -> int:
    """Measure and print; exit status 1 when the budget is missed somewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--configured", action="store_true", help="Also with uv's own index.")
    options = parser.parse_args()
    compileall.compile_dir(Path(__file__).resolve().parents[1] / "envguard", quiet=1)
    configured = os.environ.get("UV_DEFAULT_INDEX")
    kept = [measure(setting, options.runs) for setting in SETTINGS]
    if options.configured:
        os.environ.pop("UV_DEFAULT_INDEX")
        if configured:
            os.environ["UV_DEFAULT_INDEX"] = configured
        with tempfile.TemporaryDirectory() as folder, LoopbackIndex() as torch:
            kept.append(compare("index of uv's configuration", Path(folder), torch, options.runs))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
