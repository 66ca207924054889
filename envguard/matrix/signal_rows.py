"""Typed rows of the tables about exit statuses, launchers, numbered errors and evidence."""

from __future__ import annotations

from dataclasses import dataclass

from envguard.matrix.rows import Provenance


@dataclass(frozen=True, slots=True)
class ExitSignal:
    """A signal that processes die of.

    Args:
        number: Its number.
        name: ``SIGKILL``.
        unsigned: What ``sys.exit(-number)`` gives, as DeepSpeed's launcher does.
        means: What it is.
        usual_causes: Where it usually comes from.
    """

    number: int
    name: str
    unsigned: int
    means: str
    usual_causes: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """An exit status that is no signal."""

    code: int
    means: str
    usual_causes: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class LauncherRow:
    """What a launcher does with the exit status of a rank, and where the truth is."""

    name: str
    outer_code: str
    truth: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of a training run and the lines that mark it."""

    id: str
    marks: str
    regex: str
    literals: tuple[str, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """A numbered error of the driver (Xid), the CUDA runtime or NCCL.

    Args:
        code: Its number.
        name: ``cudaErrorInvalidValue``; empty for an Xid.
        text: Its message.
        kind: ``app``, ``env``, ``hw``, ``link``, ``build`` ...; empty for NCCL.
        note: What it usually is.
        action: NVIDIA's immediate action for an Xid, else empty.
    """

    code: int
    name: str
    text: str
    kind: str
    note: str
    action: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class EvidenceTool:
    """A tool that would have kept evidence, and when it keeps none."""

    name: str
    gives: str
    silent_when: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class SaveMarker:
    """What an unfinished checkpoint folder tells."""

    id: str
    observation: str
    means: str
    provenance: Provenance
