"""What a project asks for: pyproject.toml of PEP 621, PEP 735, uv, poetry and PDM; setup.cfg."""

from __future__ import annotations

import configparser
import re
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from envguard.errors import InputError
from envguard.facts.environment import Manager
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.facts.versions import refuse_long_numbers
from envguard.ingest.lock_entry import parse_marker
from envguard.ingest.lock_toml import Table, parse_toml
from envguard.ingest.pip_list import normalise_name
from envguard.ingest.requirements import Statement, read_statements
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envguard.ingest.requirements import Read

_MAX_INCLUDED = 50
_BARE_NUMBER = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,60}")
_ALWAYS = frozenset({"main", "dev"})


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file states.

    Args:
        statements: Its requirements, those of extras and groups with their choice.
        manager: Whose tables it has.
        requires_python: Specifier text, or empty.
        markers: The environments that it is resolved for, where it limits them.
        gaps: What it leaves to a program.
    """

    statements: tuple[Statement, ...]
    manager: Manager
    requires_python: str = ""
    markers: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


def read_pyproject(text: str, name: str, read: Read | None = None) -> Project:
    """Read a ``pyproject.toml``.

    Args:
        text: The whole file.
        name: Of the file, for messages.
        read: Gives the requirements files that dynamic dependencies name; None leaves them out.

    Raises:
        InputError: Not TOML, or a table that is not what its tool takes; the message names it.
    """
    document = Table(parse_toml(text, name), name)
    tool, lines = document.table("tool"), _Lines(text, name)
    uv, poetry, pdm = tool.table("uv"), tool.table("poetry"), tool.table("pdm")
    found = [
        *_indexes(uv, poetry, pdm, lines),
        *_standard(document, lines),
        *_dynamic(document, name, read),
        *_uv_groups(uv, lines),
        *_pdm_groups(pdm, lines),
        *_poetry(poetry, lines),
    ]
    sources = _Sources(uv, tool.table("uv").table("sources"))
    statements = tuple(said for one in found for said in sources.apply(one))
    managers = ((uv, Manager.UV_PROJECT), (poetry, Manager.POETRY), (pdm, Manager.PDM))
    manager = next((manager for table, manager in managers if table.data), Manager.PIP)
    python = document.table("project").text("requires-python")
    own = poetry.table("dependencies").data.get("python")
    if not python and isinstance(own, str):
        python = python_bound(own)
    environments = uv.data.get("environments", [])
    listed = [environments] if isinstance(environments, str) else uv.texts("environments")
    gaps = tuple(_left_to_a_program(document, found, name))
    return Project(statements, manager, python, tuple(listed), gaps)


def _left_to_a_program(document: Table, found: list[Statement], name: str) -> Iterator[Gap]:
    """Dependencies that are dynamic and that no file states: setup.py or a plugin would."""
    dynamic = document.table("project").texts("dynamic")
    if "dependencies" in dynamic and not any(not said.option for said in found):
        detail = say("{file}: its dependencies are dynamic: what states them is not run", file=name)
        yield Gap("environment.distributions", GapReason.NOT_ASKED, "requirements", detail)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where words stand in the text: a decoder does not tell."""

    text: str
    name: str

    def place(self, word: str) -> tuple[str, int | None]:
        """``file:line`` of the first line that holds a quoted text or begins with a key."""
        for number, line in enumerate(self.text.splitlines(), start=1):
            plain = line.strip()
            if word in plain and (
                f'"{word}"' in plain or f"'{word}'" in plain or plain.startswith((word, f'"{word}'))
            ):
                return f"{self.name}:{number}", number
        return self.name, None

    def statement(self, text: str, choice: str = "", *, key: str = "") -> Statement:
        where, number = self.place(key or text)
        return Statement(text, where, number, choice=choice)


def _standard(document: Table, lines: _Lines) -> Iterator[Statement]:
    """PEP 621's dependencies and extras, and the groups of PEP 735."""
    project = document.table("project")
    for text in project.texts("dependencies"):
        yield lines.statement(text)
    extras = project.table("optional-dependencies")
    for extra in extras.data:
        yield from (lines.statement(t, f"extra {extra}") for t in extras.texts(extra))
    groups = document.table("dependency-groups")
    for group in groups.data:
        choice = "" if group == "dev" else f"group {group}"
        yield from (lines.statement(t, choice) for t in _group(groups, group, ()))


