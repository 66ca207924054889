"""Tests of rules, named as the tables of causes."""
