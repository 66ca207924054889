from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.memory.plan import GIB, MemoryPhase, Side, calibrate, measured_peaks
from tests.memory.jobs import job, plan

PLANNED = plan(job("zero2"))


def test_a_measured_phase_has_what_was_measured() -> None:
    peaks = measured_peaks({"train": 10 * GIB, "save": 70 * GIB, "import": 1 * GIB}, {})
    calibration = calibrate(PLANNED, peaks)
    scaled = calibration.apply(PLANNED)
    assert scaled.phase(MemoryPhase.STEP).host.total.likely == pytest.approx(10 * GIB)
    assert scaled.phase(MemoryPhase.SAVE).host.total.likely == pytest.approx(70 * GIB)
    assert scaled.phase(MemoryPhase.STEP).gpu == PLANNED.phase(MemoryPhase.STEP).gpu


def test_phases_that_were_not_measured_follow_the_middle_factor() -> None:
    likely = PLANNED.phase(MemoryPhase.STEP).host.total.likely
    calibration = calibrate(PLANNED, measured_peaks({"train": int(2 * likely)}, {}))
    scaled = calibration.apply(PLANNED)
    before = PLANNED.phase(MemoryPhase.SAVE).host.total.likely
    assert scaled.phase(MemoryPhase.SAVE).host.total.likely == pytest.approx(2 * before, rel=1e-6)


def test_it_says_what_was_scaled_and_by_how_much() -> None:
    likely = PLANNED.phase(MemoryPhase.SAVE).host.total.likely
    words = calibrate(PLANNED, measured_peaks({"save": int(1.1 * likely)}, {})).words
    assert words[0].startswith("host in save is scaled by 1.10 to the measured 70.5 GiB")
    assert words[1] == "host in the phases that were not measured is scaled by 1.10"


def test_the_fullest_gpu_stands_for_the_peak_of_the_run() -> None:
    calibration = calibrate(PLANNED, measured_peaks({}, {0: 40 * GIB, 1: 60 * GIB}))
    scaled = calibration.apply(PLANNED)
    assert scaled.peak(Side.GPU).gpu.total.likely == pytest.approx(60 * GIB)


def test_a_run_without_phases_stands_for_its_peak() -> None:
    assert measured_peaks({"": 64 * GIB}, {}) == {(Side.HOST, None): 64.0 * GIB}


def test_another_jobs_record_is_refused() -> None:
    with pytest.raises(InputError, match=r"host in save was measured at 1\.0 GiB .* not the same"):
        calibrate(PLANNED, measured_peaks({"save": GIB}, {}))


def test_a_record_without_memory_is_refused() -> None:
    with pytest.raises(InputError, match="holds no memory"):
        measured_peaks({}, {})
