"""One reading of an environment's compiled files, from the files themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from envguard.binary.compiled import PROBE, read_compiled
from envguard.binary.ldcache import read_system
from envguard.binary.library import Libraries, Library
from envguard.binary.linking import Linking, check_linking
from envguard.binary.listing import Signature
from envguard.binary.loading import ImportSite, find_loading
from envguard.binary.modules import loads_by_itself, several_builds
from envguard.binary.owners import packages_with
from envguard.binary.process import Process
from envguard.binary.shadows import find_shadows
from envguard.binary.source import FileSource, UnreadableError
from envguard.binary.torch_process import BASE_LIBRARIES, TorchProcess, import_torch
from envguard.facts.binary import BinaryFacts, CompiledCache, CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.binary.inspected import InspectedEnvironment
    from envguard.binary.listing import ListedFile
    from envguard.facts.binary import LinkProblem, Shadowing

_LOADERS = frozenset({"x86_64", "aarch64"})


@dataclass(slots=True)
class KnownFiles:
    """Compiled files that were read before, and those of this time.

    Args:
        before: Path -> signature and what the file held; None for one without GPU code.
        now: Likewise, of this reading.
    """

    before: Mapping[str, tuple[Signature, CompiledFile]] = field(default_factory=dict)
    now: dict[str, tuple[Signature, CompiledFile]] = field(default_factory=dict)

    def read(self, listed: ListedFile) -> CompiledFile:
        """What a file holds, from before if it has not changed."""
        known = self.before.get(listed.path)
        if known is not None and known[0] == listed.signature:
            compiled = replace(known[1], path=listed.name)
        else:
            compiled = _read(listed)
        if listed.signature is not None:
            self.now[listed.path] = (listed.signature, compiled)
        return compiled


def _read(listed: ListedFile) -> CompiledFile:
    try:
        with FileSource(listed.path) as source:
            return read_compiled(source, listed.name)
    except UnreadableError as err:
        return CompiledFile(listed.name, gaps=(Gap("file", err.reason, PROBE, err.message),))


class Examination:
    """Reads an environment; every part is worked out when it is first asked for.

    Args:
        subject: The environment.
        listing: Its compiled files.
        caches: Extensions compiled on this machine, listed likewise.
        known: Files read before.
    """

    def __init__(
        self,
        subject: InspectedEnvironment,
        listing: Iterable[ListedFile],
        caches: Iterable[ListedFile] = (),
        known: KnownFiles | None = None,
    ) -> None:
        self.subject = subject
        self.libraries = Libraries()
        self._listing = tuple(listing)
        self._caches = tuple(caches)
        self._known = known or KnownFiles()
        self._gaps: list[Gap] = []
        self._places: dict[str, ImportSite] = {}

    def facts(self) -> BinaryFacts:
        """Everything that the files say."""
        try:
            files = self._files()
            links, checked = self._links()
            return BinaryFacts(
                files=files,
                links=links,
                shadowed=self._shadowed(),
                caches=self._compiled_caches(),
                gaps=tuple(dict.fromkeys(self._gaps)),
                checked=checked,
            )
        finally:
            self.libraries.close()

    @cached_property
    def _usable(self) -> list[tuple[ListedFile, Library]]:
        """The files that are shared objects for this machine; the others become gaps."""
        usable = []
        for listed in self._listing:
            library = self.libraries.get(listed.path)
            if isinstance(library, Library):
                usable.append((listed, library))
            else:
                words = library.message if library else "does not exist"
                reason = library.reason if library else GapReason.ABSENT
                self._gaps.append(Gap(f"file {listed.name}", reason, PROBE, words))
        return usable

    def _files(self) -> tuple[CompiledFile, ...]:
        """Files with GPU code, and torch's own."""
        own = f"{self.subject.torch_folder}/lib/"
        kept = [
            self._known.read(listed)
            for listed, library in self._usable
            if library.has_gpu_code or listed.path.startswith(own)
        ]
        return tuple(sorted(kept, key=lambda file: file.path))

    @cached_property
    def _torch(self) -> TorchProcess | None:
        """The process after ``import torch``; None where the loader's rules are not known."""
        machine = self.subject.machine
        if machine not in _LOADERS or os.name != "posix":
            self._no_link_check(say("the loader of {machine} is not followed", machine=machine))
            return None
        process = Process(self.libraries, read_system(machine), self.subject.environ)
        executable = self.subject.executable
        process.start(str(executable) if executable else None, BASE_LIBRARIES)
        if process.named("libc.so.6") is None:
            self._no_link_check("no GNU C library is found, whose loader is the one that is known")
            return None
        if self.subject.torch_folder is None:
            return TorchProcess(process, Linking())
        return import_torch(process, self.subject.torch_folder, self.subject.folders)

    def _no_link_check(self, why: str) -> None:
        self._gaps.append(Gap("environment.links", GapReason.NOT_ASKED, PROBE, why))

    def _links(self) -> tuple[tuple[LinkProblem, ...], int]:
        """What would not load, torch first, and how many modules were followed."""
        if self._torch is None:
            return (), 0
        tag = self.subject.python_tag
        roots = [
            listed.path
            for listed, library in self._usable
            if loads_by_itself(listed.path, library, tag) and not self._is_torch_own(listed.path)
        ]
        problems = list(self._torch.linking.problems)
        self._gaps += self._torch.linking.gaps
        several = several_builds(roots)
        for path in roots:
            found = self._link(path)
            problems += [self._placed(problem, path in several) for problem in found]
        return tuple(problems), len(roots)

    def _is_torch_own(self, path: str) -> bool:
        """A file of torch itself that ``import torch`` loads, or one of its libraries."""
        followed = {opened.scope[0].path for opened in self._torch.opened} if self._torch else ()
        return path in followed or path.startswith(f"{self.subject.torch_folder}/lib/")

    def _link(self, path: str) -> tuple[LinkProblem, ...]:
        if self._torch is None:
            return ()
        process = self._torch.process.branch()
        process.fallbacks = {**self._libraries_beside(path), **process.fallbacks}
        opened = process.open(path)
        if opened is None:
            return ()
        found = check_linking(process, opened, self.subject.torch_folder)
        opened.scope[0].library.close()
        self._gaps += found.gaps
        return found.problems

    def _libraries_beside(self, path: str) -> Mapping[str, str]:
        """Libraries of the same package, which open them by path before they are needed."""
        site = self._site_of(path)
        top = path.removeprefix(f"{site}/").partition("/")[0]
        return self._own_libraries.get(top, {})

    def _placed(self, problem: LinkProblem, is_one_of_several: bool) -> LinkProblem:
        """A problem with what the package's Python files say about loading the module."""
        problem = replace(problem, one_of_several=is_one_of_several)
        site = self._site_of(problem.module)
        if site is None:
            return problem
        if problem.module not in self._places:
            packages = packages_with(site, problem.module)
            self._places[problem.module] = find_loading(site, packages, problem.module)
        place = self._places[problem.module]
        return replace(problem, loading=place.loading, loaded_from=place.line)

    def _site_of(self, path: str) -> str | None:
        """The folder of the environment that holds a file."""
        homes = map(str, self.subject.folders)
        return next((home for home in homes if path.startswith(f"{home}/")), None)

    @cached_property
    def _own_libraries(self) -> dict[str, dict[str, str]]:
        """Top-level folder -> file name -> path: libraries that a package may load by itself."""
        found: dict[str, dict[str, str]] = {}
        for listed, _ in self._usable:
            top, _, rest = listed.name.partition("/")
            if rest:
                found.setdefault(top, {}).setdefault(rest.rpartition("/")[2], listed.path)
        return found

    def _shadowed(self) -> tuple[Shadowing, ...]:
        if self._torch is None:
            return ()
        return find_shadows(self._torch, self.subject.folders)

    def _compiled_caches(self) -> tuple[CompiledCache, ...]:
        found = []
        for listed in self._caches:
            compiled = self._known.read(listed)
            found.append(
                CompiledCache(
                    folder=os.path.dirname(listed.path),  # noqa: PTH120 - a text path
                    file=listed.path,
                    problems=self._link(listed.path),
                    targets=None if compiled.cubin is None else compiled.targets,
                )
            )
        return tuple(found)
