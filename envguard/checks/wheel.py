"""The wheel family: is torch there, built for NVIDIA GPUs, and published for this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    cuda_build,
    driver_evidence,
    gpu_words,
    torch_evidence,
    torch_words,
)
from envguard.checks.presence import has_driver
from envguard.checks.remedies import install_remedy
from envguard.facts.environment import Accelerator, BuildOrigin, Manager
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import CPU, Backend
from envguard.fit import grade_code, needs_own_code
from envguard.matrix.complete import capability_of, possible_platforms
from envguard.matrix.picks import is_about_torch, requirers_of_torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.version import Version

    from envguard.facts.environment import Environment, TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.findings import Source
    from envguard.facts.gaps import Gap
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow, TorchRelease


_BOARD = Platform(OperatingSystem.LINUX, "aarch64")


def _is_server_build(torch: TorchBuild) -> bool:
    """From PyPI or the PyTorch index; NVIDIA's builds for Jetson carry no CUDA label."""
    if torch.version is None or torch.version.is_devrelease:
        return False
    local = torch.version.local
    if local is not None:
        return local.startswith("cu")
    is_imported = not torch.is_to_install and torch.origin is not BuildOrigin.METADATA
    return not is_imported and torch.index_url is None


def check_jetson_build(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Code for the board's GPU in a build for servers, where no list of GPUs is known."""
    board, build = facts.machine.host.jetson, cuda_build(facts)
    if not board or facts.machine.gpus or build is None or not _is_server_build(build[0]):
        return
    torch, cuda = build
    row = _row_of(torch, matrix)
    capability, trouble = capability_of(board, matrix)
    if row is None or row.targets is None or capability is None:
        why = trouble or say(
            "the matrix holds no row about what {torch} contains", torch=torch_words(torch)
        )
        yield _unknown(torch, board, why)
        return
    fit = grade_code(row.targets, capability, cuda, can_jit=None, is_ptx_known=row.is_ptx_known)
    if not fit.grade.runs:
        yield _missing(torch, board, str(capability), row.provenance.source)


def _row_of(torch: TorchBuild, matrix: Matrix) -> TorchBuildRow | None:
    if torch.version is None or torch.backend is None:
        return None
    return matrix.torch.build(torch.version, torch.backend, _BOARD)


def _evidence(torch: TorchBuild, board: str) -> tuple[Evidence, ...]:
    return (*torch_evidence(torch), Evidence("host.jetson", board, "device-tree"))


JETSON_REMEDY = Remedy(
    "install torch from NVIDIA's index for this JetPack release; builds for CUDA 13.2 and later "
    "run on Jetson Orin as they are"
)


def _missing(torch: TorchBuild, board: str, capability: str, source: Source) -> Finding:
    return Finding(
        code="GPU006",
        cause="jetson-needs-l4t-build",
        status=Status.FAIL,
        title=say(
            "{torch} is built for ARM servers and has no code for {board}",
            torch=torch_words(torch),
            board=board,
        ),
        detail=say(
            "Compute capability {capability} runs only code made for itself. The first "
            "kernel fails with 'no kernel image is available'.",
            capability=capability,
        ),
        package="torch",
        evidence=_evidence(torch, board),
        remedy=JETSON_REMEDY,
        source=source,
    )


def _unknown(torch: TorchBuild, board: str, why: str) -> Finding:
    return Finding(
        code="GPU011",
        cause="arch-not-known",
        status=Status.UNKNOWN,
        title=say("cannot tell whether {torch} runs on this Jetson", torch=torch_words(torch)),
        detail=say("It is a build for ARM servers; {reason}.", reason=why),
        package="torch",
        evidence=_evidence(torch, board),
        remedy=Remedy(say("state --compute-capability; or {remedy}", remedy=JETSON_REMEDY.text)),
    )


def cpu_build_finding(
    facts: Facts, matrix: Matrix, torch: TorchBuild, options: CheckOptions
) -> Finding:
    """Judge a CPU build by what is known of the machine's GPUs.

    Args:
        facts: Completed facts.
        matrix: The tables.
        torch: The build.
        options: What the user insists on.
    """
    beside = _beside(facts, options)
    if beside and (board := _board(facts)):
        return _not_for_board(facts, torch, board)
    if beside:
        return _wasted(facts, matrix, torch, beside)
    better = _missed_backend(facts, matrix, torch) if facts.machine.gpus is None else None
    if better is not None:
        return _may_be_wasted(facts, matrix, torch, better, options)
    return Finding(
        code="WHL005",
        cause="cpu-build",
        status=Status.OK,
        title=say("{torch} is a CPU build", torch=torch_words(torch)),
        detail=say("It runs without a GPU{reason}; no GPU is known here.", reason=_why(torch)),
        package="torch",
        evidence=torch_evidence(torch),
    )


def _why(torch: TorchBuild) -> str:
    derived = torch.version is None or torch.version.local is None
    return " (PyPI holds only a CPU build for this platform)" if derived else ""


def _beside(facts: Facts, options: CheckOptions) -> str:
    """What the build stands beside, so that it is wasted; empty when nothing is known."""
    machine = facts.machine
    if machine.selected_gpus:
        return say("beside {gpu}", gpu=gpu_words(machine.selected_gpus))
    if machine.gpus is None and machine.host.jetson:
        return say("on a {board}, which has a GPU", board=machine.host.jetson)
    if machine.gpus is None and has_driver(machine):
        named = machine.driver.version or say("for CUDA {cuda}", cuda=machine.driver.cuda)
        return say("beside the NVIDIA driver {driver}", driver=named)
    return "where a GPU is required" if options.require_gpu else ""


def _board(facts: Facts) -> str:
    """The Jetson that the machine is, whose torch comes from NVIDIA only; empty for another."""
    gpus = facts.machine.selected_gpus
    own = [g for g in gpus if g.capability is not None and needs_own_code(g.capability)]
    if own and len(own) == len(gpus):
        return own[0].name or say(
            "a Jetson of compute capability {capability}", capability=own[0].capability
        )
    return facts.machine.host.jetson or "" if not gpus else ""


def _not_for_board(facts: Facts, torch: TorchBuild, board: str) -> Finding:
    return Finding(
        code="GPU006",
        cause="jetson-needs-l4t-build",
        status=Status.FAIL,
        title=say("{torch} is a CPU build on {board}", torch=torch_words(torch), board=board),
        detail=say(
            "It never uses a GPU{reason}, and a CUDA build for ARM servers has no code for "
            "this board's.",
            reason=_why(torch),
        ),
        gpus=tuple(gpu.index for gpu in facts.machine.selected_gpus),
        package="torch",
        evidence=torch_evidence(torch),
        remedy=JETSON_REMEDY,
    )


def _wasted(facts: Facts, matrix: Matrix, torch: TorchBuild, beside: str) -> Finding:
    chosen = facts.machine.variable("UV_TORCH_BACKEND")
    by_uv = chosen == "auto" and torch.version is not None and torch.version.local == "cpu"
    detail = say("It never uses a GPU{reason}.", reason=_why(torch))
    if by_uv:
        detail = join_sentences(
            detail, "UV_TORCH_BACKEND=auto let uv choose, and uv did not find the GPU."
        )
    return Finding(
        code="WHL002",
        cause="resolver-auto-backend" if by_uv else "cpu-wheel-selected",
        status=Status.FAIL,
        title=say("{torch} is a CPU build {beside}", torch=torch_words(torch), beside=beside),
        detail=detail,
        gpus=tuple(gpu.index for gpu in facts.machine.selected_gpus),
        package="torch",
        evidence=(*torch_evidence(torch), *driver_evidence(facts), *_chosen(chosen)),
        remedy=Remedy("name the backend: uv pip install --torch-backend cu128 ...")
        if by_uv
        else None,
        source=matrix.machines.source("uv-auto") if by_uv else _row_source(facts, matrix, torch),
    )


def _chosen(value: str | None) -> tuple[Evidence, ...]:
    return (Evidence("variables.UV_TORCH_BACKEND", value, "environment"),) if value else ()


def _row_source(facts: Facts, matrix: Matrix, torch: TorchBuild) -> Source | None:
    """Where PyPI's wheels of this release were read, for a build that came from there."""
    if torch.version is None or torch.version.local is not None:
        return None
    platforms = possible_platforms(facts.machine)
    row = matrix.torch.build(torch.version, CPU, platforms[0])
    return row.provenance.source if row else None


def _came_from_pypi(facts: Facts, torch: TorchBuild) -> bool:
    """PyPI's wheels carry no label in their metadata, whatever ``torch.__version__`` says."""
    environment = facts.environment
    found = environment.distribution("torch") if environment else None
    version = found.version if found else torch.version
    by_conda = environment is not None and environment.manager is Manager.CONDA
    return version is not None and version.local is None and not by_conda


def _missed_backend(facts: Facts, matrix: Matrix, torch: TorchBuild) -> Backend | None:
    """The newest CUDA build of the same release that the PyTorch index holds.

    Returns:
        None unless PyPI's wheel is a CPU build on every platform that this machine can be, and
        this build came from there.
    """
    release = matrix.torch.release(torch.version) if torch.version else None
    if release is None or not _came_from_pypi(facts, torch):
        return None
    platforms = possible_platforms(facts.machine)
    if any(release.pypi.get(platform) != CPU for platform in platforms):
        return None
    backends = {b for p in platforms for b in release.variants.get(p, ()) if b.cuda is not None}
    return max(
        backends, key=lambda b: (b.cuda.major, b.cuda.minor) if b.cuda else (0, 0), default=None
    )


def _may_be_wasted(
    facts: Facts, matrix: Matrix, torch: TorchBuild, better: Backend, options: CheckOptions
) -> Finding:
    platforms = " and ".join(str(platform) for platform in possible_platforms(facts.machine))
    public = torch.version.public if torch.version else ""
    url = matrix.torch.index_url(better, options.torch_index)
    is_driver_absent = facts.machine.driver.is_loaded is False
    return Finding(
        code="WHL006",
        cause="cpu-wheel-selected",
        status=Status.WARN if is_driver_absent else Status.FAIL,
        title=say(
            "{torch} is the CPU build that PyPI holds for {platforms}",
            torch=torch_words(torch),
            platforms=platforms,
        ),
        detail="It never uses a GPU. Nobody asked for a CPU build, and nothing says that the "
        "machine has no NVIDIA GPU. CUDA builds of this release are on the PyTorch index only.",
        package="torch",
        evidence=torch_evidence(torch),
        remedy=install_remedy(
            facts.environment,
            (f"torch=={public}+{better.label}",),
            index_url=url,
            text=say(
                "take a CUDA build such as {backend}; where the CPU is meant, pin "
                "torch=={version}+cpu",
                backend=better.label,
                version=public,
            ),
        ),
        source=_row_source(facts, matrix, torch),
    )


def check_torch_present(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """An environment without torch has nothing to judge, and that is said.

    One that could not be read is another matter: what it holds is not known.
    """
    environment = facts.environment
    if environment is None:
        return
    if environment.torch is not None:
        if environment.torch.origin is BuildOrigin.REQUIRED:
            yield _brought_along(environment, environment.torch, matrix)
        return
    unread = next((gap for gap in facts.gaps if _is_unread(gap)), None)
    if unread is not None:
        yield _not_read(unread)
        return
    if environment.distributions is None:
        return
    gap = facts.gap("environment.torch")
    if gap is not None and gap.reason is not GapReason.ABSENT:
        return  # a torch that is there and broken is something to judge
    wanted = dict(requirers_of_torch(environment, matrix)) if environment.is_open else {}
    if len({version.public for version in wanted.values()}) > 1:
        yield _contradicting(wanted)
        return
    if any(gap.reason is GapReason.MISMATCH and gap.fact in _BOUNDS for gap in facts.gaps):
        return  # not made for here: what it would hold elsewhere says nothing
    if environment.document is not None:
        unread = facts.gap("environment.distributions")
        yield _none_judged(environment, environment.document, gap or unread, matrix)
        return
    where = environment.interpreter.executable if environment.interpreter else None
    absent = "is not among the pins" if environment.is_open else "is not installed"
    yield Finding(
        code="WHL001",
        cause="nothing-to-judge",
        status=Status.OK,
        title=say("torch {what}: there is nothing to judge", what=absent),
        detail=say("looked at {places}", places=where) if where else "",
        package="torch",
    )


# What a file says of where it may be installed.
_BOUNDS = frozenset({"environment.interpreter", "environment.platform"})


def _none_judged(
    environment: Environment, document: str, gap: Gap | None, matrix: Matrix
) -> Finding:
    """A file without a torch: nothing in it concerns us, or nothing in it could be judged."""
    names = [
        found.name
        for found in environment.distributions or ()
        if is_about_torch(found, matrix) or found.name in matrix.machines.needs
    ]
    if not names and gap is None:
        return Finding(
            code="WHL001",
            cause="nothing-to-judge",
            status=Status.OK,
            title=say("{document} names nothing that needs torch or a GPU", document=document),
            package="torch",
        )
    why = say("{detail}. ", detail=gap.detail) if gap is not None else ""
    listed = ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
    named = say("It names {packages}, and no torch.", packages=listed) if names else ""
    return Finding(
        code="WHL017",
        cause="nothing-judged",
        status=Status.UNKNOWN,
        title=say("nothing in {document} could be judged", document=document),
        detail=join_sentences(
            say("{why}{named}", why=why, named=named),
            "Which torch they get, and whether it runs here, stands nowhere in it.",
        ),
        package="torch",
        evidence=tuple(
            Evidence(f"distribution[{name}]", "named", "document") for name in names[:8]
        ),
        remedy=Remedy("name torch in the file, or check the lock or the environment made from it"),
    )


def _brought_along(environment: Environment, torch: TorchBuild, matrix: Matrix) -> Finding:
    requirers = ", ".join(dict(requirers_of_torch(environment, matrix)))
    return Finding(
        code="WHL012",
        cause="torch-required-by-pins",
        status=Status.OK,
        title=say(
            "{torch} is judged: {packages} brings it along",
            torch=torch_words(torch),
            packages=requirers,
        ),
        detail="The pins name no torch. One that is there already and is kept (--no-deps) has to "
        "be stated.",
        package="torch",
        evidence=torch_evidence(torch),
    )


def _contradicting(wanted: Mapping[str, Version]) -> Finding:
    listed = join_sentences(
        *(
            say("{package} requires torch {version}", package=words, version=version)
            for words, version in wanted.items()
        ),
        by=", ",
    )
    return Finding(
        code="WHL013",
        cause="contradicting-pins",
        status=Status.FAIL,
        title="no torch satisfies all pins",
        detail=say(
            "{listed}. An installer refuses them together; forced, all but one of them are "
            "beside a torch that they were not compiled against.",
            listed=listed,
        ),
        package="torch",
        evidence=tuple(
            Evidence(f"{words.split()[0]}.requires.torch", str(version), "metadata")
            for words, version in wanted.items()
        ),
        remedy=Remedy(
            "pin companions that were released for one torch; `envguard lock` chooses them"
        ),
    )


# Reasons for which an environment that is there could not be read.
_UNREAD = frozenset(
    {GapReason.CRASHED, GapReason.TIMED_OUT, GapReason.UNREADABLE, GapReason.FORBIDDEN}
)


def _is_unread(gap: Gap) -> bool:
    places = {"environment", "environment.interpreter", "environment.distributions"}
    return gap.fact in places and gap.reason in _UNREAD


def _not_read(gap: Gap) -> Finding:
    return Finding(
        code="WHL011",
        cause="environment-not-read",
        status=Status.UNKNOWN,
        title="the environment could not be read",
        detail=say("{detail}. What it holds is not known.", detail=gap.detail or gap.reason.value),
        evidence=(Evidence(gap.fact, gap.reason.value, gap.probe),),
        remedy=Remedy(
            "run that interpreter by hand (`python -c ''`) and repair what it says, or name "
            "another one with --python"
        ),
    )


def check_accelerator(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A CPU build beside a GPU, and builds for other vendors."""
    torch = facts.environment.torch if facts.environment else None
    if torch is None:
        return
    match torch.accelerator:
        case Accelerator.CPU:
            yield cpu_build_finding(facts, matrix, torch, options)
        case Accelerator.ROCM | Accelerator.XPU | Accelerator.MPS:
            yield _other_accelerator(facts, torch, torch.accelerator)
        case Accelerator.CUDA:
            return
        case None:
            yield _build_not_known(facts, matrix, torch)


def _other_accelerator(facts: Facts, torch: TorchBuild, accelerator: Accelerator) -> Finding:
    """Outside what is judged; but beside NVIDIA GPUs it is certain that none of them is used."""
    gpus = facts.machine.selected_gpus
    beside = say(" and uses no NVIDIA GPU: {gpu}", gpu=gpu_words(gpus)) if gpus else ""
    return Finding(
        code="WHL003",
        cause="other-accelerator",
        status=Status.FAIL if gpus else Status.SKIP,
        title=say(
            "{torch} is a build for {vendor}{beside}",
            torch=torch_words(torch),
            vendor=_VENDORS[accelerator],
            beside=beside,
        ),
        detail="envguard judges builds for NVIDIA GPUs and for the CPU; whether this one runs on "
        "other hardware is not judged.",
        gpus=tuple(gpu.index for gpu in gpus),
        package="torch",
        evidence=torch_evidence(torch),
    )


_VENDORS = {
    Accelerator.ROCM: "AMD GPUs (ROCm)",
    Accelerator.XPU: "Intel GPUs (XPU)",
    Accelerator.MPS: "Apple GPUs (MPS)",
}


def _build_not_known(facts: Facts, matrix: Matrix, torch: TorchBuild) -> Finding:
    detail, remedy = _why_not_known(facts, matrix, torch)
    return Finding(
        code="WHL004",
        cause="torch-build-not-known",
        status=Status.UNKNOWN,
        title=say("cannot tell which build {torch} is", torch=torch_words(torch)),
        detail=detail,
        package="torch",
        evidence=torch_evidence(torch),
        remedy=Remedy(remedy),
    )


_READ_IT = "let envguard read the installed one: --python PATH"


def _why_not_known(facts: Facts, matrix: Matrix, torch: TorchBuild) -> tuple[str, str]:
    """What keeps a build from being told, and what would help."""
    version = torch.version
    if version is None:
        is_pinned = facts.environment is not None and facts.environment.document is not None
        pin = say("pin it in the file, or lock it (`envguard lock -r FILE`) and check the lock")
        return "Its version is not known.", pin if is_pinned else _READ_IT
    if version.local is not None:
        return (
            say("Its label, {label}, names no CUDA release.", label=version.local),
            _READ_IT,
        )
    pin = say("pin it with its label: torch=={version}+cu...", version=version.public)
    if matrix.torch.release(version) is None:
        known = [release.version for release in matrix.torch.releases]
        return say(
            "The tables know torch {oldest} to {newest}, not this release.",
            oldest=min(known),
            newest=max(known),
        ), pin
    platforms = possible_platforms(facts.machine)
    served = {platform: matrix.torch.pypi_backend(version, platform) for platform in platforms}
    listed = join_sentences(
        *(
            say("{build} on {platform}", build=build, platform=platform)
            for platform, build in served.items()
            if build
        ),
        by=", ",
    )
    if len(platforms) > 1 and listed:
        detail = say("PyPI serves another build for each platform: {listed}.", listed=listed)
        return detail, say("state the platform: --platform {platform}", platform=platforms[0])
    return "Neither its version nor its origin names a CUDA release.", pin


def _pinned(facts: Facts, matrix: Matrix) -> tuple[TorchBuild, TorchRelease] | None:
    """A torch to be installed, of a release that the tables know.

    What is installed runs, or fails for other reasons; it needs no wheel.
    """
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.version is None or not torch.is_to_install:
        return None
    found = facts.environment.distribution("torch") if facts.environment else None
    if found is not None and found.installer == "conda":
        return None  # conda has builds of its own
    release = matrix.torch.release(torch.version)
    return (torch, release) if release is not None else None


def check_build_published(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A pinned build that no index holds for the platform."""
    pinned = _pinned(facts, matrix)
    if pinned is None:
        return
    found = [_missing_on(p, *pinned, matrix) for p in possible_platforms(facts.machine)]
    if found[0] is not None and None not in found:  # nowhere, where the platform is not stated
        yield found[0]


def _missing_on(
    platform: Platform, torch: TorchBuild, release: TorchRelease, matrix: Matrix
) -> Finding | None:
    builds = matrix.torch.builds(release.version, platform)
    if not builds:
        return _no_platform(torch, platform, release)
    if torch.backend is not None and not _is_published(torch, release, platform, builds):
        return _no_backend(torch, platform, release, builds)
    return None


def _is_published(
    torch: TorchBuild, release: TorchRelease, platform: Platform, builds: tuple[TorchBuildRow, ...]
) -> bool:
    if platform.system is OperatingSystem.MACOS:
        return torch.cuda is None  # its wheels carry no label, and CUDA is not made for it
    rumoured = release.unverified.get(platform, ())
    return torch.backend in {*(build.backend for build in builds), *rumoured}


def _no_platform(torch: TorchBuild, platform: Platform, release: TorchRelease) -> Finding:
    return Finding(
        code="WHL007",
        cause="no-wheel-for-platform",
        status=Status.FAIL if release.provenance.is_firm else Status.WARN,
        title=say(
            "no wheel of torch {version} is published for {platform}",
            version=release.version,
            platform=platform,
        ),
        detail="pip finds no matching distribution.",
        package="torch",
        evidence=(*torch_evidence(torch), Evidence("host.platform", str(platform), "stated")),
        source=release.provenance.source,
    )


def _no_backend(
    torch: TorchBuild, platform: Platform, release: TorchRelease, builds: tuple[TorchBuildRow, ...]
) -> Finding:
    listed = ", ".join(build.backend.label for build in builds)
    pins = ", ".join(f"torch=={build.label}" for build in builds)
    is_firm = all(build.is_verified for build in builds)
    return Finding(
        code="WHL008",
        cause="resolver-local-version",
        status=Status.FAIL if is_firm else Status.WARN,
        title=say(
            "{torch} does not exist for {platform}", torch=torch_words(torch), platform=platform
        ),
        detail=say(
            "torch {version} is published there as {listed}.",
            version=release.version,
            listed=listed,
        ),
        package="torch",
        evidence=torch_evidence(torch),
        remedy=Remedy(
            say(
                "pin {one_of}{pins}, or a release that has this build",
                one_of="one of " * (len(builds) > 1),
                pins=pins,
            )
        ),
        source=release.provenance.source,
    )


def _rows(facts: Facts, matrix: Matrix) -> tuple[TorchBuildRow, ...]:
    """The pinned build on every platform that the machine can be; empty where one is missing."""
    pinned = _pinned(facts, matrix)
    backend = pinned[0].backend if pinned else None
    if pinned is None or backend is None:
        return ()
    found = [
        matrix.torch.build(pinned[1].version, backend, platform)
        for platform in possible_platforms(facts.machine)
    ]
    return tuple(row for row in found if row is not None) if None not in found else ()


def check_python_tag(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The wheels of a pinned build against the Python that is to run it."""
    interpreter = facts.environment.interpreter if facts.environment else None
    tag = interpreter.python_tag if interpreter else None
    rows = _rows(facts, matrix)
    if tag is None or not rows or any(not row.pythons or tag in row.pythons for row in rows):
        return
    torch = facts.environment.torch if facts.environment else None
    named = torch_words(torch) if torch else "torch"
    listed = " ".join(rows[0].pythons)
    python = interpreter.version if interpreter else None
    yield Finding(
        code="WHL009",
        cause="no-wheel-for-python",
        status=Status.FAIL if all(row.is_verified for row in rows) else Status.WARN,
        title=say(
            "no wheel of {torch} is published for Python {python} ({tag})",
            torch=named,
            python=python,
            tag=tag,
        ),
        detail=say(
            "There are wheels for {listed}. pip says 'no matching distribution found'.",
            listed=listed,
        ),
        package="torch",
        evidence=(
            *(torch_evidence(torch) if torch else ()),
            Evidence("interpreter.version", str(python), "stated"),
        ),
        remedy=Remedy(_python_remedy(tag, rows, matrix)),
        source=rows[0].provenance.source,
    )


def _python_remedy(tag: str, rows: tuple[TorchBuildRow, ...], matrix: Matrix) -> str:
    """Which release has wheels for this Python: the nearest newer one, else the nearest older."""
    backends = {row.backend for row in rows}
    having = sorted(
        {
            build.version
            for build in matrix.torch.builds(platform=rows[0].platform)
            if tag in build.pythons and (build.backend in backends or build.is_on_pypi)
        }
    )
    newer = [version for version in having if version > rows[0].version]
    nearest: Version | None = newer[0] if newer else having[-1] if having else None
    python = say("use a Python of {tags}", tags=" ".join(rows[0].pythons))
    return (
        say(
            "{python}, or torch {nearest}, which has wheels for {tag}",
            python=python,
            nearest=nearest,
            tag=tag,
        )
        if nearest
        else python
    )


def check_c_library(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The C library that the wheels of a pinned build need against the system's."""
    rows = _rows(facts, matrix)
    torch = facts.environment.torch if facts.environment else None
    if not rows or torch is None:
        return
    glibc = facts.machine.host.glibc
    needed = min((row.glibc for row in rows if row.glibc is not None), default=None)
    gap = facts.gap("machine.host.glibc")
    is_other = gap is not None and gap.reason is GapReason.ABSENT and "musl" in gap.detail
    if needed is None or not (is_other or (glibc is not None and glibc < needed)):
        return
    has = say("glibc {glibc}", glibc=glibc) if glibc else "another C library (musl)"
    yield Finding(
        code="WHL010",
        cause="glibc-too-old",
        status=Status.FAIL,
        title=say(
            "{torch} needs glibc {needed}, and this system has {found}",
            torch=torch_words(torch),
            needed=needed,
            found=has,
        ),
        detail="pip finds no wheel that this system may install.",
        package="torch",
        evidence=(
            *torch_evidence(torch),
            Evidence("host.glibc", str(glibc) if glibc else "absent", "host"),
        ),
        remedy=Remedy(say("use a system or image with glibc {needed} or newer", needed=needed)),
        source=rows[0].provenance.source,
    )
