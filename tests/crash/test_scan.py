"""None"""

from __future__ import annotations

import io
import random
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envguard.crash.scan import scan_stream
from envguard.signatures import NOISE, SearchPattern, build_search, keys_of
from tests.crash.logs import FOLDER, MATRIX, load_log, report_of

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.crash.log import Log
    from envguard.matrix.causes import Signature


OOM = b"Out of memory: Killed process 91 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
STEP = b"{'loss': 0.4321, 'grad_norm': 1.234, 'learning_rate': 1.9e-05, 'epoch': 0.12}\n"


def scan(data: bytes) -> Log:
    return scan_stream(io.BytesIO(data), MATRIX, "log")


@pytest.mark.parametrize("row", MATRIX.causes.signatures, ids=lambda row: row.id)
def test_every_signature_is_found_in_its_sample(row: object) -> None:
    name, sample = row.id, row.sample  # type: ignore[attr-defined]  # a Signature
    log = scan(b"first line\n" + sample.encode() + b"\nlast line\n")
    assert name in log.matches
    assert log.matches[name][0].line == 2


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt"))[::25], ids=lambda path: path.stem)
def test_a_short_log_is_searched_as_the_start_of_a_long_one(path: Path) -> None:
    text = load_log(path).text.encode()
    short, long = scan(text), scan(text + b"\n" * 40_000)
    assert short.matches == long.matches
    assert short.counts == long.counts


def test_lines_are_numbered_as_an_editor_does() -> None:
    log = scan(b"a\n" * 41 + OOM)
    assert log.first("kernel-oom-global").line == 42  # type: ignore[union-attr]  # it is there


def test_carriage_returns_do_not_count_as_lines_and_do_not_hide_words() -> None:
    bar = b" 12%|#    | 1/8 [00:01<00:07]\r"
    log = scan(b"start\n" + bar * 500 + OOM + b"end\n")
    hit = log.first("kernel-oom-global")
    assert hit is not None
    assert (hit.line, hit.groups["pid"]) == (2, "91")


