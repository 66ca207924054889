"""Dumps of the flight recorder, made by torch 2.13 with gloo (their paths changed), are read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from envguard.cli.main import main
from envguard.crash.flight_recorder import read_dumps, split_dumps
from envguard.errors import InputError

SAMPLES = Path(__file__).parents[1] / "samples" / "flight_recorder"


def entry(number: int, operation: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "profiling_name": f"nccl:{operation}",
        "input_sizes": [[4, 2]],
        "output_sizes": [[8]],
        "state": state,
        "retired": state == "completed",
        "is_p2p": False,
        **more,
    }


def write(folder: Path, rank: int, *entries: dict[str, Any]) -> Path:
    path = folder / f"nccl_trace_rank_{rank}"
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    path.write_bytes(
        pickle.dumps({"version": "2.10", "pg_config": config, "entries": list(entries)}, 2)
    )
    return path


def test_a_dump_tells_group_number_operation_size_and_caller() -> None:
    (stand,) = read_dumps([SAMPLES / "differ" / "nccl_trace_rank_1"])
    assert (stand.rank, stand.group, stand.waits_at) == (1, "0(default_pg)", 2)
    assert stand.call is not None
    assert stand.call.text == "broadcast of 6 elements"
    assert stand.caller == "train.py:12"


def test_sizes_are_elements_of_all_tensors(tmp_path: Path) -> None:
    sizes = {"input_sizes": [[4, 2], [3]], "output_sizes": [[], [2**60]]}
    (stand,) = read_dumps([write(tmp_path, 0, entry(1, "all_reduce", "started", **sizes))])
    assert stand.call is not None
    assert (stand.call.size_in, stand.call.size_out) == (11, None)
    assert stand.members == (0, 1, 2)


def test_point_to_point_entries_do_not_count(tmp_path: Path) -> None:
    path = write(tmp_path, 0, entry(9, "send 0->1", "started", is_p2p=True))
    assert read_dumps([path]) == ()


def test_dumps_are_told_from_logs_and_folders_are_looked_through(tmp_path: Path) -> None:
    dump = write(tmp_path, 1, entry(1, "all_reduce", "started"))
    log = tmp_path / "train.log"
    log.write_text("Watchdog\n")
    assert split_dumps([str(log), str(dump)]) == ((str(log),), (dump,))
    assert split_dumps([str(tmp_path), "-", "nowhere"]) == (("-", "nowhere"), (dump,))


def test_a_dump_as_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace_3.json"
    path.write_text(
        json.dumps({"version": "2", "pg_status": {}, "entries": [entry(1, "x", "started")]})
    )
    (_, dumps) = split_dumps([str(path)])
    (stand,) = read_dumps(dumps)
    assert (stand.rank, stand.waits_at) == (3, 1)


def test_a_hostile_dump_is_one_error_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "ran"
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(b"\x80\x02}X\x01\x00\x00\x00acos\nsystem\n(X\x05\x00\x00\x00touchtRs.")
    assert main(["diagnose", str(path)]) == 2
    assert "GLOBAL" in capsys.readouterr().err
    assert not marker.exists()


def test_a_document_without_entries_is_no_dump(tmp_path: Path) -> None:
    path = tmp_path / "trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": 3}, 2))
    with pytest.raises(InputError, match="no list of entries"):
        read_dumps([path])


@pytest.mark.parametrize("entries", [None, [7, None, "x"], [{"is_p2p": False}]])
def test_odd_entries_tell_nothing(tmp_path: Path, entries: object) -> None:
    path = tmp_path / "trace_rank_0"
    path.write_bytes(pickle.dumps({"entries": entries}, 2))
    assert all(stand.waits_at is None for stand in read_dumps([path]))


def test_a_name_without_a_number_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(pickle.dumps({"entries": []}, 2))
    with pytest.raises(InputError, match="the rank is told by the number"):
        read_dumps([path])


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (
            "differ",
            "rank 0 in all_reduce of 4 elements, number 2; rank 1 in broadcast of 6 elements",
        ),
        (
            "behind",
            "rank 1 did not reach all_reduce of 4 elements, number 2, in which rank 0 waits",
        ),
    ],
)
def test_diagnose_takes_a_folder_of_dumps(
    folder: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(SAMPLES / folder)]) == 1
    assert said in " ".join(capsys.readouterr().out.split())


def test_diagnose_takes_dumps_beside_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "[rank0]:[E1130 10:00:00.0 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, "
        "Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
        "[rank0]:[E1130 10:00:01.0 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 0]  failure detected by watchdog at work sequence id: 5 PG status: last enqueued "
        "work: 5, last completed work: 4\n"
    )
    dump = write(tmp_path, 1, entry(4, "all_reduce", "completed"))
    assert main(["diagnose", str(log), str(dump)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "rank 1 stands at 4, while rank 0 waits at 5" in out
