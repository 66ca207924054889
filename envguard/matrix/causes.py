"""Causes as rows: meaning, sentences, the signatures that show it, its hypotheses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from string import Formatter
from typing import TYPE_CHECKING, TypeVar

from packaging.specifiers import SpecifierSet

from envguard.errors import MatrixError
from envguard.facts.codec import shown
from envguard.facts.findings import Status
from envguard.matrix.packages import read_specifiers
from envguard.matrix.reading import Row
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from envguard.matrix.order import CodeFamily, OrderTable
    from envguard.matrix.reading import Document

T = TypeVar("T")

# The code of a message that names none: whoever adds a cause need not add a code.
GENERAL_CODE = "CRS162"
# Hypotheses without a rank stand behind what words tell and before what a signal leaves open.
MIDDLE_RANK = 500
# What a program can have been doing when it ended: the phases of a crash, and that none is known.
PHASES = ("import", "init", "load", "train", "save", "resume", "shutdown", "unknown")


class Scope(Enum):
    """Whose fault a cause is."""

    NODE = "node"
    ENVIRONMENT = "environment"
    JOB = "job"


class Where(Enum):
    """In which texts a row that shows a cause holds."""

    ANYWHERE = "anywhere"
    LOG = "log"
    ERROR = "error"


class Proof(Enum):
    """How far a signature alone proves what it means."""

    CERTAIN = "certain"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Message:
    """Sentences that a finding of a cause says; ``{name}`` takes what a signature named.

    Args:
        id: Its name: the cause's slug, or the slug, a dot and a word where the cause has several.
        cause: The slug of its cause.
        code: The finding code that it prints; the general one where the row names none.
        title: One line.
        detail: What it means.
        remedy: What to do first; empty for nothing.
        command: A command that does it; empty where none does.
    """

    id: str
    cause: str
    code: str
    title: str
    detail: str = ""
    remedy: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownBy:
    """Signatures that establish a cause by themselves.

    Args:
        says: The message of the finding.
        any: Signatures of which one has to be there.
        all: Signatures of which one has to be there as well; empty needs none.
        unless: Signatures that forbid it.
        status: How the finding counts.
        survivable: A program can go on after them; where it did, they are a warning.
        where: Anywhere; in a ``log`` only, of a program of which nothing else is known; or in the
            words of one ``error`` only, of a program that is known: a stage of the smoke test.
    """

    says: str
    any: tuple[str, ...]
    all: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    status: Status = Status.FAIL
    survivable: bool = False
    where: Where = Where.ANYWHERE

    def holds_in(self, where: Where) -> bool:
        """Whether it holds in a text of this kind."""
        return self.where in {Where.ANYWHERE, where}

    def is_met(self, found: Collection[str]) -> bool:
        """Whether these signatures, all that a text holds, establish the cause."""
        if not any(name in found for name in self.any):
            return False
        if any(name in found for name in self.unless):
            return False
        return not self.all or any(name in found for name in self.all)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cause that may be it: what speaks for and against, and the one experiment that decides.

    A row that states signatures or signals is raised where all that it states holds; one that
    states none is raised by a rule, which knows what no row can say.

    Args:
        id: Its name, by which a rule asks for it.
        says: The message of the cause.
        supports: What speaks for it.
        against: What speaks against it; empty for nothing.
        experiment: The one thing to change, and what would decide.
        command: The experiment as a command; empty where it is none.
        lines: Signatures whose lines are shown.
        any: Signatures of which one has to be there; empty needs none.
        all: Signatures of which one has to be there as well; empty needs none.
        unless: Signatures that forbid it.
        signal: Names of the signals of which it has to have died; empty needs none.
        phase: What it has to have been doing, ``unknown`` among them; empty needs nothing.
        survivable: A program can go on after these words; where it did, nothing is raised.
        rank: Its place among the hypotheses of a crash, the smallest first: from 100 on what
            hangs and what is gone, from 200 on what words tell, from 600 on what a signal leaves
            open, from 900 on what nothing explains.
    """

    id: str
    says: str
    supports: str
    against: str
    experiment: str
    command: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    signal: tuple[str, ...] = ()
    phase: tuple[str, ...] = ()
    survivable: bool = False
    rank: int = 0

    @property
    def is_told(self) -> bool:
        """Whether the row itself says when it is raised."""
        return bool(self.any or self.signal)


