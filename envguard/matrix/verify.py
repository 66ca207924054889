"""Proves what the tables promise about themselves, beyond what loading them proves."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from itertools import pairwise
from string import Formatter
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import (
    CPU,
    Backend,
    CodeKind,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from envguard.matrix.causes import Where, compile_pattern
from envguard.matrix.rows import MarketSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from packaging.specifiers import SpecifierSet

    from envguard.matrix.causes import Cause, CauseTable, Message
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.reading import Document, Row


# What sentences about a stage of the smoke test may name that stands in no text.
_KNOWN_OF_ERRORS = frozenset({"python", "lib"})
_GROUPS_OF_EXITS = frozenset({"code", "n", "name"})
_TAG = re.compile(r"cp(3)([0-9]+)t?")


def _check_code_can_exist(matrix: Matrix) -> Iterator[str]:
    """Each build's CUDA is recorded and its compiler knows every code target."""
    for row in matrix.document("torch.toml").rows("build"):
        for backend in row.values("backends", Backend.parse):
            if backend.cuda is None:
                yield row.error("backends", "a CPU build has no code targets").message
            elif matrix.drivers.toolkit_driver(backend.cuda) is None:
                yield row.error("backends", f"no driver is recorded for {backend.cuda}").message
            else:
                yield from _check_targets(matrix, row, backend)


def _check_targets(matrix: Matrix, row: Row, backend: Backend) -> Iterator[str]:
    cuda = backend.cuda
    assert cuda is not None  # noqa: S101 - the caller tells CPU builds apart
    oldest = matrix.support.oldest_target(cuda)
    targets = row.values("targets", CodeTarget.parse)
    for index, target in enumerate(targets):
        field, capability = f"targets[{index}]", target.capability
        generation = matrix.drivers.generation_of(capability)
        if oldest is not None and capability < oldest:
            yield row.error(field, f"CUDA {cuda} no longer compiles for {capability}").message
        if generation is None:
            yield row.error(field, f"{capability} is of no generation").message
        elif generation.first_cuda is not None and cuda < generation.first_cuda:
            yield row.error(field, f"CUDA {cuda} does not know {generation.name} yet").message
    if list(targets) != sorted(targets, key=_target_order) or len(set(row.words("targets"))) < len(
        targets
    ):
        yield row.error("targets", "expected each once, cubins before PTX, rising").message


def _target_order(target: CodeTarget) -> tuple[object, ...]:
    return target.kind is CodeKind.PTX, target.capability, target.suffix


def _check_builds_are_published(matrix: Matrix) -> Iterator[str]:
    """Code targets and exceptions are about builds that PyPI or the index holds."""
    published = {(b.version, b.platform, b.backend) for b in matrix.torch.builds()}
    for array in ("build", "exception"):
        for row in matrix.document("torch.toml").rows(array):
            platform = row.value("platform", Platform.parse)
            for version in row.values("torch", Version):
                for backend in row.values("backends", Backend.parse):
                    if (version, platform, backend) not in published:
                        text = f"{version}+{backend} is not published for {platform}"
                        yield row.error("backends", text).message


def _check_pypi_is_on_index(matrix: Matrix) -> Iterator[str]:
    """PyPI's build is among the index's, or the row says why not."""
    for row in matrix.document("torch.toml").rows("pypi"):
        platform = row.value("platform", Platform.parse)
        backend = row.value("backend", Backend.parse)
        # macOS wheels are the same files on both sides, and the index rows leave them out.
        if platform.system is OperatingSystem.MACOS or row.has("note"):
            continue
        for version in row.values("torch", Version):
            release = matrix.torch.release(version)
            if release is not None and backend not in release.variants.get(platform, ()):
                text = f"{backend} of {version} is not on the index for {platform}"
                yield row.error("backend", text).message


def _check_index(matrix: Matrix) -> Iterator[str]:
    """Backends rise, and a CPU build is always among them."""
    for row in matrix.document("torch.toml").rows("index"):
        backends = row.values("backends", Backend.parse)
        if CPU not in backends:
            yield row.error("backends", "the index always holds a CPU build").message
        order = [(b.cuda.major, b.cuda.minor) if b.cuda else (0, 0) for b in backends]
        if order != sorted(set(order)):
            yield row.error("backends", "expected each once, cpu first, rising").message


