"""What is installed: an interpreter, its distributions, torch and what its label says."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.versions import (
    Backend,
    CodeTarget,
    CudaVersion,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.facts.lock_record import LockRecord  # noqa: TC004 - the codec imports it late


class Accelerator(Enum):
    """What a torch build drives. envguard judges CUDA and CPU builds only."""

    CUDA = "cuda"
    CPU = "cpu"
    ROCM = "rocm"
    XPU = "xpu"
    MPS = "mps"


class Manager(Enum):
    """The package manager that the subject uses; remedies are written for it."""

    PIP = "pip"
    UV = "uv"
    UV_PROJECT = "uv-project"  # a uv.lock: the project is edited, else the next sync undoes it
    POETRY = "poetry"
    PDM = "pdm"
    CONDA = "conda"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter.

    Args:
        version: Full version, e.g. 3.12.3.
        executable: Its path.
        implementation: ``cpython``, ``pypy``.
        prefix: ``sys.prefix``.
        is_venv: Prefix differs from the base prefix.
        is_conda: The prefix has a ``conda-meta`` folder.
        is_free_threaded: The build without the GIL (``cp313t``).
        sys_path: Where imports are looked up, in order.
        is_active: It belongs to the environment that VIRTUAL_ENV or CONDA_PREFIX names; None
            where neither is set, or it was asked for by name.
    """

    version: Version | None = None
    executable: str | None = None
    implementation: str | None = None
    prefix: str | None = None
    is_venv: bool | None = None
    is_conda: bool | None = None
    is_free_threaded: bool | None = None
    sys_path: tuple[str, ...] = ()
    is_active: bool | None = None

    @property
    def python_tag(self) -> str | None:
        """The wheel tag of its minor version: ``cp312``, ``cp313t``; None when not known."""
        if self.version is None:
            return None
        suffix = "t" if self.is_free_threaded else ""
        return f"cp{self.version.major}{self.version.minor}{suffix}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed, pinned or reported distribution.

    Args:
        name: Normalised name (PEP 503).
        version: With its local version label where it has one; None when only its presence
            is known.
        location: The folder that holds it, for installed ones.
        installer: ``pip``, ``uv``, ``conda`` as its INSTALLER file says.
        url: Where it came from or would come from: wheel URL, index, ``direct_url.json``.
        index_url: The index that a lockfile names for it.
        is_editable: Installed from a source tree.
        line: Line of the document that states it, for reports that point at files.
    """

    name: str
    version: Version | None = None
    location: str | None = None
    installer: str | None = None
    url: str | None = None
    index_url: str | None = None
    is_editable: bool = False
    line: int | None = None


class BuildOrigin(Enum):
    """Where the knowledge about a torch build comes from."""

    VERSION_FILE = "torch/version.py"
    METADATA = "metadata"
    PIN = "pin"
    LOCKFILE = "lockfile"
    REQUIRED = "required by a pin"
    WISHED = "taken today"
    REPORT = "report"


_TO_INSTALL = frozenset(
    {BuildOrigin.PIN, BuildOrigin.LOCKFILE, BuildOrigin.REQUIRED, BuildOrigin.WISHED}
)


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """The torch build that ``import torch`` would take.

    Args:
        version: Public version with its local label where it carries one (``2.7.1+cu128``).
        accelerator: What it drives; None when not known.
        cuda: CUDA runtime it was built with; None for other builds or when not known.
        origin: Where this knowledge comes from.
        git_version: Commit.
        location: Folder of the package.
        cxx11_abi: C++ ABI of libtorch.
        targets: Code targets that the build itself reports; None when not read.
        index_url: Index that a pin or lock names for it.
    """

    version: Version | None = None
    accelerator: Accelerator | None = None
    cuda: CudaVersion | None = None
    origin: BuildOrigin = BuildOrigin.METADATA
    git_version: str | None = None
    location: str | None = None
    cxx11_abi: bool | None = None
    targets: tuple[CodeTarget, ...] | None = None
    index_url: str | None = None

    @property
    def is_to_install(self) -> bool:
        """It is stated or follows from what is stated; nothing was installed or imported."""
        return self.origin in _TO_INSTALL

    @property
    def backend(self) -> Backend | None:
        """``cu128`` or ``cpu``; None when not known or another vendor's."""
        if self.accelerator is Accelerator.CPU:
            return Backend(None)
        if self.accelerator is Accelerator.CUDA and self.cuda is not None:
            return Backend(self.cuda)
        return None


