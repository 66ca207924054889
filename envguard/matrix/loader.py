"""Finds the compatibility matrix and loads its tables, each when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import envguard
from envguard.errors import MatrixError
from envguard.files import is_folder
from envguard.matrix.reading import Document
from envguard.matrix.store import has_tables, read_table, table_names
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable

    from envguard.matrix.breaks import BreakTable
    from envguard.matrix.causes import CauseTable
    from envguard.matrix.deepspeed import DeepspeedTable
    from envguard.matrix.drivers import DriverTable, SupportTable, ToolkitTable, UvTable
    from envguard.matrix.evidence import SignalsTable
    from envguard.matrix.file_owners import OwnerTable
    from envguard.matrix.gpus import GpuTable
    from envguard.matrix.index import IndexTable
    from envguard.matrix.libs import LibsTable
    from envguard.matrix.machines import MachineTable
    from envguard.matrix.memory import MemoryTable
    from envguard.matrix.order import OrderTable
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.remedy_settings import RemedySettingsTable
    from envguard.matrix.statuses import StatusTable
    from envguard.matrix.torch_builds import TorchTable

T = TypeVar("T")

SCHEMA_VERSION = 2
_PACKAGE = "envguard.compat_matrix"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the tables say about themselves.

    Args:
        schema_version: Shape of the tables.
        data_version: Date of the data, e.g. ``2026.11.29``; every report prints it.
    """

    schema_version: int
    data_version: str


class _Table(Generic[T]):
    """A table of the matrix: its module is imported and its files are read at the first use.

    Args:
        module: Where its class is, in :mod:`envguard.matrix`.
        kind: Name of the class, which is made of the files.
        files: Names of its files.
    """

    def __init__(self, module: str, kind: str, *files: str) -> None:
        self._module = f"envguard.matrix.{module}"
        self._kind = kind
        self._files = files

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, matrix: Matrix, owner: type) -> T:
        kind: Callable[..., T] = getattr(import_module(self._module), self._kind)
        table = kind(*map(matrix.document, self._files))
        matrix.__dict__[self._name] = table  # is found before this from now on
        return table


