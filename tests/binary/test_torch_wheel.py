"""Wheels of torch: read from a disk, by parts, whole, and from servers that do not help."""

from __future__ import annotations

import os
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from envguard.binary.source import UnreadableError
from envguard.binary.torch_wheel import read_torch_wheel
from envguard.binary.wheel_files import open_wheel
from envguard.errors import NetworkError
from envguard.facts.gaps import GapReason
from tests.binary.build import Workshop, needs_compiler, needs_nvcc
from tests.binary.parts import Habit, PartServer
from tests.binary.published import (
    NAME,
    TARGETS,
    VERSION_PY,
    build_libraries,
    write_wheel,
)

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.published import TorchWheel

CODE = {
    "sm_75": 444,
    "sm_80": 444,
    "sm_86": 444,
    "sm_89": 1,
    "sm_90": 444,
    "sm_90a": 4,
    "sm_100": 444,
    "sm_100a": 59,
    "sm_103a": 59,
    "sm_120": 444,
    "sm_120a": 1,
    "sm_121a": 1,
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_libraries(Workshop(tmp_path_factory.mktemp("libraries")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheels") / NAME, libraries)


def read(address: str, largest: int | None = None) -> TorchWheel:
    with open_wheel(address) as files:
        return read_torch_wheel(files, largest)


def check_all(found: TorchWheel) -> None:
    assert (found.file, str(found.version), str(found.platform)) == (NAME, "2.11.0", "linux-x86_64")
    assert (found.python, found.tags, found.build_tag) == ("cp311", ("manylinux_2_28_x86_64",), "")
    assert (found.requires_python, str(found.backend)) == (">=3.10", "cu130")
    assert found.requires[-2:] == (
        'triton==3.6.0; platform_system == "Linux"',
        'opt-einsum>=3.3; extra == "opt-einsum"',
    )
    assert found.commit == "70d99e998b4955e0049d13a98d77ae1b14db1f45"
    assert (str(found.glibc), found.cxx11_abi) == ("2.28", True)
    assert " ".join(map(str, found.arch_flags or ())) == TARGETS
    assert {str(target): count for target, count in found.code or ()} == CODE
    assert found.unread == ()


@needs_compiler
def test_a_wheel_on_disk_is_read(wheel: Path) -> None:
    check_all(read(str(wheel)))
    check_all(read(wheel.as_uri()))


@needs_compiler
def test_a_wheel_comes_by_parts(wheel: Path) -> None:
    with PartServer(wheel.parent) as server:
        check_all(read(server.url(NAME)))


@needs_compiler
def test_members_that_are_not_compressed_come_too(
    tmp_path: Path, libraries: dict[str, Path]
) -> None:
    write_wheel(tmp_path / NAME, libraries, stored=True)
    with PartServer(tmp_path) as server:
        check_all(read(server.url(NAME)))


@needs_compiler
def test_a_server_without_parts_sends_the_whole_wheel(wheel: Path) -> None:
    with PartServer(wheel.parent, Habit.WHOLE) as server:
        check_all(read(server.url(NAME)))


@needs_compiler
def test_a_large_library_can_be_left_where_it_is(wheel: Path) -> None:
    with PartServer(wheel.parent) as server:
        found = read(server.url(NAME), largest=1024 * 1024)
        assert server.sent < 1024 * 1024 < wheel.stat().st_size
    assert found.code is None
    assert " ".join(map(str, found.arch_flags or ())) == TARGETS
    (gap,) = found.unread
    assert gap.reason is GapReason.NOT_ASKED
    assert gap.detail.endswith(" MiB were left where they are")


@needs_compiler
@pytest.mark.parametrize(
    ("habit", "words"),
    [
        (Habit.CUT, "the answer was cut off"),
        (Habit.CUT_WHOLE, "cut off"),
        (Habit.OTHER, "the server sent another part than asked for"),
        (Habit.REFUSES, "the server answered 403"),
    ],
)
def test_a_server_that_does_not_send_all_is_named(wheel: Path, habit: Habit, words: str) -> None:
    with PartServer(wheel.parent, habit) as server, pytest.raises(NetworkError) as caught:
        read(server.url(NAME))
    assert caught.value.message.startswith(f"{server.url(NAME)}: ")
    assert words in caught.value.message


@needs_compiler
def test_what_arrives_damaged_is_not_read(wheel: Path) -> None:
    with PartServer(wheel.parent, Habit.DAMAGED) as server:
        found = read(server.url(NAME))
    assert found.code is None
    (gap,) = found.unread
    assert gap.reason is GapReason.UNREADABLE
    assert gap.detail.startswith("damaged: ")


@needs_compiler
def test_no_temporary_file_stays(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for habit in (Habit.PARTS, Habit.WHOLE):
        with PartServer(wheel.parent, habit) as server:
            check_all(read(server.url(NAME)))
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names are enough


@needs_compiler
def test_what_expands_beyond_compiled_code_is_left_alone(
    tmp_path: Path, libraries: dict[str, Path]
) -> None:
    bomb = tmp_path / "bomb"
    with bomb.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    write_wheel(tmp_path / NAME, {**libraries, "torch/lib/libtorch_cuda.so": bomb}, level=9)
    with PartServer(tmp_path) as server:
        found = read(server.url(NAME))
        assert server.sent < 4 * 1024 * 1024
    assert found.code is None
    assert "as no compiled code does" in found.unread[0].detail


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        (VERSION_PY.replace("'13.0'", "None"), "cpu"),
        (VERSION_PY.replace("cuda: Optional[str] = '13.0'", 'cuda: str | None = "13.2"'), "cu132"),
        ("cuda = 'later'\n", "None"),
        ("x = 1\n", "None"),
    ],
)
def test_the_backend_is_what_version_py_states(tmp_path: Path, text: str, backend: str) -> None:
    found = read(str(write_wheel(tmp_path / NAME, {}, version_py=text)))
    assert str(found.backend) == backend


@pytest.mark.parametrize(
    ("name", "python", "build"),
    [
        ("torch-2.10.0-3-cp310-cp310-manylinux_2_28_aarch64.whl", "cp310", "3"),
        ("torch-2.9.1-cp313-cp313t-manylinux_2_28_x86_64.whl", "cp313t", ""),
        ("torch-1.4.0-cp37-cp37m-manylinux1_x86_64.whl", "cp37", ""),
    ],
)
def test_a_name_tells_interpreter_and_build(
    tmp_path: Path, name: str, python: str, build: str
) -> None:
    found = read(str(write_wheel(tmp_path / name, {})))
    assert (found.python, found.build_tag) == (python, build)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("torchvision-0.26.0-cp311-cp311-manylinux_2_28_x86_64.whl", "is no wheel of torch"),
        ("torch-2.11.0-cp311-none-macosx_11_0_arm64.whl", "is no wheel of torch for Linux"),
        ("torch.whl", "is no name of a wheel"),
    ],
)
def test_another_wheel_is_refused(tmp_path: Path, name: str, words: str) -> None:
    path = write_wheel(tmp_path / name, {})
    with pytest.raises(UnreadableError, match=words):
        read(str(path))


def test_a_wheel_without_metadata_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        archive.writestr("torch/__init__.py", "")
    with pytest.raises(UnreadableError, match="it holds no METADATA"):
        read(str(tmp_path / NAME))


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no zip" * 100)
    with pytest.raises(UnreadableError, match="not a readable wheel"):
        read(str(tmp_path / NAME))
    with PartServer(tmp_path) as server, pytest.raises(NetworkError, match="not a readable wheel"):
        read(server.url(NAME))


@needs_compiler
@needs_nvcc
def test_code_of_a_real_compiler_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n")
    library = tmp_path / "libtorch_cuda.so"
    code = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in ("80", "90a")]
    command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", *code, "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    found = read(str(write_wheel(tmp_path / NAME, {"torch/lib/libtorch_cuda.so": library})))
    assert {str(target) for target, _ in found.code or ()} == {"sm_80", "sm_90a"}
