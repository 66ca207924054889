"""Parses the command's options into settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.memory.job import (
    Attention,
    Precision,
    Quantized,
    Recompute,
    SaveMode,
    Strategy,
)
from envguard.memory.parsing import (
    parse_choice,
    parse_lora,
    parse_offload,
    parse_optimizer,
    positive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.memory.settings import Settings

_MOST: Mapping[str, int] = {
    "gpus": 1_000_000,
    "nodes": 1_000_000,
    "micro-batch": 1_000_000,
    "accumulate": 1_000_000,
    "seq-len": 100_000_000,
}
# Option -> the setting it states and how its text is read.
_READERS: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "strategy": ("strategy", lambda option, text: parse_choice(option, text, Strategy)),
    "optimizer": ("optimizer", parse_optimizer),
    "dtype": ("precision", lambda option, text: parse_choice(option, text, Precision)),
    "recompute": ("recompute", lambda option, text: parse_choice(option, text, Recompute)),
    "attention": ("attention", lambda option, text: parse_choice(option, text, Attention)),
    "save": ("save", lambda option, text: parse_choice(option, text, SaveMode)),
    "lora": ("lora", lambda _, text: parse_lora(text)),
}
# Switch -> the setting it states.
_SWITCHES: Mapping[str, tuple[str, object]] = {
    "qlora": ("quantized", Quantized.NF4),
    "no-zero-init": ("zero_init", False),
    "fused-loss": ("fused_loss", True),
    "resume": ("resume", True),
}


def add_options(settings: Settings, options: Mapping[str, object]) -> None:
    """State options over what files say.

    Args:
        settings: Of the files.
        options: By name without dashes, as typed; None and False are not stated.

    Raises:
        InputError: An option is not what it takes, or contradicts a file.
    """
    device = str(options.get("offload-device") or "cpu")
    for name, value in options.items():
        if value is None or value is False or name == "offload-device":
            continue
        for setting, parsed in _parsed(name, value, device):
            settings.overrule(setting, parsed, f"--{name}")


def _parsed(name: str, value: object, device: str) -> tuple[tuple[str, object], ...]:
    """The settings behind one option."""
    if name == "offload":
        optimizer_on, params_on = parse_offload(str(value), device)
        return (("optimizer_on", optimizer_on), ("params_on", params_on))
    if name in _SWITCHES:
        return (_SWITCHES[name],)
    if name in _READERS:
        setting, read = _READERS[name]
        return ((setting, read(f"--{name}", str(value))),)
    return ((name.replace("-", "_"), positive(f"--{name}", value, _MOST[name])),)
