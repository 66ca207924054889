"""None"""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
import tracemalloc
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from envguard.cli.inputs import is_lockfile, read_facts, read_text
from envguard.cli.main import main
from envguard.errors import InputError
from tests.ingest.samples import SAMPLES, report

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine


MACHINE = ["--gpu", "V100", "--driver", "570.26", "--platform", "linux-x86_64"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object], str]:
    code = main([*words, "--format", "json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else {}, err


def test_report_of_powershell_redirection_is_read(tmp_path: Path) -> None:
    path = tmp_path / "env.txt"
    text = report("collect_env_windows_11.txt").replace("\n", "\r\n")
    path.write_bytes(codecs.BOM_UTF16_LE + text.encode("utf-16-le"))
    gpus = read_facts(str(path)).machine.gpus or ()
    assert [gpu.name for gpu in gpus] == ["NVIDIA GeForce RTX 5090"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO(report("smi_550_table.txt").encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
    assert len(read_facts("-").machine.gpus or ()) == 2


def test_what_is_too_large_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"huge\.txt: larger than 8 MiB"):
            read_text(str(path), 8 * 1024 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 24 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.txt: cannot be read: no such file"):
        read_facts(str(tmp_path / "no.txt"))
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        read_facts(str(tmp_path))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("uv.lock", True),
        ("torch==2.7.1", False),
        ("torch", False),
        ("\0", False),
        ("x" * 999, False),
    ],
)
def test_words_are_files_or_pins(word: str, expected: bool) -> None:
    assert is_lockfile(word) is expected


def test_existing_file_of_any_name_is_a_lockfile(tmp_path: Path) -> None:
    path = tmp_path / "frozen"
    path.write_text("torch==2.7.1\n")
    assert is_lockfile(str(path))


def test_check_judges_a_lockfile_for_a_stated_machine(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "locks" / "pylock.toml")
    _, document, _ = run(capsys, "check", path, *MACHINE)
    facts = document["facts"]
    assert isinstance(facts, dict)
    assert facts["environment"]["torch"]["version"] == "2.7.1+cu126"
    assert facts["environment"]["document"] == path
    assert facts["environment"]["lock"]["driver_floor"] == "525.60.13"
    assert document["root_cause"] != "arch-missing-old-gpu"


def test_pins_are_laid_over_a_lockfile(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "locks" / "pylock.toml")
    code, document, _ = run(capsys, "check", path, "torch==2.11.0+cu128", *MACHINE)
    assert code == 1
    assert document["root_cause"] == "arch-missing-old-gpu"


def two_files(folder: Path) -> list[str]:
    (folder / "requirements.txt").write_text("torch==2.6.0+cu124\n")
    (folder / "requirements-new.txt").write_text("numpy==2.0\ntorch==2.11.0+cu128\n")
    return [str(folder / "requirements.txt"), str(folder / "requirements-new.txt")]


def test_several_files_are_judged_and_the_worst_verdict_is_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = two_files(tmp_path)
    code, document, _ = run(capsys, "check", good, bad, *MACHINE)
    assert (code, document["verdict"]) == (1, "fail")
    reports = document["reports"]
    assert isinstance(reports, list)
    assert [(r["file"], r["verdict"]) for r in reports] == [(good, "warn"), (bad, "fail")]
    assert reports[1]["root_cause"] == "arch-missing-old-gpu"
    schema = json.loads(files("envguard.render").joinpath("report.schema.json").read_text())
    jsonschema.validate(document, schema)
    del reports[0]["file"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_a_file_that_is_named_twice_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, _ = two_files(tmp_path)
    code, document, _ = run(capsys, "check", good, good, *MACHINE)
    assert code == 0
    assert "reports" not in document


def test_pins_are_laid_over_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, _ = run(capsys, "check", *two_files(tmp_path), "torch==2.6.0+cu126", *MACHINE)
    assert code == 0
    reports = document["reports"]
    assert isinstance(reports, list)
    torches = [r["facts"]["environment"]["torch"]["version"] for r in reports]
    assert torches == ["2.6.0+cu126", "2.6.0+cu126"]


def test_text_of_several_files_names_each_and_counts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = two_files(tmp_path)
    assert main(["check", good, bad, *MACHINE, "-q"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"envguard check {good}: fits, with warnings (driver-branch-end-of-life)",
        f"envguard check {bad}: does not fit (arch-missing-old-gpu)",
        "envguard check: 2 files: 1 does not fit; 1 fits, with warnings",
    ]


def test_a_monitor_gets_one_line_of_several_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = two_files(tmp_path)
    assert main(["check", good, bad, *MACHINE, "--nagios"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"ENVGUARD CRITICAL - {bad}: GPU001 ")
    assert "fail=1 " in line


def test_the_hook_for_pre_commit_works_on_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = (Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    entry = next(line for line in hook.splitlines() if "entry:" in line).split(":")[1].split()
    pattern = next(line for line in hook.splitlines() if "files:" in line).split(":", 1)[1].strip()
    named = two_files(tmp_path)
    assert all(re.search(pattern, Path(name).name) for name in named)
    assert entry[0] == "envguard"
    assert main([*entry[1:], *named, *MACHINE]) == 1
    assert "2 files: 1 does not fit" in capsys.readouterr().out


def test_a_file_of_several_that_is_not_there_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, _ = two_files(tmp_path)
    code, _, err = run(capsys, "check", good, str(tmp_path / "b.lock"), *MACHINE)
    assert code == 2
    assert "b.lock" in err


def test_nested_files_lie_beside_the_one_that_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "gpu.txt").write_text("torch==2.7.1+cu126\n-c pins.txt\n")
    (tmp_path / "base" / "pins.txt").write_text("numpy==2.0\n")
    (tmp_path / "r.txt").write_text("-r base/gpu.txt\nnumpy\n")
    _, document, _ = run(capsys, "check", str(tmp_path / "r.txt"), *MACHINE)
    facts = document["facts"]
    assert isinstance(facts, dict)
    versions = {d["name"]: d["version"] for d in facts["environment"]["distributions"]}
    assert versions == {"numpy": "2.0", "torch": "2.7.1+cu126"}


def test_python_that_is_not_the_locks_is_passed_over_unless_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (SAMPLES / "locks" / "pylock.toml").read_text()
    path = tmp_path / "pylock.toml"
    path.write_text(text.replace('"==3.12.*"', '"==3.2.*"').replace("== '3.12'", "== '3.2'"))
    for more, mismatches in (([], 0), (["--python-version", "3.12"], 1)):
        _, document, _ = run(capsys, "check", str(path), *MACHINE, *more)
        gaps = document["gaps"]
        assert isinstance(gaps, list)
        found = [gap for gap in gaps if gap["fact"] == "environment.interpreter"]
        assert len(found) == mismatches


def test_a_report_in_the_place_of_a_lockfile_is_told_its_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "env.txt"
    path.write_text(report("collect_env_windows_11.txt"))
    assert main(["check", str(path), *MACHINE]) == 2
    hint = f"  hint: a report of a machine is read with --from {path}\n"
    assert capsys.readouterr().err.endswith(hint)
    path.write_text("torch==2.6.0\nnot a requirement at all\n")
    assert main(["check", str(path), *MACHINE]) == 2
    assert "--from" not in capsys.readouterr().err


def test_unrecognised_file_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.md"
    path.write_text("nothing of use\n")
    code, _, err = run(capsys, "check", "--from", str(path))
    assert code == 2
    assert "notes.md: holds nothing that is understood" in err
    assert "collect_env" in err


@pytest.mark.parametrize(("words", "is_told"), [((), True), (("--python", sys.executable), False)])
def test_where_envguard_itself_has_no_torch_the_way_to_another_interpreter_is_said(
    words: tuple[str, ...],
    is_told: bool,
    capsys: pytest.CaptureFixture[str],
    no_driver: StubMachine,
) -> None:
    assert main(["check", "--no-deep", *words]) == 0
    said = " ".join(capsys.readouterr().out.split())  # however wide the terminal is
    assert ("--python PATH judges another" in said) is is_told