def _check_releases(matrix: Matrix) -> Iterator[str]:
    """Every row names a release that is recorded; dates are dates."""
    document = matrix.document("torch.toml")
    for row in document.rows("release"):
        try:
            date.fromisoformat(row.text("released"))
        except ValueError as err:
            yield row.error("released", str(err)).message
        release = matrix.torch.release(row.value("version", Version))
        if release is not None and not release.pypi:
            yield row.error("version", f"PyPI's wheels of {release.version} are missing").message
    for array in ("pypi", "index"):
        for row in document.rows(array):
            for index, version in enumerate(row.values("torch", Version)):
                if matrix.torch.release(version) is None:
                    yield row.error(f"torch[{index}]", f"{version} has no release row").message


def _check_pythons(matrix: Matrix) -> Iterator[str]:
    """Wheels exist for Pythons that the release admits, and for each once."""
    for row in matrix.document("torch.toml").rows("pypi"):
        tags = row.words("pythons")
        minors = [_TAG.fullmatch(tag) for tag in tags]
        for index, (tag, match) in enumerate(zip(tags, minors, strict=True)):
            if match is None:
                yield row.error(f"pythons[{index}]", f"{tag!r} is not a CPython tag").message
        order = [(int(match[2]), match[0]) for match in minors if match]
        if order != sorted(set(order)):
            yield row.error("pythons", "expected each once, rising").message
        for version in row.values("torch", Version):
            release = matrix.torch.release(version)
            if release is not None and order:
                yield from _check_admitted(row, version, release.requires_python, order[0][0])


def _check_admitted(
    row: Row, version: Version, admitted: SpecifierSet, minor: int
) -> Iterator[str]:
    # The newest patch release: >=3.7.1 admits 3.7.
    if not admitted.contains(Version(f"3.{minor}.99")):
        yield row.error("pythons[0]", f"{version} requires Python {admitted}").message


def _check_companions(matrix: Matrix) -> Iterator[str]:
    """The companions that a release names exist and admit it."""
    for row in matrix.document("torch.toml").rows("release"):
        torch = row.value("version", Version)
        for package in ("torchvision", "torchaudio"):
            for index, version in enumerate(row.values(package, Version)):
                companion = matrix.libs.companion(package, version)
                field = f"{package}[{index}]"
                if companion is None:
                    yield row.error(field, f"{package} {version} is not recorded").message
                elif not _admits(companion.torch, torch, companion.backend):
                    text = f"{package} {version} requires torch{companion.torch}"
                    yield row.error(field, text).message


def _admits(bounds: SpecifierSet, torch: Version, backend: Backend) -> bool:
    labelled = Version(f"{torch}+{backend}")
    return bounds.contains(torch, prereleases=True) or bounds.contains(labelled, prereleases=True)


def _check_libraries(matrix: Matrix) -> Iterator[str]:
    """What a release row says of PyPI's wheel is what the libraries' row says of that build."""
    linux = Platform(OperatingSystem.LINUX, "x86_64")
    for row in matrix.document("torch.toml").rows("release"):
        version = row.value("version", Version)
        backend = matrix.torch.pypi_backend(version, linux)
        libraries = matrix.libs.libraries_of(version, backend) if backend else None
        if libraries is None:
            continue
        for field, stated in (("cudnn", libraries.cudnn), ("nccl", libraries.nccl)):
            if stated is not None and row.text(field) != stated:
                text = f"{row.text(field)} here, {stated} among the libraries of {backend}"
                yield row.error(field, text).message


def _check_machine_code(matrix: Matrix) -> Iterator[str]:
    """Wheels that were read hold every recorded target of PyPI's build."""
    for row, code in zip(
        matrix.document("torch_libs.toml").rows("fatbin"), matrix.libs.machine_code, strict=True
    ):
        backend = matrix.torch.pypi_backend(code.torch, code.platform)
        build = matrix.torch.build(code.torch, backend, code.platform) if backend else None
        held = {str(target) for target, _ in code.counts}
        for target in build.targets or () if build else ():
            if str(target) not in held:
                yield row.error("cubins", f"{target} is recorded but not in the wheel").message


TORCH_INVARIANTS: tuple[Callable[[Matrix], Iterator[str]], ...] = (
    _check_code_can_exist,
    _check_builds_are_published,
    _check_pypi_is_on_index,
    _check_index,
    _check_releases,
    _check_pythons,
    _check_companions,
    _check_libraries,
    _check_machine_code,
)


