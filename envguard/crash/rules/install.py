"""What installers did, and tracebacks that pass through two installations."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding, version_or_none
from envguard.crash.rules.driver import is_board
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CPU, Backend
from envguard.fit import DriverGrade, grade_code, grade_driver
from envguard.matrix.complete import possible_platforms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch


# Other findings that say how the CPU build came about.
_EXPLAINED = ("no-such-local-version", "uv-auto-cpu", "uv-auto-words", "uv-driver-parse")
_COMPLAINTS = ("not-available-words", "cpu-build-words")
_ASKED = ("asks-for-cuda", "conda-asks-for-cuda")
_PASSING = re.compile(r"ninstall(?:ing|ed) torch|existing installation|No matching|ould not find")


def check_cpu_build_installed(case: Case) -> Iterator[Finding]:
    """A CPU build was installed or runs, and something shows that a CUDA build was meant."""
    # What a solver names among its reasons for having no plan was chosen by nobody.
    conda = () if case.log.has("conda-unsatisfiable") else case.matches("conda-cpu-build")
    found = _cpu_build(case)
    if (not conda and found is None) or case.log.has(*_EXPLAINED):
        return
    wanted = _wanted(case, found or conda[0])
    if not wanted:
        return
    if conda:
        yield make_finding(case, "cpu-wheel-selected.conda-cpu", Status.FAIL, (*conda, *wanted))
    elif found is not None and not _is_kept(case):
        yield make_finding(case, "cpu-wheel-selected.cpu-installed", Status.FAIL, (found, *wanted))


def _cpu_build(case: Case) -> SignatureMatch | None:
    """The line that shows that the last torch of the log is a CPU build."""
    last: tuple[SignatureMatch, bool] | None = None
    for hit in case.log.all("torch-installed", "cpu-version-words"):
        if _PASSING.search(hit.text) and hit.id != "torch-installed":
            continue
        text = next((hit.groups[n] for n in ("v", "v2", "v3", "v4") if n in hit.groups), "")
        is_cpu = _is_cpu(text, case)
        if is_cpu is not None:
            last = (hit, is_cpu)
    return last[0] if last is not None and last[1] else None


def _is_cpu(text: str, case: Case) -> bool | None:
    """Whether a version is a CPU build: by its label, else by what PyPI holds."""
    version = version_or_none(text.rstrip(".,"))
    if version is None:
        return None
    return version.local == "cpu" if version.local is not None else _is_cpu_on_pypi(version, case)


def _is_cpu_on_pypi(version: Version, case: Case) -> bool | None:
    """Whether PyPI's wheel of a release is a CPU build; None where platforms differ."""
    platforms = possible_platforms(case.facts.machine)
    if case.log.has("windows-words") and case.facts.machine.host.platform is None:
        platforms = (Platform(OperatingSystem.WINDOWS, "x86_64"),)
    builds = {case.matrix.torch.pypi_backend(version, platform) for platform in platforms}
    return builds == {CPU} if len(builds) == 1 and None not in builds else None


def _wanted(case: Case, found: SignatureMatch) -> tuple[SignatureMatch, ...]:
    """The lines, or the stated GPU's stead, that show that a CUDA build was meant; else none."""
    for_cpu, for_cuda = case.log.last("asks-for-cpu"), case.log.last(*_ASKED)
    if for_cpu is not None and (for_cuda is None or for_cpu.order >= for_cuda.order):
        return ()
    removed = case.log.last("torch-removed")
    shown = [hit for hit in (for_cuda, removed) if hit is not None and hit.order <= found.order]
    shown += case.matches(*_COMPLAINTS)
    if not shown and (case.facts.machine.selected_gpus or case.log.has("gpu-detected-words")):
        shown = [*case.matches("gpu-detected-words"), found]
    return tuple(shown)


def check_kept_torch(case: Case) -> Iterator[Finding]:
    """``Requirement already satisfied`` for a torch of another build than the one asked for."""
    asked = case.matches("index-words", "asks-for-cuda")
    kept = _kept(case)
    if asked and kept is not None:
        yield make_finding(case, "already-satisfied-other-tag", Status.FAIL, (kept, *asked))


def _is_kept(case: Case) -> bool:
    return case.log.has("index-words", "asks-for-cuda") and _kept(case) is not None


