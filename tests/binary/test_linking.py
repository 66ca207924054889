"""Predictions of the loader's words, each compared with what the real loader says."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from envguard.binary.environment import read_environment
from envguard.facts.binary import LinkFault
from tests.binary.build import Workshop, needs_compiler, real_error
from tests.binary.torchlike import TorchLike, make_torch

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.binary import BinaryFacts, LinkProblem

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="names of the files are for x86_64"),
]

CHECK = """
#include <string>
namespace c10 { namespace detail {
void torchCheckFail(const char *, const char *, unsigned, const std::string &); } }
void f(const char *x) { c10::detail::torchCheckFail(x, x, 1, std::string(x)); }
"""
SUFFIX = ".cpython-311-x86_64-linux-gnu.so"


def facts_of(torch: TorchLike, environ: dict[str, str] | None = None) -> BinaryFacts:
    return read_environment((torch.site,), torch.torch, environ or {}, None)


def first_problem(facts: BinaryFacts, module: Path) -> LinkProblem | None:
    found = [p for p in facts.links if p.module == str(module)]
    assert [p.is_first for p in found] == [n == 0 for n in range(len(found))]
    return found[0] if found else None


def check(torch: TorchLike, module: Path, environ: dict[str, str] | None = None) -> LinkProblem:
    """The predicted problem of a module, whose words must be the real loader's."""
    problem = first_problem(facts_of(torch, environ), module)
    words = real_error(module, torch.extension, environ=environ, shared=torch.shared)
    assert problem is not None
    assert problem.message == words
    return problem


def check_loads(torch: TorchLike, module: Path, environ: dict[str, str] | None = None) -> None:
    assert real_error(module, torch.extension, environ=environ, shared=torch.shared) == ""
    assert first_problem(facts_of(torch, environ), module) is None


def test_a_torch_like_package_loads(torch: TorchLike) -> None:
    facts = facts_of(torch)
    assert (facts.links, facts.gaps) == ((), ())
    check_loads(torch, torch.extension)


def test_a_module_for_this_torch_loads(torch: TorchLike) -> None:
    module = torch.module(f"flash_attn{SUFFIX}", CHECK)
    check_loads(torch, module)


def test_a_module_of_the_old_abi_beside_a_torch_of_the_new_one(torch: TorchLike) -> None:
    module = torch.module(f"flash_attn{SUFFIX}", CHECK, new_abi=False)
    problem = check(torch, module)
    assert problem.fault is LinkFault.MISSING_SYMBOL
    assert problem.name == "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    assert problem.cxx11_abi is False
    assert problem.is_torch


def test_a_module_of_the_new_abi_beside_a_torch_of_the_old_one(old_torch: TorchLike) -> None:
    module = old_torch.module(f"flash_attn{SUFFIX}", CHECK, new_abi=True)
    problem = check(old_torch, module)
    assert problem.name.startswith("_ZN3c106detail14torchCheckFail")
    assert problem.cxx11_abi is True


def test_a_function_that_this_torch_does_not_have(torch: TorchLike) -> None:
    source = """
    namespace c10 { namespace cuda { void check(int, const char *); } }
    namespace at { struct Tensor { long size(long) const; long stride(long) const; }; }
    long f(at::Tensor &t) { c10::cuda::check(1, ""); return t.size(0) + t.stride(0); }
    """
    problem = check(torch, torch.module(f"ext{SUFFIX}", source))
    assert problem.fault is LinkFault.MISSING_SYMBOL
    assert problem.others == 1
    assert problem.cxx11_abi is None


def test_missing_data_is_reported_before_missing_functions(torch: TorchLike) -> None:
    source = """
    namespace at { void aaa(); extern int zzz; }
    int *g() { at::aaa(); return &at::zzz; }
    """
    problem = check(torch, torch.module(f"ext{SUFFIX}", source))
    assert problem.name == "_ZN2at3zzzE"


def test_a_weak_symbol_may_be_missing(torch: TorchLike) -> None:
    source = """
    namespace at { void absent() __attribute__((weak)); }
    void f() { if (at::absent) at::absent(); }
    """
    check_loads(torch, torch.module(f"ext{SUFFIX}", source))


def test_immediate_binding_is_what_python_asks_for(torch: TorchLike) -> None:
    """A file linked for lazy binding fails all the same."""
    source = "namespace at { void absent(); } void f() { at::absent(); }"
    module = torch.module(f"ext{SUFFIX}", source, flags=("-Wl,-z,lazy",))
    assert check(torch, module).name == "_ZN2at6absentEv"


