"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_extra_indexes_are_told_for_the_tables_to_decide() -> None:
    text = "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.1.0\n"
    environment = load(text)
    assert environment.torch is not None
    assert environment.torch.accelerator is None
    assert environment.indexes == ("", "https://download.pytorch.org/whl/cu118")


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


def details(text: str) -> list[str]:
    return [g.detail for g in load_lockfile("r.txt", text).gaps if g.fact.endswith("]")]


def test_source_trees_are_named_and_lose_nothing() -> None:
    text = (
        "torch==2.4.1\ngit+https://index.example/team/Helper.git@v1\n-e .\n./local/pkg\n"
        "file:///srv/x.tar.gz\nhttps://index.example/y-1.0.zip ; sys_platform == 'linux'\n"
        "flash-attn @ git+https://index.example/fa.git\n-e .[train]\n../up\n"
    )
    found = load_lockfile("r.txt", text)
    assert found.environment.torch is not None
    assert str(found.environment.torch.version) == "2.4.1"
    assert details(text) == [
        "line 2: git+https://index.example/team/Helper.git@v1",
        "line 3: -e .",
        "line 4: ./local/pkg",
        "line 5: file:///srv/x.tar.gz",
        "line 6: https://index.example/y-1.0.zip",
        "line 7: flash-attn @ git+https://index.example/fa.git",
        "line 8: -e .[train]",
        "line 9: ../up",
    ]


def test_a_wheel_behind_an_address_is_judged_by_its_name_and_marker() -> None:
    base = "https://download.pytorch.org/whl/cu124/torch-2.5.1%2Bcu124-cp311-cp311-linux_x86_64.whl"
    environment = load(f"{base} ; python_version < '4'\n")
    assert listed(environment) == [("torch", "2.5.1+cu124", 1)]
    assert load(f"{base} ; python_version < '3'\n").torch is None
    assert load(f'{base}; platform_system == "Plan9"\n').torch is None


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("torch\n", ["torch"]),
        ("torch>=2.1,<2.7\n", ["torch>=2.1,<2.7"]),
        ("torch>=2\ntorch<2.7\n", ["torch>=2,<2.7"]),
        ("torch>=2\ntorch==2.1.0\n", []),
        ("torch>=2\n-c c.txt\n", ["torch>=2,<2.5"]),
        ("torch[opt-einsum]~=2.1 ; python_version > '3'\n", ["torch~=2.1"]),
        ("torch==2.*\n", ["torch==2.*"]),
        ("torch @ https://index.example/torch-2.5.1-cp311-cp311-linux_x86_64.whl\n", []),
    ],
)
def test_wishes_are_what_is_left_open(text: str, wishes: list[str]) -> None:
    environment = load(text, {"c.txt": "torch<2.5\nnumpy<2\n"})
    assert [str(wish) for wish in environment.wishes] == wishes


def test_a_requirement_is_shown_whole() -> None:
    line = "not a requirement " + "x" * 400
    with pytest.raises(InputError, match="x" * 400):
        load(line)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "torch==2.4.1",
                "numpy<2",
                "-e .",
                "git+https://i.example/x@v1",
                "# c",
                "",
                "--pre",
            ]
        ),
        max_size=12,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_line_ends_change_nothing(lines: list[str], end: str) -> None:
    lines = [*lines, "torchvision==0.19.1"]
    assert listed(load(end.join(lines))) == listed(load("\n".join(lines)))


@settings(deadline=None)
@given(st.permutations(["torch", "xformers==0.0.21", "numpy<2", "--pre", "-e ./x"]))
def test_order_changes_nothing(lines: list[str]) -> None:
    environment = load("\n".join(lines))
    assert {str(wish) for wish in environment.wishes} == {"torch", "numpy<2"}
    assert {(d.name, str(d.version)) for d in environment.distributions or ()} == {
        ("torch", "None"),
        ("xformers", "0.0.21"),
        ("numpy", "None"),
        ("x", "None"),
    }
