"""``envguard plan``: exit code, stdout and stderr."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from envguard.cli.main import main
from envguard.facts.facts import Facts, facts_document
from envguard.facts.machine import Gpu, Limits, Machine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stubs.machine import StubMachine

SCHEMA = json.loads(files("envguard.render").joinpath("report.schema.json").read_text())
Capture = pytest.CaptureFixture[str]
GIB = 1024**3
JOB = ("--params", "7.6B", "--gpus", "4")
MACHINE = ("--gpu-memory", "80", "--host-memory", "64G")


def planned(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["plan", *words, "--format", "json"]) == code
    shown = capsys.readouterr()
    assert shown.err == ""
    document: dict[str, Any] = json.loads(shown.out)
    jsonschema.validate(document, SCHEMA)
    return document


def refused(capsys: Capture, *words: str) -> str:
    assert main(["plan", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


def test_the_background_case_breaks_at_the_save(capsys: Capture) -> None:
    found = planned(capsys, *JOB, "--strategy", "zero2", *MACHINE, code=1)
    assert found["verdict"] == "fail"
    assert found["root_cause"] == "host-oom-save"
    assert found["breaks_first"] == {"phase": "save", "side": "host", "cause": "host-oom-save"}
    assert found["peaks"] == {
        "gpu_gib_per_rank": pytest.approx(54.1, abs=0.1),
        "host_gib_per_node": pytest.approx(64.07, abs=0.05),
        "phase_of_gpu_peak": "step",
        "phase_of_host_peak": "save",
    }
    assert all(phase["gpu"] == "fits" for phase in found["phases"])
    hosts = {phase["phase"]: phase["host"] for phase in found["phases"]}
    assert hosts == {
        "load": "fits",
        "init": "fits",
        "step": "fits",
        "save": "breaks",
        "resume": "breaks",
    }


@pytest.mark.parametrize(
    "words",
    [
        ("--strategy", "zero3", *MACHINE),
        ("--strategy", "zero2", "--gpu-memory", "80", "--host-memory", "128"),
        ("--strategy", "zero2", "--save", "16bit", *MACHINE),
    ],
)
def test_what_cures_the_background_case_fits(capsys: Capture, words: tuple[str, ...]) -> None:
    found = planned(capsys, *JOB, *words)
    assert found["verdict"] in {"ok", "warn"}
    assert found["breaks_first"] is None


def test_what_depends_on_an_option_that_is_not_stated_is_a_warning(capsys: Capture) -> None:
    words = ("--params", "13B", "--strategy", "zero2", "--gpus", "8", "--gpu-memory", "64")
    found = planned(capsys, *words)
    assert found["verdict"] == "warn"
    assert found["breaks_first"] is None
    (first, *_) = found["findings"]
    assert (first["code"], first["status"]) == ("MEM014", "warn")
    (depends,) = found["depends"]
    assert (depends["side"], depends["phase"]) == ("gpu", "step")
    assert depends["options"] == ["--recompute"]
    assert depends["fits"]["with"] == ["--recompute full"]
    assert depends["breaks"]["with"] == ["--recompute none"]
    assert depends["fits"]["gib"] < 63 < depends["breaks"]["gib"]
    assert next(p for p in found["phases"] if p["phase"] == "step")["gpu"] == "depends"
    stated = planned(capsys, *words, "--recompute", "none", "--seq-len", "2048", code=1)
    assert (stated["verdict"], stated["depends"]) == ("fail", [])
    assert planned(capsys, *words, "--recompute", "full")["depends"] == []


def test_what_breaks_as_assumed_but_not_otherwise_could_not_be_told(capsys: Capture) -> None:
    words = ("--params", "13B", "--strategy", "zero2", "--gpus", "8", "--gpu-memory", "64")
    found = planned(capsys, *words, "--micro-batch", "16", code=3)
    assert (found["verdict"], found["breaks_first"]) == ("unknown", None)
    (depends,) = found["depends"]
    assert depends["breaks"]["with"] == ["--seq-len 2048"]
    assert depends["fits"]["with"] == ["--seq-len 512"]
    assert found["changes"]


def test_text_and_json_return_the_same_code(capsys: Capture) -> None:
    words = [*JOB, "--strategy", "zero2", *MACHINE]
    assert main(["plan", *words]) == 1
    text = capsys.readouterr().out
    assert text.startswith("envguard plan: does not fit (host-oom-save)\n")
    assert "save    PPCCCC" in text
    assert "hf_trainer_deepspeed_zero012.node" in text
    assert "--save 16bit" in text
    assert "2048 tokens a sample (--seq-len)" in text


def test_verbose_names_expression_and_source_of_every_line(capsys: Capture) -> None:
    assert main(["plan", *JOB, "--strategy", "zero3", *MACHINE, "-v"]) == 0
    text = capsys.readouterr().out
    assert "(e*Pt + frozen_bytes)/N; measured:" in text
    assert "load: host, GiB a node" in text


def test_every_line_of_the_document_names_a_formula_and_a_source(capsys: Capture) -> None:
    found = planned(capsys, *JOB, "--strategy", "fsdp-full", *MACHINE, code=3)
    lines = [line for phase in found["phases"] for line in phase["lines"]]
    assert len(lines) > 30
    for line in lines:
        assert line["formula"]
        assert line["expression"]
        assert line["source"]
        assert line["evidence"] in {"measured", "code", "doc", "issue", "derived", "paper"}


def test_changes_carry_their_new_peaks(capsys: Capture) -> None:
    found = planned(capsys, *JOB, "--strategy", "zero2", *MACHINE, code=1)
    first = found["changes"][0]
    assert first["option"] == "--save 16bit"
    assert first["fits"] is True
    assert first["host_gib_per_node"] == pytest.approx(21.6, abs=0.1)


def test_a_sweep_shows_every_strategy(capsys: Capture) -> None:
    found = planned(capsys, *JOB, "--strategy", "zero3", *MACHINE, "--sweep")
    rows = {row["strategy"]: row["breaks"] for row in found["sweep"]}
    assert rows["zero3"] == []
    assert rows["zero2"] == ["host in save"]
    assert "fsdp-hybrid + full offload" in rows


def test_other_estimators_stand_beside_ours(capsys: Capture) -> None:
    found = planned(capsys, *JOB, "--strategy", "zero2", *MACHINE, "--compare-estimators", code=1)
    first = found["estimators"][0]
    assert first["tool"] == "DeepSpeed estimate_zero2_no_offload"
    assert first["gpu_gib_per_rank"] == 46.01
    assert "no save" in first["why"]


def test_a_side_that_is_not_stated_is_not_judged(capsys: Capture) -> None:
    found = planned(capsys, *JOB, "--strategy", "zero2", "--gpu-memory", "80")
    assert [f["code"] for f in found["findings"]] == ["MEM013", "MEM011"]
    assert found["limits"]["host_gib"] is None


def test_a_machine_file_gives_the_limits(capsys: Capture, tmp_path: Path) -> None:
    machine = Machine(
        gpus=tuple(Gpu(i, memory_bytes=80 * GIB) for i in range(4)),
        limits=Limits(ram_bytes=512 * GIB, cgroup_bytes=62 * GIB),
    )
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(facts_document(Facts(machine=machine))))
    words = ("--params", "7.6B", "--strategy", "zero2", "--machine", str(path))
    found = planned(capsys, *words, code=1)
    assert found["job"]["gpus"] == 4  # the machine's
    assert found["limits"]["host_kind"] == "cgroup"
    assert found["root_cause"] == "host-oom-save"


def test_this_machine_is_read_where_nothing_is_stated(
    capsys: Capture, no_driver: StubMachine
) -> None:
    code = main(["plan", "--params", "10M", "--strategy", "ddp", "--gpus", "1", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert found["limits"]["host_gib"] is not None
    assert found["limits"]["gpu_gib"] is None
    assert code in {0, 1}


def test_without_any_limit_it_could_not_tell(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(facts_document(Facts())))
    words = ("--params", "7B", "--strategy", "ddp", "--machine", str(path))
    assert planned(capsys, *words, code=3)["verdict"] == "unknown"


def test_a_config_and_a_model_make_a_plan(capsys: Capture, tmp_path: Path) -> None:
    model = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
             "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
             "vocab_size": 128256}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(model))
    config = {"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
              "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 2}  # fmt: skip
    (tmp_path / "ds.json").write_text(json.dumps(config))
    words = ("--model", str(tmp_path), "--config", str(tmp_path / "ds.json"), "--gpus", "8")
    found = planned(capsys, *words, "--gpu-memory", "80")
    assert found["job"]["parameters"] == 8_030_261_248
    assert found["job"]["micro_batch"] == 2
    assert found["job"]["strategy"] == "zero3"
    assert "num_hidden_layers" in found["job"]["fields_used"]


def test_a_run_calibrates_the_plan(capsys: Capture, tmp_path: Path) -> None:
    record = tmp_path / "run"
    record.mkdir()
    facts = facts_document(Facts())
    (record / "run.json").write_text(
        json.dumps({"schema_version": 1, "kind": "run", "id": "r", "command": [], "facts": facts})
    )
    sample = {
        "t": 1.0,
        "in": "save",
        "p": [[7, "0", "python", 66 * GIB, 0, None]],
        "cg": [None, None, None, None, None],
        "avail": None,
        "swap": None,
        "shm": [None, None],
    }
    (record / "samples.jsonl.0").write_text(json.dumps(sample) + "\n")
    words = (*JOB, "--strategy", "zero2", "--gpu-memory", "80", "--host-memory", "128")
    found = planned(capsys, *words, "--from-run", str(record))
    assert found["peaks"]["host_gib_per_node"] == pytest.approx(66.0)
    assert found["calibration"][0].startswith("host in save is scaled by 1.03")
    assert found["calibration"][0] in found["notes"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--params", "7B"), "state the strategy"),
        (("--strategy", "ddp"), "state the model"),
        (("--params", "-7B", "--strategy", "ddp"), "--params: '-7B'"),
        (("--params", "7B", "--strategy", "zero9"), "--strategy: 'zero9' is none of"),
        (("--params", "7B", "--strategy", "ddp", "--gpu-memory", "80X"), "--gpu-memory: '80X'"),
        (("--params", "7B", "--strategy", "ddp", "--host-memory", "-1"), "--host-memory: '-1'"),
        (("--params", "7B", "--strategy", "ddp", "--gpus", "many"), "--gpus"),
        (("--params", "7B", "--strategy", "ddp", "--plot", "x.pdf", *MACHINE), "--plot: 'x.pdf'"),
        (("--params", "7B", "--strategy", "ddp", "--from-run", "nowhere", *MACHINE), "run.json"),
        (("--model", "absent.json", "--strategy", "ddp"), "absent.json: cannot be read"),
    ],
)
def test_bad_input_is_one_line_that_names_the_field(
    capsys: Capture, words: tuple[str, ...], message: str, no_driver: StubMachine
) -> None:
    assert message in refused(capsys, *words).splitlines()[0]


def test_bad_input_is_one_json_document_too(capsys: Capture) -> None:
    words = ["plan", "--params", "7B", "--strategy", "no", *MACHINE, "--format", "json"]
    assert main(words) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["exit_code"] == 2
    assert "--strategy" in document["error"]["message"]
