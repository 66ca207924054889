"""A small wheel with the shape and the words of a published wheel of torch 2.11.0."""

from __future__ import annotations

import random
import zipfile
from typing import TYPE_CHECKING

from tests.binary.build import CUBIN, SUFFIX_A, Workshop, entry, fatbin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl"
_TAIL = '; platform_system == "Linux"'
REQUIRES = (
    "filelock",
    f"cuda-toolkit[cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx]==13.0.2{_TAIL}",
    f"cuda-bindings<14,>=13.0.3{_TAIL}",
    f"nvidia-cudnn-cu13==9.19.0.56{_TAIL}",
    f"nvidia-cusparselt-cu13==0.8.0{_TAIL}",
    f"nvidia-nccl-cu13==2.28.9{_TAIL}",
    f"nvidia-nvshmem-cu13==3.4.5{_TAIL}",
    f"triton==3.6.0{_TAIL}",
    'opt-einsum>=3.3; extra == "opt-einsum"',
)
VERSION_PY = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = '70d99e998b4955e0049d13a98d77ae1b14db1f45'
hip: Optional[str] = None
"""
TARGETS = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
# Capability, flags, pieces: what the real libtorch_cuda.so of that release holds.
CODE = (
    *((capability, 0, 444) for capability in (75, 80, 86, 90, 100, 120)),
    (89, 0, 1),
    (90, SUFFIX_A, 4),
    (100, SUFFIX_A, 59),
    (103, SUFFIX_A, 59),
    (120, SUFFIX_A, 1),
    (121, SUFFIX_A, 1),
)
_BYTES_A_PIECE = 1024  # so that the library is one that is streamed
# fcntl64 came with glibc 2.28.
_C10 = """
#include <string>
extern "C" int fcntl64(int, int, ...);
namespace c10 { namespace detail {
void torchCheckFail(const char *, const char *, unsigned, const std::string &) { fcntl64(0, 0); }
} }
"""


def gpu_code(code: tuple[tuple[int, int, int], ...] = CODE) -> bytes:
    """A section of fatbins with this code, whose bytes do not compress."""
    noise = random.Random(0)  # noqa: S311 - filling, no secret
    return b"".join(
        fatbin(entry(CUBIN, capability, flags=flags, code=noise.randbytes(_BYTES_A_PIECE)))
        for capability, flags, pieces in code
        for _ in range(pieces)
    )


def build_libraries(
    workshop: Workshop, *, targets: str = TARGETS, new_abi: bool = True
) -> dict[str, Path]:
    """Torch's own libraries by their place in the wheel."""
    words = f'const char *list() {{ return "{targets}"; }}'
    abi = [f"-D_GLIBCXX_USE_CXX11_ABI={int(new_abi)}"]
    return {
        "torch/lib/libc10.so": workshop.library("libc10.so", _C10, flags=abi),
        "torch/lib/libtorch_python.so": workshop.library("libtorch_python.so", words),
        "torch/lib/libtorch_cuda.so": workshop.with_fatbin("libtorch_cuda.so", gpu_code()),
    }


def write_wheel(
    path: Path,
    libraries: Mapping[str, Path],
    *,
    requires: tuple[str, ...] = REQUIRES,
    version_py: str = VERSION_PY,
    stored: bool = False,
    level: int = 1,
) -> Path:
    """Pack a wheel of torch."""
    info = "torch-2.11.0.dist-info"
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    head = "Metadata-Version: 2.4\nName: torch\nVersion: 2.11.0\nRequires-Python: >=3.10\n"
    texts = {
        f"{info}/METADATA": f"{head}{lines}Provides-Extra: opt-einsum\n\nRequires-Dist: no\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
        "Tag: cp311-cp311-manylinux_2_28_x86_64\n",
        f"{info}/RECORD": "",
        "torch/__init__.py": "",
        "torch/version.py": version_py,
    }
    kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", kind, compresslevel=level) as archive:
        for name, file in libraries.items():
            archive.write(file, name)
        for name, text in texts.items():
            archive.writestr(name, text)
    return path
