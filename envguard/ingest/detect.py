"""Tells by its content what a text is, and reads every report that it holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.facts import Facts, decode_json, parse_facts_document
from envguard.ingest.collect_env import parse_collect_env
from envguard.ingest.conda_list import parse_conda_list
from envguard.ingest.ds_report import parse_ds_report
from envguard.ingest.line_facts import last_error, parse_line_facts
from envguard.ingest.nvidia_smi import (
    parse_smi_complaints,
    parse_smi_csv,
    parse_smi_lists,
    parse_smi_tables,
)
from envguard.ingest.nvidia_smi_query import find_xml, parse_smi_query, parse_smi_xml
from envguard.ingest.pip_list import parse_filtered_list, parse_pip_json, parse_pip_list
from envguard.ingest.plain_text import check_size, clean_lines, strip_controls
from envguard.ingest.report_part import merge_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from envguard.ingest.report_part import ReportPart

# One line for each kind of report; conda and pip lists come last, their rows look like anything.
PARSERS: tuple[Callable[[Sequence[str]], tuple[ReportPart, ...]], ...] = (
    parse_collect_env,
    parse_smi_query,
    parse_smi_tables,
    parse_smi_lists,
    parse_smi_csv,
    parse_smi_complaints,
    parse_ds_report,
    parse_conda_list,
    parse_pip_list,
)
_EXPECTED = (
    "expected a facts document (envguard probe -o), the output of python -m "
    "torch.utils.collect_env, nvidia-smi (also -q, -q -x, -L, --query-gpu), ds_report, pip list, "
    "pip freeze or conda list"
)
_PRINTED = re.compile(r"\{\s*'")  # a dictionary as Python prints it
# Decoded documents take many times the size of their text.
_MAX_DOCUMENT = 16 * 1024 * 1024


def load_text(text: str, where: str) -> Facts:
    """Read a description of a machine and an environment, whatever kind it is.

    Several reports in one text, with words, prompts and quotes around them, are read as one
    description. Nothing that the text does not state is filled in.

    Args:
        text: The whole text.
        where: Name of the file, for messages.

    Returns:
        The facts, with a gap for what is not stated.

    Raises:
        InputError: Too large, damaged, or nothing that is understood.
    """
    check_size(text, where)
    head = text[:4096].lstrip("\ufeff \t\r\n")
    if head.startswith("{") and not _PRINTED.match(head):
        _check_document(text, where)
        return parse_facts_document(decode_json(text.lstrip("\ufeff"), where), where)
    facts = told_facts(text, where)
    if facts is None:
        what = "is empty" if not head and not text.strip() else "holds nothing that is understood"
        raise InputError(f"{where}: {what}", hint=_EXPECTED)
    return facts


def told_facts(text: str, where: str) -> Facts | None:
    """Read whatever a text tells of a machine and an environment, in reports or single lines.

    Args:
        text: A report, a log, an issue's body.
        where: Name of it, for messages.

    Returns:
        The facts, with a gap for what is not stated; None when it tells nothing.

    Raises:
        InputError: An XML document in it is damaged.
    """
    parts = _json_parts(text, text[:4096].lstrip("\ufeff \t\r\n"))
    if parts:
        return merge_parts(parts, where)
    lines = tuple(clean_lines(text))
    near = last_error(lines)
    reports = _parts(text, lines, where) or parse_filtered_list(lines)
    parts = (*reports, *parse_line_facts(lines, near))
    return merge_parts(parts, where, near) if parts else None


def _json_parts(text: str, head: str) -> tuple[ReportPart, ...]:
    """The parts of a text that is one JSON list, on however many lines."""
    if not head.startswith("[") or head[1:].lstrip()[:1] != "{" or len(text) > _MAX_DOCUMENT:
        return ()
    try:
        return parse_pip_json(decode_json(text.lstrip("\ufeff"), ""))
    except InputError:
        return ()  # a list with words around it is found line by line


def _parts(text: str, lines: Sequence[str], where: str) -> tuple[ReportPart, ...]:
    found = [part for parse in PARSERS for part in parse(lines)]
    if "<nvidia_smi_log>" in text:
        found.append(_xml_part(strip_controls(text), where))
    return tuple(found)


def _xml_part(text: str, where: str) -> ReportPart:
    document = find_xml(text) or ""
    _check_document(document, where)
    return parse_smi_xml(document, where, text[: text.find(document)].count("\n"))


def _check_document(text: str, where: str) -> None:
    if len(text) > _MAX_DOCUMENT:
        raise InputError(f"{where}: a document larger than {_MAX_DOCUMENT // 1024**2} MiB")
