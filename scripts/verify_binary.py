"""Compares the rows about torch with real wheels of it and prints what agrees and what drifted.

Usage: ``python scripts/verify_binary.py [--release V ...] [--python-tag cp311] [--wheels DIR]``

The wheels are those of the registry that uv is configured for; a compiled file is downloaded,
read and gone before the next one comes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from envguard.cli.matrix_verify import WheelRequest, largest_bytes, parse_releases, read_wheels
from envguard.errors import InputError
from envguard.matrix.loader import Matrix


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 all agree, 1 drift, 2 wrong usage, 3 something could not be read."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        request = WheelRequest(
            releases=parse_releases(options.release),
            python_tag=options.python_tag,
            folder=options.wheels,
            index_url=options.index_url,
            largest_bytes=largest_bytes(options.largest),
        )
        report = read_wheels(Matrix.load(options.matrix), request, _say)
    except InputError as err:
        parser.error(err.message)
    for word, lines in (
        ("agrees", report.agreed),
        ("not read", report.unread),
        ("drift", report.drift),
    ):
        for line in lines:
            print(f"{word}: {line}")
    if report.drift:
        return 1
    return 0 if report.is_complete else 3


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", action="append", default=[], help="one; else 2.6 to newest")
    parser.add_argument("--python-tag", default="", help="as cp312; else cp311")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that need no download")
    parser.add_argument("--index-url", default="", help="registry; else what uv is configured for")
    parser.add_argument("--largest", type=int, help="MiB above which a compiled file is left")
    parser.add_argument("--matrix", type=Path, help="folder of the tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
