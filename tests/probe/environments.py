"""Virtual environments made by hand, with packages that hold metadata alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.probe.interpreter import start_environment
from envguard.probe.probe_options import ProbeOptions

if TYPE_CHECKING:
    from envguard.facts.environment import Environment
    from envguard.facts.gaps import Gap

NEWEST_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not-this\n"
TORCH_CU128 = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.7.1+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = 'e2d141dbde55c2a4370fac5165b0561b6af4798b'
hip: Optional[str] = None
xpu: Optional[str] = None
"""


@dataclass(frozen=True)
class StubEnvironment:
    """A virtual environment in a folder, of the interpreter that runs the tests."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def site(self) -> Path:
        minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return self.folder / "lib" / minor / "site-packages"

    def make(self, settings: str = "") -> StubEnvironment:
        """Create it; ``settings`` are further lines of pyvenv.cfg."""
        base = Path(base_python())
        self.site.mkdir(parents=True)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "python").symlink_to(base)
        lines = f"home = {base.parent}\ninclude-system-site-packages = false\n{settings}"
        (self.folder / "pyvenv.cfg").write_text(lines)
        return self

    def install(
        self,
        name: str,
        version: str,
        *,
        installer: str = "pip",
        metadata: str = NEWEST_METADATA,
        origin: str = "",
        site: Path | None = None,
    ) -> Path:
        """Add a dist-info folder; returns it."""
        stem = name.replace("-", "_")
        folder = (site or self.site) / f"{stem}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(metadata.format(name=name, version=version))
        if installer:
            (folder / "INSTALLER").write_text(f"{installer}\n")
        if origin:
            (folder / "direct_url.json").write_text(origin)
        return folder

    def install_torch(self, text: str = TORCH_CU128, *, site: Path | None = None) -> Path:
        """Add a torch package whose version.py holds this text; returns its folder."""
        folder = (site or self.site) / "torch"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise RuntimeError('torch was imported')\n")
        (folder / "version.py").write_text(text)
        return folder


def ask(
    python: str, *, timeout_s: float = 30.0, **variables: str
) -> tuple[Environment, tuple[Gap, ...]]:
    """Describe an interpreter in an environment of PATH and these variables alone."""
    environ = {"PATH": os.environ["PATH"], **variables}
    return start_environment(python, ProbeOptions(environ=environ, timeout_s=timeout_s))()


def names(environment: Environment) -> list[str]:
    """The names of the distributions, in their order."""
    return [d.name for d in environment.distributions or ()]


def base_python() -> str:
    """The interpreter behind the virtual environment that runs the tests."""
    return str(getattr(sys, "_base_executable", sys.executable))


def real_python(version: str) -> str:
    """A working interpreter of that version; skips the test where there is none.

    Looked for on PATH and beside the interpreter that runs the tests: version managers put
    their interpreters side by side.
    """
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*/bin/python{version}"))
    candidates = [shutil.which(f"python{version}"), *map(str, beside)]
    for candidate in filter(None, candidates):
        done = subprocess.run(
            [candidate, "-c", "import sys; sys.stdout.write(sys.executable)"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and done.stdout:
            return done.stdout
    pytest.skip(f"no python{version} on PATH or beside the interpreter that runs the tests")
