"""Tests of envguard.lock."""
