"""Requirements files as requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.cli.main import main
from envguard.errors import ExitCode, InputError
from envguard.lock.requirement_lines import FileContents, load_requirement_files

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
    assert not found.requirements
    assert [str(r) for r in found.constraints] == ["torch<2.9"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--unheard-of", "option --unheard-of is not understood"),
        ("-e", "-e names nothing to install"),
        ("--only-binary a/b", "--only-binary: 'a/b' is no name of a package"),
        ("--extra-index-url here://x", "--extra-index-url: 'here://x' is not an address"),
        ("-r", "names no file"),
        ("-r https://index.example/r.txt", "is an address, expected a file"),
        ("-r ${REQUIREMENTS}.txt", "has a variable in its name, expected a file"),
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


@pytest.mark.parametrize(
    ("line", "name", "kind", "marker"),
    [
        ("git+https://git.example/team/helper.git@v1", "helper", "vcs", ""),
        ("helper @ git+https://git.example/x@main", "helper", "vcs", ""),
        ("git+https://git.example/x.git#egg=Help_er&subdirectory=y", "help-er", "vcs", ""),
        ("-e git+https://git.example/x.git#egg=helper", "helper", "vcs", ""),
        ("https://files.example/helper-1.0-py3-none-any.whl", "helper", "archive", ""),
        (
            "https://files.example/helper-1.0-py3-none-any.whl ; sys_platform == 'linux'",
            "helper",
            "archive",
            "sys_platform == 'linux'",
        ),
        ("./wheels/helper-1.0-py3-none-any.whl", "helper", "archive", ""),
        ("helper @ https://files.example/helper.tar.gz", "helper", "archive", ""),
        ("../other", "", "directory", ""),
    ],
)
def test_address_or_path_is_carried_along_and_named(
    tmp_path: Path, line: str, name: str, kind: str, marker: str
) -> None:
    found = load(tmp_path, f"numpy\n{line}\n")
    assert [r.name for r in found.requirements] == ["numpy"]
    (carried,) = found.passed
    assert carried.text == line
    assert (carried.name, carried.kind, carried.marker) == (name, kind, marker)
    assert found.notes[0].startswith(f"{tmp_path / 'requirements.txt'}:2: {line}")
    assert "not judged" in found.notes[0]


def test_what_a_local_project_states_that_it_needs_is_locked(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "own"\ndependencies = ["peft>=0.10", "x @ https://h.example/x.zip"]\n'
        '[project.optional-dependencies]\ndev = ["trl"]\nother = ["torch<2"]\n'
    )
    found = load(tmp_path, "-e .[dev]\n")
    assert [str(r) for r in found.requirements] == ["peft>=0.10", "trl"]
    assert "the 2 requirements of its pyproject.toml are locked" in found.notes[0]


def test_local_project_that_states_nothing_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('run')\n")
    found = load(tmp_path, "-e .\n")
    assert "a setup.py is not run" in found.notes[0]


def test_wheel_of_the_pytorch_index_is_the_pin_that_it_stands_for(tmp_path: Path) -> None:
    address = (
        "https://download.pytorch.org/whl/cu121/torch-2.3.1%2Bcu121-cp311-cp311-linux_x86_64.whl"
    )
    found = load(tmp_path, f"torch @ {address}\n{address} ; python_version < '3.12'\n")
    assert [str(r) for r in found.requirements] == [
        "torch==2.3.1+cu121",
        'torch==2.3.1+cu121; python_version < "3.12"',
    ]
    assert not found.passed


def test_hashes_are_left_out_and_the_requirement_stays(tmp_path: Path) -> None:
    found = load(tmp_path, "torch==2.8.0 \\\n    --hash=sha256:00ff\n")
    assert [str(r) for r in found.requirements] == ["torch==2.8.0"]
    assert "the options of torch==2.8.0 are not used" in found.notes[0]


def test_options_about_files_reach_the_resolver(tmp_path: Path) -> None:
    found = load(
        tmp_path, "--pre\n--no-binary numpy,pandas\n--only-binary=:all:\n--prefer-binary\n"
    )
    assert found.uv_options == [
        "--prerelease=allow",
        "--no-binary=numpy",
        "--no-binary=pandas",
        "--only-binary=:all:",
    ]
    assert found.notes == [
        f"{tmp_path / 'requirements.txt'}:4: --prefer-binary changes nothing in a lock"
    ]


def test_indexes_of_a_file_are_taken_and_said_without_their_passwords(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        "-i https://me:s3cret@index.example/simple\n"
        "--extra-index-url https://me:s3cret@more.example/simple\n"
        "-f https://more.example/page.html\n-f ./wheels\n",
    )
    assert found.index == "https://me:s3cret@index.example/simple"
    assert [index.is_flat for index in found.more_indexes] == [False, True]
    assert len(found.notes) == 4
    assert "s3cret" not in "".join(found.notes)
    assert "-f ./wheels is left out" in found.notes[3]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_byte_order_mark_says_how_a_file_is_written(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "requirements.txt"
    mark = "" if encoding in {"utf-8-sig", "utf-16", "utf-32"} else "\ufeff"
    path.write_bytes(f"{mark}torch<2.9\r\nnumpy\r\n".encode(encoding))
    found = load_requirement_files((path,))
    assert [str(r) for r in found.requirements] == ["torch<2.9", "numpy"]


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


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_project_is_asked_for_without_its_extras(tmp_path: Path) -> None:
    text = """\
