"""Maps compat_matrix/ into the package, where a wheel carries its tables decoded.

pyproject.toml can search for packages or map one, not both, and has no step that packs.
"""

import sys
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))  # a build frontend leaves it out

from envguard.matrix.store import pack, packed_name

TABLES = Path("envguard", "compat_matrix")


class BuildWithTables(build_py):
    """Builds as ever, then packs the tables; an editable install keeps those that people edit."""

    def run(self) -> None:
        """Copy the package, and put decoded tables in the place of their sources."""
        tables = Path(self.build_lib) / TABLES
        if not self.editable_mode:
            for earlier in tables.rglob("*.json"):  # of a table that is gone by now
                earlier.unlink()
        super().run()
        if not self.editable_mode:
            pack(tables)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:  # theirs
        """The files that a build leaves."""
        outputs = super().get_outputs(include_bytecode)
        if self.editable_mode:
            return outputs
        tables = str(Path(self.build_lib) / TABLES)
        return [packed_name(one) if one.startswith(tables) else one for one in outputs]


setup(
    packages=[*find_namespace_packages(include=["envguard*"]), "envguard.compat_matrix"],
    cmdclass={"build_py": BuildWithTables},
)
