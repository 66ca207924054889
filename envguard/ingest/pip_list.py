"""``pip list`` in every format, ``pip freeze``, and what uv prints in their place."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from envguard.facts.environment import (
    BuildOrigin,
    Distribution,
    Environment,
    TorchBuild,
    label_of_url,
    label_of_version,
)
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.ingest.report_part import MAX_PARTS, ReportPart, version_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SOURCE = "pip list"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}"
_PINNED = re.compile(rf"({_NAME})===?([^\s=;,]{{1,100}})")
_BRACKETED = re.compile(rf"({_NAME}) \(([^\s()]{{1,100}})(?:, ?([^()]*))?\)")  # pip before 9
_DIRECT = re.compile(rf"({_NAME}) @ (\S{{1,2000}})")
_EDITABLE = re.compile(r"-e \S{0,2000}#egg=([A-Za-z0-9][A-Za-z0-9._-]{0,100})\S{0,200}")
_COMMENTED = re.compile(rf"# Editable (?:install|Git install)[^()]*\(({_NAME})==([^\s()]+)\)")
_HEADING = re.compile(
    r"Package +Version(?: +(?:Editable project location|Location|Installer|Latest|Type))*"
)
_RULE = re.compile(r"-{3,}(?: +-{3,})+")
_PROMPT = re.compile(r"\s*(?:\(\S{1,80}\) ?)?\S{0,80}[$#%>] ")
_LISTING = re.compile(r"\bpip3? list\b.{0,200}\|")
_FAMILY = re.compile(r"torch|nvidia-")
_MAX_LINE = 2500
_MAX_ROWS = 5000
_MAX_PROMPT = 400


def normalise_name(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sort_distributions(found: Iterable[Distribution]) -> tuple[Distribution, ...]:
    """By name; of several with one name the first stays first. Exact repetitions go."""
    return tuple(sorted(dict.fromkeys(found), key=lambda d: d.name))


def parse_pip_list(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read the lists in a text: columns, freeze, JSON and pip's oldest form.

    Args:
        lines: Cleaned lines. Package lines that a ``collect_env`` report tags (``[pip3]``) are
            not its business.

    Returns:
        One part for each list; a frozen list is all lines of that form together.
    """
    return (
        *islice(_columns(lines), MAX_PARTS),
        *islice(_json_lists(lines), MAX_PARTS),
        *_frozen(lines),
    )


def parse_filtered_list(lines: Sequence[str]) -> tuple[ReportPart, ...]:
    """Read rows of ``pip list`` that came through ``grep``: no heading says what they are.

    Args:
        lines: Cleaned lines of a text in which no report was found.

    Returns:
        One part; none unless every line is a row or a prompt, and one of them is of torch's family.
    """
    rows = [line.strip() for line in lines if line.strip() and not _is_typed(line)]
    found = [row for row in islice(map(_row, rows), _MAX_ROWS) if row is not None]
    if len(found) != len(rows) or not any(_FAMILY.match(d.name) for d in found):
        return ()
    return (_filtered_part(0, found),)


def parse_pip_json(document: object) -> tuple[ReportPart, ...]:
    """Read a decoded ``pip list --format=json`` or ``conda list --json``; empty for others."""
    if not isinstance(document, list) or not document:
        return ()
    found = [_of_record(record) for record in document]
    known = [distribution for distribution in found if distribution is not None]
    return (_part(0, known),) if known and len(known) == len(found) else ()


def _of_record(record: Any) -> Distribution | None:
    if not isinstance(record, dict):
        return None
    name, version = record.get("name"), record.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        return None
    if not re.fullmatch(_NAME, name.removeprefix("_")):
        return None
    by_conda = isinstance(record.get("build_string"), str) and record.get("channel") != "pypi"
    location = record.get("editable_project_location")
    plain = normalise_name(name)
    return Distribution(
        name="torch" if by_conda and plain == "pytorch" else plain,
        version=version_or_none(version),
        location=location if isinstance(location, str) else None,
        installer="conda" if by_conda else None,
        is_editable=isinstance(location, str),
    )


def _json_lists(lines: Sequence[str]) -> Iterator[ReportPart]:
    for number, line in enumerate(lines):
        if line.lstrip().startswith('[{"'):
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                continue
            for part in parse_pip_json(document):
                yield ReportPart(number, part.facts, lists_all=True)


