"""Tests of the rooms that ask package registries."""
