from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from envguard.errors import MatrixError
from envguard.matrix.causes import CauseTable
from envguard.matrix.loader import Matrix
from envguard.matrix.order import OrderTable
from envguard.matrix.reading import Document
from tests.matrix.literals import (
    CODE,
    SLUG,
    causes_of,
    package_trees,
    pairs_of,
    table_words,
    texts,
)

if TYPE_CHECKING:
    from envguard.matrix.causes import CodeRow

# The causes that the specification names; some of them only occur in reports so far.
SPECIFIED = """
driver-too-old-for-cuda driver-too-old-for-cuda-major minor-compat-feature-gap
driver-branch-dropped-gpu kernel-module-flavour no-gpu-visible fabric-manager-missing
compat-libcuda-in-image-on-geforce driver-libs-baked-in-image nvml-kernel-userspace-mismatch
nvml-cgroup-reload nvml-missing-tegra nvml-assert-masks-oom mig-uuid-parsing vgpu-licence
vgpu-feature-gap wsl-driver-shadow libcuda-crash arch-missing-old-gpu arch-missing-new-gpu
mixed-gpus-arch arch-false-positive-warning jetson-needs-l4t-build cpu-wheel-selected
resolver-auto-backend resolver-local-version already-satisfied-other-tag
companion-from-other-index wrong-install-active wrong-interpreter-inspected shadowed-install
build-isolation abi-torch-version abi-cxx11-flag abi-mislabelled-wheel vision-torch-mismatch
vision-cpu-build cudart-major-mismatch mixed-cuda-major-packages ld-library-path-shadow
nccl-shadowed libstdcxx-mismatch vendor-lib-bug torch-release-bug ds-too-old-for-torch
ds-too-old-for-numpy ds-nccl-eager-connect toolkit-major-mismatch toolkit-minor-mismatch-ok
toolkit-missing transformers-regression host-oom-load host-oom-per-rank-load
host-oom-optimizer-offload host-oom-save host-oom-rank0-gather host-oom-resume host-oom-growth
container-memory-limit pinned-host-memory-limit shm-too-small shm-leak sigbus-from-mmap-storage
exit-code-decoding launcher-sigkill-after-sigterm nccl-watchdog-abort nccl-intra-node-transport
sighup-terminal-closed sigterm-from-supervisor zero-layout-changed unknown-segfault
gpu-oom-states-plus-activations gpu-oom-zero2-full-params zero-buffers config-not-active
estimator-states-only memory-plan
"""
COMMANDS = frozenset(
    {
        "check",
        "diagnose",
        "env",
        "explain",
        "fleet",
        "inspect",
        "lock",
        "matrix",
        "plan",
        "probe",
        "run",
        "smoke",
    }
)


@pytest.fixture(scope="module")
def table() -> CauseTable:
    return Matrix.load().causes


def sentences(row: CodeRow) -> list[str]:
    return [row.meaning, row.found, *row.fix]


def test_every_code_in_the_program_has_a_row(table: CauseTable) -> None:
    used = {text for _, tree in package_trees() for text in texts(tree) if CODE.fullmatch(text)}
    used |= {word for field, word in table_words() if field == "code" and CODE.fullmatch(word)}
    assert sorted(used - {row.code for row in table.codes}) == []


def test_every_cause_in_the_program_and_its_tables_has_a_row(table: CauseTable) -> None:
    used = {cause: name for name, tree in package_trees() for cause in causes_of(tree)}
    used |= {word: "a table" for field, word in table_words() if field != "code"}
    used |= dict.fromkeys(SPECIFIED.split(), "the specification")
    known = {row.slug for row in table.causes}
    assert {cause: name for cause, name in used.items() if cause not in known} == {}


def test_every_code_with_a_row_is_used(table: CauseTable) -> None:
    used = {text for _, tree in package_trees() for text in texts(tree)}
    used |= {word for _, word in table_words()}
    assert [row.code for row in table.codes if row.code not in used] == []


def test_every_cause_with_a_row_is_used(table: CauseTable) -> None:
    used = {text for _, tree in package_trees() for text in texts(tree)}
    used |= {word for _, word in table_words()} | set(SPECIFIED.split())
    assert [row.slug for row in table.causes if row.slug not in used] == []


def test_every_row_names_the_causes_that_the_program_gives_it(table: CauseTable) -> None:
    causes = {row.code: row.causes for row in table.codes}
    found = {pair for _, tree in package_trees() for pair in pairs_of(tree)}
    assert len(found) > 100
    assert sorted(pair for pair in found if pair[1] not in causes.get(pair[0], ())) == []


def test_codes_stand_by_name_and_causes_by_their_order(table: CauseTable) -> None:
    codes, causes = [row.code for row in table.codes], [row.slug for row in table.causes]
    assert codes == sorted(codes)
    ranks = [table.order.rank(cause) for cause in causes]
    assert ranks == sorted(ranks)
    assert all(CODE.fullmatch(code) for code in codes)
    assert all(SLUG.fullmatch(cause) for cause in causes)


def test_texts_are_sentences(table: CauseTable) -> None:
    ends = [(row.code, text) for row in table.codes for text in sentences(row)]
    ends += [(row.slug, row.text) for row in table.causes]
    # a step of a fix may go on in the next one
    assert [pair for pair in ends if not pair[1].endswith((".", "?", ","))] == []
    assert [row.code for row in table.codes if row.title.endswith(".") or not row.title] == []


def test_texts_name_only_commands_that_exist(table: CauseTable) -> None:
    said = " ".join(text for row in table.codes for text in sentences(row))
    named = set(re.findall(r"`envguard ([a-z]+)", said))
    assert "lock" in named
    assert named <= COMMANDS


