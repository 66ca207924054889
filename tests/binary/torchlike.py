"""A package with the shape of torch: the same libraries, search paths and symbols, in small."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.binary.build import Workshop

_C10 = """
#include <string>
namespace c10 {
namespace detail {
void torchCheckFail(const char *, const char *, unsigned, const std::string &) {}
}
struct Device { void validate(); }; void Device::validate() {}
}
"""
_CPU = """
#include <string>
namespace at {
struct Tensor { long size(long) const; };
long Tensor::size(long) const { return 1; }
}
namespace torch {
struct Library { Library(const std::string &); };
Library::Library(const std::string &) {}
}
extern "C" int aoti_torch_empty() { return 0; }
"""
_INIT = """
def _load_global_deps():
    ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
"""


@dataclass
class TorchLike:
    """The package in a folder like site-packages.

    Args:
        workshop: Compiles into the folder.
        torch: The package.
    """

    workshop: Workshop
    torch: Path

    @property
    def site(self) -> Path:
        return self.workshop.folder

    @property
    def lib(self) -> Path:
        return self.torch / "lib"

    @property
    def shared(self) -> Path:
        return self.lib / "libtorch_global_deps.so"

    @property
    def extension(self) -> Path:
        return self.torch / "_C.cpython-311-x86_64-linux-gnu.so"

    def module(
        self,
        path: str,
        source: str,
        *,
        new_abi: bool = True,
        needs: tuple[Path, ...] | None = None,
        init: bool = True,
        flags: tuple[str, ...] = (),
        runpath: str = "",
    ) -> Path:
        """An extension module that is linked with this torch."""
        stem = Path(path).name.partition(".")[0]
        start = f'extern "C" void *PyInit_{stem}() {{ return 0; }}\n' if init else ""
        libraries = (self.lib / "libc10.so", self.lib / "libtorch_cpu.so")
        return self.workshop.library(
            path,
            start + source,
            needs=libraries if needs is None else needs,
            flags=[f"-D_GLIBCXX_USE_CXX11_ABI={int(new_abi)}", *flags],
            runpath=runpath,
        )


def make_torch(
    site: Path, *, new_abi: bool = True, cuda: tuple[Path, ...] = (), rpath: str = ""
) -> TorchLike:
    """Compile the package.

    Args:
        site: The folder; it is made.
        new_abi: C++ ABI.
        cuda: Libraries that torch needs besides.
        rpath: Where it looks for them.
    """
    workshop = Workshop(site)
    lib = site / "torch/lib"
    lib.mkdir(parents=True)
    abi = [f"-D_GLIBCXX_USE_CXX11_ABI={int(new_abi)}"]
    path = ":".join(filter(None, (rpath, "$ORIGIN")))
    build = workshop.library
    build("torch/lib/libtorch_global_deps.so", needs=cuda, rpath=path)
    c10 = build("torch/lib/libc10.so", _C10, flags=abi)
    cpu = build("torch/lib/libtorch_cpu.so", _CPU, needs=(c10, *cuda), rpath=path, flags=abi)
    whole = build("torch/lib/libtorch.so", needs=(cpu,), rpath=path)
    python = build("torch/lib/libtorch_python.so", needs=(whole, cpu, c10), rpath=path)
    build(
        "torch/_C.cpython-311-x86_64-linux-gnu.so",
        'extern "C" void *PyInit__C() { return 0; }',
        needs=(python,),
        rpath="$ORIGIN/lib",
    )
    (site / "torch/__init__.py").write_text(_INIT)
    return TorchLike(workshop, site / "torch")
