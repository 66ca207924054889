from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from envguard.binary.environment import read_environment
from envguard.facts.binary import BinaryFacts, Loading
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.gaps import GapReason
from tests.binary.build import CUBIN, PTX, Workshop, entry, fatbin, needs_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from tests.binary.torchlike import TorchLike

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="names of the files are for x86_64"),
]

SUFFIX = ".cpython-311-x86_64-linux-gnu.so"
BROKEN = "namespace at { void absent(); } void f() { at::absent(); }"


def read(torch: TorchLike, cache: Path | None = None, **environ: str) -> BinaryFacts:
    return read_environment((torch.site,), torch.torch, environ, cache)


def add_gpu_code(torch: TorchLike) -> None:
    code = fatbin(entry(CUBIN, 75), entry(CUBIN, 90))
    torch.workshop.with_fatbin("torch/lib/libtorch_cuda.so", code)
    torch.workshop.with_fatbin("torch/lib/libtorch_cuda_linalg.so", fatbin(entry(CUBIN, 90)))
    torch.workshop.with_fatbin("bnb/libbnb_cuda128.so", fatbin(entry(PTX, 75)))


def test_targets_are_kept_by_library(torch: TorchLike) -> None:
    add_gpu_code(torch)
    facts = read(torch)
    targets = {file.path: [str(target) for target in file.targets] for file in facts.files}
    assert targets["torch/lib/libtorch_cuda.so"] == ["sm_75", "sm_90"]
    assert targets["torch/lib/libtorch_cuda_linalg.so"] == ["sm_90"]
    assert targets["bnb/libbnb_cuda128.so"] == ["compute_75"]
    assert targets["torch/lib/libc10.so"] == []
    assert [file.path for file in facts.torch_code] == [
        "torch/lib/libtorch_cuda.so",
        "torch/lib/libtorch_cuda_linalg.so",
    ]
    assert facts.file("libtorch_cuda.so") is not None
    assert facts.file("libnothing.so") is None


def test_facts_survive_being_written_down(torch: TorchLike) -> None:
    add_gpu_code(torch)
    torch.module(f"ext{SUFFIX}", BROKEN)
    facts = read(torch)
    assert facts.links
    assert facts.files
    again = from_dict(BinaryFacts, json.loads(json.dumps(to_dict(facts))), "here")
    assert again == facts


def test_a_file_that_is_no_library_is_a_gap(torch: TorchLike) -> None:
    (torch.site / "x.so").write_text("an ld script")
    os.mkfifo(torch.site / "fifo.so")
    found = {gap.fact: gap.detail for gap in read(torch).gaps}
    assert found == {
        "file x.so": "not an ELF file",
        "file fifo.so": "not a regular file but a FIFO",
    }


def test_pipes_in_the_place_of_files_are_passed_over(torch: TorchLike) -> None:
    torch.module(f"plain/_C{SUFFIX}", BROKEN)
    (torch.site / "foo-1.dist-info").mkdir()
    inits = [torch.torch / "__init__.py", torch.torch / "version.py"]
    for path in (
        *inits,
        torch.site / "x.pth",
        torch.site / "foo-1.dist-info/RECORD",
        torch.site / "plain/__init__.py",
    ):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    assert [problem.module.rpartition("/")[2] for problem in read(torch).links] == [f"_C{SUFFIX}"]


def test_an_environment_without_torch_is_read(tmp_path: Path) -> None:
    site = tmp_path / "python3.11/site-packages"
    site.mkdir(parents=True)
    work = Workshop(site)
    lost = work.library("libnowhere.so.7")
    work.library(f"ext{SUFFIX}", 'extern "C" void *PyInit_ext() { return 0; }', needs=[lost])
    lost.unlink()
    facts = read_environment((site,), None, {}, None)
    assert [problem.name for problem in facts.links] == ["libnowhere.so.7"]
    assert not facts.links[0].is_torch


def test_an_empty_environment_holds_nothing(tmp_path: Path) -> None:
    assert read_environment((tmp_path,), None, {}, None) == BinaryFacts()
    assert read_environment((tmp_path / "gone",), None, {}, None) == BinaryFacts()


def test_the_package_says_whether_an_import_loads_the_module(torch: TorchLike) -> None:
    for name in ("plain", "guarded"):
        torch.module(f"{name}/_C{SUFFIX}", BROKEN)
    (torch.site / "plain/__init__.py").write_text("from plain import _C\n")
    (torch.site / "guarded/__init__.py").write_text(
        "try:\n    from guarded import _C\nexcept ImportError:\n    _C = None\n"
    )
    torch.module(f"alone{SUFFIX}", BROKEN)
    found = {p.module.removeprefix(f"{torch.site}/"): p for p in read(torch).links}
    assert found[f"plain/_C{SUFFIX}"].loading is Loading.IMPORT
    assert found[f"plain/_C{SUFFIX}"].loaded_from == "plain/__init__.py:1"
    assert found[f"guarded/_C{SUFFIX}"].loading is Loading.GUARDED
    assert found[f"alone{SUFFIX}"].loading is Loading.UNKNOWN


