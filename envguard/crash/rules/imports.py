"""Imports that fail: symbols and libraries that are missing, companions of another build."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.installed import judged_torch
from envguard.checks.remedies import released_for
from envguard.conditions import admits
from envguard.crash.cause_findings import make_finding, version_or_none
from envguard.crash.rules.driver import is_board
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.sentences import say
from envguard.mangled import read_mangled
from envguard.matrix.causes import Where
from envguard.matrix.file_owners import LibraryKind
from envguard.signatures import find_shown, find_signatures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.facts.facts import Facts
    from envguard.mangled import MangledName
    from envguard.matrix.file_owners import NamedLibrary, SharedLibrary
    from envguard.signatures import SignatureMatch


_OF_BACKEND = {"hip": "ROCm", "xpu": "XPU"}
_BACKEND_LIBRARY = re.compile(r"lib(?:torch|c10)_(?P<backend>hip|xpu)\.so")
_CUDA_BUILD_LIBRARY = re.compile(r"lib(?:torch|c10)_cuda\.so")
_FFMPEG_LIBRARY = re.compile(r"lib(?:av(?:util|codec|format|filter|device)|sw(?:scale|resample))\.")


def check_xformers(case: Case) -> Iterator[Finding]:
    """What xformers says it was built for, against the torch that it found."""
    hit = case.log.first("xformers-built-for")
    if hit is None:
        return
    built, have = (version_or_none(hit.groups[name]) for name in ("built", "have"))
    if built is None or have is None:
        return
    major = hit.groups["cuda"][:2] if hit.groups["cuda"].isdecimal() else ""
    local = have.local or ""
    outcome = "abi-torch-version" if built.public != have.public else None
    if outcome is None and local == "cpu":
        outcome = "companion-from-other-index.built-for-other"
    elif outcome is None and local.startswith("cu") and major and local[2:4] != major:
        outcome = "cudart-major-mismatch"
    if outcome is not None:
        yield make_finding(case, outcome, Status.FAIL, (hit,))


def goes_with(case: Case, package: str) -> str:
    """The release of a package that goes with the torch that is stated, in words; or nothing."""
    torch = judged_torch(case.facts)
    if torch is None or torch.version is None or not package:
        return ""
    release = released_for(package, torch.version, case.matrix)
    return (
        say(
            "{package} {version} goes with torch {torch}.",
            package=package,
            version=release,
            torch=torch.version.public,
        )
        if release
        else ""
    )


def message_of_library(case: Case, name: str) -> tuple[str, dict[str, str]] | None:
    """What a missing library says about torch's build; None when it says nothing.

    Args:
        case: For what is known of torch, and whether torch itself was being imported.
        name: File name of the library.
    """
    other = _BACKEND_LIBRARY.match(name)
    if other is not None:
        return "companion-from-other-index.other-backend", {
            "backend": _OF_BACKEND[other["backend"]]
        }
    if _CUDA_BUILD_LIBRARY.match(name):
        torch = judged_torch(case.facts)
        is_cuda = torch is not None and torch.accelerator is Accelerator.CUDA
        return None if is_cuda else ("companion-from-other-index.cuda-companion", {})
    library = case.matrix.owners.library(name)
    is_brought = library is not None and library.row.kind in _OF_NVIDIA
    if is_brought and case.log.has("torch-load-frame"):
        return "shared-library-missing", {}
    return ("shared-library-missing.ffmpeg", {}) if is_of_ffmpeg(name) else None


def is_of_ffmpeg(name: str) -> bool:
    """Whether a library is FFmpeg's: packages try one release of it after the other."""
    return _FFMPEG_LIBRARY.match(name) is not None


def check_vision_operators(case: Case) -> Iterator[Finding]:
    """Operators of torchvision that are not there: another version, or another build."""
    hits = case.matches("vision-nms")
    if hits:
        outcome = (
            "companion-from-other-index"
            if _is_pair_of_two_indexes(case)
            else "vision-torch-mismatch.no-operators"
        )
        yield make_finding(case, outcome, Status.FAIL, hits)


