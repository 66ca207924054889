"""Reads the files that a command line names: bounded, in whatever encoding they come."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.gaps import GapReason
from envguard.facts.sentences import say
from envguard.files import is_file, read_bounded, reason_of, take_bounded
from envguard.redaction import clean_addresses

if TYPE_CHECKING:
    from envguard.facts.environment import Interpreter
    from envguard.facts.facts import Facts
    from envguard.ingest.lock_entry import LockfileTarget
    from envguard.ingest.lockfile import Lockfile


def source_name(source: str) -> str:
    """How messages name a source: ``-`` is standard input."""
    return "standard input" if source == "-" else source or "''"


def read_text(source: str, limit_bytes: int) -> str:
    """Read a file or standard input, never more than the limit, without what addresses hide.

    Args:
        source: Path, or ``-``.
        limit_bytes: The largest file that is read.

    Raises:
        InputError: It cannot be read, or is larger.
    """
    from envguard.ingest.plain_text import decode_text

    where = source_name(source)
    if source != "-":
        return clean_addresses(decode_text(read_bounded(source, limit_bytes, where=where)))
    if sys.stdin is None:
        raise InputError(f"{where}: cannot be read: it is closed")
    try:
        raw = take_bounded(sys.stdin.buffer, limit_bytes, where=where)
    except OSError as err:
        raise InputError(f"{where}: cannot be read: {reason_of(err)}") from err
    return clean_addresses(decode_text(raw))


def read_facts(source: str) -> Facts:
    """Read ``--from`` or ``--machine``: a report of any kind, told apart by content.

    Args:
        source: Path, or ``-`` for standard input.

    Raises:
        InputError: It cannot be read, or holds nothing that is understood.
    """
    from envguard.ingest.detect import load_text
    from envguard.ingest.plain_text import MAX_BYTES

    return load_text(read_text(source, MAX_BYTES), source_name(source))


def is_lockfile(word: str) -> bool:
    """Whether an argument names a file rather than a pin."""
    from envguard.ingest.lockfile import looks_like_lockfile

    return looks_like_lockfile(word) or is_file(word)


def lay_lockfile(
    facts: Facts, path: str, *, is_python_stated: bool
) -> tuple[Facts, tuple[str, ...]]:
    """Put the pins of a lockfile in the place of the environment.

    Args:
        facts: The machine, and the interpreter that the lock shall be installed for.
        path: Of the lockfile.
        is_python_stated: The interpreter is the one meant, not just the one envguard runs in:
            that one is passed over where the lock does not admit it.

    Returns:
        The facts, and one remark.

    Raises:
        InputError: The file cannot be read.
    """
    from envguard.ingest.lock_entry import LockfileTarget
    from envguard.ingest.lockfile import MAX_BYTES, load_lockfile

    text = read_text(path, MAX_BYTES)
    interpreter = facts.environment.interpreter if facts.environment else None
    target = LockfileTarget(
        platform=facts.machine.host.platform,
        python=interpreter.version if interpreter else None,
        is_free_threaded=bool(interpreter and interpreter.is_free_threaded),
        is_python_stated=is_python_stated,
    )
    try:
        found = load_lockfile(path, text, target=target, read=_read_included)
    except InputError as err:
        if not err.hint and _is_report(text, path):
            err.hint = f"a report of a machine is read with --from {path}"
        raise
    if not is_python_stated and _refuses_python(found):
        target, interpreter = LockfileTarget(platform=target.platform), None
        found = load_lockfile(path, text, target=target, read=_read_included)
    own = None if is_python_stated else found.environment.interpreter
    if own is not None:
        target = replace(target, python=own.version)
    return _replaced(facts, found, own or interpreter), (_remark(path, target),)


def _is_report(text: str, path: str) -> bool:
    """Whether a text that is no lockfile describes a machine."""
    from envguard.facts.machine import Machine
    from envguard.ingest.detect import load_text

    try:
        return load_text(text, path).machine != Machine()
    except InputError:
        return False


def _read_included(path: str, including: str) -> tuple[str, str]:
    """A nested requirements file, looked up beside the one that names it."""
    from envguard.ingest.lockfile import MAX_BYTES

    place = str(Path(including).parent / path)
    return place, read_text(place, MAX_BYTES)


def _refuses_python(found: Lockfile) -> bool:
    return any(
        gap.fact == "environment.interpreter" and gap.reason is GapReason.MISMATCH
        for gap in found.gaps
    )


def _replaced(facts: Facts, found: Lockfile, interpreter: Interpreter | None) -> Facts:
    """The facts with the lock's environment; of the interpreter only what the lock is for."""
    if interpreter is not None:
        interpreter = replace(interpreter, executable=None, prefix=None, sys_path=())
    machine_gaps = [gap for gap in facts.gaps if not gap.fact.startswith("environment")]
    return replace(
        facts,
        environment=replace(found.environment, interpreter=interpreter),
        gaps=(*machine_gaps, *found.gaps),
    )


def _remark(path: str, target: LockfileTarget) -> str:
    return say("pins are read from {path}, for {target}", path=path, target=target)
