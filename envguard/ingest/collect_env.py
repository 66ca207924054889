"""``python -m torch.utils.collect_env`` of every era, and the longer forms of other projects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Distribution,
    Environment,
    Interpreter,
    Manager,
    TorchBuild,
    label_of_version,
)
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason, read_driver, read_gpus
from envguard.facts.machine import (
    Driver,
    Host,
    Machine,
    OperatingSystem,
    Platform,
    Reading,
    Toolkit,
)
from envguard.facts.sentences import say
from envguard.facts.variables import recorded_variables
from envguard.ingest.collect_env_fields import Block, split_blocks
from envguard.ingest.conda_list import conda_row, torch_of_conda
from envguard.ingest.gpu_list import GpuList, parse_gpu_list
from envguard.ingest.pip_list import build_of_metadata, parse_freeze_line, sort_distributions
from envguard.ingest.report_part import ReportPart, cuda_or_none, driver_or_none, version_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

    from envguard.facts.machine import Gpu


SOURCE = "collect_env"
_UNKNOWN = frozenset({"", "N/A", "Could not collect", "None"})
_GLIBC = re.compile(r"glibc-?([0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?)")
_IN_BRACKETS = re.compile(r" ?\(([A-Za-z0-9_]{2,12})\)$")
_ARCHITECTURES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "x64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
}
_ARCHITECTURE_WORD = re.compile(r"\b(x86_64|AMD64|x64|aarch64|ARM64|arm64)\b")
_SYSTEMS = (
    ("windows", OperatingSystem.WINDOWS),
    ("macos", OperatingSystem.MACOS),
    ("mac os", OperatingSystem.MACOS),
    ("darwin", OperatingSystem.MACOS),
    ("linux", OperatingSystem.LINUX),
)
# From these versions on Python asks the C library itself; before, it reads the newest symbol
# version that its own executable needs, which is only a lower bound.
# Source: CPython's platform.libc_ver (3.8) and platform.platform (3.9).
_TRUE_LIBC_VER = (3, 8)
_TRUE_PLATFORM = (3, 9)
# Until this release CUDA builds of the PyTorch index were for x86_64 only.
_FIRST_AARCH64_CUDA = (2, 4)


def host_of(
    block: Block, python: Version | None, torch: TorchBuild | None
) -> tuple[Host, tuple[Gap, ...]]:
    """The host of a report.

    Args:
        block: The report's fields.
        python: Its Python version, which decides what its glibc figures mean.
        torch: Its torch build; a labelled CUDA build tells the processor where nothing else does.
    """
    os_text, platform_text = block.text("os"), block.text("platform")
    system = _system(os_text, platform_text)
    arch = _arch(block) or _arch_of_build(system, torch)
    kernel = _kernel(platform_text)
    glibc, glibc_gaps = _glibc(block, system, python)
    host = Host(
        platform=Platform(system, arch) if system and arch else None,
        os_release=_release(os_text),
        kernel=kernel,
        glibc=glibc,
        is_wsl=_is_wsl(os_text, kernel),
        jetson="NVIDIA Tegra" if _is_tegra(block, kernel) else None,
    )
    gaps = glibc_gaps
    if host.platform is None:
        said = f"{os_text or 'no OS line'}; {platform_text or 'no platform line'}"
        detail = say("system and processor are not both stated ({stated})", stated=said)[:200]
        gaps = (*gaps, Gap("machine.host.platform", GapReason.UNREADABLE, SOURCE, detail))
    return host, gaps


def _system(*texts: str) -> OperatingSystem | None:
    for text in reversed(texts):  # the platform line names the system, the OS line a product
        low = text.lower()
        for word, system in _SYSTEMS:
            if word in low:
                return system
    known = [text for text in texts if text not in _UNKNOWN]
    return OperatingSystem.LINUX if known and _looks_like_linux(known[0]) else None


def _looks_like_linux(text: str) -> bool:
    words = ("ubuntu", "debian", "centos", "red hat", "rocky", "fedora", "suse", "alma", "arch")
    return any(word in text.lower() for word in words)


def _arch(block: Block) -> str | None:
    """The processor, from whichever line states it."""
    places = (
        block.text("os"),
        block.text("platform").replace("-", " "),
        block.text("architecture"),
        block.text("python"),  # Windows: [MSC v.1943 64 bit (AMD64)]
    )
    for place in places:
        if match := _ARCHITECTURE_WORD.search(place):
            return _ARCHITECTURES[match[1].lower()]
    return None


def _arch_of_build(system: OperatingSystem | None, torch: TorchBuild | None) -> str | None:
    """Old reports name no processor; a CUDA build with a label was made for few."""
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.version is None:
        return None
    if system is OperatingSystem.WINDOWS:
        return "x86_64"
    is_labelled = (torch.version.local or "").startswith("cu")
    is_old = torch.version.release < _FIRST_AARCH64_CUDA
    return "x86_64" if system is OperatingSystem.LINUX and is_labelled and is_old else None


def _is_wsl(os_text: str, kernel: str | None) -> bool | None:
    if "wsl" in os_text.lower() or (kernel and "microsoft" in kernel.lower()):
        return True
    return False if kernel else None


def _is_tegra(block: Block, kernel: str | None) -> bool:
    """Whether the kernel says so, or the GPU, which has another driver there."""
    gpus = " ".join(block.fields.get("gpus", [])[:4]).lower()
    return "tegra" in (kernel or "").lower() or "(nvgpu)" in gpus or "tegra" in gpus


def _release(text: str) -> str | None:
    """``Ubuntu 22.04.4 LTS (x86_64)`` without the processor."""
    if text in _UNKNOWN:
        return None
    match = _IN_BRACKETS.search(text)
    if match and match[1].lower() in {*_ARCHITECTURES, "ppc64le"}:
        return text[: match.start()].strip() or None
    return text


def _kernel(text: str) -> str | None:
    """The kernel in ``Linux-5.15.0-1037-aws-x86_64-with-glibc2.31``; None where it is left out."""
    if not text.startswith("Linux-"):
        return None
    head = text.partition("-with-")[0].removeprefix("Linux-")
    kernel, dash, _ = head.rpartition("-")
    return kernel if dash and kernel[:1].isdigit() else None


def _glibc(
    block: Block, system: OperatingSystem | None, python: Version | None
) -> tuple[Version | None, tuple[Gap, ...]]:
    """The C library's version, where the figure means what it says."""
    if system is not OperatingSystem.LINUX:
        return None, ()
    release = python.release[:2] if python else (0, 0)
    found = ""
    for name, first in (("libc", _TRUE_LIBC_VER), ("platform", _TRUE_PLATFORM)):
        match = _GLIBC.search(block.text(name))
        if match and release >= first:
            return version_or_none(match[1]), ()
        found = found or (match[1] if match else "")
    reason, detail = GapReason.ABSENT, say("the report does not state it")
    if "musl" in block.text("platform"):
        detail = say("the system's C library is musl")
    elif found:
        reason = GapReason.UNREADABLE
        detail = say(
            "{glibc} is what the interpreter was linked for; the system's may be newer", glibc=found
        )
    return None, (Gap("machine.host.glibc", reason, SOURCE, detail),)


