"""The static link check: what the loader would refuse to load, in its own words.

Python opens extension modules with ``RTLD_NOW``, and so do ctypes and ``torch.ops.load_library``:
the loader maps every needed library, compares symbol versions, then resolves every symbol that is
not weak, and stops at the first failure. The same order is followed here, but to the end.

Source: ``elf/dl-open.c``, ``elf/dl-version.c`` and ``elf/dl-lookup.c`` of the GNU C library.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.binary.library import is_cuda_library, is_driver_library, is_torch_library
from envguard.binary.resolving import missing_symbols
from envguard.facts.binary import LinkFault, LinkProblem
from envguard.facts.gaps import Gap
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.process import Mapped, MissingLibrary, Opened, Process


@dataclass(frozen=True, slots=True)
class Linking:
    """What one module would meet.

    Args:
        problems: In the loader's order; empty when it would load.
        gaps: Files whose symbols could not be read.
    """

    problems: tuple[LinkProblem, ...] = ()
    gaps: tuple[Gap, ...] = ()


def check_linking(process: Process, opened: Opened, torch_folder: str | None) -> Linking:
    """Say what keeps a module from loading.

    Args:
        process: The process in which it was opened.
        opened: What opening it maps.
        torch_folder: The folder of the torch package, whose libraries fit each other.
    """
    module = opened.scope[0].path
    names = [_name(mapped) for mapped in opened.scope] + [m.name for m in opened.missing]
    is_torch = any(map(is_torch_library, names))
    problems = [_missing_library(module, missing) for missing in opened.missing]
    problems += _missing_versions(process, opened)
    gaps: list[Gap] = []
    if is_torch or any(map(is_cuda_library, names)):
        problems += missing_symbols(process, opened, torch_folder, gaps)
    ordered = (
        replace(problem, is_first=place == 0, is_torch=is_torch)
        for place, problem in enumerate(problems)
    )
    return Linking(tuple(ordered), tuple(gaps))


def _name(mapped: Mapped) -> str:
    return mapped.library.dynamic.soname or mapped.path.rpartition("/")[2]


def _missing_library(module: str, missing: MissingLibrary) -> LinkProblem:
    absent = f"{missing.name}: cannot open shared object file: No such file or directory"
    return LinkProblem(
        module=module,
        needed_by=missing.needed_by.path if missing.needed_by else module,
        fault=LinkFault.UNUSABLE_LIBRARY if missing.unusable else LinkFault.MISSING_LIBRARY,
        name=missing.name,
        message=missing.unusable or absent,
        is_driver=is_driver_library(missing.name),
    )


def _missing_versions(process: Process, opened: Opened) -> Iterator[LinkProblem]:
    """One problem for each file, its first missing version named and the others counted."""
    for mapped in opened.fresh:
        missing = list(_versions_without_provider(process, mapped))
        if missing:
            version, provider = missing[0]
            yield LinkProblem(
                module=opened.scope[0].path,
                needed_by=mapped.path,
                fault=LinkFault.MISSING_VERSION,
                name=version,
                message=f"{provider.path}: version `{version}' not found "
                f"(required by {mapped.path})",
                provider=provider.path,
                others=len(missing) - 1,
            )


def _versions_without_provider(process: Process, mapped: Mapped) -> Iterator[tuple[str, Mapped]]:
    if mapped.is_system:
        return
    for need in mapped.library.dynamic.needs:
        provider = process.named(need.library)
        # A library without any version table serves every version: the loader lets it pass.
        offered = provider.library.dynamic.defines if provider else None
        if provider and offered is not None and need.version not in offered and not need.is_weak:
            yield need.version, provider
