"""Python packages that do not go together: what they check themselves, and names they lack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

_REFUSED = "requirement-not-met"
_WORDS = (
    WordRule(
        Outcome(
            "CRS158",
            _REFUSED,
            "a package refuses the version of another one: it needs {need}, there is {have}",
            "It compares the versions when it is imported.",
            "install {need}, or the release of the package in the traceback that goes with {have}",
        ),
        ("requirement-words", "requirement-incompatible"),
    ),
    WordRule(
        Outcome(
            "CRS158",
            _REFUSED,
            "the Trainer of transformers finds no accelerate, or one that is too old",
            "It compares the version when the arguments are made.",
            "upgrade accelerate, and start Python (or the notebook's kernel) again",
            ("python", "-m", "pip", "install", "-U", "accelerate"),
        ),
        ("requirement-trainer",),
    ),
    WordRule(
        Outcome(
            "CRS158",
            _REFUSED,
            "a package that was asked for is not installed",
            "It is optional, and what was asked for needs it. An import that fails counts as not "
            "installed too.",
            "install it into this environment, or ask for something else "
            '(attn_implementation="sdpa" in place of flash_attention_2)',
        ),
        ("requirement-missing",),
    ),
    WordRule(
        Outcome(
            "CRS161",
            "arch-missing-old-gpu",
            "the GPU is too old for what was asked for",
            "FlashAttention 2 and bf16 need compute capability 8.0 (Ampere) or above.",
            'ask for another attention (attn_implementation="sdpa" or "eager") and for float16',
        ),
        ("gpu-feature-words",),
        is_survivable=True,
    ),
    WordRule(
        Outcome(
            "CRS037",
            "numpy-interface-mismatch",
            "a package does not work with this numpy",
            "It was written or compiled for numpy 1.",
            "upgrade the package in the traceback, or install numpy below 2",
        ),
        ("numpy-2-removed",),
        unless=("numpy-alias", "numpy-abi", "numpy-bufsize"),
    ),
    WordRule(
        Outcome(
            "CRS037",
            "numpy-interface-mismatch",
            "a file was written with numpy 2 and is read with numpy 1",
            "numpy 2 calls its inner module numpy._core, and pickles name it.",
            "install numpy 2 here too, or write the file with numpy 1",
        ),
        ("numpy-pickled",),
    ),
)
_OF_TRANSFORMERS = frozenset({"transformers", "accelerate", "peft", "trl"})
_DIFFER = "package-versions-differ"
_LACKS = Outcome(
    "CRS159",
    _DIFFER,
    "{importer} and {owner} do not go together: {owner} has no {name}",
    "{importer} imports {name} from {module}: it was written for another release of {owner}, a "
    "newer or an older one.",
    "upgrade {importer} first; else install the release of {owner} that it requires",
)
_LACKS_TRANSFORMERS = Outcome(
    "CRS159",
    "transformers-regression",
    _LACKS.title,
    _LACKS.detail,
    _LACKS.remedy,
)
_NEAR = 6


def check_package_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


def check_missing_names(case: Case) -> Iterator[Finding]:
    """A name that one installed package imports from another, which does not have it.

    Left out where the name is of torch or numpy, whose own rules know more, and where a module
    imports itself in a circle.
    """
    known = {line for row in case.matrix.breaks.shown_in(case.log.hits) for line in row.shows}
    taken = {hit.order for name in known for hit in case.log.all(name)}
    for hit in case.log.all("import-name"):
        owner = hit.groups["module"].partition(".")[0]
        importer = _importer(case, hit)
        if importer in {"", owner} or owner in {"torch", "numpy"} or hit.order in taken:
            continue
        stack = {owner, importer}
        outcome = _LACKS_TRANSFORMERS if stack & _OF_TRANSFORMERS else _LACKS
        groups = {**hit.groups, "owner": owner, "importer": importer}
        yield make_finding(case, outcome, Status.FAIL, (replace(hit, groups=groups),))
        return


def _importer(case: Case, hit: Hit) -> str:
    """The installed package whose line raised: the frame just before; empty when none is near."""
    frames = [f for f in case.log.all("site-frame") if 0 < hit.order - f.order <= _NEAR]
    return frames[-1].groups["package"] if frames else ""
