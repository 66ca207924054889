"""``envguard explain``: exit code, stdout and stderr."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from envguard.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(files("envguard.render").joinpath("explain.schema.json").read_text())
Capture = pytest.CaptureFixture[str]


def explained(capsys: Capture, *words: str) -> str:
    """What is printed on stdout for a success that says nothing on stderr."""
    assert main(["explain", *words]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def document(capsys: Capture, *words: str) -> dict[str, object]:
    found = json.loads(explained(capsys, *words, "--format", "json"))
    jsonschema.validate(found, SCHEMA)
    assert found["tool"]["name"] == "envguard"
    return dict(found)


def refused(capsys: Capture, *words: str) -> str:
    """What is printed on stderr for wrong usage, nothing being on stdout."""
    assert main(["explain", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


def test_a_code_is_explained_in_sections(capsys: Capture) -> None:
    lines = explained(capsys, "GPU001").splitlines()
    assert lines[0] == "GPU001  the build has no code for this older GPU"
    labels = [line[:8].strip() for line in lines if line[:8].strip()]
    assert labels == ["GPU001", "means", "found", "fix", "causes", "source"]
    assert any(line.startswith("fix     1. Install a build for an older CUDA") for line in lines)
    assert any(line.startswith("        2. ") for line in lines)
    assert "causes  arch-missing-old-gpu: The build was compiled for newer GPUs only." in lines
    assert "https://docs.nvidia.com/cuda/" in "".join(lines)


@pytest.mark.parametrize("text", ["gpu001", "Gpu001", " GPU001 "])
def test_the_case_of_a_code_does_not_matter(capsys: Capture, text: str) -> None:
    assert explained(capsys, text).startswith("GPU001  ")


def test_a_cause_names_its_codes_and_what_to_do(capsys: Capture) -> None:
    text = explained(capsys, "arch-missing-old-gpu")
    assert text.startswith("arch-missing-old-gpu\n\nmeans   The build was compiled")
    assert "codes   GPU001  the build has no code for this older GPU\n" in text
    assert "        CRS002  " in text
    assert "fix     1. Install a build for an older CUDA" in text


def test_a_unique_start_is_enough(capsys: Capture) -> None:
    assert explained(capsys, "kernel-mod").startswith("kernel-module-flavour\n")
    assert explained(capsys, "KERNEL_MOD").startswith("kernel-module-flavour\n")


def test_a_start_of_several_names_them(capsys: Capture) -> None:
    said = refused(capsys, "arch-missing")
    assert said == (
        "envguard: error: 'arch-missing' begins several codes or causes\n"
        "  hint: one of: arch-missing-new-gpu, arch-missing-old-gpu\n"
    )


def test_a_long_list_of_starts_is_cut(capsys: Capture) -> None:
    assert refused(capsys, "crs0").rstrip().endswith(", ...")


def test_a_mistyped_name_has_near_matches(capsys: Capture) -> None:
    said = refused(capsys, "GPU01")
    assert said.startswith("envguard: error: 'GPU01' begins several")
    said = refused(capsys, "GUP001")
    assert said.startswith("envguard: error: no code or cause is named 'GUP001'\n  hint: did you")
    assert "GPU001" in said
    assert "`envguard explain --list`" in said


def test_a_name_like_nothing_points_to_the_list(capsys: Capture) -> None:
    assert refused(capsys, "%%%") == (
        "envguard: error: no code or cause is named '%%%'\n"
        "  hint: `envguard explain --list` lists the codes\n"
    )
    assert "named ''" in refused(capsys, "")


@pytest.mark.parametrize("words", [(), ("--list",)])
def test_without_a_name_all_codes_are_listed(capsys: Capture, words: tuple[str, ...]) -> None:
    text = explained(capsys, *words)
    assert "DRV  the NVIDIA driver, against the GPUs" in text
    assert "\nDRV001  the driver is of an older CUDA major than torch\n" in text
    assert "\nWHL002  a CPU build of torch beside a GPU\n" in text
    assert text.endswith("\n`envguard explain CODE` says what it means and what to do\n")


def test_a_family_lists_its_codes(capsys: Capture) -> None:
    text = explained(capsys, "gpu")
    assert text.startswith(
        "GPU  whether the build holds code for the GPUs\ncode    title\nGPU000  "
    )
    assert "DRV" not in text
    assert "arch-missing-old-gpu" in explained(capsys, "gpu", "-v")


def test_a_list_with_a_name_is_wrong(capsys: Capture) -> None:
    assert "--list lists all codes" in refused(capsys, "GPU001", "--list")


def test_quiet_keeps_the_fix(capsys: Capture) -> None:
    text = explained(capsys, "GPU001", "-q")
    assert text.startswith("GPU001  ")
    assert "fix     1. " in text
    assert "means" not in text


def test_a_code_without_a_fix_says_so(capsys: Capture) -> None:
    assert "\nfix     nothing to do\n" in explained(capsys, "DRV000")


def test_a_code_as_a_document(capsys: Capture) -> None:
    found = document(capsys, "GPU001")
    assert found["code"] == "GPU001"
    assert found["causes"] == [
        {
            "cause": "arch-missing-old-gpu",
            "text": "The build was compiled for newer GPUs only.",
        }
    ]
    assert isinstance(found["fix"], list)
    assert len(found["fix"]) == 3


def test_a_cause_as_a_document(capsys: Capture) -> None:
    found = document(capsys, "arch-missing-old-gpu")
    assert found["cause"] == "arch-missing-old-gpu"
    assert isinstance(found["codes"], list)
    assert found["codes"][0]["code"] == "GPU001"


def test_the_list_as_a_document(capsys: Capture) -> None:
    found = document(capsys)
    families = found["families"]
    assert isinstance(families, list)
    assert [family["prefix"] for family in families] == sorted(f["prefix"] for f in families)
    assert {"CRS", "DRV", "GPU", "WHL"} <= {family["prefix"] for family in families}


def test_an_error_as_a_document(capsys: Capture) -> None:
    assert main(["explain", "GUP001", "--format", "json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["exit_code"] == 2
    assert "GPU001" in found["error"]["hint"]


def test_it_is_written_to_a_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "gpu001.txt"
    assert explained(capsys, "GPU001", "-o", str(path)) == ""
    assert path.read_text().startswith("GPU001  the build has no code")


def test_lines_keep_to_the_screen(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = explained(capsys, "DRV006").splitlines()
    assert max(len(line) for line in lines if "http" not in line) <= 60
    assert len(lines) > 20


def test_nothing_but_ascii_goes_into_a_pipe(capsys: Capture) -> None:
    assert explained(capsys, "--list").isascii()
    assert "\x1b" not in explained(capsys, "GPU001")


def test_a_cause_shows_the_words_by_which_it_is_told_and_the_experiment(capsys: Capture) -> None:
    text = explained(capsys, "arch-missing-old-gpu")
    assert "\ntold by RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n" in text
    assert "\ntest    Print which torch is imported and what it holds code for. `python -c" in text
    found = document(capsys, "gpu-busy")
    assert found["told_by"] == ["CUDA error: CUDA-capable device(s) is/are busy or unavailable"]
    assert found["experiments"] == [
        {
            "text": "look at the compute mode and at old processes",
            "command": ["nvidia-smi", "-q", "-d", "COMPUTE,PIDS"],
        }
    ]


def test_only_some_of_many_samples_are_shown_unless_all_are_asked_for(capsys: Capture) -> None:
    few, all_of_them = (explained(capsys, "toolkit-missing", *words) for words in ((), ("-v",)))
    found = document(capsys, "toolkit-missing")
    assert isinstance(found["told_by"], list)
    assert len(found["told_by"]) > 4
    last = str(found["told_by"][-1]).split(maxsplit=1)[0]
    assert last in all_of_them
    assert len(few) < len(all_of_them)


def test_a_folder_of_tables_is_used(capsys: Capture, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    shutil.copytree(ROOT / "compat_matrix", tables, ignore=shutil.ignore_patterns("*.py*"))
    path = tables / "causes" / "gpu_code.toml"
    title = "the build has no code for this older GPU"
    text = path.read_text()
    assert title in text
    path.write_text(text.replace(title, "another title"))
    assert explained(capsys, "GPU001", "--matrix", str(tables)).startswith(
        "GPU001  another title\n"
    )
    assert main(["explain", "GPU001", "--matrix", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("version", [1, 3])
def test_tables_of_another_schema_are_refused_in_one_line(
    capsys: Capture, tmp_path: Path, version: int
) -> None:
    manifest = f'schema_version = {version}\ndata_version = "2030.01.01"\n'
    (tmp_path / "manifest.toml").write_text(manifest)
    assert main(["explain", "GPU001", "--matrix", str(tmp_path)]) == 2
    said, *hint = capsys.readouterr().err.splitlines()
    assert said.endswith(
        f"manifest.toml: schema_version: {version} is not the one this envguard reads (2)"
    )
    assert len(hint) <= 1
