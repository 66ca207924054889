from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from envguard.binary.elf import Image
from envguard.binary.fatbin import GpuCode, read_fatbin_file, read_gpu_code
from envguard.binary.source import FileSource, MemorySource, UnreadableError
from envguard.facts.binary import CodeCount
from envguard.facts.versions import ComputeCapability
from tests.binary.build import (
    CUBIN,
    LTO,
    PTX,
    SUFFIX_A,
    SUFFIX_F,
    Workshop,
    entry,
    fatbin,
    needs_compiler,
    needs_nvcc,
)

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] *= 2; }\n'


def count(major: int, minor: int, number: int, suffix: str = "") -> CodeCount:
    return CodeCount(ComputeCapability(major, minor), suffix, number)


def read(data: bytes) -> GpuCode:
    return read_fatbin_file(MemorySource(data))


def read_object(path: Path) -> GpuCode:
    with FileSource(str(path)) as source:
        return read_gpu_code(Image(source))


def nvcc(folder: Path, *options: str) -> Path:
    source, target = folder / "k.cu", folder / "k.out"
    source.write_text(KERNEL)
    subprocess.run(
        [shutil.which("nvcc") or "nvcc", *options, "-o", str(target), str(source)],
        check=True,
        capture_output=True,
    )
    return target


def code_for(*targets: str) -> list[str]:
    """``90a`` and ``+120f``: machine code, or PTX with a plus."""
    options = []
    for target in targets:
        arch = target.removeprefix("+")
        kind = "compute" if target.startswith("+") else "sm"
        options += ["-gencode", f"arch=compute_{arch},code={kind}_{arch}"]
    return options


@needs_nvcc
def test_every_kind_of_target_that_nvcc_writes_is_told_apart(tmp_path: Path) -> None:
    targets = ["75", "90", "90a", "100a", "100f", "103f", "110", "120", "121", "+90a", "+120f"]
    path = nvcc(tmp_path, "-fatbin", *code_for(*targets))
    code = read(path.read_bytes())
    assert code.cubin == (
        count(7, 5, 1),
        count(9, 0, 1),
        count(9, 0, 1, "a"),
        count(10, 0, 1, "a"),
        count(10, 0, 1, "f"),
        count(10, 3, 1, "f"),
        count(11, 0, 1),
        count(12, 0, 1),
        count(12, 1, 1),
    )
    assert code.ptx == (count(9, 0, 1, "a"), count(12, 0, 1, "f"))
    assert code.ptx_version is not None
    assert code.ptx_version[0] == 9


@needs_nvcc
@pytest.mark.parametrize("mode", ["none", "size", "speed"])
def test_compressed_code_is_counted_by_its_header(tmp_path: Path, mode: str) -> None:
    path = nvcc(tmp_path, "-fatbin", f"-compress-mode={mode}", *code_for("80", "+80"))
    code = read(path.read_bytes())
    assert (code.cubin, code.ptx) == ((count(8, 0, 1),), (count(8, 0, 1),))


@needs_nvcc
@needs_compiler
def test_a_shared_object_of_nvcc_is_read(tmp_path: Path) -> None:
    options = ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none", *code_for("80", "90a", "+90")]
    code = read_object(nvcc(tmp_path, *options))
    assert code.cubin == (count(8, 0, 1), count(9, 0, 1, "a"))
    assert code.ptx == (count(9, 0, 1),)


@needs_nvcc
@needs_compiler
def test_code_before_device_linking_counts_in_an_object_file(tmp_path: Path) -> None:
    code = read_object(nvcc(tmp_path, "-dc", *code_for("80", "+80")))
    assert (code.cubin, code.ptx) == ((count(8, 0, 1),), (count(8, 0, 1),))


def test_suffixes_are_bits_of_the_flags() -> None:
    code = read(
        fatbin(
            entry(CUBIN, 90),
            entry(CUBIN, 90, flags=0x8011 | SUFFIX_A),
            entry(CUBIN, 100, flags=0x1000011 | SUFFIX_F),
            entry(PTX, 120, flags=SUFFIX_F, version=(9, 0)),
            entry(PTX, 75, version=(8, 4)),
        )
    )
    assert code.cubin == (count(9, 0, 1), count(9, 0, 1, "a"), count(10, 0, 1, "f"))
    assert code.ptx == (count(7, 5, 1), count(12, 0, 1, "f"))
    assert code.ptx_version == (9, 0)


