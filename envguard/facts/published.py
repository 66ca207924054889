"""What a package registry says about a release."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version


@dataclass(frozen=True, slots=True)
class Published:
    """One release, as its index and the metadata of one of its wheels say.

    Args:
        name: Normalised name.
        version: The release.
        requires_python: As the metadata state it; empty when they do not.
        requires: Requirements as the metadata state them, with extras and markers.
        wheels: Names of its wheels; empty when it has none or they were not listed.
        released: ISO date of the first upload, empty when not listed.
        is_yanked: It was withdrawn; None when nobody says.
    """

    name: str
    version: Version
    requires_python: str
    requires: tuple[str, ...]
    wheels: tuple[str, ...] = ()
    released: str = ""
    is_yanked: bool | None = False
