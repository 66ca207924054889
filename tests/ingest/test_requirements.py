"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.errors import InputError
from envguard.facts.gaps import GapReason
from envguard.ingest.lockfile import load_lockfile
from envguard.ingest.requirements import logical_lines, split_option

if TYPE_CHECKING:
    from envguard.facts.environment import Environment


def load(text: str, files: dict[str, str] | None = None) -> Environment:
    def read(path: str, including: str) -> tuple[str, str]:
        assert including
        return path, (files or {})[path]

    return load_lockfile("r.txt", text, read=read).environment


def listed(environment: Environment) -> list[tuple[str, str, int | None]]:
    return [(d.name, str(d.version), d.line) for d in environment.distributions or ()]


def test_comments_continuations_and_hashes() -> None:
    pin = "Torch_X == 2.7.1 \\\n  --hash=sha256:00 \\\n  --hash=sha256:01\n"
    text = f"# head\n{pin}\nnumpy==2.0 # why\n"
    assert listed(load(text)) == [("numpy", "2.0", 6), ("torch-x", "2.7.1", 2)]


def test_line_numbers_are_those_of_the_first_physical_line() -> None:
    assert list(logical_lines("a\n# x\nb \\\n c\nd\\", "r.txt")) == [
        (1, "a", None),
        (3, "b  c", None),
        (5, "d", None),
    ]


def test_lines_are_joined_as_pip_does_and_an_option_stays_one() -> None:
    text = "numpy==1.\\\n26.4\ntorch==2.7.1\\\n--hash=sha256:00\n"
    assert listed(load(text)) == [("numpy", "1.26.4", 1), ("torch", "2.7.1", 3)]


def test_fragment_of_an_address_is_no_comment() -> None:
    assert list(logical_lines("a @ https://index.example/a.whl#sha256=1", "r.txt")) == [
        (1, "a @ https://index.example/a.whl#sha256=1", None)
    ]


def test_nested_files_and_constraints() -> None:
    files = {"base.txt": "numpy==2.0\n-c more.txt\n", "more.txt": "torch==2.7.1+cu128\nx>=1\n"}
    environment = load("-r base.txt\ntorch\n", files)
    assert listed(environment) == [("numpy", "2.0", None), ("torch", "2.7.1+cu128", 2)]
    assert environment.torch is not None
    assert str(environment.torch.cuda) == "12.8"


def test_file_that_includes_itself_is_refused() -> None:
    with pytest.raises(InputError, match=r"b\.txt:1: a\.txt includes itself"):
        load("-r a.txt\n", {"a.txt": "-r b.txt\n", "b.txt": "-r a.txt\n"})


def test_deep_nesting_is_refused() -> None:
    files = {f"{i}.txt": f"-r {i + 1}.txt\n" for i in range(30)}
    with pytest.raises(InputError, match="nested too deeply"):
        load("-r 0.txt\n", files)


def test_nested_files_are_a_gap_where_nothing_reads_them() -> None:
    found = load_lockfile("r.txt", "-r base.txt\n-r https://index.example/r.txt\n")
    assert [gap.reason for gap in found.gaps] == [GapReason.NOT_ASKED, GapReason.NOT_ASKED]
    assert found.gaps[0].detail == "r.txt:1: base.txt is not read"


def test_open_requirements_state_no_version() -> None:
    found = load_lockfile("r.txt", "torch>=2.0\nnumpy==1.*\n")
    assert [(d.name, d.version) for d in found.environment.distributions or ()] == [
        ("numpy", None),
        ("torch", None),
    ]
    gap = next(g for g in found.gaps if g.fact == "environment.distributions[torch].version")
    assert gap.detail == "line 1: torch>=2.0 is no exact pin"


def test_extra_index_makes_an_unlabelled_torch_ambiguous() -> None:
    text = "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.1.0\n"
    found = load_lockfile("r.txt", text)
    assert found.environment.torch is not None
    assert found.environment.torch.accelerator is None
    assert found.environment.torch.index_url is not None  # not PyPI's default either
    gap = next(g for g in found.gaps if g.fact == "environment.torch.cuda")
    assert "PyPI" in gap.detail
    assert "https://download.pytorch.org/whl/cu118" in gap.detail


def test_bare_wheels_are_read_by_their_names() -> None:
    line = "https://download.pytorch.org/whl/cpu/torch-2.7.1%2Bcpu-cp312-cp312-linux_x86_64.whl"
    environment = load(f"{line}\n./wheels/Flash_Attn-2.8.0-cp312-cp312-linux_x86_64.whl\n")
    assert listed(environment) == [("flash-attn", "2.8.0", 2), ("torch", "2.7.1+cpu", 1)]


def test_editable_lines_are_named_by_egg_or_folder() -> None:
    text = (
        "-e git+https://index.example/x.git#egg=Trainer_X&subdirectory=y\n-e ./sub/folder\n-e .\n"
    )
    environment = load(text)
    assert [(d.name, d.is_editable) for d in environment.distributions or ()] == [
        ("folder", True),
        ("local-project", True),
        ("trainer-x", True),
    ]


def test_passwords_of_indexes_do_not_stay() -> None:
    text = "--index-url https://user:secret@index.example/simple\ntorch==2.7.1\n"
    torch = load(text).distribution("torch")
    assert torch is not None
    assert torch.index_url == "https://index.example/simple"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-r other.txt", ("-r", "other.txt")),
        ("-rother.txt", ("-r", "other.txt")),
        ("--requirement=other.txt", ("--requirement", "other.txt")),
        (
            "--index-url  https://index.example/simple",
            ("--index-url", "https://index.example/simple"),
        ),
        ("--pre", ("--pre", "")),
    ],
)
def test_options_in_every_spelling(line: str, expected: tuple[str, str]) -> None:
    assert split_option(line) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch==\n", r"r\.txt:1: 'torch==' is not a requirement"),
        ("\n\nnot a requirement\n", r"r\.txt:3: 'not a requirement' is not a requirement"),
        ("--frobnicate\n", r"r\.txt:1: option --frobnicate is not understood"),
        ("-r\n", r"r\.txt:1: names no file"),
        ("-e\n", r"r\.txt:1: names nothing to install"),
        ("--index-url\n", r"r\.txt:1: names no address"),
        ("torch==2.1 --index-url x\n", r"option --index-url cannot stand behind a requirement"),
        ("a==1 ; " + "(" * 5000, "r.txt:1"),
    ],
)
def test_errors_name_file_and_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(text)
