"""Tracebacks that pass through two installations: torch comes from another one than meant."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

_NO_USER_SITE = (
    "run with PYTHONNOUSERSITE=1, or uninstall torch from the user's own site-packages (pip "
    "uninstall torch outside the environment)"
)
_NO_PATH = "take the other folder out of PYTHONPATH, and run the environment's own Python"
# What a mix of installations makes fail: compiled code, and names of another release.
_FAILURES = (
    "undefined-symbol",
    "cannot-open-shared",
    "vision-nms",
    "vision-cpu-kernel",
    "companion-cuda-differs",
    "import-name",
    "torch-lacks-name",
    "glibc-version",
)
_USER_SITE = re.compile(
    r"[/\\]\.local[/\\]lib[/\\]python[\d.]+[/\\]|[/\\]AppData[/\\]Roaming[/\\]Python[/\\]"
)
_PYTHON = re.compile(r"[/\\][Pp]ython-?(?P<minor>3\.?\d{1,2})[/\\]")
_COMPILED_AGAINST_TORCH = frozenset(
    {
        "torchvision",
        "torchaudio",
        "torchtext",
        "torchcodec",
        "xformers",
        "flash_attn",
        "vllm",
        "deepspeed",
        "apex",
        "mamba_ssm",
        "causal_conv1d",
        "transformer_engine",
        "torch_scatter",
        "torch_sparse",
        "detectron2",
        "mmcv",
    }
)


def check_site_roots(case: Case) -> Iterator[Finding]:
    """Frames of torch in one folder of packages, those of a package built for it in another.

    The user's own site-packages stand before those of an environment; PYTHONPATH brings in
    another environment, which shows where the folders are of two Pythons.
    """
    failures = case.hits(*_FAILURES)
    frames = [hit for hit in case.log.all("site-frame") if _is_before(hit, failures)]
    of_torch = next((f for f in reversed(frames) if f.groups["package"] == "torch"), None)
    if of_torch is None:
        return
    for frame in reversed(frames):
        root, torch_root = frame.groups["root"], of_torch.groups["root"]
        if frame.groups["package"] not in _COMPILED_AGAINST_TORCH or root == torch_root:
            continue
        from_user = bool(_USER_SITE.search(torch_root)) and not _USER_SITE.search(root)
        if from_user or _pythons(root, torch_root) == 2:
            cure = _NO_USER_SITE if from_user else _NO_PATH
            yield _finding(case, frame, of_torch, failures, cure)
            return


def check_torch_file(case: Case) -> Iterator[Finding]:
    """Torch in the user's own site-packages, printed by one who works in an environment."""
    printed = case.log.last("torch-file-words")
    failures = case.hits(*_FAILURES)
    if printed is None or not failures or not _USER_SITE.search(printed.groups["path"]):
        return
    prompt = case.log.last("environment-prompt")
    if prompt is None:
        return
    groups = {
        "torch_root": printed.groups["path"],
        "package": "the program",
        "root": f"the environment {prompt.groups['name']}",
        "cure": _NO_USER_SITE,
    }
    hits = (replace(printed, groups=groups), prompt, *failures[:1])
    yield make_finding(case, "shadowed-install", Status.FAIL, hits)


def _is_before(frame: Hit, failures: tuple[Hit, ...]) -> bool:
    return any(frame.order < failure.order for failure in failures)


def _pythons(*roots: str) -> int:
    """How many Pythons the folders are of, as far as their names say."""
    found = {match["minor"].replace(".", "") for root in roots if (match := _PYTHON.search(root))}
    return len(found)


def _finding(
    case: Case, frame: Hit, of_torch: Hit, failures: tuple[Hit, ...], cure: str
) -> Finding:
    root, torch_root = frame.groups["root"], of_torch.groups["root"]
    package = frame.groups["package"]
    groups = {"root": root, "torch_root": torch_root, "package": package, "cure": cure}
    return make_finding(
        case,
        "shadowed-install",
        Status.FAIL,
        (replace(frame, groups=groups), of_torch, *failures[:1]),
        more=(Evidence("torch imported from", torch_root, case.log.name),),
    )
