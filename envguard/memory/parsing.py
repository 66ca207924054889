"""Parses the words of options and configuration files into the values of a job."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.errors import InputError
from envguard.memory.job import Lora, Optimizer, Place, Quantized

if TYPE_CHECKING:
    from collections.abc import Mapping

E = TypeVar("E", bound=Enum)

_COUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMBT]?)", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_LEAST_PARAMS, _MOST_PARAMS = 1_000, 100 * 10**12

# Names in transformers' ``optim``, DeepSpeed's ``optimizer.type`` and everyday use.
OPTIMIZERS: Mapping[str, Optimizer] = {
    "adam": Optimizer.ADAMW,
    "adamw": Optimizer.ADAMW,
    "adamw_torch": Optimizer.ADAMW_FOREACH,
    "adamw_torch_fused": Optimizer.ADAMW,
    "adamw_foreach": Optimizer.ADAMW_FOREACH,
    "adamw_single": Optimizer.ADAMW_SINGLE,
    "adamw_8bit": Optimizer.ADAMW_8BIT,
    "adamw_bnb_8bit": Optimizer.ADAMW_8BIT,
    "adamw_torch_8bit": Optimizer.ADAMW_8BIT,
    "8bit": Optimizer.ADAMW_8BIT,
    "paged_adamw": Optimizer.PAGED_ADAMW,
    "paged_adamw_32bit": Optimizer.PAGED_ADAMW,
    "paged_adamw_8bit": Optimizer.PAGED_ADAMW_8BIT,
    "paged": Optimizer.PAGED_ADAMW_8BIT,
    "adafactor": Optimizer.ADAFACTOR,
    "lion": Optimizer.LION,
    "lion_32bit": Optimizer.LION,
    "lion_8bit": Optimizer.LION_8BIT,
    "sgd": Optimizer.SGD,
    "sgd_momentum": Optimizer.SGD_MOMENTUM,
    "muon": Optimizer.MUON,
}


def parse_params(text: str) -> int:
    """Read a number of parameters: ``7.6B``, ``350M``, ``7600000000``.

    Raises:
        InputError: No number, or absurdly small or large.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise InputError(f"--params: {text!r} is not a number of parameters such as 7.6B")
    count = round(float(match[1]) * _UNITS[match[2].upper()])
    if not _LEAST_PARAMS <= count <= _MOST_PARAMS:
        raise InputError(f"--params: {text!r} is not between 1K and 100T parameters")
    return count


def parse_choice(option: str, text: str, kind: type[E]) -> E:
    """Read one of an enum's words.

    Raises:
        InputError: It is none of them.
    """
    word = text.strip().lower()
    for member in kind:
        if member.value == word:
            return member
    known = ", ".join(str(member.value) for member in kind)
    raise InputError(f"{option}: {text!r} is none of {known}")


def parse_optimizer(option: str, text: str) -> Optimizer:
    """Read an optimizer's name, in envguard's, transformers' or DeepSpeed's spelling.

    Raises:
        InputError: It is not one that the planner has a formula for.
    """
    found = OPTIMIZERS.get(text.strip().lower().replace("-", "_"))
    if found is None:
        known = ", ".join(member.value for member in Optimizer)
        raise InputError(f"{option}: {text!r} is none of {known}")
    return found


def parse_offload(text: str, device: str) -> tuple[Place, Place]:
    """Read ``none``, ``optimizer`` or ``param,optimizer`` with the device they go to.

    Returns:
        The place of optimizer states, and of weights.

    Raises:
        InputError: Something else.
    """
    words = {word.strip().lower() for word in text.split(",") if word.strip()}
    place = parse_choice("--offload-device", device, Place)
    if place is Place.GPU:
        raise InputError("--offload-device: 'gpu' is none of cpu, nvme")
    if words in ({"none"}, set()):
        return Place.GPU, Place.GPU
    if words == {"optimizer"}:
        return place, Place.GPU
    if words in ({"param", "optimizer"}, {"params", "optimizer"}):
        return place, place
    raise InputError(f"--offload: {text!r} is none of none, optimizer, param,optimizer")


def parse_lora(text: str) -> Lora:
    """Read ``rank=16`` with ``targets=all-linear`` or ``targets=qv``.

    Raises:
        InputError: No rank, an unknown key, or a rank that is not a positive number.
    """
    words = dict(_pair(part) for part in text.split(",") if part.strip())
    rank = words.pop("rank", words.pop("r", ""))
    targets = words.pop("targets", "all-linear")
    if words:
        raise InputError(f"--lora: {min(words)!r} is none of rank, targets")
    if not (rank.isascii() and rank.isdigit() and 0 < int(rank) <= 65536):
        raise InputError(f"--lora: rank {rank!r} is not a whole number from 1 to 65536")
    if targets not in {"all-linear", "qv"}:
        raise InputError(f"--lora: targets {targets!r} is none of all-linear, qv")
    return Lora(int(rank), covers_all=targets == "all-linear")


def _pair(part: str) -> tuple[str, str]:
    name, sign, value = part.partition("=")
    if not sign:
        raise InputError(f"--lora: {part.strip()!r} is not name=value, such as rank=16")
    return name.strip().lower(), value.strip().lower()


def parse_quantized(text: str) -> Quantized:
    """Read ``nf4``, ``nf4-double`` or ``int8``."""
    return parse_choice("--quantize", text, Quantized)


def parse_version(option: str, text: str) -> Version:
    """Read a release number.

    Raises:
        InputError: It is none.
    """
    try:
        return Version(text)
    except ValueError as err:  # InvalidVersion, or more digits than Python reads
        raise InputError(f"{option}: {text!r} is not a version such as 0.17.2") from err


def positive(option: str, value: object, most: int) -> int:
    """A whole number from 1 to a bound.

    Raises:
        InputError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"{option}: {value!r} is not a whole number from 1 to {most}")
    return value
