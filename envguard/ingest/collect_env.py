"""``python -m torch.utils.collect_env`` of every era, and the longer forms of other projects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.environment import Interpreter
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Machine, Reading, Toolkit
from envguard.facts.readings import read_driver, read_gpus
from envguard.facts.variables import recorded_variables
from envguard.ingest.collect_env_fields import Block, split_blocks
from envguard.ingest.collect_env_host import host_of
from envguard.ingest.collect_env_torch import environment_of
from envguard.ingest.gpu_list import GpuList, parse_gpu_list
from envguard.ingest.part import (
    Part,
    cuda_or_none,
    driver_or_none,
    version_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

    from envguard.facts.machine import Gpu

SOURCE = "collect_env"
_PYTHON = re.compile(r"([0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9]{1,3})?(?:(?:a|b|rc)[0-9]{1,3})?)")
_DOTTED = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,6})+")
_LIBRARY = re.compile(r"NVML library version:? ([0-9.]{3,20})")


def parse_collect_env(lines: Iterable[str]) -> tuple[Part, ...]:
    """Read every report in a text.

    ``CUDA runtime version`` is nvcc's: the toolkit, not what torch was built with.

    Args:
        lines: Cleaned lines; anything around the reports is passed over.

    Returns:
        One part for each report; empty when there is none. What the report could not
        collect is a gap with the reason, what its form does not have is none.
    """
    return tuple(_part(block) for block in split_blocks(lines))


def _part(block: Block) -> Part:
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
    return Part(block.line, Facts(machine, environment, gaps))


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
    detail = f"{values[0][:80]!r} is no driver version"
    return Gap(fact, GapReason.UNREADABLE, SOURCE, detail)


def _toolkit(block: Block) -> tuple[Toolkit, tuple[Gap, ...]]:
    nvcc, gcc = block.text("nvcc"), block.text("gcc")
    toolkit = Toolkit(nvcc=cuda_or_none(nvcc), gcc=gcc_version(gcc))
    gaps = [
        Gap(f"machine.toolkit.{name}", GapReason.ABSENT, SOURCE, f"{program} did not answer there")
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