_NOT_IMPORTABLE = frozenset({"", "N/A", "Could not collect", "None"})
# ``torch.version.cuda is None`` is printed as None, or as "Could not collect" where nvidia-smi
# or nvcc answered; "N/A" stands for a ROCm build or a torch that could not be imported.
_NO_CUDA = frozenset({"None", "Could not collect", "No CUDA"})
_NO_ROCM = frozenset({"", "N/A", "None", "Could not collect"})


def environment_of(
    block: Block, interpreter: Interpreter | None
) -> tuple[Environment, tuple[Gap, ...]]:
    """The environment of a report.

    Torch is the one that was imported; the package lines say what the metadata say, which can
    be another version. Where torch could not be imported, the metadata are all there is.

    Args:
        block: The report's fields.
        interpreter: Its interpreter.
    """
    distributions = _distributions(block)
    torch, gaps = _torch(block, distributions or ())
    if distributions is not None:
        detail = "only the packages that collect_env looks for are listed"
        gaps = (*gaps, Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail))
    elif block.packages:
        detail = "neither pip nor conda could be asked there"
        gaps = (*gaps, Gap("environment.distributions", GapReason.UNREADABLE, SOURCE, detail))
    environment = Environment(interpreter, distributions, torch, manager=_manager(block))
    return environment, gaps


def _manager(block: Block) -> Manager | None:
    if block.has_uv or any(tag == "uv" for tag, _ in block.packages):
        return Manager.UV
    rows = [conda_row(text) for tag, text in block.packages if tag == "conda"]
    by_conda = any(
        row and row.distribution.name == "torch" and row.distribution.installer == "conda"
        for row in rows
    )
    return Manager.CONDA if by_conda else None


