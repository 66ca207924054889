"""Writes compat_matrix/ from a folder of facts, or says what would change.

Usage: ``python scripts/derive_matrix.py --facts DIR [--out compat_matrix] [--check]``
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.matrix_drivers import derive_drivers, derive_toolkits, derive_uv
from scripts.matrix_early import with_early
from scripts.matrix_format import render_table
from scripts.matrix_gpus import derive_gpus
from scripts.matrix_index import derive_index
from scripts.matrix_libs import derive_libs
from scripts.matrix_torch import derive_torch
from scripts.matrix_words import Words, WordsError

SCHEMA_VERSION = 1
_ROOT = Path(__file__).resolve().parent.parent
_MANIFEST = "The compatibility matrix: shape and date of its tables."


def derive_tables(folder: Path, words: Words) -> dict[str, str]:
    """The text of every table by file name.

    Args:
        folder: Holds ``torch_cuda.toml`` and ``toolkit_compilers.toml``.
        words: Wording.

    Raises:
        WordsError: Facts and wording do not match.
    """
    facts, compilers = (
        with_early(_load(folder / name)) for name in ("torch_cuda.toml", "toolkit_compilers.toml")
    )
    tables = {
        "drivers.toml": derive_drivers(facts, compilers, words),
        "gpus.toml": derive_gpus(facts, words),
        "index.toml": derive_index(facts, words),
        "toolkits.toml": derive_toolkits(compilers, words),
        "torch.toml": derive_torch(facts, words),
        "torch_libs.toml": derive_libs(facts, words),
        "uv.toml": derive_uv(facts, words),
    }
    version = facts["meta"]["read_on"].replace("-", ".")
    scalars = {"schema_version": SCHEMA_VERSION, "data_version": version}
    tables["manifest.toml"] = render_table(_MANIFEST, scalars, {}, {}, words.checked)
    if words.unused():
        raise WordsError(f"wording without a fact: {', '.join(words.unused())}")
    return tables


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 done or up to date, 1 differs, 2 wrong usage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=Path, default=os.environ.get("ENVGUARD_FACTS"))
    parser.add_argument("--out", type=Path, default=_ROOT / "compat_matrix")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when it differs")
    options = parser.parse_args(arguments)
    if options.facts is None:
        parser.error("--facts DIR or ENVGUARD_FACTS is needed")
    try:
        tables = derive_tables(Path(options.facts), Words.load())
    except (OSError, ValueError) as err:
        parser.error(str(err))
    stale = [name for name, text in tables.items() if _read(options.out / name) != text]
    if options.check:
        for name in stale:
            print(f"{name} differs from what the facts give")
        return 1 if stale else 0
    for name in stale:
        (options.out / name).write_text(tables[name], encoding="utf-8", newline="\n")
        print(f"wrote {name}")
    return 0


def _load(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
