"""None"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from envguard.crash.memory_use import RunMemory, add_gpu_reading, add_sample
from envguard.crash.samples import CgroupUse, ProcessUse, Sample
from envguard.errors import DocumentError, InputError
from envguard.facts.facts import Facts
from envguard.ingest.stated_pins import add_pins
from envguard.supervise.compare import compare_runs, job_of, last_that_worked, shorten
from envguard.supervise.run_record import (
    ConfigFile,
    RunContext,
    RunWriter,
    gather_context,
    interpreter_of,
    load_record,
)

if TYPE_CHECKING:
    from pathlib import Path


GIB = 2**30


def sample(t: float, *sizes: int, kills: int = 0) -> Sample:
    uses = tuple(
        ProcessUse(100 + n, str(n), "python", size, 0, None) for n, size in enumerate(sizes)
    )
    group = CgroupUse(sum(sizes), 8 * GIB, 0, 0, kills)
    return Sample(t, uses, group, 20 * GIB, 0, 1, 2)


def context(*words: str, pins: tuple[str, ...] = ("torch==2.6.0+cu124",)) -> RunContext:
    facts = Facts(environment=add_pins(None, pins))
    files = (ConfigFile("ds.json", "0" * 64, 2, "{}"),)
    return RunContext(words or ("python", "train.py"), ".", "now", files, {"OMP": "1"}, facts)


def write(folder: Path, begun: RunContext, *, status: int | None) -> None:
    writer = RunWriter(folder)
    writer.begin(begun)
    writer.output(b"hello\n")
    writer.sample(sample(1.0, GIB, GIB), "train")
    writer.phase("save", "envguard.phase")
    writer.sample(sample(2.0, 3 * GIB, GIB, kills=1), "save")
    writer.gpus([{"gpu": 0, "total": 10, "used": 5, "held": {"100": 4, "9": 1}}])
    if status is not None:
        writer.end({"status": status, "returncode": status})


def test_a_record_is_read_back(tmp_path: Path) -> None:
    write(tmp_path / "1", context(), status=137)
    record = load_record(tmp_path / "1")
    assert record.command == ("python", "train.py")
    assert (record.phase, record.phase_origin) == ("save", "envguard.phase")
    assert record.files == {"ds.json": "0" * 64}
    assert record.facts.environment is not None
    assert record.output_parts[0].read_bytes() == b"hello\n"
    assert not record.worked
    assert (record.memory.kills, record.memory.peak_phase) == (1, "save")
    assert record.memory.gpu_peaks == {0: 4}
    kept = list((tmp_path / "1" / "files").iterdir())
    assert [path.read_text() for path in kept] == ["{}"]


def test_a_record_whose_writer_was_killed_is_read_to_the_last_whole_line(tmp_path: Path) -> None:
    write(tmp_path / "1", context(), status=None)
    with (tmp_path / "1" / "samples.jsonl.0").open("ab") as file:
        file.write(b'{"t":3.0,"in":"save","p":[[100,"0","pyth')
    record = load_record(tmp_path / "1")
    assert record.end is None
    assert record.memory.samples == 2


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"run\.json"):
        load_record(tmp_path)
    (tmp_path / "run.json").write_text('{"kind": "facts"}')
    with pytest.raises(DocumentError, match="not the record of a run"):
        load_record(tmp_path)


def test_a_record_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        RunWriter(tmp_path / "file" / "1")


def test_changes_since_the_last_run_that_worked(tmp_path: Path) -> None:
    write(tmp_path / "1", context(), status=0)
    write(tmp_path / "2", context(), status=1)
    write(tmp_path / "3", context("python", "other.py"), status=0)
    pins = ("torch==2.7.0+cu126", "zstd==1", "abc==1")
    write(tmp_path / "4", context("python", "train.py", "-x", pins=pins), status=1)
    failed = load_record(tmp_path / "4")
    worked = last_that_worked(tmp_path, failed)
    assert worked is not None
    assert worked.folder.name == "1"
    assert compare_runs(worked, failed) == (
        "command: python train.py -> python train.py -x",
        "torch: 2.6.0+cu124 -> 2.7.0+cu126",
        "abc: (none) -> 1",
        "zstd: (none) -> 1",
    )
    assert compare_runs(worked, load_record(tmp_path / "2")) == ()
    assert last_that_worked(tmp_path, worked) is None


@pytest.mark.parametrize(
    ("command", "job"),
    [
        (("python", "train.py", "--lr", "1"), "train.py"),
        (("torchrun", "--nproc_per_node=2", "src/train.py"), "src/train.py"),
        (("python", "-m", "package.train", "-x"), "package.train"),
        (("/usr/bin/make", "train"), "make"),
    ],
)
def test_the_script_or_module_names_the_job(command: tuple[str, ...], job: str) -> None:
    assert job_of(command) == job


def test_many_changes_are_cut_and_counted() -> None:
    changes = tuple(f"p{n}: 1 -> 2" for n in range(30))
    assert shorten(changes)[-1] == "and 17 more changes"
    assert len(shorten(changes)) == 14
    assert shorten(changes[:14]) == changes[:14]


def test_a_configuration_that_was_edited_is_seen(tmp_path: Path) -> None:
    old = RunContext(("c",), files=(ConfigFile("ds.json", "a" * 64, 1),))
    new = RunContext(("c",), files=(ConfigFile("ds.json", "b" * 64, 1), ConfigFile("x.py", "c", 1)))
    write(tmp_path / "1", old, status=0)
    write(tmp_path / "2", new, status=1)
    changes = compare_runs(load_record(tmp_path / "1"), load_record(tmp_path / "2"))
    assert changes == ("ds.json was edited", "x.py is new")


def test_memory_keeps_peaks_last_words_and_the_difference_of_kills() -> None:
    memory = RunMemory()
    for number, one in enumerate([sample(1, GIB, GIB, kills=5), sample(2, 4 * GIB, kills=5)]):
        memory = add_sample(memory, one, ["load", "save"][number])
    memory = add_sample(memory, sample(3, kills=6), "save")
    assert (memory.peak_bytes, memory.peak_phase) == (4 * GIB, "save")
    assert memory.kills == 1
    assert [use.peak_bytes for use in memory.workers()] == [4 * GIB, GIB]
    assert memory.phase_peaks == {"load": 2 * GIB, "save": 4 * GIB}


@pytest.mark.parametrize("reading", [None, 3, [1], [{"gpu": "x"}], [{"held": {"100": "many"}}]])
def test_malformed_gpu_readings_are_left_out(reading: object) -> None:
    assert add_gpu_reading(RunMemory(), reading).gpu_peaks == {}


def test_context_holds_config_files_and_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text("{}")
    (tmp_path / "acc.yaml").write_text("a: 1")
    command = ("accelerate", "launch", "--config_file=acc.yaml", "t.py", "--deepspeed", "ds.json")
    environ = {"CUDA_VISIBLE_DEVICES": "0", "HF_TOKEN": "s3", "HOME": "/h", "NCCL_DEBUG": "INFO"}
    found = gather_context(command, environ, Facts(), tmp_path)
    assert [(item.path, item.text) for item in found.files] == [
        ("acc.yaml", "a: 1"),
        ("ds.json", "{}"),
    ]
    assert dict(found.variables) == {"CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO"}


def test_the_interpreter_is_found_behind_a_launcher_script(tmp_path: Path) -> None:
    python = tmp_path / "python3.11"
    script = tmp_path / "torchrun"
    python.write_text("#!/bin/sh\n")
    script.write_text(f"#!{python}\nimport sys\n")
    other = tmp_path / "make"
    other.write_text("#!/bin/sh\n")
    for file in (python, script, other):
        file.chmod(0o755)
    path = str(tmp_path)
    assert interpreter_of(["torchrun", "t.py"], path) == str(python)
    assert interpreter_of(["python3.11", "t.py"], path) == str(python)
    assert interpreter_of(["make"], path) is None
    assert interpreter_of(["nothing-of-the-kind"], path) is None


def test_the_start_of_a_record_is_one_json_document(tmp_path: Path) -> None:
    write(tmp_path / "1", context(), status=0)
    document = json.loads((tmp_path / "1" / "run.json").read_text())
    assert (document["schema_version"], document["kind"]) == (1, "run")
