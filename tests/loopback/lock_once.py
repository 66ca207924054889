"""One lock against the loopback index with an envguard that is installed somewhere.

    python -m tests.loopback.lock_once PATH/TO/envguard

Shows that the built wheel carries its tables and finds uv, apart from any checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.loopback.index import LoopbackIndex

_MACHINE = ("--gpu", "Tesla V100", "--driver", "535.104.05", "--glibc", "2.31")
_TARGET = ("--platform", "linux-x86_64", "--python-version", "3.12")
_EXPECTED = "2.14.1+cu126"
_TIMEOUT_S = 300


def lock_once(program: Path, folder: Path) -> str:
    """Lock torch and torchvision for a V100.

    Args:
        program: An installed ``envguard``.
        folder: An empty folder for the lock, uv's cache and everything else it keeps.

    Returns:
        What is wrong, or an empty string.
    """
    with LoopbackIndex() as index:
        output = folder / "pylock.toml"
        indexes = ("--torch-index", index.torch, "--index-url", index.default)
        ended = subprocess.run(
            [program, "lock", "torch", "torchvision", *_MACHINE, *_TARGET, *indexes, "-o", output],
            cwd=folder,
            env=_environment(folder),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if ended.returncode != 0:
            return f"exit status {ended.returncode}: {ended.stderr.strip()}"
    packages = tomllib.loads(output.read_text(encoding="utf-8"))["packages"]
    versions = {package["name"]: package["version"] for package in packages}
    found = versions.get("torch")
    return "" if found == _EXPECTED else f"torch {found} is locked, expected {_EXPECTED}"


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "NO_PROXY": "127.0.0.1",
        "HTTP_PROXY": "http://127.0.0.1:9",  # the discard port: nothing beyond loopback is read
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


def main() -> int:
    """Lock once; exit status 1 when the lock is not the expected one."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.loopback.lock_once PATH/TO/envguard\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        wrong = lock_once(Path(sys.argv[1]).absolute(), Path(folder))
    sys.stdout.write(f"lock: {wrong or f'torch {_EXPECTED}'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
