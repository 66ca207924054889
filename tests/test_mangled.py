"""Mangled names are read by tokens: their owner and their ``std::string``, wherever they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from envguard.mangled import read_mangled

if TYPE_CHECKING:
    from pathlib import Path

PREAMBLE = """
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace c10 { enum class ScalarType : int { Byte, Long = 4, Half = 5 }; enum Flat { A, B = 6 };
  struct Error {}; template <ScalarType S> struct Typed {}; template <Flat F> struct Of {}; }
namespace at { struct Tensor {}; template <int N, bool B> struct Sized {}; }
enum Bare { Zero, Six = 6 };
template <Bare B> struct OfBare {};
struct SsSs {}; struct Ss7 { struct StringsS_ {}; };
template <class... T> struct Pack {};
template <auto F> struct OfFunction {};
void named(int);
"""
ATOMS = [
    "int", "signed char", "unsigned long", "double", "bool", "SsSs", "Ss7::StringsS_",
    "c10::Error", "at::Tensor", "c10::Typed<c10::ScalarType::Half>", "c10::Of<c10::B>",
    "at::Sized<6, true>", "at::Sized<-12, false>", "OfBare<Six>", "OfFunction<&named>",
]  # fmt: skip
SHAPES = [
    "const {}&", "{}*", "std::vector<{}>", "std::map<int, {}>", "Pack<{}, int>", "void (*)({})",
    "std::function<void({})>", "int ({}::*)(int)", "{}&&", "Pack<Pack<{}>, at::Sized<3, false>>",
]  # fmt: skip
OLD = re.compile(r"\bstd::(?:string\b|basic_string<char, std::char_traits<char>)")
NAMES = ["f", "operator+=", "operator<<=", "operator*=", "operator-=", "S_Ss_", "e6E"]


@st.composite
def types(draw: st.DrawFn, string: bool) -> str:
    found = draw(st.sampled_from([*ATOMS, *(["std::string"] * 8 if string else [])]))
    for shape in draw(st.lists(st.sampled_from(SHAPES), max_size=3)):
        if "::*" in shape and not re.fullmatch(r"[\w:]*(?:Error|Tensor|SsSs)", found):
            continue
        if found.endswith(("&", ")")):
            break
        found = shape.format(found)
    return found


@st.composite
def functions(draw: st.DrawFn) -> list[str]:
    """Definitions of functions, each in a scope of its own."""
    made = []
    for number in range(draw(st.integers(4, 24))):
        arguments = draw(st.lists(types(draw(st.booleans())), min_size=1, max_size=4))
        name, scope = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["c10", "mine", ""]))
        if name.startswith("operator"):
            body = f"struct H{number} {{ __attribute__((used)) int {name}({arguments[0]}); }};\n"
            body += f"int H{number}::{name}({arguments[0]}) {{ return 0; }}"
        else:
            body = f"int {name}{number}({', '.join(arguments)}) {{ return 0; }}"
        made.append(f"namespace {scope} {{ {body} }}" if scope else body)
    return made


def symbols_of(source: str, folder: Path, *, is_new: bool) -> list[tuple[str, str]]:
    """The names that a compiler gives, and what ``c++filt`` reads in them."""
    file = folder / "names.cpp"
    file.write_text(PREAMBLE + source)
    flags = ["-std=c++17", f"-D_GLIBCXX_USE_CXX11_ABI={int(is_new)}", "-S", "-w", "-o", "-"]
    done = subprocess.run(
        ["g++", *flags, str(file)], capture_output=True, text=True, check=True, timeout=120
    )
    names = re.findall(r"^(_Z\w+):", done.stdout, re.MULTILINE)
    read = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return list(zip(names, read.stdout.splitlines(), strict=True))


# The oracle is the compiler and its own demangler; without them there is nothing to compare with.
@pytest.mark.skipif(
    not (shutil.which("g++") and shutil.which("c++filt")), reason="there is no compiler here"
)
@pytest.mark.parametrize("is_new", [False, True])
@given(functions())
# A compiler runs for each example: what fails is shown as it is.
@settings(max_examples=5, deadline=None, phases=(Phase.generate,))
def test_what_a_compiler_wrote_is_read_as_its_own_tool_reads_it(
    tmp_path_factory: pytest.TempPathFactory, is_new: bool, made: list[str]
) -> None:
    pairs = symbols_of("\n".join(made), tmp_path_factory.mktemp("names"), is_new=is_new)
    assert len(pairs) >= len(made)
    for name, said in pairs:
        found = read_mangled(name)
        assert found is not None, name
        assert found.is_whole, f"{name}: {said}"
        assert found.has_old_string == bool(OLD.search(said)), f"{name}: {said}"
        assert found.has_new_string == ("std::__cxx11::basic_string" in said), f"{name}: {said}"
        assert found.takes_torch_types == bool(re.search(r"\b(?:c10|at)::", said)), (
            f"{name}: {said}"
        )
        outer = re.match(r"(?:[\w ]+ )?(c10|mine)::", said)
        assert found.namespace == (outer[1] if outer else found.namespace), f"{name}: {said}"


@pytest.mark.parametrize(
    ("name", "is_new", "is_of_torch"),
    [
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", False, True),
        ("_ZN5torch3jit17parseSchemaOrNameERKSsb", False, True),
        (
            "_ZN6caffe28TypeMeta21_typeMetaDataInstanceISsEEPKNS_6detail12TypeMetaDataEv",
            False,
            True,
        ),
        ("_ZN3c104cuda9SetDeviceEa", None, True),
        ("_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_10ScalarTypeE", None, True),
        ("_ZNK3c1010TensorImpl4SsS4dataEv", None, True),
        ("_Z12gemm_forwardN2at6TensorERKSs", False, False),
    ],
)
def test_names_seen_in_reports(name: str, is_new: bool | None, is_of_torch: bool) -> None:
    found = read_mangled(name)
    assert found is not None
    assert found.is_whole
    assert (found.cxx11_string, found.is_of_torch) == (is_new, is_of_torch)


def test_names_of_the_library_are_its_own() -> None:
    stream = read_mangled("_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev")
    thrown = read_mangled("_ZSt28__throw_bad_array_new_lengthv")
    assert stream is not None
    assert thrown is not None
    assert stream.is_of_libstdcxx
    assert thrown.is_of_libstdcxx
    assert not stream.has_new_string


@pytest.mark.parametrize("text", ["_Z999999a", "_ZN", "_Z1aEE", "_ZLLLLL", "_ZN3c10"])
def test_a_name_that_is_cut_is_said_to_be(text: str) -> None:
    found = read_mangled(text)
    assert found is not None
    assert not found.is_whole


def test_a_name_in_c_is_not_mangled() -> None:
    assert read_mangled("cublasLtMatmul") is None


@given(st.text(alphabet="_ZNSstLEIXJ0123456789abcK", max_size=200).map("_Z".__add__))
@settings(max_examples=300)
def test_any_letters_are_read_to_their_end(text: str) -> None:
    assert read_mangled(text) is not None
