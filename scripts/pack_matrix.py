"""Packs the tables into a data release: an archive and the document that `matrix update` reads.

Usage: ``python scripts/pack_matrix.py FOLDER [--matrix DIR]``
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from envguard.errors import DocumentError
from envguard.matrix.loader import Matrix
from envguard.matrix.release import pack_release
from envguard.matrix.verify import verify

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 packed, 1 the tables break a promise, 2 they state no version."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where archive and document are written")
    parser.add_argument("--matrix", type=Path, default=ROOT / "compat_matrix", help="the tables")
    options = parser.parse_args(arguments)
    matrix = Matrix.load(options.matrix)
    problems = verify(matrix)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    name = f"envguard-matrix-{matrix.manifest.data_version}.zip"
    try:
        raw, document = pack_release(options.matrix, name)
    except DocumentError as err:
        print(err.message, file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / name).write_bytes(raw)
    (options.folder / "release.json").write_text(document, encoding="utf-8")
    print(f"{options.folder / name}: {len(raw)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
