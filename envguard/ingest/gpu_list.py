"""Reads the list of GPUs in reports: numbered, in ranges, counted, or bare names."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.gaps import GapReason
from envguard.facts.machine import Gpu, MigDevice
from envguard.facts.nvidia_smi_text import find_complaint
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import ComputeCapability
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAX_GPUS = 1024
_MAX_LINE = 400
_NUMBERS = r"[0-9]{1,4}(?: ?(?:,|-|to|\.\.) ?[0-9]{1,4}){0,64}"
_MARK = re.compile(rf"\bGPU ?({_NUMBERS}) ?: ?")
_RANGE = re.compile(r"([0-9]{1,4}) ?(?:-|to|\.\.) ?([0-9]{1,4})")
_NO_NAME = re.compile(r"GPU ?[0-9]", re.IGNORECASE)  # numbers in a form that is not understood
_UUID = re.compile(r" ?\(UUID: ?([^()\s]{1,80})\)")
_MIG = re.compile(r"MIG (\S{1,40}) Device [0-9]{1,3} ?:")
_CAPABILITY = re.compile(r" ?\((?:arch ?= ?|compute capability )([0-9]{1,2}\.[0-9])\)", re.I)
_COUNT_FIRST = re.compile(r"([0-9]{1,4}) ?(?:x|×|\*) ?([A-Za-z].*)", re.IGNORECASE)  # noqa: RUF001 - people type it
_COUNT_LAST = re.compile(r"(.*[^ (]) ?[ (](?:x|×|\*) ?([0-9]{1,4})\)?", re.IGNORECASE)  # noqa: RUF001 - likewise
_OTHER_VENDOR = re.compile(r"AMD\b|Radeon\b|Intel\b|.*\(gfx[0-9a-f]+|Device [0-9a-f]{4}$", re.I)

# What stands where a list was expected -> why there is none.
_NO_LIST = {
    "could not collect": (GapReason.UNREADABLE, "nvidia-smi could not be asked there"),
    "no cuda": (GapReason.ABSENT, "neither nvidia-smi nor nvcc answered there"),
    "n/a": (GapReason.ABSENT, "the text says N/A"),
    "none": (GapReason.ABSENT, "the text says None"),
    "": (GapReason.UNREADABLE, "nothing stands there"),
}


@dataclass(frozen=True, slots=True)
class GpuList:
    """What a list says.

    Args:
        gpus: The GPUs; empty when it says that there are none, None when it does not say.
        reason: Why it does not say; meaningless otherwise.
        detail: In one line.
    """

    gpus: tuple[Gpu, ...] | None
    reason: GapReason = GapReason.UNREADABLE
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    numbers: tuple[int, ...]
    gpu: Gpu


def parse_gpu_list(lines: Iterable[str]) -> GpuList:
    """Read the lines below (or the text behind) a heading that announces GPUs.

    Understood are ``GPU 0: NVIDIA A10G``, ``GPU 0-7: ...``, ``GPU 0,1: ...``, ``8x ...``,
    ``... x8``, one bare name a line, each possibly with a UUID, and MIG devices below a GPU.

    Args:
        lines: Without the heading.

    Returns:
        The list, or why there is none: nvidia-smi's own complaint where it stands there.
    """
    texts = [" ".join(line.split()) for line in lines if len(line) <= _MAX_LINE]
    texts = [text for text in texts if text]
    first = texts[0] if texts else ""
    if first.lower() in _NO_LIST:
        return GpuList(None, *_NO_LIST[first.lower()])
    complaint = find_complaint("\n".join(texts))
    if complaint is not None:
        if "no devices" in complaint.words.lower():
            return GpuList(())
        return GpuList(None, complaint.reason, join_sentences(*texts[:2], by="; ")[:300])
    if _OTHER_VENDOR.match(first):
        return GpuList(None, GapReason.ABSENT, say("not an NVIDIA GPU: {text}", text=first[:80]))
    return _numbered(texts)


def _numbered(texts: list[str]) -> GpuList:
    gpus: list[Gpu] = []
    for text in texts:
        if mig := _MIG.match(text):
            gpus[-1:] = [_with_mig(gpu, mig[1], text) for gpu in gpus[-1:]]
            continue
        for entry in _entries(text, len(gpus)):
            if len(gpus) + len(entry.numbers) > _MAX_GPUS:
                return GpuList(
                    None, GapReason.UNREADABLE, say("more than {limit} GPUs", limit=_MAX_GPUS)
                )
            gpus += [replace(entry.gpu, index=number) for number in entry.numbers]
    if not gpus:
        detail = (
            say("no list of GPUs: {text}", text=texts[0][:80])
            if texts
            else say("nothing stands there")
        )
        return GpuList(None, GapReason.UNREADABLE, detail)
    if len({gpu.index for gpu in gpus}) < len(gpus):
        gpus = [replace(gpu, index=i) for i, gpu in enumerate(gpus)]
    return GpuList(tuple(sorted(gpus, key=lambda gpu: gpu.index)))


def _with_mig(gpu: Gpu, profile: str, text: str) -> Gpu:
    found = _UUID.search(text)
    device = MigDevice(uuid=found[1] if found else "", profile=profile)
    return replace(gpu, mig_devices=(*gpu.mig_devices, device), mig_enabled=True)


def _entries(text: str, next_number: int) -> Iterator[_Entry]:
    """The GPUs that one line names; several may stand on it."""
    marks = list(_MARK.finditer(text))
    for position, mark in enumerate(marks):
        end = marks[position + 1].start() if position + 1 < len(marks) else len(text)
        gpu = _gpu(text[mark.end() : end])
        if gpu is not None:
            yield _Entry(_numbers(mark[1]), gpu)
    if not marks:
        count, name = _counted(text)
        gpu = _gpu(name)
        if gpu is not None:
            yield _Entry(tuple(range(next_number, next_number + count)), gpu)


def _counted(text: str) -> tuple[int, str]:
    if match := _COUNT_FIRST.fullmatch(text):
        return int(match[1]), match[2]
    if match := _COUNT_LAST.fullmatch(text):
        return int(match[2]), match[1]
    return 1, text


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of ``0``, ``0,1`` or ``0-7``; a range never yields more than the bound."""
    found: list[int] = []
    for part in text.split(","):
        if span := _RANGE.fullmatch(part.strip()):
            last = min(int(span[2]), int(span[1]) + _MAX_GPUS)
            found += range(int(span[1]), last + 1)
        elif part.strip().isdecimal():
            found.append(int(part))
    return tuple(found)


def _gpu(text: str) -> Gpu | None:
    """A GPU without a number yet; None when the text is no name."""
    uuid = _UUID.search(text)
    capability = _CAPABILITY.search(text)
    name = _CAPABILITY.sub("", _UUID.sub("", text)).strip(" ,;")
    if not any(letter.isalpha() for letter in name) or len(name) > 100 or _NO_NAME.match(name):
        return None
    return Gpu(
        index=0,
        name=name,
        uuid=uuid[1] if uuid and uuid[1].startswith("GPU-") else None,
        capability=ComputeCapability.parse(capability[1]) if capability else None,
    )
