from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.binary.compiled import newest_version, read_compiled
from envguard.binary.dynamic import Dynamic, NeededVersion
from envguard.binary.source import FileSource, MemorySource
from envguard.facts.binary import CodeCount
from envguard.facts.gaps import GapReason
from envguard.facts.versions import CodeTarget, ComputeCapability
from tests.binary.build import CUBIN, PTX, Workshop, entry, fatbin, needs_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.binary import CompiledFile
    from tests.binary.torchlike import TorchLike

USES_STRING = """
#include <string>
namespace c10 { namespace detail {
void torchCheckFail(const char *, const char *, unsigned, const std::string &); } }
void f() { c10::detail::torchCheckFail("", "", 1, "x"); }
"""


def read(path: Path) -> CompiledFile:
    with FileSource(str(path)) as source:
        return read_compiled(source, path.name)


@needs_compiler
def test_a_file_with_gpu_code_and_libraries(workshop: Workshop) -> None:
    cudart = workshop.library("libcudart.so.12")
    data = fatbin(entry(CUBIN, 80), entry(CUBIN, 90), entry(PTX, 90, version=(8, 4)))
    found = read(workshop.with_fatbin("x.so", data, needs=[cudart]))
    assert found.cubin == (
        CodeCount(ComputeCapability(8, 0), "", 1),
        CodeCount(ComputeCapability(9, 0), "", 1),
    )
    assert [str(target) for target in found.targets] == ["sm_80", "sm_90", "compute_90"]
    assert found.needed is not None
    assert found.needed[0] == "libcudart.so.12"
    assert (found.cuda_major, found.machine, found.soname) == (12, "x86_64", "x.so")
    assert (found.cxx11_abi, found.stable_abi, found.gaps) == (None, None, ())


@needs_compiler
@pytest.mark.parametrize("new", [True, False])
def test_the_abi_is_told_from_what_a_file_uses(workshop: Workshop, new: bool) -> None:
    flags = [f"-D_GLIBCXX_USE_CXX11_ABI={int(new)}"]
    found = read(workshop.library("x.so", USES_STRING, flags=flags))
    assert (found.cxx11_abi, found.stable_abi) == (new, False)


@needs_compiler
def test_the_abi_of_libtorch_is_told_from_what_it_offers(
    torch: TorchLike, old_torch: TorchLike
) -> None:
    assert read(torch.lib / "libc10.so").cxx11_abi is True
    assert read(old_torch.lib / "libc10.so").cxx11_abi is False


@needs_compiler
def test_a_file_of_the_stable_abi(workshop: Workshop) -> None:
    source = 'extern "C" int aoti_torch_empty(); int f() { return aoti_torch_empty(); }'
    assert read(workshop.library("x.so", source)).stable_abi is True


@needs_compiler
def test_the_architecture_string_of_libtorch_python(workshop: Workshop) -> None:
    words = 'const char *list() { return "sm_80 sm_90a sm_100f compute_120"; }\n'
    lure = 'const char *one() { return "sm_999"; } const char *b() { return "not sm_80 alone"; }'
    found = read(workshop.library("libtorch_python.so", words + lure))
    assert found.arch_flags == tuple(
        map(CodeTarget.parse, ["sm_80", "sm_90a", "sm_100f", "compute_120"])
    )
    assert read(workshop.library("libtorch_other.so", words)).arch_flags is None


@needs_compiler
def test_targets_right_behind_a_piece_of_another_text_are_read(workshop: Workshop) -> None:
    words = 'asm(".section .rodata; .ascii \\"std::string ipc_hsm_70 sm_90 sm_120\\\\0\\"; .text");'
    found = read(workshop.library("libtorch_python.so", words))
    assert [str(target) for target in found.arch_flags or ()] == ["sm_70", "sm_90", "sm_120"]


@needs_compiler
def test_a_libtorch_python_without_cuda_states_nothing(workshop: Workshop) -> None:
    assert read(workshop.library("libtorch_python.so")).arch_flags == ()


def test_a_bare_fatbin_is_read() -> None:
    found = read_compiled(MemorySource(fatbin(entry(CUBIN, 80))), "k.fatbin")
    assert [str(target) for target in found.targets] == ["sm_80"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"MZ\x90\0", "Windows"),
        (b"\xcf\xfa\xed\xfe", "macOS"),
        (b"!<arch>\n", "static archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"/* GNU ld script */", "not an ELF file"),
        (b"\x7fELF\x01", "not an ELF file"),
    ],
)
def test_what_is_not_read_is_named(data: bytes, words: str) -> None:
    found = read_compiled(MemorySource(data), "x.so")
    (gap,) = found.gaps
    assert words in gap.detail
    assert (gap.fact, gap.reason) == ("file", GapReason.UNREADABLE)
    assert (found.cubin, found.ptx, found.needed) == (None, None, None)


@needs_compiler
def test_broken_gpu_code_leaves_the_rest_known(workshop: Workshop) -> None:
    found = read(workshop.with_fatbin("x.so", fatbin(entry(CUBIN, 80), size=9999)))
    assert (found.cubin, found.ptx) == (None, None)
    assert found.needed is not None
    assert [gap.fact for gap in found.gaps] == ["cubin"]


def test_versions_are_compared_by_number() -> None:
    needs = tuple(
        NeededVersion("libc.so.6", version, 2, is_weak=False)
        for version in ("GLIBC_2.4", "GLIBC_2.28", "GLIBC_PRIVATE", "GLIBC_2.2.5")
    )
    assert newest_version(Dynamic(needs=needs), "GLIBC_") == "2.28"
    assert newest_version(Dynamic(needs=needs), "GLIBCXX_") is None