class Matrix:
    """All tables at one data version; a table is read when it is first used.

    Args:
        folder: Where the tables lie.
        keeps_copies: Keep decoded copies of tables that are read as TOML, see
            :func:`envguard.matrix.store.read_table`.

    Raises:
        MatrixError: There is no manifest, or one of a schema that is not known.
    """

    drivers: _Table[DriverTable] = _Table("drivers", "DriverTable", "drivers.toml")
    support: _Table[SupportTable] = _Table("drivers", "SupportTable", "drivers.toml")
    toolkits: _Table[ToolkitTable] = _Table("drivers", "ToolkitTable", "toolkits.toml")
    uv: _Table[UvTable] = _Table("drivers", "UvTable", "uv.toml")
    gpus: _Table[GpuTable] = _Table("gpus", "GpuTable", "gpus.toml")
    machines: _Table[MachineTable] = _Table("machines", "MachineTable", "machines.toml")
    torch: _Table[TorchTable] = _Table("torch_builds", "TorchTable", "torch.toml")
    libs: _Table[LibsTable] = _Table("libs", "LibsTable", "torch_libs.toml")
    owners: _Table[OwnerTable] = _Table("file_owners", "OwnerTable", "owners.toml")
    index: _Table[IndexTable] = _Table("index", "IndexTable", "index.toml")
    deepspeed: _Table[DeepspeedTable] = _Table("deepspeed", "DeepspeedTable", "deepspeed.toml")
    breaks: _Table[BreakTable] = _Table("breaks", "BreakTable", "breaks.toml")
    memory: _Table[MemoryTable] = _Table("memory", "MemoryTable", "memory.toml", "models.toml")
    order: _Table[OrderTable] = _Table("order", "OrderTable", "order.toml")
    signals: _Table[SignalsTable] = _Table(
        "evidence", "SignalsTable", "exits.toml", "launchers.toml", "evidence.toml"
    )
    statuses: _Table[StatusTable] = _Table("statuses", "StatusTable", "errors.toml")
    settings: _Table[RemedySettingsTable] = _Table(
        "remedy_settings", "RemedySettingsTable", "settings.toml"
    )

    def __init__(self, folder: Traversable, *, keeps_copies: bool = False) -> None:
        self.folder = folder
        self._keeps_copies = keeps_copies
        self._documents: dict[str, Document] = {}
        self._packages: dict[str, PackageTable] = {}
        self.manifest = _read_manifest(self.document("manifest.toml"))

    @classmethod
    def load(cls, folder: Path | None = None) -> Matrix:
        """Open a matrix; only its manifest is read.

        Args:
            folder: Folder of the tables; None for the ones that came with envguard.

        Raises:
            MatrixError: There are no tables, or they have a schema that this release of
                envguard does not know.
        """
        if folder is not None:
            return cls(folder)
        return cls(_find_tables(), keeps_copies=True)

    def document(self, name: str) -> Document:
        """One table file, decoded; read once.

        Args:
            name: File name, e.g. ``torch.toml`` or ``packages/xformers.toml``.

        Raises:
            MatrixError: The file is missing, unreadable or malformed.
        """
        found = self._documents.get(name)
        if found is None:
            data = read_table(self.folder, name, keeps_copy=self._keeps_copies)
            found = self._documents[name] = Document(name, data)
        return found

    @cached_property
    def causes(self) -> CauseTable:
        """Causes, their sentences, the signatures that show them, and finding codes."""
        from envguard.matrix.causes import CauseTable  # loaded with its tables

        names = [f"causes/{name}" for name in table_names(self.folder, "causes")]
        # Launchers, exits, phases and breaks have signatures of their own.
        names += ("launchers", "exits", "evidence", "breaks")
        return CauseTable(tuple(self.document(f"{name}.toml") for name in names), self.order)

    @cached_property
    def package_names(self) -> frozenset[str]:
        """Normalised names of the packages that have a table."""
        return frozenset({"deepspeed", *table_names(self.folder, "packages")})

    def packages(self, name: str) -> PackageTable | None:
        """The table of one package, read once; None when it has none.

        Args:
            name: Normalised name of the distribution.

        Raises:
            MatrixError: Its table is unreadable or malformed.
        """
        if name not in self.package_names:
            return None
        found = self._packages.get(name)
        if found is None:
            found = self._packages[name] = self._load_package(name)
        return found

    def _load_package(self, name: str) -> PackageTable:
        from envguard.matrix.packages import PackageTable  # loaded with its table

        if name == "deepspeed":
            return self.deepspeed.packages
        return PackageTable(self.document(f"packages/{name}.toml"))


def _read_manifest(document: Document) -> Manifest:
    schema, data = (document.data.get(key) for key in ("schema_version", "data_version"))
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise MatrixError("manifest.toml: schema_version: expected a whole number")
    if schema != SCHEMA_VERSION:
        raise MatrixError(
            f"manifest.toml: schema_version: {schema} is not the one this envguard reads"
            f" ({SCHEMA_VERSION})",
            "update envguard, or use the tables that came with it"
            if schema > SCHEMA_VERSION
            else "",
        )
    if not isinstance(data, str) or not data:
        raise MatrixError("manifest.toml: data_version: expected a text")
    return Manifest(schema, data)


def _find_tables() -> Traversable:
    """The tables that came with envguard: installed, editable, in a zip, or in a checkout.

    ``importlib.resources.files`` gives the same folder but costs 6 ms of start-up, so it is only
    asked where the package is not a plain folder.
    """
    try:
        package = import_module(_PACKAGE)
    except ModuleNotFoundError:
        # A checkout that is not installed: setuptools maps this folder into the package.
        folder = Path(envguard.__file__).resolve().parent.parent / "compat_matrix"
    else:
        folder = Path(next(iter(package.__path__)))
        if not is_folder(folder):
            from importlib.resources import files

            return files(_PACKAGE)
    if not has_tables(folder):
        raise MatrixError(f"no compatibility matrix found in {folder}", "reinstall envguard")
    return folder
