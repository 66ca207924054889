"""Makes the files that the tests read: fatbins byte by byte, shared objects with the compiler."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

PTX, CUBIN, LTO = 1, 2, 8
SUFFIX_A, SUFFIX_F = 1 << 20, 1 << 21

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or sys.platform != "linux", reason="needs g++ on Linux"
)
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def entry(
    kind: int,
    capability: int,
    *,
    flags: int = 0x11,
    code: bytes = b"\0" * 32,
    head: int = 64,
    size: int | None = None,
    version: tuple[int, int] = (1, 8),
) -> bytes:
    """One entry of a fatbin; ``head`` and ``size`` may lie."""
    fields = struct.pack(
        "<HHIQIIHHIIIQ",
        kind,
        0x101,
        head,
        len(code) if size is None else size,
        0,
        0,
        version[1],
        version[0],
        capability,
        0,
        0,
        flags,
    )
    return fields.ljust(64, b"\0") + code


def fatbin(*entries: bytes, size: int | None = None, head: int = 16) -> bytes:
    """A fatbin; ``head`` and ``size`` may lie."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, head, len(body) if size is None else size) + body


@dataclass
class Workshop:
    """Compiles shared objects into a folder.

    Args:
        folder: Where they go.
    """

    folder: Path
    count: int = field(default=0)

    def library(
        self,
        path: str,
        source: str = "",
        *,
        needs: Sequence[Path] = (),
        rpath: str = "",
        runpath: str = "",
        flags: Sequence[str] = (),
        soname: str = "",
    ) -> Path:
        """Compile C++ into a shared object.

        Args:
            path: Below the folder.
            source: C++.
            needs: Libraries to name in DT_NEEDED.
            rpath: DT_RPATH.
            runpath: DT_RUNPATH.
            flags: Further flags of g++.
            soname: Its own name; its file name by default.
        """
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self.count += 1
        text = self.folder / f"source{self.count}.cpp"
        text.write_text(source)
        command = ["g++", "-shared", "-fPIC", "-O1", "-o", str(target), str(text)]
        command += [f"-Wl,-soname,{soname or target.name}", "-Wl,--no-as-needed", *flags]
        if rpath:
            command += [f"-Wl,-rpath,{rpath}", "-Wl,--disable-new-dtags"]
        if runpath:
            command += [f"-Wl,-rpath,{runpath}", "-Wl,--enable-new-dtags"]
        for library in needs:
            command += [f"-L{library.parent}", f"-l:{library.name}"]
        command.append("-Wl,--allow-shlib-undefined")
        subprocess.run(command, check=True, capture_output=True)
        text.unlink()
        return target

    def with_fatbin(
        self, path: str, data: bytes, *, section: str = ".nv_fatbin", needs: Sequence[Path] = ()
    ) -> Path:
        """A shared object whose section of GPU code holds these bytes."""
        blob = self.folder / "blob.bin"
        blob.write_bytes(data)
        text = f'asm(".section {section},\\"a\\"; .balign 8; .incbin \\"{blob}\\"; .text");'
        return self.library(path, text, needs=needs)


def real_error(
    module: Path, *before: Path, environ: dict[str, str] | None = None, shared: Path | None = None
) -> str:
    """What the real loader says to a module; empty when it loads.

    Args:
        module: What is opened.
        before: Opened before it.
        environ: Variables of the process.
        shared: Opened first of all, its symbols visible to everything.
    """
    code = (
        "import ctypes, sys\n"
        "if sys.argv[1]: ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
        "for path in sys.argv[2:-1]: ctypes.CDLL(path)\n"
        "try: ctypes.CDLL(sys.argv[-1])\n"
        "except OSError as err: print(err, end='')\n"
    )
    paths = [str(shared) if shared else "", *map(str, before), str(module)]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths],
        capture_output=True,
        text=True,
        env=environ or {},
        check=True,
    )
    return done.stdout