_VERSIONED = ("release", "prebuilt", "binary", "imported")


def _documents(matrix: Matrix) -> Iterator[Document]:
    for name in sorted(matrix.package_names):
        table = _table(matrix, name)
        if table is not None:
            yield table.document
    yield matrix.breaks.document


def _table(matrix: Matrix, name: str) -> PackageTable | None:
    """The table, or None where it does not load, which is said elsewhere."""
    try:
        return matrix.packages(name)
    except MatrixError:
        return None


def _arrays(document: Document) -> Iterator[str]:
    for name, value in document.data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield name


def check_packages_load(matrix: Matrix) -> Iterator[str]:
    """Every row of every table has its fields, and a table is named like its file."""
    for name in sorted(matrix.package_names):
        try:
            table = matrix.packages(name)
            if table is None or table.name != name:
                yield f"packages/{name}.toml: name: expected {name!r}"
                continue
            for release in table.releases:
                table.prebuilt(release.version)
            table.ranges()
        except MatrixError as err:
            yield err.message
    for read in (lambda: matrix.breaks.all, lambda: matrix.deepspeed.releases):
        try:
            read()
        except MatrixError as err:
            yield err.message


def check_package_sources(matrix: Matrix) -> Iterator[str]:
    """Every row names sources that are there, and every source is named."""
    for document in _documents(matrix):
        used: set[str] = set()
        for array in _arrays(document):
            for row in document.rows(array):
                try:
                    row.provenance()
                    used.update(row.words("source"))
                except MatrixError as err:
                    yield err.message
        for key, source in document.sources.items():
            if key not in used:
                yield f"{document.name}: sources.{key}: no row names this source"
            if source.checked.replace("-", ".") > matrix.manifest.data_version:
                yield f"{document.name}: sources.{key}.checked: {source.checked} lies ahead"


def check_package_order(matrix: Matrix) -> Iterator[str]:
    """Releases rise and are stated once; breaks are sorted by name and stated once."""
    for document in _documents(matrix):
        for array in _VERSIONED:
            if array in document.data:
                yield from _rising(list(document.rows(array)), strict=array != "binary")
    rows = list(matrix.breaks.document.rows("break"))
    for before, after in pairwise(rows):
        if after.text("id") <= before.text("id"):
            yield after.error("id", "stands out of order, or twice").message


def _rising(rows: list[Row], *, strict: bool) -> Iterator[str]:
    for before, after in pairwise(rows):
        first, second = (row.text("version") for row in (before, after))
        if "@" in first + second:
            continue  # a branch
        older, newer = before.value("version", Version), after.value("version", Version)
        if newer < older or (strict and newer == older):
            yield after.error("version", f"{newer} stands after {older}").message


def check_companions_agree(matrix: Matrix) -> Iterator[str]:
    """What two tables say about torchvision and torchaudio is the same."""
    for companion in matrix.libs.companions:
        table = _table(matrix, companion.package)
        release = table.release(companion.version) if table else None
        if release is None:
            continue
        where = f"packages/{companion.package}.toml: {companion.version}"
        required = release.requires.get("torch")
        if required is not None and required != companion.torch and "+" not in str(required):
            yield f"{where}: torch{required}, torch_libs.toml says torch{companion.torch}"
        if release.cuda and release.cuda.cuda != companion.backend.cuda:
            yield f"{where}: CUDA {release.cuda}, torch_libs.toml says {companion.backend}"


def check_pins_exist(matrix: Matrix) -> Iterator[str]:
    """An exact requirement on torch names a release of torch."""
    for name in sorted(matrix.package_names):
        table = _table(matrix, name)
        for release in table.releases if table else ():
            for specifier in release.requires.get("torch", ()):
                exact = specifier.operator == "==" and "*" not in specifier.version
                if exact and matrix.torch.release(Version(specifier.version)) is None:
                    yield f"packages/{name}.toml: {release.version}: no torch {specifier.version}"


def check_ranges_agree(matrix: Matrix) -> Iterator[str]:
    """No release is of two ABI kinds, nor built for two CUDA releases."""
    for name in sorted(matrix.package_names):
        table = _table(matrix, name)
        for release in table.releases if table else ():
            found = table.ranges(release.version) if table else ()
            kinds = {r.abi for r in found if r.abi is not None}
            cudas = {r.cuda.major for r in found if r.cuda is not None}
            if release.cuda is not None:
                cudas.add(release.cuda.major)
            if len(kinds) > 1 or len(cudas) > 1:
                yield f"packages/{name}.toml: range: two of them contradict for {release.version}"


