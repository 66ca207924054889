"""Signatures are matched on short texts as on logs, and rows say which cause they show."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.crash.scan import PHASE, scan_stream
from envguard.facts.sentences import fill
from envguard.matrix.causes import ShownBy, Where
from envguard.matrix.loader import Matrix
from envguard.signatures import find_shown, find_signatures, signature_patterns

MATRIX = Matrix.load()
CRASHES = sorted((Path(__file__).parent / "crashes").rglob("*.txt"))


def causes_of(text: str, where: Where = Where.ERROR) -> list[str]:
    return [said.cause for said in find_shown(find_signatures(text, MATRIX), MATRIX, where)]


@pytest.mark.parametrize("path", CRASHES[::12], ids=lambda path: path.stem)
def test_a_short_text_gives_what_the_scanner_of_logs_finds(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    log = scan_stream(io.BytesIO(text.encode()), MATRIX, "log")
    scanned = {
        (hit.id, hit.line, hit.text, hit.rank, tuple(hit.groups.items()))
        for name, hits in log.matches.items()
        if not name.startswith(PHASE)
        for hit in hits
    }
    found = {
        (hit.id, hit.line, hit.text, hit.rank, tuple(hit.groups.items()))
        for hit in find_signatures(text, MATRIX)
    }
    assert scanned or path.parent.name == "nothing"
    assert scanned <= found
    assert {name for name, *_ in found} == {name for name, *_ in scanned}


@given(
    st.lists(
        st.sampled_from([row.sample for row in MATRIX.causes.signatures] + ["\x1b[31m", "x" * 900]),
        max_size=8,
    ),
    st.sampled_from(["\n", "\r", " ", "\r\n", "\n[rank3]: "]),
)
@settings(max_examples=40, deadline=None)
def test_any_mix_of_samples_gives_the_signatures_that_a_scan_gives(
    texts: list[str], between: str
) -> None:
    text = between.join(texts)
    log = scan_stream(io.BytesIO(text.encode()), MATRIX, "log")
    scanned = {name for name in log.matches if not name.startswith(PHASE)}
    assert {hit.id for hit in find_signatures(text, MATRIX)} == scanned


def test_a_text_without_a_literal_has_nothing_and_compiles_no_pattern() -> None:
    code = (
        "import re\n"
        "from envguard.matrix.loader import Matrix\n"
        "from envguard.signatures import find_signatures\n"
        "matrix = Matrix.load()\n"
        "rows = {row.regex for row in matrix.causes.signatures}\n"
        "made, compile_of = [], re.compile\n"
        "def compile_and_note(text, *flags):\n"
        "    made.append(text)\n"
        "    return compile_of(text, *flags)\n"
        "re.compile = compile_and_note\n"
        "print(len(find_signatures('all is well', matrix)), len(rows & set(made)))\n"
        "hits = find_signatures('Torch not compiled with CUDA enabled', matrix)\n"
        "print([hit.id for hit in hits], 0 < len(rows & set(made)) < 20)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0 0", "['cpu-build-words'] True"]


def test_a_hit_names_its_line_its_groups_and_its_rank() -> None:
    text = "first\n\x1b[31m[rank2]: libcudart.so.11.0: cannot open shared object file\x1b[0m"
    (hit,) = [hit for hit in find_signatures(text, MATRIX) if hit.id == "cudart-missing"]
    assert (hit.line, hit.rank, hit.groups["lib"]) == (2, 2, "libcudart.so.11.0")
    assert hit.text == "libcudart.so.11.0: cannot open shared object file"


def test_what_no_encoding_holds_is_read() -> None:
    text = "\udcff Torch not compiled with CUDA enabled \ud800"
    assert [hit.id for hit in find_signatures(text, MATRIX)] == ["cpu-build-words"]


def test_a_mark_stands_for_each_signature_of_the_tables() -> None:
    assert [mark.id for mark in signature_patterns(MATRIX)] == [
        s.id for s in MATRIX.causes.signatures
    ]


@pytest.mark.parametrize(
    ("text", "causes"),
    [
        ("nothing that a row knows", []),
        (
            "x.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_string",
            ["abi-cxx11-flag"],
        ),
        ("libfoo.so.1: cannot open shared object file", []),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found", ["glibc-too-old"]),
        ("/lib/libstdc++.so.6: version `CXXABI_1.3.15' not found", ["libstdcxx-mismatch"]),
        ("RuntimeError: Unable to JIT load the fused_adam op due to ninja not", ["ninja-missing"]),
        (
            "/env/libcusparse.so.12: symbol __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
            ["ld-library-path-shadow"],
        ),
        # A device-side assertion speaks of a program's own indices: of none in a known program.
        ("CUDA error: device-side assert triggered", []),
    ],
)
def test_the_words_of_one_error_show_their_cause(text: str, causes: list[str]) -> None:
    assert causes_of(text) == causes


def test_the_most_fundamental_cause_stands_first() -> None:
    text = "Torch not compiled with CUDA enabled\nMemoryError\n"
    text += "Error 803: system has unsupported display driver / cuda driver combination"
    assert causes_of(text) == [
        "nvml-kernel-userspace-mismatch",
        "cpu-wheel-selected",
        "host-allocation-refused",
    ]


def test_torch_that_misses_a_library_of_its_own_is_not_a_package_of_another_cuda() -> None:
    words = "libcudart.so.13: cannot open shared object file"
    assert causes_of(words) == ["cudart-major-mismatch"]
    frame = "File /env/torch/__init__.py:300, in _load_global_deps"
    assert causes_of(f"{words}\n{frame}") == ["shared-library-missing"]


def test_a_row_for_errors_says_nothing_of_a_log() -> None:
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."
    assert causes_of(full) == ["gpu-memory-taken"]
    assert causes_of(full, Where.LOG) == []
    asserted = "Indexing.cu:1237: indexSelectSmallIndex: block: [0,0,0], thread: [32,0,0] "
    asserted += "Assertion `srcIndex < srcSelectDimSize` failed."
    assert causes_of(asserted, Where.LOG) == ["index-out-of-range-on-gpu"]


def test_sentences_take_what_the_words_name_and_what_the_caller_knows() -> None:
    hits = find_signatures("ModuleNotFoundError: No module named 'torch'", MATRIX)
    (said,) = find_shown(hits, MATRIX, Where.ERROR, {"python": "/env/{odd}/python"})
    assert said.title == "torch is not installed in /env/{odd}/python"
    hits = find_signatures("y.so: undefined symbol: _ZN3c104cuda9SetDeviceEab", MATRIX)
    (said,) = find_shown(hits, MATRIX, Where.ERROR)
    assert said.detail.startswith("y.so needs _ZN3c104cuda9SetDeviceEab, which this torch does not")
    assert fill("{a} and {b}", {"a": "1"}) == "1 and ?"


@pytest.mark.parametrize(
    ("found", "is_met"),
    [
        ({"a"}, False),
        ({"a", "c"}, True),
        ({"b", "c"}, True),
        ({"a", "c", "d"}, False),
        (set(), False),
    ],
)
def test_a_row_needs_one_of_any_and_one_of_all_and_nothing_that_forbids_it(
    found: set[str], *, is_met: bool
) -> None:
    row = ShownBy("x", any=("a", "b"), all=("c",), unless=("d",))
    assert row.is_met(found) is is_met
