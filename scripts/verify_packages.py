"""Compares the rows about packages with the real registry and prints what drifted.

Usage: ``python scripts/verify_packages.py [NAME ...] [--newest N | --every] [--index-url URL]``

Only wheels are looked at: a source archive would have to be run to say what it requires.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from envguard.errors import ToolError
from envguard.matrix.loader import Matrix
from envguard.web.registry import Registry, verify_tables

_NEWEST = 3


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 no drift, 1 drift, 3 the registry could not be asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="packages; every table without one")
    parser.add_argument("--newest", type=int, default=_NEWEST, help="releases of each package")
    parser.add_argument("--every", action="store_true", help="every release that has a row")
    parser.add_argument("--index-url", default="", help="registry; else what pip is configured for")
    parser.add_argument("--matrix", type=Path, help="folder of the tables")
    options = parser.parse_args(arguments)
    matrix = Matrix.load(options.matrix)
    tables = []
    for name in options.names or sorted(matrix.package_names):
        table = matrix.packages(name)
        if table is None:
            parser.error(f"{name!r} has no table")
        tables.append(table)
    drifted = False
    newest = None if options.every else options.newest
    try:
        for line in verify_tables(tables, Registry(options.index_url), newest):
            drifted = True
            print(line, flush=True)
    except ToolError as err:
        print(f"{err.message}", file=sys.stderr)
        return 3
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())
