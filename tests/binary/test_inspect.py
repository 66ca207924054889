from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from envguard.cli.main import main
from tests.binary.build import CUBIN, PTX, Workshop, entry, fatbin, needs_compiler

if TYPE_CHECKING:
    from pathlib import Path

    CaptureFixture = pytest.CaptureFixture[str]


def run_json(capsys: CaptureFixture, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["inspect", "--format", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def make(workshop: Workshop, path: str = "pkg/x.so") -> Path:
    cudart = workshop.library("lib/libcudart.so.12")
    data = fatbin(entry(CUBIN, 75), entry(CUBIN, 75), entry(CUBIN, 90, flags=1 << 20))
    data += fatbin(entry(PTX, 120, version=(8, 8)))
    return workshop.with_fatbin(path, data, needs=[cudart])


@needs_compiler
def test_the_document_has_the_shape_that_is_promised(
    workshop: Workshop, capsys: CaptureFixture
) -> None:
    path = make(workshop)
    code, document = run_json(capsys, str(path))
    needed = document["files"][0].pop("needed")
    assert code == 0
    assert needed[0] == "libcudart.so.12"
    assert document == {
        "schema_version": 1,
        "files": [
            {
                "path": str(path),
                "cubin": [
                    {"capability": "7.5", "suffix": "", "count": 2},
                    {"capability": "9.0", "suffix": "a", "count": 1},
                ],
                "ptx": [{"capability": "12.0", "suffix": "", "count": 1}],
                "cxx11_abi": None,
                "cuda_major": 12,
                "gaps": [],
            }
        ],
    }


@needs_compiler
def test_paths_are_relative_to_a_folder_or_wheel(
    workshop: Workshop, capsys: CaptureFixture
) -> None:
    path = make(workshop)
    with zipfile.ZipFile(workshop.folder / "pkg/w.whl", "w") as archive:
        archive.write(path, "inner/x.so")
    _, document = run_json(capsys, str(workshop.folder / "pkg/w.whl"))
    assert [file["path"] for file in document["files"]] == ["inner/x.so"]
    _, document = run_json(capsys, f"{workshop.folder}/pkg/")
    assert [file["path"] for file in document["files"]] == ["x.so", "w.whl/inner/x.so"]


@needs_compiler
def test_of_several_subjects_each_is_named(workshop: Workshop, capsys: CaptureFixture) -> None:
    one, two = make(workshop, "a/x.so"), make(workshop, "b/x.so")
    _, document = run_json(capsys, str(one.parent), str(two))
    assert [file["path"] for file in document["files"]] == [f"{one.parent}/x.so", str(two)]


@needs_compiler
def test_the_table_groups_targets_by_count(workshop: Workshop, capsys: CaptureFixture) -> None:
    path = make(workshop)
    assert main(["inspect", str(path)]) == 0
    text = capsys.readouterr().out
    assert "sm_75 (2), sm_90a (1)" in text
    assert "compute_120 (1)" in text
    assert "libcudart.so.12" in text
    assert "libc.so.6" not in text
    assert main(["inspect", "-v", str(path)]) == 0
    assert "libc.so.6" in capsys.readouterr().out
    assert main(["inspect", "-q", str(path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@needs_compiler
def test_the_answer_goes_to_a_file(workshop: Workshop, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    path = make(workshop)
    assert main(["inspect", str(path), "--format", "json", "-o", str(target)]) == 0
    assert json.loads(target.read_text())["schema_version"] == 1


def test_what_does_not_exist_is_wrong_usage(tmp_path: Path, capsys: CaptureFixture) -> None:
    assert main(["inspect", str(tmp_path / "x.so")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_url_is_refused_offline(capsys: CaptureFixture) -> None:
    assert main(["inspect", "--offline", "https://index.example/x.whl"]) == 2
    assert "--offline" in capsys.readouterr().err


def test_a_url_without_answer_is_not_told(capsys: CaptureFixture) -> None:
    assert main(["inspect", "http://127.0.0.1:9/x.whl"]) == 3
    assert "no answer" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"", b"rubbish", b"PK\x03\x04", b"\x7fELF\x02\x01", b"MZ"])
def test_a_file_that_cannot_be_read_is_a_gap(
    tmp_path: Path, capsys: CaptureFixture, data: bytes
) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(data)
    code, document = run_json(capsys, str(path))
    (file,) = document["files"]
    assert (code, file["path"], file["cubin"]) == (3, str(path), None)
    assert file["gaps"][0]["reason"] == "unreadable"
    assert main(["inspect", str(path)]) == 3
    assert "not read: " in capsys.readouterr().out


def test_special_files_are_gaps(tmp_path: Path, capsys: CaptureFixture) -> None:
    os.mkfifo(tmp_path / "fifo.so")
    (tmp_path / "loop.so").symlink_to("loop.so")
    (tmp_path / "dangling.so").symlink_to("nowhere")
    code, document = run_json(capsys, str(tmp_path))
    assert code == 3
    assert {f["path"]: f["gaps"][0]["detail"] for f in document["files"]} == {
        "dangling.so": "does not exist",
        "fifo.so": "not a regular file but a FIFO",
        "loop.so": "cannot be read: Too many levels of symbolic links",
    }
    assert main(["inspect", "/dev/zero"]) == 3


def test_a_folder_without_compiled_files_says_so(tmp_path: Path, capsys: CaptureFixture) -> None:
    assert main(["inspect", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no compiled files\n"


def test_a_sparse_file_of_4_gib_is_read_by_its_headers(
    tmp_path: Path, capsys: CaptureFixture
) -> None:
    path = tmp_path / "x.so"
    with path.open("wb") as file:
        file.truncate(4 * 1024**3)
    code, document = run_json(capsys, str(path))
    assert code == 3
    assert document["files"][0]["gaps"][0]["detail"] == "not an ELF file"


def test_names_cannot_steer_the_terminal(tmp_path: Path, capsys: CaptureFixture) -> None:
    (tmp_path / "a\x1b[2Jb.so").write_bytes(b"rubbish")
    assert main(["inspect", str(tmp_path)]) == 3
    assert "a?[2Jb.so" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_a_name_that_is_no_text_is_a_gap(tmp_path: Path, capsys: CaptureFixture) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.so"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    code, document = run_json(capsys, str(tmp_path))
    assert code == 3
    assert document["files"][0]["gaps"][0]["detail"] == "its name is not text"
    assert main(["inspect", os.fsdecode(name)]) == 2
    assert "its name is not text" in capsys.readouterr().err


def test_inspect_stays_inside_its_folder(tmp_path: Path, capsys: CaptureFixture) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for place in (folder / "lib", outside):
        place.mkdir(parents=True)
        (place / "x.so").write_bytes(b"\x7fELF")
    (folder / "lib64").symlink_to("lib")
    (folder / "root").symlink_to(outside)
    _, document = run_json(capsys, str(folder))
    shown = [file["path"] for file in document["files"]]
    assert shown == ["lib/x.so", str(folder)]
    (gap,) = document["files"][1]["gaps"]
    assert gap["fact"] == f"files in {folder}/root"
    assert gap["reason"] == "not-asked"
