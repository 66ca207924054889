"""Descriptions of other machines and environments, turned into facts; nothing is assumed."""
