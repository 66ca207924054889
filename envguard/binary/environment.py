"""The compiled files of one environment: GPU code by library, and what would not load.

:func:`read_environment` is what a deep check uses. Nothing is executed, and a second reading of
files that have not changed costs a look at each one's date.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from envguard.binary.cache import ResultCache
from envguard.binary.folders import PROBE, FolderMemory
from envguard.binary.inspected import InspectedEnvironment
from envguard.binary.listing import (
    ListedFile,
    all_folders,
    digest,
    find_jit_caches,
    list_files,
    signature_of,
)
from envguard.errors import DocumentError
from envguard.facts.binary import BinaryFacts, CompiledFile
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.gaps import Gap, GapReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from envguard.binary.examination import Examination, KnownFiles
    from envguard.binary.listing import Signature

_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME", "HOME")
_SYSTEM_CACHE = "/etc/ld.so.cache"


def read_environment(
    site_folders: Iterable[Path],
    torch_location: Path | None,
    environ: Mapping[str, str],
    cache: Path | None,
    *,
    executable: Path | None = None,
) -> BinaryFacts:
    """Read every compiled file of an environment.

    Args:
        site_folders: Folders of ``sys.path`` that hold packages, in its order; folders that their
            ``.pth`` files add are followed.
        torch_location: The torch package; None when there is none.
        environ: Variables with which the interpreter will start; ``LD_LIBRARY_PATH`` decides.
        cache: Folder for results, see :func:`envguard.binary.cache.cache_folder`; None for none.
        executable: The interpreter, whose own search path counts for what it opens.

    Returns:
        What was found; what could not be read is among the gaps, not an error.
    """
    if not sys.platform.startswith("linux"):
        words = "compiled files are followed on Linux only"
        return BinaryFacts(gaps=(Gap("environment.binary", GapReason.NOT_ASKED, PROBE, words),))
    subject = InspectedEnvironment(
        all_folders(tuple(site_folders)), torch_location, environ, executable
    )
    results, name, gaps = ResultCache(cache), _name_of(subject), list[Gap]()
    kept = results.load(name)
    memory = FolderMemory(before=_mapping(kept.get("folders")))
    listing = list_files(subject.folders, gaps, memory)
    compiled = find_jit_caches(subject, gaps)
    key = digest((*listing, *compiled), _conditions(subject, gaps))
    facts = _unchanged(kept, key)
    if facts is None:
        from envguard.binary.examination import Examination, KnownFiles

        known = KnownFiles(before=_files_of(kept))
        examination = Examination(subject, listing, compiled, known)
        facts = examination.facts()
        watched = _watched(examination, (*listing, *compiled))
        results.store(name, {**_result(facts, key, watched, known), "folders": memory.now})
    return BinaryFacts(
        files=facts.files,
        links=facts.links,
        shadowed=facts.shadowed,
        caches=facts.caches,
        gaps=(*gaps, *facts.gaps),
        checked=facts.checked,
    )


def _name_of(subject: InspectedEnvironment) -> str:
    """Names the result: an environment has one, whatever state it is in."""
    parts = (*subject.folders, subject.torch, subject.executable)
    return os.pathsep.join(map(str, parts))


def _conditions(subject: InspectedEnvironment, gaps: list[Gap]) -> dict[str, str]:
    """What the result depends on besides the compiled files."""
    places = [str(subject.executable), f"{subject.torch}/__init__.py", _SYSTEM_CACHE]
    return {
        **{name: subject.environ.get(name, "") for name in _VARIABLES},
        **{place: str(signature_of(place)) for place in places},
        "gaps": str(gaps),
    }


def _watched(examination: Examination, listing: Iterable[ListedFile]) -> dict[str, Any]:
    """Files and folders outside the environment that were looked at, and their state."""
    own = {listed.path for listed in listing}
    homes = tuple(f"{folder}/" for folder in examination.subject.folders)
    watched: dict[str, Any] = {}
    for path in examination.libraries.asked:
        plain = os.path.normpath(path)
        if plain in own or plain.startswith(homes):
            continue
        folder = os.path.dirname(plain)  # noqa: PTH120 - a text path
        watched.setdefault(folder, signature_of(folder))
        signature = signature_of(plain)
        if signature is not None:
            watched[plain] = signature
    return watched


def _unchanged(kept: Mapping[str, Any], key: str) -> BinaryFacts | None:
    """The facts of an earlier reading, if nothing that they depend on has changed."""
    watched = kept.get("watched")
    if kept.get("key") != key or not isinstance(watched, dict):
        return None
    for path, signature in watched.items():
        found = signature_of(path)
        if (list(found) if found else None) != signature:
            return None
    try:
        return from_dict(BinaryFacts, kept.get("facts"), "cache")
    except DocumentError:
        return None


def _result(
    facts: BinaryFacts, key: str, watched: Mapping[str, Any], known: KnownFiles
) -> dict[str, Any]:
    return {
        "key": key,
        "watched": watched,
        "facts": to_dict(facts),
        "files": {path: [sign, to_dict(file)] for path, (sign, file) in known.now.items()},
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _files_of(kept: Mapping[str, Any]) -> dict[str, tuple[Signature, CompiledFile]]:
    """The single files of an earlier reading; a malformed one is left out."""
    found = {}
    for path, entry in _mapping(kept.get("files")).items():
        try:
            signature, document = entry
            size, time, inode = signature
            file = from_dict(CompiledFile, document, "cache")
        except (DocumentError, TypeError, ValueError):
            continue
        found[path] = ((size, time, inode), file)
    return found
