"""Derives ``torch.toml`` from the facts: releases, PyPI, the PyTorch index, code targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import Version

from scripts.matrix_format import render_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scripts.matrix_words import Words

Row = dict[str, Any]

_HEADER = """Torch releases: PyPI's wheels, backends on the PyTorch index, code in each build.
A row stands for every release it lists; certainty is high where it is not stated.
Written by scripts/derive_matrix.py."""
PLATFORMS = {
    "linux_aarch64": "linux-aarch64",
    "linux_x86_64": "linux-x86_64",
    "macos_arm64": "macos-aarch64",
    "macos_x86_64": "macos-x86_64",
    "win_amd64": "windows-x86_64",
    "win_arm64": "windows-aarch64",
}
LINUX = PLATFORMS["linux_x86_64"]
_SEEN = {"install-lines", "lockfiles", "head-doc"}
_SCRIPTS = ("test-infra", "builder-")


def derive_torch(facts: Row, words: Words) -> str:
    """The text of ``torch.toml``.

    Args:
        facts: Decoded ``torch_cuda.toml``.
        words: Wording.
    """
    verified = words.verified
    arrays = {
        "release": [_release(fact, words) for fact in facts["torch"]],
        "pypi": [
            verified.attest(row, row["torch"], row["platform"])
            for row in merge_rows(_wheels(facts["torch"], words))
        ],
        "index": merge_rows(_index(facts["torch"], words)),
        "exception": sort_builds([dict(row) for row in words.data["exception"]]),
        "build": sort_builds(
            [verified.attest_targets(_build(fact, words)) for fact in facts["arch"]]
        ),
    }
    rows = [row for array in arrays.values() for row in array]
    return render_table(_HEADER, {}, arrays, words.address_book(rows), words.checked)


def sort_builds(rows: list[Row]) -> list[Row]:
    """Canonical order of rows about releases of a platform: release, platform, backends."""
    return sorted(
        rows,
        key=lambda row: (
            [Version(text) for text in row["torch"]],
            row["platform"],
            row.get("backends", []),
        ),
    )


def _release(fact: Row, words: Words) -> Row:
    row: Row = {
        "version": fact["version"],
        "released": fact["released"],
        "requires_python": fact["requires_python"],
        "torchvision": fact["torchvision"],
        "torchaudio": fact["torchaudio"],
    }
    if fact["triton"]:
        row["triton"] = fact["triton"]
    libs = fact["cuda_libs"]
    row |= {name: libs[name].split()[0] for name in ("cudnn", "nccl") if name in libs}
    row["source"] = words.sources_of("pypi-meta")
    row["confidence"] = "metadata"
    named = ("requires_python", "triton", "cudnn", "nccl")
    words.verified.correct(row, fact["version"], LINUX, named)
    return words.verified.attest(row, [fact["version"]], LINUX)


def _wheels(releases: Iterable[Row], words: Words) -> list[Row]:
    rows = []
    for fact in releases:
        abi = fact["abi"]
        for name, pythons in fact["pypi_python"].items():
            if name == "source":
                continue
            row: Row = {
                "torch": [fact["version"]],
                "platform": PLATFORMS[name],
                "backend": fact["pypi"].get(name, "cpu"),
                "pythons": pythons,
            }
            sources = fact["pypi"]["source"]
            if f"{name}_min_glibc" in abi:
                row["glibc"] = abi[f"{name}_min_glibc"]
                row["cxx11_abi"] = abi[f"{name}_cxx11_abi"] == 1
                sources = f"{sources}; {abi['source']}"
            row["source"] = words.sources_of(sources)
            row["confidence"] = "binary" if "glibc" in row else "metadata"
            named = ("backend", "glibc", "cxx11_abi")
            rows.append(words.verified.correct(row, fact["version"], PLATFORMS[name], named))
    return rows


def _index(releases: Iterable[Row], words: Words) -> list[Row]:
    rows = []
    for fact in releases:
        variants = fact["index_variants"]
        for name, platform in PLATFORMS.items():
            if name in variants:
                rows.append(_index_row(fact["version"], platform, variants[name], variants, words))
        if "note" in variants and not any(
            kind == "index" and label.startswith(f"{fact['version']} ")
            for kind, label in words.used
        ):
            words.note("index", fact["version"], is_remarked=True)  # raises: none has wording
    return rows


def _index_row(
    version: str, platform: str, backends: list[str], variants: Row, words: Words
) -> Row:
    row: Row = {"torch": [version], "platform": platform, "backends": backends}
    # torch's build table names the unverified CUDA among those not built for Windows.
    if "unverified" in variants and platform.startswith("linux-"):
        row["unverified"] = variants["unverified"]
    label = f"{version} {platform}"
    more = words.prose("more_pythons", label)
    if more:
        row["more_pythons"] = more
    row["source"] = words.sources_of(variants["source"])
    row["confidence"] = _index_confidence(row["source"])
    if variants["confidence"] not in {"certain", "high"}:
        row["certainty"] = variants["confidence"]
    note = words.note("index", label, is_remarked=False)
    if note:
        row["note"] = note
    return row


def _index_confidence(sources: list[str]) -> str:
    if _SEEN & set(sources):
        return "observed"
    return "script" if any(key.startswith(_SCRIPTS) for key in sources) else "doc"


def _build(fact: Row, words: Words) -> Row:
    platform = PLATFORMS[fact["platform"]]
    targets = [f"sm_{cc.replace('.', '')}" for cc in fact["archs"]]
    targets += [f"compute_{cc.replace('.', '')}" for cc in fact["ptx"]]
    row: Row = {
        "torch": fact["torch"],
        "platform": platform,
        "backends": fact["variants"],
        "targets": targets,
    }
    if not fact["ptx_known"]:
        row["ptx_known"] = False
    row["source"] = words.sources_of(fact["source"])
    row["confidence"] = {"table": "metadata"}.get(fact["evidence"], fact["evidence"])
    if fact["confidence"] not in {"certain", "high"}:
        row["certainty"] = fact["confidence"]
    label = f"{fact['torch'][0]} {fact['variants'][0]} {platform}"
    note = words.note("build", label, is_remarked="note" in fact)
    if note:
        row["note"] = note
    return row


def merge_rows(rows: list[Row]) -> list[Row]:
    """Join rows that differ in the release alone."""
    merged: dict[str, Row] = {}
    for row in rows:
        rest = repr({key: value for key, value in row.items() if key != "torch"})
        if rest in merged:
            merged[rest]["torch"].extend(row["torch"])
        else:
            merged[rest] = {**row, "torch": list(row["torch"])}
    return sort_builds(list(merged.values()))
