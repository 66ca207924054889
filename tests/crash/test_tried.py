"""What a text shows was tried is passed over: remedies and experiments are never told as new."""

from __future__ import annotations

import io

import pytest

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.crash.case import Case, Circumstances, make_case
from envguard.crash.diagnose import diagnose
from envguard.crash.scan import scan_stream
from envguard.crash.tried import tried_of, untried
from envguard.facts.facts import Facts
from envguard.facts.findings import Finding, Remedy
from envguard.ingest.stated_pins import add_pins
from envguard.matrix.loader import Matrix

MATRIX = Matrix.load()
P2P = Remedy("run again with NCCL_P2P_DISABLE=1 and nothing else changed", ("env", "X"))


def case_of(text: str, *pins: str) -> Case:
    log = scan_stream(io.BytesIO(text.encode()), MATRIX, "log.txt")
    facts = Facts(environment=add_pins(None, list(pins))) if pins else Facts()
    return make_case(log, MATRIX, facts, (), Circumstances())


@pytest.mark.parametrize(
    ("text", "remedy", "words"),
    [
        ("export NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=1 (line 1)"),
        ("$ NCCL_P2P_DISABLE=1 torchrun t.py", "NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=1 (line 1)"),
        (
            'os.environ["NCCL_P2P_DISABLE"] = "1"',
            "NCCL_P2P_DISABLE=1",
            "NCCL_P2P_DISABLE=1 (line 1)",
        ),
        ("I tried NCCL_P2P_DISABLE, no luck", "NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=1 (line 1)"),
        (
            "NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.",
            "NCCL_NVLS_ENABLE=0",
            "NCCL_NVLS_ENABLE=0 (line 1)",
        ),
        ("docker run --shm-size=16g img", "--shm-size=8g", "--shm-size=16g (line 1)"),
        ("docker run --shm-size 64gb img", "--shm-size=8g", "--shm-size=64gb (line 1)"),
        ("dataloader_num_workers: 0", "num_workers=0", "dataloader_num_workers=0 (line 1)"),
        (
            "python t.py --per_device_train_batch_size 1",
            "half the micro-batch",
            "per_device_train_batch_size=1 (line 1)",
        ),
        (
            "python t.py --gradient_checkpointing True",
            "gradient checkpointing first",
            "gradient_checkpointing_enable (line 1)",
        ),
        (
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False python t.py",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False",
            "expandable_segments=False (line 1)",
        ),
        ("MAX_JOBS=2 pip install x", "MAX_JOBS=4", "MAX_JOBS=2 (line 1)"),
        (
            "$ pip install flash-attn --no-build-isolation",
            "pip install --no-build-isolation PACKAGE",
            "--no-build-isolation (line 1)",
        ),
    ],
)
def test_a_setting_at_the_advised_value_was_tried(text: str, remedy: str, words: str) -> None:
    assert [one.words for one in tried_of(case_of(text), remedy)] == [words]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("export NCCL_P2P_DISABLE=0", "NCCL_P2P_DISABLE=1"),
        ("# export NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=1"),
        ("unset NCCL_P2P_DISABLE", "NCCL_P2P_DISABLE=1"),
        ("please run with NCCL_DEBUG=INFO for details", "NCCL_DEBUG=INFO"),
        ("For debugging consider passing CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING=1"),
        (
            "try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation",
            "expandable_segments:True",
        ),
        ("with NCCL_P2P_DISABLE=1 it works", "NCCL_P2P_DISABLE=1"),
        ("Would NCCL_P2P_DISABLE=1 help?", "NCCL_P2P_DISABLE=1"),
        ("docker run --shm-size=1g img", "--shm-size=8g"),
        ("num_workers=8", "num_workers=0"),
        ("my_num_workers=0", "num_workers=0"),
        ("nothing of it", "NCCL_P2P_DISABLE=1"),
    ],
)
def test_advice_a_cure_and_another_value_were_not_tried(text: str, remedy: str) -> None:
    assert tried_of(case_of(text), remedy) == ()


def test_a_release_that_is_installed_is_not_advised_again() -> None:
    case = case_of("boom", "torch==2.6.0", "numpy==1.26.4")
    told = [one.words for one in tried_of(case, "python -m pip install numpy==1.26.4")]
    assert told == ["numpy==1.26.4"]
    assert tried_of(case, "python -m pip install numpy==1.26.4 torch==2.7.0") == ()
    assert tried_of(case, "python -m pip install --force-reinstall numpy==1.26.4") == ()
    assert tried_of(case, "python -m pip install --index-url URL torch==2.6.0") == ()


def test_what_was_tried_gives_way_to_the_rest_of_the_remedy() -> None:
    case = case_of("NCCL_P2P_DISABLE=1 torchrun t.py")
    remedy = Remedy(
        "run once with NCCL_P2P_DISABLE=1, then with NCCL_SHM_DISABLE=1 instead",
        ("env", "NCCL_P2P_DISABLE=1", "CMD"),
    )
    assert untried(case, remedy) == Remedy(
        "run again with NCCL_SHM_DISABLE=1 instead; already tried here: NCCL_P2P_DISABLE=1 (line 1)"
    )


def test_where_nothing_is_left_the_next_thing_takes_its_place() -> None:
    done = untried(case_of("NCCL_P2P_DISABLE=1 torchrun t.py"), P2P)
    assert done.text.startswith("run again with NCCL_SHM_DISABLE=1 instead")
    assert done.command == ("env", "NCCL_SHM_DISABLE=1")
    both = untried(case_of("NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 torchrun t.py"), P2P)
    assert both.command == ("env", "NCCL_DEBUG=INFO")
    assert "already tried here: NCCL_P2P_DISABLE=1 (line 1)" in both.text


def test_a_remedy_of_which_nothing_was_tried_stays_as_it_is() -> None:
    assert untried(case_of("boom"), P2P) is P2P


WATCHDOG = (
    "[rank{rank}]:[E1120 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, "
    "Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
)


def findings(text: str) -> tuple[Finding, ...]:
    log = scan_stream(io.BytesIO(text.encode()), MATRIX, "log.txt")
    return diagnose(log, Facts(), MATRIX, torch_index=DEFAULT_TORCH_INDEX).findings


def test_a_hypothesis_whose_experiment_was_made_in_vain_stands_behind() -> None:
    hang = "".join(WATCHDOG.format(rank=rank) for rank in (0, 1))
    first = findings(hang)[0]
    assert first.cause == "nccl-intra-node-transport"
    assert "NCCL_P2P_DISABLE=1" in (first.remedy.command if first.remedy else ())
    after = findings(f"$ export NCCL_P2P_DISABLE=1\n{hang}")
    assert [finding.cause for finding in after] == [
        "nccl-watchdog-abort",
        "nccl-intra-node-transport",
    ]
    assert "it ended all the same with NCCL_P2P_DISABLE=1 (line 1)" in after[1].detail
    assert after[1].remedy is not None
    assert "NCCL_P2P_DISABLE=1" not in after[1].remedy.command
