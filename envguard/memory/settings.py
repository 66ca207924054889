"""Settings from files and options: parsed, where each was stated, and when two contradict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.errors import DocumentError, InputError
from envguard.memory.job import (
    Attention,
    Lora,
    Loss,
    Method,
    Optimizer,
    Placement,
    Precision,
    Quantized,
    Recompute,
    Reference,
    Rollout,
    SaveMode,
    Strategy,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


E = TypeVar("E", bound=Enum)

_COUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMBT]?)", re.IGNORECASE)
_SHARE = re.compile(r"0?\.[0-9]{1,9}|[01](?:\.0{1,9})?")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_LEAST_PARAMS, _MOST_PARAMS = 1_000, 100 * 10**12

# Names in transformers' ``optim``, DeepSpeed's ``optimizer.type`` and everyday use.
OPTIMIZERS: Mapping[str, Optimizer] = {
    "adam": Optimizer.ADAMW,
    "adamw": Optimizer.ADAMW,
    "adamw_torch": Optimizer.ADAMW_FOREACH,
    "adamw_torch_fused": Optimizer.ADAMW_FUSED,
    "adamw_fused": Optimizer.ADAMW_FUSED,
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
    "paged_lion_8bit": Optimizer.PAGED_LION_8BIT,
    "adamw_4bit": Optimizer.ADAMW_4BIT,
    "adamw_torch_4bit": Optimizer.ADAMW_4BIT,
    "galore_adamw": Optimizer.GALORE,
    "sgd": Optimizer.SGD,
    "sgd_momentum": Optimizer.SGD_MOMENTUM,
    "muon": Optimizer.MUON,
}


def parse_params(text: str, option: str = "--params") -> int:
    """Read a number of parameters: ``7.6B``, ``350M``, ``7600000000``.

    Raises:
        InputError: No number, or absurdly small or large.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option}: {text!r} is not a number of parameters such as 7.6B")
    count = round(float(match[1]) * _UNITS[match[2].upper()])
    if not _LEAST_PARAMS <= count <= _MOST_PARAMS:
        raise InputError(f"{option}: {text!r} is not between 1K and 100T parameters")
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


def parse_offload(text: str, device: str) -> tuple[Placement, Placement]:
    """Read ``none``, ``optimizer`` or ``param,optimizer`` with the device they go to.

    Returns:
        The place of optimizer states, and of weights.

    Raises:
        InputError: Something else.
    """
    words = {word.strip().lower() for word in text.split(",") if word.strip()}
    place = parse_choice("--offload-device", device, Placement)
    if place is Placement.GPU:
        raise InputError("--offload-device: 'gpu' is none of cpu, nvme")
    if words in ({"none"}, set()):
        return Placement.GPU, Placement.GPU
    if words == {"optimizer"}:
        return place, Placement.GPU
    if words in ({"param", "optimizer"}, {"params", "optimizer"}):
        return place, place
    raise InputError(f"--offload: {text!r} is none of none, optimizer, param,optimizer")


def parse_lora(text: str) -> Lora:
    """Read ``rank=16`` with ``targets=all-linear|qv``, ``dropout=0.05``, ``dora=true``.

    Raises:
        InputError: No rank, an unknown key, or a value that its key does not take.
    """
    words = dict(_pair(part) for part in text.split(",") if part.strip())
    rank = words.pop("rank", words.pop("r", ""))
    targets = words.pop("targets", "all-linear")
    dropout, dora = words.pop("dropout", None), words.pop("dora", "false")
    if words:
        raise InputError(f"--lora: {min(words)!r} is none of rank, targets, dropout, dora")
    if not (rank.isascii() and rank.isdigit() and 0 < int(rank) <= 65536):
        raise InputError(f"--lora: rank {rank!r} is not a whole number from 1 to 65536")
    if targets not in {"all-linear", "qv"}:
        raise InputError(f"--lora: targets {targets!r} is none of all-linear, qv")
    if dora not in {"true", "false"}:
        raise InputError(f"--lora: dora {dora!r} is none of true, false")
    has_dropout = None if dropout is None else _share("--lora: dropout", dropout) > 0
    return Lora(int(rank), targets == "all-linear", has_dropout, dora == "true")


def _share(place: str, text: str) -> float:
    if not _SHARE.fullmatch(text):
        raise InputError(f"{place}: {text!r} is not a number from 0 to 1")
    return float(text)