def test_symbols_of_the_stable_abi(torch: TorchLike) -> None:
    good = 'extern "C" int aoti_torch_empty(); int f() { return aoti_torch_empty(); }'
    check_loads(torch, torch.module(f"good{SUFFIX}", good))
    bad = 'extern "C" int aoti_torch_newer(); int f() { return aoti_torch_newer(); }'
    assert check(torch, torch.module(f"bad{SUFFIX}", bad)).name == "aoti_torch_newer"


def test_a_library_that_is_nowhere(torch: TorchLike) -> None:
    other = Workshop(torch.site.parent / "elsewhere")
    other.folder.mkdir()
    gone = other.library("libcudart.so.99")
    needs = (gone, torch.lib / "libc10.so")
    module = torch.module(f"ext{SUFFIX}", CHECK, needs=needs)
    gone.unlink()
    problem = check(torch, module)
    assert problem.fault is LinkFault.MISSING_LIBRARY
    assert problem.message == (
        "libcudart.so.99: cannot open shared object file: No such file or directory"
    )
    assert not problem.is_driver


def test_a_library_of_the_driver_is_marked(torch: TorchLike) -> None:
    other = Workshop(torch.site.parent / "elsewhere")
    other.folder.mkdir()
    driver = other.library("libcuda.so.1", soname="libcuda.so.1")
    module = torch.module(f"ext{SUFFIX}", "", needs=(driver,))
    driver.unlink()
    facts = read_environment((torch.site,), torch.torch, {}, None)
    problem = first_problem(facts, module)
    assert problem is None or problem.is_driver  # a machine with a driver has it


def test_a_cuda_module_beside_a_torch_without_cuda(torch: TorchLike) -> None:
    other = Workshop(torch.site.parent / "elsewhere")
    other.folder.mkdir()
    cuda = other.library("libtorch_cuda.so", "namespace at { void gpu() {} }")
    source = "namespace at { void gpu(); } void f() { at::gpu(); }"
    module = torch.module(f"ext{SUFFIX}", source, needs=(torch.lib / "libc10.so", cuda))
    problem = check(torch, module)
    assert problem.name == "libtorch_cuda.so"
    assert problem.is_torch
    assert len([p for p in facts_of(torch).links if p.module == str(module)]) == 1


def test_missing_libraries_are_told_breadth_first(torch: TorchLike) -> None:
    work = torch.workshop
    lost = [work.library(f"lost/lib{name}.so") for name in "ab"]
    inner = work.library("pkg/libinner.so", needs=[lost[0]])
    module = torch.module(f"pkg/ext{SUFFIX}", "", needs=(inner, lost[1]), runpath="$ORIGIN")
    for path in lost:
        path.unlink()
    assert check(torch, module).name == "libb.so"
    found = [p for p in facts_of(torch).links if p.module == str(module)]
    assert [(p.name, p.needed_by) for p in found] == [
        ("libb.so", str(module)),
        ("liba.so", f"{torch.site}/pkg/libinner.so"),
    ]


def versioned(work: Workshop, path: str, *versions: str) -> Path:
    script = work.folder / "map"
    script.write_text(
        "".join(f"{version} {{ global: f{n}; }};\n" for n, version in enumerate(versions))
    )
    source = "".join(f'extern "C" void f{n}() {{}}\n' for n in range(len(versions)))
    return work.library(path, source, flags=[f"-Wl,--version-script={script}"])


def test_a_version_that_the_library_found_does_not_offer(torch: TorchLike) -> None:
    new = versioned(torch.workshop, "new/libv.so", "V_1", "V_2", "V_3")
    source = 'extern "C" void f0(), f1(), f2(); void g() { f0(); f1(); f2(); }'
    module = torch.module(f"ext{SUFFIX}", source, needs=(new,), runpath="$ORIGIN/new")
    check_loads(torch, module)
    versioned(torch.workshop, "new/libv.so", "V_1")
    problem = check(torch, module)
    assert problem.fault is LinkFault.MISSING_VERSION
    assert problem.provider == f"{torch.site}/new/libv.so"
    assert problem.name in {"V_2", "V_3"}
    assert problem.others == 1


def test_a_library_without_versions_serves_all_of_them(torch: TorchLike) -> None:
    new = versioned(torch.workshop, "new/libv.so", "V_1", "V_2")
    source = 'extern "C" void f1(); void g() { f1(); }'
    module = torch.module(f"ext{SUFFIX}", source, needs=(new,), runpath="$ORIGIN/new")
    torch.workshop.library("new/libv.so", 'extern "C" void f1() {}')
    problem = first_problem(facts_of(torch), module)
    assert problem is None
    words = real_error(module, torch.extension, shared=torch.shared)
    assert words == ""