def _kept(case: Case) -> SignatureMatch | None:
    """The torch that pip kept, where its label is not the one that was asked for.

    As the dependency of another package any build would do, so that line says nothing.
    """
    hits = [*case.log.all("index-words", "asks-for-cuda")]
    labels = {value for hit in hits for name, value in hit.groups.items() if "label" in name}
    for hit in case.log.all("already-satisfied"):
        version = re.search(r"\((\d[\w.+]{2,40})\)\s*$", hit.text)
        local = version[1].partition("+")[2] if version else ""
        if "(from " not in hit.text and (not local or local not in labels):
            return hit
    return None


def check_guessed_backend(case: Case) -> Iterator[Finding]:
    """An installer's default for a driver that it did not recognise, where it serves nothing."""
    for hit in case.log.all("backend-guessed"):
        backend = Backend.parse(hit.groups["label"].lower())
        if _serves(case, backend) is False:
            also = case.matches("gpu-detected-words")
            yield make_finding(case, "resolver-auto-backend.guessed", Status.FAIL, (hit, *also))
            return


def _serves(case: Case, backend: Backend) -> bool | None:
    """Whether any release for this backend runs on the stated driver and GPUs."""
    machine = case.facts.machine
    gpus = [gpu.capability for gpu in machine.selected_gpus if gpu.capability]
    if backend.cuda is None:
        return False if gpus or case.log.has("gpu-detected-words") else None
    fit = grade_driver(machine.driver, machine.host, backend.cuda, case.matrix.drivers)
    if fit.grade is DriverGrade.NO:
        return False
    builds = [
        build
        for platform in possible_platforms(machine)
        for build in case.matrix.torch.builds(platform=platform, backend=backend)
        if build.targets
    ]
    if not gpus or not builds:
        return None
    can_jit = fit.grade.can_jit
    return all(
        any(
            grade_code(build.targets, gpu, backend.cuda, can_jit=can_jit).grade.runs
            for build in builds
        )
        for gpu in gpus
    )


def check_other_interpreter(case: Case) -> Iterator[Finding]:
    """Packages of one Python in the way of another: by numpy's words, pip's target, or paths."""
    wheel = case.matches("wheel-not-for-python")
    if wheel:
        yield make_finding(case, "wheel-for-other-python", Status.FAIL, wheel)
    missing = case.matches("compiled-part-missing", "no-module-torch")
    certain = case.matches("compiled-for-other-python")
    shown = (*case.matches("pip-target"), *_two_pythons(case)) if missing else ()
    if certain or shown:
        yield make_finding(
            case, "wrong-interpreter-inspected", Status.FAIL, (*certain, *shown, *missing)
        )


def _two_pythons(case: Case) -> tuple[SignatureMatch, ...]:
    """Lines that name the Python that holds torch and another one that runs."""
    printed = {hit.groups["py"]: hit for hit in case.log.all("python-version-words")}
    if len(printed) > 1:
        return tuple(printed.values())
    held = {_python(hit): hit for hit in case.log.all("installed-into-python")}
    runs = {_python(hit): hit for hit in case.log.all("run-by-python")}
    runs = runs or printed
    if not held or not runs or set(held) & set(runs):
        return ()
    return (*held.values(), *runs.values())


def _python(hit: SignatureMatch) -> str:
    text = next(hit.groups[name] for name in ("py", "py2", "py3") if name in hit.groups)
    return text if "." in text else f"{text[0]}.{text[1:]}"


def check_unserved_requests(case: Case) -> Iterator[Finding]:
    """A torch that the installer could not have: for this Python, or under this name."""
    asked = case.log.all("torch-asked-exactly") if case.log.has("no-solution-words") else ()
    python = _python_of_installer(case)
    for hit in (*case.log.all("torch-not-found"), *asked):
        version = version_or_none(hit.groups.get("v") or hit.groups.get("v2") or "")
        if version is None or python is None or _has_wheel(case, version, python):
            continue
        groups = {**hit.groups, "version": str(version), "python": python}
        yield make_finding(case, "no-wheel-for-python", Status.FAIL, (replace(hit, groups=groups),))
        return
    for hit in case.log.all("torch-unlabelled"):
        yield make_finding(case, "resolver-local-version", Status.FAIL, (hit,))
        return


def _python_of_installer(case: Case) -> str | None:
    """The minor version of the Python that was solved for: said by the installer, or stated."""
    hit = case.log.last("python-of-installer", "python-version-words")
    if hit is not None and "tag" in hit.groups:
        return f"{hit.groups['tag'][0]}.{hit.groups['tag'][1:]}"
    if hit is not None:
        return hit.groups.get("p") or hit.groups.get("py")
    environment = case.facts.environment
    version = environment.interpreter.version if environment and environment.interpreter else None
    return f"{version.major}.{version.minor}" if version is not None else None


