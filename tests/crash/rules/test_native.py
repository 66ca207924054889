"""None"""

from __future__ import annotations

import pytest

from envguard.errors import MatrixError
from envguard.facts.facts import Facts
from envguard.facts.findings import Status
from envguard.ingest.stated import parse_stated, stated_facts
from envguard.ingest.stated_pins import add_pins
from envguard.matrix.causes import CauseTable
from envguard.matrix.loader import Matrix
from envguard.matrix.reading import Document
from tests.crash.logs import report_of

FPE = "Floating point exception (core dumped)\n"
WORKER = "ERROR: Unexpected segmentation fault encountered in worker.\n"
HANDLE = (
    'Thread 16 "python3" received signal SIGSEGV, Segmentation fault.\n'
    "0x00007f3d43c5e48f in at::cuda::getCurrentCUDABlasHandle() () from libtorch_cuda_cu.so\n"
)


def stated(*pins: str, gpu: str | None = None) -> Facts:
    facts, _ = stated_facts(parse_stated(gpu=[gpu] if gpu else [], platform="linux-x86_64"))
    return Facts(facts.machine, add_pins(None, list(pins)) if pins else None, facts.gaps)


@pytest.mark.parametrize(
    ("text", "facts", "cause"),
    [
        (FPE, stated("torch==2.3.0+cu121", gpu="NVIDIA H20"), "vendor-lib-bug"),
        (HANDLE, stated("torch==1.8.1+cu111"), "torch-release-bug"),
        (WORKER, stated("torch==1.8.1+cu102"), "torch-release-bug"),
    ],
)
def test_a_bug_whose_conditions_hold_is_the_cause(text: str, facts: Facts, cause: str) -> None:
    report = report_of(text, facts=facts)
    assert (report.verdict, report.root_cause) == (Status.FAIL, cause)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (FPE, stated("torch==2.5.1+cu124", gpu="NVIDIA H20")),
        (FPE, stated("torch==2.3.0+cu121", gpu="NVIDIA H200")),
        (HANDLE, stated("torch==1.10.0+cu111")),
        (HANDLE, stated("torch==1.8.1+cu102")),
        (WORKER, stated("torch==1.9.0+cu102")),
    ],
)
def test_a_bug_of_another_release_or_gpu_is_not_spoken_of(text: str, facts: Facts) -> None:
    report = report_of(text, facts=facts)
    named = {finding.cause for finding in report.findings}
    assert report.verdict is Status.UNKNOWN
    assert not named & {"vendor-lib-bug", "torch-release-bug"}


@pytest.mark.parametrize(
    ("text", "cause"), [(FPE, "vendor-lib-bug"), (WORKER, "torch-release-bug")]
)
def test_without_versions_it_is_a_hypothesis(text: str, cause: str) -> None:
    report = report_of(text)
    first = report.findings[0]
    assert report.verdict is Status.UNKNOWN
    assert (first.cause, first.status) == (cause, Status.UNKNOWN)
    assert first.title.startswith("maybe: ")


def test_a_bug_that_names_no_signature_of_the_table_is_refused() -> None:
    matrix = Matrix.load()
    data = dict(matrix.document("causes/native.toml").data)
    first = dict(data["native_bug"][1])  # type: ignore[index]  # decoded TOML
    data["native_bug"] = [{**first, "signature": "no-such-frame"}]
    names = [item.name for item in (matrix.folder / "causes").iterdir()]
    others = [matrix.document(f"causes/{name}") for name in names if name != "native.toml"]
    beside = ("launchers", "exits", "evidence", "breaks")
    others += [matrix.document(f"{name}.toml") for name in beside]
    with pytest.raises(MatrixError, match=r"native_bug\[0\]\.signature: there is no signature"):
        CauseTable((*others, Document("causes/native.toml", data)), matrix.order)
