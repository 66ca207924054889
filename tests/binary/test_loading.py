from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.binary.loading import find_loading
from envguard.facts.binary import Loading

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "loading", "line"),
    [
        ("from pkg import _C\n", Loading.IMPORT, 1),
        ("\nimport pkg._C\n", Loading.IMPORT, 2),
        ("from pkg._C import f\n", Loading.IMPORT, 1),
        ("from . import _C as c\n", Loading.IMPORT, 1),
        ("try:\n    from pkg import _C\nexcept ImportError:\n    _C = None\n", Loading.GUARDED, 2),
        (
            "try:\n    import _C\nexcept Exception as e:\n    raise RuntimeError from e\n",
            Loading.IMPORT,
            2,
        ),
        ("try:\n    import _C\nexcept ValueError:\n    pass\n", Loading.IMPORT, 2),
        ("try:\n    pass\nexcept ImportError:\n    import _C\n", Loading.IMPORT, 4),
        ("try:\n    import _C\nexcept (OSError, ImportError):\n    pass\n", Loading.GUARDED, 2),
        ("try:\n    import _C\nexcept:\n    pass\n", Loading.GUARDED, 2),
        ("def f():\n    from pkg import _C\n", Loading.LAZY, 2),
        ("async def f():\n    import _C\n", Loading.LAZY, 2),
        ("class A:\n    from pkg import _C\n", Loading.IMPORT, 2),
        ("if cuda:\n    from pkg import _C\n", Loading.IMPORT, 2),
        ("if TYPE_CHECKING:\n    from pkg import _C\n", Loading.LAZY, 2),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from pkg import _C\n", Loading.IMPORT, 4),
    ],
)
def test_how_binding_an_import_is(tmp_path: Path, text: str, loading: Loading, line: int) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "a.py").write_text(text)
    found = find_loading(str(package), str(package / "_C.abi3.so"))
    assert found == (loading, f"pkg/a.py:{line}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import _Cx\n",
        "torch.ops.load_library('_C.so')\n",
        "# import _C\n",
        "import _C bad syntax",
    ],
)
def test_what_names_no_module_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)
    assert find_loading(str(tmp_path), str(tmp_path / "_C.so")) == (Loading.UNKNOWN, None)


def test_the_most_binding_import_counts(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    (package / "sub").mkdir(parents=True)
    (package / "a.py").write_text("def f():\n    import _C\n")
    (package / "sub/b.py").write_text("\n\nimport _C\n")
    (package / "z.py").write_text("try:\n    import _C\nexcept ImportError:\n    pass\n")
    found = find_loading(str(package), str(package / "_C.so"))
    assert found == (Loading.IMPORT, "pkg/sub/b.py:3")


def test_tests_of_the_package_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_c.py").write_text("import _C\n")
    assert find_loading(str(tmp_path), str(tmp_path / "_C.so")).loading is Loading.UNKNOWN