def _has_wheel(case: Case, version: Version, python: str) -> bool:
    """Whether the release has wheels for a Python, or that is not known."""
    release = case.matrix.torch.release(version)
    tag = f"cp{python.replace('.', '')}"
    platforms = possible_platforms(case.facts.machine)
    listed = [release.pythons.get(platform, ()) for platform in platforms] if release else [()]
    return not all(listed) or any(tag in tags for tags in listed)


def check_index_exists(case: Case) -> Iterator[Finding]:
    """An index of the PyTorch site for a CUDA that no release was built for.

    What is taken in its place is a CPU build on those platforms only where PyPI has no other.
    """
    releases = case.matrix.torch.releases
    complaints = case.matches(*_COMPLAINTS, "answer-false")
    if not complaints or not _is_cpu_on_pypi(max(r.version for r in releases), case):
        return
    known = {
        backend.label
        for release in releases
        for backends in release.variants.values()
        for backend in backends
    }
    for hit in case.log.all("index-words", "asks-for-cuda"):
        labels = [value for name, value in hit.groups.items() if "label" in name]
        unknown = [label for label in labels if label.startswith("cu") and label not in known]
        if unknown:
            named = replace(hit, groups={**hit.groups, "label": unknown[0]})
            yield make_finding(
                case, "cpu-wheel-selected.no-such-index", Status.FAIL, (named, *complaints)
            )
            return


def check_torch_for_board(case: Case) -> Iterator[Finding]:
    """A torch of the usual indexes on a Jetson, which sees no GPU."""
    installed = case.matches("pip-installs-torch")
    blind = case.matches(*_COMPLAINTS, "answer-false")
    if installed and blind and is_board(case):
        yield make_finding(
            case, "jetson-needs-l4t-build.for-board", Status.FAIL, (*installed, *blind)
        )


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


def check_site_roots(case: Case) -> Iterator[Finding]:
    """Frames of torch in one folder of packages, those of a package built for it in another.

    The user's own site-packages stand before those of an environment; PYTHONPATH brings in
    another environment, which shows where the folders are of two Pythons.
    """
    failures = case.matches(*_FAILURES)
    frames = [hit for hit in case.log.all("site-frame") if _is_before(hit, failures)]
    of_torch = next((f for f in reversed(frames) if f.groups["package"] == "torch"), None)
    if of_torch is None:
        return
    for frame in reversed(frames):
        root, torch_root = frame.groups["root"], of_torch.groups["root"]
        owner = case.matrix.owners.owner(frame.groups["package"])
        if owner is None or not owner.built_for_torch or root == torch_root:
            continue
        from_user = bool(_USER_SITE.search(torch_root)) and not _USER_SITE.search(root)
        if from_user or _pythons(root, torch_root) == 2:
            cure = _NO_USER_SITE if from_user else _NO_PATH
            yield _finding(case, frame, of_torch, failures, cure)
            return


def check_torch_file(case: Case) -> Iterator[Finding]:
    """Torch in the user's own site-packages, printed by one who works in an environment."""
    printed = case.log.last("torch-file-words")
    failures = case.matches(*_FAILURES)
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


def _is_before(frame: SignatureMatch, failures: tuple[SignatureMatch, ...]) -> bool:
    return any(frame.order < failure.order for failure in failures)


def _pythons(*roots: str) -> int:
    """How many Pythons the folders are of, as far as their names say."""
    found = {match["minor"].replace(".", "") for root in roots if (match := _PYTHON.search(root))}
    return len(found)


