"""The driver and the GPUs as NVML reports them, asked in a child."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, MigDevice, Reading
from envguard.facts.sentences import say
from envguard.facts.versions import ComputeCapability
from envguard.probe.answers import (
    SourceAnswer,
    cuda_from_api,
    driver_version_of_file,
    driver_version_or_none,
    read_driver,
    read_gpus,
    read_literal,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.versions import DriverVersion
    from envguard.probe.child import Child, ChildResult


PROBE = "nvml"
_UNDECODABLE = -1
_NOT_SUPPORTED = 3
_LIBRARY_NOT_FOUND = 12
_DRIVER_NOT_LOADED = 9
_MOST_GPUS = 1024
_FUNCTION_NOT_FOUND = 13
_OPTIONAL = frozenset({"fabric", "is_licensed"})  # most GPUs and older drivers have no such state
_FABRIC_COMPLETED = 3
_FABRIC_STATES = {1: "Not Started", 2: "In Progress", _FABRIC_COMPLETED: "Completed"}
_VGPU = 2  # NVML_GPU_VIRTUALIZATION_MODE_VGPU: a guest's share; 1 is a passed-through GPU
_PROFILE = r"MIG (\S+)\s*$"

# Source: nvml.h, enum nvmlReturn_enum; the code's name leads every gap's detail.
_CODES = {
    -1: ("undecodable answer", GapReason.UNREADABLE),
    1: ("NVML_ERROR_UNINITIALIZED", GapReason.UNREADABLE),
    2: ("NVML_ERROR_INVALID_ARGUMENT", GapReason.UNREADABLE),
    3: ("NVML_ERROR_NOT_SUPPORTED", GapReason.ABSENT),
    4: ("NVML_ERROR_NO_PERMISSION", GapReason.FORBIDDEN),
    5: ("NVML_ERROR_ALREADY_INITIALIZED", GapReason.UNREADABLE),
    6: ("NVML_ERROR_NOT_FOUND", GapReason.ABSENT),
    7: ("NVML_ERROR_INSUFFICIENT_SIZE", GapReason.UNREADABLE),
    8: ("NVML_ERROR_INSUFFICIENT_POWER", GapReason.UNREADABLE),
    9: ("NVML_ERROR_DRIVER_NOT_LOADED", GapReason.ABSENT),
    10: ("NVML_ERROR_TIMEOUT", GapReason.TIMED_OUT),
    11: ("NVML_ERROR_IRQ_ISSUE", GapReason.UNREADABLE),
    12: ("NVML_ERROR_LIBRARY_NOT_FOUND", GapReason.ABSENT),
    13: ("NVML_ERROR_FUNCTION_NOT_FOUND", GapReason.ABSENT),
    14: ("NVML_ERROR_CORRUPTED_INFOROM", GapReason.UNREADABLE),
    15: ("NVML_ERROR_GPU_IS_LOST", GapReason.UNREADABLE),
    16: ("NVML_ERROR_RESET_REQUIRED", GapReason.UNREADABLE),
    17: ("NVML_ERROR_OPERATING_SYSTEM", GapReason.FORBIDDEN),
    18: ("NVML_ERROR_LIB_RM_VERSION_MISMATCH", GapReason.MISMATCH),
    19: ("NVML_ERROR_IN_USE", GapReason.UNREADABLE),
    20: ("NVML_ERROR_MEMORY", GapReason.UNREADABLE),
    21: ("NVML_ERROR_NO_DATA", GapReason.ABSENT),
    22: ("NVML_ERROR_VGPU_ECC_NOT_SUPPORTED", GapReason.ABSENT),
    23: ("NVML_ERROR_INSUFFICIENT_RESOURCES", GapReason.UNREADABLE),
    24: ("NVML_ERROR_FREQ_NOT_SUPPORTED", GapReason.ABSENT),
    25: ("NVML_ERROR_ARGUMENT_VERSION_MISMATCH", GapReason.MISMATCH),
    26: ("NVML_ERROR_DEPRECATED", GapReason.ABSENT),
    27: ("NVML_ERROR_NOT_READY", GapReason.UNREADABLE),
    28: ("NVML_ERROR_GPU_NOT_FOUND", GapReason.ABSENT),
    29: ("NVML_ERROR_INVALID_STATE", GapReason.UNREADABLE),
    30: ("NVML_ERROR_RESET_TYPE_NOT_SUPPORTED", GapReason.ABSENT),
    999: ("NVML_ERROR_UNKNOWN", GapReason.UNREADABLE),
}
_HINTS = {
    2: "the call was refused",
    3: "this GPU or driver does not offer it",
    4: "this user may not ask the driver",
    9: "the NVIDIA kernel module is not loaded",
    10: "the driver did not answer in time",
    12: "libnvidia-ml is not installed here, or not passed into the container",
    13: "this driver's NVML is too old to know the call",
    15: "the GPU has fallen off the bus",
    16: "the GPU must be reset",
    17: "the operating system or the device cgroup blocks access to the GPU",
    18: "the NVML library and the loaded kernel module are of different releases",
    20: "out of host memory",
    999: "the driver gives no reason; often the device cgroup of a container was reloaded",
}


def collect_nvml(child: Child) -> SourceAnswer:
    """Wait for the child and read its answer."""
    return parse_nvml(child.collect())


def parse_nvml(result: ChildResult) -> SourceAnswer:
    """Turn the child's lines into facts; a line that came before a crash counts.

    Args:
        result: How the child ended; stdout holds the driver's line, then one per GPU.

    Returns:
        The driver and GPUs. A GPU that failed is kept with its index alone, with a gap.
        ``gpus`` is None when NVML could not say how many there are.
    """
    records = _records(result.stdout)
    answer = next((r for r in records if r.get("kind") == "driver"), None)
    if answer is None:
        return SourceAnswer(PROBE, gaps=_no_answer(result))
    driver, gaps = _driver(answer)
    found = {r["index"]: r for r in records if r.get("kind") == "gpu"}
    gpus: tuple[Gpu, ...] | None = None
    if isinstance(answer.get("count"), int):
        count = min(answer["count"], _MOST_GPUS)
        gpus = tuple(_gpu(i, found.get(i, {"errors": {}})) for i in range(count))
        for i in range(count):
            gaps += _gpu_gaps(i, found[i]) if i in found else _failed(result, f"machine.gpus[{i}]")
    readings = read_driver(driver, PROBE)
    if gpus is not None:
        readings += read_gpus(gpus, PROBE) + tuple(_states(found))
    return SourceAnswer(PROBE, driver, gpus, readings, tuple(gaps))


def _states(found: dict[int, dict[str, Any]]) -> Iterator[Reading]:
    """States that a GPU value has no field for, in the words of ``nvidia-smi -q``."""
    for index, record in sorted(found.items()):
        state, status = record.get("fabric", (None, None))
        if state in _FABRIC_STATES:
            yield Reading(f"gpu[{index}].fabric", _FABRIC_STATES[state], PROBE)
        if state == _FABRIC_COMPLETED:
            name, _ = _CODES.get(status, (f"NVML error {status}", None))
            words = "Success" if status == 0 else name
            yield Reading(f"gpu[{index}].fabric_status", words, PROBE)
        if record.get("is_licensed") is not None:
            words = "Licensed" if record["is_licensed"] else "Unlicensed"
            yield Reading(f"gpu[{index}].licence", words, PROBE)


def _records(text: str) -> list[dict[str, Any]]:
    records = []
    for line in text.splitlines():
        record = read_literal(line)
        if record:
            records.append(record)
    return records


def _no_answer(result: ChildResult) -> tuple[Gap, ...]:
    facts = ("machine.driver.version", "machine.driver.cuda", "machine.gpus")
    return tuple(_failed(result, *facts))


def _failed(result: ChildResult, *facts: str) -> list[Gap]:
    """Gaps for a child that gave no (further) answer."""
    reason = result.reason or GapReason.UNREADABLE
    detail = result.detail or say("asking NVML {ending}", ending=result.ending)
    return [Gap(fact, reason, PROBE, detail) for fact in facts]


def _gap(fact: str, code: int, words: str = "") -> Gap:
    name, reason = _CODES.get(code, (say("NVML error {error}", error=code), GapReason.UNREADABLE))
    if code == _LIBRARY_NOT_FOUND and words and "cannot open shared object file" not in words:
        reason = GapReason.UNREADABLE  # it is there and cannot be loaded
    hint = words or _HINTS.get(code, "")
    return Gap(fact, reason, PROBE, say("{name}: {hint}", name=name, hint=hint) if hint else name)


def _driver(answer: dict[str, Any]) -> tuple[Driver, list[Gap]]:
    errors: dict[str, int] = answer["errors"]
    library = driver_version_of_file(answer.get("library"))
    driver = Driver(
        version=driver_version_or_none(answer.get("version")),
        cuda=cuda_from_api(answer.get("cuda")),
        user_mode_version=library or _library_version(answer.get("nvml_version")),
        is_loaded=_is_loaded(errors),
    )
    fatal = next((errors[key] for key in ("library", "init") if key in errors), None)
    if fatal is not None:
        words = str(answer.get("words", ""))
        facts = ("machine.driver.version", "machine.driver.cuda", "machine.gpus")
        return driver, [_gap(fact, fatal, words) for fact in facts]
    names = {"version": "driver.version", "cuda": "driver.cuda", "count": "gpus"}
    gaps = [_gap(f"machine.{f}", errors[n]) for n, f in names.items() if n in errors]
    for name, value in (("version", driver.version), ("cuda", driver.cuda)):
        if name in answer and value is None:
            detail = say("it reports {name} {value!r}", name=name, value=answer[name])
            gaps.append(Gap(f"machine.driver.{name}", GapReason.UNREADABLE, PROBE, detail))
    return driver, gaps


def _library_version(text: object) -> DriverVersion | None:
    """The release of the NVML library: its version is that behind the CUDA major, 12.550.54.15."""
    return driver_version_or_none(text.partition(".")[2]) if isinstance(text, str) else None


def _is_loaded(errors: dict[str, int]) -> bool | None:
    if errors.get("init") == _DRIVER_NOT_LOADED:
        return False
    return None if {"library", "init"} & errors.keys() else True


def _gpu(index: int, record: dict[str, Any]) -> Gpu:
    mode = record.get("mig_mode")
    has_no_mig = record["errors"].get("mig_mode") == _NOT_SUPPORTED
    virtualization = record.get("virtualization")
    return Gpu(
        index=index,
        name=record.get("name"),
        capability=_capability(record),
        memory_bytes=record.get("memory_bytes"),
        uuid=record.get("uuid"),
        pci_bus_id=record.get("pci_bus_id"),
        mig_enabled=False if has_no_mig else None if mode is None else mode == 1,
        mig_devices=tuple(_mig(d) for d in record.get("mig_devices", ()) if d.get("uuid")),
        is_virtual=None if virtualization is None else virtualization == _VGPU,
    )


def _capability(record: dict[str, Any]) -> ComputeCapability | None:
    numbers = record.get("capability")
    if numbers is None or not (0 < numbers[0] < 100 and 0 <= numbers[1] < 10):
        return None
    return ComputeCapability(*numbers)


def _mig(device: dict[str, Any]) -> MigDevice:
    match = re.search(_PROFILE, device.get("name") or "")
    return MigDevice(device["uuid"], match[1] if match else None, device.get("memory_bytes"))


def _gpu_gaps(index: int, record: dict[str, Any]) -> list[Gap]:
    errors: dict[str, int] = record["errors"]
    fact = f"machine.gpus[{index}]"
    if "handle" in errors:
        return [_gap(fact, errors["handle"])]
    names = {"virtualization": "is_virtual", "mig_mode": "mig_enabled", "mig_count": "mig_devices"}
    gaps = [
        _gap(f"{fact}.{names.get(name, name)}", code)
        for name, code in errors.items()
        if not (name == "mig_mode" and code == _NOT_SUPPORTED)
        and not (name in _OPTIONAL and code in {_NOT_SUPPORTED, _FUNCTION_NOT_FOUND})
    ]
    if record.get("capability") is not None and _capability(record) is None:
        gaps.append(_gap(f"{fact}.capability", _UNDECODABLE))
    for slot, device in enumerate(record.get("mig_devices", ())):
        for name, code in device["errors"].items():
            gaps.append(
                _gap(f"{fact}.mig_devices[{slot}].{name}", code)
            )  # nested comprehension reads worse
    return gaps
