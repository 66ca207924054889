from __future__ import annotations

import pytest

from envguard.crash.phases import Phase, find_phase, parse_phase
from tests.crash.test_scan import scan


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("Loading checkpoint shards:  10%\n", Phase.LOAD),
        ("***** Running training *****\n", Phase.TRAIN),
        ("{'loss': 1.0}\nSaving model checkpoint to out\n", Phase.SAVE),
        ("Saving model checkpoint to out\n{'loss': 1.0}\n", Phase.TRAIN),
        ("Attempting to resume from out/checkpoint-5\n", Phase.RESUME),
        ("[Begin] Initialize optimizer states\n", Phase.INIT),
        ("Training completed\n", Phase.SHUTDOWN),
        ("it was killed while saving\n", Phase.SAVE),
        ("nothing\n", None),
    ],
)
def test_the_last_mark_of_the_log_tells_the_phase(text: str, phase: Phase | None) -> None:
    assert find_phase(scan(text.encode()), None).phase is phase


def test_a_stated_phase_wins_over_the_log() -> None:
    seen = find_phase(scan(b"Saving model checkpoint to out\n"), Phase.LOAD)
    assert (seen.phase, seen.origin) == (Phase.LOAD, "--phase")


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("save", Phase.SAVE),
        ("Checkpoint", Phase.SAVE),
        ("eval", Phase.TRAIN),
        ("setup", Phase.INIT),
        ("warp", None),
    ],
)
def test_names_that_programs_give_are_understood(name: str, phase: Phase | None) -> None:
    assert parse_phase(name) is phase