@dataclass(frozen=True, slots=True)
class Cause:
    """What a cause is, and how it behaves beside others.

    Args:
        slug: Its name; never changes meaning.
        text: One sentence.
        scope: Whose fault it is.
        says: Its messages; none where checks word their own.
        shown: What establishes it in a text.
        hypotheses: As which it may stand.
        explains: Signatures that a failing check of this cause explains.
        same_matter: Causes that give way when a check establishes this one.
        cured_by_build: Another torch build cures it.
        crashes_natively: It can end a process in native code while it starts, without a word.
        stops_every_run: Where a check finds it of torch itself, no run can use the GPU.
        decided_by: Which evidence decides for it; empty where none is named.
    """

    slug: str
    text: str
    scope: Scope
    says: tuple[Message, ...]
    shown: tuple[ShownBy, ...]
    hypotheses: tuple[Hypothesis, ...]
    explains: tuple[str, ...]
    same_matter: frozenset[str]
    cured_by_build: bool
    crashes_natively: bool
    stops_every_run: bool
    decided_by: str
    provenance: Provenance


@dataclass(frozen=True)
class Signature:
    """Words in a text that mean something.

    Args:
        id: Its name.
        regex: The pattern, searched in lines that hold one of the literals.
        literals: Texts of which a matching line holds at least one.
        means: What it means.
        proves: How far it alone proves what it means.
        sample: A text that it matches.
    """

    id: str
    regex: str
    literals: tuple[str, ...]
    means: str
    proves: Proof
    sample: str
    provenance: Provenance

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; made when a line holds a literal, which most never do.

        Raises:
            MatrixError: The row's text is no pattern.
        """
        return compile_pattern(self.id, self.regex)


def compile_pattern(name: str, regex: str) -> re.Pattern[str]:
    """The pattern of a row.

    Args:
        name: The row's name, for the message.
        regex: The row's text.

    Raises:
        MatrixError: The text is no pattern.
    """
    try:
        return re.compile(regex)
    except (re.error, OverflowError, RecursionError) as err:
        raise MatrixError(f"signature {name}: {regex!r} is not a pattern: {err}") from err


@dataclass(frozen=True, slots=True)
class CodeRow:
    """What a finding code means.

    Args:
        code: ``FAM###``; never reused.
        causes: Slugs that findings with this code carry: those whose messages print it, and those
            that checks give it.
        title: A few words; where the row has none, those of the first message that prints it.
        meaning: What it means for the program; else what that message says.
        found: From which facts and tables it is told; else the words by which it is.
        fix: What to do, the first step first; else that message's; empty for nothing to do.
    """

    code: str
    causes: tuple[str, ...]
    title: str
    meaning: str
    found: str
    fix: tuple[str, ...]
    provenance: Provenance

    @property
    def family(self) -> str:
        """The letters that it begins with."""
        return self.code.rstrip("0123456789")

    def distance(self) -> tuple[int, bool, str]:
        """How little it speaks of one cause in particular; checks come before observations."""
        return len(self.causes), self.family in {"CRS", "SMK"}, self.code


@dataclass(frozen=True, slots=True)
class NativeBug:
    """A bug in a release of torch or of a vendor's library that ends processes by a signal.

    Args:
        id: Its name.
        signal: Number of the signal.
        signature: Words of the log that show it; empty when the signal alone does.
        gpus: Words of a GPU's name that bound it; empty for all GPUs.
        when: Bounds of versions, of distributions or of ``torch_cuda``.
        cause: ``torch-release-bug`` or ``vendor-lib-bug``.
        title: One line.
        text: What it is.
        fix: What cures it.
        command: The cure as a command; empty when it is none.
    """

    id: str
    signal: int
    signature: str
    gpus: tuple[str, ...]
    when: Mapping[str, SpecifierSet]
    cause: str
    title: str
    text: str
    fix: str
    command: tuple[str, ...]
    provenance: Provenance


class CauseTable:
    """The rows of all tables below ``causes/``.

    Args:
        documents: The decoded files, in the order of their names.
        order: The order of causes and the families of codes.

    Raises:
        MatrixError: A row misses a field, is stated twice, or names a row that is none.
    """

    def __init__(self, documents: tuple[Document, ...], order: OrderTable) -> None:
        self.order = order
        for document in documents:
            _refuse_strange_arrays(document)
        symptoms = _read_symptoms(_rows(documents, "symptom"))
        found = [(row, _read_cause(row, symptoms)) for row in _rows(documents, "cause")]
        found.sort(key=lambda pair: order.rank(pair[1].slug))
        self.causes = tuple(cause for _, cause in found)
        self.cause_places = tuple((row.place, cause) for row, cause in found)
        self._causes = _unique("slug", [(row, cause.slug, cause) for row, cause in found])
        self._messages = _unique("says", [(r, m.id, m) for r, c in found for m in c.says])
        self._hypotheses = _unique(
            "hypothesis", [(r, h.id, h) for r, c in found for h in c.hypotheses]
        )
        signatures = [(row, _read_signature(row)) for row in _rows(documents, "signature")]
        self.signatures = tuple(signature for _, signature in signatures)
        self.signature_places = tuple((row.place, signature) for row, signature in signatures)
        self._signatures = _unique("id", [(row, s.id, s) for row, s in signatures])
        self.native_bugs = tuple(_read_bug(row) for row in _rows(documents, "native_bug"))
        self._documents = documents
        self._prove(found)

    @cached_property
    def codes(self) -> tuple[CodeRow, ...]:
        """All codes by name; read when one is asked for, which reports never do.

        Raises:
            MatrixError: A row misses a field, is stated twice, or names a cause that is none.
        """
        return tuple(self._codes[code] for code in sorted(self._codes))

    @cached_property
    def _codes(self) -> dict[str, CodeRow]:
        printed: dict[str, list[Message]] = {}
        for message in sorted(self._messages.values(), key=lambda message: message.cause):
            printed.setdefault(message.code, []).append(message)
        rows = [(row, _read_name(row)) for row in _rows(self._documents, "code")]
        found = [(row, self._read_code(row, printed.get(code, []))) for row, code in rows]
        for row, code in found:
            if not any(family.prefix == code.family for family in self.families):
                raise row.error("code", f"{code.code} is of no family")
            _refuse(row, "causes", code.causes, self._causes, "cause")
        return _unique("code", [(row, code.code, code) for row, code in found])

    def _read_code(self, row: Row, said: list[Message]) -> CodeRow:
        """A code, with what its row leaves out taken from the messages that print it."""
        code = row.text("code")
        listed = row.words("causes") if row.has("causes") else ()
        derived = [message.cause for message in said if message.cause not in listed]
        if not said and code != GENERAL_CODE:
            for field in ("causes", "title", "meaning", "found"):
                row.text(field)  # nothing else says it
        first = said[0] if said else Message(code, "", code, code)
        return CodeRow(
            code=code,
            causes=(*listed, *dict.fromkeys(derived)),
            title=_text(row, "title", plain(first.title)),
            meaning=_text(row, "meaning", plain(first.detail)),
            found=_text(row, "found") or self._told_by(first.cause),
            fix=_texts(row, "fix") if row.has("fix") or row.has("meaning") else _steps(said),
            provenance=row.provenance(),
        )

    def _told_by(self, slug: str) -> str:
        samples = [repr(text) for text in self.samples(slug)]
        return f"In the words of a log, such as {samples[0]}." if samples else "From a log."

    def samples(self, slug: str) -> tuple[str, ...]:
        """Texts by which a cause is told: that show it, let it be suspected, or come from it."""
        cause = self._causes.get(slug)
        if cause is None:
            return ()
        names = [name for row in cause.shown for name in row.any]
        names += [name for row in cause.hypotheses for name in row.lines]
        known = (self._signatures.get(name) for name in dict.fromkeys([*names, *cause.explains]))
        return tuple(row.sample.strip() for row in known if row is not None)

    def fix(self, slug: str) -> tuple[str, ...]:
        """What to do about a cause: what the code says that speaks of it most, else its messages.

        Checks come before what was observed.
        """
        cause = self._causes.get(slug)
        codes = [row for row in self.carrying(slug) if row.code != GENERAL_CODE]
        if codes:
            return min(codes, key=CodeRow.distance).fix
        return _steps(cause.says) if cause is not None else ()

    @property
    def families(self) -> tuple[CodeFamily, ...]:
        """The families of codes."""
        return self.order.families

    def cause(self, slug: str) -> Cause | None:
        """The row of a cause; None when there is none."""
        return self._causes.get(slug)

    def has_message(self, name: str) -> bool:
        """Whether there is a message of this name: some causes are found by checks alone."""
        return name in self._messages

    def message(self, name: str) -> Message:
        """The message of this name.

        Raises:
            KeyError: There is none.
        """
        return self._messages[name]

    def hypothesis(self, name: str) -> Hypothesis:
        """The hypothesis of this name.

        Raises:
            KeyError: There is none.
        """
        return self._hypotheses[name]

    def signature(self, name: str) -> Signature:
        """The signature of this name.

        Raises:
            KeyError: There is none.
        """
        return self._signatures[name]

    def code(self, text: str) -> CodeRow | None:
        """The row of a code, in capitals; None when there is none."""
        return self._codes.get(text)

    def carrying(self, slug: str) -> tuple[CodeRow, ...]:
        """The codes that carry a cause."""
        return tuple(row for row in self.codes if slug in row.causes)

    def family(self, prefix: str) -> tuple[CodeRow, ...]:
        """The codes of a family."""
        return tuple(row for row in self.codes if row.family == prefix)

    @cached_property
    def cured_by_build(self) -> frozenset[str]:
        """The causes that another torch build cures."""
        return frozenset(cause.slug for cause in self.causes if cause.cured_by_build)

    def named_like(self, text: str) -> tuple[str, ...]:
        """The codes and causes that begin with a text, whose case does not matter."""
        return tuple(name for name in self._names() if name.lower().startswith(text.lower()))

    def suggest(self, text: str) -> tuple[str, ...]:
        """The codes and causes that look like a mistyped one, the most similar first."""
        from difflib import get_close_matches  # only for a mistyped name

        names = {name.lower(): name for name in self._names()}
        return tuple(names[found] for found in get_close_matches(text.lower(), names, 4, 0.5))

    def _names(self) -> Iterator[str]:
        yield from (row.code for row in self.codes)
        yield from sorted(self._causes)

    def _prove(self, found: list[tuple[Row, Cause]]) -> None:
        """Every name in a row is the name of a row."""
        documents = self._documents
        known = {row.text("code"): row for row in _rows(documents, "code")}
        for row, cause in found:
            for field, names in _signatures_of(cause):
                _refuse(row, field, names, self._signatures, "signature")
            said = [(entry.says, "shown") for entry in cause.shown]
            said += [(entry.says, "hypothesis") for entry in cause.hypotheses]
            for name, field in said:
                _refuse(row, f"{field}.says", [name], self._messages, "message")
            codes = [message.code for message in cause.says]
            _refuse(row, "says.code", codes, known, "code")
            _refuse(row, "same_matter", cause.same_matter, self._causes, "cause")
        for row in _rows(documents, "symptom"):
            _refuse(row, "signatures", row.texts("signatures"), self._signatures, "signature")
            if row.text("id") in self._signatures:
                raise row.error("id", f"{row.text('id')!r} is a signature")
        for row in _rows(documents, "native_bug"):
            named = [row.text("signature")] if row.has("signature") else []
            _refuse(row, "signature", named, self._signatures, "signature")
            _refuse(row, "cause", [row.text("cause")], self._causes, "cause")


def _signatures_of(cause: Cause) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "explains", cause.explains
    for entry in cause.shown:
        yield "shown", (*entry.any, *entry.all, *entry.unless)
    for hypothesis in cause.hypotheses:
        yield (
            "hypothesis",
            (*hypothesis.lines, *hypothesis.any, *hypothesis.all, *hypothesis.unless),
        )


def _refuse(
    row: Row, field: str, names: Iterable[str], known: Mapping[str, object], kind: str
) -> None:
    for name in names:
        if name not in known:
            raise row.error(field, f"there is no {kind} {name!r}")


def _rows(documents: Iterable[Document], array: str) -> Iterator[Row]:
    for document in documents:
        if array in document.data:
            yield from document.rows(array)


def _unique(field: str, entries: Iterable[tuple[Row, str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    places: dict[str, Row] = {}
    for row, name, value in entries:
        if name in found:
            raise row.error(field, f"{name!r} is stated twice, in {places[name].place} too")
        found[name], places[name] = value, row
    return found


def _below(row: Row, array: str) -> Iterator[Row]:
    """The rows of an array inside a row."""
    items = row.data.get(array, [])
    if not isinstance(items, list):
        raise row.error(array, "expected rows")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise row.error(f"{array}[{index}]", "expected a row of fields")
        yield Row(row.document, f"{row.array}[{row.index}].{array}", index, item)


_SOURCED = "source confidence certainty note file"
_FIELDS = {
    "cause": "slug scope text says shown hypothesis explains same_matter cured_by_build"
    f" crashes_natively stops_every_run decided_by {_SOURCED}",
    "says": "id code title detail remedy command",
    "shown": "says any all unless status survivable where",
    "hypothesis": "id says rank any all unless signal phase survivable lines supports against"
    " experiment command",
    "signature": f"id regex literals means proves sample {_SOURCED}",
    "symptom": f"id signatures {_SOURCED}",
    "code": f"code causes title meaning found fix {_SOURCED}",
    "native_bug": f"id signal signature gpus when cause title text fix command {_SOURCED}",
}
_ARRAYS = ("cause", "code", "signature", "symptom", "native_bug", "sources")
_SLUG = r"[a-z0-9]+(?:-[a-z0-9]+)*"
_CODE = r"[A-Z]{3}[0-9]{3}"


def _refuse_strangers(row: Row, kind: str) -> None:
    """A field that no row of the kind has is a slip of the pen, not something to pass over."""
    known = _FIELDS[kind].split()
    for field in row.data:
        if field not in known:
            raise row.error(field, f"is none of {', '.join(known)}")


def _refuse_strange_arrays(document: Document) -> None:
    """A table of causes holds nothing but rows that are read, and their sources."""
    if document.name.startswith("causes/"):
        for array in document.data:
            if array not in _ARRAYS:
                raise MatrixError(f"{document.name}: {array}: is none of {', '.join(_ARRAYS)}")


def _read_symptoms(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    found: list[tuple[Row, str, tuple[str, ...]]] = []
    for row in rows:
        _refuse_strangers(row, "symptom")
        found.append((row, row.text("id"), _some(row, "signatures")))
    return _unique("id", found)


def _read_name(row: Row) -> str:
    """The name of a code."""
    _refuse_strangers(row, "code")
    return _name(row, "code", _CODE, "CRS043")


def _text(row: Row, field: str, default: str = "") -> str:
    return row.text(field) if row.has(field) else default


def _texts(row: Row, field: str) -> tuple[str, ...]:
    return row.texts(field) if row.has(field) else ()


def _template(row: Row, field: str) -> str:
    """A text in which ``{name}`` stands for what a signature or a rule names; empty without it."""
    text = _text(row, field)
    if "{" in text or "}" in text:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as err:
            raise row.error(field, f"{text[:40]!r} is no template: {err}") from err
        for _, name, form, conversion in parts:
            if name is not None and (not name.isidentifier() or form or conversion):
                problem = "expected a name alone in braces, and {{ and }} for braces"
                raise row.error(field, f"{text[:40]!r} is no template: {problem}")
    return text


def _some(row: Row, field: str) -> tuple[str, ...]:
    """A list of texts of which none is empty, nor the list."""
    texts = row.texts(field)
    if not all(texts) or not texts:
        raise row.error(field, "expected at least one text, and none that is empty")
    return texts


def _name(row: Row, field: str, form: str, example: str) -> str:
    """A text of a form: people type it, and it stands in addresses and on terminals."""
    text = row.text(field)
    if re.fullmatch(form, text) is None:
        raise row.error(field, f"{shown(text)} is none such as {example}")
    return text


def _phases(row: Row) -> tuple[str, ...]:
    phases = _texts(row, "phase")
    for index, name in enumerate(phases):
        if name not in PHASES:
            raise row.error(f"phase[{index}]", f"{name!r} is none of {', '.join(PHASES)}")
    return phases


def _steps(said: Iterable[Message]) -> tuple[str, ...]:
    """What messages say to do first, as sentences, each once."""
    texts = dict.fromkeys(plain(message.remedy) for message in said if message.remedy)
    return tuple(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in texts)


def plain(text: str) -> str:
    """A template for a person who has no log at hand: ``{node}`` becomes ``NODE``."""
    return re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), text)


def _names(row: Row, field: str, symptoms: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The signatures that a field names; a symptom stands for all of its own."""
    return tuple(one for name in _texts(row, field) for one in symptoms.get(name, (name,)))


