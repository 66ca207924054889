from __future__ import annotations

import subprocess

import pytest

from envguard.binary.abi import (
    is_torch_symbol,
    tell_cxx11_abi,
    tell_stable_abi,
    uses_cxx11_string,
)
from tests.binary.build import Workshop, needs_compiler

NEW = (
    b"_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
)
OLD = b"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
NEUTRAL = b"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb"

TORCH_NAMES = [
    NEW,
    NEUTRAL,
    b"_ZNK2at6Tensor4sizeEl",
    b"_ZNKR5torch8autograd4Node4nameEv",
    b"_ZTVN3c1010TensorImplE",
    b"_ZTIN5torch3jit6ModuleE",
    b"_ZN6caffe28TypeMeta21error_unsupported_typemetaES0_",
    b"_ZN2at4_ops5empty4callEN3c108ArrayRefINS2_6SymIntEEE",
]
OTHER_NAMES = [
    b"_ZNSt6vectorIiSaIiEE9push_backEOi",
    b"cudaMalloc",
    b"_ZN4at2x1fEv",
    b"_ZN5torchx1fEv",
    b"_ZN7atlas3fooEv",
    b"aoti_torch_empty_strided",
    b"",
]


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_names_in_libtorchs_namespaces(name: bytes) -> None:
    assert is_torch_symbol(name)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_others(name: bytes) -> None:
    assert not is_torch_symbol(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (NEW, True),
        (OLD, False),
        (NEUTRAL, None),
        (b"_ZN3c105ErrorC1ENS_14SourceLocationESs", False),
        (b"_ZN3c108demangleB5cxx11EPKc", True),
        # Ss inside an identifier is no string.
        (b"_ZN2at10ClassSsRunEi", None),
        (b"_ZN2at6native9SsSsSsSsSEi", None),
        # Numbers that are no lengths of identifiers: substitutions, template arguments, arrays.
        (b"_ZN2at3fooILi25EEEvS12_T10_Ss", False),
        (b"_ZN2at3fooILi25EEEvS12_T10_i", None),
        (b"_ZN2at3fooERA20_KcSs", False),
        # std::string of a stream: other abbreviations begin with S too.
        (b"_ZN3c10lsERSoRKNS_6DeviceE", None),
        (b"_ZN3c10lsERSoRKSs", False),
    ],
)
def test_the_kind_of_string_in_a_name(name: bytes, expected: bool | None) -> None:
    assert uses_cxx11_string(name) is expected


@needs_compiler
@pytest.mark.parametrize("new", [True, False])
def test_the_compilers_own_names_are_told_apart(workshop: Workshop, new: bool) -> None:
    source = """
    #include <string>
    #include <vector>
    #include <map>
    namespace c10 { struct SsSs { int Ss; }; }
    namespace at {
    void a(const std::string &) {}
    void b(c10::SsSs, std::vector<std::string>, int (&)[20]) {}
    void c(std::map<int, std::string> *, char, char, char) {}
    template <int N> struct T { void d(std::string) {} };
    template struct T<1234>;
    void none(c10::SsSs, int (&)[20], std::vector<int>) {}
    }
    """
    path = workshop.library("x.so", source, flags=[f"-D_GLIBCXX_USE_CXX11_ABI={int(new)}"])
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", str(path)],
        capture_output=True,
        check=True,
    ).stdout.split()
    ours = [name for name in lines if is_torch_symbol(name)]
    kinds = {name: uses_cxx11_string(name) for name in ours}
    assert len(ours) == 5
    assert [name for name, kind in kinds.items() if kind is None] == [
        name for name in ours if b"4none" in name
    ]
    assert {kind for kind in kinds.values() if kind is not None} == {new}


def test_the_abi_of_a_file_is_that_of_its_torch_symbols() -> None:
    assert tell_cxx11_abi([NEUTRAL, b"cudaMalloc", NEW]) is True
    assert tell_cxx11_abi([NEUTRAL, OLD]) is False
    assert tell_cxx11_abi([NEUTRAL, b"_ZN3foo3barERKSs"]) is None
    assert tell_cxx11_abi([]) is None


def test_the_stable_abi_is_c_functions_only() -> None:
    shims = [b"aoti_torch_get_data_ptr", b"torch_call_dispatcher", b"_ZNSt9bad_allocD1Ev"]
    assert tell_stable_abi(shims) is True
    assert tell_stable_abi([*shims, NEUTRAL]) is False
    assert tell_stable_abi([b"cudaMalloc", b"_ZNSt9bad_allocD1Ev"]) is None
