"""What rows are marked against, and what a view of a table consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.facts.machine import Machine, OperatingSystem, Platform
from envguard.matrix.complete import complete_machine, possible_platforms
from envguard.values import dataclass

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


# First word of a cell -> its colour.
COLOURS: Mapping[str, str] = {
    "yes": "green",
    "most": "yellow",
    "compat": "yellow",
    "?": "yellow",
    "no": "red",
    "-": "dim",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """One table of a view.

    Args:
        title: What it is; the key of its rows in a document.
        columns: Headings.
        rows: As many texts each as there are columns.
        wrapping: How many of the last columns give way where there is little room.
        records: The rows for programs; None where the texts serve.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wrapping: int = 1
    records: tuple[Mapping[str, Any], ...] | None = None

    def documents(self) -> list[dict[str, Any]]:
        """The rows for programs: the records, or the texts by heading."""
        if self.records is not None:
            return [dict(record) for record in self.records]
        keys = [column.lower().replace(" ", "_") for column in self.columns]
        return [dict(zip(keys, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class View:
    """A table of the matrix, or one entry of it.

    Args:
        grids: In the order to show.
        legend: What marks mean, and the reasons in words.
        notes: Shown first.
    """

    grids: tuple[Grid, ...]
    legend: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


LINUX = Platform(OperatingSystem.LINUX, "x86_64")


@dataclass(frozen=True, slots=True)
class ShownTarget:
    """Where rows shall run.

    Args:
        machine: As far as known; GPUs carry their compute capability.
        platform: System and processor of the builds that are looked at.
        is_platform_known: It is stated, not the likeliest one.
        python: Version of the interpreter; None when not known.
        python_tag: ``cp312``; None when not known.
        troubles: What could not be derived about the machine.
    """

    machine: Machine
    platform: Platform
    is_platform_known: bool
    python: Version | None = None
    python_tag: str | None = None
    troubles: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What is known of it, in one line."""
        machine, driver = self.machine, self.machine.driver
        gpus = [f"{g.name or 'GPU'} ({g.capability or '?'})" for g in machine.selected_gpus]
        parts = [
            f"{gpus.count(gpu)} x {gpu}" if gpus.count(gpu) > 1 else gpu
            for gpu in dict.fromkeys(gpus)
        ]
        if machine.gpus == ():
            parts.append("no NVIDIA GPU")
        stated = (
            ("driver", driver.version),
            ("a driver for CUDA", None if driver.version else driver.cuda),
            ("", machine.host.platform),
            ("glibc", machine.host.glibc),
            ("nvcc", machine.toolkit.nvcc),
            ("Python", self.python),
        )
        parts += [f"{name} {value}".strip() for name, value in stated if value is not None]
        return ", ".join(parts)

    @property
    def has_driver(self) -> bool:
        """Whether anything is known of a driver."""
        driver = self.machine.driver
        return driver.version is not None or driver.cuda is not None

    def admits_python(self, specifier: SpecifierSet) -> bool:
        """Whether a specifier holds the interpreter, as far as it is known.

        Of ``3.12`` alone the patch is not known: any that is admitted will do.
        """
        if self.python is None:
            return True
        if len(self.python.release) > 2:
            return specifier.contains(self.python.base_version, prereleases=True)
        series = f"{self.python.major}.{self.python.minor}"
        return any(specifier.contains(f"{series}{end}", prereleases=True) for end in ("", ".99"))


def make_target(facts: Facts, matrix: Matrix) -> ShownTarget:
    """Complete a machine from the tables.

    Args:
        facts: As stated or read.
        matrix: For compute capabilities.
    """
    machine, gaps = complete_machine(facts.machine, matrix)
    interpreter = facts.environment.interpreter if facts.environment else None
    return ShownTarget(
        machine=machine,
        platform=possible_platforms(machine)[0],
        is_platform_known=machine.host.platform is not None,
        python=interpreter.version if interpreter else None,
        python_tag=interpreter.python_tag if interpreter else None,
        troubles=tuple(gap.detail for gap in gaps),
    )
