from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.machine import Platform
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile

if TYPE_CHECKING:
    from envguard.facts.environment import Environment

LINUX = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.12"))
TAIL = '[metadata]\nlock-version = "2.1"\npython-versions = "^3.11"\ncontent-hash = "0"\n'


def load(text: str) -> Environment:
    return load_lockfile("poetry.lock", text + TAIL, target=LINUX).environment


def package(more: str, name: str = "torch", version: str = "2.7.1") -> str:
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\noptional = false\n{more}\n'


def test_markers_by_group_hold_if_one_does() -> None:
    markers = "markers = {main = \"sys_platform == 'win32'\", dev = \"sys_platform == 'linux'\"}"
    assert load(package(markers)).distribution("torch") is not None


def test_files_of_the_first_format_stand_in_the_metadata() -> None:
    text = package("") + TAIL.replace("2.1", "1.1") + "[metadata.files]\n"
    text += 'torch = [{file = "torch-2.7.1+cu128-cp312-cp312-linux_x86_64.whl", hash = "x"}]\n'
    environment = load_lockfile("poetry.lock", text, target=LINUX).environment
    assert environment.torch is not None
    assert str(environment.torch.cuda) == "12.8"


def test_address_of_a_wheel_is_direct() -> None:
    url = "https://download.pytorch.org/whl/cu118/torch-2.7.1%2Bcu118-cp312-cp312-linux_x86_64.whl"
    environment = load(package(f'[package.source]\ntype = "url"\nurl = "{url}"\n'))
    torch = environment.distribution("torch")
    assert torch is not None
    assert torch.url == url
    assert environment.torch is not None
    assert str(environment.torch.cuda) == "11.8"


def test_no_source_is_the_default_index() -> None:
    environment = load(package(""))
    assert environment.torch is not None
    assert environment.torch.index_url is None
    assert environment.torch.accelerator is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (package("markers = 3"), "markers is a number, expected a string"),
        (package('markers = "nonsense"'), "markers 'nonsense'"),
        (package("", version=""), r"poetry\.lock:1: package\[0\]: version is missing"),
        ("[[package]]\nversion = '1'\n", r"poetry\.lock:1: package\[0\]\.name is missing"),
        (package("files = 3"), "files is a number, expected a list"),
        ("extras = 3\n", "poetry.lock.extras is a number, expected a table"),
        ("[extras]\ncpu = 3\n", "extras.cpu: expected a list of strings"),
    ],
)
def test_errors_name_file_and_place(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load(text)
    assert caught.value.message.startswith("poetry.lock")