def test_code_for_the_link_time_optimiser_does_not_count() -> None:
    assert read(fatbin(entry(LTO, 80), entry(CUBIN, 80))) == GpuCode((count(8, 0, 1),), ())


def test_fatbins_follow_each_other_with_zeros_between() -> None:
    data = fatbin(entry(CUBIN, 80)) + b"\0" * 24 + fatbin(entry(CUBIN, 80)) + b"\0" * 8
    assert read(data).cubin == (count(8, 0, 2),)


def test_nothing_is_nothing() -> None:
    assert read(b"") == GpuCode()


@needs_compiler
def test_only_linked_programs_count_where_their_parts_are_left_in_the_file(
    workshop: Workshop,
) -> None:
    (workshop.folder / "parts.bin").write_bytes(fatbin(entry(CUBIN, 80), entry(PTX, 90)))
    (workshop.folder / "whole.bin").write_bytes(fatbin(entry(CUBIN, 80)))
    path = workshop.library(
        "both.so",
        f'asm(".section __nv_relfatbin,\\"a\\"; .incbin \\"{workshop.folder}/parts.bin\\";'
        f'.section .nv_fatbin,\\"a\\"; .incbin \\"{workshop.folder}/whole.bin\\"; .text");',
    )
    assert read_object(path) == GpuCode((count(8, 0, 1),))


@needs_compiler
def test_a_file_without_gpu_code_holds_none(workshop: Workshop) -> None:
    assert read_object(workshop.library("plain.so", "int f() { return 1; }")) == GpuCode()


@needs_compiler
def test_removed_section_headers_are_a_reason_not_an_absence(workshop: Workshop) -> None:
    path = workshop.with_fatbin("bare.so", fatbin(entry(CUBIN, 80)))
    data = bytearray(path.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match="section headers were removed"):
        read_object(path)


@needs_compiler
def test_pointers_to_code_in_an_unknown_section_are_a_reason(workshop: Workshop) -> None:
    path = workshop.with_fatbin("odd.so", b"\0" * 24, section=".nvFatBinSegment")
    with pytest.raises(UnreadableError, match="no section of the usual names"):
        read_object(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (fatbin(entry(CUBIN, 80), size=10_000), "said to be 10016 bytes"),
        (fatbin(entry(CUBIN, 80, size=10_000)), "said to be 10064 bytes"),
        (fatbin(entry(CUBIN, 80), head=0), "the fatbin at 0x0"),
        (fatbin(entry(CUBIN, 80, head=8, size=0)), "the fatbin entry at 0x10"),
        (fatbin(entry(CUBIN, 80)[:40]), "cut off"),
        (fatbin(entry(CUBIN, 80), size=2**63), "the fatbin at 0x0"),
        (fatbin(entry(CUBIN, 80, size=2**64 - 64)), "the fatbin entry at 0x10"),
        (fatbin(entry(CUBIN, 3)), "for sm_3"),
        (fatbin(entry(CUBIN, 4_000_000_000)), "for sm_4000000000"),
        (b"this is no fatbin, surely", "at 0x0 is no fatbin"),
        (fatbin(entry(CUBIN, 80)) + b"rubbish behind it", "is no fatbin"),
        (b"\0" * 70_000 + fatbin(entry(CUBIN, 80)), "is no fatbin"),
    ],
)
def test_a_header_that_lies_ends_in_words(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        read(data)


def test_empty_entries_without_end_are_given_up() -> None:
    many = entry(LTO, 80, code=b"", head=48)[:48] * 1_000_001
    with pytest.raises(UnreadableError, match="more than 1000000 pieces"):
        read(fatbin(many))


def test_empty_fatbins_without_end_are_given_up() -> None:
    with pytest.raises(UnreadableError, match="more than 200000 fatbins"):
        read(fatbin() * 200_001)
