"""Derives ``torch_libs.toml`` from the facts: libraries, requirements and companions of builds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from scripts.matrix_format import render_table
from scripts.matrix_torch import LINUX, PLATFORMS, merge_rows
from scripts.matrix_verified import source_key

if TYPE_CHECKING:
    from scripts.matrix_words import Words

Row = dict[str, Any]

_HEADER = """Libraries of torch builds, requirements of PyPI's wheels, companions,
counts of machine code, builds for other vendors.
Written by scripts/derive_matrix.py."""
_WHEEL = re.compile(r"torch-([0-9.]+)-(?:(\d+)-)?cp\d+-cp\d+-\w+?_(x86_64|aarch64)\.whl")


def derive_libs(facts: Row, words: Words) -> str:
    """The text of ``torch_libs.toml``.

    Args:
        facts: Decoded ``torch_cuda.toml``.
        words: Wording.
    """
    arrays = {
        "libs": _libs(facts, words),
        "requires": _requires(facts, words),
        "companion": _companions(facts, words),
        "cuda_match": sorted(
            (dict(row) for row in words.data["cuda_match"]),
            key=lambda row: (row["package"], Version(row.get("since", "0"))),
        ),
        "wheel_tag": [
            words.verified.attest(row, row["torch"], row["platform"])
            for row in merge_rows(_wheel_tags(facts, words))
        ],
        "fatbin": _fatbins(facts, words),
        "other_vendor": _other_vendors(facts, words),
    }
    rows = [row for array in arrays.values() for row in array]
    return render_table(_HEADER, {}, arrays, words.address_book(rows), words.checked)


def _libs(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["variant_libs"]:
        row: Row = {
            "series": fact["series"],
            "backend": fact["variant"],
            "cudnn": fact["cudnn"],
        }
        if "nccl" in fact:
            row["nccl"] = fact["nccl"]
        row["source"] = words.sources_of(fact["source"])
        row["confidence"] = "doc"
        label = f"{fact['series']} {fact['variant']}"
        note = words.note("libs", label, is_remarked="note" in fact)
        if note:
            row["note"] = note
        rows.append(row)
    return sorted(rows, key=lambda row: (Version(row["series"]), row["backend"]))


def _requires(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["torch"]:
        row: Row = {
            "torch": fact["version"],
            "platform": LINUX,
            "commit": fact["git_version"],
            "requires": fact["cuda_libs"]["requires"],
        }
        if fact["triton_marker"]:
            row["triton_marker"] = fact["triton_marker"]
        row["source"] = words.sources_of("pypi-meta")
        row["confidence"] = "metadata"
        named = ("commit", "requires", "triton_marker")
        words.verified.correct(row, fact["version"], LINUX, named)
        rows.append(words.verified.attest(row, [fact["version"]], LINUX))
    return rows


def _companions(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["domain"]:
        row: Row = {
            "package": fact["package"],
            "version": fact["version"],
            # torchaudio 2.11.0 states no requirement at all.
            "torch": fact["torch"] if fact["torch"][0] in "=<>~!" else "",
            "backend": fact["pypi_build"],
            "tag": fact["wheel_tag"],
            "source": words.sources_of(fact["source"]),
            "confidence": "metadata",
        }
        rows.append(row)
    return sorted(rows, key=lambda row: (row["package"], Version(row["version"])))


def _wheel_tags(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["torch"]:
        for name, tags in fact["pypi_platform_tag"].items():
            if name == "source":
                continue
            row: Row = {"torch": [fact["version"]], "platform": PLATFORMS[name], "tags": tags}
            if name == "linux_x86_64" and "pypi_build_tags" in fact["abi"]:
                row["build_tags"] = fact["abi"]["pypi_build_tags"]
            row["source"] = words.sources_of(fact["pypi_platform_tag"]["source"])
            row["confidence"] = "metadata"
            rows.append(words.verified.correct(row, fact["version"], PLATFORMS[name], ("tags",)))
    return rows


def _fatbins(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["fatbin"]:
        match = _WHEEL.fullmatch(fact["file"])
        if not match:
            raise ValueError(f"unexpected wheel name {fact['file']!r}")
        cubins = {f"sm_{k}": v for k, v in sorted(fact["cubins"].items(), key=lambda i: int(i[0]))}
        row: Row = {
            "torch": match[1],
            "platform": PLATFORMS[f"linux_{match[3]}"],
            "file": fact["file"],
            "cubins": cubins,
            "ptx": {f"compute_{k}": v for k, v in sorted(fact["ptx"].items())},
            "source": words.sources_of(fact["source"]),
            "confidence": "binary",
        }
        if words.verified.of(row["torch"], row["platform"]) is None:
            rows.append(row)
    rows += [_verified_fatbin(wheel) for wheel in words.verified.wheels if "cubins" in wheel]
    return sorted(rows, key=lambda row: (Version(row["torch"]), row["platform"], row["file"]))


def _verified_fatbin(wheel: Row) -> Row:
    row = {key: wheel[key] for key in ("torch", "platform", "file", "cubins", "ptx")}
    return {**row, "source": [source_key(wheel)], "confidence": "binary"}


def _other_vendors(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["torch"]:
        variants = fact["index_variants"]
        rocm = variants["rocm"]
        row: Row = {"torch": fact["version"]}
        if rocm:
            row["rocm"] = [rocm] if isinstance(rocm, str) else rocm
        row["xpu"] = variants["xpu"]
        row["source"] = words.sources_of(variants["source"])
        row["confidence"] = "doc"
        if variants["confidence"] not in {"certain", "high"}:
            row["certainty"] = variants["confidence"]
        rows.append(row)
    return rows
