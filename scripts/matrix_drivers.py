"""Derives ``drivers.toml``, ``toolkits.toml`` and ``uv.toml`` from the facts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from scripts.matrix_format import render_table

if TYPE_CHECKING:
    from scripts.matrix_words import Words

Row = dict[str, Any]

_HEADER = """Drivers: what each CUDA release needs, what each branch offers, which GPUs it serves.
A toolkit without a windows field brings no Windows driver.
CUDA 13.5 is published; its driver is not recorded.
Written by scripts/derive_matrix.py."""
_TOOLKIT_HEADER = """Host compilers that each CUDA toolkit's nvcc accepts, for building extensions.
Written by scripts/derive_matrix.py."""
_UV_HEADER = """How uv chooses and routes PyTorch builds. Written by scripts/derive_matrix.py."""
_OBSERVED = ("nv-13_3", "nv-13_4", "nvsmi-new")


def derive_drivers(facts: Row, compilers: Row, words: Words) -> str:
    """The text of ``drivers.toml``.

    Args:
        facts: Decoded ``torch_cuda.toml``.
        compilers: Decoded ``toolkit_compilers.toml``.
        words: Wording.
    """
    arrays = {
        "toolkit_driver": _toolkits(facts, words),
        "minor_version_compat": _floors(facts, words),
        "driver_branch": _branches(facts, words),
        "generation": _generations(facts, words),
        "toolkit_targets": _toolkit_targets(compilers, words),
        "forward_compat": _forward_compat(facts, words),
        "branch_support": _branch_support(facts, words),
    }
    rows = [row for array in arrays.values() for row in array]
    return render_table(_HEADER, {}, arrays, words.address_book(rows), words.checked)


def derive_toolkits(compilers: Row, words: Words) -> str:
    """The text of ``toolkits.toml``.

    Args:
        compilers: Decoded ``toolkit_compilers.toml``.
        words: Wording.
    """
    clang = {
        cuda: newest for fact in compilers["nvcc_clang"] for cuda, newest in fact["rows"].items()
    }
    inferred = words.data["inferred"]["host_compiler"]
    rows = []
    for fact in compilers["nvcc_host"]:
        for cuda in [fact["cuda"]] if isinstance(fact["cuda"], str) else fact["cuda"]:
            row: Row = {"cuda": cuda, "gcc_min": fact["gcc_min"], "gcc_max": fact["gcc_max"]}
            if cuda in clang:
                row["clang_max"] = clang[cuda]
            note = words.note("host_compiler", cuda, is_remarked="note" in fact)
            _finish(row, words, _sources_about(fact["source"], cuda), "metadata", note)
            if cuda in inferred:
                row["confidence"] = "inferred"
            elif "torch-cppext" not in row["source"]:
                row["confidence"] = "doc"
            rows.append(row)
    rows.sort(key=lambda row: Version(row["cuda"]))
    arrays = {"host_compiler": rows}
    return render_table(_TOOLKIT_HEADER, {}, arrays, words.address_book(rows), words.checked)


def derive_uv(facts: Row, words: Words) -> str:
    """The text of ``uv.toml``."""
    rows = []
    for fact in facts["uv_driver"]:
        row = {
            "backend": fact["variant"],
            "linux": fact["linux_min"],
            "windows": fact["windows_min"],
            "source": words.sources_of(fact["source"]),
            "confidence": "script",
        }
        rows.append(row)
    rows.sort(key=lambda row: (len(row["backend"]), row["backend"]))
    scalars = {
        "routed_packages": sorted(facts["uv"]["routed_packages"]),
        "system_packages": sorted(facts["uv"]["have_system_dependency"]),
    }
    return render_table(
        _UV_HEADER, scalars, {"uv_driver": rows}, words.address_book(rows), words.checked
    )


def _sources_about(text: str, cuda: str) -> str:
    """The parts of a source text that are about a CUDA release; all where none names it."""
    parts = text.split("; ")
    about = [part for part in parts if cuda in part or not re.search(r"\d\.\d", part)]
    return "; ".join(about or parts)


def _finish(row: Row, words: Words, source: str, confidence: str, note: str) -> Row:
    row["source"] = words.sources_of(source)
    row["confidence"] = confidence
    if note:
        row["note"] = note
    return row


def _confidence(words: Words, source: str) -> str:
    first = words.sources_of(source)[0]
    if first == "unsourced" or "inferred" in source:
        return "inferred"
    return "observed" if first in _OBSERVED else "doc"


def _toolkits(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in sorted(facts["toolkit_driver"], key=lambda fact: Version(fact["toolkit"])):
        label = fact["toolkit"]
        row: Row = {"toolkit": label, "linux": fact["linux"]}
        if "windows" in fact:
            row["windows"] = fact["windows"]
        note = words.note("toolkit_driver", label, is_remarked="note" in fact)
        _finish(row, words, fact["source"], _confidence(words, fact["source"]), note)
        certainty = words.data["certainty"]["toolkit_driver"].get(label)
        if certainty:
            row["certainty"] = certainty
        rows.append(row)
    return rows


def _floors(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["minor_version_compat"]:
        major = fact["toolkit"].partition(".")[0]
        row: Row = {
            "major": int(major),
            "linux": fact["linux_min"],
            "windows": fact["windows_min"],
        }
        note = words.note("minor_version_compat", major, is_remarked="note" in fact)
        rows.append(_finish(row, words, fact["source"], "doc", note))
    return sorted(rows, key=lambda row: row["major"])


def _branches(facts: Row, words: Words) -> list[Row]:
    inferred = words.data["windows_inferred"]["branches"]
    rows = []
    for fact in facts["driver_branch"]:
        first, _, last = fact["windows_branches"].partition("-")
        branch = int(fact["linux_branch"])
        row: Row = {
            "branch": branch,
            "windows": [int(first), int(last or first)],
            "cuda": fact["cuda"],
        }
        if branch in inferred:
            row["windows_firm"] = False
        note = words.note("driver_branch", str(branch), is_remarked="note" in fact)
        rows.append(_finish(row, words, fact["source"], _confidence(words, fact["source"]), note))
    return sorted(rows, key=lambda row: row["branch"])


def _generations(facts: Row, words: Words) -> list[Row]:
    rows = []
    for fact in facts["generation"]:
        name = fact["name"]
        first, _, last = fact["cc"].replace("2.x", "2.0-2.1").partition("-")
        row: Row = {"name": name, "first": first, "last": last or first}
        aliases = words.prose("aliases", name)
        if aliases:
            row["aliases"] = aliases
        if "first_driver_linux" in fact:
            row["first_driver"] = fact["first_driver_linux"]
            row["first_cuda"] = words.data["first_cuda"][name]
        if fact["last_driver_branch"] != "current":
            row["last_branch"] = int(fact["last_driver_branch"])
        note = words.note("generation", name, is_remarked="note" in fact)
        rows.append(_finish(row, words, fact["source"], _confidence(words, fact["source"]), note))
    return sorted(rows, key=lambda row: Version(row["first"]))


def _toolkit_targets(compilers: Row, words: Words) -> list[Row]:
    rows = []
    for fact in compilers["nvcc_targets"]:
        row: Row = {"major": int(fact["cuda"].partition(".")[0]), "oldest": fact["oldest"]}
        rows.append(_finish(row, words, fact["source"], "doc", ""))
    return sorted(rows, key=lambda row: row["major"])


def _forward_compat(facts: Row, words: Words) -> list[Row]:
    rows = []
    for name, branches in facts["forward_compat"].items():
        prefix, _, cuda = name.partition("base_drivers_")
        if prefix or not cuda:
            continue
        numbers = [int(text.split()[0]) for text in branches]
        row: Row = {"cuda": cuda.replace("_", "."), "base_branches": numbers}
        _finish(row, words, "nv-cuda-image; nv-fwd", "doc", "")
        if any(not text.isdigit() for text in branches):
            row["certainty"] = "low"
            row["note"] = "the list was seen in part"
        rows.append(row)
    return sorted(rows, key=lambda row: Version(row["cuda"]))


def _branch_support(facts: Row, words: Words) -> list[Row]:
    rows = []
    for name, text in facts["datacenter_branches"].items():
        if name == "source":
            continue
        kind, _, rest = text.partition(", ")
        row: Row = {"branch": int(name.removeprefix("R")), "kind": kind}
        month = _month(rest)
        if "end of life" in rest:
            row["end_of_life"] = month
        else:
            row["released"] = month
        is_secondhand = "third-party" in rest
        _finish(row, words, "third-party" if is_secondhand else "nv-dc-drivers", "doc", "")
        if is_secondhand:
            row["certainty"] = "low"
        rows.append(row)
    return sorted(rows, key=lambda row: row["branch"])


def _month(text: str) -> str:
    """``2028-08`` for a text that ends in ``Aug 2028``."""
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    words = text.split(" (")[0].split()
    return f"{words[-1]}-{names.index(words[-2][:3]) + 1:02}"
