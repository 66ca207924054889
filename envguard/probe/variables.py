"""The variables of this process; which are recorded is the same for reports of others."""

from __future__ import annotations

from envguard.facts.variables import printable, recorded_variables

__all__ = ["printable", "recorded_variables"]