def check_fixes_cure(matrix: Matrix) -> Iterator[str]:
    """The version that cures a break is not among those that it breaks."""
    for row in matrix.breaks.all:
        for name, bound in {**row.fix, **row.alternative}.items():
            broken = row.when.get(name)
            if broken is None:
                continue
            for specifier in bound:
                lowest = specifier.operator == ">=" and Version(specifier.version)
                if lowest and broken.contains(lowest, prereleases=True):
                    yield f"breaks.toml: {row.name}: fix: {name}{bound} is among the broken ones"


def check_shown_words(matrix: Matrix) -> Iterator[str]:
    """What a break shows in a log are signatures."""
    known = {row.id for row in matrix.causes.signatures}
    for row in matrix.breaks.all:
        for name in (*row.shows, *row.frames):
            if name not in known:
                yield f"breaks.toml: {row.name}: shows: there is no signature {name}"
        if row.frames and not row.shows:
            yield f"breaks.toml: {row.name}: frames: they stand beside nothing that is shown"


def check_mixing_grows(matrix: Matrix) -> Iterator[str]:
    """DeepSpeed never takes back a CUDA minor that it lets mix."""
    for before, after in pairwise(matrix.deepspeed.releases):
        lost = before.mixes.get(12, frozenset()) - after.mixes.get(12, frozenset())
        if lost:
            listed = ", ".join(map(str, sorted(lost)))
            yield f"deepspeed.toml: {after.version}: minors: {listed} of {before.version} is gone"


def check_signatures(matrix: Matrix) -> Iterator[str]:
    """Each pattern is one, and finds its sample in a line that holds one of its literals."""
    for place, row in matrix.causes.signature_places:
        try:
            pattern = row.pattern
        except MatrixError as err:
            yield f"{place}.regex: {err.message}"
            continue
        lines = [line for line in row.sample.split("\n") if pattern.search(line)]
        if not lines:
            yield f"{place}.sample: {row.id} does not match it"
        elif not any(literal in line for line in lines for literal in row.literals):
            yield f"{place}.literals: none of {row.id} stands in its sample"
    for index, phase in enumerate(matrix.signals.phases):
        try:
            compile_pattern(phase.id, phase.regex)
        except MatrixError as err:
            yield f"evidence.toml: phase[{index}].regex: {err.message}"


def check_names_of_signatures(matrix: Matrix) -> Iterator[str]:
    """What launchers and tools are known by are signatures."""
    known = {row.id for row in matrix.causes.signatures}
    named = [("launchers.toml", row.name, row.words) for row in matrix.signals.launchers]
    named += [("evidence.toml", row.name, row.says) for row in matrix.signals.tools]
    for table, row, names in named:
        yield from (f"{table}: {row}: there is no signature {n}" for n in names if n not in known)
    for told in matrix.signals.launchers:
        exits = [name for name in told.says_exit if name in known]
        for name in exits:
            groups = _GROUPS_OF_EXITS
            with suppress(MatrixError):  # told with its own row
                groups = groups & _groups(matrix.causes, (name,))
            if not groups:
                yield f"launchers.toml: {told.name}: says_exit: {name} has no group code, n or name"


def check_causes(matrix: Matrix) -> Iterator[str]:
    """The order names causes; conditions name signals, and sentences what is given."""
    for slug in matrix.order.causes:
        if matrix.causes.cause(slug) is None:
            yield f"order.toml: order: there is no cause {slug}"
    for status in matrix.statuses.rows:
        if status.cause and matrix.causes.cause(status.cause) is None:
            yield f"errors.toml: {status.name}: cause: there is no cause {status.cause}"
    for place, cause in matrix.causes.cause_places:
        yield from _check_conditions(matrix, place, cause)
        with suppress(MatrixError):  # a pattern that is none is told with its own row
            yield from tuple(_check_sentences(matrix.causes, place, cause))


def _check_conditions(matrix: Matrix, place: str, cause: Cause) -> Iterator[str]:
    signals = {row.name for row in matrix.signals.signals}
    for index, row in enumerate(cause.hypotheses):
        field = f"{place}.hypothesis[{index}].signal"
        unknown = [name for name in row.signal if name not in signals]
        yield from (f"{field}: there is no signal {name}" for name in unknown)


