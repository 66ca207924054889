from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.matrix.packages import AbiKind, BreakScope, BuiltFor, Coverage, Mismatch, PackageTable
from envguard.matrix.reading import Document

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix

SOURCES = {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}}

# From the metadata of the wheels on PyPI.
PINS = [
    ("torchvision", "0.15.2", "==2.0.1", "11.7"),
    ("torchvision", "0.21.0", "==2.6.0", "12.4"),
    ("torchvision", "0.23.0", "==2.8.0", "12.8"),
    ("torchvision", "0.29.1", ">=2.14.0", "13.0"),
    ("torchaudio", "2.1.0", "==2.1.0", "12.1"),
    ("torchaudio", "2.10.0", "==2.10.0", "12.8"),
    ("xformers", "0.0.23.post1", "==2.1.2", "12.1"),
    ("xformers", "0.0.30", "==2.7.0", "12.6"),
    ("xformers", "0.0.35", ">=2.10", "12.8"),
    ("vllm", "0.6.3.post1", "==2.4.0", "12"),
    ("vllm", "0.22.0", "==2.11.0", "13"),
]


def table(matrix: Matrix, name: str) -> PackageTable:
    found = matrix.packages(name)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "version", "torch", "cuda"), PINS)
def test_releases_pin_torch_and_are_built_for_a_cuda(
    matrix: Matrix, name: str, version: str, torch: str, cuda: str
) -> None:
    release = table(matrix, name).release(Version(version))
    assert release is not None
    assert release.requires["torch"] == SpecifierSet(torch)
    assert release.cuda == BuiltFor.parse(cuda)


def test_requirements_beside_torch_are_there(matrix: Matrix) -> None:
    accelerate = table(matrix, "accelerate").release(Version("0.32.0"))
    transformers = table(matrix, "transformers").release(Version("4.42.4"))
    vllm = table(matrix, "vllm").release(Version("0.7.3"))
    assert accelerate is not None
    assert transformers is not None
    assert vllm is not None
    assert accelerate.requires["numpy"] == SpecifierSet(">=1.17,<2.0.0")
    assert accelerate.extras["deepspeed"] == SpecifierSet("<=0.14.0")
    assert transformers.requires["numpy"] == SpecifierSet(">=1.17,<2.0")
    assert "torch" not in transformers.requires
    assert vllm.requires["torchvision"] == SpecifierSet("==0.20.1")
    assert vllm.python == SpecifierSet(">=3.9")


def test_a_local_label_and_trailing_zeros_do_not_matter(matrix: Matrix) -> None:
    vision = table(matrix, "torchvision")
    assert vision.release(Version("0.23.0+cu128")) == vision.release(Version("0.23.0"))
    codec = table(matrix, "torchcodec").release(Version("0.5.0"))
    assert codec is not None
    assert codec.torch == SpecifierSet("==2.7.*")
    assert vision.release(Version("0.99.0")) is None


def test_a_row_of_its_minor_stands_for_a_patch(matrix: Matrix) -> None:
    transformers = table(matrix, "transformers")
    assert transformers.coverage is Coverage.MINORS
    like = transformers.release_like(Version("4.57.1"))
    assert like is not None
    assert like.version == Version("4.57.6")
    assert transformers.release_like(Version("9.0.0")) is None


def test_a_row_holds_until_the_next_and_not_beyond_the_last(matrix: Matrix) -> None:
    flashinfer = table(matrix, "flashinfer-python")
    like = flashinfer.release_like(Version("0.6.3"))
    assert like is not None
    assert like.version == Version("0.6.1")
    assert flashinfer.release_like(Version("0.4.0")) is None
    assert flashinfer.release_like(Version("0.9.0")) is None


def test_a_complete_table_has_no_stand_ins(matrix: Matrix) -> None:
    assert table(matrix, "torchvision").release_like(Version("0.22.9")) is None


@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [
        ("torchvision", "0.28.0", AbiKind.CLASSIC),
        ("torchvision", "0.29.0", AbiKind.STABLE),
        ("torchaudio", "2.9.1", AbiKind.CLASSIC),
        ("torchaudio", "2.10.0", AbiKind.STABLE),
        ("xformers", "0.0.33", AbiKind.CLASSIC),
        ("xformers", "0.0.34", AbiKind.STABLE),
        ("vllm", "0.23.0", AbiKind.CLASSIC),
        ("bitsandbytes", "0.47.0", AbiKind.NONE),
        ("flash-attn", "2.8.3", AbiKind.CLASSIC),
        ("liger-kernel", "0.6.0", AbiKind.NONE),
    ],
)
def test_abi_of_compiled_code(matrix: Matrix, name: str, version: str, kind: AbiKind) -> None:
    kinds = [r.abi for r in table(matrix, name).ranges(Version(version)) if r.abi]
    assert kinds == [kind]


@pytest.mark.parametrize(
    ("name", "version", "capability"),
    [
        ("flash-attn", "2.7.4.post1", "8.0"),
        ("flash-attn-4", "4.0.0b20", "8.0"),
        ("vllm", "0.14.0", "7.0"),
        ("vllm", "0.22.0", "7.5"),
        ("bitsandbytes", "0.45.0", "5.0"),
        ("bitsandbytes", "0.49.0", "6.0"),
        ("xformers", "0.0.33", "7.5"),
        ("transformer-engine", "2.9.0", "8.0"),
    ],
)
def test_lowest_capability(matrix: Matrix, name: str, version: str, capability: str) -> None:
    rows = table(matrix, name).ranges(Version(version))
    needed = [r.capability for r in rows if r.capability and r.scope is BreakScope.RUNTIME]
    assert needed == [ComputeCapability.parse(capability)]


