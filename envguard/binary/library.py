"""Shared libraries as the static link check needs them: what names and files tell, read once."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from envguard.binary.dynamic import Dynamic, read_dynamic
from envguard.binary.elf import Image
from envguard.binary.fatbin import SECTIONS
from envguard.binary.source import FileSource, UnreadableError
from envguard.binary.symbols import SymbolTable

if TYPE_CHECKING:
    from collections.abc import Iterable


# auditwheel and the torch builds put a hash into the names of libraries that they bundle:
# libcudart-d0da41ae.so.11.0, libcudart.faf08d9a.so.13.
_NAME = re.compile(
    r"lib(?P<stem>[A-Za-z0-9_+]+?)(?:[-.][0-9a-f]{8})?\.so(?:\.(?P<version>[0-9.]+))?"
)
_SAME_AS_CUDA = frozenset({"cudart", "cublas", "cublasLt", "nvrtc", "nvJitLink", "nvblas", "nppc"})
# Libraries that count for themselves, where a number belongs to one CUDA release only.
_OWN_COUNT = {"cufft": {"10": 11, "11": 12, "12": 13}, "cusparse": {"11": 11}, "cupti": {"13": 13}}
_TORCH_STEMS = re.compile(r"torch|torch_[a-z_]+|c10|c10_[a-z]+|shm|caffe2_[a-z]+")
_DRIVER_STEMS = frozenset({"cuda", "nvidia-ml", "nvcuvid", "nvidia-encode"})
_CUDA_STEMS = _SAME_AS_CUDA | frozenset(
    {"cufft", "cusparse", "cusolver", "curand", "cudnn", "nccl", "cupti", "cufile", "nvtx3interop"}
)
_PTX_MAJOR = {6: 10, 7: 11, 8: 12, 9: 13}  # PTX language major -> CUDA major


def tell_cuda_major(
    own_name: str, needed: Iterable[str], ptx_version: tuple[int, int] | None = None
) -> int | None:
    """The CUDA release that a file was built for.

    Args:
        own_name: Its soname or file name.
        needed: The libraries that it needs.
        ptx_version: Newest PTX language version in it, which stands in where the CUDA runtime
            is linked into the file. NVIDIA compiles some of its own libraries with an older
            release than the one that they belong to, so it says nothing about those.

    Returns:
        None when nothing tells.
    """
    for name in (own_name, *needed):
        match = _NAME.fullmatch(name)
        if match is None or not match["version"]:
            continue
        major = match["version"].partition(".")[0]
        if match["stem"] in _SAME_AS_CUDA:
            return int(major)
        if major in _OWN_COUNT.get(match["stem"], {}):
            return _OWN_COUNT[match["stem"]][major]
    if ptx_version is None or is_cuda_library(own_name):
        return None
    return _PTX_MAJOR.get(ptx_version[0])


def _stem(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match["stem"] if match else ""


def is_torch_library(name: str) -> bool:
    """Whether a library name is one of libtorch's: ``libc10.so``, ``libtorch_cuda.so``."""
    return _TORCH_STEMS.fullmatch(_stem(name)) is not None


def is_cuda_library(name: str) -> bool:
    """Whether a library name is one of the CUDA toolkit, cuDNN or NCCL."""
    return _stem(name) in _CUDA_STEMS


def is_driver_library(name: str) -> bool:
    """Whether the NVIDIA driver, not a package, supplies this library: ``libcuda.so.1``."""
    return name.removeprefix("lib").partition(".so")[0] in _DRIVER_STEMS


Identity = tuple[int, int]  # device and inode, by which the loader knows a file


class Library:
    """One shared library file: its dynamic table at once, its symbols when asked for.

    Args:
        path: Where it lies.

    Attributes:
        machine: The processor that it is for.
        dynamic: What it asks of the loader.
        has_init: Python can import it: it defines ``PyInit_`` and its own name.
        has_gpu_code: It has a section for such code, or headers that do not tell.

    Raises:
        UnreadableError: It is no ELF file that can be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with FileSource(path) as source:
            image = Image(source)
            self.machine = image.machine
            self.dynamic: Dynamic = read_dynamic(image)
            self.has_init: bool = _has_init(image, path)
            self.has_gpu_code: bool = _has_gpu_code(image)
        self._open: tuple[FileSource, Image, SymbolTable] | None = None

    def image(self) -> Image:
        """The file, kept open until :meth:`close`."""
        return self._opened()[1]

    def symbols(self) -> SymbolTable:
        """Its dynamic symbols."""
        return self._opened()[2]

    def _opened(self) -> tuple[FileSource, Image, SymbolTable]:
        if self._open is None:
            source = FileSource(self.path)
            image = Image(source)
            self._open = (source, image, SymbolTable(image))
        return self._open

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open[0].close()
            self._open = None


def _has_init(image: Image, path: str) -> bool:
    """Whether Python can import the file: it defines the function that its name asks for."""
    base = path.rpartition("/")[2]
    if not base.endswith(".so"):
        return False
    stem = base.partition(".")[0]
    try:
        return SymbolTable(image).offers(b"PyInit_" + os.fsencode(stem))
    except UnreadableError:
        return False


def _has_gpu_code(image: Image) -> bool:
    try:
        return bool(image.sections(*SECTIONS))
    except UnreadableError:
        return True


class Libraries:
    """Every library that was looked at, and every folder that was looked into."""

    def __init__(self) -> None:
        self._known: dict[Identity, Library | UnreadableError] = {}
        self._paths: dict[str, Identity | None] = {}

    def identity(self, path: str) -> Identity | None:
        """The file at a path; None when there is none."""
        if path not in self._paths:
            try:
                found = os.stat(path)  # noqa: PTH116 - a text that is not normalised
                self._paths[path] = (found.st_dev, found.st_ino)
            except (OSError, ValueError):
                self._paths[path] = None
        return self._paths[path]

    def get(self, path: str) -> Library | UnreadableError | None:
        """The library at a path, or why it cannot be used; None when there is no file."""
        identity = self.identity(path)
        if identity is None:
            return None
        if identity not in self._known:
            try:
                self._known[identity] = Library(path)
            except UnreadableError as err:
                self._known[identity] = err
        return self._known[identity]

    @property
    def asked(self) -> Iterable[str]:
        """Every path that was asked for, found or not; the answer depends on these."""
        return self._paths.keys()

    def close(self) -> None:
        """Close every file."""
        for library in self._known.values():
            if isinstance(library, Library):
                library.close()