def nvjitlink(work: Workshop, path: str, *names: str) -> Path:
    """Like NVIDIA's: one version, named after the library, for all symbols of every release."""
    script = work.folder / "map"
    script.write_text("libnvJitLink.so.12 { global: *; };\n")
    source = "".join(f'extern "C" void {name}() {{}}\n' for name in names)
    return work.library(path, source, flags=[f"-Wl,--version-script={script}"])


def test_an_older_library_before_the_packaged_one(tmp_path: Path) -> None:
    """Its version is the same, yet a symbol is missing: pytorch issue 131312."""
    site = tmp_path / "python3.11/site-packages"
    site.mkdir(parents=True)
    work = Workshop(site)
    newer = nvjitlink(
        work, "nvidia/nvjitlink/lib/libnvJitLink.so.12", "complete_12_1", "complete_12_4"
    )
    sparse = work.library(
        "nvidia/cusparse/lib/libcusparse.so.12",
        'extern "C" void complete_12_4(); void g() { complete_12_4(); }',
        needs=[newer],
        runpath="$ORIGIN/../../nvjitlink/lib",
    )
    torch = make_torch(site, cuda=(sparse,), rpath="$ORIGIN/../../nvidia/cusparse/lib")
    check_loads(torch, torch.extension)

    toolkit = Workshop(tmp_path / "cuda-12.1")
    toolkit.folder.mkdir()
    nvjitlink(toolkit, "lib64/libnvJitLink.so.12", "complete_12_1")
    environ = {"LD_LIBRARY_PATH": f"{tmp_path}/cuda-12.1/lib64"}
    facts = facts_of(torch, environ)
    words = real_error(torch.extension, environ=environ)
    assert [p.message for p in facts.links if p.is_first] == [words]
    assert words == (
        f"{site}/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: "
        "complete_12_4, version libnvJitLink.so.12"
    )
    (shadow,) = facts.shadowed
    assert shadow.name == "libnvJitLink.so.12"
    assert shadow.found_by.value == "LD_LIBRARY_PATH"
    assert shadow.winner == f"{tmp_path}/cuda-12.1/lib64/libnvJitLink.so.12"
    assert not shadow.in_environment
    assert len(shadow.others) == 1


def test_a_torch_that_opens_the_packaged_library_first(tmp_path: Path) -> None:
    """Newer releases load the package's libraries by path, so LD_LIBRARY_PATH does not decide."""
    site = tmp_path / "python3.11/site-packages"
    site.mkdir(parents=True)
    work = Workshop(site)
    packaged = work.library("nvidia/cu13/lib/libcublas.so.13", 'extern "C" void newer() {}')
    torch = make_torch(site, cuda=(packaged,))
    (torch.torch / "__init__.py").write_text(
        "def _load_global_deps():\n"
        "    try:\n"
        "        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)\n"
        "        _preload_cuda_lib('cublas', 'libcublas.so.*[0-9]')\n"
        "    except OSError:\n"
        "        pass\n"
    )
    toolkit = Workshop(tmp_path / "toolkit")
    toolkit.folder.mkdir()
    toolkit.library("lib64/libcublas.so.13")
    source = 'extern "C" void newer(); void f() { newer(); }'
    module = torch.module(f"ext{SUFFIX}", source, needs=(packaged,))
    environ = {"LD_LIBRARY_PATH": f"{tmp_path}/toolkit/lib64"}
    # The package's library is among what torch opens before the extension, as below.
    words = real_error(module, packaged, environ=environ)
    assert words == ""
    work.library("torch/lib/libtorch_global_deps.so")  # needs nothing, so the first copy is ours
    assert first_problem(facts_of(torch, environ), module) is None


def test_a_torch_whose_packages_are_missing(tmp_path: Path) -> None:
    site = tmp_path / "python3.11/site-packages"
    site.mkdir(parents=True)
    cuda = Workshop(site).library("nvidia/cublas/lib/libcublas.so.99")
    torch = make_torch(site, cuda=(cuda,), rpath="$ORIGIN/../../nvidia/cublas/lib")
    cuda.unlink()
    facts = facts_of(torch)
    assert [p.message for p in facts.links] == [
        "libcublas.so.99: cannot open shared object file: No such file or directory"
    ]


def test_torch_finds_packaged_libraries_that_its_search_path_does_not_reach(
    tmp_path: Path,
) -> None:
    site = tmp_path / "python3.11/site-packages"
    site.mkdir(parents=True)
    cuda = Workshop(site).library("nvidia/cublas/lib/libcublas.so.99")
    torch = make_torch(site, cuda=(cuda,))
    assert facts_of(torch).links == ()


