"""What conda and pixi are asked for: environment.yml, explicit lists, pixi's project and lock."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Manager,
    TorchBuild,
    label_of_version,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import OperatingSystem
from envguard.facts.sentences import say
from envguard.facts.versions import CudaVersion, refuse_long_numbers
from envguard.ingest.block_yaml import Scalar, parse_block_yaml
from envguard.ingest.conda_list import accelerator_of_build, python_name
from envguard.ingest.lock_entry import Entry, Locked, LockfileTarget
from envguard.ingest.lock_toml import parse_toml
from envguard.ingest.pip_list import normalise_name
from envguard.ingest.requirements import Statement, locked_of, read_statements
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envguard.ingest.block_yaml import Node
    from envguard.ingest.requirements import Read

SOURCE = "conda"
_MAX_SPECS = 20_000
_SPEC = re.compile(
    r"(?:[\w./:-]{1,200}::)?(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]{0,100})"
    r"\s*(?P<rest>[=<>!~ ,*0-9a-zA-Z._+|-]{0,300})(?P<more>\[.{0,300}\])?"
)
_ADDRESS = re.compile(
    r"(?:https?://|file:)[^\s#]{1,500}/(?P<name>[A-Za-z0-9._-]{1,100})-(?P<version>[^-/\s]{1,60})-"
    r"(?P<build>[^-/\s]{1,100})\.(?:conda|tar\.bz2)(?:#\S*)?"
)
# Conda's packages that set the CUDA of a build rather than being it.
_CUDA_OF = ("pytorch-cuda", "cuda-version", "cudatoolkit")
_SYSTEMS = {
    OperatingSystem.LINUX: {"x86_64": "linux-64", "aarch64": "linux-aarch64"},
    OperatingSystem.WINDOWS: {"x86_64": "win-64", "aarch64": "win-arm64"},
    OperatingSystem.MACOS: {"x86_64": "osx-64", "aarch64": "osx-arm64"},
}


@dataclass(frozen=True, slots=True)
class CondaSpec:
    """One of conda's requirements.

    Args:
        name: The name that Python knows it by.
        version: Where it states exactly one.
        bound: The versions that it admits, where it states none.
        build: Its build string, possibly a pattern.
        line: Where it stands.
        text: As it is written.
    """

    name: str
    version: Version | None
    bound: SpecifierSet
    build: str
    line: int | None
    text: str


def parse_conda_spec(text: str, line: int | None, where: str) -> CondaSpec:
    """Read ``pytorch::pytorch=2.1.0=py3.10_cuda11.8*``, ``numpy>=1.24,<2`` or an address.

    Raises:
        InputError: It is no requirement of conda's.
    """
    if match := _ADDRESS.fullmatch(text.strip()):
        version = _version_or_none(unquote(match["version"]))
        name = python_name(normalise_name(match["name"]))
        return CondaSpec(name, version, SpecifierSet(), match["build"], line, text)
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{where}: {text[:200]!r} is not a requirement of conda's")
    version, bound, build = _versions(match["rest"].strip())
    name = python_name(normalise_name(match["name"]))
    return CondaSpec(name, version, bound, build or (match["more"] or ""), line, text)


def _versions(rest: str) -> tuple[Version | None, SpecifierSet, str]:
    """Conda's ``=2.1`` admits every 2.1.x, ``==2.1.0`` one release; a second word is a build."""
    said, _, build = rest.lstrip("= ").partition("=") if rest[:1] in {"=", ""} else (rest, "", "")
    if rest[:1].isdigit():
        said, _, build = rest.replace(" ", "=").partition("=")
    said, build = said.strip(), build.strip()
    if rest[:1] in {"=", ""} or rest[:1].isdigit():
        is_exact = rest.startswith("==") or said.count(".") > 1
        version = _version_or_none(said) if is_exact and "*" not in said else None
        text = "" if said in {"", "*"} else f"=={said.removesuffix('.*').removesuffix('*')}.*"
        return version, _bound_or_all(text), build
    return None, _bound_or_all(said.replace(" ", "")), build


def _version_or_none(text: str) -> Version | None:
    try:
        return Version(refuse_long_numbers(text))
    except ValueError:
        return None


