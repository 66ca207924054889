"""The user-mode driver that a CUDA program would load, asked in a child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, Reading
from envguard.facts.sentences import say
from envguard.facts.versions import ComputeCapability
from envguard.probe.answers import (
    SourceAnswer,
    cuda_from_api,
    driver_version_of_file,
    read_driver,
    read_gpus,
    read_literal,
)

if TYPE_CHECKING:
    from envguard.probe.child import Child, ChildResult


PROBE = "libcuda"


def collect_libcuda(child: Child) -> SourceAnswer:
    """Wait for the child and read its answer."""
    return parse_libcuda(child.collect())


def parse_libcuda(result: ChildResult) -> SourceAnswer:
    """Turn the child's answer into facts.

    The GPUs are in CUDA's own order after CUDA_VISIBLE_DEVICES, not in NVML's: they are
    readings only (``cuda[0].name``).

    Args:
        result: How the child ended; the last line of stdout counts.
    """
    answer = _last_answer(result.stdout)
    if not answer:
        return SourceAnswer(PROBE, gaps=(_crash(result, "machine.driver.cuda"),))
    if "missing" in answer:
        return SourceAnswer(PROBE, gaps=(_missing(str(answer["missing"])),))
    driver, gaps = _driver(answer)
    if result.reason is not None:
        gaps.append(_crash(result, "machine.driver.cuda_init"))
    readings = [*read_driver(driver, PROBE), *_init_readings(answer)]
    if answer.get("path"):
        readings.append(Reading("driver.libcuda", str(answer["path"]), PROBE))
    return SourceAnswer(PROBE, driver, None, tuple(readings), tuple(gaps))


def _last_answer(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        answer = read_literal(line)
        if answer:
            return answer
    return {}


def _crash(result: ChildResult, fact: str) -> Gap:
    reason = result.reason or GapReason.UNREADABLE
    return Gap(
        fact, reason, PROBE, result.detail or say("asking libcuda {ending}", ending=result.ending)
    )


def _missing(words: str) -> Gap:
    is_absent = "cannot open shared object file" in words or "Could not find module" in words
    reason = GapReason.ABSENT if is_absent else GapReason.UNREADABLE
    return Gap("machine.driver.cuda", reason, PROBE, words)


def _driver(answer: dict[str, Any]) -> tuple[Driver, list[Gap]]:
    path = answer.get("path")
    cuda = cuda_from_api(answer.get("cuda"))
    gaps = []
    if cuda is None:
        words = str(
            answer.get("error") or say("it reports CUDA {version}", version=answer.get("cuda"))
        )
        where = f"{path}: " if path else ""
        gaps.append(
            Gap(
                "machine.driver.cuda",
                GapReason.UNREADABLE,
                PROBE,
                say("{where}{message}", where=where, message=words),
            )
        )
    driver = Driver(
        cuda=cuda,
        user_mode_version=driver_version_of_file(path),
        compat_libcuda=path if answer.get("is_compat") else None,
    )
    return driver, gaps


def _init_readings(answer: dict[str, Any]) -> list[Reading]:
    if "init" not in answer:
        return []
    words = f"{answer['init_name']} ({answer['init']})"
    readings = [Reading("driver.cuda_init", words, PROBE)]
    if "devices" in answer:
        gpus = tuple(_gpu(i, device) for i, device in enumerate(answer["devices"]))
        found = read_gpus(gpus, PROBE)
        readings += [Reading(f"cuda{r.fact.removeprefix('gpu')}", r.value, PROBE) for r in found]
    return readings


def _gpu(ordinal: int, device: dict[str, Any]) -> Gpu:
    digits = device.get("uuid")
    uuid = None
    if isinstance(digits, str) and len(digits) == 32:
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        uuid = f"GPU-{'-'.join(parts)}"
    has_capability = "major" in device and "minor" in device
    return Gpu(
        index=ordinal,
        name=device.get("name"),
        capability=ComputeCapability(device["major"], device["minor"]) if has_capability else None,
        memory_bytes=device.get("memory_bytes"),
        uuid=uuid,
    )
