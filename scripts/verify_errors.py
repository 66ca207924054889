"""Compares the table of statuses with the headers in NVIDIA's wheels and prints what drifted.

Usage: ``python scripts/verify_errors.py [NAME[==VERSION] ...] [--header FILE] [--index-url URL]``

Of a wheel only the list of its members and the headers are downloaded, by ranges. Xids are in no
wheel: ``--header nverror.h`` holds them against a file of NVIDIA/open-gpu-kernel-modules.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import requests
from packaging.version import Version

from envguard.binary.remote import RangeFile, not_a_wheel
from envguard.errors import NetworkError, ToolError
from envguard.matrix.loader import Matrix
from envguard.web.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.statuses import StatusTable

_WHEELS = (
    "nvidia-cuda-runtime",
    "nvidia-cuda-runtime-cu12",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
    "nvidia-cublas-cu12",
    "nvidia-cusparse",
    "nvidia-cusparse-cu12",
    "nvidia-cufft",
    "nvidia-cufft-cu12",
    "nvidia-cusolver",
    "nvidia-cusolver-cu12",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
)
# Headers, the layer of their statuses, and how the names of these begin.
_HEADERS = {
    "driver_types.h": ("cuda", r"cudaError[A-Z]\w+"),
    "cuda.h": ("cuda", r"CUDA_ERROR_\w+"),
    "nccl.h": ("nccl", r"nccl[A-Z]\w+"),
    "cudnn_graph.h": ("cudnn", r"CUDNN_STATUS_\w+"),
    "cudnn_ops_infer.h": ("cudnn", r"CUDNN_STATUS_\w+"),
    "cublas_api.h": ("cublas", r"CUBLAS_STATUS_\w+"),
    "cusparse.h": ("cusparse", r"CUSPARSE_STATUS_\w+"),
    "cufft.h": ("cufft", r"CUFFT_\w+"),
    "cusolver_common.h": ("cusolver", r"CUSOLVER_STATUS_\w+"),
    "nvrtc.h": ("nvrtc", r"NVRTC_ERROR_\w+"),
    "nverror.h": ("xid", r"\w+"),
}
_ENUM = re.compile(r"\benum\b[^{;]{0,200}\{(?P<body>[^}]*)\}\s*(?P<type>\w*)")
_TYPES = re.compile(r"cudaError\b|cudaError_t|cudaError_enum|ncclResult_t|[sS]tatus_t|Result\w*$")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINE = re.compile(r"^#define (?P<name>\w+)[ \t]+\((?P<code>\d+)\)", re.MULTILINE)
_NO_ERROR = re.compile(r"Success$|_SUCCESS$|NumResults$|_LAST_ERROR$|_RECOVERY_LEVEL_\w+$")
_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class HeaderStatuses:
    """The statuses that a header defines.

    Args:
        layer: Whose they are.
        codes: Their numbers by name.
    """

    layer: str
    codes: dict[str, int]


def parse_header(name: str, text: str) -> HeaderStatuses:
    """Read the statuses out of a header.

    Args:
        name: Of the file; it says whose statuses these are.
        text: Of the file.

    Raises:
        KeyError: No statuses are known to be in a header of this name.
    """
    layer, names = _HEADERS[name]
    clean = _COMMENT.sub("", text)
    if layer == "xid":
        found = {m["name"]: int(m["code"]) for m in _DEFINE.finditer(clean)}
    else:
        entry = re.compile(rf"\b({names})\s*=\s*(0[xX][0-9a-fA-F]+|\d+)")
        bodies = (m["body"] for m in _ENUM.finditer(clean) if _TYPES.search(m[0]))
        found = {word: int(code, 0) for body in bodies for word, code in entry.findall(body)}
    return HeaderStatuses(layer, {n: c for n, c in found.items() if not _NO_ERROR.search(n)})


def compare_statuses(found: HeaderStatuses, table: StatusTable) -> Iterator[str]:
    """What a header says and the table does not, or says otherwise."""
    if not found.codes:
        yield f"{found.layer}: the header defines no status that can be read"
    for name, code in found.codes.items():
        row = table.status(found.layer, code)
        if row is not None and name in {row.name, row.driver}:
            continue
        others = [one.code for one in table.named(name) if one.layer == found.layer]
        if others:
            yield f"{name}: is {code}, the table says {' or '.join(map(str, others))}"
        else:
            said = f", the table says {row.name}" if row is not None else ""
            yield f"{name}: {code} is missing{said}"


def extra_statuses(headers: list[HeaderStatuses], table: StatusTable) -> Iterator[str]:
    """Names of the table that no header defines, of the layers whose headers were read."""
    known = {name for header in headers for name in header.codes}
    layers = {header.layer for header in headers}
    for row in table.rows:
        if row.layer in layers and not {row.name, row.driver} & known:
            yield f"{row.name}: {row.code} is in none of the headers that were read"


def read_headers(wheel: str, registry: Registry) -> Iterator[tuple[str, HeaderStatuses]]:
    """The headers with statuses in the wheel of a package, and what they define.

    Args:
        wheel: ``nvidia-cublas``, for its newest release, or ``nvidia-cublas==13.1.0.3``.
        registry: Where to ask.

    Raises:
        NetworkError: No answer, or no such wheel.
        ToolError: pip or uv is missing.
    """
    name, _, stated = wheel.partition("==")
    version = Version(stated) if stated else _newest(name, registry)
    urls = [url for url in registry.addresses(name, version, "3.11") if "x86_64" in url]
    if not urls:
        raise NetworkError(f"{name} {version}: there is no wheel for x86_64")
    with requests.Session() as session, not_a_wheel(urls[0]):
        file = RangeFile(session, urls[0])
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                base = member.filename.rpartition("/")[2]
                if base in _HEADERS and member.file_size < _MOST_BYTES:
                    text = archive.read(member).decode("utf-8", "replace")
                    yield f"{name} {version} {base}", parse_header(base, text)


def _newest(name: str, registry: Registry) -> Version:
    return max(v for v in registry.versions(name) if not v.is_prerelease)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 no drift, 1 drift, 3 the registry could not be asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheels", nargs="*", help="packages; all without one and without --header")
    parser.add_argument("--header", action="append", type=Path, default=[], help="a file instead")
    parser.add_argument("--index-url", default="", help="registry; else what pip is configured for")
    parser.add_argument("--extra", action="store_true", help="say what no header defines, too")
    parser.add_argument("--matrix", type=Path, help="folder of the tables")
    options = parser.parse_args(arguments)
    table = Matrix.load(options.matrix).statuses
    found = [(str(p), parse_header(p.name, p.read_text("utf-8"))) for p in options.header]
    wheels = options.wheels or (() if found else _WHEELS)
    try:
        for wheel in wheels:
            found += read_headers(wheel, Registry(options.index_url))
    except (NetworkError, ToolError) as err:
        print(err.message, file=sys.stderr)
        return 3
    lines = [f"{where}: {line}" for where, one in found for line in compare_statuses(one, table)]
    if options.extra:
        lines += extra_statuses([one for _, one in found], table)
    for line in lines:
        print(line)
    print(f"{len(found)} headers, {sum(len(one.codes) for _, one in found)} names", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