def _distributions(block: Block) -> tuple[Distribution, ...] | None:
    """Both lists in one; of one name with two versions, pip's word stands first."""
    frozen = [parse_freeze_line(text) for tag, text in block.packages if tag != "conda"]
    rows = [conda_row(text) for tag, text in block.packages if tag == "conda"]
    found = [distribution for distribution in frozen if distribution]
    listed = {_public(distribution) for distribution in found}
    found += [r.distribution for r in rows if r and _public(r.distribution) not in listed]
    has_list = any(text.startswith("No relevant") for _, text in block.packages)
    vllm = version_or_none(block.text("vllm").split(" ")[0])
    if vllm is not None and not any(d.name == "vllm" for d in found):
        found.append(Distribution("vllm", vllm))
    return sort_distributions(found) if found or has_list else None


def _public(distribution: Distribution) -> tuple[str, str | None]:
    """Name and public version: what pip and conda agree on, as conda may leave the label out."""
    return distribution.name, distribution.version.public if distribution.version else None


def _torch(
    block: Block, distributions: tuple[Distribution, ...]
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    text = block.text("torch")
    version = version_or_none(text)
    if version is None:
        return _torch_of_metadata(block, text, distributions)
    accelerator, cuda_text = _accelerator(block, text)
    build = TorchBuild(
        version=version,
        accelerator=accelerator,
        cuda=cuda_or_none(cuda_text) if accelerator is Accelerator.CUDA else None,
        origin=BuildOrigin.REPORT,
    )
    if accelerator is None:
        detail = say("CUDA used to build PyTorch: {cuda}", cuda=block.text("cuda") or "not stated")
        return build, (Gap("environment.torch.cuda", GapReason.UNREADABLE, SOURCE, detail),)
    return build, ()


def _accelerator(block: Block, version: str) -> tuple[Accelerator | None, str]:
    """What the build drives, and the text of its CUDA release."""
    cuda, rocm, xpu = block.text("cuda"), block.text("rocm"), block.text("xpu")
    label = label_of_version(version_or_none(version))
    if rocm not in _NO_ROCM:
        return Accelerator.ROCM, ""
    if cuda_or_none(cuda) is not None:
        return Accelerator.CUDA, cuda
    if label.accelerator is Accelerator.XPU or xpu not in _NO_ROCM:
        return Accelerator.XPU, ""
    if cuda in _NO_CUDA:
        return Accelerator.CPU, ""
    return label.accelerator, str(label.cuda or "")


def _torch_of_metadata(
    block: Block, text: str, distributions: tuple[Distribution, ...]
) -> tuple[TorchBuild | None, tuple[Gap, ...]]:
    """The build where no torch was imported."""
    conda = [text for tag, text in block.packages if tag == "conda"]
    listed = next((d for d in distributions if d.name == "torch"), None)
    build = build_of_metadata(listed) if listed else None
    if build is not None and build.accelerator is None:
        build = torch_of_conda(conda) or build
    if "torch" not in block.fields:
        return build, ()
    if text not in _NOT_IMPORTABLE:
        detail = say("PyTorch version: {text!r} is no version", text=text[:80])
        return build, (Gap("environment.torch", GapReason.UNREADABLE, SOURCE, detail),)
    fact = "environment.torch" if build is None else "environment.torch.imported"
    detail = say("torch could not be imported there")
    return build, (Gap(fact, GapReason.ABSENT, SOURCE, detail),)


_PYTHON = re.compile(r"([0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?(?:(?:a|b|rc)[0-9]{1,3})?)")
_DOTTED = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,6})+")
_LIBRARY = re.compile(r"NVML library version:? ([0-9.]{3,20})")


def parse_collect_env(lines: Iterable[str]) -> tuple[ReportPart, ...]:
    """Read every report in a text.

    ``CUDA runtime version`` is nvcc's: the toolkit, not what torch was built with.

    Args:
        lines: Cleaned lines; anything around the reports is passed over.

    Returns:
        One part for each report; empty when there is none. What the report could not
        collect is a gap with the reason, what its form does not have is none.
    """
    return tuple(part_of_block(block) for block in split_blocks(lines))


