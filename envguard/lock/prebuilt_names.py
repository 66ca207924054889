"""Names of prebuilt wheels: the torch, CUDA, C++ ABI and Python that they were made for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import Version

_FILE = re.compile(
    r"[A-Za-z0-9_]+-(?P<version>[^-+]+)\+cu(?P<cuda>\d+)torch(?P<torch>\d+\.\d+)"
    r"cxx11abi(?P<abi>TRUE|FALSE)-(?P<python>cp\d+)-cp\d+-(?P<platform>[a-z0-9_]+)\.whl",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Combination:
    """What a prebuilt wheel was made for, in the words of its name.

    Args:
        release: Release of the package, which names the tag.
        torch: Major and minor of torch: ``2.8``.
        cuda: Label without ``cu``: ``12`` or ``122``.
        cxx11_abi: Whether it uses the new C++ ABI.
        python: ``cp312``.
        platform: ``linux_x86_64``.
    """

    release: Version
    torch: str
    cuda: str
    cxx11_abi: bool
    python: str
    platform: str

    @property
    def words(self) -> str:
        """For a sentence: ``torch 2.8, CUDA 12, cp312``."""
        abi = "" if self.cxx11_abi else ", old C++ ABI"
        return f"torch {self.torch}, CUDA {self.cuda[:2]}{abi}, {self.python}"


def parse_file_name(name: str) -> Combination | None:
    """Read what a prebuilt wheel was made for out of its name; None where it does not say."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    return Combination(
        Version(match["version"]),
        match["torch"],
        match["cuda"],
        match["abi"].upper() == "TRUE",
        match["python"],
        match["platform"],
    )
