"""``envguard matrix verify --binary`` and its script against servers on this machine."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from envguard.cli.main import main
from scripts.verify_binary import main as script
from tests.binary.build import CUBIN, Workshop, entry, fatbin, needs_compiler
from tests.binary.parts import Habit, PartServer
from tests.binary.published import NAME, REQUIRES, VERSION_PY, build_libraries, write_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(files("envguard.render").joinpath("matrix.schema.json").read_text())
Capture = pytest.CaptureFixture[str]

AGREED = [
    "torch.toml: release 2.11.0: requires_python, triton, cudnn, nccl",
    "torch.toml: pypi 2.11.0 linux-x86_64: backend, pythons, glibc, cxx11_abi",
    "torch_libs.toml: wheel_tag 2.11.0 linux-x86_64: tags, build_tags",
    "torch.toml: build 2.11.0 linux-x86_64 cu130: targets, cubins, ptx",
    "torch_libs.toml: requires 2.11.0 linux-x86_64: requires, triton_marker, commit",
    "torch_libs.toml: fatbin 2.11.0 linux-x86_64: code",
]
RELEASE = ("--release", "2.11.0")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_libraries(Workshop(tmp_path_factory.mktemp("libraries")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Path:
    return write_wheel(tmp_path_factory.mktemp("published") / NAME, libraries)


@pytest.fixture
def server(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PartServer]:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with PartServer(wheel.parent) as running:
        yield running


def verified(capsys: Capture, *words: str, code: int) -> str:
    capsys.readouterr()
    assert main(["matrix", "verify", "--binary", *words]) == code
    said = capsys.readouterr()
    words_of_waiting = "envguard: still waiting: "  # on a busy machine
    assert [w for w in said.err.splitlines() if not w.startswith(words_of_waiting)] == []
    return said.out


def document(capsys: Capture, *words: str, code: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(verified(capsys, *words, "--format", "json", code=code))
    jsonschema.validate(found, SCHEMA)
    return found


def index(server: PartServer) -> tuple[str, ...]:
    return (*RELEASE, "--index-url", f"{server.address}/simple")


@needs_compiler
@pytest.mark.parametrize("habit", [Habit.PARTS, Habit.WHOLE])
def test_rows_that_agree_with_a_published_wheel_hold(
    capsys: Capture, server: PartServer, habit: Habit
) -> None:
    server.habit = habit
    text = verified(capsys, *index(server), code=0)
    assert text.splitlines() == [
        *(f"agrees: {line}" for line in AGREED),
        "the tables of 2026.11.30 hold what they promise and agree with 1 wheel of torch",
    ]


@needs_compiler
def test_agreement_as_a_document(capsys: Capture, wheel: Path) -> None:
    words = ("--offline", "--wheels", str(wheel.parent))
    found = document(capsys, *words, code=0)
    assert (found["problems"], found["drift"], found["unread"]) == ([], [], [])
    assert found["agreed"] == AGREED


@needs_compiler
def test_drift_is_named_row_by_row(
    capsys: Capture, tmp_path: Path, libraries: dict[str, Path]
) -> None:
    cuda = Workshop(tmp_path).with_fatbin("libtorch_cuda.so", fatbin(entry(CUBIN, 75)))
    write_wheel(
        tmp_path / NAME,
        {**libraries, "torch/lib/libtorch_cuda.so": cuda},
        requires=tuple(line.replace("9.19.0.56", "9.99.0.1") for line in REQUIRES),
        version_py=VERSION_PY.replace("70d99e", "000000"),
    )
    found = document(capsys, "--offline", "--wheels", str(tmp_path), code=1)
    assert [line.partition(", found")[0].rpartition(":")[0] for line in found["drift"]] == [
        "torch.toml: release 2.11.0: cudnn",
        "torch.toml: build 2.11.0 linux-x86_64 cu130: cubins",
        "torch_libs.toml: requires 2.11.0 linux-x86_64: requires",
        "torch_libs.toml: requires 2.11.0 linux-x86_64: commit",
        "torch_libs.toml: fatbin 2.11.0 linux-x86_64: code",
    ]
    assert found["drift"][0].endswith(": '9.19.0.56', found '9.99.0.1'")
    assert found["drift"][4].endswith("sm_121a=1', found 'sm_75=1'")
    text = verified(capsys, "--offline", "--wheels", str(tmp_path), "-q", code=1)
    assert [line.partition(":")[0] for line in text.splitlines()] == ["drift"] * 5


@needs_compiler
def test_an_answer_that_is_cut_off_is_named(capsys: Capture, server: PartServer) -> None:
    server.habit = Habit.CUT
    found = document(capsys, *index(server), code=3)
    (line,) = found["unread"]
    assert line == f"torch 2.11.0: {server.url(NAME)}: the answer was cut off"
    assert found["agreed"] == []


@needs_compiler
def test_a_library_that_arrives_damaged_is_named(capsys: Capture, server: PartServer) -> None:
    server.habit = Habit.DAMAGED
    found = document(capsys, *index(server), code=3)
    assert [line.rpartition(": damaged")[0] for line in found["unread"]] == [
        "torch.toml: build 2.11.0 linux-x86_64 cu130: cubins: libtorch_cuda.so",
        "torch.toml: build 2.11.0 linux-x86_64 cu130: ptx: libtorch_cuda.so",
        "torch_libs.toml: fatbin 2.11.0 linux-x86_64: code: libtorch_cuda.so",
    ]
    assert found["agreed"][:3] == AGREED[:3]


@needs_compiler
def test_what_is_left_on_purpose_is_no_failure(
    capsys: Capture, server: PartServer, wheel: Path
) -> None:
    found = document(capsys, *index(server), "--largest", "1", code=0)
    assert len(found["unread"]) == 3
    assert server.sent < 1024 * 1024 < wheel.stat().st_size


def test_a_registry_that_does_not_answer_is_named(capsys: Capture) -> None:
    words = (*RELEASE, "--index-url", "http://127.0.0.1:9/simple")
    (line,) = document(capsys, *words, code=3)["unread"]
    assert line.startswith("torch 2.11.0: pip compile --no-deps failed: ")


def test_a_release_that_the_registry_lacks_is_named(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    write_wheel(tmp_path / NAME.replace("x86_64", "aarch64"), {})
    with PartServer(tmp_path) as running:
        words = ("--index-url", f"{running.address}/simple")
        found = document(capsys, "--release", "2.98.0", *words, code=3)
        other = document(capsys, *RELEASE, *words, code=3)
        odd = document(capsys, *RELEASE, "--python-tag", "pypy", *words, code=3)
    assert found["unread"][0].startswith("torch 2.98.0: ")
    assert other["unread"] == [
        "torch 2.11.0: the registry lists no wheel of cp311 for linux-x86_64"
    ]
    assert odd["unread"] == ["torch 2.11.0: --python-tag: 'pypy' is not a tag such as cp311"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--binary", "--offline"), "--binary reads the registry's wheels"),
        (("--release", "2.6.0"), "--release, --python-tag, --wheels and --largest go with"),
        (("--binary", "--release", "two"), "--release: 'two' is no version"),
        (("--binary", "--wheels", "/nowhere/at/all"), "--wheels: /nowhere/at/all is no folder"),
        (("torch", "--binary"), "a name goes with --packages"),
    ],
)
def test_wrong_usage_is_named(capsys: Capture, words: tuple[str, ...], error: str) -> None:
    assert main(["matrix", "verify", *words]) == 2
    said = capsys.readouterr()
    assert error in said.err
    assert said.out == ""


@needs_compiler
def test_the_script_says_the_same(capsys: Capture, wheel: Path) -> None:
    assert script([*RELEASE, "--wheels", str(wheel.parent)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"agrees: {line}" for line in AGREED]


@needs_compiler
def test_the_script_fails_on_drift_from_tables_that_are_named(
    capsys: Capture, wheel: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tables"
    shutil.copytree(ROOT / "compat_matrix", folder, ignore=shutil.ignore_patterns("*.py*"))
    table = folder / "torch.toml"
    old = 'version = "2.11.0"\nreleased = "2026-03-23"\nrequires_python = ">=3.10"'
    assert old in table.read_text()
    table.write_text(table.read_text().replace(old, old.replace("3.10", "3.9")))
    words = [*RELEASE, "--wheels", str(wheel.parent), "--matrix", str(folder)]
    assert script(words) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "drift" in line]
    assert line == "drift: torch.toml: release 2.11.0: requires_python: '>=3.9', found '>=3.10'"


@pytest.mark.network
def test_a_real_wheel_agrees_as_far_as_small_parts_tell(capsys: Capture) -> None:
    found = document(capsys, *RELEASE, "--largest", "20", code=0)
    assert found["drift"] == []
    assert found["agreed"][:3] == AGREED[:3]
