"""Derives ``packages/*.toml`` from the facts: one table for each package that goes with torch."""

from __future__ import annotations

import re
from typing import Any

from packaging.version import Version

from scripts.extensions_sources import SourceBook, Words
from scripts.matrix_format import render_table

Row = dict[str, Any]

_WRITTEN_BY = "Written by scripts/derive_extensions.py."
# Requirement fields of the facts by the distribution that they are about.
_REQUIREMENTS = {
    "accelerate": "accelerate",
    "apache_tvm_ffi": "apache-tvm-ffi",
    "bitsandbytes": "bitsandbytes",
    "cutlass_dsl": "nvidia-cutlass-dsl",
    "huggingface_hub": "huggingface-hub",
    "numpy": "numpy",
    "quack_kernels": "quack-kernels",
    "safetensors": "safetensors",
    "setuptools": "setuptools",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "torchao": "torchao",
    "torchaudio": "torchaudio",
    "torchcodec": "torchcodec",
    "torchvision": "torchvision",
    "transformers": "transformers",
    "triton": "triton",
    "trl": "trl",
    "tvm_ffi": "apache-tvm-ffi",
    "vllm": "vllm",
    "xformers": "xformers",
    "flashinfer": "flashinfer-python",
}
_EXTRAS = {
    "deepspeed_extra": "deepspeed",
    "liger_extra": "liger-kernel",
    "peft_extra": "peft",
    "torch_extra": "torch",
    "vllm_extra": "vllm",
}
_PINNED = re.compile(r"([A-Za-z0-9_.-]+?)([=<>!~].*)")
_SPECIFIER = re.compile(r"(?:[=<>!~]=?=?\s*[0-9][^,;\s]*\s*,?\s*)+")


def derive_package(name: str, words: Words, facts: Row, builds: Row) -> str:
    """The text of ``packages/NAME.toml``.

    Args:
        name: Normalised name of the distribution.
        words: Wording.
        facts: Decoded ``extensions.toml`` with corrections applied.
        builds: CUDA label of PyPI's wheel by package and version, from ``torch_cuda.toml``.

    Raises:
        WordsError: Facts and wording do not match.
    """
    own = words.package(name)
    section = facts.get(own["section"], {}) if own["section"] else {}
    book = SourceBook(words)
    arrays: dict[str, list[Row]] = {
        "release": [
            _release(fact, book, builds.get(name, {}), own)
            for fact in section.get("release", section.get("change", []))
            if _is_version(fact["version"])
        ],
        "range": [_range(row, book) for row in own["range"]],
        "prebuilt": _prebuilt(section, book),
        "build": [_range(row, book) for row in own.get("build", [])],
        "seen": [_seen(fact, book) for fact in section.get("asset_seen", [])],
        "binary": _binaries(name, facts, book),
        "note": words.notes(name, section, book),
    }
    arrays["release"].sort(key=lambda row: Version(row["version"]))
    scalars: Row = {"name": name, "releases": own["releases"]}
    if own.get("is_source_only"):
        scalars["source_only"] = True
    if own.get("is_unlisted"):
        scalars["unlisted"] = True
    if "wheel" in own:
        scalars["wheel_name"] = own["wheel"]["name"]
        scalars["wheel_url"] = own["wheel"]["url"]
    header = f"{own['header']}\n{_WRITTEN_BY}"
    kept = {key: rows for key, rows in arrays.items() if rows or key in {"release", "range"}}
    return render_table(header, scalars, kept, book.addresses(), words.checked)


def _is_version(text: str) -> bool:
    """``main@2026-08-15`` is a branch, not a release."""
    return bool(re.match(r"[0-9]", text))


def _release(fact: Row, book: SourceBook, builds: Row, own: Row) -> Row:
    row: Row = {"version": fact["version"]}
    if "date" in fact:
        row["released"] = fact["date"]
    if fact.get("yanked"):
        row["yanked"] = True
    if "on_pypi" in fact and not fact["on_pypi"]:
        row["on_pypi"] = False
    if "python" in fact and isinstance(fact["python"], str):
        row["python"] = fact["python"].replace(" ", "")
    elif "python" in own:
        row["python"] = own["python"]
    if "cp" in fact:
        row["pythons"] = fact["cp"]
    # torchcodec's metadata require nothing: the torch it goes with is about its compiled code.
    declared = {k: v for k, v in fact.items() if own["section"] != "torchcodec" or k != "torch"}
    row.update(_requirements(declared))
    row.update(_compiled(fact, builds, own))
    return book.finish(row, fact["source"])


def _requirements(fact: Row) -> Row:
    """Requirements, those of extras, and floors that the code itself insists on."""
    row: Row = {}
    requires = {
        to: _specifier(fact[field])
        for field, to in _REQUIREMENTS.items()
        if isinstance(fact.get(field), str) and _is_specifier(fact[field])
    }
    for field in ("kernel", "core"):
        match = _PINNED.fullmatch(fact.get(field, ""))
        if match:
            requires[match[1]] = _specifier(match[2])
    conditional = fact.get("numpy", "")
    if "numpy" not in requires and ("(py" in conditional or "by python" in conditional):
        row["note"] = f"numpy by Python: {conditional.replace(' by python', '')}"
    if requires:
        row["requires"] = requires
    extras = {to: _specifier(fact[f]) for f, to in _EXTRAS.items() if f in fact}
    if extras:
        row["extras"] = extras
    if "runtime_min_torch" in fact:
        row["floor"] = fact["runtime_min_torch"]
    return row


