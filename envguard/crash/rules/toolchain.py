"""What compilers, linkers and ninja say when an extension does not build."""

from __future__ import annotations