def test_a_library_that_is_no_library(torch: TorchLike) -> None:
    helper = torch.workshop.library("pkg/libhelper.so")
    module = torch.module(f"pkg/ext{SUFFIX}", "", needs=(helper,), runpath="$ORIGIN")
    helper.write_text("version https://git-lfs.github.com/spec/v1\n" + "x" * 2000)
    problem = check(torch, module)
    assert problem.fault is LinkFault.UNUSABLE_LIBRARY
    helper.write_bytes(b"")
    assert check(torch, module).message.endswith("file too short")


def test_a_library_for_another_processor_is_passed_over(torch: TorchLike) -> None:
    helper = torch.workshop.library("far/libhelper.so")
    torch.workshop.library("pkg/libhelper.so")
    data = bytearray((torch.site / "pkg/libhelper.so").read_bytes())
    data[18:20] = (183).to_bytes(2, "little")
    (torch.site / "pkg/libhelper.so").write_bytes(data)
    path = "$ORIGIN:$ORIGIN/../far"
    module = torch.module(f"pkg/ext{SUFFIX}", "", needs=(helper,), runpath=path)
    check_loads(torch, module)


def test_plugins_and_libraries_that_nothing_loads_need_not_link(torch: TorchLike) -> None:
    lost = torch.workshop.library("lost/libmpi.so.40")
    torch.workshop.library("nvidia/nvshmem/lib/nvshmem_bootstrap_mpi.so.3", needs=[lost])
    torch.workshop.library("pkg/libplugin.so", needs=[lost])
    torch.module("pkg/ext.cpython-399-x86_64-linux-gnu.so", "", needs=(lost,))
    lost.unlink()
    assert facts_of(torch).links == ()


def test_a_package_loads_its_own_libraries_before_it_needs_them(torch: TorchLike) -> None:
    """torchaudio opens lib/libtorchaudio.so by path, then imports what is linked with it."""
    helper = torch.workshop.library("pkg/lib/libhelper.so", 'extern "C" void help() {}')
    source = 'extern "C" void help(); void f() { help(); }'
    module = torch.module(f"pkg/lib/_ext{SUFFIX}", source, needs=(helper,))
    assert first_problem(facts_of(torch), module) is None
    words = real_error(module, helper, torch.extension, shared=torch.shared)
    assert words == ""
    elsewhere = torch.module(f"other/_ext{SUFFIX}", source, needs=(helper,))
    assert check(torch, elsewhere).name == "libhelper.so"


def test_an_operator_library_has_to_link(torch: TorchLike) -> None:
    source = """
    #include <string>
    namespace torch { struct Library { Library(const std::string &); }; }
    namespace at { void absent(); }
    void f() { torch::Library l(std::string("x")); at::absent(); }
    """
    named = torch.module("pkg/_ops.so", source, init=False)
    like_a_library = torch.module("pkg/libops.so", source, init=False)
    assert check(torch, named).name == "_ZN2at6absentEv"
    assert check(torch, like_a_library).name == "_ZN2at6absentEv"


def test_one_of_several_builds_is_marked(torch: TorchLike) -> None:
    for number in (4, 5):
        lost = torch.workshop.library(f"lost/libavutil.so.5{number}")
        torch.module(f"pkg/_codec{number}{SUFFIX}", "", needs=(lost,))
        lost.unlink()
    assert [p.one_of_several for p in facts_of(torch).links] == [True, True]


PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    if (!dlopen(argv[1], RTLD_NOW)) fputs(dlerror(), stdout);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("tags", "loads"), [("--disable-new-dtags", True), ("--enable-new-dtags", False)]
)
def test_the_search_path_of_the_interpreter_counts(
    torch: TorchLike, tmp_path: Path, tags: str, loads: bool
) -> None:
    """A DT_RPATH of the program serves all that it opens, as in conda; a DT_RUNPATH does not."""
    prefix = Workshop(tmp_path / "prefix")
    prefix.folder.mkdir()
    library = prefix.library("lib/libfar.so.1")
    (prefix.folder / "bin").mkdir()
    source, program = prefix.folder / "m.c", prefix.folder / "bin/python"
    source.write_text(PROGRAM)
    link = [f"-Wl,-rpath,$ORIGIN/../lib,{tags}", "-ldl"]
    subprocess.run(["gcc", "-o", str(program), str(source), *link], check=True)
    linked = tmp_path / "venv-python"
    linked.symlink_to(program)
    module = torch.module(f"ext{SUFFIX}", "", needs=(library,))
    facts = read_environment((torch.site,), None, {}, None, executable=linked)
    said = subprocess.run(
        [str(linked), str(module)], capture_output=True, text=True, check=True, env={}
    ).stdout
    assert [problem.message for problem in facts.links] == ([] if loads else [said])
    assert bool(said) is not loads