def _group(groups: Table, group: str, chain: tuple[str, ...]) -> Iterator[str]:
    """The texts of a group, with those of the groups that it includes.

    Raises:
        InputError: It includes itself, or one that does not exist.
    """
    names = {normalise_name(name): name for name in groups.data}
    known = names.get(normalise_name(group))
    if known is None or known in chain or len(chain) > _MAX_INCLUDED:
        raise groups.error(f"group {group[:100]!r} is included and not there, or includes itself")
    listed = groups.data[known]
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict) and isinstance(item.get("include-group"), str):
            yield from _group(groups, item["include-group"], (*chain, known))
        else:
            raise groups.error(f"{known}: expected requirements and include-group tables")


def _dynamic(document: Table, name: str, read: Read | None) -> Iterator[Statement]:
    """Requirements files that setuptools is told to read."""
    project = document.table("project")
    dynamic = document.table("tool").table("setuptools").table("dynamic")
    if "dependencies" in project.texts("dynamic"):
        yield from _of_files(dynamic.data.get("dependencies"), "", name, read)
    extras = dynamic.data.get("optional-dependencies")
    for extra, value in extras.items() if isinstance(extras, dict) else ():
        yield from _of_files(value, f"extra {extra}", name, read)


def _of_files(value: object, choice: str, name: str, read: Read | None) -> Iterator[Statement]:
    named = value.get("file") if isinstance(value, dict) else None
    for path in [named] if isinstance(named, str) else named if isinstance(named, list) else ():
        for said in read_statements(f"-r {path}", name, read):
            yield _chosen(said, choice)


def _chosen(said: Statement, choice: str) -> Statement:
    return Statement(
        said.text, said.where, None, said.option, said.index, said.is_constraint, choice
    )


def _uv_groups(uv: Table, lines: _Lines) -> Iterator[Statement]:
    for text in uv.texts("dev-dependencies"):
        yield lines.statement(text)
    for key in ("constraint-dependencies", "override-dependencies"):
        for text in uv.texts(key):
            where, number = lines.place(text)
            yield Statement(text, where, number, is_constraint=True)


def _pdm_groups(pdm: Table, lines: _Lines) -> Iterator[Statement]:
    groups = pdm.table("dev-dependencies")
    for group in groups.data:
        choice = "" if group == "dev" else f"group {group}"
        for text in groups.texts(group):
            if text.startswith("-e "):
                where, number = lines.place(text)
                yield Statement(text[3:], where, number, "-e", choice=choice)
            else:
                yield lines.statement(text, choice)


def _indexes(uv: Table, poetry: Table, pdm: Table, lines: _Lines) -> Iterator[Statement]:
    """The indexes that every package may come from, as options."""
    for index in uv.tables("index"):
        if index.data.get("explicit") is not True:
            option = "--index-url" if index.data.get("default") is True else "--extra-index-url"
            yield _option(index.text("url"), option, lines)
    for key, option in (("index-url", "--index-url"), ("extra-index-url", "--extra-index-url")):
        value = uv.data.get(key)
        for url in [value] if isinstance(value, str) else value if isinstance(value, list) else ():
            yield _option(str(url), option, lines)
    for source in poetry.tables("source"):
        priority = source.text("priority")
        if priority in {"", "primary", "default", "supplemental", "secondary"}:
            option = "--index-url" if priority == "default" else "--extra-index-url"
            if url := source.text("url"):
                yield _option(url, option, lines)
    for source in pdm.tables("source"):
        is_main = source.text("name") == "pypi"
        yield _option(source.text("url"), "--index-url" if is_main else "--extra-index-url", lines)


def _option(url: str, option: str, lines: _Lines) -> Statement:
    where, number = lines.place(url)
    return Statement(url, where, number, option)


