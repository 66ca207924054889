from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.supervise.run import checkpoint_note, read_marker
from tests.crash.logs import MATRIX
from tests.crash.test_scan import scan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("names", "marker"),
    [
        ((), "hf_empty"),
        (("config.json",), "hf_empty"),
        (("model.safetensors", "config.json"), "hf_weights_no_optimizer"),
        (("model.safetensors", "optimizer.pt"), "hf_trainer_json"),
        (("model.safetensors", "global_step500"), "hf_trainer_json"),
        (("__0_0.distcp",), "dcp_metadata"),
        (("__0_0.distcp", ".metadata"), None),
        (("model.safetensors", "optimizer.pt", "trainer_state.json"), None),
    ],
)
def test_files_of_a_checkpoint_tell_where_its_save_died(
    tmp_path: Path, names: tuple[str, ...], marker: str | None
) -> None:
    for name in names:
        (tmp_path / name).touch()
    found = read_marker(tmp_path, MATRIX.signals)
    assert (found.id if found else None) == marker


def test_the_folder_is_the_one_that_the_log_names(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoint-5").mkdir(parents=True)
    hits = scan(b"Saving model checkpoint to out/checkpoint-5\n").hits["phase:save"]
    (note,) = checkpoint_note(hits, tmp_path, MATRIX.signals)
    assert note.startswith("checkpoint-5: checkpoint-N exists, no weights in it; died while")
    assert checkpoint_note(hits, tmp_path / "elsewhere", MATRIX.signals) == ()