def test_words_across_the_border_of_two_reads_are_found() -> None:
    for shift in range(0, 200, 7):
        filler = STEP * ((1 << 20) // len(STEP) - 2)
        data = filler + b"x" * shift + b"\n" + OOM + STEP * 10
        assert scan(data).has("kernel-oom-global")


def test_a_signature_that_fills_the_log_keeps_its_first_and_last_lines() -> None:
    log = scan(STEP * 50_000 + OOM)
    first, last = log.matches["phase:iteration"][0], log.last("phase:iteration")
    assert first.line == 1
    assert last is not None
    assert last.line > 49_000
    assert log.counts["phase:iteration"] >= 50_000
    assert log.first("kernel-oom-global").line == 50_001  # type: ignore[union-attr]  # there


def test_digits_matter_where_a_signature_reads_them() -> None:
    assert not scan(b"oom_kill 0\n").has("cgroup-v2-oomkill")
    log = scan(b"oom_kill 0\n" * 10 + b"oom_kill 2\n")
    assert log.first("cgroup-v2-oomkill").line == 11  # type: ignore[union-attr]  # there


def test_digits_matter_however_often_they_did_not() -> None:
    quiet = b"".join(
        b"oom_kill 0\nGPU memory %d GB at step %d\n" % (i % 90, i) for i in range(9000)
    )
    log = scan(quiet + b"oom_kill 3\n")
    assert log.first("cgroup-v2-oomkill").line == 18_001  # type: ignore[union-attr]  # there


@pytest.mark.parametrize(
    ("pattern", "reads"),
    [
        (r"step (?P<n2>\d{1,9}) of [0-9]+", False),
        (r"\x1b\[\d{2}m done", False),
        (r"error 80[23]", True),
        (r"oom_kill [1-9]", True),
        (r"of (\w)\1", True),
    ],
)
def test_which_patterns_ask_for_certain_digits(pattern: str, reads: bool) -> None:
    assert SearchPattern("m", pattern, (b"x",)).reads_digits is reads


@given(st.lists(st.sampled_from(MATRIX.causes.signatures), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_lines_of_one_shape_do_not_hide_a_signature(rows: list[Signature]) -> None:
    """Lines that hold a text of a signature and do not match come first, often."""
    vain = b"".join(b"%s\n" % text.encode() for row in rows for text in row.literals) * 3
    log = scan(vain + b"".join(row.sample.encode() + b"\n" for row in rows))
    assert {row.id for row in rows} <= set(log.matches)


def test_interleaved_ranks_keep_their_names() -> None:
    data = b"[rank1]: KeyError: 'a'\n[rank0]: fine\n[rank3]: ValueError: b\n"
    ranks = [hit.rank for hit in scan(data).matches["python-exception"]]
    assert ranks == [1, 3]


def test_mixed_encodings_do_not_hide_words() -> None:
    data = "Größe\n".encode("latin-1") + b"\xff\xfe\x00\n" + "日本\n".encode("shift-jis") + OOM
    assert scan(data).first("kernel-oom-global").line == 4  # type: ignore[union-attr]  # there


def test_a_log_that_stops_mid_line_is_read_to_its_end() -> None:
    log = scan(b"a\nexits with return code = -9")
    assert log.ends_mid_line
    assert log.lines == 2
    assert log.first("deepspeed-return-code").groups["code"] == "-9"  # type: ignore[union-attr]  # there


def test_words_in_an_endless_line_are_found() -> None:
    data = b"y" * 3_000_000 + b" DataLoader worker (pid(s) 17) exited unexpectedly " + b"z" * 300
    hit = scan(data).first("dl-exited")
    assert hit is not None
    assert hit.line == 1
    assert len(hit.text) <= 410


def test_what_is_shown_holds_no_control_characters() -> None:
    log = scan(b"\x07\x08\x00 RuntimeError: CUDA error: misaligned address\x0b\x0c\n")
    shown = [hit.text for hits in log.matches.values() for hit in hits]
    shown += [text for _, text in log.tail]
    assert shown
    assert all(text.isprintable() for text in shown)


@pytest.mark.parametrize("seed", range(3))
def test_rubbish_gives_a_report(seed: int) -> None:
    data = random.Random(seed).randbytes(300_000)  # noqa: S311 - rubbish, not a secret
    assert report_of(data, exit_code=1).verdict.value in {"unknown", "fail"}


@given(st.binary(max_size=3000))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_a_report(data: bytes) -> None:
    report = report_of(data)
    assert report.extra["crash"]["log"]["bytes"] >= 0


@given(
    st.lists(
        st.sampled_from(
            [row.sample for row in MATRIX.causes.signatures]
            + ["Traceback (most recent call last):", "", "x" * 500]
        ),
        max_size=12,
    ),
    st.sampled_from([None, 0, 1, -9, 139, 247, 255, 3221225477]),
)
@settings(max_examples=150, deadline=None)
def test_any_mix_of_known_words_gives_a_report(lines: list[str], code: int | None) -> None:
    report = report_of("\n".join(lines), exit_code=code)
    assert report.findings


ROWS = [(row.id, row.pattern, row.literals) for row in MATRIX.causes.signatures]
ROWS += [(row.id, re.compile(row.regex), row.literals) for row in MATRIX.signals.phases]


@pytest.mark.parametrize(("name", "pattern", "literals"), ROWS, ids=[row[0] for row in ROWS])
def test_whatever_a_pattern_matches_holds_one_of_its_literals(
    name: str, pattern: re.Pattern[str], literals: tuple[str, ...]
) -> None:
    if pattern.flags & re.IGNORECASE or "(?i:" in pattern.pattern:
        # Texts made from a pattern of either case would hold spellings that no literal names.
        pytest.skip("people write either case; the literals cover the usual spellings")

    @given(st.from_regex(pattern))
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    def check(text: str) -> None:
        assert any(literal in text for literal in literals)

    check()


@pytest.mark.parametrize(("name", "pattern", "literals"), ROWS, ids=[row[0] for row in ROWS])
def test_literals_do_not_rest_on_what_keys_leave_out(
    name: str, pattern: re.Pattern[str], literals: tuple[str, ...]
) -> None:
    assert literals
    assert all(len(text.encode().translate(None, NOISE)) >= 2 for text in literals)


def test_the_search_finds_each_text_and_the_shortest_first() -> None:
    search = build_search([b"error", b"errors found", b"killed", b"kill"])
    assert search is not None
    assert [m.group() for m in search.finditer(b"errors found; killed")] == [b"error", b"kill"]
    assert build_search([]) is None


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=20), st.binary())
def test_the_search_agrees_with_a_plain_one(texts: list[bytes], data: bytes) -> None:
    search = build_search(texts)
    assert search is not None
    found = search.search(data)
    places = [data.find(text) for text in texts if text in data]
    assert (found.start() if found else None) == (min(places) if places else None)


def test_lines_that_differ_in_figures_and_bars_share_a_key() -> None:
    one, two = keys_of(b" 12%|##   | 12/100 [0.5it/s]\n 13%|###  | 13/100 [0.51it/s]")
    assert one == two


def test_keys_have_as_many_lines_as_the_block() -> None:
    assert len(keys_of(b"a\n\n12\nb")) == 4