def _is_pair_of_two_indexes(case: Case) -> bool:
    """Torch and torchvision were released for each other and carry different labels."""
    environment, torch = case.facts.environment, judged_torch(case.facts)
    vision = environment.distribution("torchvision") if environment is not None else None
    table = case.matrix.packages("torchvision")
    if torch is None or torch.version is None or vision is None or vision.version is None:
        return False
    row = table.release(vision.version) if table is not None else None
    bound = row.requires.get("torch") if row is not None else None
    is_pair = bound is not None and admits(bound, torch.version)
    return bool(bound) and is_pair and torch.version.local != vision.version.local


_BNB_CPU = "libbitsandbytes_cpu.so"
_IMAGE_ONLY = "Failed to load image Python extension"
_OF_PYTHON = re.compile(r"_?Py[A-Z_]\w{1,80}\Z|_Py_\w{1,80}\Z")
_INSIDE_NVIDIA = re.compile(r"[/\\](?:torch[/\\]lib|nvidia)[/\\]")
_NEAR = 6


def check_undefined_symbol(case: Case) -> Iterator[Finding]:
    """A symbol that the loaded libraries do not have: its name tells whose it is."""
    hits = [hit for hit in case.log.all("undefined-symbol") if _BNB_CPU not in hit.text]
    # torchvision goes on without its image files, and says that it may be ignored.
    grave = [hit for hit in hits if _IMAGE_ONLY not in hit.text]
    hit = next(iter(grave or hits), None)
    if hit is None:
        return
    status = Status.FAIL if grave else Status.WARN
    symbol, package = hit.groups["sym"], owner_of(case, hit)
    outcome = message_of_symbol(symbol, hit, case)
    if outcome == "abi-torch-version.of-package" and package == "torchvision":
        outcome = "vision-torch-mismatch"
    library = case.matrix.owners.library_of_symbol(symbol)
    named = {
        "lib": _file_of(hit),
        "package": package or _file_of(hit),
        "of": library.of if library else "a library",
        "wheel": _wheel_of(library, case),
        "torch": torch_words(case),
    }
    is_torch = outcome.startswith(("abi-cxx11-flag", "abi-torch-version", "vision-"))
    more = (Evidence("symbol", symbol, hit.place),)
    pair = _pair(case, package) if is_torch else ""
    told = replace(hit, groups={**hit.groups, **named})
    yield make_finding(case, outcome, status, (told,), more=more, detail=pair)


def message_of_symbol(symbol: str, hit: SignatureMatch, case: Case) -> str:
    """What a missing symbol says: whose it is, and whether it tells the C++ ABI.

    Args:
        symbol: As the loader prints it.
        hit: Its line.
        case: For what is known of torch.

    Returns:
        The name of a message of the tables.
    """
    found = read_mangled(symbol)
    library = case.matrix.owners.library_of_symbol(symbol)
    if found is not None and found.is_of_torch:
        return _message_of_torch(found, case)
    if found is not None and found.takes_torch_types:
        return "symbol-missing.own-function"
    if found is not None and found.is_of_libstdcxx:
        return "libstdcxx-mismatch.symbol"
    if _OF_PYTHON.match(symbol):
        return "abi-python-version"
    if library is not None and library.kind is LibraryKind.TORCH:
        return "abi-torch-version.of-package"
    if library is not None and library.kind in _OF_NVIDIA:
        return _message_of_nvidia(library, hit, case)
    hits = find_signatures(f"undefined symbol: {symbol}", case.matrix)
    said = next(find_shown(hits, case.matrix, Where.ERROR), None)
    if said is not None:
        return said.id
    return "symbol-missing.of-library" if library is not None else "symbol-missing"


_OF_NVIDIA = frozenset({LibraryKind.CUDA, LibraryKind.NVIDIA})


def _message_of_torch(found: MangledName, case: Case) -> str:
    """A missing name of torch: of the other C++ ABI, unless torch's own is the one it asks for."""
    if is_built_by_nvidia(case.facts):
        return "nvidia-torch-build"
    wanted, has = found.cxx11_string, _abi_of_torch(case)
    if wanted is None or wanted == has:
        return "abi-torch-version.of-package"
    return "abi-cxx11-flag.new-of-package" if wanted else "abi-cxx11-flag.old-of-package"


