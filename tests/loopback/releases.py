"""Prebuilt wheels as GitHub releases hold them: real names, invented contents."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tests.loopback.files import Served, wheel

_FLASH = "Dao-AILab/flash-attention"
_CONV = "Dao-AILab/causal-conv1d"
_MAMBA = "state-spaces/mamba"


@cache
def release_files() -> dict[tuple[str, str], list[Served]]:
    """Repository and tag -> files."""
    return {
        (_FLASH, "v2.8.3"): [
            _prebuilt("flash-attn", "2.8.3", f"cu12torch{torch}cxx11abi{abi}", python, ("einops",))
            for torch in ("2.6", "2.7", "2.8")
            for abi in ("TRUE", "FALSE")
            for python in ("cp311", "cp312", "cp313")
        ]
        + [_prebuilt("flash-attn", "2.8.3", "cu12torch2.9cxx11abiTRUE", "cp312", ("einops",))],
        (_FLASH, "v2.8.3.post2"): [],
        (_CONV, "v1.7.0"): [
            _prebuilt("causal-conv1d", "1.7.0", "cu12torch2.13cxx11abiTRUE", python, ("einops",))
            for python in ("cp311", "cp312", "cp313")
        ],
        # The tag is newer than the version of the wheels in it, and states no digests.
        (_CONV, "v1.6.1.post4"): [
            replace(
                _prebuilt("causal-conv1d", "1.6.1", f"cu12torch{torch}cxx11abiTRUE", "cp312", ()),
                is_digest_told=False,
            )
            for torch in ("2.8", "2.9", "2.10")
        ],
        (_MAMBA, "v2.3.2.post1"): [
            _prebuilt("mamba-ssm", "2.3.2.post1", "cu13torch2.10cxx11abiTRUE", "cp312", ("einops",))
        ],
    }


def _prebuilt(
    name: str, version: str, label: str, python: str, requires: tuple[str, ...]
) -> Served:
    """A wheel that was renamed after it was built: its metadata know nothing of the label."""
    made = wheel(name, version, f"{python}-{python}-linux_x86_64", ("torch", *requires))
    return replace(made, filename=made.filename.replace(f"-{version}-", f"-{version}+{label}-"))
