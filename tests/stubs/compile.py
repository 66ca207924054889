"""Compiles the stub libraries, each variant once per folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
NVML = "libnvidia-ml.so.1"
CUDA = "libcuda.so.1"


def compiler() -> str | None:
    """The C compiler; None where there is none and tests with stubs must skip."""
    return shutil.which("gcc") or shutil.which("cc")


def build_library(source: str, target: Path, *, without: tuple[str, ...] = ()) -> Path:
    """Compile a stub unless it is there already.

    Args:
        source: Name of the C file beside this one.
        target: The library to make.
        without: Functions to leave out.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    flags = [f"-DWITHOUT_{name}" for name in without]
    if source == "guard.c":
        flags.append(f'-DLIBRARY="{target.name}"')
    command = [compiler() or "cc", "-shared", "-fPIC", "-O0", *flags]
    subprocess.run([*command, str(HERE / source), "-o", str(unfinished)], check=True)
    unfinished.rename(target)
    return target
