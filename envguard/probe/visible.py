"""Which GPUs a process here would see; the rule is the same for reports of others."""

from __future__ import annotations

from envguard.facts.visible import mark_visible

__all__ = ["mark_visible"]
