"""What Python packages say when another version beside them lacks what they use."""

from __future__ import annotations

_OLD_DEEPSPEED = "DeepSpeed is too old for this torch"
