"""Reads a published wheel of torch: metadata, version.py and torch's own libraries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from envguard.binary.compiled import PROBE
from envguard.binary.folders import is_compiled
from envguard.binary.library import is_torch_library
from envguard.binary.source import UnreadableError
from envguard.binary.wheel import MEGABYTE
from envguard.facts.binary import CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Platform
from envguard.facts.published import TorchWheel
from envguard.facts.sentences import say
from envguard.facts.versions import Backend, CudaVersion

if TYPE_CHECKING:
    import zipfile

    from packaging.tags import Tag

    from envguard.binary.wheel_files import WheelFiles

_LIBRARIES = "torch/lib/"
_VERSION_FILE = "torch/version.py"
_ASSIGNED = r"^{}\b[^=\n]*=\s*(?:'([^'\n]*)'|\"([^\"\n]*)\"|None)"
_TAG = re.compile(r"(?:manylinux\w*?|linux)_(x86_64|aarch64)")


def read_torch_wheel(files: WheelFiles, largest: int | None = None) -> TorchWheel:
    """Read one wheel.

    Args:
        files: The wheel, open.
        largest: Libraries that take more bytes than this in the wheel become gaps; None for no
            bound. The one with GPU code takes hundreds of MiB.

    Raises:
        NetworkError: The server does not give a part.
        UnreadableError: It is no wheel of torch for Linux, or its metadata are damaged.
    """
    version, platform, tags, python, build = _named(files.name)
    members = {member.filename: member for member in files.members()}
    metadata = _header(_info_text(files, members, "METADATA"))
    text = files.text(members[_VERSION_FILE]) if _VERSION_FILE in members else ""
    gaps = (
        ()
        if text
        else (Gap("backend", GapReason.ABSENT, PROBE, say("no {file}", file=_VERSION_FILE)),)
    )
    own = sorted(name for name in members if _is_own_library(name))
    return TorchWheel(
        file=files.name,
        version=version,
        platform=platform,
        python=python,
        tags=tags,
        build_tag=build,
        requires_python=next(iter(_fields(metadata, "Requires-Python")), ""),
        requires=tuple(_fields(metadata, "Requires-Dist")),
        backend=_backend(text),
        commit=_assigned(text, "git_version"),
        libraries=tuple(_library(files, members[name], largest) for name in own),
        gaps=gaps,
    )


def _named(name: str) -> tuple[Version, Platform, tuple[str, ...], str, str]:
    """Version, platform, its tags, interpreter and build tag, as a file name states them."""
    try:
        package, version, build, tags = parse_wheel_filename(name)
    except ValueError as err:  # InvalidWheelFilename, or more digits than Python reads
        raise UnreadableError(f"{name!r} is no name of a wheel") from err
    platforms = sorted({tag.platform for tag in tags})
    match = _TAG.fullmatch(platforms[0])
    if package != "torch" or match is None:
        raise UnreadableError(f"{name!r} is no wheel of torch for Linux")
    found = sorted(tags, key=str)[0]
    platform, python = Platform.parse(f"linux-{match[1]}"), interpreter_of(found)
    return Version(version.public), platform, tuple(platforms), python, "".join(map(str, build))


def interpreter_of(tag: Tag) -> str:
    """The interpreter of a tag: ``cp313t`` is one of its own, ``cp37m`` the usual CPython 3.7."""
    is_own = tag.abi.startswith(tag.interpreter) and tag.abi != f"{tag.interpreter}m"
    return tag.abi if is_own else tag.interpreter


def _info_text(files: WheelFiles, members: dict[str, zipfile.ZipInfo], base: str) -> str:
    for name, member in members.items():
        if re.fullmatch(rf"torch-[^/]+\.dist-info/{base}", name):
            return files.text(member)
    raise UnreadableError(f"{files.name}: it holds no {base}")


def _header(text: str) -> str:
    return text.replace("\r\n", "\n").partition("\n\n")[0]


def _fields(header: str, name: str) -> list[str]:
    return [value.strip() for value in re.findall(rf"^{name}:(.*)$", header, re.M | re.I)]


def _assigned(text: str, name: str) -> str | None:
    match = re.search(_ASSIGNED.format(name), text, re.M)
    return (match[1] or match[2] or None) if match else None


def _backend(text: str) -> Backend | None:
    if not re.search(_ASSIGNED.format("cuda"), text, re.M):
        return None
    cuda = _assigned(text, "cuda")
    try:
        return Backend(None if cuda is None else CudaVersion.parse(cuda))
    except ValueError:
        return None


def _is_own_library(name: str) -> bool:
    base = name.removeprefix(_LIBRARIES)
    return name.startswith(_LIBRARIES) and is_compiled(name) and is_torch_library(base)


def _library(files: WheelFiles, member: zipfile.ZipInfo, largest: int | None) -> CompiledFile:
    if largest is None or member.compress_size <= largest:
        return files.compiled(member)
    detail = say(
        "its {size:.1f} MiB were left where they are", size=member.compress_size / MEGABYTE
    )
    return CompiledFile(member.filename, gaps=(Gap("file", GapReason.NOT_ASKED, PROBE, detail),))