def _check_sentences(causes: CauseTable, place: str, cause: Cause) -> Iterator[str]:
    """What sentences name is a group of a signature; sentences of rules are not tried."""
    for index, shown in enumerate(cause.shown):
        given = _groups(causes, (*shown.any, *shown.all))
        given |= _KNOWN_OF_ERRORS if shown.where is Where.ERROR else frozenset()
        yield from _unnamed(f"{place}.shown[{index}]", causes.message(shown.says), (), given)
    for index, row in enumerate(cause.hypotheses):
        if row.is_told:
            given = _groups(causes, (*row.any, *row.lines))
            texts = (row.supports, row.against, row.experiment)
            place_of = f"{place}.hypothesis[{index}]"
            yield from _unnamed(place_of, causes.message(row.says), texts, given)


def _groups(causes: CauseTable, names: tuple[str, ...]) -> set[str]:
    """What the patterns of signatures name.

    Raises:
        MatrixError: One is no pattern.
    """
    return {group for name in names for group in causes.signature(name).pattern.groupindex}


def _unnamed(
    place: str, message: Message, texts: tuple[str, ...], given: set[str]
) -> Iterator[str]:
    said = (message.title, message.detail, message.remedy, *texts)
    named = {name for text in said for _, name, _, _ in Formatter().parse(text) if name}
    for name in sorted(named - given):
        yield f"{place}: no group of its signatures gives {{{name}}}, which its sentences name"


PACKAGE_INVARIANTS: tuple[Callable[[Matrix], Iterator[str]], ...] = (
    check_packages_load,
    check_package_sources,
    check_package_order,
    check_companions_agree,
    check_pins_exist,
    check_ranges_agree,
    check_fixes_cure,
    check_shown_words,
    check_mixing_grows,
    check_signatures,
    check_names_of_signatures,
    check_causes,
)


_DATE = re.compile(r"[0-9]{4}\.[0-9]{2}\.[0-9]{2}")


def verify(matrix: Matrix) -> tuple[str, ...]:
    """Check every invariant of the tables.

    Args:
        matrix: The tables.

    Returns:
        One line a problem, each naming table, row and field; empty when the tables hold.
    """
    problems: list[str] = []
    for invariant in INVARIANTS:
        try:
            problems.extend(invariant(matrix))
        except MatrixError as err:  # the table did not load; said once, however many ask for it
            problems.append(err.message)
    found: dict[str, str] = {}
    for problem in problems:
        found.setdefault(_about(problem), problem)
    return tuple(found.values())


def _about(problem: str) -> str:
    """What a problem is about: a field of a wrong type is one, however many readers say so."""
    return problem.partition(": expected ")[0]


def _check_manifest(matrix: Matrix) -> Iterator[str]:
    version = matrix.manifest.data_version
    if not _DATE.fullmatch(version):
        yield f"manifest.toml: data_version: {version!r} is not a date such as 2026.11.29"
        return
    for name in TABLES:
        for key, source in matrix.document(name).sources.items():
            if source.checked.replace("-", ".") > version:
                yield f"{name}: sources.{key}.checked: {source.checked} is after {version}"


def _check_loading(matrix: Matrix) -> Iterator[str]:
    for table in (
        "breaks",
        "causes",
        "drivers",
        "gpus",
        "index",
        "libs",
        "machines",
        "memory",
        "signals",
        "statuses",
        "support",
        "toolkits",
        "torch",
        "uv",
    ):
        try:
            loaded = getattr(matrix, table)
            if table == "causes":
                _ = loaded.codes  # read when one is asked for
        except MatrixError as err:
            yield err.message


def _check_provenance(matrix: Matrix) -> Iterator[str]:
    for name, arrays in TABLES.items():
        document = matrix.document(name)
        used: set[str] = set()
        for array in arrays:
            for row in document.rows(array):
                try:
                    row.provenance()
                except MatrixError as err:
                    yield err.message
                else:
                    used.update(row.words("source"))
        for key in document.sources.keys() - used:
            yield f"{name}: sources.{key}: no row names this source"