def test_a_code_is_found_by_its_text_and_a_cause_by_its_slug(table: CauseTable) -> None:
    row, cause = table.code("GPU001"), table.cause("arch-missing-old-gpu")
    assert row is not None
    assert row.causes == ("arch-missing-old-gpu",)
    assert row.family == "GPU"
    assert row.provenance.source.url.startswith("https://docs.nvidia.com/")
    assert cause is not None
    assert [found.code for found in table.carrying(cause.slug)] == [
        "CRS002",
        "CRS161",
        "GPU001",
        "PKG005",
        "SMK001",
    ]
    assert table.code("GPU999") is None
    assert table.cause("no-such-cause") is None


def test_a_prefix_lists_what_begins_with_it_whatever_its_case(table: CauseTable) -> None:
    assert table.named_like("gpu001") == ("GPU001",)
    assert table.named_like("arch-m") == ("arch-missing-new-gpu", "arch-missing-old-gpu")
    assert table.named_like("zzz") == ()


def test_a_mistyped_name_has_suggestions(table: CauseTable) -> None:
    assert "GPU001" in table.suggest("GPU01")
    assert table.suggest("arch-missing-old-gpus")[0] == "arch-missing-old-gpu"
    assert table.suggest("???") == ()


SOURCES = {"s": {"url": "https://example.org/", "checked": "2026-11-29"}}
PROVED = {"source": "s", "confidence": "doc"}
ORDER = {"order": ["a-cause"], "family": {"GPU": "code"}}
CODE_ROW = {
    "code": "GPU001",
    "causes": "a-cause",
    "title": "a title",
    "meaning": "It means.",
    "found": "It is found.",
    "fix": ["Do this."],
    **PROVED,
}
CAUSE_ROW = {
    "slug": "a-cause",
    "scope": "job",
    "text": "It is.",
    "says": [{"code": "GPU001", "title": "it is", "remedy": "do this"}],
    "shown": [{"any": ["a-word"]}],
    "suspect": [{"speaks": "it does", "experiment": "change one thing", "lines": ["a-word"]}],
    **PROVED,
}
SIGNATURE = {
    "id": "a-word",
    "regex": "a word (?P<n>\\d)",
    "literals": ["a word"],
    "sample": "a word 1",
    **PROVED,
}


def read(
    cause: dict[str, object] | None = None,
    code: dict[str, object] | None = None,
    signature: dict[str, object] | None = None,
    order: dict[str, object] | None = None,
) -> CauseTable:
    """A small table with changes to its only cause, code and signature."""
    data = {
        "cause": [{**CAUSE_ROW, **(cause or {})}],
        "code": [{**CODE_ROW, **(code or {})}],
        "signature": [{**SIGNATURE, **(signature or {})}],
        "sources": SOURCES,
    }
    table = OrderTable(Document("order.toml", {**ORDER, **(order or {})}))
    return CauseTable((Document("causes/a.toml", data),), table)


def test_a_small_table_is_read() -> None:
    table = read()
    (cause,) = table.causes
    (message,), (shown,), (suspect,) = cause.says, cause.shown, cause.suspects
    assert (message.id, message.cause, message.code) == ("a-cause", "a-cause", "GPU001")
    assert (shown.says, shown.any) == ("a-cause", ("a-word",))
    assert (suspect.id, suspect.says) == ("a-cause", "a-cause")
    assert table.codes[0].fix == ("Do this.",)
    assert table.signature("a-word").pattern.search("a word 1") is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"code": {"code": "XYZ001"}}, r"says\.code: there is no code 'GPU001'"),
        ({"code": {"meaning": 3}}, r"code\[0\]\.meaning: expected a text"),
        ({"code": {"causes": "other"}}, r"code\[0\]\.causes: there is no cause 'other'"),
        ({"cause": {"scope": "world"}}, r"cause\[0\]\.scope: 'world'"),
        ({"cause": {"explains": ["none"]}}, r"explains: there is no signature 'none'"),
        ({"cause": {"same_matter": ["none"]}}, r"same_matter: there is no cause 'none'"),
        (
            {"cause": {"says": [{"id": "b", "code": "GPU001", "title": "t"}]}},
            r"cause\[0\]\.says\[0\]\.id: expected 'a-cause'",
        ),
        (
            {"cause": {"shown": [{"any": ["a-word"], "says": "a-cause.other"}]}},
            r"shown\.says: there is no message 'a-cause\.other'",
        ),
        ({"cause": {"shown": [{"any": ["none"]}]}}, r"shown: there is no signature 'none'"),
        ({"cause": {"suspect": 3}}, r"suspect: expected rows"),
        ({"order": {"order": ["a-cause", "a-cause"]}}, r"order: names 'a-cause' twice"),
        ({"order": {"family": ["GPU"]}}, r"family: expected a text for each prefix"),
        ({"order": {"family": {"GPU": 1}}}, r"family\.GPU: expected a text"),
        ({"order": {"family": {}}}, r"code\[0\]\.code: GPU001 is of no family"),
    ],
)
def test_a_row_that_names_no_row_is_refused_with_its_place(
    change: dict[str, dict[str, object]], words: str
) -> None:
    with pytest.raises(MatrixError, match=words):
        read(**change)


def test_a_pattern_that_is_none_is_named_when_it_is_used() -> None:
    table = read(signature={"regex": "(unclosed"})
    with pytest.raises(MatrixError, match=r"signature a-word: .* is not a pattern"):
        _ = table.signature("a-word").pattern


def test_a_cause_that_the_order_does_not_name_stands_last() -> None:
    order = OrderTable(Document("order.toml", ORDER))
    assert order.rank("a-cause") < order.rank("some-other-cause")