def _finding(
    case: Case,
    frame: SignatureMatch,
    of_torch: SignatureMatch,
    failures: tuple[SignatureMatch, ...],
    cure: str,
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


def check_install_conflict(case: Case) -> Iterator[Finding]:
    """What pip leaves unfit behind it: with torch among it a failure, else a warning."""
    hits = sorted(case.log.all("pip-left-conflict"), key=lambda hit: not _is_about_torch(hit, case))
    if not hits:
        return
    first = hits[0]
    if "missing" in first.groups:
        groups = {"who": first.groups["who2"], "need": first.groups["missing"]}
        named = replace(first, groups=groups)
        yield make_finding(case, "install-conflict.missing", Status.WARN, (named, *hits[1:]))
        return
    before = case.log.first("torch-before")
    was = next(iter(before.groups.values())) if before is not None else ""
    if before is not None and _name(first.groups["name"]) == "torch":
        is_other = was.rstrip(":") != first.groups["have"]
        if is_other:
            named = replace(first, groups={**first.groups, "before": was})
            yield make_finding(
                case, "install-replaced-torch", Status.FAIL, (named, before, *hits[1:])
            )
            return
    status = Status.FAIL if _is_about_torch(first, case) else Status.WARN
    yield make_finding(case, "install-conflict", status, tuple(hits))


def _name(text: str) -> str:
    return text.lower().replace("-", "_")


def _is_about_torch(hit: SignatureMatch, case: Case) -> bool:
    who, _, _ = (hit.groups.get("who") or hit.groups.get("who2", "")).partition(" ")
    return any(_is_companion(_name(name), case) for name in (hit.groups.get("name", ""), who))


def _is_companion(package: str, case: Case) -> bool:
    """Whether a package is torch, or goes with one release of it only."""
    row = case.matrix.owners.owner(package) if package else None
    return package in {"torch", "triton"} or (row is not None and row.built_for_torch)


# What a solver's paragraph may tell beside requirements that exclude each other, and what says it.
_IN_PARAGRAPH = {
    "no-platform-wheel": "no-wheel-for-platform",
    "no-python-wheel": "no-wheel-for-python.any",
    "requires-python-range": "python-not-supported.range",
    "requires-other-python": "python-not-supported",
    "name-not-found": "release-not-found.name",
    "release-listed": "release-not-found",
}
_SAID_ELSEWHERE = ("no-such-local-version", "torch-not-found", "solver-torch-label")
_NEEDS = re.compile(
    r"(?P<who>[A-Za-z][\w.\-\[\]]{0,60}(?:[=<>!~]=?[^\s,]{1,40})?|your project|the requested) "
    r"(?:depends on|requires?) (?P<need>[A-Za-z][\w.\-\[\]]{0,60}\s?[=<>!~(][^\s;]{1,60})"
)
_YOU = re.compile(r"\byou require (?P<need>[A-Za-z][\w.\-\[\]]{0,60}[=<>!~]=?[^\s;]{1,60})")


def check_solver_words(case: Case) -> Iterator[Finding]:
    """Who needs what, where a solver of uv, pip, poetry or pdm finds no set of versions."""
    if case.log.has(*_SAID_ELSEWHERE):
        return
    pip = case.log.first("pip-impossible")
    if pip is not None:
        yield from _conflict(case, pip, _needs_of_pip(case))
        return
    for hit in case.log.all("solver-because"):
        text = f"Because {hit.groups['why']}."
        name = next((n for n in _IN_PARAGRAPH if _pattern(case, n).search(text)), None)
        if name is not None:
            match = _pattern(case, name).search(text)
            groups = {k: v for k, v in match.groupdict().items() if v} if match else {}
            named = replace(hit, groups=groups)
            if not case.log.has(name):
                yield make_finding(case, _IN_PARAGRAPH[name], Status.FAIL, (named,))
            return
        needs = [(m["who"], m["need"]) for m in _NEEDS.finditer(text)]
        needs += [("the request", m["need"]) for m in _YOU.finditer(text)]
        yield from _conflict(case, hit, needs)


def _pattern(case: Case, name: str) -> re.Pattern[str]:
    return case.matrix.causes.signature(name).pattern


def _needs_of_pip(case: Case) -> list[tuple[str, str]]:
    """Who needs what, of what pip lists below 'The conflict is caused by'."""
    return [
        (
            hit.groups.get("who", "the request"),
            next(hit.groups[name] for name in ("need", "need2", "need3") if name in hit.groups),
        )
        for hit in case.log.all("pip-needs")
    ]


def _conflict(case: Case, hit: SignatureMatch, needs: list[tuple[str, str]]) -> Iterator[Finding]:
    """The first package of which two demands differ; nothing where the words name none."""
    for index, (who, need) in enumerate(needs):
        for other, also in needs[index + 1 :]:
            if _package(need) == _package(also) and need != also:
                groups = {
                    "who": who,
                    "need": need.rstrip(",."),
                    "other": other,
                    "also": also.rstrip(",."),
                }
                named = replace(hit, groups=groups)
                more = case.matches("pip-needs") if hit.id == "pip-impossible" else ()
                yield make_finding(case, "requirements-conflict", Status.FAIL, (named, *more))
                return


def _package(need: str) -> str:
    match = re.match(r"[\w.-]+", need)
    return _name(match[0]) if match else need