def test_bitsandbytes_packs_libraries_and_chooses_among_them(matrix: Matrix) -> None:
    bnb = table(matrix, "bitsandbytes")
    old, new = bnb.release(Version("0.47.0")), bnb.release(Version("0.50.0"))
    assert old is not None
    assert new is not None
    assert CudaVersion(12, 9) in old.libraries
    assert CudaVersion(13, 0) not in old.libraries
    assert new.libraries[-2:] == (CudaVersion(13, 0), CudaVersion(13, 2))
    choices = [
        [r.cuda_choice for r in bnb.ranges(release.version) if r.cuda_choice is not None]
        for release in (old, new)
    ]
    assert choices == [["exact"], ["same-major"]]


def test_torchao_loads_its_kernels_beside_one_torch(matrix: Matrix) -> None:
    rows = table(matrix, "torchao").ranges(Version("0.15.0"))
    loads = next(r for r in rows if r.loads is not None)
    assert loads.loads == SpecifierSet("==2.9.1")
    assert loads.mismatch is Mismatch.DEGRADED


def test_flash_attn_was_built_for_some_torch_minors(matrix: Matrix) -> None:
    flash = table(matrix, "flash-attn")
    built = flash.prebuilt(Version("2.7.4.post1"))
    assert built is not None
    assert built.cuda_majors == (12,)
    assert built.serves(Version("2.6.0+cu124"))
    assert not built.serves(Version("2.7.0"))
    assert built.pythons == ("cp39", "cp310", "cp311", "cp312", "cp313")
    assert flash.is_source_only
    assert table(matrix, "torchvision").prebuilt(Version("0.23.0")) is None


def test_a_wheel_beyond_the_build_matrix_was_seen(matrix: Matrix) -> None:
    flash, torch = table(matrix, "flash-attn"), Version("2.9.0")
    assert flash.has_seen_wheel(Version("2.8.3"), torch, 12)
    assert flash.has_seen_wheel(Version("2.8.3"), torch, 13)
    assert flash.has_seen_wheel(Version("2.8.3.post1"), Version("2.7.1"), 12)
    assert not flash.has_seen_wheel(Version("2.8.3.post1"), Version("2.11.0"), 13)  # a failed try
    assert not flash.has_seen_wheel(Version("2.8.2"), torch, 12)


def test_torch_headers_demand_a_standard(matrix: Matrix) -> None:
    torch = table(matrix, "torch")
    demands = {
        version: [r.cxx_min for r in torch.ranges(Version(version)) if r.cxx_min]
        for version in ("2.0.1", "2.13.0", "2.14.1")
    }
    assert demands == {"2.0.1": [], "2.13.0": [17], "2.14.1": [20]}


def test_releases_that_admit_a_torch_are_found(matrix: Matrix) -> None:
    found = table(matrix, "xformers").versions_admitting("torch", Version("2.8.0+cu128"))
    assert [str(r.version) for r in found] == ["0.0.32.post1", "0.0.32.post2"]


def test_only_known_packages_have_a_table(matrix: Matrix) -> None:
    assert matrix.packages("requests") is None
    assert matrix.packages("../torch") is None
    assert {"torchvision", "deepspeed", "flash-attn", "vllm", "numpy"} <= matrix.package_names


def test_the_source_of_a_row_names_the_file_that_was_read(matrix: Matrix) -> None:
    vision = table(matrix, "torchvision").release(Version("0.21.0"))
    flash = table(matrix, "flash-attn").prebuilt(Version("2.8.3"))
    assert vision is not None
    assert flash is not None
    wheel = "torchvision-0.21.0-cp310-cp310-manylinux1_x86_64.whl"
    assert vision.provenance.source.url == f"{wheel}: wheel on PyPI"
    assert flash.provenance.source.url == (
        "https://github.com/Dao-AILab/flash-attention/tree/v2.8.3/.github/workflows/publish.yml"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"releases": "all", "release": []}, "name: expected a text"),
        ({"name": "a", "releases": "some", "release": []}, "releases: 'some' is not a valid"),
        ({"name": "a", "releases": "all"}, "release: expected an array of rows"),
    ],
)
def test_a_table_without_its_head_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(MatrixError, match=rf"packages/a\.toml: {message}"):
        PackageTable(Document("packages/a.toml", data))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("requires", {"torch": "2.0"}, r"release\[0\]\.requires\.torch: "),
        ("requires", "torch", r"release\[0\]\.requires: expected an object"),
        ("python", "3.10", r"release\[0\]\.python: "),
        ("cuda", "twelve", r"release\[0\]\.cuda: "),
        ("version", 1, r"release\[0\]\.version: expected a string"),
    ],
)
def test_a_malformed_release_is_refused(field: str, value: object, message: str) -> None:
    row = {"version": "1.0", "source": "s", "confidence": "doc", field: value}
    data = {"name": "a", "releases": "all", "release": [row], "sources": SOURCES}
    with pytest.raises(MatrixError, match=message):
        _ = PackageTable(Document("packages/a.toml", data)).releases


def test_a_malformed_range_is_refused() -> None:
    row = {"versions": "", "cuda_choice": "any", "source": "s", "confidence": "doc"}
    data = {"name": "a", "releases": "all", "release": [], "range": [row], "sources": SOURCES}
    with pytest.raises(MatrixError, match=r"range\[0\]\.cuda_choice: 'any' is none of exact"):
        PackageTable(Document("packages/a.toml", data)).ranges()
