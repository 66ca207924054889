"""Each invariant is broken in a copy of the tables and must be reported, with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.matrix.loader import Matrix
from envguard.matrix.verify import TABLES, verify
from tests.matrix.conftest import ROOT, row_of

if TYPE_CHECKING:
    from tests.matrix.conftest import Break

Case = tuple[str, str, str, str]

DRIVERS: list[Case] = [
    (  # the minimum driver falls as CUDA rises
        "drivers.toml",
        'toolkit = "12.8.0", linux = "570.26"',
        'toolkit = "12.8.0", linux = "560.26"',
        "drivers.toml: toolkit_driver[N].linux: 560.26 is below 560.35.05, that of 12.6.3",
    ),
    (
        "drivers.toml",
        'toolkit = "12.8.0", linux = "570.26", windows = "570.65"',
        'toolkit = "12.8.0", linux = "570.26", windows = "560.65"',
        "drivers.toml: toolkit_driver[N].windows: 560.65 is below 561.17, that of 12.6.3",
    ),
    (  # a toolkit's driver is of a branch that supports another CUDA
        "drivers.toml",
        'toolkit = "12.9.0", linux = "575.51.03"',
        'toolkit = "12.9.0", linux = "570.512"',
        "drivers.toml: toolkit_driver[N].linux: branch 570 is that of 12.8",
    ),
    (
        "drivers.toml",
        'major = 12, linux = "525.60.13"',
        'major = 12, linux = "425.60.13"',
        "drivers.toml: minor_version_compat[N].linux: 425.60.13 is below 450.80.02, that of 11",
    ),
    (
        "uv.toml",
        'backend = "cu120", linux = "525.60.13"',
        'backend = "cu120", linux = "425.60.13"',
        "uv.toml: uv_driver[N].linux: 425.60.13 is below 450.80.2, that of cu118",
    ),
    (  # a branch does not support more than the one before it
        "drivers.toml",
        'branch = 575, windows = [576, 576], cuda = "12.9"',
        'branch = 575, windows = [576, 576], cuda = "12.7"',
        "drivers.toml: driver_branch[N].cuda: 12.7 is not above 12.8",
    ),
    (
        "drivers.toml",
        "branch = 575, windows = [576, 576]",
        "branch = 575, windows = [572, 576]",
        "drivers.toml: driver_branch[N].windows: overlaps branch 570",
    ),
    (
        "drivers.toml",
        'name = "Pascal", first = "6.0", last = "6.2"',
        'name = "Pascal", first = "6.0", last = "7.0"',
        "drivers.toml: generation[N].first: overlaps Volta",
    ),
    (
        "drivers.toml",
        'last = "11.0", aliases = "10.1"',
        'last = "11.0", aliases = "10.3"',
        "drivers.toml: generation[N].aliases: overlaps Blackwell Ultra B300",
    ),
    (
        "drivers.toml",
        'name = "Kepler", first = "3.0", last = "3.7"',
        'name = "Kepler", first = "3.0", last = "2.9"',
        "drivers.toml: generation[N].last: 2.9 is below 3.0",
    ),
]
GPUS: list[Case] = [
    (
        "gpus.toml",
        'name = "GeForce RTX 3090", capability = "8.6"',
        'name = "GeForce RTX 3090", capability = "8.7"',
        "gpus.toml: gpu[N].capability: 8.7 is of no generation",
    ),
    (
        "gpus.toml",
        '"consumer", chip = "GA102", source = "nv-cc pciids open-gpu", confidence = "doc" },\n'
        '  { name = "GeForce RTX 3090 Ti"',
        '"consumer", chip = "AD102", source = "nv-cc pciids open-gpu", confidence = "doc" },\n'
        '  { name = "GeForce RTX 3090 Ti"',
        "gpus.toml: gpu[N].chip: AD102 is 8.9, not 8.6",
    ),
    (
        "gpus.toml",
        'name = "GeForce RTX 3090"',
        'name = "NVIDIA GPU"',
        "gpus.toml: gpu[N].name: 'NVIDIA GPU' does not find itself",
    ),
]
GENERAL: list[Case] = [
    (
        "drivers.toml",
        'toolkit = "12.9.1", linux = "575.57.08"',
        'toolkit = "12.9.0", linux = "575.57.08"',
        "drivers.toml: toolkit_driver[N].toolkit: '12.9.0' is stated twice",
    ),
    (
        "gpus.toml",
        'name = "GeForce RTX 3070 Ti", capability = "8.6", segment = "consumer", chip = "GA102"',
        'name = "GeForce RTX 3070", capability = "8.6", segment = "consumer", chip = "GA102"',
        "gpus.toml: gpu[N].name: 'GeForce RTX 3070' is stated twice",
    ),
    (
        "drivers.toml",
        'toolkit = "12.8.1"',
        'toolkit = "12.7.9"',
        "drivers.toml: toolkit_driver[N].toolkit: stands out of order",
    ),
    (
        "torch.toml",
        'torch = "2.11.0", platform = "linux-x86_64", backends = "cu128"',
        'torch = "2.10.0", platform = "linux-x86_64", backends = "cu999"',
        "torch.toml: build[N].torch: stands out of order",
    ),
    (
        "drivers.toml",
        'cuda = "12.8", source = "nv-table3"',
        'cuda = "12.8", source = "nv-table4"',
        "drivers.toml: driver_branch[N].source[0]: 'nv-table4' is not among the sources",
    ),
    (
        "toolkits.toml",
        'gcc_max = 9, source = "torch-cppext", confidence = "metadata"',
        'gcc_max = 9, source = "torch-cppext"',
        "toolkits.toml: host_compiler[N].confidence: is missing",
    ),
    (
        "torch_libs.toml",
        'compares = "minor", source = "pypi-tvta", confidence = "metadata"',
        'compares = "minor", confidence = "metadata"',
        "torch_libs.toml: cuda_match[N].source: is missing",
    ),
    (
        "uv.toml",
        "[sources]",
        '[sources]\nspare = { url = "https://docs.example/", checked = "2026-11-29" }',
        "uv.toml: sources.spare: no row names this source",
    ),
    (
        "uv.toml",
        'checked = "2026-11-29"',
        'checked = "2026-12-01"',
        "uv.toml: sources.uv-backend.checked: 2026-12-01 is after 2026.11.29",
    ),
    (
        "manifest.toml",
        'data_version = "2026.11.29"',
        'data_version = "newest"',
        "manifest.toml: data_version: 'newest' is not a date such as 2026.11.29",
    ),
]


def test_the_shipped_tables_hold(matrix: Matrix) -> None:
    assert verify(matrix) == ()


@pytest.mark.parametrize(("name", "old", "new", "problem"), [*DRIVERS, *GPUS, *GENERAL])
def test_a_broken_invariant_is_reported_with_its_place(
    broken: Break, name: str, old: str, new: str, problem: str
) -> None:
    folder = broken(name, old, new)
    place = problem.replace("[N]", f"[{row_of(folder / name, new.splitlines()[0])}]")
    assert place in verify(Matrix.load(folder))


def test_a_table_that_does_not_load_is_one_problem(broken: Break) -> None:
    folder = broken("drivers.toml", 'linux = "570.26"', "linux = 570.26")
    assert verify(Matrix.load(folder)) == (
        "drivers.toml: toolkit_driver[41].linux: expected a text, found 570.26",
    )


def test_a_missing_table_is_one_problem(broken: Break) -> None:
    folder = broken("uv.toml", "# How", "# How")
    for form in ("uv.toml", "uv.json"):
        (folder / form).unlink()
    assert verify(Matrix.load(folder)) == ("uv.toml: cannot be read: No such file or directory",)


def test_every_array_that_ships_is_checked(matrix: Matrix) -> None:
    for name, arrays in TABLES.items():
        data = matrix.document(name).data
        shipped = {
            key
            for key, rows in data.items()
            if isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
        }
        assert set(arrays) == shipped, name


def test_several_broken_tables_are_all_reported(broken: Break) -> None:
    broken("gpus.toml", 'name = "GeForce RTX 3090"', 'name = "NVIDIA GPU"')
    folder = broken("drivers.toml", 'toolkit = "12.9.1"', 'toolkit = "12.9.0"')
    problems = verify(Matrix.load(folder))
    assert {problem.split(":")[0] for problem in problems} == {"drivers.toml", "gpus.toml"}


def test_the_copy_that_tests_break_is_sound(broken: Break) -> None:
    folder = broken("uv.toml", "# How", "# How")
    assert verify(Matrix.load(folder)) == ()
    assert verify(Matrix.load(ROOT / "compat_matrix")) == ()
