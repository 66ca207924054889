"""DeepSpeed's stages: start, step, save and load, and the part that fails is named."""

from __future__ import annotations

import os
import sys

import jsonschema
import pytest

from envguard.facts.report import report_document
from envguard.smoke.result import ErrorKind, SmokeResult, StageResult
from envguard.smoke.smoke_findings import smoke_findings
from envguard.smoke.smoke_report import smoke_report
from tests.smoke.fake import MATRIX, run_fake, run_fake_deepspeed
from tests.smoke.test_smoke_report import SCHEMA
from tests.smoke.test_smoke_run import failed, statuses

posix_only = pytest.mark.skipif(os.name != "posix", reason="uses signals")


def stage_of(result: SmokeResult, name: str) -> StageResult:
    stage = result.stage(name)
    assert stage is not None
    return stage


def test_every_zero_stage_passes_with_a_right_deepspeed() -> None:
    result = run_fake_deepspeed()
    assert failed(result) == {}
    assert statuses(result) == {
        "import": "ok",
        "cuda-init": "skip",
        "context": "ok",
        "deepspeed": "ok",
        "zero-1": "ok",
        "zero-2": "ok",
        "zero-3": "ok",
        "shutdown": "ok",
    }
    assert result.detail("deepspeed", "deepspeed") == "0.99.0+fake"
    assert stage_of(result, "zero-3").details["zero"] == 3
    assert stage_of(result, "zero-3").details["file_bytes"] > 4 * (24 * 16 + 24 + 4 * 24 + 4)


def test_the_zero_stages_run_on_a_pretended_gpu() -> None:
    result = run_fake_deepspeed(gpu="12.8,9.0,sm_90", device="cuda:0")
    assert failed(result) == {}
    assert result.device == "cuda:0"


def test_a_deepspeed_that_is_not_there_leaves_the_zero_stages_unreached() -> None:
    result = run_fake(stages=("zero-2",), FAKE_TORCH_DISTRIBUTED="1")
    assert failed(result)["deepspeed"].module == "deepspeed"
    (finding,) = smoke_findings(result, MATRIX)
    assert finding.package == "deepspeed"
    assert finding.remedy is not None
    assert finding.remedy.text == f"install deepspeed into {sys.executable}"
    assert stage_of(result, "zero-2").reason == "needs deepspeed"


def test_an_error_of_initialize_is_named_with_its_part() -> None:
    result = run_fake_deepspeed("ds-initialize=raise", message="CUDA_HOME does not exist")
    assert {name: error.message for name, error in failed(result).items()} == {
        "zero-1": "CUDA_HOME does not exist",
        "zero-2": "CUDA_HOME does not exist",
        "zero-3": "CUDA_HOME does not exist",
    }
    (finding,) = smoke_findings(result, MATRIX)
    assert (finding.code, finding.cause) == ("SMK001", "toolkit-missing")
    assert finding.title == (
        "zero-1 (initialize), zero-2 (initialize), zero-3 (initialize): "
        "RuntimeError: CUDA_HOME does not exist"
    )


def test_a_deepspeed_older_than_torch_is_named() -> None:
    message = (
        "cannot import name 'log' from 'torch.distributed.elastic.agent.server.api' "
        "(/env/torch/distributed/elastic/agent/server/api.py)"
    )
    (finding,) = smoke_findings(
        run_fake_deepspeed("ds-import=import-error", message=message), MATRIX
    )
    assert (finding.cause, finding.package) == ("ds-too-old-for-torch", "deepspeed")


@posix_only
def test_a_hang_in_the_step_says_where() -> None:
    result = run_fake_deepspeed("ds-step=hang", stages=("zero-2",), stage_timeout_s=2)
    stage = stage_of(result, "zero-2")
    assert stage.error is not None
    assert (stage.error.kind, stage.part) == (ErrorKind.HANG, "step")
    assert any(frame.endswith("in step") for frame in stage.error.frames)


@posix_only
def test_a_crash_while_saving_is_that_stages_and_that_parts() -> None:
    result = run_fake_deepspeed("ds-save-2=segfault")
    assert statuses(result)["zero-1"] == "ok"
    assert statuses(result)["zero-3"] == "not-reached"
    (finding,) = smoke_findings(result, MATRIX)
    assert (finding.code, finding.cause) == ("SMK002", "unknown-segfault")
    assert finding.title == "zero-2 (save): the process died of SIGSEGV (status -11)"
    frames = [e.value for e in finding.evidence if e.fact.startswith("smoke.frame")]
    assert frames[0].endswith("in string_at")
    assert any(frame.endswith("in save_checkpoint") for frame in frames)


@posix_only
def test_a_crash_while_saving_fits_the_schema() -> None:
    report = smoke_report(run_fake_deepspeed("ds-save-2=segfault"), MATRIX)
    document = report_document(report)
    jsonschema.validate(document, SCHEMA)
    (stage,) = [s for s in document["stages"] if s["id"] == "zero-2"]
    assert (stage["status"], stage["part"]) == ("fail", "save")


def test_weights_that_come_back_wrong_are_found() -> None:
    error = failed(run_fake_deepspeed("ds-load=wrong", stages=("zero-1",)))["zero-1"]
    assert error.kind is ErrorKind.NUMERICS
    assert error.message.startswith("the loss after the load differs")


def test_a_load_that_loads_nothing_is_found() -> None:
    result = run_fake_deepspeed(stages=("zero-1",), FAKE_DEEPSPEED_LOADS="nothing")
    assert failed(result)["zero-1"].type == "NothingLoadedError"


def test_a_step_that_moves_wrongly_is_found() -> None:
    error = failed(run_fake_deepspeed("backward=nan", stages=("zero-1",)))["zero-1"]
    assert error.kind is ErrorKind.NUMERICS


@posix_only
def test_a_group_that_hangs_when_it_is_closed_is_the_shutdowns() -> None:
    result = run_fake_deepspeed("destroy_process_group=hang", stages=("zero-1",), stage_timeout_s=2)
    assert statuses(result)["zero-1"] == "ok"
    assert failed(result)["shutdown"].kind is ErrorKind.HANG