def _check_order(matrix: Matrix) -> Iterator[str]:
    for name, arrays in TABLES.items():
        for array, key in arrays.items():
            rows = list(matrix.document(name).rows(array))
            for before, after in pairwise(rows):
                if key(after) < key(before):  # type: ignore[operator]  # keys of one array compare
                    yield after.error(_field_of(after), "stands out of order").message


def _check_unique(matrix: Matrix) -> Iterator[str]:
    for name, array, field in _UNIQUE:
        seen: set[Hashable] = set()
        for row in matrix.document(name).rows(array):
            value = row.data.get(field)
            if isinstance(value, str | int) and value in seen:
                yield row.error(field, f"{value!r} is stated twice").message
            elif isinstance(value, str | int):
                seen.add(value)


def _check_minimum_drivers(matrix: Matrix) -> Iterator[str]:
    document = matrix.document("drivers.toml")
    for array, label in (("toolkit_driver", "toolkit"), ("minor_version_compat", "major")):
        for field in ("linux", "windows"):
            yield from _check_rising(list(document.rows(array)), field, label)
    yield from _check_rising(list(matrix.document("uv.toml").rows("uv_driver")), "linux", "backend")
    yield from _check_toolkit_branches(matrix)


def _check_rising(rows: list[Row], field: str, label: str) -> Iterator[str]:
    stated = [row for row in rows if row.has(field)]
    for before, after in pairwise(stated):
        older, newer = (row.value(field, DriverVersion.parse) for row in (before, after))
        if newer < older:
            of = before.data.get(label)
            yield after.error(field, f"{newer} is below {older}, that of {of}").message


def _check_toolkit_branches(matrix: Matrix) -> Iterator[str]:
    known = {row.branch: row.cuda for row in matrix.drivers.branches}
    rows = matrix.document("drivers.toml").rows("toolkit_driver")
    for row, toolkit in zip(rows, matrix.drivers.toolkits, strict=True):
        cuda = known.get(toolkit.linux.branch)
        if cuda is not None and cuda != toolkit.cuda:
            yield row.error("linux", f"branch {toolkit.linux.branch} is that of {cuda}").message


def _check_branches(matrix: Matrix) -> Iterator[str]:
    rows = list(matrix.document("drivers.toml").rows("driver_branch"))
    pairs = zip(pairwise(rows), pairwise(matrix.drivers.branches), strict=True)
    for (_, row), (before, after) in pairs:
        if after.cuda <= before.cuda:
            yield row.error("cuda", f"{after.cuda} is not above {before.cuda}").message
        if after.windows[0] <= before.windows[1]:
            yield row.error("windows", f"overlaps branch {before.branch}").message


def _check_generations(matrix: Matrix) -> Iterator[str]:
    rows = list(matrix.document("drivers.toml").rows("generation"))
    generations = matrix.drivers.generations
    for row, generation in zip(rows, generations, strict=True):
        if generation.last < generation.first:
            yield row.error("last", f"{generation.last} is below {generation.first}").message
        for other in generations:
            is_same = other is generation
            if not is_same and any(other.covers(c) for c in (generation.first, generation.last)):
                yield row.error("first", f"overlaps {other.name}").message
            if not is_same and any(other.covers(alias) for alias in generation.aliases):
                yield row.error("aliases", f"overlaps {other.name}").message


def _check_gpus(matrix: Matrix) -> Iterator[str]:
    rows = matrix.document("gpus.toml").rows("gpu")
    for row, model in zip(rows, matrix.gpus.models, strict=True):
        for capability in (model.capability, *model.other_capabilities):
            # Jetson drivers come with their own releases, outside the branches.
            is_jetson = model.segment is MarketSegment.JETSON
            if not is_jetson and matrix.drivers.generation_of(capability) is None:
                yield row.error("capability", f"{capability} is of no generation").message
        expected = matrix.gpus.chips.get(model.chip, model.capability)
        if expected != model.capability:
            yield row.error("chip", f"{model.chip} is {expected}, not {model.capability}").message
        if model not in matrix.gpus.find(model.name):
            yield row.error("name", f"{model.name!r} does not find itself").message


def _check_backend_labels(matrix: Matrix) -> Iterator[str]:
    seen: dict[str, Backend] = {}
    for build in matrix.torch.builds():
        label = build.backend.label
        if Backend.parse(label) != build.backend:
            yield f"torch.toml: {build.label}: label {label} reads as {Backend.parse(label)}"
        if seen.setdefault(label, build.backend) != build.backend:
            yield f"torch.toml: {build.label}: label {label} stands for two backends"


