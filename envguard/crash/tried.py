"""What a text shows was tried: settings at the value that a remedy names, releases that are in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from envguard.crash.scan import SETTING
from envguard.facts.findings import Finding, Remedy
from envguard.facts.sentences import say
from envguard.matrix.remedy_settings import SettingRow
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch


@dataclass(frozen=True, slots=True)
class Tried:
    """A setting as the text shows it set.

    Args:
        row: The setting; None for a release of a package.
        text: As it was set, ``NCCL_P2P_DISABLE=1``.
        place: Where it stands, ``line 4``; empty where it is no line.
    """

    row: SettingRow | None
    text: str
    place: str = ""

    @property
    def words(self) -> str:
        """For a sentence: ``NCCL_P2P_DISABLE=1 (line 4)``."""
        return f"{self.text} ({self.place})" if self.place else self.text


def tried_of(case: Case, text: str) -> tuple[Tried, ...]:
    """What a remedy asks for and the text shows was done.

    Args:
        case: With the log, the machine's variables and the command that ran.
        text: The remedy's words and its command.
    """
    found = (_found(case, row, value) for row, value in case.matrix.settings.asked_for(text))
    settings = {one.text: one for one in found if one is not None}
    return (*settings.values(), *_releases(case, text))


def _found(case: Case, row: SettingRow, wanted: str) -> Tried | None:
    for hit in case.log.all(SETTING + row.id):
        before = case.matrix.settings.before(row, hit.text)
        value = _value_of(row, hit, before)
        does = value is not None and (not value or row.does(value, wanted))
        if does and is_set(hit.text, before):
            return Tried(row, _written(row, value or wanted), hit.place)
    for name in row.names:
        value = case.facts.machine.variable(name)
        if value and row.does(value, wanted):
            return Tried(row, _written(row, value))
    return _of_command(case, row, wanted)


def _of_command(case: Case, row: SettingRow, wanted: str) -> Tried | None:
    """What the command that ran sets."""
    asked = case.matrix.settings.asked_for(" ".join(case.command)) if case.command else ()
    values = (value for one, value in asked if one is row and row.does(value, wanted))
    value = next(values, None)
    return None if value is None else Tried(row, _written(row, value))


def _written(row: SettingRow, value: str) -> str:
    return row.names[0] if row.is_flag else f"{row.names[0]}={value}"


def _value_of(row: SettingRow, hit: SignatureMatch, before: str) -> str | None:
    """The value that a line states; empty where it only says that it was tried, None for none."""
    value = hit.groups.get("value")
    if value and value.strip("./:"):
        return value.rstrip(".:")
    if row.is_flag:
        return row.value
    return "" if _TRIED.search(before) else None


# Whoever advises speaks of what may be done, whoever tried it of what was.
_TRIED = re.compile(
    r"(?i)\b(?:I|we|I.ve|my|our|tried|already|even (?:with|after|when|though)|still|added|"
    r"exported|(?:does|did|do|is|has)(?:n.t| not)|no effect|to no avail|without (?:success|luck))\b"
)
_ADVICE = re.compile(
    r"(?i)\b(?:consider|try|please|should|could|can|may|might|would|recommend\w*|suggest\w*|"
    r"advi[sc]e\w*|you|needs? to|must|passing|hint|re-?run|to (?:set|use|pass|enable|avoid)|"
    r"use|run with|enable)\b"
)
_CURE = re.compile(
    r"(?i)\b(?:works?|worked|fix(?:es|ed)|solve[sd]?|resolve[sd]?|helps?|helped|gone|"
    r"disappear\w*|pass(?:es|ed)|fine|cure[sd]?|no longer|no more|runs|succe\w{2,6})\b"
)
_NOT = re.compile(r"(?i)\b(?:not|\w+n.t|never|neither|nor|no (?:effect|help|change)|still|same)\b")
_TAKEN_OFF = re.compile(
    r"(?i)(?:\b(?:without|unset\w*|remov\w+|drop\w*|no)\s{1,3}|env -u )\W{0,3}$"
)
_COMMENT = re.compile(r"\s{0,20}(?:#|//)\s?")


def is_set(text: str, before: str) -> bool:
    """Whether a line shows that a setting was in force: no advice, no comment, and no cure.

    Args:
        text: The line.
        before: What stands in it before the setting.
    """
    if _TAKEN_OFF.search(before):
        return False
    if _CURE.search(text) and not _NOT.search(text):
        return False
    if _TRIED.search(text):
        return True
    return not (_COMMENT.match(before) or _ADVICE.search(text))


_REQUIREMENT = re.compile(r"(?<![\w=./-])[A-Za-z][\w.-]{0,80}==[\w.+!]{1,40}(?<!\.)")
# With these a command installs another build of the release that is there.
_OTHER_BUILD = re.compile(
    r"--(?:force-reinstall|no-binary|no-build-isolation|index-url|extra-index-url|torch-backend"
    r"|find-links)"
)


def _releases(case: Case, text: str) -> tuple[Tried, ...]:
    """The releases that a remedy names, where all of them are the installed ones."""
    environment = case.facts.environment
    names = list(dict.fromkeys(_REQUIREMENT.findall(text)))
    if environment is None or not names or _OTHER_BUILD.search(text):
        return ()
    found = []
    for name in names:
        try:
            wanted = Requirement(name)
        except InvalidRequirement:
            return ()
        installed = environment.distribution(wanted.name)
        version = installed.version if installed is not None else None
        if version is None or not wanted.specifier.contains(str(version), prereleases=True):
            return ()
        found.append(Tried(None, name))
    return tuple(found)


# Where a remedy goes on with another thing to do.
_NEXT_PART = re.compile(r";\s|\.\s(?=[A-Z])|,\s(?=then\b|and (?:look|see|read)\b)")
_JOINING = re.compile(r"(?:then|else|or|and|instead),?\s")


def pass_over_tried(case: Case, finding: Finding) -> Finding:
    """The finding with a remedy that the text does not show to have been tried."""
    if finding.remedy is None:
        return finding
    return replace(finding, remedy=untried(case, finding.remedy))


def untried(case: Case, remedy: Remedy) -> Remedy:
    """A remedy without the parts that were tried, and with the word that they were.

    Where nothing else is left of it, what the tables name as the next thing takes its place.
    """
    tried = tried_of(case, _whole_text(remedy))
    if not tried:
        return remedy
    parts = _NEXT_PART.split(remedy.text)
    kept = [part for part in parts if not _is_done(case, part)]
    command = () if _is_done(case, " ".join(remedy.command)) else remedy.command
    # What is left only looks at what came of it.
    has_more = any(_asks(case, part) for part in kept) or (bool(kept) and bool(command))
    if not has_more and (following := _following(case, tried)) is not None:
        kept, command = [following.text, *kept], following.command
    told = say("already tried here: {what}", what=", ".join(one.words for one in tried))
    if not kept:
        return Remedy(told, command)
    left = "; ".join(map(_opened, kept))
    return Remedy(say("{left}; {told}", left=left, told=told), command)


def _whole_text(remedy: Remedy) -> str:
    return " ".join((remedy.text, *remedy.command))


def _asks(case: Case, text: str) -> bool:
    return any(True for _ in case.matrix.settings.asked_for(text))


def _is_done(case: Case, text: str) -> bool:
    """Whether a text asks for what was tried, and for nothing else that was not."""
    tried = tried_of(case, text)
    done = {one.row.id for one in tried if one.row is not None}
    asked = {row.id for row, _ in case.matrix.settings.asked_for(text)}
    return bool(tried) and asked <= done


def _opened(part: str) -> str:
    text = _JOINING.sub("", part, count=1) if _JOINING.match(part) else part
    return say("run again {rest}", rest=text) if text.startswith("with ") else text


def _following(case: Case, tried: Iterable[Tried]) -> Remedy | None:
    """The next thing to try, of the first setting that names one which was not tried."""
    for row in _next_rows(case, tried):
        following = Remedy(row.next, row.next_command)
        if not tried_of(case, _whole_text(following)):
            return following
    return None


def _next_rows(case: Case, tried: Iterable[Tried]) -> Iterator[SettingRow]:
    """The settings that were tried, and those that what comes next would change."""
    waiting = [one.row for one in tried if one.row is not None]
    seen: set[str] = set()
    while waiting:
        row = waiting.pop(0)
        if row.id in seen or not row.next:
            continue
        seen.add(row.id)
        yield row
        asked = case.matrix.settings.asked_for(row.next)
        waiting += [one for one, _ in asked]


def spoken_against(case: Case, experiment: Remedy) -> str:
    """What speaks against a hypothesis whose experiment was made: it ended all the same.

    Returns:
        Words for a sentence; empty where it was not made, or only tells more.
    """
    tried = tried_of(case, _whole_text(experiment))
    rows = [one.row for one in tried if one.row is not None and not one.row.observes]
    if not rows or not _is_done(case, _first_part(experiment)):
        return ""
    return say("it ended all the same with {what}", what=", ".join(one.words for one in tried))


def _first_part(experiment: Remedy) -> str:
    """The part of an experiment that changes something."""
    return " ".join((_NEXT_PART.split(experiment.text)[0], *experiment.command))


def add_against(against: str, more: str) -> str:
    """What speaks against a hypothesis, with one more thing."""
    return "; ".join(filter(None, (more, against)))