def _bound_or_all(text: str) -> SpecifierSet:
    """A bound in PEP 440's words; conda's ``|`` and wildcards within are left open."""
    try:
        return SpecifierSet(refuse_long_numbers(text))
    except ValueError:
        return SpecifierSet()


def locked_of_conda(
    specs: Sequence[CondaSpec], statements: Iterable[Statement] = (), gaps: tuple[Gap, ...] = ()
) -> Locked:
    """What conda installs, and pip into the same environment.

    Args:
        specs: Conda's requirements.
        statements: What pip is asked for, which wins where both name a package.
        gaps: What was left out.
    """
    by_pip = locked_of(statements, Manager.CONDA)
    taken = {entry.name for entry in by_pip.entries}
    own = tuple(_entry(spec) for spec in specs if spec.name not in taken)
    names = {spec.name: spec for spec in specs}
    torch = names.get("torch") if "torch" not in taken else None
    python = names.get("python")
    count = len(own)

    def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
        later = by_pip.select(environment, choice)
        return frozenset(range(count)) | frozenset(count + i for i in later)

    return Locked(
        manager=Manager.CONDA,
        entries=(*own, *by_pip.entries),
        select=select,
        gaps=(*gaps, *by_pip.gaps),
        is_open=True,
        indexes=by_pip.indexes,
        python=_python_of(python) if python else None,
        torch=_torch(torch, names) if torch else None,
    )


def _entry(spec: CondaSpec) -> Entry:
    wish = spec.bound if spec.version is None and spec.name == "torch" else None
    return Entry(spec.name, spec.version, spec.line, has_source=True, wish=wish, by_conda=True)


def _python_of(spec: CondaSpec) -> Version | None:
    if spec.version is not None:
        return spec.version
    exact = [s.version.removesuffix(".*") for s in spec.bound if s.operator == "=="]
    return _version_or_none(exact[0]) if len(exact) == 1 else None


def _torch(spec: CondaSpec, names: Mapping[str, CondaSpec]) -> TorchBuild:
    accelerator, cuda = accelerator_of_build(spec.build)
    if accelerator is None:
        label = label_of_version(spec.version)
        accelerator, cuda = label.accelerator, label.cuda
    if accelerator is None and ("cpuonly" in names or "pytorch-cpu" in names):
        accelerator = Accelerator.CPU
    if accelerator is None and (found := _stated_cuda(names)) is not None:
        accelerator, cuda = Accelerator.CUDA, found
    return TorchBuild(spec.version, accelerator, cuda, BuildOrigin.METADATA)


def _stated_cuda(names: Mapping[str, CondaSpec]) -> CudaVersion | None:
    """The CUDA that a package beside torch asks for, of two parts at least."""
    for name in _CUDA_OF:
        spec = names.get(name)
        if spec is None:
            continue
        texts = [s.version.removesuffix(".*") for s in spec.bound if s.operator == "=="]
        version = spec.version or (_version_or_none(texts[0]) if len(texts) == 1 else None)
        if version is not None and len(version.release) > 1:
            return CudaVersion(version.major, version.minor)
    return None


def parse_environment_yml(text: str, name: str, read: Read | None) -> Locked:
    """Read an ``environment.yml``: conda's requirements and the ``pip:`` list among them.

    Raises:
        InputError: It is none; the message names file and line.
    """
    specs, lines = read_environment_yml(text, name)
    return locked_of_conda(specs, pip_statements(lines, name, read))


def read_environment_yml(text: str, name: str) -> tuple[list[CondaSpec], list[Scalar]]:
    """Conda's requirements, and the lines for pip.

    Raises:
        InputError: It is no environment file; the message names file and line.
    """
    document = parse_block_yaml(text, name)
    listed = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InputError(f"{name}: has no list of dependencies")
    if len(listed) > _MAX_SPECS:
        raise InputError(f"{name}: more than {_MAX_SPECS} dependencies")
    specs: list[CondaSpec] = []
    lines: list[Scalar] = []
    for item in listed:
        if isinstance(item, Scalar):
            specs.append(parse_conda_spec(item, item.line, f"{name}:{item.line}"))
        elif isinstance(item, dict) and isinstance(item.get("pip"), list):
            lines += _scalars(item["pip"], name)
        elif item is not None and not (isinstance(item, dict) and item.get("pip", "") is None):
            raise InputError(f"{name}: a dependency is neither a text nor a list for pip")
    return specs, lines