[project]
name = "x"
requires-python = ">=3.10,<3.13"
dependencies = ["torch>=2.6", "flashinfer-python"]
[project.optional-dependencies]
serve = ["vllm"]
[dependency-groups]
docs = ["sphinx"]
[tool.uv.sources]
flashinfer-python = { index = "fl" }
helper = { path = "helper" }
[[tool.uv.index]]
name = "fl"
url = "https://index.example/fl/"
explicit = true
"""
    found = load_requirement_files((write(tmp_path, "pyproject.toml", text),))
    assert [str(r) for r in found.requirements] == ["torch>=2.6", "flashinfer-python"]
    assert [index.url for index in found.more_indexes] == ["https://index.example/fl/"]
    assert [str(bound) for _, bound in found.pythons] == ["<3.13,>=3.10"]
    assert any("extra serve, group docs" in note for note in found.notes)


def test_a_path_of_a_project_brings_what_its_own_project_needs(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    write(tmp_path / "part", "pyproject.toml", '[project]\nname = "p"\ndependencies = ["peft"]\n')
    text = """\
[project]
name = "x"
dependencies = ["part", "torch"]
[tool.uv.sources]
part = { path = "part" }
"""
    found = load_requirement_files((write(tmp_path, "pyproject.toml", text),))
    assert [r.name for r in found.requirements] == ["peft", "torch"]
    assert [line.name for line in found.passed] == ["part"]


def test_a_source_for_some_platforms_leaves_the_others_to_the_index(tmp_path: Path) -> None:
    text = """\
[project]
name = "x"
dependencies = ["triton"]
[tool.uv.sources]
triton = { url = "https://index.example/t-1-py3-none-any.whl", marker = "sys_platform == 'win32'" }
"""
    found = load_requirement_files((write(tmp_path, "pyproject.toml", text),))
    assert not found.requirements
    assert [(r.name, markers) for r, markers in found.unless] == [
        ("triton", ("sys_platform == 'win32'",))
    ]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("setup.cfg", "[options]\ninstall_requires =\n  torch<3\n  peft\n", ["torch<3", "peft"]),
        (
            "environment.yml",
            "dependencies:\n- python=3.11\n- pytorch::pytorch=2.1.0\n- pytorch-cuda=11.8\n"
            "- pip:\n  - peft==0.17\n",
            ["torch==2.1.0", "peft==0.17"],
        ),
        (
            "pixi.toml",
            '[dependencies]\npython = "3.11.*"\npytorch = "2.6.0"\n[pypi-dependencies]\n'
            'peft = "*"\n[target.win-64.dependencies]\nxformers = "*"\n',
            ["torch==2.6.0", "peft"],
        ),
        ("Dockerfile", "FROM python:3.11\nRUN pip install 'torch<3' peft\n", ["torch<3", "peft"]),
        (
            "conda.txt",
            "@EXPLICIT\nhttps://c.example/linux-64/numpy-1.26.4-py311h64a7726_0.conda\n"
            "https://c.example/linux-64/libblas-3.9.0-20_linux64_mkl.conda\n",
            ["numpy==1.26.4"],
        ),
    ],
)
def test_every_file_that_asks_for_packages_is_taken(
    tmp_path: Path, name: str, text: str, expected: list[str]
) -> None:
    found = load_requirement_files((write(tmp_path, name, text),))
    assert [str(r) for r in found.requirements] == expected


def test_condas_python_is_the_one_of_the_lock(tmp_path: Path) -> None:
    text = "dependencies:\n- python=3.10\n- pytorch\n"
    found = load_requirement_files((write(tmp_path, "environment.yml", text),))
    assert [str(bound) for _, bound in found.pythons] == ["==3.10.*"]
    assert any("locked in the form of pip" in note for note in found.notes)


@pytest.mark.parametrize("name", ["uv.lock", "poetry.lock", "pylock.toml", "pixi.lock"])
def test_a_lock_is_no_request(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is a lock") as caught:
        load_requirement_files((write(tmp_path, name, "version = 1\n"),))
    assert "envguard check" in caught.value.hint


def test_a_python_outside_the_projects_bound_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[project]\nname = "x"\nrequires-python = ">=3.10,<3.12"\ndependencies = ["torch"]\n'
    path = write(tmp_path, "pyproject.toml", text)
    machine = ["--gpu", "A100", "--driver", "570.86.15", "--platform", "linux-x86_64"]
    words = ["lock", "-r", str(path), *machine, "--python-version", "3.13", "--offline"]
    assert main(words) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "asks for Python <3.12,>=3.10, the lock would be for 3.13" in said
    assert "--python-version 3.11" in said
