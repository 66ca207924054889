"""What an unfinished checkpoint folder tells about where a save died."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.files import is_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from envguard.crash.log import Hit
    from envguard.matrix.signal_rows import SaveMarker
    from envguard.matrix.signals_table import SignalsTable

_PLACE = re.compile(r"Saving model checkpoint to (\S{1,400})")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_OPTIMIZER = ("optimizer.pt", "optimizer.bin")


def find_checkpoint(hits: Iterable[Hit], cwd: Path) -> Path | None:
    """The folder that the log says was being written last, if it is here."""
    for hit in hits:
        match = _PLACE.search(hit.text)
        if match is not None and is_folder(cwd / match[1]):
            return cwd / match[1]
    return None


def read_marker(folder: Path, table: SignalsTable) -> SaveMarker | None:
    """What the files of a checkpoint folder say about its save; None when it looks whole.

    Args:
        folder: E.g. ``out/checkpoint-500``.
        table: Holds what each observation means.
    """
    name = _observe({path.name for path in folder.iterdir()})
    return next((row for row in table.save_markers if row.id == name), None)


def _observe(names: set[str]) -> str:
    has_weights = any(n.endswith(_WEIGHTS) and n not in _OPTIMIZER for n in names)
    has_optimizer = bool(names & set(_OPTIMIZER)) or any(n.startswith("global_step") for n in names)
    if any(n.endswith(".distcp") for n in names):
        return "" if ".metadata" in names else "dcp_metadata"
    if not has_weights and not has_optimizer:
        return "hf_empty"
    if has_weights and not has_optimizer:
        return "hf_weights_no_optimizer"
    return "" if "trainer_state.json" in names else "hf_trainer_json"


def checkpoint_note(hits: Iterable[Hit], cwd: Path, table: SignalsTable) -> tuple[str, ...]:
    """A remark on the checkpoint that was being written; empty when there is none to make."""
    folder = find_checkpoint(hits, cwd)
    marker = read_marker(folder, table) if folder is not None else None
    if folder is None or marker is None:
        return ()
    return (f"{folder.name}: {marker.observation}; {marker.means}",)
