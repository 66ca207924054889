"""Finds the compatibility matrix and loads its tables, each when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import envguard
from envguard.errors import MatrixError
from envguard.files import is_folder
from envguard.matrix.reading import Document
from envguard.matrix.store import has_tables, read_table, table_names

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from envguard.matrix.breaks import BreakTable
    from envguard.matrix.causes import CauseTable, OrderTable
    from envguard.matrix.deepspeed import DeepspeedTable
    from envguard.matrix.drivers import DriverTable, SupportTable, ToolkitTable, UvTable
    from envguard.matrix.evidence import SignalsTable
    from envguard.matrix.gpus import GpuTable
    from envguard.matrix.index import IndexTable
    from envguard.matrix.libs import LibsTable
    from envguard.matrix.machines import MachineTable
    from envguard.matrix.memory import MemoryTable
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.torch_builds import TorchTable

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


class Matrix:
    """All tables at one data version; a table is read when it is first used.

    Args:
        folder: Where the tables lie.
        keeps_copies: Keep decoded copies of tables that are read as TOML, see
            :func:`envguard.matrix.store.read_table`.

    Raises:
        MatrixError: There is no manifest, or one of a schema that is not known.
    """

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
    def drivers(self) -> DriverTable:
        """Drivers, their branches, and GPU generations."""
        from envguard.matrix.drivers import DriverTable  # loaded with its table

        return DriverTable(self.document("drivers.toml"))

    @cached_property
    def torch(self) -> TorchTable:
        """Torch releases and builds."""
        from envguard.matrix.torch_builds import TorchTable  # loaded with its table

        return TorchTable(self.document("torch.toml"))

    @cached_property
    def gpus(self) -> GpuTable:
        """GPU products."""
        from envguard.matrix.gpus import GpuTable  # loaded with its table

        return GpuTable(self.document("gpus.toml"))

    @cached_property
    def index(self) -> IndexTable:
        """Layout of the PyTorch index."""
        from envguard.matrix.index import IndexTable  # loaded with its table

        return IndexTable(self.document("index.toml"))

    @cached_property
    def libs(self) -> LibsTable:
        """Libraries and companions of torch builds."""
        from envguard.matrix.libs import LibsTable  # loaded with its table

        return LibsTable(self.document("torch_libs.toml"))

    @cached_property
    def machines(self) -> MachineTable:
        """What machines and containers allow."""
        from envguard.matrix.machines import MachineTable  # loaded with its table

        return MachineTable(self.document("machines.toml"))

    @cached_property
    def support(self) -> SupportTable:
        """Compiler targets, forward compatibility and support life of driver branches."""
        from envguard.matrix.drivers import SupportTable  # loaded with its table

        return SupportTable(self.document("drivers.toml"))

    @cached_property
    def toolkits(self) -> ToolkitTable:
        """Host compilers of CUDA toolkits."""
        from envguard.matrix.drivers import ToolkitTable  # loaded with its table

        return ToolkitTable(self.document("toolkits.toml"))

    @cached_property
    def deepspeed(self) -> DeepspeedTable:
        """DeepSpeed releases."""
        from envguard.matrix.deepspeed import DeepspeedTable  # loaded with its table

        return DeepspeedTable(self.document("deepspeed.toml"))

    @cached_property
    def breaks(self) -> BreakTable:
        """Combinations that are known to break."""
        from envguard.matrix.breaks import BreakTable  # loaded with its table

        return BreakTable(self.document("breaks.toml"))

    @cached_property
    def order(self) -> OrderTable:
        """The one order of causes, and the families of codes."""
        from envguard.matrix.causes import OrderTable  # loaded with its table

        return OrderTable(self.document("order.toml"))

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

    @cached_property
    def uv(self) -> UvTable:
        """How uv chooses and routes PyTorch builds."""
        from envguard.matrix.drivers import UvTable  # loaded with its table

        return UvTable(self.document("uv.toml"))

    @cached_property
    def signals(self) -> SignalsTable:
        """Exit statuses, launchers, numbered errors, phases and tools that keep evidence."""
        from envguard.matrix.evidence import SignalsTable  # loaded with its table

        names = ("exits.toml", "launchers.toml", "errors.toml", "evidence.toml")
        return SignalsTable(*(self.document(name) for name in names))

    @cached_property
    def memory(self) -> MemoryTable:
        """Formulas of the memory planner."""
        from envguard.matrix.memory import MemoryTable  # loaded with its table

        return MemoryTable(self.document("memory.toml"))


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
    from importlib import import_module

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