def _abi_of_torch(case: Case) -> bool | None:
    """The C++ ABI of the torch that is stated: its own word, else that of its release's builds."""
    torch = case.facts.environment.torch if case.facts.environment is not None else None
    if torch is None or torch.version is None:
        return None
    if torch.cxx11_abi is not None:
        return torch.cxx11_abi
    told = {
        row.cxx11_abi
        for row in case.matrix.torch.builds(torch.version)
        if torch.backend in {None, row.backend} and row.cxx11_abi is not None
    }
    return told.pop() if len(told) == 1 else None


def _message_of_nvidia(library: SharedLibrary, hit: SignatureMatch, case: Case) -> str:
    """A missing name of a library of NVIDIA's: it is older than what needs it."""
    if library.of == "NCCL":
        return "nccl-shadowed"
    is_of_torch = _INSIDE_NVIDIA.search(hit.text) is not None
    is_named = bool(case.facts.machine.variable("LD_LIBRARY_PATH")) or case.log.has("ld-path-words")
    return "ld-library-path-shadow" if is_of_torch or is_named else "cuda-library-too-old"


def _wheel_of(library: SharedLibrary | None, case: Case) -> str:
    """The distribution of a library for torch's CUDA, in words."""
    if library is None:
        return "its package"
    torch = case.facts.environment.torch if case.facts.environment is not None else None
    major = torch.cuda.major if torch is not None and torch.cuda is not None else None
    return library.wheels.get(str(major)) or " or ".join(library.wheels.values()) or library.of


def torch_words(case: Case) -> str:
    """The torch of the environment in words: ``torch 2.7.1+cu126``."""
    torch = case.facts.environment.torch if case.facts.environment is not None else None
    version = torch.version if torch is not None else None
    return say("torch {version}", version=version) if version is not None else "this torch"


def owner_of(case: Case, hit: SignatureMatch) -> str:
    """The package whose compiled file a line of the loader is about; empty when it is not told.

    The line names the file; where it does not, the frame of the traceback before it tells whose
    import it was.
    """
    owners = case.matrix.owners
    missing = _library_name(hit)
    paths = (text.rstrip(":.") for text in _PATH.findall(hit.text) if _COMPILED.search(text))
    files = [path for path in paths if _file(path) != missing]
    named = next((package for file in files if (package := owners.package_of_file(file))), "")
    if named:
        return named
    frames = [f for f in case.log.all("site-frame") if 0 < hit.order - f.order <= _NEAR]
    packages = [owners.package_of_file(_path_of_frame(frame)) for frame in frames]
    return next((name for name in reversed(packages) if name not in {"", "torch"}), "")


def _file(path: str) -> str:
    return re.split(r"[/\\ ]", path)[-1]


def _path_of_frame(frame: SignatureMatch) -> str:
    return f"{frame.groups['root']}/{frame.groups['package']}/x"


_PATH = re.compile(r"[\w./\\:+-]{3,400}")
_COMPILED = re.compile(r"\.(?:so|pyd|dll)\b")


def _file_of(hit: SignatureMatch) -> str:
    match = re.search(r"(?<![\w.+-])((?>[\w.+-]{1,120}\.(?:so|pyd))[\w.]{0,20}): ", hit.text)
    return match[1] if match else "a compiled file"


def check_missing_library(case: Case) -> Iterator[Finding]:
    """A shared library that the loader does not find, and what torch's own CUDA says to it."""
    hit = _missing_library(case)
    if hit is None:
        return
    name = _library_name(hit)
    library = case.matrix.owners.library(name)
    if is_board(case) and name.startswith("libnvidia-ml"):
        return  # a board may have none, and check_nvml_on_boards speaks of it
    outcome, groups = _outcome_of_library(case, hit, name, library)
    package = owner_of(case, hit)
    known = {
        "lib": name,
        "package": package or "the package that needs it",
        "torch": torch_words(case),
        **(_named(library, case) if library is not None else {}),
        **groups,
    }
    told = replace(hit, groups={**hit.groups, **known})
    yield make_finding(case, outcome, Status.FAIL, (told,), detail=_pair(case, package))