def _is_specifier(text: str) -> bool:
    return text == "*" or bool(_SPECIFIER.fullmatch(text)) or text.startswith(" ;")


def _specifier(text: str) -> str:
    return "" if text == "*" or text.startswith(" ;") else text.replace(" ", "")


def _compiled(fact: Row, builds: Row, own: Row) -> Row:
    """What the compiled code was built for."""
    row: Row = {}
    if own["section"] == "torchcodec" and "torch" in fact:
        series = fact["torch"].split(" ")[0]
        row["torch"] = series if series.startswith(">") else f"=={series}.*"
    cuda = builds.get(fact["version"]) or fact.get("pypi_cuda") or fact.get("pypi_cuda_major")
    cuda = (
        cuda
        or fact.get("pypi_build")
        or (fact.get("cuda") if own["section"] == "torch_pypi" else None)
    )
    if cuda:
        row["cuda"] = cuda_release(cuda)
    if "linux_x86_64_libs" in fact:
        row["cudas"] = " ".join(cuda_release(lib) for lib in fact["linux_x86_64_libs"])
        row["other_libs"] = " ".join(fact.get("other_libs", []))
    for field, to in (
        ("built_with_torch", "built_with"),
        ("arch_list", "code"),
        ("cudnn", "cudnn"),
        ("nccl", "nccl"),
    ):
        if field in fact:
            row[to] = fact[field]
    for field in ("platforms", "arch", "workflow_cuda"):
        if field in fact:
            row[field] = " ".join(fact[field])
    if "cxx_std" in fact:
        row["cxx_std"] = int(fact["cxx_std"])
        row["cxx11_abi"] = fact["cxx11abi"] == "1"
        row["stable_headers"] = fact["stable_abi_headers"]
    if "cu13_core" in fact:
        row["cu13_core"] = fact["cu13_core"]
    return row


def cuda_release(text: str) -> str:
    """``cu128`` and ``cuda128`` are 12.8, ``cu92`` is 9.2; ``12.8``, ``12`` and ``cpu`` stay."""
    digits = re.sub(r"^(?:cuda|cu)", "", text)
    if re.fullmatch(r"[89]\d", digits):
        return f"{digits[0]}.{digits[1]}"
    return (
        digits
        if "." in digits or len(digits) < 3 or digits == "cpu"
        else f"{digits[:2]}.{digits[2:]}"
    )


def _range(row: Row, book: SourceBook) -> Row:
    figures = {k: v for k, v in row.items() if k not in {"source", "confidence", "note"}}
    done = book.named(figures, row["source"], row["confidence"])
    return {**done, "note": row["note"]} if "note" in row else done


def _prebuilt(section: Row, book: SourceBook) -> list[Row]:
    """The build matrix of wheels that are published beside a source archive."""
    rows = []
    for fact in section.get("release", []):
        if "cuda_toolkit" not in fact:
            continue
        row: Row = {"version": fact["version"]}
        if "cuda" in fact:
            row["labels"] = " ".join(fact["cuda"])
        row["toolkits"] = " ".join(fact["cuda_toolkit"])
        row["torch"] = fact["torch"]
        row["pythons"] = [f"cp{text.replace('.', '')}" for text in fact["python"]]
        row["abi"] = "; ".join(fact["abi"])
        if fact.get("exclude"):
            row["exclude"] = "; ".join(fact["exclude"])
        if "n_excluded_combos" in fact:
            row["excluded"] = fact["n_excluded_combos"]
        if fact.get("aarch64"):
            row["aarch64"] = True
        if not _is_version(fact["version"]):
            row["note"] = "the branch, for the next tag"
        rows.append(book.finish(row, fact["source"]))
    return rows


def _seen(fact: Row, book: SourceBook) -> Row:
    row: Row = {"file": fact["file"], "release": fact["release"].split(" ")[0]}
    if "sha256" in fact:
        row["sha256"] = fact["sha256"]
    row["status"] = "absent" if fact["status"].startswith(("absent", "no mention")) else "seen"
    return book.named(row, "fa-seen", "observed")


def _binaries(name: str, facts: Row, book: SourceBook) -> list[Row]:
    rows = []
    for fact in facts["abi"]["binary"]:
        if fact["package"] != name:
            continue
        row: Row = {"version": fact["version"], "lib": fact["lib"], "kind": fact["kind"]}
        row.update({key: fact[key] for key in ("cpp", "stable", "py", "cxx11")})
        if "cudart" in fact:
            row["cuda"] = fact["cudart"]
        rows.append(book.finish(row, fact["source"]))
    return sorted(rows, key=lambda row: (Version(row["version"]), row["lib"]))