class _Sources:
    """``[tool.uv.sources]``: where single packages come from."""

    def __init__(self, uv: Table, sources: Table) -> None:
        self._urls = {index.text("name"): index.text("url") for index in uv.tables("index")}
        self._by_name: dict[str, list[Mapping[str, object]]] = {}
        for name, value in sources.data.items():
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, dict) for item in items):
                raise sources.error(f"{name}: expected a table, or a list of tables")
            self._by_name[normalise_name(name)] = items

    def apply(self, said: Statement) -> Iterator[Statement]:
        """A requirement for each of its package's sources, and for where none of them holds."""
        items = self._by_name.get(_name_of(said), []) if not said.option else []
        items = [item for item in items if _is_for(item, said.choice)]
        if not items or said.is_constraint:
            yield said
            return
        markers = []
        for item in items:
            marker = item.get("marker")
            if isinstance(marker, str):
                markers.append(_checked(marker, said.where))
            yield self._from(said, item, marker if isinstance(marker, str) else "")
        if len(markers) == len(items):
            yield _replaced(said, said.text, said.index, tuple(markers))

    def _from(self, said: Statement, item: Mapping[str, object], marker: str) -> Statement:
        text, index = said.text, said.index
        address = next((str(item[k]) for k in ("git", "url", "path") if k in item), "")
        if "workspace" in item and not address:
            address = "."
        if address:
            own = text.partition(";")[2]
            head = Requirement(refuse_long_numbers(text)).name
            git = "git+" if "git" in item else ""
            tree = f"{git}{address}" if "://" in address else f"file:./{address}"
            text = f"{head} @ {tree}" + (f" ;{own}" if own else "")
        if isinstance(item.get("index"), str):
            index = self._urls.get(str(item["index"]), index)
        return _replaced(said, _with_marker(text, marker), index, said.unless)


def _is_for(item: Mapping[str, object], choice: str) -> bool:
    """A source may be bound to an extra or a group."""
    kind, _, name = choice.partition(" ")
    bound = {"extra": item.get("extra"), "group": item.get("group")}
    if all(value is None for value in bound.values()):
        return True
    return bound.get(kind) == name


def _replaced(said: Statement, text: str, index: str | None, unless: tuple[str, ...]) -> Statement:
    return Statement(text, said.where, said.line, said.option, index, False, said.choice, unless)


def _name_of(said: Statement) -> str:
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", said.text.strip())
    return normalise_name(match[0]) if match else ""


def _checked(marker: str, where: str) -> str:
    try:
        parse_marker(marker)
    except ValueError as err:
        raise InputError(f"{where}: marker {marker[:100]!r}: {err}") from err
    return marker


def _with_marker(text: str, marker: str) -> str:
    """The text with a further marker."""
    if not marker:
        return text
    head, semicolon, own = text.partition(" ;") if " @ " in text else text.partition(";")
    both = f"({own.strip()}) and ({marker})" if semicolon else marker
    return f"{head.rstrip()} ; {both}"


def _poetry(poetry: Table, lines: _Lines) -> Iterator[Statement]:
    """Poetry's own tables: what is optional belongs to the extras that name it."""
    sources = {s.text("name"): s.text("url") for s in poetry.tables("source")}
    extras = poetry.table("extras")
    named = {
        normalise_name(package): f"extra {extra}"
        for extra in extras.data
        for package in extras.texts(extra)
    }
    groups = poetry.table("group")
    tables = [(poetry.table("dependencies"), ""), (poetry.table("dev-dependencies"), "")]
    for group in groups.data:
        table = groups.table(group)
        is_optional = table.data.get("optional") is True
        tables.append((table.table("dependencies"), f"group {group}" if is_optional else ""))
    for table, choice in tables:
        for package, value in table.data.items():
            if package == "python":
                continue
            for item in value if isinstance(value, list) else [value]:
                yield _poetry_item(package, item, choice, sources, named, lines)


def _poetry_item(
    package: str,
    item: object,
    choice: str,
    sources: Mapping[str, str],
    named: Mapping[str, str],
    lines: _Lines,
) -> Statement:
    where, number = lines.place(package)
    data = {"version": item} if isinstance(item, str) else item
    if not isinstance(data, dict):
        raise InputError(f"{where}: {package} is neither a text nor a table")
    if data.get("optional") is True:
        choice = named.get(normalise_name(package), f"extra {package}")
    markers = [str(data[key]) for key in ("markers",) if key in data]
    if isinstance(python := data.get("python"), str):
        markers += [f"python_version {clause}" for clause in _marker_clauses(python)]
    if isinstance(platform := data.get("platform"), str):
        markers.append(f"sys_platform == '{platform}'")
    extras = data.get("extras")
    head = f"{package}[{','.join(map(str, extras))}]" if isinstance(extras, list) else package
    source = data.get("source")
    text = head + poetry_bound(str(data.get("version", "*")), where)
    for key in ("git", "url", "path"):
        if isinstance(address := data.get(key), str):
            text = f"{head} @ {_tree(key, address)}"
    for marker in markers:
        text = _with_marker(text, _checked(marker, where))
    index = sources.get(source) if isinstance(source, str) else None
    return Statement(text, where, number, index=index, choice=choice)


