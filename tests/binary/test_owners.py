from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.binary.owners import packages_with

if TYPE_CHECKING:
    from pathlib import Path

RECORD = """\
flash_attn/__init__.py,sha256=x,1
flash_attn/sub/deep.py,sha256=x,1
hopper/__init__.py,sha256=x,1
flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so,sha256=x,1
flash_attn.libs/libx.so,,
flash_attn-2.8.dist-info/METADATA,,
"quoted,name/x.py",,
"""


def test_packages_are_those_of_the_distribution_that_has_the_file(tmp_path: Path) -> None:
    for name, text in (("flash_attn-2.8", RECORD), ("other-1", "other/__init__.py,,\n")):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info/RECORD").write_text(text)
    site = str(tmp_path)
    module = f"{site}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
    assert packages_with(site, module) == ("flash_attn", "hopper")
    assert packages_with(site, f"{site}/flash_attn.libs/libx.so") == (
        "flash_attn",
        "flash_attn.libs",
        "hopper",
    )


def test_a_file_that_no_distribution_names_belongs_to_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "x-1.dist-info").mkdir()
    assert packages_with(str(tmp_path), f"{tmp_path}/pkg/sub/_C.so") == ("pkg",)
    assert packages_with(str(tmp_path), f"{tmp_path}/alone.so") == ()
    assert packages_with(f"{tmp_path}/gone", f"{tmp_path}/gone/pkg/_C.so") == ("pkg",)
