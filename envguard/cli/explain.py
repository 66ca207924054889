"""``envguard explain``: what a code or a cause means, how it was found, what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envguard.cli.options import takes
from envguard.cli.out import PageOptions, write_page
from envguard.cli.tables import load_matrix
from envguard.errors import ExitCode, InputError
from envguard.matrix.causes import CodeRow, plain
from envguard.render.page import PageSection, page_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envguard.matrix.causes import Cause, CauseTable, Hypothesis
    from envguard.matrix.loader import Matrix
    from envguard.matrix.order import CodeFamily
    from envguard.matrix.rows import Provenance
    from envguard.matrix.statuses import Deciding, StatusRow
    from envguard.render.page import Style

_SHOWN = 8
_FEW = 4


@takes(page=PageOptions)
def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE|CAUSE|STATUS",
            help="GPU001, a cause or its start, xid-79, CUDNN_STATUS_...",
        ),
    ] = None,
    list_codes: Annotated[bool, typer.Option("--list", help="List all codes.")] = False,
    *,
    page: PageOptions,
) -> int:
    """Say what a finding's code or cause means, how it is found and what to do about it.

    A status of CUDA, of a library of it or of the driver (xid-79, 'CUDA error 802') is explained
    as well.

    Without a name, or with the letters of a family (GPU), the codes are listed.
    """
    matrix = load_matrix(page.matrix)
    table = matrix.causes
    families = _families(table, name, list_codes=list_codes)
    if families:
        _write_list(families, table, page, matrix)
        return ExitCode.FITS
    statuses = _statuses(name or "", matrix)
    if statuses:
        _write_statuses(statuses, page, matrix)
        return ExitCode.FITS
    found = _find(name or "", table)
    code, cause = table.code(found), table.cause(found)
    if code is not None:
        _write_code(code, table, page, matrix)
    elif cause is not None:
        _write_cause(cause, table, page, matrix)
    return ExitCode.FITS


def _families(table: CauseTable, name: str | None, *, list_codes: bool) -> tuple[CodeFamily, ...]:
    if name is None:
        return table.families
    if list_codes:
        raise InputError(f"--list lists all codes: it goes without {name!r}")
    return tuple(family for family in table.families if family.prefix == name.upper())


def _find(name: str, table: CauseTable) -> str:
    """The code or cause that a text means.

    Raises:
        InputError: None, or several.
    """
    slug = name.strip().lower().replace("_", "-")
    if table.code(slug.upper()) is not None:
        return slug.upper()
    if table.cause(slug) is not None:
        return slug
    match table.named_like(slug) if slug else ():
        case [only]:
            return only
        case []:
            near = ", ".join(table.suggest(slug))
            hint = f"did you mean: {near}? " if near else ""
            raise InputError(
                f"no code or cause is named {name!r}",
                hint=f"{hint}`envguard explain --list` lists the codes",
            )
        case several:
            listed = ", ".join(several[:_SHOWN]) + (", ..." if len(several) > _SHOWN else "")
            raise InputError(f"{name!r} begins several codes or causes", hint=f"one of: {listed}")


def _statuses(name: str, matrix: Matrix) -> tuple[StatusRow, ...]:
    """The statuses that a text means, where it is no code and no cause itself."""
    slug = name.strip().lower().replace("_", "-")
    table = matrix.causes
    if table.code(slug.upper()) is not None or table.cause(slug) is not None:
        return ()
    return matrix.statuses.find(name)


def _write_statuses(rows: tuple[StatusRow, ...], page: PageOptions, matrix: Matrix) -> None:
    row = rows[0]
    deciding = matrix.statuses.deciding[row.decides]
    cause = matrix.causes.cause(row.cause) if row.cause else None
    body = {
        "status": row.name,
        "codes": [one.code for one in rows],
        "layer": row.library,
        "names": [name for name in (row.name, row.driver) if name],
        "text": row.text,
        "meaning": row.meaning,
        "is_sticky": row.is_sticky,
        "action": row.action,
        "decides": {"text": deciding.text, "command": list(deciding.command)},
        "cause": row.cause,
        "sources": _sources_body(row.provenance),
    }

    def text(style: Style) -> str:
        numbers = " or ".join(str(one.code) for one in rows)
        names = " = ".join(name for name in (row.name, row.driver) if name)
        meaning = f"{row.meaning[:1].upper()}{row.meaning[1:]}."
        sticky = ("The process cannot use the GPU any more after it.",) if row.is_sticky else ()
        sections = [
            PageSection("means", (meaning, *sticky)),
            PageSection("of", (f"{row.library}: {names}, {numbers}",)),
            PageSection("text", (row.text,) if row.text else ()),
            PageSection("decides", (_deciding_words(deciding),)),
            PageSection("advised", (row.action,) if row.action else ()),
            PageSection("cause", (f"{cause.slug}: {cause.text}",) if cause else ()),
            PageSection("source", _source_words(row.provenance)),
        ]
        return page_text(row.label, sections[:1] if style.is_quiet else sections, style)

    write_page(page, matrix.manifest.data_version, command="explain", body=body, text=text)


def _deciding_words(row: Deciding) -> str:
    text, command = f"{row.text[:1].upper()}{row.text[1:]}.", shlex.join(row.command)
    return f"{text} `{command}`" if command and command not in text else text


def _write_code(code: CodeRow, table: CauseTable, page: PageOptions, matrix: Matrix) -> None:
    causes = [row for slug in code.causes if (row := table.cause(slug)) is not None]
    body = {
        "code": code.code,
        "title": code.title,
        "meaning": code.meaning,
        "found": code.found,
        "fix": list(code.fix),
        "causes": [{"cause": row.slug, "text": row.text} for row in causes],
        "sources": _sources_body(code.provenance),
    }

    def text(style: Style) -> str:
        sections = [
            PageSection("means", (code.meaning,)),
            PageSection("found", (code.found,)),
            PageSection("fix", code.fix or ("nothing to do",), is_numbered=len(code.fix) > 1),
            PageSection("causes", tuple(f"{row.slug}: {row.text}" for row in causes)),
            PageSection("source", _source_words(code.provenance)),
        ]
        shown = sections[2:3] if style.is_quiet else sections
        return page_text(f"{code.code}  {code.title}", shown, style)

    write_page(page, matrix.manifest.data_version, command="explain", body=body, text=text)


def _write_cause(cause: Cause, table: CauseTable, page: PageOptions, matrix: Matrix) -> None:
    codes = sorted(table.carrying(cause.slug), key=CodeRow.distance)
    fix = table.fix(cause.slug)
    body = {
        "cause": cause.slug,
        "text": cause.text,
        "codes": [_code_body(row) for row in codes],
        "fix": list(fix),
        "told_by": list(table.samples(cause.slug)),
        "experiments": [_experiment_body(row) for row in cause.hypotheses],
        "sources": _sources_body(cause.provenance),
    }

    def text(style: Style) -> str:
        samples = table.samples(cause.slug)
        sections = [
            PageSection("means", (cause.text,)),
            PageSection("codes", tuple(f"{row.code}  {row.title}" for row in codes)),
            PageSection("fix", fix, is_numbered=len(fix) > 1),
            PageSection("told by", samples if style.is_verbose else samples[:_FEW]),
            PageSection("test", tuple(_experiment_words(row) for row in cause.hypotheses)),
            PageSection("source", _source_words(cause.provenance)),
        ]
        shown = sections[:1] if style.is_quiet else sections
        return page_text(cause.slug, shown, style)

    write_page(page, matrix.manifest.data_version, command="explain", body=body, text=text)


def _experiment_body(row: Hypothesis) -> dict[str, Any]:
    return {"text": plain(row.experiment), "command": list(row.command)}


def _experiment_words(row: Hypothesis) -> str:
    """The one thing to change, where it is suspected and nothing shows it."""
    said, command = plain(row.experiment), shlex.join(row.command)
    text = f"{said[:1].upper()}{said[1:]}."
    return f"{text} `{command}`" if command and command not in text else text


def _write_list(
    families: Sequence[CodeFamily], table: CauseTable, page: PageOptions, matrix: Matrix
) -> None:
    body = {
        "families": [
            {
                "prefix": family.prefix,
                "about": family.about,
                "codes": [_code_body(row) for row in table.family(family.prefix)],
            }
            for family in families
        ]
    }

    def text(style: Style) -> str:
        parts = [_family_text(family, table, style) for family in families]
        if not style.is_quiet:
            parts.append("`envguard explain CODE` says what it means and what to do\n")
        return "\n".join(parts)

    write_page(page, matrix.manifest.data_version, command="explain", body=body, text=text)


def _family_text(family: CodeFamily, table: CauseTable, style: Style) -> str:
    from envguard.render.table import table_text

    columns = ("code", "title", "causes")[: 3 if style.is_verbose else 2]
    rows = [
        (row.code, row.title, _cause_words(row))[: len(columns)]
        for row in table.family(family.prefix)
    ]
    heading = style.paint(f"{family.prefix}  {family.about}", "bold")
    return f"{heading}\n{table_text(columns, rows, style, wrapping=len(columns) - 1)}"


def _cause_words(row: CodeRow) -> str:
    return " ".join(row.causes) if len(row.causes) < _FEW else f"{len(row.causes)} causes"


def _code_body(row: CodeRow) -> dict[str, Any]:
    return {"code": row.code, "title": row.title, "causes": list(row.causes)}


def _sources_body(provenance: Provenance) -> list[dict[str, str]]:
    sources = (provenance.source, *provenance.also)
    return [{"url": source.url, "checked": source.checked} for source in sources]


def _source_words(provenance: Provenance) -> tuple[str, ...]:
    sources = (provenance.source, *provenance.also)
    return tuple(f"{source.url} (checked {source.checked})" for source in sources)
