from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from envguard.crash.phases import Phase
from envguard.errors import MatrixError
from envguard.matrix.causes import GENERAL_CODE, PHASES, CauseTable
from envguard.matrix.loader import Matrix
from envguard.matrix.order import OrderTable
from envguard.matrix.reading import Document
from envguard.matrix.verify import verify
from tests.matrix.literals import (
    CODE,
    ROOT,
    SLUG,
    causes_of,
    choices,
    package_trees,
    pairs_of,
    table_words,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.causes import CodeRow
    from tests.matrix.conftest import Break

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


def test_every_message_and_hypothesis_of_a_rule_is_a_row_and_every_row_is_used(
    table: CauseTable,
) -> None:
    asked = {name: by for by, tree in package_trees() for name in _asked_for(tree)}
    messages = {message.id for cause in table.causes for message in cause.says}
    raised = [row for cause in table.causes for row in cause.hypotheses]
    assert len(asked) > 60
    known = messages | {row.id for row in raised}
    assert {name: by for name, by in asked.items() if name not in known} == {}
    told = {row.says for cause in table.causes for row in cause.shown}
    told |= {row.says for row in raised}
    named = {text for _, tree in package_trees() for text in texts(tree)}
    assert sorted(messages - told - named) == []
    assert [row.id for row in raised if not row.is_told and row.id not in named] == []


def _asked_for(tree: ast.Module) -> Iterator[str]:
    """The names that rules give to ``raise_hypothesis``, ``make_finding`` and ``message``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func, node.args:
            case ast.Name(id="raise_hypothesis"), [first, *_]:
                yield from choices(first)
            case ast.Name(id="make_finding"), [_, second, *_]:
                yield from choices(second)
            case ast.Attribute(attr="message" | "hypothesis"), [first]:
                yield from choices(first)
            case _:
                pass


def test_every_signature_is_named_by_a_row_or_a_rule(table: CauseTable) -> None:
    matrix = Matrix.load()
    named = {text for _, tree in package_trees() for text in texts(tree)}
    for cause in table.causes:
        named.update(cause.explains)
        named.update(name for row in cause.shown for name in (*row.any, *row.all, *row.unless))
        for row in cause.hypotheses:
            named.update((*row.any, *row.all, *row.unless, *row.lines))
    named.update(bug.signature for bug in table.native_bugs)
    named.update(name for row in matrix.breaks.all for name in (*row.shows, *row.frames))
    named.update(name for row in matrix.signals.launchers for name in row.words)
    named.update(name for row in matrix.signals.tools for name in row.says)
    assert [row.id for row in table.signatures if row.id not in named] == []


def test_each_file_of_rules_is_named_as_the_table_of_its_causes() -> None:
    rules = {path.stem for path in (ROOT / "envguard/crash/rules").glob("*.py")} - {"__init__"}
    tables = {path.stem for path in (ROOT / "compat_matrix/causes").glob("*.toml")}
    assert len(rules) > 10
    assert sorted(rules - tables) == []


def test_phases_of_rows_are_phases(table: CauseTable) -> None:
    assert (*(phase.value for phase in Phase), "unknown") == PHASES
    assert any(row.phase for cause in table.causes for row in cause.hypotheses)


def test_signatures_stand_beside_what_they_show() -> None:
    matrix = Matrix.load()
    homes = {s.id: place.partition(":")[0] for place, s in matrix.causes.signature_places}
    assert homes["dl-bus"] == "causes/shared_memory.toml"
    assert homes["torchrun-root"] == "launchers.toml"
    assert homes["shell-death"] == "exits.toml"
    assert homes["life-signs"] == "evidence.toml"
    assert homes["tf5-names"] == "breaks.toml"


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
    "hypothesis": [{"supports": "it does", "experiment": "change one thing", "lines": ["a-word"]}],
    **PROVED,
}
SIGNATURE = {
    "id": "a-word",
    "regex": "a word (?P<n>\\d)",
    "literals": ["a word"],
    "sample": "a word 1",
    **PROVED,
}


def _data(
    cause: dict[str, object] | None = None,
    code: dict[str, object] | None = None,
    signature: dict[str, object] | None = None,
    symptom: dict[str, object] | None = None,
) -> dict[str, object]:
    return {
        "cause": [{**CAUSE_ROW, **(cause or {})}],
        "code": [{**CODE_ROW, **(code or {})}],
        "signature": [{**SIGNATURE, **(signature or {})}],
        "symptom": [{"id": "words", "signatures": ["a-word"], **(symptom or {})}],
        "sources": SOURCES,
    }


def read(
    cause: dict[str, object] | None = None,
    code: dict[str, object] | None = None,
    signature: dict[str, object] | None = None,
    symptom: dict[str, object] | None = None,
    order: dict[str, object] | None = None,
) -> CauseTable:
    """A small table with changes to its only cause, code and signature."""
    data = _data(cause, code, signature, symptom)
    table = OrderTable(Document("order.toml", {**ORDER, **(order or {})}))
    return CauseTable((Document("causes/a.toml", data),), table)


def test_a_small_table_is_read() -> None:
    table = read()
    (cause,) = table.causes
    (message,), (shown,), (hypothesis,) = cause.says, cause.shown, cause.hypotheses
    assert (message.id, message.cause, message.code) == ("a-cause", "a-cause", "GPU001")
    assert (shown.says, shown.any) == ("a-cause", ("a-word",))
    assert (hypothesis.id, hypothesis.says) == ("a-cause", "a-cause")
    assert table.codes[0].fix == ("Do this.",)
    assert table.signature("a-word").pattern.search("a word 1") is not None


def test_a_symptom_stands_for_its_signatures() -> None:
    (cause,) = read(cause={"explains": ["words"], "shown": [{"any": ["words"]}]}).causes
    assert cause.explains == ("a-word",)
    assert cause.shown[0].any == ("a-word",)


def test_a_code_says_only_what_its_messages_do_not() -> None:
    row = {"code": "GPU001", **PROVED}
    said = {"code": "GPU001", "title": "it is", "detail": "So.", "remedy": "do this"}
    order = OrderTable(Document("order.toml", ORDER))
    data = {**_data(cause={"says": [said]}), "code": [row]}
    table = CauseTable((Document("causes/a.toml", data),), order)
    (code,) = table.codes
    assert (code.causes, code.title, code.meaning) == (("a-cause",), "it is", "So.")
    assert (code.found, code.fix) == ("In the words of a log, such as 'a word 1'.", ("Do this.",))
    with pytest.raises(MatrixError, match=r"code\[0\]\.causes: is missing"):
        _ = CauseTable((Document("causes/a.toml", {**data, **_silent()}),), order).codes


def _silent() -> dict[str, object]:
    return {"cause": [{**CAUSE_ROW, "says": [], "shown": [], "hypothesis": []}]}


def test_a_message_without_a_code_prints_the_general_one() -> None:
    general = {"code": GENERAL_CODE, "title": "t", "meaning": "m", "found": "f", **PROVED}
    data = {**_data(cause={"says": [{"title": "it is", "remedy": "do this"}]}), "code": [general]}
    order = OrderTable(Document("order.toml", {**ORDER, "family": {"CRS": "crashes"}}))
    table = CauseTable((Document("causes/a.toml", data),), order)
    assert table.message("a-cause").code == GENERAL_CODE
    assert table.codes[0].causes == ("a-cause",)
    assert table.fix("a-cause") == ("Do this.",)
    assert table.samples("a-cause") == ("a word 1",)


def test_a_hypothesis_is_raised_by_its_row_where_that_says_when() -> None:
    told = {"any": ["a-word"], "experiment": "e", "signal": ["SIGKILL"], "phase": ["init"]}
    (cause,) = read(cause={"hypothesis": [told, {"id": "a-cause.rule", "experiment": "e"}]}).causes
    first, second = cause.hypotheses
    assert (first.is_told, first.lines, first.signal) == (True, ("a-word",), ("SIGKILL",))
    assert (second.is_told, second.rank) == (False, 500)


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
        ({"cause": {"shown": [{"anny": ["a-word"]}]}}, r"shown\[0\]\.anny: is none of says, any"),
        ({"cause": {"slug": "A Cause"}}, r"cause\[0\]\.slug: 'A Cause' is none such as"),
        ({"cause": {"shown": [{"any": []}]}}, r"shown\[0\]\.any: expected at least one text"),
        *(
            ({"cause": {"says": [{"code": "GPU001", "title": text}]}}, r"title: .* is no template")
            for text in ("{", "}", "{}", "{0}", "{n!r}", "{n.__class__}", "{n[0]}", "{n:.1f}")
        ),
        ({"cause": {"hypothesis": [{}]}}, r"hypothesis\[0\]\.experiment: is missing"),
        (
            {"cause": {"hypothesis": [{"experiment": "e {", "any": ["a-word"]}]}},
            r"cause\[0\]\.hypothesis\[0\]\.experiment: 'e \{' is no template",
        ),
        (
            {"cause": {"hypothesis": [{"experiment": "e", "phase": ["lunch"]}]}},
            r"hypothesis\[0\]\.phase\[0\]: 'lunch' is none of import, init",
        ),
        ({"signature": {"literals": []}}, r"signature\[0\]\.literals: expected at least one"),
        ({"signature": {"literals": [""]}}, r"signature\[0\]\.literals: expected at least one"),
        ({"symptom": {"signatures": []}}, r"symptom\[0\]\.signatures: expected at least one"),
        ({"symptom": {"means": "x"}}, r"symptom\[0\]\.means: is none of id, signatures"),
        ({"code": {"mean": "x"}}, r"code\[0\]\.mean: is none of code, causes"),
        ({"code": {"code": "gpu1"}}, r"says\.code: there is no code 'GPU001'"),
        ({"cause": {"hypothesis": 3}}, r"hypothesis: expected rows"),
        ({"symptom": {"signatures": ["none"]}}, r"symptom\[0\]\.signatures: there is no signature"),
        ({"symptom": {"id": "a-word"}}, r"symptom\[0\]\.id: 'a-word' is a signature"),
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
        _ = read(**change).codes


def test_a_pattern_that_is_none_is_named_when_it_is_used() -> None:
    table = read(signature={"regex": "(unclosed"})
    with pytest.raises(MatrixError, match=r"signature a-word: .* is not a pattern"):
        _ = table.signature("a-word").pattern


def test_a_cause_that_the_order_does_not_name_stands_last() -> None:
    order = OrderTable(Document("order.toml", ORDER))
    assert order.rank("a-cause") < order.rank("some-other-cause")


def test_a_name_that_is_stated_twice_is_told_with_both_places() -> None:
    data = _data()
    more = {"signature": data["signature"], "sources": SOURCES}
    order = OrderTable(Document("order.toml", ORDER))
    both = (Document("causes/a.toml", data), Document("causes/b.toml", more))
    words = r"causes/b.toml: signature\[0\]\.id: 'a-word' is stated twice, in causes/a.toml: sig"
    with pytest.raises(MatrixError, match=words):
        CauseTable(both, order)


def test_a_table_of_causes_holds_only_rows_of_causes() -> None:
    order = OrderTable(Document("order.toml", ORDER))
    with pytest.raises(MatrixError, match=r"causes/a.toml: cuase: is none of cause, code"):
        CauseTable((Document("causes/a.toml", {**_data(), "cuase": []}),), order)


@pytest.mark.parametrize("regex", ["(unclosed", "a{99999999999999999999}", "(" * 5000])
def test_a_pattern_that_is_none_is_one_error(regex: str) -> None:
    table = read(signature={"regex": regex})
    with pytest.raises(MatrixError, match="is not a pattern"):
        _ = table.signature("a-word").pattern


BROKEN = [
    (
        "causes/gpu_code.toml",
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "RuntimeError: something else",
        "sample: gpu-feature-words does not match it",
    ),
    (
        "causes/gpu_code.toml",
        '"FlashAttention only supports"',
        '"FlashInfer only supports"',
        "literals: none of gpu-feature-words stands in its sample",
    ),
    (
        "causes/gpu_code.toml",
        "FlashAttention only supports (?P<need>",
        "FlashAttention only supports ((?P<need>",
        "regex: signature gpu-feature-words: ",
    ),
    ("evidence.toml", 'regex = "', 'regex = "((', "evidence.toml: phase[0].regex: "),
    (
        "launchers.toml",
        'says_root = ["torchrun-root"]',
        'says_root = ["torchrun-roots"]',
        "launchers.toml: torchrun: there is no signature torchrun-roots",
    ),
    (
        "evidence.toml",
        'says = ["nccl-watchdog"',
        'says = ["nccl-watchdogs"',
        "evidence.toml: NCCL flight recorder: there is no signature nccl-watchdogs",
    ),
    ("order.toml", '"kernel-module-flavour"', '"no-such"', "order.toml: order: there is no cause"),
    (
        "causes/native.toml",
        'signal = ["SIGABRT"]',
        'signal = ["SIGNONE"]',
        "hypothesis[0].signal: there is no signal SIGNONE",
    ),
    (
        "launchers.toml",
        "says_exit = [",
        'says_exit = ["compiler-missing", ',
        "says_exit: compiler-missing has no group code, n or name",
    ),
    (
        "causes/build.toml",
        "the extension {name} did not compile",
        "the extension {thing} did not compile",
        "no group of its signatures gives {thing}, which its sentences name",
    ),
    (
        "causes/nccl.toml",
        'title = "',
        'title = "{',
        "is no template: ",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "problem"), BROKEN)
def test_a_broken_cause_is_named_by_verify(
    broken: Break, name: str, old: str, new: str, problem: str
) -> None:
    folder = broken(name, old, new)
    problems = verify(Matrix.load(folder))
    assert any(problem in line for line in problems), problems
