from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet

from envguard.errors import MatrixError
from envguard.matrix.breaks import BreakTable
from envguard.matrix.packages import BreakScope
from envguard.matrix.reading import Document

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix

SOURCES = {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}}

# name, scope, condition on the package, what cures it
ANCHORS = [
    ("ds-torch-six", BreakScope.IMPORT, ("deepspeed", "<0.8.2"), ("deepspeed", ">=0.8.2")),
    ("ds-elastic-log", BreakScope.IMPORT, ("torch", ">=2.4"), ("deepspeed", ">=0.14.4")),
    ("ds-elastic-socket", BreakScope.IMPORT, ("torch", ">=2.4"), ("deepspeed", ">=0.14.4")),
    ("ds-numpy2-bufsize", BreakScope.IMPORT, ("numpy", ">=2.0"), ("deepspeed", ">=0.14.4")),
    ("ds-custom-op", BreakScope.IMPORT, ("torch", "<2.4"), ("deepspeed", ">=0.19.8")),
    ("ds-cxx17-torch214", BreakScope.OP_BUILD, ("torch", ">=2.14"), ("deepspeed", ">=0.19.7")),
    ("ds-weights-only", BreakScope.CHECKPOINT_LOAD, ("torch", ">=2.6"), ("deepspeed", ">=0.16.0")),
    ("torch-numpy2-linux", BreakScope.NUMPY_INTEROP, ("torch", "<2.3.0"), ("numpy", "<2")),
    ("torch-setuptools-cap", BreakScope.RESOLVER, ("setuptools", ">=82"), ("setuptools", "<82")),
    ("tf-pytree-torch21", BreakScope.IMPORT, ("torch", ">=2.1,<2.2"), ("torch", ">=2.2")),
    ("cuda-major-bnb", BreakScope.RUNTIME, ("torch_cuda", "==13.*"), ("bitsandbytes", ">=0.50.0")),
]


@pytest.mark.parametrize(("name", "scope", "when", "fix"), ANCHORS)
def test_anchors(
    matrix: Matrix, name: str, scope: BreakScope, when: tuple[str, str], fix: tuple[str, str]
) -> None:
    row = matrix.breaks.named(name)
    assert row is not None
    assert row.scope is scope
    assert row.when[when[0]] == SpecifierSet(when[1])
    assert row.fix[fix[0]] == SpecifierSet(fix[1])


def test_every_known_break_is_a_row(matrix: Matrix) -> None:
    rows = matrix.breaks.all
    assert len(rows) == 85
    assert len({row.name for row in rows}) == 85
    assert all(row.text.endswith(".") and row.title for row in rows)


def test_rows_say_what_else_it_takes(matrix: Matrix) -> None:
    features = {row.name: row.feature for row in matrix.breaks.all if row.feature}
    predicates = {row.name: row.predicate for row in matrix.breaks.all if row.predicate}
    assert features["ds-zenflow-new-backward"] == "ZenFlow"
    assert predicates["ds-distutils"] == "no-setuptools"
    assert predicates["apex-exact-cuda"] == "toolkit-minor-differs"


def test_inferred_rows_are_not_firm(matrix: Matrix) -> None:
    loose = {row.name for row in matrix.breaks.all if not row.provenance.is_firm}
    assert {"ds-torch23-hook", "ds-llama-injection", "ext-cxx17-torch214"} <= loose
    assert {"tf-deepspeed-module", "ds-weights-only-writers"} <= loose
    assert not loose & {"ds-torch-six", "torch-numpy2-linux", "tf-510-deepspeed"}


def test_only_rows_about_known_things_are_read(matrix: Matrix) -> None:
    assert {row.name for row in matrix.breaks.about({"torch", "deepspeed"})} >= {
        "ds-torch-six",
        "ds-cxx14",
        "ds-weights-only",
    }
    about = {row.name for row in matrix.breaks.about({"torch", "numpy"})}
    assert "ds-numpy2-bufsize" not in about
    assert "torch-numpy2-linux" not in about  # the platform is not known
    with_platform = {row.name for row in matrix.breaks.about({"torch", "numpy", "platform"})}
    assert {"torch-numpy2-linux", "torch-numpy2-windows"} <= with_platform


def test_a_log_shows_a_break_when_all_its_frames_are_there(matrix: Matrix) -> None:
    words, frame = "tf-optimizer-train", "accelerate-optimizer-frame"
    assert [row.name for row in matrix.breaks.shown_in({words, frame})] == [
        "tf-acc-optimizer-train"
    ]
    assert list(matrix.breaks.shown_in({words})) == []
    assert list(matrix.breaks.shown_in({frame})) == []
    assert list(matrix.breaks.shown_in(set())) == []


def test_a_break_of_several_packages_names_them(matrix: Matrix) -> None:
    row = matrix.breaks.named("ext-cxx17-torch214")
    assert row is not None
    assert sorted(row.any_of) == ["causal-conv1d", "flash-attn", "mamba-ssm"]
    assert row.any_of["flash-attn"] == SpecifierSet("<=2.8.3.post2")


def one(**changes: object) -> BreakTable:
    row = {
        "id": "a",
        "when": {"torch": ">=2"},
        "scope": "import",
        "cause": "a-cause",
        "title": "A title",
        "text": "A text.",
        "source": "s",
        "confidence": "doc",
        **changes,
    }
    return BreakTable(Document("breaks.toml", {"break": [row], "sources": SOURCES}))


def test_a_small_table_is_read() -> None:
    (row,) = one(when={"torch": ">=2", "platform": "linux"}).all
    assert row.platform == "linux"
    assert list(row.when) == ["torch"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"when": "torch>=2"}, r"break\[0\]\.when: expected a specifier for each condition"),
        ({"when": {"torch": "new"}}, r"break\[0\]\.when\.torch: "),
        ({"when": {"platform": "win_amd64"}}, r"when\.platform: 'win_amd64' is no operating"),
        ({"scope": "elsewhere"}, r"break\[0\]\.scope: 'elsewhere'"),
        ({"fix": {"torch": "2"}}, r"break\[0\]\.fix\.torch: "),
    ],
)
def test_a_malformed_break_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(MatrixError, match=message):
        _ = one(**changes).all