def _pair(part: str) -> tuple[str, str]:
    name, sign, value = part.partition("=")
    if not sign:
        raise InputError(f"--lora: {part.strip()!r} is not name=value, such as rank=16")
    return name.strip().lower(), value.strip().lower()


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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A value and the option or field that states it, or whose default it is."""

    value: object
    where: str
    is_default: bool = False


@dataclass(slots=True)
class Settings:
    """Values by name; a name that is missing is not stated.

    Args:
        values: What is stated.
        autos: Names that a DeepSpeed configuration leaves to transformers (``"auto"``).
        notes: Remarks for the reader.
    """

    values: dict[str, StatedValue] = field(default_factory=dict)
    autos: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def state(self, name: str, value: object, where: str, *, is_default: bool = False) -> None:
        """State a value; None states nothing.

        Args:
            name: Of the setting.
            value: Its value.
            where: The option or field.
            is_default: A file leaves it out, and this is what its framework takes then.

        Raises:
            InputError: Another value is stated already.
        """
        if value is None:
            return
        old = self.values.get(name)
        if old is not None and old.value != value:
            raise InputError(
                f"{where} is {_text(value)}, but {old.where} is {_text(old.value)}",
                hint="state it once, or the same in both places",
            )
        if old is None:
            self.values[name] = StatedValue(value, where, is_default)

    def overrule(self, name: str, value: object, where: str) -> None:
        """State a value over a default; what a file states outright still contradicts it."""
        old = self.values.get(name)
        if value is not None and old is not None and old.is_default:
            del self.values[name]
        self.state(name, value, where)

    def get(self, name: str, kind: type[T]) -> T | None:
        """A value of a known kind, or None."""
        stated = self.values.get(name)
        if stated is None:
            return None
        if not isinstance(stated.value, kind):
            raise InputError(f"{stated.where}: {stated.value!r} is not usable here")
        return stated.value

    def where(self, name: str) -> str:
        """Who states it, or an empty text."""
        stated = self.values.get(name)
        return stated.where if stated else ""


def _text(value: object) -> str:
    return f"{getattr(value, 'value', value)!s:.60}"


def merge_settings(parts: Iterable[Settings]) -> Settings:
    """Put settings together.

    Raises:
        InputError: Two of them state different values for one thing.
    """
    whole = Settings()
    for part in parts:
        for name, stated in part.values.items():
            whole.state(name, stated.value, stated.where, is_default=stated.is_default)
        whole.autos |= part.autos
        whole.notes += part.notes
    return whole


Object = Mapping[str, object]


def stated_section(document: Object, name: str, where: str) -> Object | None:
    """An object inside a document; None where it is missing or null.

    Args:
        document: The decoded object around it.
        name: Its key.
        where: Name and place of the document, the start of the message.

    Raises:
        DocumentError: It is something else.
    """
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise DocumentError(f"{where}: {name}: expected an object, found {shown(value)}")
    return value


def stated_flag(value: object, place: str) -> bool:
    """A truth value.

    Raises:
        DocumentError: It is something else.
    """
    if not isinstance(value, bool):
        raise DocumentError(f"{place}: expected true or false, found {shown(value)}")
    return value


def stated_text(value: object, place: str) -> str:
    """A text.

    Raises:
        DocumentError: It is something else.
    """
    if not isinstance(value, str):
        raise DocumentError(f"{place}: expected a text, found {shown(value)}")
    return value


def stated_number(
    value: object, place: str, *, least: int, most: int, what: str = "a whole number"
) -> int:
    """A whole number; ``1e9``, which JSON knows as a float, is one too.

    Args:
        value: What the file holds.
        place: Of the value, the start of the message.
        least: Smallest number taken.
        most: Largest number taken.
        what: What is meant, for the message.

    Raises:
        DocumentError: It is something else, or out of bounds.
    """
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise DocumentError(f"{place}: {shown(value)} is not {what} from {least} to {most}")
    return number


def stated_choice(value: object, place: str, choices: Mapping[str | int, T]) -> T:
    """What one of a few words or numbers stands for.

    Args:
        value: What the file holds.
        place: Of the value, the start of the message.
        choices: Meanings by word or number.

    Raises:
        DocumentError: It is none of them.
    """
    # true equals 1 where keys are compared
    is_key = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_key or value not in choices:
        known = ", ".join(map(str, choices))
        raise DocumentError(f"{place}: {shown(value)} is none of {known}")
    return choices[value]  # type: ignore[index]  # proven a text or a number


def shown(value: object) -> str:
    """A value of any size as messages show it."""
    return f"{value!r:.40}"


_MOST: Mapping[str, int] = {
    "gpus": 1_000_000,
    "nodes": 1_000_000,
    "micro-batch": 1_000_000,
    "accumulate": 1_000_000,
    "seq-len": 100_000_000,
    "rollout-sleep": 2,
    "rollout-gpus": 1024,
    "tensor-parallel": 1024,
    "context-parallel": 1024,
    "expert-parallel": 1024,
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
    "loss": ("loss", lambda option, text: parse_choice(option, text, Loss)),
    "method": ("method", lambda option, text: parse_choice(option, text, Method)),
    "reference": ("reference", lambda option, text: parse_choice(option, text, Reference)),
    "quantized": ("quantized", lambda option, text: parse_choice(option, text, Quantized)),
    "rollout": ("rollout", lambda option, text: parse_choice(option, text, Rollout)),
    "rollout-memory": ("rollout_memory", lambda option, text: _share(option, text)),
    "beside": ("beside", lambda option, text: parse_params(text, option)),
}
# Switch -> the setting it states.
_SWITCHES: Mapping[str, tuple[str, object]] = {
    "qlora": ("quantized", Quantized.NF4),
    "no-zero-init": ("zero_init", False),
    "fused-loss": ("loss", Loss.FUSED),
    "resume": ("resume", True),
    "expandable-segments": ("expandable", True),
    "offload-activations": ("activations_on", Placement.CPU),
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