def part_of_block(block: Block) -> ReportPart:
    """What the fields of one report state, with the gaps of what it could not collect."""
    driver, driver_readings, driver_gaps = _driver(block)
    listed = _gpus(block)
    toolkit, toolkit_gaps = _toolkit(block)
    interpreter = _interpreter(block.text("python"))
    environment, environment_gaps = environment_of(block, interpreter)
    version = interpreter.version if interpreter else None
    host, host_gaps = host_of(block, version, environment.torch)
    readings = read_driver(driver, SOURCE) + driver_readings + _availability(block)
    gaps = (*driver_gaps, *toolkit_gaps, *host_gaps, *environment_gaps)
    if listed is not None and listed.gpus is None:
        gaps = (*gaps, Gap("machine.gpus", listed.reason, SOURCE, listed.detail))
    gpus: tuple[Gpu, ...] | None = listed.gpus if listed else None
    if gpus is not None:
        readings += read_gpus(gpus, SOURCE)
    machine = Machine(
        host=host,
        driver=driver,
        gpus=gpus,
        toolkit=toolkit,
        variables=recorded_variables(_variables(block)),
        readings=readings,
    )
    return ReportPart(block.line, Facts(machine, environment, gaps))


def _availability(block: Block) -> tuple[Reading, ...]:
    """What torch itself found: on that machine, with that build, CUDA works or does not."""
    words = {"yes": "True", "true": "True", "no": "False", "false": "False"}
    word = words.get(block.text("available").lower())
    return (Reading("torch.cuda.is_available", word, SOURCE),) if word else ()


def _variables(block: Block) -> dict[str, str]:
    allocator = block.text("allocator")
    config = {"PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator not in {"", "N/A"} else {}
    return {**config, **block.variables}


def _gpus(block: Block) -> GpuList | None:
    return parse_gpu_list(block.fields["gpus"]) if "gpus" in block.fields else None


def _driver(block: Block) -> tuple[Driver, tuple[Reading, ...], tuple[Gap, ...]]:
    """The driver; a complaint of nvidia-smi in the place of the GPUs tells of it too."""
    values = [text for text in block.fields.get("driver", []) if text]
    versions = [version for text in values if (version := driver_or_none(text))]
    listed = _gpus(block)
    complaint = listed if listed and listed.gpus is None else None
    library = _LIBRARY.search(" ".join([*block.fields.get("gpus", []), *values]))
    driver = Driver(
        version=versions[0] if versions else None,
        user_mode_version=driver_or_none(library[1]) if library else None,
        is_loaded=True if versions else None,
    )
    if versions or "driver" not in block.fields:
        others = dict.fromkeys(str(v) for v in versions[1:] if v != versions[0])
        return driver, tuple(Reading("driver.version", v, SOURCE) for v in others), ()
    return driver, (), (_driver_gap(values, complaint),)


def _driver_gap(values: list[str], complaint: GpuList | None) -> Gap:
    fact = "machine.driver.version"
    if complaint is not None and complaint.reason is GapReason.MISMATCH:
        return Gap(fact, complaint.reason, SOURCE, complaint.detail)
    said = parse_gpu_list(values or [""])
    if said.gpus is None:
        return Gap(fact, said.reason, SOURCE, said.detail)
    # a word that is no version reads as a GPU's name
    detail = say("{value!r} is no driver version", value=values[0][:80])
    return Gap(fact, GapReason.UNREADABLE, SOURCE, detail)


def _toolkit(block: Block) -> tuple[Toolkit, tuple[Gap, ...]]:
    nvcc, gcc = block.text("nvcc"), block.text("gcc")
    toolkit = Toolkit(nvcc=cuda_or_none(nvcc), gcc=gcc_version(gcc))
    gaps = [
        Gap(
            f"machine.toolkit.{name}",
            GapReason.ABSENT,
            SOURCE,
            say("{program} did not answer there", program=program),
        )
        for name, program, value in (("nvcc", "nvcc", toolkit.nvcc), ("gcc", "gcc", toolkit.gcc))
        if name in block.fields and value is None
    ]
    return toolkit, tuple(gaps)


def gcc_version(text: str) -> Version | None:
    """The compiler's version in ``(Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0``.

    The number after the distribution's own word counts; where there is none, the first.
    """
    depth, outside = 0, []
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        outside.append(character if depth == 0 else " ")
    match = _DOTTED.search("".join(outside)) or _DOTTED.search(text)
    return version_or_none(match[0]) if match else None


def _interpreter(text: str) -> Interpreter | None:
    """The interpreter in ``3.8.10 (default, Jun 22 2022) [GCC 9.4.0] (64-bit runtime)``."""
    match = _PYTHON.match(text)
    if match is None:
        return None
    is_full = "[" in text  # sys.version, which old reports leave out
    return Interpreter(
        version=version_or_none(match[1]),
        implementation=("pypy" if "[PyPy" in text else "cpython") if is_full else None,
        is_free_threaded="free-threading" in text if is_full else None,
    )
