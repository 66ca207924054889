"""Finds the compatibility matrix and loads its tables, each when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import envguard
from envguard.errors import MatrixError
from envguard.files import is_folder
from envguard.matrix.reading import Document, load_document

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from envguard.matrix.breaks import BreakTable
    from envguard.matrix.codes import CodeTable
    from envguard.matrix.deepspeed import DeepspeedTable
    from envguard.matrix.gpu_table import GpuTable
    from envguard.matrix.index_table import IndexTable
    from envguard.matrix.libs_table import LibsTable
    from envguard.matrix.machine_table import MachineTable
    from envguard.matrix.memory_table import MemoryTable
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.signals_table import SignalsTable
    from envguard.matrix.support_table import SupportTable, ToolkitTable, UvTable
    from envguard.matrix.tables import DriverTable
    from envguard.matrix.torch_table import TorchTable

SCHEMA_VERSION = 1
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
        manifest: Its decoded manifest.
    """

    def __init__(self, folder: Traversable, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._documents: dict[str, Document] = {}
        self._packages: dict[str, PackageTable] = {}

    @classmethod
    def load(cls, folder: Path | None = None) -> Matrix:
        """Open a matrix; only its manifest is read.

        Args:
            folder: Folder of the tables; None for the ones that came with envguard.

        Raises:
            MatrixError: There are no tables, or they have a schema that this release of
                envguard does not know.
        """
        place = folder if folder is not None else _find_tables()
        return cls(place, _read_manifest(load_document(place, "manifest.toml")))

    def document(self, name: str, *, by_line: bool = False) -> Document:
        """One table file, decoded; read once.

        Args:
            name: File name, e.g. ``torch.toml`` or ``packages/xformers.toml``.
            by_line: Decode its rows when they are asked for.

        Raises:
            MatrixError: The file is missing, unreadable or not TOML.
        """
        found = self._documents.get(name)
        if found is None and by_line:
            from envguard.matrix.lines import decode_lines  # loaded with the first such table

            found = self._documents[name] = load_document(self.folder, name, decode_lines)
        elif found is None:
            found = self._documents[name] = load_document(self.folder, name)
        return found

    @cached_property
    def drivers(self) -> DriverTable:
        """Drivers, their branches, and GPU generations."""
        from envguard.matrix.tables import DriverTable  # loaded with its table

        return DriverTable(self.document("drivers.toml", by_line=True))

    @cached_property
    def torch(self) -> TorchTable:
        """Torch releases and builds."""
        from envguard.matrix.torch_table import TorchTable  # loaded with its table

        return TorchTable(self.document("torch.toml", by_line=True))

    @cached_property
    def gpus(self) -> GpuTable:
        """GPU products."""
        from envguard.matrix.gpu_table import GpuTable  # loaded with its table

        return GpuTable(self.document("gpus.toml", by_line=True))

    @cached_property
    def index(self) -> IndexTable:
        """Layout of the PyTorch index."""
        from envguard.matrix.index_table import IndexTable  # loaded with its table

        return IndexTable(self.document("index.toml"))

    @cached_property
    def libs(self) -> LibsTable:
        """Libraries and companions of torch builds."""
        from envguard.matrix.libs_table import LibsTable  # loaded with its table

        return LibsTable(self.document("torch_libs.toml"))

    @cached_property
    def machines(self) -> MachineTable:
        """What machines and containers allow."""
        from envguard.matrix.machine_table import MachineTable  # loaded with its table

        return MachineTable(self.document("machines.toml"))

    @cached_property
    def support(self) -> SupportTable:
        """Compiler targets, forward compatibility and support life of driver branches."""
        from envguard.matrix.support_table import SupportTable  # loaded with its table

        return SupportTable(self.document("drivers.toml", by_line=True))

    @cached_property
    def toolkits(self) -> ToolkitTable:
        """Host compilers of CUDA toolkits."""
        from envguard.matrix.support_table import ToolkitTable  # loaded with its table

        return ToolkitTable(self.document("toolkits.toml"))

    @cached_property
    def deepspeed(self) -> DeepspeedTable:
        """DeepSpeed releases."""
        from envguard.matrix.deepspeed import DeepspeedTable  # loaded with its table

        return DeepspeedTable(self.document("deepspeed.toml", by_line=True))

    @cached_property
    def breaks(self) -> BreakTable:
        """Combinations that are known to break."""
        from envguard.matrix.breaks import BreakTable  # loaded with its table

        return BreakTable(self.document("breaks.toml", by_line=True))

    @cached_property
    def codes(self) -> CodeTable:
        """What codes and causes mean."""
        from envguard.matrix.codes import CodeTable  # loaded with its table

        return CodeTable(self.document("codes.toml"))

    @cached_property
    def package_names(self) -> frozenset[str]:
        """Normalised names of the packages that have a table."""
        folder = self.folder / "packages"
        files = (item.name for item in folder.iterdir()) if folder.is_dir() else ()
        return frozenset({"deepspeed", *(name[:-5] for name in files if name.endswith(".toml"))})

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
        return PackageTable(self.document(f"packages/{name}.toml", by_line=True))

    @cached_property
    def uv(self) -> UvTable:
        """How uv chooses and routes PyTorch builds."""
        from envguard.matrix.support_table import UvTable  # loaded with its table

        return UvTable(self.document("uv.toml", by_line=True))

    @cached_property
    def signals(self) -> SignalsTable:
        """What crashes leave behind."""
        from envguard.matrix.signals_table import SignalsTable  # loaded with its table

        return SignalsTable(self.document("signals.toml"))

    @cached_property
    def memory(self) -> MemoryTable:
        """Formulas of the memory planner."""
        from envguard.matrix.memory_table import MemoryTable  # loaded with its table

        return MemoryTable(self.document("memory.toml"))


def _read_manifest(document: Document) -> Manifest:
    schema, data = (document.data.get(key) for key in ("schema_version", "data_version"))
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise MatrixError("manifest.toml: schema_version: expected a whole number")
    if schema != SCHEMA_VERSION:
        raise MatrixError(
            f"manifest.toml: schema_version: {schema} is not the one this envguard reads"
            f" ({SCHEMA_VERSION})",
            "update envguard, or use the tables that came with it" if schema > 1 else "",
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
    if not (folder / "manifest.toml").is_file():
        raise MatrixError(f"no compatibility matrix found in {folder}", "reinstall envguard")
    return folder
