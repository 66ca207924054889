"""What compiled files hold: code targets, needed libraries, C++ ABI, and what will not link."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from envguard.facts.codec import to_dict
from envguard.facts.gaps import Gap
from envguard.facts.versions import CodeKind, CodeTarget, ComputeCapability
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_INSPECT_SCHEMA = 1
_INSPECT_KEYS = ("path", "cubin", "ptx", "needed", "cxx11_abi", "cuda_major", "gaps")


@dataclass(frozen=True, slots=True, order=True)
class CodeCount:
    """How many pieces of code a file holds for one target.

    Args:
        capability: The capability that the code was compiled for.
        suffix: ``a`` (this capability only), ``f`` (this family), or empty.
        count: Pieces; libraries hold one for each source file, so a target with far fewer than
            the others serves a few operations only.
    """

    capability: ComputeCapability
    suffix: str
    count: int

    def target(self, kind: CodeKind) -> CodeTarget:
        """The target without its count."""
        return CodeTarget(kind, self.capability, self.suffix)


@dataclass(frozen=True, slots=True)
class CompiledFile:
    """One compiled file, read without running it. None: not known, and a gap says why.

    Args:
        path: Where it lies, below what was inspected.
        cubin: Machine code for GPUs by target; empty when it holds none.
        ptx: Virtual code likewise.
        needed: Libraries that the loader will look for, in its order.
        cxx11_abi: Whether it speaks to libtorch with ``std::__cxx11::basic_string``; None when
            nothing in it tells.
        cuda_major: CUDA release that it was built for; None when nothing in it tells.
        gaps: What was not read.
        machine: ``x86_64``, ``aarch64``.
        soname: The name that it gives itself.
        glibc: Newest ``GLIBC_`` version that it asks for.
        glibcxx: Newest ``GLIBCXX_`` version that it asks for.
        stable_abi: It reaches libtorch through the C functions of its stable ABI only; None when
            it does not reach libtorch.
        arch_flags: The targets that ``torch.cuda.get_arch_list()`` will print; libtorch_python
            alone carries them.
    """

    path: str
    cubin: tuple[CodeCount, ...] | None = None
    ptx: tuple[CodeCount, ...] | None = None
    needed: tuple[str, ...] | None = None
    cxx11_abi: bool | None = None
    cuda_major: int | None = None
    gaps: tuple[Gap, ...] = ()
    machine: str | None = None
    soname: str | None = None
    glibc: str | None = None
    glibcxx: str | None = None
    stable_abi: bool | None = None
    arch_flags: tuple[CodeTarget, ...] | None = None

    @property
    def pieces(self) -> int:
        """How many pieces of code for GPUs it holds."""
        return sum(count.count for count in (*(self.cubin or ()), *(self.ptx or ())))

    @property
    def targets(self) -> tuple[CodeTarget, ...]:
        """Every code target, machine code first; empty when none or not known."""
        return (
            *(count.target(CodeKind.CUBIN) for count in self.cubin or ()),
            *(count.target(CodeKind.PTX) for count in self.ptx or ()),
        )


class LinkFault(Enum):
    """Why the loader would refuse a file."""

    MISSING_LIBRARY = "missing-library"
    UNUSABLE_LIBRARY = "unusable-library"
    MISSING_VERSION = "missing-version"
    MISSING_SYMBOL = "missing-symbol"


class Loading(Enum):
    """What makes a module load, as far as the package's own Python files tell."""

    IMPORT = "import"
    GUARDED = "guarded"
    LAZY = "lazy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LinkProblem:
    """One thing that keeps an extension module from loading; the first is what Python prints.

    Args:
        module: The extension module that an import loads.
        needed_by: The file that asks for it: the module, or a library that it needs.
        fault: What is wrong.
        name: The library, version or symbol that is asked for.
        message: The words of the ImportError.
        provider: The library that should have it, where one is found.
        cxx11_abi: The C++ ABI that the file was built for, as the symbol tells.
        others: Further symbols, versions or libraries that the module misses for the same fault.
        is_first: The loader stops at this one; the rest would follow once it is mended.
        is_torch: The module needs libtorch, or is part of it.
        is_driver: The NVIDIA driver supplies this library, no package does.
        one_of_several: The package holds several builds of this module and loads one of them.
        loading: Whether importing the package loads the module.
        loaded_from: The place in the package's Python files that tells so, ``file.py:12``.
    """

    module: str
    needed_by: str
    fault: LinkFault
    name: str
    message: str
    provider: str | None = None
    cxx11_abi: bool | None = None
    others: int = 0
    is_first: bool = True
    is_torch: bool = False
    is_driver: bool = False
    one_of_several: bool = False
    loading: Loading = Loading.UNKNOWN
    loaded_from: str | None = None


class FoundBy(Enum):
    """Which rule of the loader found a library."""

    LOADED = "loaded before"
    RPATH = "RPATH"
    LD_LIBRARY_PATH = "LD_LIBRARY_PATH"
    RUNPATH = "RUNPATH"
    CACHE = "ld.so.cache"
    DEFAULT = "default folder"
    PRELOAD = "loaded by its package"


@dataclass(frozen=True, slots=True)
class Shadowing:
    """Several files serve one library name; the loader takes the first.

    Args:
        name: The library asked for.
        needed_by: The file that asks first.
        winner: The file that is taken.
        found_by: The rule that found it.
        others: Different files that later rules would have found, in their order.
        in_environment: Whether the winner belongs to the environment, not to the system.
    """

    name: str
    needed_by: str
    winner: str
    found_by: FoundBy
    others: tuple[str, ...]
    in_environment: bool


@dataclass(frozen=True, slots=True)
class CompiledCache:
    """An extension that was compiled on this machine and will be loaded again.

    Args:
        folder: What to delete to have it compiled anew.
        file: The compiled file.
        problems: Why it will not load beside the torch that is installed.
        targets: The code that it holds for GPUs; None when not read.
    """

    folder: str
    file: str
    problems: tuple[LinkProblem, ...] = ()
    targets: tuple[CodeTarget, ...] | None = None


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """What the compiled files of an environment say.

    Args:
        files: The files that hold GPU code, and all of torch's own, sorted by path.
        links: What will not load, module by module, each module's in the loader's order.
        shadowed: Libraries of which several would serve.
        caches: Extensions compiled on this machine.
        gaps: What was not read.
        checked: Number of extension modules whose needs were followed.
    """

    files: tuple[CompiledFile, ...] = ()
    links: tuple[LinkProblem, ...] = ()
    shadowed: tuple[Shadowing, ...] = ()
    caches: tuple[CompiledCache, ...] = ()
    gaps: tuple[Gap, ...] = ()
    checked: int = 0

    @property
    def torch_code(self) -> tuple[CompiledFile, ...]:
        """Libraries of torch itself with code for GPUs, the one with most pieces first.

        They need not serve the same targets: linear algebra and NCCL's helpers have libraries
        of their own.
        """
        own = [f for f in self.files if f.path.startswith("torch/lib/") and f.targets]
        return tuple(sorted(own, key=lambda file: -file.pieces))

    def file(self, name: str) -> CompiledFile | None:
        """The file with this base name, e.g. ``libtorch_cuda.so``; None when there is none."""
        return next((f for f in self.files if f.path.rpartition("/")[2] == name), None)


def inspect_document(files: Iterable[CompiledFile]) -> dict[str, Any]:
    """The JSON document of ``inspect``."""
    rows = [{key: to_dict(getattr(file, key)) for key in _INSPECT_KEYS} for file in files]
    return {"schema_version": _INSPECT_SCHEMA, "files": rows}
