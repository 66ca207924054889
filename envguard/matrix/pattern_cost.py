"""Attacks the patterns of tables with texts built from them, in a child with a limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import islice, product
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]  # undocumented: the tree's codes
from re import _parser as parser  # type: ignore[attr-defined]  # undocumented: the pattern's tree
from typing import TYPE_CHECKING, Any, NamedTuple

import envguard
from envguard.errors import MatrixError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from envguard.matrix.loader import Matrix


LIMIT_S_PER_MB = 3.0
# A log is searched in windows of this many characters; other texts in lines of any length.
WINDOW, LINE = 1400, 4096
# Texts that only an exponential pattern is slow on: tried first, so that it does not hang.
_SHORT = (8, 14, 20, 28, 40, 60, 90, 130)
_MIDDLE = 200
_MOST_UNITS, _MOST_BODIES, _MOST_PARTNERS, _MOST_LONG = 90, 12, 14, 10
_TRIES = 4
_REFERENCE_S = 0.0015  # of :func:`slowness`
# No line end: what is searched is a line.
_ALPHABET = "a0 .-_/:,A\t(\"'=[]{}<>|+*#%&;!?@$^~`\\Z9\u00e9\x00" + "".join(
    map(chr, range(0x42, 0x5A))
)
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    sre.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    sre.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}
_REPEATS = frozenset({sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT})
_ONE = frozenset({sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN})


@dataclass(frozen=True, slots=True)
class Cost:
    """The worst that was found.

    Args:
        seconds_per_mb: Of processor time, for a million characters of such texts.
        text: One such text.
    """

    seconds_per_mb: float
    text: str


class _Spelling:
    """Texts that pieces of one pattern match.

    Args:
        tree: The parsed pattern.
    """

    def __init__(self, tree: Any) -> None:
        self._ignores_case = bool(tree.state.flags & re.IGNORECASE)
        self._classes: list[tuple[Any, Any]] = []
        self.bodies: list[Sequence[Any]] = []
        self.most_branches = 1
        self._collect(tree)
        self.characters = self._tell_apart()

    def _collect(self, items: Iterable[Any]) -> None:
        for op, value in items:
            if op in _ONE and op is not sre.LITERAL:
                self._classes.append((op, value))
            elif op is sre.BRANCH:
                self.most_branches = max(self.most_branches, len(value[1]))
            if op in _REPEATS:
                self.bodies.append(value[2])
            for below in _below(op, value):
                self._collect(below)

    def _tell_apart(self) -> list[str]:
        """One character of each kind that the classes of the pattern tell apart."""
        kinds: dict[tuple[bool, ...], str] = {}
        for character in _ALPHABET:
            kind = tuple(self._admits(op, value, character) for op, value in self._classes)
            kinds.setdefault(kind, character)
        return list(kinds.values())

    def _admits(self, op: Any, value: Any, character: str) -> bool:
        forms = {character, character.lower(), character.upper()} if self._ignores_case else ()
        return any(_admits(op, value, form) for form in forms or (character,))

    def parts(self, items: Iterable[Any], variant: tuple[int, int, int]) -> list[str]:
        """A text for each piece of a sequence; groups are taken apart, letters kept together.

        Args:
            items: The sequence.
            variant: Which character of a class, which branch, and how often more than need be.
        """
        found: list[str] = []
        was_letter = False
        for op, value in items:
            if op is sre.LITERAL and was_letter:
                found[-1] += chr(value)
            elif op is sre.SUBPATTERN:
                found += self.parts(value[3], variant)
            elif op is sre.BRANCH:
                found += self.parts(value[1][variant[1] % len(value[1])], variant)
            else:
                found.append(self._spell(op, value, variant))
            was_letter = op is sre.LITERAL
        return found

    def _spell(self, op: Any, value: Any, variant: tuple[int, int, int]) -> str:
        if op is sre.LITERAL:
            return chr(value)
        if op in _ONE:
            fitting = [c for c in self.characters if self._admits(op, value, c)]
            return fitting[variant[0] % len(fitting)] if fitting else _member(op, value)
        if op in _REPEATS:
            least, most, body = value
            count = int(min(least + variant[2], most, 400))
            return "".join(self.parts(body, variant)) * count
        if op is sre.ATOMIC_GROUP:
            return "".join(self.parts(value, variant))
        return ""


def _below(op: Any, value: Any) -> Iterator[Any]:
    """The sequences inside a node."""
    if op in _REPEATS:
        yield value[2]
    elif op is sre.SUBPATTERN:
        yield value[3]
    elif op is sre.BRANCH:
        yield from value[1]
    elif op is sre.ATOMIC_GROUP:
        yield value
    elif op in {sre.ASSERT, sre.ASSERT_NOT}:
        yield value[1]
    elif op is sre.GROUPREF_EXISTS:
        yield from (item for item in value[1:] if item is not None)


def _admits(op: Any, value: Any, character: str) -> bool:
    code = ord(character)
    if op is sre.LITERAL:
        return bool(value == code)
    if op is sre.NOT_LITERAL:
        return bool(value != code)
    if op is sre.RANGE:
        return bool(value[0] <= code <= value[1])
    if op is sre.CATEGORY:
        return _CATEGORIES[value](character)
    if op is sre.IN:
        is_negated = value[0][0] is sre.NEGATE
        return is_negated != any(
            _admits(kind, inner, character) for kind, inner in value[is_negated:]
        )
    return True  # any character


def _member(op: Any, value: Any) -> str:
    """A character of a class that holds none of the usual ones."""
    for item, content in value if op is sre.IN else ():
        if item is sre.LITERAL:
            return chr(content)
        if item is sre.RANGE:
            return chr(content[0])
    return "a"


def _units(spelling: _Spelling, tree: Any) -> list[str]:
    """What texts are made of: characters, pieces, and beginnings of the pattern up to a piece."""
    kept: dict[str, None] = dict.fromkeys(spelling.characters)
    ranks = range(min(4, len(spelling.characters)))
    for variant in product((1, 0, 3), ranks, range(min(8, spelling.most_branches))):
        more, rank, branch = variant
        for items in (tree, *spelling.bodies):
            parts = spelling.parts(items, (rank, branch, more))
            for end in range(len(parts), 0, -1):
                kept["".join(parts[:end])] = None
            for begin in range(len(parts)):
                kept["".join(parts[begin : begin + 2])] = None
                kept[parts[begin]] = None
    return [unit for unit in kept if unit][: _MOST_UNITS * 4]


def _heads(spelling: _Spelling, tree: Any) -> Iterator[tuple[str, ...]]:
    """A beginning of the pattern once, and then over and over what it repeats."""
    bodies: dict[str, None] = {}
    for rank, more, branch in product(range(2), (1, 0), range(min(3, spelling.most_branches))):
        for body in spelling.bodies:
            bodies["".join(spelling.parts(body, (rank, branch, more)))] = None
    repeated = list(islice(filter(None, bodies), _MOST_BODIES))
    prefixes: dict[str, None] = {}
    for more, branch in product((1, 0), range(min(8, spelling.most_branches))):
        parts = spelling.parts(tree, (0, branch, more))
        prefixes |= {"".join(parts[:end]): None for end in range(1, len(parts) + 1)}
    for prefix in islice(filter(None, prefixes), _MOST_UNITS):
        yield from (("head", prefix, body) for body in repeated)


def measure(
    pattern: re.Pattern[Any],
    literals: Sequence[str] = (),
    *,
    use: str = "search",
    limit: float = LIMIT_S_PER_MB,
    lengths: Sequence[int] = (WINDOW, LINE),
) -> Cost:
    """Look for the text that makes a pattern work longest.

    What is exponential shows on the shortest texts, before it would hang; still, tables of others
    are measured in a child with a time limit (:mod:`envguard.matrix.pattern_trial`).

    Args:
        pattern: Of texts or bytes.
        literals: A text is searched only when it holds one of them; none: always.
        use: The method by which the pattern is used.
        limit: Seconds for a million characters; the search ends with the first text above it.
        lengths: Of the texts that count, in characters.

    Returns:
        The worst cost found.
    """
    return _Attack(pattern, literals, use, limit).run(lengths)


def slowness() -> float:
    """How much slower than the machine of the limit this one is; 1 on a faster one.

    A pattern is not refused because the machine is slow, or busy.
    """
    pattern, text = re.compile(r"(?:ab?)*c"), "aab" * 4000
    return max(1.0, min(_seconds(pattern.search, text[:600]) for _ in range(9)) / _REFERENCE_S)


class _Attack:
    def __init__(
        self, pattern: re.Pattern[Any], literals: Sequence[str], use: str, limit: float
    ) -> None:
        self._limit = limit
        self._call = getattr(pattern, use)
        self._is_bytes = isinstance(pattern.pattern, bytes)
        self._literals = literals
        tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
        self._spelling = _Spelling(tree)
        self._units = _units(self._spelling, tree)
        self._heads = list(dict.fromkeys(_heads(self._spelling, tree)))
        self.worst = Cost(0.0, "")
        self._seen: dict[tuple[str, ...], float] = {}

    def run(self, lengths: Sequence[int]) -> Cost:
        for build in (self._singles, lambda: self._heads, self._pairs, self._triples):
            recipes = build()
            for recipe in recipes:
                for length in (*_SHORT, _MIDDLE):
                    self._seen[recipe] = self._try(recipe, length)
                    if self.worst.seconds_per_mb > self._limit:
                        return self.worst
            for length in lengths:
                for recipe in self._worst_of(_MOST_LONG):
                    self._try(recipe, length)
                    if self.worst.seconds_per_mb > self._limit:
                        return self.worst
        return self.worst

    def _worst_of(self, count: int) -> list[tuple[str, ...]]:
        return sorted(self._seen, key=lambda recipe: -self._seen[recipe])[:count]

    def _singles(self) -> list[tuple[str, ...]]:
        return [("each", unit) for unit in self._units]

    def _pairs(self) -> list[tuple[str, ...]]:
        """Two kinds of pieces: in turn, and one kind after the other."""
        worst = [recipe[-1] for recipe in self._worst_of(_MOST_PARTNERS)]
        partners = list(dict.fromkeys([*worst, *self._spelling.characters[:10]]))
        return [
            (way, a, b)
            for a, b in product(partners, partners)
            if a != b
            for way in ("each", "halves", "head", "tail")
        ]

    def _triples(self) -> list[tuple[str, ...]]:
        """The worst pairs with a third piece."""
        pairs = [recipe for recipe in self._worst_of(8) if len(recipe) == 3]
        third = [recipe[1] for recipe in self._worst_of(8)] + self._spelling.characters[:8]
        return [(*pair, unit) for pair in pairs for unit in dict.fromkeys(third)]

    def _try(self, recipe: tuple[str, ...], length: int) -> float:
        """Seconds per million characters; measured again before it counts as too much."""
        text = self._write(recipe, length)
        subject: Any = text.encode("utf-8", "replace") if self._is_bytes else text
        rate = _seconds(self._call, subject) * 1e6 / len(text)
        least = self._limit if length < _MIDDLE else self.worst.seconds_per_mb
        for _ in range(_TRIES):
            if rate <= least:
                return rate
            rate = min(rate, _seconds(self._call, subject) * 1e6 / len(text))
        self.worst = Cost(rate, text)
        return rate

    def _write(self, recipe: tuple[str, ...], length: int) -> str:
        way, units = recipe[0], recipe[1:]
        if way == "each":
            text = _filled("".join(units), length)
        elif way == "head":
            text = units[0] + _filled("".join(units[1:]), length)
        elif way == "tail":
            text = _filled("".join(units[1:]), max(1, length - len(units[0]))) + units[0]
        else:
            share = max(1, length // len(units))
            text = "".join(_filled(unit, share) for unit in units)
        if self._literals and not any(literal in text for literal in self._literals):
            text = self._literals[0] + text
        return text


def _filled(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def _seconds(call: Callable[[Any], object], text: Any) -> float:
    begin = time.thread_time()
    call(text)
    return time.thread_time() - begin


TOTAL_S = 300.0  # all patterns of the shipped tables take 8 s of an unhurried processor
_EACH_S = 10.0
_SHOWN = 60


class TablePattern(NamedTuple):
    """A pattern of a table.

    Args:
        place: Table, row and field, for people.
        regex: As written.
        literals: A line is searched only when it holds one of them.
    """

    place: str
    regex: str
    literals: tuple[str, ...]


def patterns_of(matrix: Matrix) -> Iterator[TablePattern]:
    """Every pattern of the tables that runs over texts of others.

    Raises:
        MatrixError: The table cannot be read.
    """
    for place, row in matrix.causes.signature_places:
        yield TablePattern(f"{place}.regex ({row.id})", row.regex, row.literals)
    for index, phase in enumerate(matrix.signals.phases):
        place = f"evidence.toml: phase[{index}].regex ({phase.id})"
        yield TablePattern(place, phase.regex, phase.literals)
    for index, setting in enumerate(matrix.settings.settings):
        place = f"settings.toml: setting[{index}].names ({setting.id})"
        yield TablePattern(place, setting.regex, setting.literals)


def try_tables(matrix: Matrix, total_s: float = TOTAL_S) -> tuple[str, ...]:
    """Attack the patterns in which tables differ from the shipped ones.

    Args:
        matrix: The tables of somebody else.
        total_s: After this many seconds the rest counts as not tried.

    Returns:
        One line a pattern that takes too long, naming table, row and pattern; empty when none
        does.

    Raises:
        MatrixError: The patterns cannot be read.
    """
    from envguard.matrix.loader import Matrix as Tables

    shipped = {pattern[1:] for pattern in patterns_of(Tables.load())}
    strange = tuple(item for item in patterns_of(matrix) if item[1:] not in shipped)
    return try_patterns(strange, total_s)


def try_patterns(patterns: tuple[TablePattern, ...], total_s: float = TOTAL_S) -> tuple[str, ...]:
    """Attack patterns in a child.

    Args:
        patterns: What to attack.
        total_s: After this many seconds the rest counts as not tried.

    Returns:
        As :func:`try_tables`.

    Raises:
        MatrixError: The child could not be run.
    """
    if not patterns:
        return ()
    costs = _costs(patterns, total_s)
    problems = [
        f"{item.place}: {_short(item.regex)} {problem}"
        for item, cost in zip(patterns, costs, strict=False)
        if (problem := _problem(cost))
    ]
    if len(costs) < len(patterns):
        item = patterns[len(costs)]
        problems.append(f"{item.place}: {_short(item.regex)} did not come to an end in a trial")
    return tuple(problems)


def _problem(cost: tuple[float, float, str] | str) -> str:
    if isinstance(cost, str):
        return f"is not a pattern: {cost}"
    seconds, limit, text = cost
    if seconds <= limit:
        return ""
    return (
        f"takes {seconds:.0f} s for a megabyte of a text such as {_short(text)};"
        f" the limit is {limit:g} s"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _costs(
    patterns: tuple[TablePattern, ...], total_s: float
) -> list[tuple[float, float, str] | str]:
    """Cost, limit and text of each pattern, or why it is none, up to one that did not end."""
    root = str(Path(envguard.__file__).resolve().parent.parent)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps([(item.regex, item.literals) for item in patterns]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": root},
            timeout=total_s,
            check=False,
        )
        said = done.stdout
    except subprocess.TimeoutExpired as err:
        said = err.stdout or b""
    except OSError as err:
        raise MatrixError(f"the patterns cannot be tried: {err}") from err
    whole = said.decode("utf-8", "replace").splitlines(keepends=True)
    told = [json.loads(line) for line in whole if line.endswith("\n")]
    return [cost if isinstance(cost, str) else tuple(cost) for cost in told]


def main() -> None:
    """The child: one line of JSON for each pattern; one that does not end ends the child."""
    limit = LIMIT_S_PER_MB * slowness()
    for regex, literals in json.load(sys.stdin):
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_VIRTUAL, _EACH_S)  # its signal ends the process
        print(json.dumps(_try(regex, literals, limit)), flush=True)  # noqa: T201


def _try(regex: str, literals: Sequence[str], limit: float) -> tuple[float, float, str] | str:
    try:
        pattern = re.compile(regex)
    except (re.error, OverflowError, RecursionError) as err:
        return str(err)
    cost = measure(pattern, literals, limit=limit)
    return cost.seconds_per_mb, limit, cost.text[:200]


if __name__ == "__main__":
    main()
