from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.machine import Platform
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile
from tests.ingest.samples import SAMPLES

LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.12"))
TEXT = (SAMPLES / "locks" / "pdm" / "pdm.lock").read_text()


def test_other_groups_are_left_out() -> None:
    environment = load_lockfile("pdm.lock", TEXT, target=LINUX).environment
    assert [d.name for d in environment.distributions or ()] == ["accelerate", "torch"]


def test_entry_that_repeats_another_with_extras_does_not_count() -> None:
    again = '[[package]]\nname = "accelerate"\nversion = "1.8.1"\nextras = ["x"]\n'
    text = TEXT + again + 'groups = ["default"]\n'
    environment = load_lockfile("pdm.lock", text, target=LINUX).environment
    assert [d.name for d in environment.distributions or ()] == ["accelerate", "torch"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('version = "1.8.1"', "", r"pdm\.lock:13: package\[0\]: version is missing"),
        ('name = "accelerate"', "", r"package\[0\]\.name is missing"),
        ('groups = ["gpu"]', "groups = 3", "groups: expected a list of strings"),
        ('marker = "sys', 'marker = "(sys', "marker '\\(sys"),
        ("[metadata]", "[metadata", "not valid TOML"),
    ],
)
def test_errors_name_file_and_place(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_lockfile("pdm.lock", TEXT.replace(old, new, 1))
    assert caught.value.message.startswith("pdm.lock")