def _tree(key: str, address: str) -> str:
    if key == "git":
        return f"git+{address}" if "://" in address else f"git+ssh://{address.replace(':', '/')}"
    return address if "://" in address else f"file:./{address}"


def _marker_clauses(python: str) -> Iterator[str]:
    """Bounds on Python as a marker has them."""
    for clause in python_bound(python).split(","):
        if match := re.fullmatch(r"\s*(>=|<=|==|!=|>|<)\s*([0-9.]{1,20})(?:\.\*)?\s*", clause):
            yield f"{match[1]} '{match[2]}'"


def python_bound(text: str) -> str:
    """Poetry's bound on Python in PEP 440's words; empty where it has alternatives."""
    return "" if "||" in text or "|" in text else poetry_bound(text, "python")


def poetry_bound(text: str, where: str) -> str:
    """Poetry's bound in PEP 440's words.

    Args:
        text: ``^2.1``, ``~2.1``, ``2.1.*``, ``>=2,<3``, ``2.1.0`` or ``*``.
        where: For the message.

    Returns:
        A specifier; empty for every version, and for alternatives, which PEP 440 cannot say.

    Raises:
        InputError: A caret or tilde stands before no number.
    """
    if "|" in text:
        return ""
    parts = [part.strip() for part in text.split(",") if part.strip() not in {"", "*"}]
    return ",".join(clause for part in parts for clause in _clauses(part, where))


def _clauses(part: str, where: str) -> Iterable[str]:
    if part.startswith("^"):
        return _up_to(part[1:].strip(), where, is_caret=True)
    if part.startswith("~") and not part.startswith("~="):
        return _up_to(part[1:].strip(), where, is_caret=False)
    if part.startswith("=") and not part.startswith("=="):
        return [f"={part}"]
    return [f"=={part}"] if _BARE_NUMBER.fullmatch(part.removesuffix("*")) else [part]


def _up_to(text: str, where: str, *, is_caret: bool) -> list[str]:
    """From a version up to the next that changes its first number that is not 0, or its minor."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6}){0,3}", text)
    if match is None:
        raise InputError(f"{where}: {text[:60]!r} is no version")
    numbers = [int(number) for number in match[0].split(".")]
    keep = min(1, len(numbers) - 1)
    if is_caret:
        keep = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1)
    end = [*numbers[:keep], numbers[keep] + 1]
    return [f">={text}", f"<{'.'.join(map(str, end))}"]


def read_setup_cfg(text: str, name: str, read: Read | None = None) -> Project:
    """Read a ``setup.cfg``: what setuptools is told to require.

    Raises:
        InputError: No such file, or one without options of setuptools.
    """
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text, name)
    except configparser.Error as err:
        raise InputError(f"{name}: cannot be read: {str(err).splitlines()[0]}") from err
    if not parser.has_section("options"):
        raise InputError(
            f"{name}: states no requirements",
            hint="name pyproject.toml, a lockfile or a requirements file",
        )
    lines, found = _Lines(text, name), []
    sections = [("", parser["options"].get("install_requires", ""))]
    if parser.has_section("options.extras_require"):
        extras = parser["options.extras_require"]
        sections += [(f"extra {extra}", value) for extra, value in extras.items()]
    for choice, value in sections:
        for path in _files_in(value):
            found += [_chosen(said, choice) for said in read_statements(f"-r {path}", name, read)]
        if not value.strip().startswith("file:"):
            texts = [line.strip() for line in value.splitlines()]
            found += [lines.statement(t, choice) for t in texts if t and not t.startswith("#")]
    python = parser["options"].get("python_requires", "")
    return Project(tuple(found), Manager.PIP, python)


def _files_in(value: str) -> list[str]:
    said = value.strip()
    if not said.startswith("file:"):
        return []
    return [path.strip() for path in said.removeprefix("file:").split(",") if path.strip()]