def _field_of(row: Row) -> str:
    return next(iter(row.data), "")


def _version(field: str) -> Callable[[Row], object]:
    return lambda row: row.value(field, Version)


def _text(field: str) -> Callable[[Row], object]:
    return lambda row: row.text(field)


def _number(field: str) -> Callable[[Row], object]:
    return lambda row: row.integer(field)


def _by_capability(row: Row) -> object:
    name = "name" if row.has("name") else "chip"
    return row.value("capability", ComputeCapability.parse), row.text(name)


def _by_first(row: Row) -> object:
    return row.value("first", ComputeCapability.parse)


def _by_flavour(row: Row) -> object:
    first = row.optional("first", ComputeCapability.parse)
    return row.text("flavour"), first or ComputeCapability(0, 0)


def _by_builds(row: Row) -> object:
    backends = row.words("backends") if row.has("backends") else ()
    return row.values("torch", Version), row.text("platform"), backends


def _by_backend(row: Row) -> object:
    return row.value("backend", Backend.parse).cuda or CudaVersion(0, 0)


def _by_place(row: Row) -> object:
    return row.text("package") if row.has("package") else "", row.text("platform")


def _by_package(row: Row) -> object:
    field = "version" if row.has("version") else "since"
    return row.text("package"), row.optional(field, Version) or Version("0")


def _by_series(row: Row) -> object:
    return row.value("series", Version), row.text("backend")


def _by_file(row: Row) -> object:
    return row.value("torch", Version), row.text("platform"), row.text("file")


# Every array of every table with the order of its rows.
TABLES: dict[str, dict[str, Callable[[Row], object]]] = {
    "drivers.toml": {
        "toolkit_driver": _version("toolkit"),
        "minor_version_compat": _number("major"),
        "driver_branch": _number("branch"),
        "generation": _by_first,
        "toolkit_targets": _number("major"),
        "forward_compat": _version("cuda"),
        "branch_support": _number("branch"),
    },
    "gpus.toml": {"gpu": _by_capability, "chip": _by_capability},
    "index.toml": {
        "channel": _text("name"),
        "host": _text("name"),
        "unlabelled": _by_place,
        "platform_tag": _by_place,
    },
    "machines.toml": {
        "kernel_module": _by_flavour,
        "uuid_list": _by_package,
        "needing": _text("what"),
        "image": _text("tag"),
        "size": _text("name"),
        "rule": _text("name"),
    },
    "toolkits.toml": {"host_compiler": _version("cuda")},
    "torch.toml": {
        "release": _version("version"),
        "pypi": _by_builds,
        "index": _by_builds,
        "exception": _by_builds,
        "build": _by_builds,
    },
    "torch_libs.toml": {
        "libs": _by_series,
        "requires": _version("torch"),
        "companion": _by_package,
        "cuda_match": _by_package,
        "wheel_tag": _by_builds,
        "fatbin": _by_file,
        "other_vendor": _version("torch"),
    },
    "uv.toml": {"uv_driver": _by_backend},
}
_UNIQUE = (
    ("drivers.toml", "toolkit_driver", "toolkit"),
    ("drivers.toml", "minor_version_compat", "major"),
    ("drivers.toml", "driver_branch", "branch"),
    ("drivers.toml", "driver_branch", "cuda"),
    ("drivers.toml", "generation", "name"),
    ("gpus.toml", "gpu", "name"),
    ("gpus.toml", "chip", "chip"),
    ("machines.toml", "size", "name"),
    ("machines.toml", "rule", "name"),
    ("toolkits.toml", "host_compiler", "cuda"),
    ("torch_libs.toml", "requires", "torch"),
    ("torch_libs.toml", "fatbin", "file"),
    ("torch_libs.toml", "other_vendor", "torch"),
    ("uv.toml", "uv_driver", "backend"),
)
INVARIANTS: tuple[Callable[[Matrix], Iterator[str]], ...] = (
    _check_loading,
    _check_manifest,
    _check_provenance,
    _check_order,
    _check_unique,
    _check_minimum_drivers,
    _check_branches,
    _check_generations,
    _check_gpus,
    _check_backend_labels,
    *TORCH_INVARIANTS,
    *PACKAGE_INVARIANTS,
)
