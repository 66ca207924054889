"""``envguard matrix show`` and ``verify``: exit code, stdout and stderr."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envguard.cli.main import main
from envguard.facts.facts import Facts, facts_document
from envguard.facts.machine import Host, Machine, Platform

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(files("envguard.render").joinpath("matrix.schema.json").read_text())
V100 = ("--gpu", "Tesla V100", "--driver", "535.104.05")
Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *words: str) -> str:
    """What is printed on stdout for a success that says nothing on stderr."""
    assert main(["matrix", *words]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def document(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["matrix", *words, "--format", "json"]) == code
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    jsonschema.validate(found, SCHEMA)
    return dict(found)


def refused(capsys: Capture, *words: str) -> str:
    """What is printed on stderr for wrong usage, nothing being on stdout."""
    assert main(["matrix", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def row_of(text: str, first: str) -> list[str]:
    """The cells of the line that begins with a word."""
    (line,) = (line for line in text.splitlines() if line.split(" ")[0] == first)
    return line.split()


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for grid in found["grids"] for row in grid["rows"]]


def build(found: dict[str, Any], torch: str, backend: str) -> dict[str, Any]:
    (row,) = (r for r in rows(found) if r["torch"] == torch and r["backend"] == backend)
    return row


def test_without_a_table_they_are_listed_with_their_size(capsys: Capture) -> None:
    text = shown(capsys, "show")
    assert text.startswith("tables of 2026.11.30; `envguard matrix show TABLE [NAME]` shows one\n")
    tables = ["torch", "drivers", "gpus", "deepspeed", "packages", "breaks", "toolkits"]
    listed = [line.split()[0] for line in text.splitlines()[3:10]]
    assert listed == tables
    assert row_of(text, "toolkits")[1:3] == ["23", "2026-11-29"]
    assert rows(document(capsys, "show"))[0]["table"] == "torch"


def test_builds_are_marked_for_a_machine_and_the_reasons_are_said(capsys: Capture) -> None:
    text = shown(capsys, "show", "torch", *V100)
    assert text.startswith("for Tesla V100 (7.0), driver 535.104.05\nbuilds for linux-x86_64\n")
    assert row_of(text, "2.11.0") == [
        *("2.11.0", "-", "-", "-", "most", "no", "2", "no", "2", "no", "1,2", "-", "cu126")
    ]
    assert row_of(text, "2.4.0") == ["2.4.0", "yes", "yes", "most", *"-----", "cu121"]
    assert row_of(text, "2.15.0")[-1] == "-"
    assert "\n1: CUDA 13.0 needs a driver 580 or newer, the driver is 535.104.05\n" in text
    assert "\n2: no code for GPU 0 (Tesla V100), compute capability 7.0\n" in text
    assert "\nmost: runs through minor-version compatibility" in text
    assert text.endswith("\nmatrix 2026.11.30\n")


def test_the_reasons_of_a_build_are_in_the_order_of_the_legend(capsys: Capture) -> None:
    words = ("show", "torch", *V100)
    assert row_of(shown(capsys, *words), "2.13.0")[-4:] == ["1,2", "no", "2,3", "cu126"]


def test_all_products_are_one_table(capsys: Capture) -> None:
    lines = shown(capsys, "show", "gpus").splitlines()
    assert lines[0].split() == ["GPU", "capability", "chip", "sold", "as", "generation", "drivers"]
    assert lines[1].split()[:4] == ["GeForce", "710M", "3.5", "GK208"]


def test_ranges_that_say_nothing_a_person_can_use_are_left_out(capsys: Capture) -> None:
    found = document(capsys, "show", "packages", "flash-attn")
    (grid,) = (grid for grid in found["grids"] if grid["title"].startswith("what holds"))
    assert [row["releases"] for row in grid["rows"]] == [">=2"]


def test_builds_as_records_say_what_runs_and_why_not(capsys: Capture) -> None:
    found = document(capsys, "show", "torch", *V100)
    assert found["machine"] == "Tesla V100 (7.0), driver 535.104.05"
    refused_build = build(found, "2.11.0", "cu128")
    assert refused_build["runs"] is False
    assert refused_build["reasons"] == ["no code for GPU 0 (Tesla V100), compute capability 7.0"]
    assert refused_build["targets"][0] == "sm_75"
    served = build(found, "2.11.0", "cu126")
    assert (served["runs"], served["mark"], served["reasons"]) == (True, "most", [])
    assert build(found, "2.11.0", "cu130")["is_on_pypi"] is True


def test_without_a_machine_builds_are_only_listed(capsys: Capture) -> None:
    text = shown(capsys, "show", "torch")
    assert text.startswith("builds for linux-x86_64\n")
    assert row_of(text, "2.15.0")[-3:] == ["x", "x", "cu132"]
    assert "x: is published\n" in text
    assert build(document(capsys, "show", "torch"), "2.15.0", "cu132")["runs"] is None


def test_a_gpu_alone_leaves_the_driver_open(capsys: Capture) -> None:
    text = shown(capsys, "show", "torch", "--gpu", "Tesla V100")
    assert "1: the driver is not stated\n" in text or "2: the driver is not stated\n" in text
    found = document(capsys, "show", "torch", "--gpu", "Tesla V100")
    assert build(found, "2.11.0", "cu126")["runs"] is None
    assert build(found, "2.11.0", "cu128")["runs"] is False


def test_a_driver_alone_is_judged_and_that_is_said(capsys: Capture) -> None:
    text = shown(capsys, "show", "torch", "--driver", "535.104.05")
    assert "no GPU is stated: only the driver is judged\n" in text
    found = document(capsys, "show", "torch", "--driver", "535.104.05")
    assert build(found, "2.11.0", "cu128")["mark"] == "most"
    assert build(found, "2.11.0", "cu130")["runs"] is False


def test_another_platform_and_python_are_looked_at(capsys: Capture) -> None:
    words = ("show", "torch", "--platform", "windows-x86_64", "--python-version", "3.9")
    found = document(capsys, *words)
    assert found["machine"] == "windows-x86_64, Python 3.9"
    assert {row["platform"] for row in rows(found)} == {"windows-x86_64"}
    late = build(found, "2.11.0", "cu128")
    assert late["runs"] is False
    assert late["reasons"][0].startswith("no cp39 wheel (cp310 to ")


def test_a_machine_without_gpu_is_shown_cpu_builds(capsys: Capture, tmp_path: Path) -> None:
    facts = Facts(machine=Machine(host=Host(platform=Platform.parse("linux-x86_64")), gpus=()))
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(facts_document(facts)))
    found = document(capsys, "show", "torch", "--machine", str(path))
    assert build(found, "2.11.0", "cpu")["runs"] is True
    assert build(found, "2.11.0", "cu130")["reasons"] == ["the machine has no NVIDIA GPU"]


def test_one_release_is_shown_build_by_build(capsys: Capture) -> None:
    text = shown(capsys, "show", "torch", "2.11.0", *V100)
    assert "released 2026-03-23, Python >=3.10\n" in text
    assert "goes with torchvision 0.26.0, torchaudio 2.11.0, triton ==3.6.0\n" in text
    assert row_of(text, "cu126")[:4] == ["cu126", "most", "index", "2.28"]
    assert row_of(text, "cu130")[:3] == ["cu130", "no", "PyPI"]
    assert "sm_70" in text


def test_a_release_that_is_not_known_names_some_that_are(capsys: Capture) -> None:
    said = refused(capsys, "show", "torch", "2.7.5")
    assert said == (
        "envguard: error: torch 2.7.5: no such release is known\n  hint: there is 2.7.0, 2.7.1\n"
    )
    assert said.replace("2.7.5", "x") != refused(capsys, "show", "torch", "9.9")
    assert "'new' is no version" in refused(capsys, "show", "torch", "new")


def test_drivers_are_graded_against_every_cuda(capsys: Capture) -> None:
    text = shown(capsys, "show", "drivers", "--driver", "535.104.05")
    cuda_12_8 = next(line.split() for line in text.splitlines() if line.startswith("12.8 "))
    assert cuda_12_8 == ["12.8", "570.26", "570.65", "525.60.13", "528.33", "most"]
    cuda_13_0 = next(line.split() for line in text.splitlines() if line.startswith("13.0 "))
    assert cuda_13_0[-1] == "no"
    assert row_of(text, "R535")[-2:] == ["this", "driver"]
    assert "Linux, Windows: from that driver on everything of that CUDA works\n" in text


def test_drivers_say_which_gpu_generations_they_dropped(capsys: Capture) -> None:
    found = document(capsys, "show", "drivers", "--driver", "590.44.01")
    (generations,) = (g["rows"] for g in found["grids"] if g["title"].startswith("GPU"))
    pascal = next(row for row in generations if row["gpus"] == "Pascal")
    assert pascal["this_driver"] == "no: R580 is the last branch that lists it"


@pytest.mark.parametrize("name", ["535", "R535", "r535"])
def test_one_driver_branch(capsys: Capture, name: str) -> None:
    found = document(capsys, "show", "drivers", name)
    (branch,) = rows(found)
    assert (branch["branch"], branch["cuda"]) == ("R535", "12.2")


def test_one_cuda_release(capsys: Capture) -> None:
    found = document(capsys, "show", "drivers", "12.8")
    assert rows(found)[0]["linux,_same_major"] == "525.60.13"
    assert "no such CUDA release" in refused(capsys, "show", "drivers", "99.1")


@pytest.mark.parametrize("words", [("RTX", "3090"), ("RTX 3090",), ("nvidia geforce rtx 3090",)])
def test_a_gpu_by_its_name(capsys: Capture, words: tuple[str, ...]) -> None:
    (gpu,) = rows(document(capsys, "show", "gpus", *words))
    assert gpu == {
        "gpu": "GeForce RTX 3090",
        "capability": "8.6",
        "chip": "GA102",
        "sold_as": "consumer",
        "generation": "Ampere GA10x",
        "drivers": "455.23 to current",
    }


def test_gpus_by_a_part_of_the_name_and_by_the_machine(capsys: Capture) -> None:
    assert len(rows(document(capsys, "show", "gpus", "jetson"))) > 3
    stated = rows(document(capsys, "show", "gpus", *V100))
    assert {row["capability"] for row in stated} == {"7.0"}
    assert {row["this_driver"] for row in stated} == {"yes"}
    assert "did you mean: " in refused(capsys, "show", "gpus", "GeForce RTX 3091")


def test_a_gpu_that_a_driver_dropped(capsys: Capture) -> None:
    found = rows(document(capsys, "show", "gpus", "GTX 1080", "--driver", "590.44.01"))
    assert found[0]["this_driver"] == "no: R580 is the last branch that lists it"


def test_deepspeed_releases_and_one_with_its_breaks(capsys: Capture) -> None:
    found = document(capsys, "show", "deepspeed")
    newest = rows(found)[0]
    assert (newest["deepspeed"], newest["mixes_cuda"].split(", ")[-1]) == (
        "0.19.8",
        "12.0-12.6 12.8-12.9",
    )
    text = shown(capsys, "show", "deepspeed", "0.14.0")
    assert "known breaks" in text
    assert "deepspeed>=0.14.4" in text
    assert "the newest known is 0.19.8" in refused(capsys, "show", "deepspeed", "9.9")


def test_deepspeed_releases_that_do_not_import_on_a_python(capsys: Capture) -> None:
    found = document(capsys, "show", "deepspeed", "--python-version", "3.14")
    here = {row["deepspeed"]: row["here"] for row in rows(found)}
    assert here["0.18.5"] == "no: This DeepSpeed does not import on Python 3.14"
    assert here["0.18.6"] == "yes"


def test_packages_are_listed(capsys: Capture) -> None:
    listed = {row["package"]: row for row in rows(document(capsys, "show", "packages"))}
    assert {"xformers", "flash-attn", "vllm", "deepspeed"} <= listed.keys()
    assert listed["apex"]["rows_for"] == "ranges only"


def test_releases_of_a_package_are_marked(capsys: Capture) -> None:
    words = ("show", "packages", "xformers", *V100, "--python-version", "3.12")
    here = {r["release"]: r["here"] for r in document(capsys, *words)["grids"][0]["rows"]}
    assert here["0.0.30"] == "yes"
    assert here["0.0.34"] == "no: needs compute capability 7.5, the GPU has 7.0"
    assert here["0.0.33"].startswith("no: its CUDA 13.0 needs driver 580; needs compute")
    assert here["0.0.22"] == "no: no wheel for cp312"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("apex", "apex: what holds for ranges of its releases"),
        ("numpy", "numpy: known breaks only"),
    ],
)
def test_a_package_without_releases_says_what_is_shown(
    name: str, first: str, capsys: Capture
) -> None:
    text = shown(capsys, "show", "packages", name)
    assert text.startswith(f"{first}\n")
    assert "what happens" in text


def test_a_package_is_found_by_any_spelling_of_its_name(capsys: Capture) -> None:
    assert shown(capsys, "show", "packages", "Flash_Attn").startswith("flash-attn: ")
    assert "did you mean: xformers, transformers?" in refused(capsys, "show", "packages", "xformer")
    assert "lists them" in refused(capsys, "show", "packages", "zzz")


def test_breaks_of_a_package_a_cause_or_one_row(capsys: Capture) -> None:
    about = rows(document(capsys, "show", "breaks", "transformers"))
    assert "tf-510-deepspeed" in {row["name"] for row in about}
    (one,) = rows(document(capsys, "show", "breaks", "tf-510-deepspeed"))
    assert one["fix"] == {"transformers": ">=5.2,!=5.1.0"}
    causes = rows(document(capsys, "show", "breaks", "ds-too-old-for-numpy"))
    assert {row["cause"] for row in causes} == {"ds-too-old-for-numpy"}
    assert "nothing is known" in refused(capsys, "show", "breaks", "zzz")


def test_toolkits_are_marked_for_a_gpu_and_the_nvcc_here(capsys: Capture) -> None:
    words = ("show", "toolkits", "--gpu", "Tesla V100", "--nvcc", "12.4")
    marks = {row["cuda"]: row["for_this_machine"] for row in rows(document(capsys, *words))}
    assert marks["12.4"] == "yes (nvcc here)"
    assert marks["12.8"] == "yes"
    assert marks["13.0"] == "no: it compiles from 7.5 on, the GPU is 7.0"
    hopper = rows(document(capsys, "show", "toolkits", "11.7", "--gpu", "H100"))
    assert hopper[0]["for_this_machine"] == ("no: CUDA 11.8 is the first that compiles for 9.0")
    assert "there are 11.0 to " in refused(capsys, "show", "toolkits", "7.5")


def test_here_marks_what_runs_on_this_machine(capsys: Capture, no_driver: object) -> None:
    found = document(capsys, "show", "torch", "--here", "--platform", "linux-x86_64")
    assert "no NVIDIA GPU" in found["machine"]
    assert build(found, "2.11.0", "cpu")["runs"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "cars"), "matrix show cars: no such table"),
        (("count",), "matrix count: the action is none of show, verify, update"),
        (("show", "torch", "--gpu", "RTX 3091"), "--gpu: no GPU named 'RTX 3091' is known"),
        (("show", "torch", "--driver", "new"), "--driver: 'new' is not a driver version"),
        (("show", "torch", "--here", "--machine", "x.json"), "--machine and --here exclude"),
        (("verify", "a", "b"), "matrix verify: one name at most"),
        (("verify", "xformers"), "goes with --packages"),
        (("verify", "--packages", "--offline"), "--offline forbids it"),
        (("verify", "zzz", "--packages"), "no such package has a table"),
    ],
)
def test_wrong_usage_is_said(capsys: Capture, words: tuple[str, ...], said: str) -> None:
    assert said in refused(capsys, *words)


def test_an_action_has_to_be_named(capsys: Capture) -> None:
    assert "ACTION" in refused(capsys)


def test_a_table_keeps_to_the_screen(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys, "show", "torch", *V100).splitlines()
    assert max(map(len, lines)) <= 80
    monkeypatch.setenv("COLUMNS", "40")
    lines = shown(capsys, "show", "torch", *V100).splitlines()
    assert max(map(len, lines)) <= 40
    assert "2.14.1" in lines


def test_nothing_but_ascii_without_colour_goes_into_a_pipe(capsys: Capture) -> None:
    for table in ("torch", "drivers", "packages", "toolkits"):
        text = shown(capsys, "show", table)
        assert text.isascii()
        assert "\x1b" not in text
        assert not any(line.endswith(" ") for line in text.splitlines())


def test_quiet_leaves_the_table_alone_and_verbose_adds_sources(capsys: Capture) -> None:
    quiet = shown(capsys, "show", "toolkits", "12.8", "-q")
    assert quiet.splitlines()[0].split()[0] == "CUDA"
    assert len(quiet.splitlines()) == 2
    assert "https://docs.nvidia.com" in shown(capsys, "show", "drivers", "12.8", "-v")
    assert "wheel on PyPI (checked " in shown(capsys, "show", "packages", "TorchVision", "-v")
    assert "DeepSpeed" in shown(capsys, "show", "packages", "deepspeed", "-v")
    assert "(checked " not in shown(capsys, "show", "packages", "-v")


def test_a_view_is_written_to_a_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "toolkits.json"
    assert shown(capsys, "show", "toolkits", "--format", "json", "-o", str(path)) == ""
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    shutil.copytree(ROOT / "compat_matrix", folder, ignore=shutil.ignore_patterns("*.py*"))
    return folder


def test_the_shipped_tables_hold(capsys: Capture) -> None:
    assert shown(capsys, "verify") == "the tables of 2026.11.30 hold what they promise\n"
    assert document(capsys, "verify")["problems"] == []


def test_broken_tables_are_reported_and_fail(capsys: Capture, tables: Path) -> None:
    path = tables / "drivers.toml"
    path.write_text(path.read_text().replace('linux = "570.26"', 'linux = "170.26"'))
    assert main(["matrix", "verify", "--matrix", str(tables)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("broken: drivers.toml: toolkit_driver[")
    assert "170.26 is below" in said.out
    assert said.err == ""
    found = document(capsys, "verify", "--matrix", str(tables), code=1)
    assert found["problems"]
    assert found["drift"] is None


def test_a_catalogue_without_a_source_is_a_problem(capsys: Capture, tables: Path) -> None:
    path = tables / "causes/shared_memory.toml"
    path.write_text(path.read_text().replace('source = "torch-dl"', 'source = "hearsay"', 1))
    found = document(capsys, "verify", "--matrix", str(tables), code=1)
    assert "causes/shared_memory.toml" in found["problems"][0]
    assert "'hearsay' is not among the sources" in found["problems"][0]


def test_tables_without_a_usable_manifest_are_a_problem(capsys: Capture, tables: Path) -> None:
    (tables / "manifest.toml").write_text('schema_version = 2\ndata_version = ""\n')
    assert main(["matrix", "verify", "--matrix", str(tables)]) == 1
    assert capsys.readouterr().out == "broken: manifest.toml: data_version: expected a text\n"
