"""Takes off a line what those who passed it on put round it: launchers, installers, CI, builders.

An error inside ``pip``'s indented block, in a box of ``uv`` or behind a step's number of Docker is
the same error as a bare one.
"""

from __future__ import annotations

import re

_PREFIX = re.compile(
    r"\s{0,4}(?:"
    r"\[(?:rank|default)?(?P<a>\d{1,5})\](?:<std(?:err|out)>)?:\s?"
    r"|\[\d{1,3},(?P<b>\d{1,5})\]<std(?:err|out)>:\s?"
    r"|(?P<c>\d{1,5}): (?=\S)"
    r"|\((?:\w{1,40} )?pid=\d{1,9}(?:, ip=[\w.:]{1,45})?\)\s"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d)?\s"
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,64} [\w.-]{1,40}(?:\[\d{1,9}\])?:\s"
    r"|\[\s{0,8}\d{1,9}\.\d{6}\]\s"
    r")"
)
# One wrapper at the start of a line; a line may stand in several.
_WRAPPER = re.compile(
    r"\s{1,200}"
    # Boxes of uv, pip, rich, poetry and rustc, with the number of a source line before the bar.
    r"|\d{0,6}\s{0,8}[\u2500-\u257f\u25b6\u276f\u00d7\u2022\u21b3|]{1,8}(?:[\u2500>\u25b6]{1,4})?(?:\s|$)"
    r"|>\s(?=\S)"
    # The streams that uv tells of one after the other, and hatch's and tox's own marks.
    r"|\[(?:stderr|stdout|err|out)\][:\s]?"
    # Docker: a step of BuildKit with its clock, the old builder's step, the failed step's lines.
    r"|#\d{1,4}\s(?:\d{1,6}\.\d{1,4}\s|ERROR:?\s)?"
    r"|\d{1,6}\.\d{2,4}\s(?=\D)"
    r"|Step \d{1,4}/\d{1,4} : "
    r"|=> (?:ERROR |CACHED )?(?:\[[^\]\n]{1,60}\] )?"
    r"|[\w.-]{1,60}-\d{1,3}\s{1,20}\| "
    # CI: a job and a step before a clock, commands to the runner, the clocks of others.
    r"|[^\t\n]{1,80}\t[^\t\n]{1,80}\t\ufeff?(?=\d{4}-\d\d-\d\dT)"
    r"|##\[\w{1,12}\]"
    r"|::(?:error|warning|notice)(?: [^\n:]{0,200})?::"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?\s"
    r"|\d\d[OE]\+?\s?(?=\S)"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]?\s"
    # Progress of ninja and make, projects of MSBuild that run side by side.
    r"|\[\s{0,3}\d{1,6}/\d{1,6}\]\s"
    r"|\[\s{0,3}\d{1,3}%\]\s"
    r"|\d{1,3}>(?=\S)"
)
_ROUNDS = 8


def strip_prefix(text: str) -> tuple[str, int | None]:
    """Take off what launchers, kernels and containers put before a line.

    Returns:
        The rest, and the rank that a prefix names.
    """
    rank = None
    for _ in range(3):
        match = _PREFIX.match(text)
        if match is None:
            break
        named = match["a"] or match["b"] or match["c"]
        rank = int(named) if named is not None and rank is None else rank
        text = text[match.end() :]
    return text, rank


def unwrap(text: str) -> str:
    """Take off what installers, builders, CI and boxes of terminals put before a line.

    Indentation counts as a wrapper, so what is left is no line of a table or of source code any
    more: whoever asks for such a line looks at the line itself.
    """
    for _ in range(_ROUNDS):
        match = _WRAPPER.match(text) or _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text.rstrip()


# A message that is broken at the width of a terminal, or in the middle of a sentence.
_SHORTEST_BROKEN = 30
_IN_MID_SENTENCE = re.compile(r"[\w,(`'\"/=-]$")
_BEGINS = re.compile(
    r"Traceback |File \"|During handling|\[|\{|[-+*#$>%]|[\w.]{1,80}(?:Error|Exception|Warning)\b"
    r"|(?:error|warning|note|hint|ERROR|WARNING|INFO|DEBUG)\b"
)


def goes_on(text: str, following: str) -> bool:
    """Whether a line breaks off in the middle of a sentence and the next one carries it on.

    Args:
        text: A line without its wrappers.
        following: The next line without its wrappers.
    """
    return (
        len(text) >= _SHORTEST_BROKEN
        and bool(following)
        and _IN_MID_SENTENCE.search(text) is not None
        and _BEGINS.match(following) is None
    )
