"""Tests of ``run``: start, sample, record, phases."""