@dataclass(frozen=True, slots=True)
class Wish:
    """A requirement that leaves the version open: ``torch>=2.1,<2.7``, or a bare name.

    Args:
        name: Normalised name.
        specifier: The versions that it admits; empty admits every one.
        line: Line of the document that states it.
    """

    name: str
    specifier: SpecifierSet = SpecifierSet()
    line: int | None = None

    def __str__(self) -> str:
        order = {">": 0, "~": 1, "=": 2, "<": 3, "!": 4}
        clauses = sorted(map(str, self.specifier), key=lambda text: (order[text[0]], text))
        return self.name + ",".join(clauses)


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter with what is installed in it, or the pins of a file.

    Args:
        interpreter: None when the subject does not state one.
        distributions: Sorted by name; None when not known.
        torch: The torch build; None when there is none or it is not known (see the gaps).
        manager: The package manager that the subject uses.
        document: Path of the lockfile or requirements file that states the pins.
        lock: What envguard wrote into the lockfile, where it made it.
        is_open: Only a part is stated: an installer brings along what it requires.
        wishes: What the document asks for without saying which release.
        indexes: Indexes that the document names, the main one first, which is empty where it
            is the installer's own; empty where it names none.
        image: The container image that it builds on, as a Dockerfile names it.
        in_order: Its lines are run one after the other: a later install replaces what an
            earlier one brought along.
    """

    interpreter: Interpreter | None = None
    distributions: tuple[Distribution, ...] | None = None
    torch: TorchBuild | None = None
    manager: Manager | None = None
    document: str | None = None
    lock: LockRecord | None = None
    is_open: bool = False
    wishes: tuple[Wish, ...] = ()
    indexes: tuple[str, ...] = ()
    image: str = ""
    in_order: bool = False

    def wish(self, name: str) -> Wish | None:
        """The wish for this normalised name, or None."""
        return next((wish for wish in self.wishes if wish.name == name), None)

    def distribution(self, name: str) -> Distribution | None:
        """The distribution with this normalised name that imports would take, or None."""
        return next((d for d in self.distributions or () if d.name == name), None)


_INDEX_LABEL = re.compile(r"/(cu[0-9]{2,4}|cpu|rocm[0-9.]+|xpu)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Label:
    """The accelerator and CUDA that a label names; both None when it names neither."""

    accelerator: Accelerator | None = None
    cuda: CudaVersion | None = None


def parse_label(text: str) -> Label:
    """Read ``cu128``, ``cpu``, ``cpu.cxx11.abi``, ``cu118.with.pypi.cudnn``, ``rocm6.3``, ``xpu``.

    Returns:
        An empty label for anything else (``git1a2b3c``, ``nv24.5``).
    """
    head = text.lower().split(".")[0]
    if head.startswith("rocm"):
        return Label(Accelerator.ROCM)
    if head == "xpu":
        return Label(Accelerator.XPU)
    try:
        backend = Backend.parse(head)
    except ValueError:
        return Label()
    return Label(Accelerator.CUDA if backend.cuda else Accelerator.CPU, backend.cuda)


def label_of_version(version: Version | None) -> Label:
    """What the local part of a version says (``2.7.1+cu128``)."""
    return parse_label(version.local) if version is not None and version.local else Label()


def label_of_url(url: str) -> Label:
    """What an index or wheel URL of the PyTorch layout says (``.../whl/cu128/torch/...``)."""
    decoded = url.replace("%2B", "+").replace("%2b", "+")
    filename = decoded.rsplit("/", 1)[-1]
    if filename.endswith(".whl") and "+" in filename:
        found = parse_label(filename.split("+", 1)[1].split("-", 1)[0])
        if found.accelerator is not None:
            return found
    match = _INDEX_LABEL.search(decoded)
    return parse_label(match[1]) if match else Label()
