from __future__ import annotations

from dataclasses import replace

from packaging.version import Version

from envguard.facts.published import Published
from envguard.matrix.drift import Drift, compare_release, missing_releases
from envguard.matrix.packages import PackageTable
from envguard.matrix.reading import Document

ROW = {
    "version": "1.2.0",
    "released": "2026-01-05",
    "python": ">=3.10",
    "pythons": "cp310 cp311 cp313t",
    "requires": {"torch": "==2.8.0", "numpy": ""},
    "extras": {"deepspeed": ">=0.14"},
    "cuda": "12.8",
    "source": "s",
    "confidence": "metadata",
}
TABLE = PackageTable(
    Document(
        "packages/demo.toml",
        {
            "name": "demo",
            "releases": "all",
            "release": [ROW],
            "sources": {"s": {"url": "https://docs.example/", "checked": "2026-11-29"}},
        },
    )
)
PUBLISHED = Published(
    name="demo",
    version=Version("1.2.0"),
    requires_python=">=3.10",
    requires=(
        "torch==2.8.0",
        "numpy",
        "pillow!=8.3.*,>=5.3.0",
        'nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux"',
        'deepspeed>=0.14; extra == "deepspeed"',
    ),
    wheels=(
        "demo-1.2.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "demo-1.2.0-cp311-cp311-win_amd64.whl",
        "demo-1.2.0-cp313-cp313t-manylinux_2_28_x86_64.whl",
    ),
    released="2026-01-05",
)


def drift(published: Published) -> list[tuple[str, str, str]]:
    (release,) = TABLE.releases
    return [(d.field, d.stated, d.found) for d in compare_release(TABLE, release, published)]


def test_a_row_that_agrees_has_no_drift() -> None:
    assert drift(PUBLISHED) == []


def test_another_pin_is_drift() -> None:
    requires = ("torch==2.8.1", *PUBLISHED.requires[1:])
    assert drift(replace(PUBLISHED, requires=requires)) == [
        ("requires.torch", "==2.8.0", "==2.8.1")
    ]


def test_a_requirement_that_is_gone_is_drift() -> None:
    requires = PUBLISHED.requires[1:]
    found = drift(replace(PUBLISHED, requires=requires))
    assert found == [("requires.torch", "==2.8.0", "no requirement")]


def test_a_requirement_that_moved_into_an_extra_is_none() -> None:
    requires = ('torch==2.8.0; extra == "srt"', *PUBLISHED.requires[1:])
    assert drift(replace(PUBLISHED, requires=requires)) == []


def test_one_of_several_markers_is_enough() -> None:
    requires = (
        'torch==2.8.0; python_version < "3.13"',
        'torch>=2.9; python_version >= "3.13"',
        *PUBLISHED.requires[1:],
    )
    assert drift(replace(PUBLISHED, requires=requires)) == []


def test_another_python_is_drift() -> None:
    found = drift(replace(PUBLISHED, requires_python=">=3.11"))
    assert found == [("python", ">=3.10", ">=3.11")]


def test_another_cuda_major_is_drift_and_a_patch_is_not() -> None:
    requires = tuple(r.replace("cu12==12.8.90", "cu13==13.0.1") for r in PUBLISHED.requires)
    assert drift(replace(PUBLISHED, requires=requires)) == [("cuda", "12.8", "13.0.1")]
    toolkit = (*PUBLISHED.requires[:3], "cuda-toolkit[cublas]==12.8.1", PUBLISHED.requires[4])
    assert drift(replace(PUBLISHED, requires=toolkit)) == []


def test_another_extra_is_drift() -> None:
    requires = PUBLISHED.requires[:-1]
    found = drift(replace(PUBLISHED, requires=requires))
    assert found == [("extras.deepspeed", ">=0.14", "no requirement")]


def test_another_set_of_wheels_is_drift() -> None:
    wheels = (*PUBLISHED.wheels[:2], "demo-1.2.0-cp39-abi3-manylinux_2_28_x86_64.whl")
    found = drift(replace(PUBLISHED, wheels=wheels))
    assert found == [("pythons", "cp310 cp311 cp313t", "cp310 cp311 cp39-abi3")]


def test_the_old_memory_flag_of_a_tag_is_none() -> None:
    wheels = (*PUBLISHED.wheels, "demo-1.2.0-cp310-cp310m-manylinux1_x86_64.whl")
    assert drift(replace(PUBLISHED, wheels=wheels)) == []


def test_a_withdrawn_release_and_another_date_are_drift() -> None:
    found = drift(replace(PUBLISHED, is_yanked=True, released="2026-01-06"))
    assert found == [("released", "2026-01-05", "2026-01-06"), ("yanked", "False", "True")]


def test_what_nobody_says_about_withdrawing_is_no_drift() -> None:
    assert drift(replace(PUBLISHED, is_yanked=None)) == []


def test_files_that_were_not_listed_are_not_compared() -> None:
    assert drift(replace(PUBLISHED, wheels=(), released="", is_yanked=True)) == []


def test_newer_releases_have_no_row() -> None:
    versions = [Version(v) for v in ("1.1.0", "1.2.0", "1.3.0", "2.0.0rc1")]
    (found,) = missing_releases(TABLE, versions)
    assert found == Drift("packages/demo.toml", "1.3.0", "row", "", "published, has no row")
    assert str(found) == "packages/demo.toml: 1.3.0: row: '', found 'published, has no row'"
