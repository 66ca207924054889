"""What compiled files hold, as a table for a person."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from envguard.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envguard.facts.binary import CodeCount, CompiledFile
    from envguard.render.page import Style

_HEAD = f"{'CUDA':>4}  {'C++ ABI':<9}{'glibc':<7}file"
_INDENT = " " * 8
_LABEL = 9
# Every program has these; a list of needs that names them hides what matters.
_COMMON = (
    "libc.",
    "libm.",
    "libdl.",
    "libpthread.",
    "librt.",
    "libgcc_s.",
    "ld-linux",
    "libstdc++.",
)


def compiled_files_text(files: Sequence[CompiledFile], notes: Sequence[str], style: Style) -> str:
    """Render one line a file, and below it the code for GPUs and the libraries that it needs.

    Args:
        files: In the order to show.
        notes: Shown first.
        style: How it looks; quiet shows the lines without what stands below them.
    """
    lines = [one_line(note) for note in notes]
    if files:
        lines.append(style.paint(_HEAD, "dim"))
    else:
        lines.append("no compiled files")
    for file in files:
        lines.append(_line(file, style))
        if not style.is_quiet:
            lines.extend(_below(file, style))
    return "\n".join(lines) + "\n"


def _line(file: CompiledFile, style: Style) -> str:
    cuda = "-" if file.cuda_major is None else str(file.cuda_major)
    head = f"{cuda:>4}  {_abi_words(file):<9}{file.glibc or '-':<7}"
    return head + style.paint(one_line(file.path), "bold")


def _abi_words(file: CompiledFile) -> str:
    if file.stable_abi:
        return "stable"
    return {True: "new", False: "old", None: "-"}[file.cxx11_abi]


def _below(file: CompiledFile, style: Style) -> Iterator[str]:
    if file.cubin or file.ptx:
        yield from _wrap("code", _code_words(file.cubin, "sm_") or "none", style)
        yield from _wrap("PTX", _code_words(file.ptx, "compute_") or "none", style)
    if file.arch_flags:
        yield from _wrap("states", " ".join(map(str, file.arch_flags)), style)
    needed = [name for name in file.needed or () if style.is_verbose or not _is_common(name)]
    if needed:
        yield from _wrap("needs", " ".join(needed), style)
    for gap in file.gaps:
        what = "not read" if gap.fact == "file" else f"{gap.fact} not read"
        yield from _wrap("gap", f"{what}: {gap.detail}", style)


def _is_common(name: str) -> bool:
    return name.startswith(_COMMON)


def _code_words(counts: Sequence[CodeCount] | None, prefix: str) -> str:
    """Targets with one count together, the fullest first: ``sm_80 sm_90 (475 each)``."""
    groups: dict[int, list[str]] = {}
    for entry in counts or ():
        target = f"{prefix}{entry.capability.digits}{entry.suffix}"
        groups.setdefault(entry.count, []).append(target)
    return ", ".join(
        f"{' '.join(groups[count])} ({count}{' each' if len(groups[count]) > 1 else ''})"
        for count in sorted(groups, reverse=True)
    )


def _wrap(label: str, text: str, style: Style) -> list[str]:
    return textwrap.wrap(
        one_line(text),
        style.width,
        initial_indent=f"{_INDENT}{label:<{_LABEL}}",
        subsequent_indent=_INDENT + " " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
