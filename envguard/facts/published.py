"""What a registry and a published wheel say of a release."""

from __future__ import annotations

from packaging.version import Version

from envguard.facts.binary import CompiledFile
from envguard.facts.gaps import Gap
from envguard.facts.machine import Platform
from envguard.facts.versions import Backend, CodeKind, CodeTarget
from envguard.values import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """One release, as its index and the metadata of one of its wheels say.

    Args:
        name: Normalised name.
        version: The release.
        requires_python: As the metadata state it; empty when they do not.
        requires: Requirements as the metadata state them, with extras and markers.
        wheels: Names of its wheels; empty when it has none or they were not listed.
        released: ISO date of the first upload, empty when not listed.
        is_yanked: It was withdrawn; None when nobody says.
    """

    name: str
    version: Version
    requires_python: str
    requires: tuple[str, ...]
    wheels: tuple[str, ...] = ()
    released: str = ""
    is_yanked: bool | None = False


CUDA_LIBRARY = "libtorch_cuda.so"
_CUDA_LIBRARIES = (CUDA_LIBRARY, "libcaffe2_gpu.so", "libtorch.so")  # since 1.5, till 1.1, till 1.4
PYTHON_LIBRARY = "libtorch_python.so"


@dataclass(frozen=True, slots=True)
class TorchWheel:
    """One wheel of torch. None: not known, and a gap says why.

    Args:
        file: Its name.
        version: Public version.
        platform: Where it runs.
        python: Tag of the interpreter: ``cp311``, ``cp313t``.
        tags: Platform tags in its name.
        build_tag: In its name, empty for most.
        requires_python: As its metadata state it.
        requires: Requirements as its metadata state them, with markers.
        backend: What ``torch/version.py`` says that it was built for.
        commit: Commit it was built from, likewise.
        libraries: Torch's own libraries in it, sorted by name.
        gaps: What was not read besides.
    """

    file: str
    version: Version
    platform: Platform
    python: str
    tags: tuple[str, ...]
    build_tag: str
    requires_python: str
    requires: tuple[str, ...]
    backend: Backend | None
    commit: str | None
    libraries: tuple[CompiledFile, ...]
    gaps: tuple[Gap, ...] = ()

    @property
    def arch_flags(self) -> tuple[CodeTarget, ...] | None:
        """What ``torch.cuda.get_arch_list()`` would print."""
        return next((f.arch_flags for f in self.libraries if f.arch_flags is not None), None)

    @property
    def cxx11_abi(self) -> bool | None:
        """The C++ ABI of its libraries; None when none tells or they differ."""
        told = {file.cxx11_abi for file in self.libraries} - {None}
        return told.pop() if len(told) == 1 else None

    @property
    def glibc(self) -> Version | None:
        """The newest version of glibc that a library which was read asks for."""
        return max((Version(f.glibc) for f in self.libraries if f.glibc), default=None)

    @property
    def code(self) -> tuple[tuple[CodeTarget, int], ...] | None:
        """Pieces of GPU code in libtorch_cuda by target; None when it was not read.

        Before torch 1.5 another library held them.
        """
        files = (self.library(name) for name in _CUDA_LIBRARIES)
        file = next((f for f in files if f is not None), None)
        if file is None or file.cubin is None or file.ptx is None:
            return None
        return tuple(
            (count.target(kind), count.count)
            for kind, counts in ((CodeKind.CUBIN, file.cubin), (CodeKind.PTX, file.ptx))
            for count in counts
        )

    def library(self, name: str) -> CompiledFile | None:
        """The library with this base name; None when it holds none."""
        return next((f for f in self.libraries if f.path.rpartition("/")[2] == name), None)

    @property
    def unread(self) -> tuple[Gap, ...]:
        """Everything that was not read."""
        return (*self.gaps, *(gap for file in self.libraries for gap in file.gaps))
