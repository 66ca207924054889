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
    assert len(TABLE.xids) == 33
    assert len(TABLE.phases) == 9
    assert len({row.id for row in CAUSES.signatures}) == len(CAUSES.signatures)


# Typed by hand: signal(7), DeepSpeed's sys.exit(-9), NVIDIA's Xid catalog, driver_types.h, nccl.h.
def test_anchor_facts() -> None:
    kill = TABLE.signal(9)
    assert kill is not None
    assert (kill.name, kill.unsigned) == ("SIGKILL", 247)
    fallen = TABLE.xid(79)
    assert fallen is not None
    assert (fallen.text, fallen.kind) == ("GPU has fallen off the bus", "hw")
    compat = TABLE.cuda_error("forward compatibility was attempted on non supported HW")
    assert compat is not None
    assert (compat.code, compat.name) == (804, "cudaErrorCompatNotSupportedOnDevice")
    remote = TABLE.nccl_error("remote process exited or there was a network error")
    assert remote is not None
    assert remote.code == 6
    assert CAUSES.signature("kernel-oom-constraint").proves is Proof.CERTAIN


def test_cuda_errors_are_found_by_text_name_and_number() -> None:
    rows = [
        TABLE.cuda_error(words)
        for words in ("Misaligned address.", "cudaErrorMisalignedAddress", "716")
    ]
    assert [row.code for row in rows if row is not None] == [716, 716, 716]
    assert TABLE.cuda_error("no such error") is None


def test_unknown_numbers_have_no_row() -> None:
    assert TABLE.signal(64) is None
    assert TABLE.xid(9999) is None
    assert TABLE.status(77) is None
    with pytest.raises(KeyError):
        CAUSES.signature("no-such-signature")
