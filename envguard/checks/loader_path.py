"""The host family, second half: libraries that the loader takes before those of the wheels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import CheckOptions, cuda_build
from envguard.facts.findings import Evidence, Finding, Remedy, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import Environment
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix

_FILE = re.compile(
    r"lib(?P<name>[A-Za-z_+]{1,60}?)(?P<part>_[a-z_]{1,60})?\.so\.(?P<version>[0-9.]+)"
)
# Library -> the distribution that brings it, without -cu12. Those that libtorch itself names come
# by its DT_RPATH, which goes before LD_LIBRARY_PATH; these are looked for by other libraries of the
# wheels, whose DT_RUNPATH goes after it.
_BROUGHT_BY = {
    "cudnn": "nvidia-cudnn",
    "nvJitLink": "nvidia-nvjitlink",
    "nvrtc": "nvidia-cuda-nvrtc",
}
_MAJOR_ONLY = 1


def check_library_path(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Older copies of what wheels bring, in the folders of LD_LIBRARY_PATH."""
    environment, files = facts.environment, facts.machine.library_path_files
    if cuda_build(facts) is None or environment is None or not files:
        return
    if facts.compiled is not None:
        return  # the compiled files themselves were read: they tell who loads what
    older = [(path, *pair) for path in files if (pair := _older(path, environment)) is not None]
    if not older:
        return
    yield Finding(
        code="HST004",
        cause="ld-library-path-shadow",
        status=Status.FAIL if _breaks_import(older) else Status.WARN,
        title=f"LD_LIBRARY_PATH puts older libraries before those of the wheels: {older[0][0]}",
        detail=f"{_words(older)} The loader takes the first of them, and newer libraries then miss "
        "symbols: 'undefined symbol: __nvJitLink...', CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH.",
        package="torch",
        evidence=(
            Evidence(
                "variables.LD_LIBRARY_PATH",
                facts.machine.variable("LD_LIBRARY_PATH") or "",
                "environment",
            ),
            *(Evidence("library_path_files", path, "listing") for path, _, _ in older[:8]),
        ),
        remedy=Remedy(
            "unset LD_LIBRARY_PATH for programs that use torch (env -u LD_LIBRARY_PATH ...), or "
            "take the toolkit's folder out of it"
        ),
        source=matrix.machines.source("library-path"),
    )


def _older(path: str, environment: Environment) -> tuple[str, str] | None:
    """The version in a file's name and that of the wheel, where the file is the older one.

    A file named after its major alone says nothing; the file it links to is listed as well.
    """
    match = _FILE.fullmatch(path.rpartition("/")[2])
    brought = _BROUGHT_BY.get(match["name"]) if match else None
    if match is None or brought is None:
        return None
    found = _version(match["version"])
    wheel = _wheel_version(brought, environment)
    if found is None or wheel is None or len(found.release) <= _MAJOR_ONLY:
        return None
    is_same_major = found.release[0] == wheel.release[0]
    depth = min(len(found.release), len(wheel.release))
    if not is_same_major or found.release[:depth] >= wheel.release[:depth]:
        return None
    return str(found), str(wheel)


def _version(text: str) -> Version | None:
    try:
        return Version(text.strip("."))
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


def _wheel_version(name: str, environment: Environment) -> Version | None:
    """The version of the distribution, with or without its CUDA suffix."""
    for distribution in environment.distributions or ():
        if distribution.name in {name, f"{name}-cu11", f"{name}-cu12", f"{name}-cu13"}:
            return distribution.version
    return None


def _breaks_import(older: list[tuple[str, str, str]]) -> bool:
    """An older nvJitLink of another CUDA minor lacks symbols that libcusparse asks for by name."""
    for path, found, wheel in older:
        if "/libnvJitLink.so" in path and Version(found).release[:2] < Version(wheel).release[:2]:
            return True
    return False


def _words(older: list[tuple[str, str, str]]) -> str:
    shown = [f"{path} is {found}, the wheel's is {wheel}" for path, found, wheel in older[:3]]
    more = f" (and {len(older) - 3} more)" if len(older) > len(shown) else ""
    return f"{'; '.join(shown)}{more}."


def check_preload(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Libraries that LD_PRELOAD puts in the place of the wheels' own."""
    value = facts.machine.variable("LD_PRELOAD")
    if not value or cuda_build(facts) is None:
        return
    names = [word for word in re.split(r"[ :]+", value) if word]
    nccl = [name for name in names if "libnccl.so" in name]
    others = [n for n in names if re.search(r"lib(cuda|cud|cublas|nvJitLink|torch|c10)", n)]
    if not nccl and not others:
        return
    listed = ", ".join((*nccl, *others))
    yield Finding(
        code="HST005",
        cause="nccl-shadowed" if nccl else "ld-library-path-shadow",
        status=Status.WARN,
        title=f"LD_PRELOAD loads {listed} before everything else",
        detail="It takes the place of the library that torch was built and tested with; a "
        "different release of it can crash or hang.",
        package="torch",
        evidence=(Evidence("variables.LD_PRELOAD", value, "environment"),),
        remedy=Remedy("unset LD_PRELOAD, unless that library is wanted"),
    )
