"""Stands of ranks come to a hang: out of step, one behind, all equal, one alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.crash.collectives import Call, RankStand, Standing, find_hang
from envguard.crash.hang_words import ranks_text, silent_ranks, words_of

DEFAULT = "0(default_pg)"


def stand(rank: int, number: int | None, operation: str = "ALLREDUCE", size: int = 8) -> RankStand:
    calls = {number: Call(operation, size, size)} if number is not None else {}
    return RankStand(rank, DEFAULT, number, calls, enqueued=number)


def test_another_operation_at_one_number_differs() -> None:
    hang = find_hang([stand(0, 7), stand(1, 7, "ALLGATHER")])
    assert hang is not None
    assert hang.standing is Standing.DIFFER
    assert words_of(hang)["calls"] == (
        "rank 0 in ALLREDUCE of 8 elements, number 7; rank 1 in ALLGATHER of 8 elements, number 7"
    )


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("ALLREDUCE", Standing.DIFFER),
        ("_ALLGATHER_BASE", Standing.DIFFER),
        ("ALLGATHER", Standing.EQUAL),
        ("ALLTOALL_BASE", Standing.EQUAL),
    ],
)
def test_sizes_count_where_ranks_have_to_agree(operation: str, expected: Standing) -> None:
    hang = find_hang([stand(0, 7, operation, 8), stand(1, 7, operation, 9)])
    assert hang is not None
    assert hang.standing is expected


def test_send_against_receive_is_no_difference() -> None:
    hang = find_hang([stand(0, 7, "SEND"), stand(1, 7, "RECV")])
    assert hang is not None
    assert hang.standing is Standing.EQUAL


def test_a_dump_and_a_log_name_one_operation_alike() -> None:
    hang = find_hang([stand(0, 7, "ALLREDUCE"), stand(1, 7, "all_reduce")])
    assert hang is not None
    assert hang.standing is Standing.EQUAL


def test_a_rank_that_called_less_is_behind() -> None:
    late = RankStand(3, DEFAULT, enqueued=6, completed=6)
    hang = find_hang([stand(0, 7), late, stand(1, 7)])
    assert hang is not None
    assert hang.standing is Standing.BEHIND
    assert words_of(hang)["stands"] == "rank 3 stands at 6, while ranks 0 and 1 wait at 7"


def test_a_rank_that_called_ahead_of_the_gpu_is_not_ahead() -> None:
    """Calls are asynchronous: what is enqueued beyond the collective that hangs says nothing."""
    hang = find_hang([replace(stand(0, 7), enqueued=9), replace(stand(1, 7), enqueued=7)])
    assert hang is not None
    assert hang.standing is Standing.EQUAL


def test_ranks_that_wait_at_different_numbers_are_out_of_step() -> None:
    first = replace(stand(0, 5, "_ALLGATHER_BASE"), enqueued=9)
    hang = find_hang([first, stand(3, 7, "_REDUCE_SCATTER_BASE")])
    assert hang is not None
    assert hang.standing is Standing.DIFFER
    assert "number 5" in words_of(hang)["calls"]
    assert "number 7" in words_of(hang)["calls"]


def test_one_rank_alone_tells_nothing_of_the_others() -> None:
    hang = find_hang([stand(2, 7)])
    assert hang is not None
    assert hang.standing is Standing.ALONE
    assert words_of(hang)["stands"].endswith("nothing is told of the other ranks")


def test_groups_are_judged_apart() -> None:
    other = replace(stand(1, 7, "BROADCAST"), group="3(tp)")
    hang = find_hang([stand(0, 7), other])
    assert hang is not None
    assert hang.standing is Standing.ALONE


def test_nobody_waits_is_no_hang() -> None:
    assert find_hang([]) is None
    assert find_hang([RankStand(0, DEFAULT, enqueued=4, completed=4)]) is None


def test_silent_ranks_are_those_of_the_group_without_a_word() -> None:
    hang = find_hang([replace(stand(1, 7), members=(0, 1, 5)), stand(5, 7)])
    assert hang is not None
    assert silent_ranks(hang) == (0,)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([3], "rank 3"),
        ([5, 3], "ranks 3 and 5"),
        ([0, 1, 2], "ranks 0, 1 and 2"),
        (range(20), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 others"),
    ],
)
def test_ranks_are_told_in_order_and_many_in_short(ranks: list[int], expected: str) -> None:
    assert ranks_text(ranks) == expected
