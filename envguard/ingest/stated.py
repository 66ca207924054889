"""Facts that the user states as options; what is stated wins over what is read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Environment, Interpreter
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Gpu, Platform, Reading
from envguard.facts.sentences import say
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from envguard.facts.machine import Machine

T = TypeVar("T")
STATED = "stated"

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([KMGT]?)(i?B?)", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_GLIBC = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,5})?", re.ASCII)
_PYTHON = re.compile(r"(\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)(t?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class StatedMachine:
    """What the user states about a machine, parsed; None and empty are not stated.

    Args:
        gpus: Product names.
        capabilities: Compute capabilities, one per GPU.
        driver: Driver version.
        cuda_driver: CUDA API version of the driver.
        nvcc: Release of the CUDA toolkit.
        platform: System and processor.
        glibc: Version of the GNU C library.
        python: Python version, possibly of two parts.
        is_free_threaded: The Python is the build without the GIL.
        ram_bytes: Host memory.
    """

    gpus: tuple[str, ...] = ()
    capabilities: tuple[ComputeCapability, ...] = ()
    driver: DriverVersion | None = None
    cuda_driver: CudaVersion | None = None
    nvcc: CudaVersion | None = None
    platform: Platform | None = None
    glibc: Version | None = None
    python: Version | None = None
    is_free_threaded: bool = False
    ram_bytes: int | None = None

    @property
    def is_other_machine(self) -> bool:
        """GPUs or a platform describe another machine: nothing is filled in from this one."""
        return bool(self.gpus or self.capabilities or self.platform)


def parse_stated(
    *,
    gpu: Sequence[str] = (),
    compute_capability: Sequence[str] = (),
    driver: str | None = None,
    cuda_driver: str | None = None,
    nvcc: str | None = None,
    platform: str | None = None,
    glibc: str | None = None,
    python_version: str | None = None,
    ram: str | None = None,
) -> StatedMachine:
    """Parse what was typed; every argument is the text of the option of the same name.

    Raises:
        InputError: A text is not what its option takes; the message names option and value.
    """
    python, threaded = _option("--python-version", python_version, _parse_python) or (None, False)
    return StatedMachine(
        gpus=tuple(_gpu_name(name) for name in gpu),
        capabilities=tuple(
            _required("--compute-capability", text, ComputeCapability.parse)
            for text in compute_capability
        ),
        driver=_option("--driver", driver, DriverVersion.parse),
        cuda_driver=_option("--cuda-driver", cuda_driver, CudaVersion.parse),
        nvcc=_option("--nvcc", nvcc, CudaVersion.parse),
        platform=_option("--platform", platform, Platform.parse),
        glibc=_option("--glibc", glibc, _parse_glibc),
        python=python,
        is_free_threaded=threaded,
        ram_bytes=_option("--ram", ram, parse_size),
    )


def _gpu_name(name: str) -> str:
    stripped = " ".join(name.split())
    if not stripped:
        raise InputError("--gpu: the name is empty")
    return stripped


def _required(option: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as err:
        raise InputError(f"{option}: {err}") from err


def _option(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    return None if text is None else _required(option, text, parse)


def _parse_python(text: str) -> tuple[Version, bool]:
    match = _PYTHON.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a Python version such as 3.12")
    return Version(match[1]), match[2] == "t"


def _parse_glibc(text: str) -> Version:
    if not _GLIBC.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a glibc version such as 2.31")
    return Version(text.strip())


def parse_size(text: str) -> int:
    """Read a memory size in bytes: ``256G``, ``256GiB``, ``64000M``; units are powers of 1024.

    Raises:
        ValueError: The text is no size, or zero.
    """
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size <= 0:
        raise ValueError(f"{text!r} is not a memory size such as 256G")
    return size


def apply_stated(facts: Facts, stated: StatedMachine) -> tuple[Facts, tuple[str, ...]]:
    """Lay what is stated over facts.

    Args:
        facts: Read from a file or this machine; empty for a machine that is only stated.
        stated: Wins over them.

    Returns:
        The facts, and one remark for each fact that was overruled.
    """
    machine, notes = facts.machine, []
    for label, old, new in _pairs(machine, stated):
        if old is not None and new is not None and str(old) != str(new):
            notes.append(
                say("{label} {new} is stated and overrules {old}", label=label, new=new, old=old)
            )
    host = replace(
        machine.host,
        platform=stated.platform or machine.host.platform,
        glibc=stated.glibc or machine.host.glibc,
    )
    driver = replace(
        machine.driver,
        version=stated.driver or machine.driver.version,
        # an API version that was read belongs to the driver that was read with it
        cuda=stated.cuda_driver or (None if stated.driver else machine.driver.cuda),
        is_loaded=True if stated.driver or stated.cuda_driver else machine.driver.is_loaded,
    )
    toolkit = replace(machine.toolkit, nvcc=stated.nvcc or machine.toolkit.nvcc)
    limits = replace(machine.limits, ram_bytes=stated.ram_bytes or machine.limits.ram_bytes)
    gpus = _gpus(stated) if stated.gpus or stated.capabilities else machine.gpus
    overlaid = replace(
        machine,
        host=host,
        driver=driver,
        toolkit=toolkit,
        limits=limits,
        gpus=gpus,
        readings=_readings(machine.readings, stated),
    )
    gaps = tuple(gap for gap in facts.gaps if not _is_filled(gap, stated))
    environment = _with_python(facts.environment, stated)
    return replace(facts, machine=overlaid, environment=environment, gaps=gaps), tuple(notes)


def _pairs(machine: Machine, stated: StatedMachine) -> tuple[tuple[str, object, object], ...]:
    return (
        ("driver", machine.driver.version, stated.driver),
        ("CUDA driver version", machine.driver.cuda, stated.cuda_driver),
        ("nvcc", machine.toolkit.nvcc, stated.nvcc),
        ("platform", machine.host.platform, stated.platform),
        ("glibc", machine.host.glibc, stated.glibc),
        ("memory", machine.limits.ram_bytes, stated.ram_bytes),
    )


def _gpus(stated: StatedMachine) -> tuple[Gpu, ...]:
    """Names and capabilities are paired in order; one capability serves every name."""
    names: list[str | None] = [*stated.gpus]
    capabilities: list[ComputeCapability | None] = [*stated.capabilities]
    if names and len(capabilities) == 1:
        capabilities *= len(names)
    if names and capabilities and len(names) != len(capabilities):
        raise InputError(
            f"--gpu is given {len(names)} times and --compute-capability {len(capabilities)} "
            "times: give as many, or one capability for all"
        )
    count = max(len(names), len(capabilities))
    names += [None] * (count - len(names))
    capabilities += [None] * (count - len(capabilities))
    pairs = zip(names, capabilities, strict=True)
    return tuple(Gpu(i, name=name, capability=cc) for i, (name, cc) in enumerate(pairs))


def _readings(found: tuple[Reading, ...], stated: StatedMachine) -> tuple[Reading, ...]:
    overruled = {
        fact
        for fact, value in (
            ("driver.version", stated.driver),
            ("driver.cuda", stated.cuda_driver or stated.driver),
        )
        if value is not None
    }
    replaces_gpus = bool(stated.gpus or stated.capabilities)
    return tuple(
        reading
        for reading in found
        if reading.fact not in overruled and not (replaces_gpus and reading.fact.startswith("gpu["))
    )


def _is_filled(gap: Gap, stated: StatedMachine) -> bool:
    filled = {
        "machine.driver.version": stated.driver,
        "machine.driver.cuda": stated.cuda_driver,
        "machine.gpus": stated.gpus or stated.capabilities or None,
        "machine.toolkit.nvcc": stated.nvcc,
        "machine.host.glibc": stated.glibc,
    }
    return filled.get(gap.fact) is not None


def _with_python(environment: Environment | None, stated: StatedMachine) -> Environment | None:
    if stated.python is None:
        return environment
    base = environment or Environment()
    interpreter = base.interpreter or Interpreter()
    stated_one = replace(
        interpreter, version=stated.python, is_free_threaded=stated.is_free_threaded
    )
    return replace(base, interpreter=stated_one)


def stated_facts(
    stated: StatedMachine, environment: Environment | None = None
) -> tuple[Facts, tuple[str, ...]]:
    """Facts of a machine that is only stated; what is not stated is a gap.

    Args:
        stated: What the options say.
        environment: What shall run there, where it is known.
    """
    empty = Facts(
        environment=environment,
        gaps=tuple(
            Gap(fact, GapReason.NOT_ASKED, STATED, "not stated")
            for fact in ("machine.driver.version", "machine.driver.cuda", "machine.gpus")
        ),
    )
    return apply_stated(empty, stated)
