"""What uv says when it fails, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from envguard.errors import NetworkError, ToolError
from envguard.lock.complaints import UnsolvableError, check_config_was_read, explain_failure
from envguard.lock.uv import UvExit

SAID = Path(__file__).with_name("said")


def said(name: str) -> str:
    """What uv 0.13.9 wrote; ``tree`` is the form of 0.8."""
    return (SAID / f"{name}.txt").read_text(encoding="utf-8")


def unsolvable(name: str) -> UnsolvableError:
    error = explain_failure(UvExit(1, said(name)))
    assert isinstance(error, UnsolvableError)
    return error


def test_conflict_is_told_in_one_line_with_the_bounds_on_torch() -> None:
    error = unsolvable("conflict")
    assert error.message == (
        "the request cannot be resolved: all versions of oldlib depend on torch<2.11 and the "
        "request asks for oldlib; the request asks for torch==2.14.1+cu126"
    )
    assert error.bounds == (("torch", SpecifierSet("<2.11")),)
    assert not error.unknown | error.lacking


def test_both_sides_of_a_conflict_over_a_companion_are_bounds() -> None:
    assert unsolvable("pair").bounds == (
        ("torchaudio", SpecifierSet("==2.8.0")),
        ("torchaudio", SpecifierSet("==2.11.0")),
    )


def test_wheel_for_another_python_is_said() -> None:
    error = unsolvable("no-tag")
    assert "onlypy311==1.0 has no wheels with a matching Python ABI tag (e.g., `cp312`)" in (
        error.message
    )
    assert error.bounds == ()


def test_index_that_forbids_is_kept_apart_from_one_that_lacks() -> None:
    error = unsolvable("forbidden")
    assert error.unknown == {"torch"}
    assert error.refused == "http://127.0.0.1:8765/whl/cu129"
    assert unsolvable("tree").lacking == {"torch"}
    assert unsolvable("tree").refused == ""


def test_tree_form_of_older_releases_is_understood() -> None:
    assert unsolvable("tree").reason == (
        "there is no version of torch==2.14.0+cu129 and the request asks for torch==2.14.0+cu129"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "unauthorized",
            "index http://127.0.0.1:8765/auth/whl/cu126 refuses access: 401 Unauthoriz",
        ),
        (
            "refused",
            "index cannot be read: http://127.0.0.1:1/whl/cu126/torch/: Connection refused "
            "(os error 111)",
        ),
        (
            "server-error",
            "index cannot be read: https://index.example/simple/torch/: "
            "it answers 500 Internal Server Error",
        ),
        ("offline", "offline: zz is not in uv's cache"),
    ],
)
def test_trouble_with_an_index_is_a_network_error(name: str, message: str) -> None:
    error = explain_failure(UvExit(2, said(name)))
    assert isinstance(error, NetworkError)
    assert error.message.startswith(message)
    assert "s3cret" not in error.message


def test_source_that_cannot_say_what_it_needs_is_one_line() -> None:
    error = explain_failure(UvExit(1, said("build")))
    assert isinstance(error, ToolError)
    assert error.message == (
        "flash-attn 2.8.3 has no wheel for the target and its source does not say what it needs "
        "without being built: ModuleNotFoundError: No module named 'torch'"
    )


@pytest.mark.parametrize(
    ("returncode", "talk", "message"),
    [
        (2, "", "uv failed: it gives no reason"),
        (2, "error: something new\n  cause: deep down\n", "uv failed: something new: deep down"),
        (-9, "", "uv was ended by signal 9"),
    ],
)
def test_anything_else_is_a_tool_error(returncode: int, talk: str, message: str) -> None:
    error = explain_failure(UvExit(returncode, talk))
    assert isinstance(error, ToolError)
    assert error.message == message


def test_older_words_for_being_offline_are_understood() -> None:
    """As uv 0.9.30 says it of a wheel that was asked for by its address."""
    talk = (
        "error: Failed to download `x @ https://files.example/x-1.0-py3-none-any.whl`\n"
        "  Caused by: Network connectivity is disabled, but the requested data wasn't found in "
        "the cache for: `https://files.example/x-1.0-py3-none-any.whl`\n"
    )
    error = explain_failure(UvExit(2, talk))
    assert isinstance(error, NetworkError)
    assert error.message.startswith("offline: ")


def test_endless_reason_is_cut() -> None:
    error = explain_failure(UvExit(2, f"error: {'x' * 100_000}"))
    assert len(error.message) < 500


def test_ignored_project_file_is_an_error() -> None:
    talk = (
        "warning: Failed to parse `pyproject.toml` during settings discovery:\n"
        "  TOML parse error at line 9, column 1\n"
    )
    with pytest.raises(ToolError, match="does not understand its project file"):
        check_config_was_read(UvExit(0, talk))
    check_config_was_read(UvExit(0, "warning: something else"))