def _read_cause(row: Row, symptoms: Mapping[str, tuple[str, ...]]) -> Cause:
    _refuse_strangers(row, "cause")
    slug = _name(row, "slug", _SLUG, "host-oom-save")
    return Cause(
        slug=slug,
        text=row.text("text"),
        scope=row.value("scope", Scope),
        says=tuple(_read_message(below, slug) for below in _below(row, "says")),
        shown=tuple(_read_shown(below, slug, symptoms) for below in _below(row, "shown")),
        hypotheses=tuple(
            _read_hypothesis(below, slug, symptoms) for below in _below(row, "hypothesis")
        ),
        explains=_names(row, "explains", symptoms),
        same_matter=frozenset(_texts(row, "same_matter")),
        cured_by_build=row.flag("cured_by_build", default=False),
        crashes_natively=row.flag("crashes_natively", default=False),
        stops_every_run=row.flag("stops_every_run", default=False),
        decided_by=_text(row, "decided_by"),
        provenance=row.provenance(),
    )


def _read_message(row: Row, slug: str) -> Message:
    _refuse_strangers(row, "says")
    row.text("title")  # no finding goes without one
    name = _text(row, "id", slug)
    if name != slug and not name.startswith(f"{slug}."):
        raise row.error("id", f"expected {slug!r}, or {slug!r}, a dot and a word")
    return Message(
        id=name,
        cause=slug,
        code=_text(row, "code", GENERAL_CODE),
        title=_template(row, "title"),
        detail=_template(row, "detail"),
        remedy=_template(row, "remedy"),
        command=_texts(row, "command"),
    )


