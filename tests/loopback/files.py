"""Files that an index serves: small wheels and source distributions made on the spot."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from dataclasses import dataclass, replace

_EPOCH = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Served:
    """One file of an index.

    Args:
        filename: Its name.
        sha256: What the index states.
        metadata: METADATA of a wheel (PEP 658); empty for a source distribution.
        content: The bytes; None where only name, hash and metadata are known.
        requires_python: What the index states.
        uploaded: Upload time that the index states.
        is_digest_told: A release's list of files states its hash.
    """

    filename: str
    sha256: str
    metadata: str = ""
    content: bytes | None = None
    requires_python: str = ">=3.8"
    uploaded: str = "2026-01-02T00:00:00Z"
    is_digest_told: bool = True

    @property
    def metadata_sha256(self) -> str:
        return hashlib.sha256(self.metadata.encode()).hexdigest()

    def with_hash(self, sha256: str) -> Served:
        """The same name with the hash of a file that is not at hand."""
        return replace(self, sha256=sha256, content=None)


def metadata_text(name: str, version: str, requires: tuple[str, ...], python: str) -> str:
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {python}\n"
    extras = sorted({r.split("extra == ")[1].strip("'\" )") for r in requires if "extra ==" in r})
    provided = "".join(f"Provides-Extra: {extra}\n" for extra in extras)
    return head + provided + "".join(f"Requires-Dist: {r}\n" for r in requires)


def wheel(
    name: str,
    version: str,
    tags: str = "py3-none-any",
    requires: tuple[str, ...] = (),
    *,
    python: str = ">=3.8",
    uploaded: str = "2026-01-02T00:00:00Z",
) -> Served:
    """A wheel that installs: a module without code and its metadata."""
    folder = name.replace("-", "_")
    info = f"{folder}-{version}.dist-info"
    metadata = metadata_text(name, version, requires, python)
    purity = "true" if tags.endswith("any") else "false"
    lines = "".join(f"Tag: {tag}\n" for tag in _expanded(tags))
    members = {
        f"{folder}/__init__.py": f'__version__ = "{version}"\n',
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {purity}\n{lines}",
    }
    record = "".join(f"{path},,\n" for path in (*members, f"{info}/RECORD"))
    content = _zipped({**members, f"{info}/RECORD": record})
    return Served(
        filename=f"{folder}-{version}-{tags}.whl",
        sha256=hashlib.sha256(content).hexdigest(),
        metadata=metadata,
        content=content,
        requires_python=python,
        uploaded=uploaded,
    )


def _expanded(tags: str) -> list[str]:
    python, abi, platforms = tags.split("-")
    return [f"{p}-{abi}-{platform}" for p in python.split(".") for platform in platforms.split(".")]


def _zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in members.items():
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), text)
    return buffer.getvalue()


# A build backend that lies in the source distribution itself, so that building asks no index.
_BACKEND = """
import os

{preamble}

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "{folder}-{version}.dist-info"
    os.mkdir(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w") as file:
        file.write({metadata!r})
    with open(os.path.join(metadata_directory, name, "WHEEL"), "w") as file:
        file.write("Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\n")
    return name
"""
_PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'


def source(
    name: str, version: str, requires: tuple[str, ...] = (), *, preamble: str = ""
) -> Served:
    """A source distribution whose metadata must be built; the preamble runs first."""
    folder = name.replace("-", "_")
    backend = _BACKEND.format(
        preamble=preamble,
        folder=folder,
        version=version,
        metadata=metadata_text(name, version, requires, ">=3.8"),
    )
    members = {
        "pyproject.toml": _PYPROJECT,
        "own.py": backend,
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    }
    content = _tarred({f"{folder}-{version}/{path}": text for path, text in members.items()})
    return Served(
        filename=f"{folder}-{version}.tar.gz",
        sha256=hashlib.sha256(content).hexdigest(),
        content=content,
    )


def _tarred(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, text in members.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue(), compresslevel=0, mtime=0)  # the same bytes each time
