from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from envguard.errors import InputError, ToolError
from envguard.facts.facts import Facts
from envguard.memory.job_request import JobRequest, resolve
from envguard.memory.plan_report import plan_report
from envguard.render.plot import write_plot
from tests.memory.jobs import limits, table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def document() -> Mapping[str, Any]:
    request = JobRequest(params="7.6B", options={"strategy": "zero2", "gpus": 4})
    resolved = resolve(request, table())
    report = plan_report(
        resolved, table(), limits(80, 64), Facts(), matrix_version="2026.11.29", cause_order=()
    )
    return report.extra


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--plot: 'a\.pdf' does not end in one of \.png, \.svg"):
        write_plot(document(), tmp_path / "a.pdf")


def test_without_matplotlib_the_extra_is_named(tmp_path: Path) -> None:
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        with pytest.raises(ToolError, match="needs matplotlib") as caught:
            write_plot(document(), tmp_path / "a.png")
        assert caught.value.hint == "pip install 'envguard-gpu[plot]'"
    else:
        pytest.skip("matplotlib is installed")


@pytest.mark.parametrize(
    ("name", "begins"),
    [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.html", b"<!doctype html>")],
)
def test_a_plan_is_drawn(tmp_path: Path, name: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib", reason="the extra envguard-gpu[plot] is not installed")
    write_plot(document(), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(begins)
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    if name != "a.png":
        assert b"</svg>" in content
    if name == "a.html":
        assert b"hf_trainer_deepspeed_zero012.node" in content


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra envguard-gpu[plot] is not installed")
    with pytest.raises(InputError, match="cannot be written"):
        write_plot(document(), tmp_path / "absent" / "a.png")
