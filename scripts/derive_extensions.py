"""Writes the tables about packages from a folder of facts, or says what would change.

Usage: ``python scripts/derive_extensions.py --facts DIR [--out compat_matrix] [--check]``
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.extensions_breaks import derive_breaks
from scripts.extensions_corrections import apply_corrections
from scripts.extensions_deepspeed import derive_deepspeed
from scripts.extensions_packages import derive_package
from scripts.extensions_sources import Words
from scripts.matrix_early import with_early

_ROOT = Path(__file__).resolve().parent.parent


def derive_tables(folder: Path, words: Words) -> dict[str, str]:
    """The text of every table by file name.

    Args:
        folder: Holds ``extensions.toml`` and ``torch_cuda.toml``.
        words: Wording.

    Raises:
        WordsError: Facts, corrections and wording do not match.
    """
    corrections = _load(Path(__file__).with_name("extensions_corrections.toml"))
    facts = apply_corrections(_load(folder / "extensions.toml"), corrections)
    builds: dict[str, dict[str, str]] = {}
    for row in with_early(_load(folder / "torch_cuda.toml"))["domain"]:
        builds.setdefault(row["package"], {})[row["version"]] = row["pypi_build"]
    tables = {
        f"packages/{name}.toml": derive_package(name, words, facts, builds)
        for name in words.packages()
    }
    tables["deepspeed.toml"] = derive_deepspeed(facts, words)
    tables["breaks.toml"] = derive_breaks(facts, words)
    return tables


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 done or up to date, 1 differs, 2 wrong usage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
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
    for name in stale:
        if options.check:
            print(f"{name} differs from what the facts give")
            continue
        (options.out / name).parent.mkdir(exist_ok=True)
        (options.out / name).write_text(tables[name], encoding="utf-8", newline="\n")
        print(f"wrote {name}")
    return 1 if stale and options.check else 0


def _load(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