def _outcome_of_library(
    case: Case, hit: SignatureMatch, name: str, library: NamedLibrary | None
) -> tuple[str, dict[str, str]]:
    """The message about a missing library, and what its sentences name."""
    kind = library.row.kind if library is not None else None
    if is_board(case) and kind is LibraryKind.CUDA:
        return "jetson-needs-l4t-build.board-library", {}
    if library is not None and kind is LibraryKind.TORCH and name.lower().endswith(".dll"):
        return _OF_TORCH_DLL.get(hit.groups.get("code", ""), "shared-library-missing.torch-dll"), {}
    told = message_of_library(case, name)
    if told is not None:
        return told
    if library is None:
        return "shared-library-missing.missing-library", {}
    if kind in _OF_NVIDIA:
        return _outcome_of_nvidia(case, library)
    return _OUTCOME_OF.get(library.row.kind, "shared-library-missing.of-system"), {}


# What Windows says of a library of torch that does not load: 126 a part is missing, 127 a name
# is, 1114 its start failed.
_OF_TORCH_DLL = {
    "127": "shared-library-missing.torch-dll-mixed",
    "1114": "shared-library-missing.torch-dll-start",
}
_OUTCOME_OF = {
    LibraryKind.DRIVER: "no-gpu-visible",
    LibraryKind.TORCH: "abi-torch-version.torch-library",
    LibraryKind.FFMPEG: "shared-library-missing.ffmpeg",
    LibraryKind.PACKAGE: "shared-library-missing.of-package",
    LibraryKind.WINDOWS: "shared-library-missing.of-windows",
    LibraryKind.PYTHON: "shared-library-missing.of-python",
}


def _outcome_of_nvidia(case: Case, library: NamedLibrary) -> tuple[str, dict[str, str]]:
    """The number in its name against torch's own CUDA, or its own release against torch's."""
    torch = case.facts.environment.torch if case.facts.environment is not None else None
    if torch is not None and torch.accelerator is Accelerator.CPU:
        return "companion-from-other-index.cuda-companion", {}
    if library.row.kind is LibraryKind.NVIDIA:
        return _outcome_of_release(case, library)
    if torch is None or torch.cuda is None or not library.cudas:
        return _against_toolkit(case, library)
    if library.has_major(torch.cuda):
        return "shared-library-missing.own-cuda", {}
    return "cudart-major-mismatch.other-cuda", {"torch_cuda": str(torch.cuda)}


def _against_toolkit(case: Case, library: NamedLibrary) -> tuple[str, dict[str, str]]:
    """Where torch's own CUDA is not known, the toolkit's tells what this machine has."""
    nvcc = case.facts.machine.toolkit.nvcc
    if nvcc is None or not library.cudas or library.has_major(nvcc):
        return "shared-library-missing.cuda-unknown", {}
    return "cudart-major-mismatch.other-toolkit", {"torch_cuda": str(nvcc)}


def _outcome_of_release(case: Case, library: NamedLibrary) -> tuple[str, dict[str, str]]:
    """The release of cuDNN and its like that a file asks for, against the one that torch brings."""
    has = _release_of_torch(case, library.row.of)
    if has and library.release and has.partition(".")[0] != library.release:
        return "shared-library-missing.other-release", {"has": has}
    brought = say(" {torch} brings {has}.", torch=torch_words(case), has=has) if has else ""
    return "shared-library-missing.own-release", {"brought": brought}


def _release_of_torch(case: Case, of: str) -> str:
    """The release of cuDNN that the stated torch brings; empty where it is not known."""
    torch = case.facts.environment.torch if case.facts.environment is not None else None
    if of != "cuDNN" or torch is None or torch.version is None or torch.backend is None:
        return ""
    row = case.matrix.libs.libraries_of(torch.version, torch.backend)
    return row.cudnn if row is not None else ""