def _scalars(node: Node, name: str) -> list[Scalar]:
    if not isinstance(node, list):
        raise InputError(f"{name}: expected a list")
    return [item for item in node if isinstance(item, Scalar)]


def pip_statements(lines: Sequence[Scalar], name: str, read: Read | None) -> Iterator[Statement]:
    """Each line of a ``pip:`` list as pip reads it, with its place in the conda file.

    Args:
        lines: The texts of the list.
        name: Of the file, for messages.
        read: Gives the files that it includes; None leaves them out.
    """
    for line in lines:
        for said in read_statements(line, name, read):
            where = f"{name}:{line.line}" if said.line else said.where
            number = line.line if said.line else None
            yield Statement(said.text, where, number, said.option, said.index, said.is_constraint)


def parse_explicit_list(text: str, name: str) -> Locked:
    """Read an explicit list: one address of a package on each line.

    Raises:
        InputError: A line is no address; the message names file and line.
    """
    return locked_of_conda(read_explicit_list(text, name))


def read_explicit_list(text: str, name: str) -> list[CondaSpec]:
    """The packages of an explicit list.

    Raises:
        InputError: A line is no address; the message names file and line.
    """
    specs = []
    for number, line in enumerate(text.splitlines()[:_MAX_SPECS], start=1):
        said = line.strip()
        if not said or said.startswith(("#", "@")):
            continue
        if _ADDRESS.fullmatch(said) is None:
            raise InputError(f"{name}:{number}: {said[:200]!r} is not a package's address")
        specs.append(parse_conda_spec(said, number, f"{name}:{number}"))
    return specs


@dataclass(frozen=True, slots=True)
class PixiRequest:
    """What a pixi project asks for in its default environment.

    Args:
        specs: Of conda, the last of each name.
        statements: Of pip, the indexes first.
        left_out: The platforms that ask for more, where no platform was named.
    """

    specs: list[CondaSpec]
    statements: list[Statement]
    left_out: tuple[str, ...] = ()


def parse_pixi_toml(text: str, name: str, target: LockfileTarget) -> Locked:
    """Read a ``pixi.toml``, or ``[tool.pixi]`` of a pyproject.toml: its default environment.

    Raises:
        InputError: Not TOML, or not pixi's; the message names the file.
    """
    found = read_pixi(text, name, target)
    return locked_of_conda(found.specs, found.statements)


def read_pixi(text: str, name: str, target: LockfileTarget | None = None) -> PixiRequest:
    """What a ``pixi.toml``, or ``[tool.pixi]`` of a pyproject.toml, asks for.

    Args:
        text: The whole file.
        name: Of the file, for messages.
        target: For the tables of its platform; None for those of every platform only.

    Raises:
        InputError: Not TOML, or not pixi's; the message names the file.
    """
    document = parse_toml(text, name)
    tables = document.get("tool", {}).get("pixi") or document
    if not isinstance(tables, dict):
        raise InputError(f"{name}: tool.pixi is no table")
    parts = [tables, *(_pixi_targets(tables, target) if target else ())]
    specs, statements = [], []
    for part in parts:
        for package, value in _table(part, "dependencies", name).items():
            specs.append(_pixi_spec(package, value, text, name))
        for package, value in _table(part, "pypi-dependencies", name).items():
            statements.append(_pixi_statement(package, value, text, name))
    last = {spec.name: spec for spec in specs}
    left = () if target else tuple(_table(tables, "target", name))
    return PixiRequest(list(last.values()), [*_pixi_indexes(tables, name), *statements], left)


def _table(data: Mapping[str, object], key: str, name: str) -> Mapping[str, object]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"{name}: {key} is no table")
    return value


def _pixi_targets(
    tables: Mapping[str, object], target: LockfileTarget
) -> Iterator[Mapping[str, object]]:
    """The tables that pixi adds on the target's platform."""
    if target.platform is None:
        return
    system = target.platform.system
    unix = {OperatingSystem.LINUX: ["unix", "linux"], OperatingSystem.MACOS: ["unix", "osx"]}
    names = [*unix.get(system, ["win"]), _subdir(target)]
    by_name = tables.get("target", {})
    for name in names:
        part = by_name.get(name) if isinstance(by_name, dict) else None
        if isinstance(part, dict):
            yield part


