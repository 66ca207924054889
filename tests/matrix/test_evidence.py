"""None"""

from __future__ import annotations

import pytest

from envguard.matrix.causes import Proof
from envguard.matrix.loader import Matrix

MATRIX = Matrix.load()
TABLE, CAUSES = MATRIX.signals, MATRIX.causes


def test_everything_that_was_gathered_is_there() -> None:
    assert len(TABLE.signals) == 14
    assert len(TABLE.launchers) == 11
    assert len(CAUSES.signatures) >= 85
    assert len(TABLE.phases) == 9
    assert len({row.id for row in CAUSES.signatures}) == len(CAUSES.signatures)


# Typed by hand: signal(7), DeepSpeed's sys.exit(-9).
def test_anchor_facts() -> None:
    kill = TABLE.signal(9)
    assert kill is not None
    assert (kill.name, kill.unsigned) == ("SIGKILL", 247)
    assert CAUSES.signature("kernel-oom-constraint").proves is Proof.CERTAIN


def test_unknown_numbers_have_no_row() -> None:
    assert TABLE.signal(64) is None
    assert TABLE.status(77) is None
    with pytest.raises(KeyError):
        CAUSES.signature("no-such-signature")