def test_modules_of_pth_folders_count(torch: TorchLike, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    shutil.move(torch.module(f"ext{SUFFIX}", BROKEN), source / f"ext{SUFFIX}")
    (torch.site / "editable.pth").write_text(f"{source}\n")
    assert [problem.module for problem in read(torch).links] == [f"{source}/ext{SUFFIX}"]


class TestCache:
    """A second reading takes what the first one found, until something changes."""

    def kept(self, cache: Path) -> Path:
        (path,) = cache.glob("deep-*.json")
        return path

    def mark(self, cache: Path) -> None:
        """Plant an answer that only the cache can give."""
        document = json.loads(self.kept(cache).read_text())
        document["facts"]["checked"] = 4711
        self.kept(cache).write_text(json.dumps(document))

    def test_an_unchanged_environment_is_not_read_again(
        self, torch: TorchLike, tmp_path: Path
    ) -> None:
        cache = tmp_path / "cache"
        torch.module(f"ext{SUFFIX}", BROKEN)
        first = read(torch, cache)
        assert read(torch, cache) == first
        self.mark(cache)
        assert read(torch, cache).checked == 4711

    def test_a_changed_file_is(self, torch: TorchLike, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        module = torch.module(f"ext{SUFFIX}", BROKEN)
        assert len(read(torch, cache).links) == 1
        self.mark(cache)
        torch.module(f"ext{SUFFIX}", "")
        assert read(torch, cache).links == ()
        module.unlink()
        assert read(torch, cache).checked == 0

    def test_another_search_path_is(self, torch: TorchLike, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        read(torch, cache)
        self.mark(cache)
        assert read(torch, cache, LD_LIBRARY_PATH="/nowhere").checked != 4711

    def test_a_library_that_appears_outside_the_environment_is(
        self, torch: TorchLike, tmp_path: Path
    ) -> None:
        cache, outside = tmp_path / "cache", Workshop(tmp_path / "outside")
        outside.folder.mkdir()
        library = outside.library("libfar.so.1")
        torch.module(f"ext{SUFFIX}", "", needs=(library,))
        hidden = tmp_path / "hidden"
        library.rename(hidden)
        path = str(outside.folder)
        assert len(read(torch, cache, LD_LIBRARY_PATH=path).links) == 1
        hidden.rename(library)
        assert read(torch, cache, LD_LIBRARY_PATH=path).links == ()
        library.write_text("not a library any more")
        assert len(read(torch, cache, LD_LIBRARY_PATH=path).links) == 1

    def test_a_broken_result_is(self, torch: TorchLike, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        first = read(torch, cache)
        document = json.loads(self.kept(cache).read_text())
        for broken in (
            {**document, "facts": {"files": 3}},
            {**document, "files": {"x": "y"}, "key": ""},
            {**document, "watched": None},
        ):
            self.kept(cache).write_text(json.dumps(broken))
            assert read(torch, cache) == first

    def test_single_files_are_not_read_again_when_another_one_changes(
        self, torch: TorchLike, tmp_path: Path
    ) -> None:
        cache = tmp_path / "cache"
        add_gpu_code(torch)
        read(torch, cache)
        document = json.loads(self.kept(cache).read_text())
        path = f"{torch.lib}/libtorch_cuda.so"
        document["files"][path][1]["cubin"][0]["count"] = 4711
        self.kept(cache).write_text(json.dumps(document))
        torch.module(f"ext{SUFFIX}", "")
        found = read(torch, cache).file("libtorch_cuda.so")
        assert found is not None
        assert found.cubin is not None
        assert found.cubin[0].count == 4711


def test_a_compiled_extension_of_an_older_torch_is_found(torch: TorchLike, tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / ".cache/torch_extensions/py311_cu121/fused_adam"
    folder.mkdir(parents=True)
    (torch.torch / "version.py").write_text("__version__ = '2.9'\ncuda: str = '12.1'\n")
    shutil.move(torch.module("fused_adam.so", BROKEN), folder / "fused_adam.so")
    (cache,) = read(torch, HOME=str(home)).caches
    assert cache.folder == str(folder)
    assert [problem.name for problem in cache.problems] == ["_ZN2at6absentEv"]
    assert cache.targets == ()


def test_a_compiled_extension_that_loads_is_told_with_its_targets(
    torch: TorchLike, tmp_path: Path
) -> None:
    folder = tmp_path / "extensions/op"
    folder.mkdir(parents=True)
    path = torch.workshop.with_fatbin("op.so", fatbin(entry(CUBIN, 80)))
    shutil.move(path, folder / "op_v1.so")
    (cache,) = read(torch, TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions")).caches
    assert cache.problems == ()
    assert [str(target) for target in cache.targets or ()] == ["sm_80"]


def test_extensions_for_other_interpreters_are_left_alone(torch: TorchLike, tmp_path: Path) -> None:
    folder = tmp_path / ".cache/torch_extensions/py310_cpu/op"
    folder.mkdir(parents=True)
    shutil.move(torch.module("op.so", BROKEN), folder / "op.so")
    assert read(torch, HOME=str(tmp_path)).caches == ()


def test_another_processor_is_not_judged(torch: TorchLike, tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    data = bytearray((torch.lib / "libc10.so").read_bytes())
    data[18:20] = (22).to_bytes(2, "little")  # s390
    interpreter.write_bytes(data)
    facts = read_environment((torch.site,), torch.torch, {}, None, executable=interpreter)
    assert facts.links == ()
    (gap,) = facts.gaps
    assert (gap.fact, gap.reason) == ("environment.links", GapReason.NOT_ASKED)
