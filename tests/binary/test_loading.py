from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.binary.loading import find_loading
from envguard.facts.binary import Loading

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.binary.loading import ImportSite


def place_of(site: Path, files: dict[str, str], module: str = "pkg/_C.abi3.so") -> ImportSite:
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    packages = sorted({name.partition("/")[0] for name in files})
    return find_loading(str(site), packages, f"{site}/{module}")


@pytest.mark.parametrize(
    ("text", "loading", "line"),
    [
        ("from pkg import _C\n", Loading.IMPORT, 1),
        ("\nimport pkg._C\n", Loading.IMPORT, 2),
        ("from pkg._C import f\n", Loading.IMPORT, 1),
        ("from . import _C as c\n", Loading.IMPORT, 1),
        ("from ._C import f\n", Loading.IMPORT, 1),
        ("try:\n    from . import _C\nexcept ImportError:\n    _C = None\n", Loading.GUARDED, 2),
        ("try:\n    from . import _C\nexcept Exception:\n    raise\n", Loading.IMPORT, 2),
        ("try:\n    from . import _C\nexcept ValueError:\n    pass\n", Loading.IMPORT, 2),
        ("try:\n    pass\nexcept ImportError:\n    from . import _C\n", Loading.IMPORT, 4),
        ("try:\n    from . import _C\nexcept (OSError, KeyError):\n    pass\n", Loading.GUARDED, 2),
        ("try:\n    from . import _C\nexcept:\n    pass\n", Loading.GUARDED, 2),
        ("def f():\n    from pkg import _C\n", Loading.LAZY, 2),
        ("async def f():\n    import pkg._C\n", Loading.LAZY, 2),
        ("class A:\n    from pkg import _C\n", Loading.IMPORT, 2),
        ("if cuda:\n    from pkg import _C\n", Loading.IMPORT, 2),
        ("if TYPE_CHECKING:\n    from pkg import _C\n", Loading.GUARDED, 2),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from pkg import _C\n", Loading.IMPORT, 4),
        ("def f():\n  try:\n    import pkg._C\n  except OSError:\n    pass\n", Loading.GUARDED, 3),
    ],
)
def test_how_binding_an_import_is(tmp_path: Path, text: str, loading: Loading, line: int) -> None:
    found = place_of(tmp_path, {"pkg/__init__.py": text})
    assert found == (loading, f"pkg/__init__.py:{line}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "from pkg import _Cx\n",
        "from torch._C import f\n",
        "import torch._C\n",
        "from ..other import _C\n",
        "torch.ops.load_library('_C.so')\n",
        "# from pkg import _C\n",
        "from pkg import _C bad",
    ],
)
def test_what_names_another_module_tells_nothing(tmp_path: Path, text: str) -> None:
    assert place_of(tmp_path, {"pkg/__init__.py": text}) == (Loading.UNKNOWN, None)


def test_imports_are_followed_from_file_to_file(tmp_path: Path) -> None:
    found = place_of(
        tmp_path,
        {
            "pkg/__init__.py": "from pkg.a import thing\n",
            "pkg/a.py": "from .sub import deep\n",
            "pkg/sub/__init__.py": "",
            "pkg/sub/deep.py": "\n\nfrom .. import _C\n",
        },
    )
    assert found == (Loading.IMPORT, "pkg/sub/deep.py:3")


def test_importing_a_part_imports_the_package_above_it(tmp_path: Path) -> None:
    found = place_of(
        tmp_path,
        {
            "pkg/__init__.py": "import pkg.sub.deep\n",
            "pkg/sub/__init__.py": "from pkg import _C\n",
            "pkg/sub/deep.py": "",
        },
    )
    assert found == (Loading.IMPORT, "pkg/sub/__init__.py:1")


def test_a_guard_on_the_way_guards_what_follows(tmp_path: Path) -> None:
    found = place_of(
        tmp_path,
        {
            "pkg/__init__.py": "try:\n    from pkg import gpu\nexcept ImportError:\n    pass\n",
            "pkg/gpu.py": "from pkg import _C\n",
        },
    )
    assert found == (Loading.GUARDED, "pkg/gpu.py:1")


def test_a_way_without_guard_counts_more(tmp_path: Path) -> None:
    guarded = "try:\n    from pkg import _C\nexcept ImportError:\n    pass\n"
    found = place_of(
        tmp_path,
        {"pkg/__init__.py": f"{guarded}import pkg.plain\n", "pkg/plain.py": "import pkg._C\n"},
    )
    assert found == (Loading.IMPORT, "pkg/plain.py:1")


def test_a_part_that_nothing_imports_is_loaded_when_asked_for(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/decoder.py": "from pkg import _C\n"}
    assert place_of(tmp_path, files) == (Loading.LAZY, "pkg/decoder.py:1")


def test_packages_of_one_distribution_import_each_others_modules(tmp_path: Path) -> None:
    files = {"front/__init__.py": "import pkg._C\n", "pkg/__init__.py": ""}
    assert place_of(tmp_path, files) == (Loading.IMPORT, "front/__init__.py:1")


def test_a_module_beside_the_packages_is_found_too(tmp_path: Path) -> None:
    files = {"flash_attn/__init__.py": "import flash_attn_2_cuda as cuda\n"}
    found = place_of(tmp_path, files, "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so")
    assert found == (Loading.IMPORT, "flash_attn/__init__.py:1")


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "import pkg.a\n", "pkg/a.py": "import pkg.b\nimport pkg\n"}
    files["pkg/b.py"] = "import pkg.a\nfrom pkg import _C\n"
    assert place_of(tmp_path, files) == (Loading.IMPORT, "pkg/b.py:2")


def test_tests_of_the_package_do_not_count(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/tests/test_c.py": "import pkg._C\n"}
    assert place_of(tmp_path, files).loading is Loading.UNKNOWN
