"""Tests of reading a machine."""
