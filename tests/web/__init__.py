"""Tests of the one client."""
