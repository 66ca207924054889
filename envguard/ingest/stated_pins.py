"""Pins as words (``torch==2.7.1+cu128``), turned into an environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import (
    BuildOrigin,
    Distribution,
    Environment,
    TorchBuild,
    label_of_url,
    label_of_version,
)
from envguard.facts.versions import refuse_long_numbers
from envguard.redaction import clean_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.specifiers import SpecifierSet


def parse_pin(word: str) -> Distribution:
    """Read one pin.

    Args:
        word: ``name==version``, ``name===version`` or ``name @ wheel URL``.

    Raises:
        InputError: No requirement, or one that is not exact.
    """
    try:
        requirement = Requirement(refuse_long_numbers(clean_addresses(word)))
    except (ValueError, RecursionError) as err:
        reason = str(err).splitlines()[0].rstrip(":").lower()
        raise InputError(f"{word!r} is not a requirement: {reason}") from err
    if requirement.marker is not None:
        raise InputError(
            f"{word!r} has a marker, and a pin given as a word is judged as it is",
            hint="leave out what follows the semicolon, or put the pin into a requirements file",
        )
    name = canonicalize_name(requirement.name)
    if requirement.url:
        return Distribution(name, _version_in_url(requirement.url), url=requirement.url)
    return Distribution(name, _exact_version(word, requirement.specifier))


def _exact_version(word: str, specifier: SpecifierSet) -> Version:
    bounds = list(specifier)
    if len(bounds) == 1 and bounds[0].operator in {"==", "==="}:
        try:
            return Version(bounds[0].version)
        except ValueError:
            pass  # ==2.7.* falls through to the message below
    raise InputError(
        f"{word!r} is not an exact pin such as torch==2.7.1+cu128",
        hint="`envguard lock` chooses versions for open requirements",
    )


def _version_in_url(url: str) -> Version | None:
    filename = url.split("#")[0].rsplit("/", 1)[-1].replace("%2B", "+").replace("%2b", "+")
    parts = filename.removesuffix(".whl").split("-")
    try:
        return Version(parts[1]) if filename.endswith(".whl") and len(parts) >= 5 else None
    except ValueError:
        return None


def torch_of_pin(pin: Distribution, origin: BuildOrigin) -> TorchBuild:
    """The torch build behind a pin, as far as its label, URL and index tell.

    A pin without any of them is left open: what it is depends on the platform's default index,
    which the matrix knows.
    """
    label = label_of_version(pin.version)
    for url in (pin.url, pin.index_url):
        if label.accelerator is None and url:
            label = label_of_url(url)
    return TorchBuild(
        version=pin.version,
        accelerator=label.accelerator,
        cuda=label.cuda,
        origin=origin,
        index_url=pin.index_url or pin.url,
    )


def environment_of_pins(
    pins: Sequence[Distribution], origin: BuildOrigin = BuildOrigin.PIN
) -> Environment:
    """An environment that holds these distributions, sorted by name, and what they require."""
    ordered = tuple(sorted(pins, key=lambda pin: pin.name))
    torch = next((pin for pin in ordered if pin.name == "torch"), None)
    build = torch_of_pin(torch, origin) if torch is not None else None
    return Environment(distributions=ordered, torch=build, is_open=True)


def add_pins(environment: Environment | None, words: Sequence[str]) -> Environment:
    """Lay pins over an environment: a what-if on what is installed."""
    pins = [parse_pin(word) for word in words]
    _check_named_once(pins, words)
    stated = environment_of_pins(pins)
    if environment is None:
        return stated
    names = {pin.name for pin in pins}
    kept = [d for d in environment.distributions or () if d.name not in names]
    merged = tuple(sorted([*kept, *pins], key=lambda d: d.name))
    return replace(environment, distributions=merged, torch=stated.torch or environment.torch)


def _check_named_once(pins: Sequence[Distribution], words: Sequence[str]) -> None:
    """Refuse two pins of one distribution: which of them is meant?"""
    seen: dict[str, str] = {}
    for pin, word in zip(pins, words, strict=True):
        if pin.name in seen:
            raise InputError(f"{pin.name} is pinned twice: {seen[pin.name]!r} and {word!r}")
        seen[pin.name] = word