def _named(library: NamedLibrary, case: Case) -> dict[str, str]:
    """What the sentences about a library name: what it is, its CUDA, what brings it and where."""
    torch = case.facts.environment.torch if case.facts.environment is not None else None
    majors = [release.partition(".")[0] for release in library.cudas]
    own = str(torch.cuda.major) if torch is not None and torch.cuda is not None else ""
    major = own if own in majors or not majors else majors[0]
    wheel = library.row.wheels.get(major, "") or " or ".join(library.row.wheels.values())
    folder = "cu13" if major == "13" else library.row.folder
    return {
        "of": library.row.of,
        "cuda": " and ".join(library.cudas) or "another release",
        "release": library.release or library.number,
        "wheel": wheel,
        "folder": f"site-packages/nvidia/{folder}/lib",
        "fix": library.row.fix or _install_words(library.row),
        "brought": "",
    }


_CONDA, _APT, _DNF = "conda install -c conda-forge", "apt-get install", "dnf install"


def _install_words(row: SharedLibrary) -> str:
    """The commands that install a library, one for each kind of system."""
    tools = ((_APT, row.apt), (_CONDA, row.conda), (_DNF, row.dnf), ("pip install", row.pip))
    commands = [say("{tool} {names}", tool=t, names=" ".join(n)) for t, n in tools if n]
    return (
        " (or: ".join(commands[:2]) + ")" * (len(commands[:2]) > 1)
        if commands
        else ("install the package that provides it")
    )


def _library_name(hit: SignatureMatch) -> str:
    text = next((hit.groups[name] for name in _LIBRARY_GROUPS if name in hit.groups), "")
    return _file(text)


_LIBRARY_GROUPS = ("lib", "lib2", "lib3", "lib4", "lib5", "lib6")


def _pair(case: Case, package: str) -> str:
    """What of a package goes with the stated torch, where its compiled files are made for one."""
    row = case.matrix.owners.owner(package) if package else None
    return goes_with(case, package) if row is not None and row.built_for_torch else ""


def _missing_library(case: Case) -> SignatureMatch | None:
    """The library that is spoken of: FFmpeg's only where nothing else is wrong.

    An extension that was to be compiled on first use is no library that could be installed.
    """
    built = {hit.order for hit in case.log.all("extension-not-built")}
    found = case.log.all("cannot-open-shared", "library-not-located")
    hits = [hit for hit in found if hit.order not in built]
    hits = [hit for hit in hits if "libbitsandbytes_" not in _library_name(hit)]
    others = [hit for hit in hits if not is_of_ffmpeg(_library_name(hit))]
    if hits and not others and case.log.has("undefined-symbol"):
        return None
    return next(iter(others or hits), None)


def check_system_library(case: Case) -> Iterator[Finding]:
    """A version of the C or C++ library that is not there: who needs it, and what has it."""
    hit = case.log.first("glibc-version")
    if hit is None:
        return
    version = hit.groups["v"]
    row = case.matrix.owners.runtimes.get(version)
    needed = hit.groups.get("needed", "")
    package = case.matrix.owners.package_of_file(needed) if needed else ""
    comes = say(" It came with GCC {gcc}.", gcc=row.gcc) if row is not None and row.gcc else ""
    has = say(" {systems} have it.", systems=row.systems) if row is not None and row.systems else ""
    named = {
        "package": package or re.split(r"[/\\]", needed)[-1] or "a compiled file",
        "came": f"{comes}{has}",
        "found": hit.groups.get("found", "the libstdc++ that was loaded"),
    }
    outcome = "glibc-too-old.needed" if version.startswith("GLIBC_") else "libstdcxx-mismatch"
    told = replace(hit, groups={**hit.groups, **named})
    yield make_finding(case, outcome, Status.FAIL, (told,))


_NVIDIA_LOCAL = re.compile(r"(?:^|\.)nv\d\d\.\d{1,2}")
_COMMIT = re.compile(r"(?!git)[0-9a-f]{7,12}(?:\.|\Z)")


def is_built_by_nvidia(facts: Facts) -> bool:
    """Whether torch is NVIDIA's own build, of its containers or for its boards.

    They are built from a commit between releases: ``2.6.0a0+ecf3bae40a.nv25.01``, in older ones
    without NVIDIA's letters.
    """
    torch = facts.environment.torch if facts.environment is not None else None
    version = torch.version if torch is not None else None
    if version is None:
        return False
    local = version.local or ""
    return (version.pre == ("a", 0) and (not local or _COMMIT.match(local) is not None)) or bool(
        _NVIDIA_LOCAL.search(local)
    )
