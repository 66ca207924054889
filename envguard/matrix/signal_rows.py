"""Typed rows of the table about what crashes leave behind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from packaging.specifiers import SpecifierSet

from envguard.matrix.rows import Provenance


class Proof(Enum):
    """How far a signature alone proves what it means."""

    CERTAIN = "certain"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


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
class Signature:
    """Words in a log that mean something.

    Args:
        id: Its name.
        layer: Who writes it: ``kernel``, ``slurm``, ``launcher``, ``cuda`` ...
        pattern: Searched in lines that hold one of the literals.
        literals: Texts of which a matching line holds at least one.
        means: What it means.
        phase: When it is seen.
        proves: How far it alone proves what it means.
        next: What to look at next.
        rules_out: What it speaks against.
    """

    id: str
    layer: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    means: str
    phase: str
    proves: Proof
    next: str
    rules_out: str
    sample: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of a training run and the lines that mark it."""

    id: str
    marks: str
    first_suspects: str
    codes: tuple[str, ...]
    pattern: re.Pattern[str]
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
class Discriminator:
    """Which evidence decides for or against a verdict."""

    verdict: str
    exit_form: str
    decisive: str
    supporting: str
    against: str
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
