"""Files that users name are read within their limit, whatever lies behind the name."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING

import pytest

from envguard.cli.main import main
from envguard.errors import InputError
from envguard.files import is_file, is_folder, read_bounded, read_utf8

if TYPE_CHECKING:
    from pathlib import Path

STATED = ("--gpu", "Tesla V100", "--driver", "535.104.05", "--platform", "linux-x86_64")
PLAN = ("--gpus", "1", "--gpu-memory", "80", "--host-memory", "512")
# How each reader of a named file is reached; the name comes in place of {}.
READERS = {
    "plan --model": ("plan", "--model", "{}", *PLAN),
    "plan --config": ("plan", "--params", "7B", "--config", "{}", *PLAN),
    "plan --machine": ("plan", "--params", "7B", "--gpus", "1", "--machine", "{}"),
    "plan --from-run": ("plan", "--params", "7B", *PLAN, "--from-run", "{}"),
    "check --from": ("check", "--from", "{}"),
    "check --machine": ("check", "torch==2.7.1", "--machine", "{}"),
    "check LOCK": ("check", "{}", *STATED),
    "matrix show": ("matrix", "show", "torch", "--machine", "{}"),
    "lock -r": ("lock", "-r", "{}", *STATED, "--python-version", "3.12", "--offline"),
    "diagnose --from": ("diagnose", "--exit-code", "-9", "--from", "{}"),
    "diagnose LOG": ("diagnose", "{}"),
}
NAMES = {"check LOCK": "requirements.txt", "plan --config": "config.yaml"}


def run(reader: str, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that reads a name, which it must refuse in one line."""
    capsys.readouterr()
    assert main([word.replace("{}", name) for word in READERS[reader]]) == 2
    said = capsys.readouterr().err
    assert said.startswith("envguard: error: ")
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if "  hint:" not in line]) == 1
    return said


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device without end")  # noqa: PTH110 - a device
@pytest.mark.parametrize("reader", sorted(READERS))
def test_a_device_without_end_is_left_at_the_limit(
    reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / NAMES.get(reader, "endless.json")
    path.symlink_to("/dev/zero")
    run(reader, str(path), capsys)


@pytest.mark.parametrize("reader", sorted(READERS))
def test_what_is_no_file_is_one_clear_error(
    reader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / NAMES.get(reader, "folder.json")
    folder.mkdir()
    circle = tmp_path / f"circle-{NAMES.get(reader, 'x.json')}"
    circle.symlink_to(circle)
    long = str(tmp_path / ("x" * 5000 + ".txt"))
    for name in (str(folder), str(circle), long):
        run(reader, name, capsys)


def test_a_pipe_is_read_to_its_end_or_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for size in (10, 11):
        writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * size,))
        writer.start()
        if size == 10:
            assert read_bounded(pipe, 10) == b"x" * 10
        else:
            with pytest.raises(InputError, match="larger than 10 bytes"):
                read_bounded(pipe, 10)
        writer.join()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all files")
def test_a_forbidden_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(InputError, match="cannot be read: permission denied"):
        read_utf8(path, 100)


def test_a_text_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"{}\xff")
    with pytest.raises(InputError, match=r"x\.json: is not UTF-8 text: byte 2"):
        read_utf8(path, 100)
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_utf8(path, 100) == "{}"


def test_names_that_can_be_none_are_neither_file_nor_folder() -> None:
    for name in ("x" * 5000, "a\0b", "\ud800", ""):
        assert not is_file(name)
        assert not is_folder(name)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ('{"zero_optimization": {"stage": [3]}}', "stage: [3] is none of 0, 1, 2, 3"),
        (
            '{"zero_optimization": {"stage": 3, "offload_param": {"device": {"a": 1}}}}',
            "offload_param.device: {'a': 1} is none of none, cpu, nvme",
        ),
        (
            '{"zero_optimization": {"stage": 3, "reduce_bucket_size": 1' + "0" * 400 + "}}",
            "reduce_bucket_size: 1000",
        ),
        (
            '{"zero_optimization": {"stage": 3, "stage": 1}}',
            "states 'stage' twice in one object, and DeepSpeed refuses such a file",
        ),
        ('{"output_dir": "o", "deepspeed": "' + "x" * 5000 + '"}', "which is not there"),
    ],
    ids=["a list", "an object", "400 digits", "twice", "a long name"],
)
def test_a_configuration_with_a_wrong_value_is_refused(
    document: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ds.json"
    path.write_text(document)
    assert words in run("plan --config", str(path), capsys)


def test_a_key_that_is_stated_twice_elsewhere_is_no_concern_of_deepspeed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "arguments.json"
    path.write_text('{"output_dir": "a", "output_dir": "b", "bf16": true}')
    assert main(["plan", "--params", "1B", "--config", str(path), *PLAN]) in {0, 3}
    assert "error" not in capsys.readouterr().err


@pytest.mark.parametrize("size", [0, 1, -2, 10**400, True, "16", None, [2]])
def test_an_index_without_a_size_of_a_model_is_refused(
    size: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.safetensors.index.json"
    document = {"metadata": {"total_size": size}, "weight_map": {"a": "b"}}
    path.write_text(json.dumps(document))
    assert "metadata.total_size" in run("plan --model", str(path), capsys)


@pytest.mark.parametrize("platform", ["macos-aarch64", "macos-x86_64", "windows-aarch64"])
@pytest.mark.parametrize("gpu", [(), ("--gpu", "H100")])
def test_a_platform_without_cuda_builds_is_shown(
    platform: str, gpu: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", "show", "torch", "--platform", platform, *gpu]) == 0
    assert f"CUDA build is recorded for {platform}" in capsys.readouterr().out
