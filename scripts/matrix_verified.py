"""What was read in real wheels: kept in a file, and laid over what the facts say."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.versions import CodeKind
from envguard.matrix.wheel_rows import bare, gpu_requirements, triton_marker
from scripts.matrix_format import render_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from envguard.facts.torch_wheel import TorchWheel

Row = dict[str, Any]

VERIFIED = Path(__file__).with_name("matrix_verified.toml")
_HEADER = """Wheels of torch that were read, by name; derive_matrix.py lays them over the facts.
Written by scripts/verify_binary.py --record."""


class VerifiedError(ValueError):
    """A wheel says otherwise than a fact about several builds, which has to be split first."""


@dataclass(frozen=True)
class Verified:
    """The wheels that were read.

    Args:
        wheels: One row for each, as :func:`wheel_row` makes it.
    """

    wheels: tuple[Row, ...] = ()

    @classmethod
    def load(cls, path: Path = VERIFIED) -> Verified:
        """Read the file; a missing one holds no wheel."""
        if not path.is_file():
            return cls()
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["wheel"]
        return cls(tuple(_with_lists(row) for row in rows))

    def of(self, torch: str, platform: str) -> Row | None:
        """The wheel of a release for a platform, or None."""
        named = (torch, platform)
        return next((w for w in self.wheels if (w["torch"], w["platform"]) == named), None)

    def correct(self, row: Row, torch: str, platform: str, fields: Sequence[str]) -> Row:
        """Let a row of one release say what the wheel says.

        Args:
            row: The row; it is changed.
            torch: Its release.
            platform: Its platform.
            fields: Those that a wheel tells and the row may hold.
        """
        wheel = self.of(torch, platform)
        for name in fields if wheel else ():
            if wheel and name in wheel and (name in row or wheel[name]):
                row[name] = wheel[name]
        return row

    def attest(self, row: Row, releases: Iterable[str], platform: str) -> Row:
        """Name the wheels among a row's sources; a row whose every release was read is binary.

        Args:
            row: The row; it is changed.
            releases: Those that it stands for.
            platform: Its platform.
        """
        found = [self.of(torch, platform) for torch in releases]
        keys = [source_key(wheel) for wheel in found if wheel]
        if all(found):
            row["source"], row["confidence"] = [*keys, *row["source"]], "binary"
        else:
            row["source"] = [*row["source"], *keys]
        return row

    def attest_targets(self, row: Row) -> Row:
        """Likewise for a row of code targets, which also belongs to backends.

        A wheel without an architecture string (torch before 1.6) tells what it holds, not which
        of it is torch's own.

        Raises:
            VerifiedError: A wheel holds other targets.
        """
        found = [self.of(torch, row["platform"]) for torch in row["torch"]]
        read = [wheel for wheel in found if wheel and wheel["backend"] in row["backends"]]
        for wheel in read:
            held = wheel.get("targets") or [*wheel["cubins"], *wheel["ptx"]]
            missing = set(row["targets"]) - set(held)
            if missing or ("targets" in wheel and len(held) != len(row["targets"])):
                raise VerifiedError(f"{wheel['file']} holds {' '.join(held)}: split its fact")
        if len(read) == len(found) and len(row["backends"]) == 1:
            return self.attest(row, row["torch"], row["platform"])
        row["source"] = [*row["source"], *map(source_key, read)]
        return row

    def addresses(self) -> dict[str, tuple[str, str]]:
        """The name of every wheel and the date of its reading, by source key."""
        return {source_key(wheel): (wheel["file"], wheel["read"]) for wheel in self.wheels}


def _with_lists(row: Row) -> Row:
    """The lists that tables hold as one text."""
    return {k: v.split() if k in {"tags", "targets"} else v for k, v in row.items()}


def source_key(wheel: Row) -> str:
    """The key of a wheel among a table's sources: ``wheel-2_6_0-x86_64``."""
    arch = wheel["platform"].partition("-")[2]
    return f"wheel-{wheel['torch'].replace('.', '_')}-{arch}"


def wheel_row(wheel: TorchWheel, read: str) -> Row:
    """What is kept of a wheel; what was not read is left out.

    Args:
        wheel: The wheel.
        read: ISO date.
    """
    requires = gpu_requirements(wheel.requires)
    pins = {r.name: str(r.specifier) for r in requires}
    row: Row = {
        "torch": str(wheel.version),
        "platform": str(wheel.platform),
        "file": wheel.file,
        "read": read,
        "requires_python": str(SpecifierSet(wheel.requires_python)),
        "backend": "" if wheel.backend is None else str(wheel.backend),
        "commit": wheel.commit or "",
        "requires": sorted(map(bare, requires)),
        "triton_marker": triton_marker(requires),
        "tags": list(wheel.tags),
    }
    if "triton" in pins:
        row["triton"] = pins["triton"]
    for name, pin in pins.items():
        if name.startswith(("nvidia-cudnn-", "nvidia-nccl-")):
            row[name.split("-")[1]] = pin.removeprefix("==")
    if wheel.glibc is not None and not wheel.unread:
        row["glibc"] = str(wheel.glibc)
    if wheel.cxx11_abi is not None:
        row["cxx11_abi"] = wheel.cxx11_abi
    if wheel.arch_flags and wheel.code is not None:
        ptx = [t for t, _ in wheel.code if t.kind is CodeKind.PTX]
        row["targets"] = [str(target) for target in (*wheel.arch_flags, *sorted(ptx))]
    if wheel.code is not None:
        row["cubins"] = {str(t): n for t, n in wheel.code if t.kind is CodeKind.CUBIN}
        row["ptx"] = {str(t): n for t, n in wheel.code if t.kind is CodeKind.PTX}
    return row


def record(wheels: Iterable[TorchWheel], read: str, path: Path) -> None:
    """Add wheels to a file; one that was read before is replaced.

    Args:
        wheels: The wheels; one of which a library was not read is passed over.
        read: ISO date.
        path: The file.
    """
    rows = {source_key(row): row for row in Verified.load(path).wheels}
    for wheel in wheels:
        if not wheel.unread:
            row = wheel_row(wheel, read)
            rows[source_key(row)] = row
    ordered = sorted(rows.values(), key=lambda row: (Version(row["torch"]), row["platform"]))
    text = render_table(_HEADER, {}, {"wheel": ordered}, {}, read)
    path.write_text(text, encoding="utf-8", newline="\n")
