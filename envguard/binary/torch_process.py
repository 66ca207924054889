"""The process after ``import torch``: what it has mapped when an extension is loaded."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from envguard.binary.linking import Linking, check_linking
from envguard.binary.process import Opened, Process
from envguard.files import read_beginning
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# Present in every program, or brought by the interpreter itself.
BASE_LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libutil.so.1")
_GLOBAL = "lib/libtorch_global_deps.so"
_EXTENSION = re.compile(r"_C\.(?:cpython-[^.]+\.)?so")
_MOST_TEXT = 1024 * 1024
_PATTERN = re.compile(r"""["']([a-z0-9_]+)["']\s*[:,]\s*["'](lib[A-Za-z]+)\.so""")


@dataclass(frozen=True, slots=True)
class TorchProcess:
    """A process in which torch was imported, or would have been.

    Args:
        process: What is mapped.
        linking: What keeps torch itself from loading.
        opened: Its files, for those that ask which libraries it took.
    """

    process: Process
    linking: Linking
    opened: tuple[Opened, ...] = ()


def import_torch(process: Process, folder: str, site_folders: tuple[Path, ...]) -> TorchProcess:
    """Follow ``import torch``: first the libraries that it shares with everyone, then its own.

    Args:
        process: As the interpreter starts; it is changed.
        folder: The torch package.
        site_folders: Where ``nvidia`` packages lie, which torch searches by itself for libraries
            that the loader does not find.
    """
    process.fallbacks = dict(_packaged_libraries(site_folders))
    steps = [process.open(f"{folder}/{_GLOBAL}", is_global=True)]
    for path in _preloaded(folder, process.fallbacks):
        attempt = process.branch()  # torch goes on without a library that does not load
        opened_now = attempt.open(path)
        if opened_now and not check_linking(attempt, opened_now, folder).problems:
            steps.append(process.open(path))
    steps += [process.open(path) for path in _extension(folder)]
    opened = tuple(step for step in steps if step is not None)
    found = [check_linking(process, step, folder) for step in opened]
    problems = {
        (problem.fault, problem.name): problem
        for linking in reversed(found)  # the first step that meets a problem is the one to name
        for problem in reversed(linking.problems)
    }
    gaps = tuple(gap for linking in found for gap in linking.gaps)
    return TorchProcess(process, Linking(tuple(reversed(problems.values())), gaps), opened)


def _packaged_libraries(site_folders: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """File name -> path of the libraries in ``nvidia`` packages, those of the first folder last."""
    for site in reversed(site_folders):
        for folder in sorted(site.glob("nvidia/*/lib")):
            try:
                names = sorted(entry.name for entry in folder.iterdir())
            except OSError:
                continue
            yield from ((name, f"{folder}/{name}") for name in names if ".so" in name)


def _preloaded(folder: str, packaged: dict[str, str]) -> list[str]:
    """The packaged libraries that torch opens by path before its own, in its order."""
    try:
        text = read_beginning(f"{folder}/__init__.py", _MOST_TEXT).decode("utf-8", "replace")
    except OSError:
        return []
    names = preloads_of(text)
    return [
        path
        for name in names
        for file, path in sorted(packaged.items())
        if file.startswith(f"{name}.so.")
    ]


def preloads_of(init: str) -> tuple[str, ...]:
    """Which CUDA libraries a release of torch opens before its own, from its ``__init__.py``.

    Releases from 2.6 on open some of them so that they win over ``LD_LIBRARY_PATH``; others only
    when the loader has failed to find one, which :attr:`Process.fallbacks` stands for.

    Args:
        init: Whole file.

    Returns:
        Library names without their endings, e.g. ``libnvJitLink``.
    """
    start = init.find("def _load_global_deps")
    body = init[start : init.find("except OSError", start)] if start >= 0 else ""
    _, found, after = body.partition("ctypes.CDLL(global_deps_lib_path")
    if not found:
        return ()
    if re.search(r"_preload_cuda_deps\(\s*(?:required=False\s*)?\)", after):
        table = init[init.find("def _preload_cuda_deps") : start]
        return tuple(name for _, name in _PATTERN.findall(table))
    return tuple(name for _, name in _PATTERN.findall(after))


def _extension(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - a text path
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names if _EXTENSION.fullmatch(name)]