def _columns(lines: Sequence[str]) -> Iterator[ReportPart]:
    """Tables below ``Package  Version`` or the ``pip list | grep`` that took that line off."""
    found: list[Distribution] = []
    start: int | None = None
    for number, line in enumerate((*lines, "")):
        stripped = line.strip()
        if start is not None and _RULE.fullmatch(stripped[:400]):
            continue
        row = _row(stripped) if start is not None else None
        if row is not None:
            found.append(row)
            continue
        if start is not None and found:
            yield (_part if _is_heading(lines[start]) else _filtered_part)(start, found)
        found, start = [], number if _is_heading(line) or _is_filter(line) else None


def _is_heading(line: str) -> bool:
    return line[:200].lstrip().startswith("Package ") and bool(_HEADING.fullmatch(line.strip()))


def _is_typed(line: str) -> bool:
    return bool(_PROMPT.match(line)) or _is_filter(line)


def _is_filter(line: str) -> bool:
    return "list" in line and len(line) < _MAX_PROMPT and bool(_LISTING.search(line))


def _row(text: str) -> Distribution | None:
    words = text.split() if len(text) < _MAX_LINE else []
    if not 2 <= len(words) <= 8 or not re.fullmatch(_NAME, words[0]):
        return None
    version = version_or_none(words[1])
    if version is None:
        return None
    location = words[2] if len(words) > 2 and ("/" in words[2] or "\\" in words[2]) else None
    return Distribution(normalise_name(words[0]), version, location, is_editable=bool(location))


def _frozen(lines: Sequence[str]) -> Iterator[ReportPart]:
    found: list[Distribution] = []
    start = 0
    for number, line in enumerate(lines):
        distribution = parse_freeze_line(line.strip()) if _may_be_frozen(line) else None
        if distribution is not None:
            start = start if found else number
            found.append(distribution)
    if found:
        yield _part(start, found)


def _may_be_frozen(line: str) -> bool:
    """``name (1.0)`` is left out: too many other lines look like it."""
    return len(line) < _MAX_LINE and ("==" in line or " @ " in line or "#egg=" in line)


def parse_freeze_line(text: str) -> Distribution | None:
    """Read ``torch==2.1.0+cu121``, ``torch @ URL``, ``-e ...#egg=torch``, ``torch (0.4.1)``.

    Returns:
        None for anything else, requirements with markers or hashes included.
    """
    if match := _PINNED.fullmatch(text):
        return Distribution(normalise_name(match[1]), version_or_none(match[2]))
    if match := _DIRECT.fullmatch(text):
        return Distribution(normalise_name(match[1]), _version_in(match[2]), url=match[2])
    if match := _EDITABLE.fullmatch(text):
        return Distribution(normalise_name(match[1]), is_editable=True)
    if match := _COMMENTED.fullmatch(text):
        version = version_or_none(match[2])
        return Distribution(normalise_name(match[1]), version, is_editable=True)
    if match := _BRACKETED.fullmatch(text):
        version = version_or_none(match[2])
        return Distribution(normalise_name(match[1]), version, match[3]) if version else None
    return None


def _version_in(url: str) -> Any:
    filename = url.split("#")[0].rpartition("/")[2].replace("%2B", "+").replace("%2b", "+")
    words = filename.removesuffix(".whl").split("-")
    return version_or_none(words[1]) if filename.endswith(".whl") and len(words) >= 5 else None


def build_of_metadata(distribution: Distribution) -> TorchBuild:
    """The torch build of an installed distribution, as far as label and origin tell."""
    label = label_of_version(distribution.version)
    if label.accelerator is None and distribution.url:
        label = label_of_url(distribution.url)
    return TorchBuild(
        version=distribution.version,
        accelerator=label.accelerator,
        cuda=label.cuda,
        origin=BuildOrigin.METADATA,
    )


def _part(line: int, found: Sequence[Distribution]) -> ReportPart:
    distributions = sort_distributions(found)
    torch = next((d for d in distributions if d.name == "torch"), None)
    build = build_of_metadata(torch) if torch is not None else None
    environment = Environment(distributions=distributions, torch=build)
    gaps = tuple(
        Gap(
            f"environment.distributions[{d.name}].version",
            GapReason.UNREADABLE,
            SOURCE,
            say("{url} states no version", url=d.url)
            if d.url
            else "what stands there is no version",
        )
        for d in distributions
        if d.version is None
    )
    return ReportPart(line, Facts(environment=environment, gaps=gaps), lists_all=True)


def _filtered_part(line: int, found: Sequence[Distribution]) -> ReportPart:
    """What came through a filter: what is not there may be installed all the same."""
    facts = _part(line, found).facts
    gap = Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, "a part of the list")
    return ReportPart(line, replace(facts, gaps=(*facts.gaps, gap)))
