"""Requirements files as requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.errors import ExitCode, InputError
from envguard.lock.request import FileContents, load_requirement_files

if TYPE_CHECKING:
    from pathlib import Path


def load(folder: Path, text: str) -> FileContents:
    path = folder / "requirements.txt"
    path.write_text(text, encoding="utf-8")
    return load_requirement_files((path,))


def test_comments_blank_lines_and_continuations_are_understood(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "\ufeff# heading\n\ntorch \\\n  >=2.6 \\\n  ,<2.9  # bounds\n"
        "transformers[torch]>=4.50 ; python_version >= '3.10'\nnumpy\n",
    )
    assert [str(r) for r in found.requirements] == [
        "torch<2.9,>=2.6",
        'transformers[torch]>=4.50; python_version >= "3.10"',
        "numpy",
    ]


def test_nested_files_are_read_from_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more/base.txt").write_text("-c bounds.txt\npeft\n")
    (tmp_path / "more/bounds.txt").write_text("numpy<2\n")
    found = load(tmp_path, "-r more/base.txt\n--constraint=more/bounds.txt\ntrl\n")
    assert [r.name for r in found.requirements] == ["peft", "trl"]
    assert [str(r) for r in found.constraints] == ["numpy<2", "numpy<2"]


def test_what_a_constraints_file_includes_is_a_constraint(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("-r d.txt\n")
    (tmp_path / "d.txt").write_text("torch<2.9\n")
    found = load(tmp_path, "-cc.txt\n")
    assert found.requirements == ()
    assert [str(r) for r in found.constraints] == ["torch<2.9"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-e .", "editable install '.'"),
        ("--editable=git+https://git.example/x", "editable install"),
        ("torch @ https://index.example/x.whl", "torch is asked for by address"),
        ("https://index.example/x.whl", "is an address or path"),
        ("torch==2.8.0 --hash=sha256:00ff", "hashes in a request are not used"),
        ("--index-url https://index.example/simple", "--index-url https://index.example/simple"),
        ("--find-links ./wheels", "--find-links ./wheels"),
        ("--pre", "option --pre is not understood"),
        ("-r", "names no file"),
        ("-r https://index.example/r.txt", "is an address, expected a file"),
        ("-r ${REQUIREMENTS}.txt", "has a variable in its name, expected a file"),
        ("torch==2.8.0\\\n--hash=sha256:00ff", "hashes in a request are not used"),
        ("torch=>2", "requirement 'torch=>2' cannot be read"),
    ],
)
def test_what_cannot_be_locked_is_named_with_file_and_line(
    tmp_path: Path, line: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, f"numpy\n\n{line}\n")
    assert caught.value.message.startswith(f"{tmp_path / 'requirements.txt'}:3: ")
    assert said in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


def test_pytorch_index_in_a_file_is_left_out_and_said(tmp_path: Path) -> None:
    found = load(tmp_path, "--extra-index-url https://download.pytorch.org/whl/cu121\ntorch\n")
    assert [r.name for r in found.requirements] == ["torch"]
    assert len(found.notes) == 1
    assert "--extra-index-url is left out" in found.notes[0]


def test_password_of_an_index_in_a_file_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, "-i https://me:s3cret@index.example/simple\n")
    assert "s3cret" not in caught.value.message


def test_file_that_includes_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n-r requirements.txt\n")
    with pytest.raises(InputError, match=r"a\.txt:2: requirements\.txt includes itself"):
        load(tmp_path, "-r a.txt\n")


def test_files_that_include_the_next_twice_are_not_read_a_million_times(tmp_path: Path) -> None:
    for number in range(19):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n" * 2)
    (tmp_path / "19.txt").write_text("numpy\n")
    with pytest.raises(InputError, match="too many"):
        load(tmp_path, "-r 0.txt\n")


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "b.txt")
    (tmp_path / "b.txt").symlink_to(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a\.txt: cannot be read"):
        load(tmp_path, "-r a.txt\n")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.txt: cannot be read: no such file"):
        load_requirement_files((tmp_path / "nowhere.txt",))


def test_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(b"torch\n\xff\xfe\n")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_requirement_files((path,))


def test_file_of_many_megabytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="larger than 4 MiB"):
        load(tmp_path, "numpy\n" * 800_000)