def _subdir(target: LockfileTarget) -> str:
    """Conda's word for a platform."""
    platform = target.platform
    return _SYSTEMS[platform.system].get(platform.arch, "") if platform else ""


def _line_of(text: str, word: str) -> int | None:
    """The first line that begins with a key."""
    pattern = re.compile(rf"\s*[\"']?{re.escape(word)}[\"']?\s*=")
    return next((n for n, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)


def _pixi_spec(package: str, value: object, text: str, name: str) -> CondaSpec:
    line = _line_of(text, package)
    version, build = value, ""
    if isinstance(value, dict):
        version, build = value.get("version", "*"), str(value.get("build", ""))
    if not isinstance(version, str):
        raise InputError(f"{name}: {package} states no version")
    # pixi's bare 2.1 is an exact version, conda's 2.1.* all of them
    said = f"=={version}" if version[:1].isdigit() and "*" not in version else version
    words = package if said == "*" else f"{package} {said}"
    spec = parse_conda_spec(words, line, f"{name}:{line}")
    return CondaSpec(spec.name, spec.version, spec.bound, build or spec.build, line, spec.text)


def _pixi_statement(package: str, value: object, text: str, name: str) -> Statement:
    line = _line_of(text, package)
    where = f"{name}:{line}"
    if isinstance(value, str):
        return Statement(package + _pep440(value), where, line)
    if not isinstance(value, dict):
        raise InputError(f"{where}: {package} is neither a text nor a table")
    extras = value.get("extras")
    head = f"{package}[{','.join(map(str, extras))}]" if isinstance(extras, list) else package
    for key in ("git", "path", "url"):
        if isinstance(value.get(key), str):
            address = value[key] if key == "url" else f"git+{value[key]}"
            if key == "path":
                return Statement(str(value[key]), where, line, "-e")
            return Statement(f"{head} @ {address}", where, line)
    index = value.get("index")
    return Statement(
        head + _pep440(str(value.get("version", "*"))),
        where,
        line,
        index=index if isinstance(index, str) else None,
    )


def _pep440(version: str) -> str:
    return "" if version == "*" else f"=={version}" if version[:1].isdigit() else version


def _pixi_indexes(tables: Mapping[str, object], name: str) -> Iterator[Statement]:
    options = _table(tables, "pypi-options", name)
    if isinstance(main := options.get("index-url"), str):
        yield Statement(main, name, None, "--index-url")
    extra = options.get("extra-index-urls", [])
    for url in extra if isinstance(extra, list) else ():
        yield Statement(str(url), name, None, "--extra-index-url")


def parse_pixi_lock(text: str, name: str, target: LockfileTarget) -> Locked:
    """Read a ``pixi.lock``: the packages of its default environment for the target's platform.

    Raises:
        InputError: It is none, or more YAML than is read; the message names file and line.
    """
    document = parse_block_yaml(text, name)
    environments = document.get("environments") if isinstance(document, dict) else None
    default = environments.get("default") if isinstance(environments, dict) else None
    packages = default.get("packages") if isinstance(default, dict) else None
    if not isinstance(packages, dict):
        raise InputError(f"{name}: has no default environment with packages")
    subdir = _subdir(target)
    listed = packages.get(subdir or next(iter(packages), ""))
    if listed is None:
        detail = say(
            "it is made for {platforms}, not for {target}",
            platforms=", ".join(packages),
            target=target,
        )
        gap = Gap("environment.platform", GapReason.MISMATCH, "lockfile", detail)
        return locked_of_conda((), gaps=(gap,))
    specs, wheels = [], []
    for item in listed if isinstance(listed, list) else ():
        conda = item.get("conda") if isinstance(item, dict) else None
        pypi = item.get("pypi") if isinstance(item, dict) else None
        if isinstance(conda, Scalar):
            specs.append(parse_conda_spec(conda, conda.line, f"{name}:{conda.line}"))
        elif isinstance(pypi, Scalar):
            wheels.append(Statement(pypi, f"{name}:{pypi.line}", pypi.line))
    return locked_of_conda(specs, wheels)