def _read_shown(row: Row, slug: str, symptoms: Mapping[str, tuple[str, ...]]) -> ShownBy:
    _refuse_strangers(row, "shown")
    _some(row, "any")  # nothing is shown by nothing
    return ShownBy(
        says=_text(row, "says", slug),
        any=_names(row, "any", symptoms),
        all=_names(row, "all", symptoms),
        unless=_names(row, "unless", symptoms),
        status=row.value("status", Status) if row.has("status") else Status.FAIL,
        survivable=row.flag("survivable", default=False),
        where=row.value("where", Where) if row.has("where") else Where.ANYWHERE,
    )


def _read_hypothesis(row: Row, slug: str, symptoms: Mapping[str, tuple[str, ...]]) -> Hypothesis:
    _refuse_strangers(row, "hypothesis")
    row.text("experiment")  # a hypothesis that nothing can decide is a guess
    told = _names(row, "any", symptoms)
    return Hypothesis(
        id=_text(row, "id", slug),
        says=_text(row, "says", slug),
        supports=_template(row, "supports"),
        against=_template(row, "against"),
        experiment=_template(row, "experiment"),
        command=_texts(row, "command"),
        lines=_names(row, "lines", symptoms) if row.has("lines") else told,
        any=told,
        all=_names(row, "all", symptoms),
        unless=_names(row, "unless", symptoms),
        signal=_texts(row, "signal"),
        phase=_phases(row),
        survivable=row.flag("survivable", default=False),
        rank=row.integer("rank") if row.has("rank") else MIDDLE_RANK,
    )


def _read_signature(row: Row) -> Signature:
    _refuse_strangers(row, "signature")
    return Signature(
        id=row.text("id"),
        regex=row.text("regex"),
        literals=_some(row, "literals"),
        means=_text(row, "means"),
        proves=row.value("proves", Proof) if row.has("proves") else Proof.HIGH,
        sample=row.text("sample"),
        provenance=row.provenance(),
    )


def _read_bug(row: Row) -> NativeBug:
    _refuse_strangers(row, "native_bug")
    return NativeBug(
        row.text("id"),
        row.integer("signal"),
        _text(row, "signature"),
        _texts(row, "gpus"),
        read_specifiers(row, "when"),
        row.text("cause"),
        row.text("title"),
        row.text("text"),
        row.text("fix"),
        _texts(row, "command"),
        row.provenance(),
    )
