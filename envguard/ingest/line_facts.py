"""Facts that stand in single lines of a text, whatever surrounds them."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator, BuildOrigin
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, OperatingSystem
from envguard.facts.sentences import say
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.ingest import collect_env
from envguard.ingest.collect_env_fields import Block
from envguard.ingest.gpu_list import parse_gpu_list
from envguard.ingest.line_forms import (
    ALIASES,
    DRIVER_VERSION,
    ELSEWHERE,
    FORMS,
    GPU_LITERALS,
    GPU_NAME,
    LABELS,
    PACKAGES,
    SECTIONS,
    TORCH_VERSION,
    FormKind,
)
from envguard.ingest.report_part import ReportPart, cuda_or_none, driver_or_none, version_or_none
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from envguard.facts.environment import Environment
    from envguard.ingest.line_forms import LineForm

SOURCE = "text"
_MAX_LINE = 400
_MAX_TOLD = 2000
_MAX_COUNT = 1024
_BULLETS = " \t-*•|_>+[]{}`\"',"
_LABELLED = re.compile(
    r"^([A-Za-z][A-Za-z0-9 ._()?/,#-]{0,60}?)['\"*`]{0,3}"
    r"(?:\s{0,3}(?:\.{3,80}|:=|={1,2}|:|\|)\s*|\s{2,}|\t)(\S.*)"
)
_NUMBERED_GPU = re.compile(r"(?:gpu|cuda|device)[ :#]?([0-9]{1,3}(?:[,-][0-9]{1,3}){0,64})")
_MARKS = re.compile(r"[._`*#]+")
_BRACKETS = re.compile(r"\([^()]{0,40}\)")
_CLAUSE = re.compile(r"(?:[.;!?]\s|,\s|\s[•|]\s|\sbut\s|\swhile\s)")
_PIECE = re.compile(r"\s[•|]\s")
_ROW = re.compile(r"\|([^|]{1,80})\|([^|]{1,200})\|.*")
_VERSION = re.compile(r"[vV=\s]{0,3}([0-9][0-9A-Za-z.+!_-]{0,60})")
_TORCH = re.compile(TORCH_VERSION)
_CUDA = re.compile(r"(?i:cuda )?[vV]?([0-9]{1,2}\.[0-9]{1,2})")
_RELEASE = re.compile(r"release ([0-9]{1,2}\.[0-9]{1,2})")
_DRIVER = re.compile(rf"(?<![\d.])({DRIVER_VERSION})(?![\d.]*\d)")
_PYTHON = re.compile(r"(?:Python )?([23]\.[0-9]{1,2}(?:\.[0-9]{1,3})?)(.*)")
_CAPABILITY = re.compile(r"(?:sm_)?([0-9]{1,2})(?:\.|, ?)?([0-9])\b")
_SIZE = re.compile(r"([0-9]{1,8}(?:\.[0-9]{1,3})?) ?(MB|MiB|GB|GiB|TB|TiB|G|T)\b")
_UNITS = {"M": 1024**2, "G": 1024**3, "T": 1024**4}
_KNOWN_GPU = (
    rf"{GPU_NAME}|NVIDIA [A-Za-z]{{0,12}} ?[A-Za-z]{{0,4}}[0-9]|"
    r"GeForce|Quadro|Tesla|TITAN|Orin\b|Jetson|Thor\b|Tegra"
)
_ERROR = re.compile(
    r"\b[A-Z]\w*(?:Error|Exception)\b|\b(?:error|fatal|Error)\s?:|Traceback \(most|core dumped|"
    r"\bKilled\b|exit(?:ed|s)? (?:with )?(?:code|status|return code)"
)
_ASKED = {
    "torch.__version__": "torch",
    "torch.version.cuda": "cuda",
    "torch.cuda.is_available()": "available",
    "torch.cuda.get_device_name": "gpu",
    "torch.cuda.device_count()": "gpu_count",
    "torch.cuda.get_device_capability": "capability",
}
_QUESTION = re.compile("|".join(re.escape(words) for words in _ASKED))
_ANSWER = re.compile(r"(?:Out ?\[[0-9 ]{0,6}\]: ?)?(?:tensor|\()?['\"]?([^'\"]{1,80}?)['\"]?\)?")
_UNAME = re.compile(r"Linux \S+ (\S+) .*(x86_64|aarch64)")
_NEXT = 5
_WINDOWS = frozenset({"nt", "win32", "win64", "win"})  # what Python calls it


@dataclass(frozen=True, slots=True)
class Told:
    """One fact in one line.

    Args:
        field: See ``LineForm``.
        value: As it stands there, checked for its form.
        kind: Of the form.
        line: Number of the line, from 0.
        name: The package, or the numbers of GPUs.
        count: How many GPUs.
    """

    field: str
    value: str
    kind: FormKind
    line: int
    name: str = ""
    count: int = 1


def last_error(lines: Sequence[str]) -> int | None:
    """The last line that looks like an error, or None: what is nearest to it counts most."""
    numbers = range(len(lines) - 1, -1, -1)
    return next((n for n in numbers if len(lines[n]) < 2000 and _ERROR.search(lines[n])), None)


def parse_line_facts(lines: Sequence[str], near: int | None = None) -> tuple[ReportPart, ...]:
    """Read what single lines state: labels of any report, programs' own words, sentences.

    A sentence about a requirement, an attempt or another machine is passed over. Of several
    values the program's own word goes before a label, a label before a sentence, and of one kind
    the one nearest to the error; the others are told by a gap.

    Args:
        lines: Cleaned lines.
        near: Number of the line of the error; None for the first mention.

    Returns:
        One part, or none. It ranks behind every report.
    """
    told = _chosen(tuple(_told(lines)), near)
    return (_part(told),) if told.fields else ()


def _told(lines: Sequence[str]) -> Iterator[Told]:
    section, count, is_code = "", 0, False
    pending = ""
    answered: set[int] = set()
    forms = _forms_in("\n".join(lines).lower(), FORMS)  # most texts hold the words of few
    for number, line in enumerate(lines):
        text = line.strip(_BULLETS + "\\/") if len(line) <= _MAX_LINE else ""
        was_code, is_code = is_code, text.startswith('File "')
        if not text or is_code or was_code or count >= _MAX_TOLD:
            continue
        section = _section(text) or section
        lowered = line.lower()
        found = [
            *_labelled(line, number, section),
            *_matched(line.strip(), number, _forms_in(lowered, forms)),
        ]
        if pending and text.lower().startswith("version:"):
            found += _package(pending, text[8:].strip(), FormKind.LABEL, number)
        pending = text[5:].strip() if text.startswith("Name:") else ""
        answers = tuple(_answers(line, lines[number + 1 : number + 1 + _NEXT], number + 1))
        answered |= {one.line for one in answers}
        if number not in answered and any(word in lowered for word in GPU_LITERALS):
            found += _own_line(text, number)
        count += len(found) + len(answers)
        yield from (*found, *answers)


def _forms_in(lowered: str, forms: Iterable[LineForm]) -> list[LineForm]:
    """The forms of which a text, in lower case, holds a literal."""
    return [form for form in forms if form.may_match(lowered)]


def _section(text: str) -> str:
    """The heading of a nested list: ``* CUDA:`` with nothing behind it."""
    return text[:-1].strip().lower() if text.endswith(":") and len(text) < 40 else ""


def _own_line(text: str, number: int) -> Iterator[Told]:
    """A GPU's name that is all there is on its line."""
    if len(text) < 80 and re.fullmatch(rf"(?:[0-9]{{1,3}} ?[x×*] ?)?{GPU_NAME}", text):  # noqa: RUF001 - people type it
        yield Told("gpu", text, FormKind.LABEL, number)


def _labelled(line: str, number: int, section: str) -> Iterator[Told]:
    row = _ROW.fullmatch(line.strip()) if "|" in line else None
    pieces = [f"{row[1].strip()}: {row[2].strip()}"] if row else _PIECE.split(line)
    for piece in pieces:
        match = _LABELLED.fullmatch(piece.strip(_BULLETS))
        if match is None:
            continue
        label, value = match[1], match[2].strip("`*\"', \t")
        if "==" in piece and re.search(ELSEWHERE, piece):
            continue
        yield from _of_label(label, value, number, section)


def _of_label(label: str, value: str, number: int, section: str) -> Iterator[Told]:
    plain = " ".join(_MARKS.sub(" ", _BRACKETS.sub(" ", label.lower())).replace("?", " ").split())
    name = SECTIONS.get((section, plain)) or LABELS.get(plain)
    numbered = _NUMBERED_GPU.fullmatch(plain.replace(" compute capability", "").strip())
    if numbered is not None:
        name = "capability" if plain.endswith("capability") else "gpu"
    if name is None:
        yield from _package(plain.removesuffix(" version"), value, FormKind.LABEL, number)
    elif (checked := _checked(name, value)) is not None:
        yield Told(
            checked[0],
            checked[1],
            FormKind.LABEL,
            number,
            name=numbered[1] if numbered is not None else "",
        )
        if name == "torch" and (flag := re.search(r"\((True|False|GPU|CPU)\)$", value)):
            yield Told("available", str(flag[1] in {"True", "GPU"}), FormKind.LABEL, number)


def _package(label: str, value: str, kind: FormKind, number: int) -> Iterator[Told]:
    name = ALIASES.get(label.lower(), label.lower()).replace("_", "-").replace(" ", "-")
    if name in {"torch", "pytorch"}:
        if _TORCH.fullmatch(value.split(" ")[0]):
            yield Told("torch", value.split(" ")[0], kind, number)
        return
    match = _VERSION.match(value)
    is_known = name in PACKAGES or name.startswith(("nvidia-c", "nvidia-n"))
    if is_known and match and version_or_none(match[1]) is not None:
        yield Told("package", match[1], kind, number, name=name)


def _matched(line: str, number: int, forms: Sequence[LineForm]) -> Iterator[Told]:
    prose = [form for form in forms if form.kind is FormKind.PROSE]
    for form in forms:
        if form.kind is FormKind.OWN_WORD:
            for match in form.pattern.finditer(line):
                yield from _of_match(form.field, match, form.kind, number)
    for clause in _CLAUSE.split(line) if prose else ():
        if re.search(ELSEWHERE, clause):
            continue
        for form in prose:
            for match in form.pattern.finditer(clause):
                yield from _of_match(form.field, match, form.kind, number)


def _of_match(name: str, match: re.Match[str], kind: FormKind, number: int) -> Iterator[Told]:
    groups = match.groupdict()
    named = set(match.re.groupindex.values())
    value = next(match[i] for i in range(1, match.re.groups + 1) if i not in named)
    if name == "package":
        yield from _package(groups["name"] or "vllm", value, kind, number)
        return
    is_sure = name == "gpu" and kind is FormKind.PROSE
    if is_sure and value[:1].isdigit():
        value = f"GeForce {value}"  # of no other brand is the number the whole name
    checked = (name, value) if is_sure else _checked(name, value)
    counted = groups.get("count") or groups.get("last")
    if checked is not None:
        count = min(int(counted), _MAX_COUNT) if counted else 1
        yield Told(*checked, kind, number, count=max(count, 1))


def _answers(line: str, following: Sequence[str], number: int) -> Iterator[Told]:
    """What a cell or a one-liner printed for ``torch.__version__`` and its like, in that order."""
    asked = [_ASKED[words] for words in _QUESTION.findall(line)] if "torch." in line else []
    values: list[tuple[int, str]] = []
    for offset, text in enumerate(following if asked else ()):
        if _QUESTION.search(text):
            break
        match = _ANSWER.fullmatch(text.strip())
        if match and not text.lstrip().startswith((">>>", "In [", "$", "import ")):
            words = [match[1]] if "gpu" in asked else match[1].split()
            values += [(number + offset, word) for word in words]
    for name in asked:
        told = ((line, _checked(name, value)) for line, value in values)
        first = next(((line, checked) for line, checked in told if checked is not None), None)
        if first is not None:
            yield Told(*first[1], FormKind.LABEL, first[0])
            values = values[1:]


def _checked(name: str, value: str) -> tuple[str, str] | None:
    """The field and the part of a value that has the field's form; None where none has."""
    match name:
        case "torch":
            found = _TORCH.match(value)
            is_whole = found and value[found.end() :][:1] in {"", " ", ",", ";", "(", "@", "/"}
            return ("torch", found[0]) if found and is_whole else None
        case "cuda" | "nvcc" | "any_cuda":
            found = _RELEASE.search(value) or _CUDA.match(value)
            return (name, found[1]) if found else None
        case "driver" | "driver_cuda":
            if found := _DRIVER.search(value):
                return "driver", found[1]
            found = _CUDA.fullmatch(value.split(" ")[0])
            return ("driver_cuda", found[1]) if found and int(found[1].split(".")[0]) < 20 else None
        case "driver_number":
            served = CudaVersion.from_api(int(value))
            return "driver_cuda", str(served)
        case "gpu":
            return _checked_gpu(value)
        case "gpu_count":
            return (name, value) if value.isdecimal() and 0 < int(value) <= _MAX_COUNT else None
        case "capability":
            found = _CAPABILITY.fullmatch(value.strip("() "))
            return (name, f"{found[1]}.{found[2]}") if found else None
        case "python":
            found = _PYTHON.match(value)
            return (name, found[1] + found[2]) if found else None
        case "ram":
            return (name, value) if _SIZE.match(value) else None
        case "available":
            word = value.split(" ")[0].strip(",").lower()
            return (name, word) if word in {"true", "false", "yes", "no"} else None
        case _:
            return name, value


def _checked_gpu(value: str) -> tuple[str, str] | None:
    text = re.sub(r"^cuda:[0-9]{1,2} ", "", value).partition(" : ")[0].strip()
    if text.isdecimal():
        return ("gpu_count", text) if 0 < int(text) <= _MAX_COUNT else None
    found = re.search(_KNOWN_GPU, text)
    if not found or len(text) > 200:
        return None
    # a list with more words around it gives the names only
    return "gpu", text if len(text) <= 80 and not _CLAUSE.search(text) else _first_gpu(text)


def _first_gpu(text: str) -> str:
    found = re.search(rf"(?:[0-9]{{1,3}} ?[x×*] ?)?{GPU_NAME}", text)  # noqa: RUF001 - people type it
    return found[0] if found else text[:80]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The best word on each field, and the others."""

    fields: dict[str, Told] = field(default_factory=dict)
    gpus: tuple[Told, ...] = ()
    packages: dict[str, Told] = field(default_factory=dict)
    others: tuple[Gap, ...] = ()

    def text(self, name: str) -> str:
        return self.fields[name].value if name in self.fields else ""


def _chosen(told: Sequence[Told], near: int | None) -> _Chosen:
    def order(one: Told) -> tuple[int, int]:
        return int(one.kind), one.line if near is None else abs(one.line - near)

    ordered = sorted(told, key=order)
    fields: dict[str, Told] = {}
    packages: dict[str, Told] = {}
    for one in ordered:
        if one.field == "package":
            packages.setdefault(one.name, one)
        else:
            fields.setdefault(one.field, one)
    gpus = _together([one for one in told if one.field == "gpu"], fields.get("gpu"))
    return _Chosen(fields, gpus, packages, tuple(_others(ordered, fields, gpus)))


_FACTS = {
    "torch": "environment.torch.version",
    "driver": "machine.driver.version",
    "driver_cuda": "machine.driver.cuda",
    "python": "environment.interpreter.version",
    "gpu": "machine.gpus",
}
_NEAR = 3


def _together(gpus: Sequence[Told], best: Told | None) -> tuple[Told, ...]:
    """The lines of the list that the best mention stands in."""
    if best is None:
        return ()
    alike = [one for one in gpus if one.kind is best.kind]
    if best.kind is FormKind.PROSE:
        return tuple(dict.fromkeys(one for one in alike if one.line == best.line))
    position = alike.index(best)
    first = last = position
    while first > 0 and alike[first].line - alike[first - 1].line <= _NEAR:
        first -= 1
    while last + 1 < len(alike) and alike[last + 1].line - alike[last].line <= _NEAR:
        last += 1
    return tuple(alike[first : last + 1])


def _others(
    ordered: Iterable[Told], fields: dict[str, Told], gpus: Sequence[Told]
) -> Iterator[Gap]:
    """What other lines say otherwise, once for each field."""
    seen: set[str] = set()
    listed = {one.line for one in gpus}
    for one in ordered:
        best = fields.get(one.field)
        fact = _FACTS.get(one.field)
        if best is None or fact is None or one.field in seen:
            continue
        if one.line not in {best.line, *listed} and not _agree(one.value, best.value):
            seen.add(one.field)
            detail = say(
                "line {line} says {value}, line {other} says {said}: the first counts",
                line=best.line + 1,
                value=best.value[:60],
                other=one.line + 1,
                said=one.value[:60],
            )
            yield Gap(f"{fact}.other", GapReason.MISMATCH, SOURCE, detail)


def _agree(one: str, other: str) -> bool:
    """Whether two values are one, said with more or fewer words."""
    first, second = (_BRACKETS.sub("", text).lower().partition("+")[0] for text in (one, other))
    first, second = first.partition("(")[0].strip(), second.partition("(")[0].strip()
    return (
        first.startswith(second) or second.startswith(first) or second in first or first in second
    )


def _part(told: _Chosen) -> ReportPart:
    part = collect_env.part_of_block(_block(told))
    facts = _named_by(part.facts, told)
    driver = _driver(told)
    gpus = _gpus(told)
    limits = replace(facts.machine.limits, ram_bytes=_ram(told.text("ram")))
    readings = tuple(r for r in facts.machine.readings if r.fact.startswith("torch."))
    machine = replace(facts.machine, driver=driver, gpus=gpus, limits=limits, readings=readings)
    line = min(one.line for one in (*told.fields.values(), *told.packages.values()))
    kind = min(int(one.kind) for one in told.fields.values())
    return ReportPart(line, replace(facts, machine=machine), rank=1 + kind)


def _block(told: _Chosen) -> Block:
    names = ("torch", "cuda", "nvcc", "os", "platform", "python", "gcc", "available")
    fields = {name: [told.text(name)] for name in names if name in told.fields}
    if "libc" in told.fields:
        version = _VERSION.search(told.text("libc").removeprefix("glibc-"))
        fields["libc"] = [f"glibc-{version[1]}" if version else ""]
    if uname := _UNAME.match(told.text("platform")):
        fields["platform"] = [f"Linux-{uname[1]}-{uname[2]}"]
    if told.text("os").lower() in _WINDOWS:
        fields["os"] = ["Windows"]
    if "architecture" in told.fields:
        fields["architecture"] = [told.text("architecture")]
    packages = [("pip3", f"{name}=={one.value}") for name, one in told.packages.items()]
    return Block(0, fields=fields, packages=packages)


def _named_by(facts: Facts, told: _Chosen) -> Facts:
    """The facts as the text's own: an environment only where one is described."""
    environment = facts.environment
    gaps = [
        g for g in facts.gaps if g.fact.startswith(("machine.host.glibc", "environment.torch."))
    ]
    readings = tuple(replace(r, probe=SOURCE) for r in facts.machine.readings)
    if not told.packages and not {"torch", "python"} & told.fields.keys():
        environment = None
    if environment is not None:
        detail = say("only what the text names is known")
        gaps.append(Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail))
        environment = _loose_torch(environment, facts, told)
    if environment is not None and environment.torch is None:
        gaps.append(Gap("environment.torch", GapReason.NOT_ASKED, SOURCE, "no torch is named"))
    host = facts.machine.host
    if "libc" in told.fields and told.fields["libc"].kind is FormKind.OWN_WORD:
        host = replace(host, glibc=version_or_none(told.text("libc")))
    machine = replace(facts.machine, host=host, readings=readings)
    gaps = [replace(gap, probe=SOURCE) for gap in gaps]
    return Facts(machine, environment, (*gaps, *told.others))


def _loose_torch(environment: Environment, facts: Facts, told: _Chosen) -> Environment:
    """A sentence's word on torch is no import's; beside a CUDA it is no CPU build on Windows."""
    torch = environment.torch
    if torch is None:
        return environment
    if "torch" in told.fields and told.fields["torch"].kind is FormKind.PROSE:
        torch = replace(torch, origin=BuildOrigin.METADATA)
    platform = facts.machine.host.platform
    is_windows = platform is not None and platform.system is OperatingSystem.WINDOWS
    if torch.accelerator is None and is_windows and "any_cuda" in told.fields:
        torch = replace(torch, accelerator=Accelerator.CUDA)
    return replace(environment, torch=torch)


def _driver(told: _Chosen) -> Driver:
    version = driver_or_none(told.text("driver"))
    return Driver(
        version=version,
        cuda=cuda_or_none(told.text("driver_cuda")),
        is_loaded=True if version else None,
    )


def _gpus(told: _Chosen) -> tuple[Gpu, ...] | None:
    """The GPUs of the best list; one name and a count are that many."""
    texts = [
        f"GPU {one.name}: {one.value}" if one.name else one.value
        for one in told.gpus
        for _ in range(one.count)
    ]
    found = parse_gpu_list(texts).gpus if texts else None
    count = int(told.text("gpu_count") or 1)
    if not found and count > 1 and "capability" in told.fields:
        found = (Gpu(0),)
    if found and len(found) == 1:
        found = tuple(replace(found[0], index=index) for index in range(count))
    capability = told.text("capability")
    if found and capability and len({gpu.name for gpu in found}) == 1:
        known = ComputeCapability.parse(capability)
        found = tuple(replace(gpu, capability=gpu.capability or known) for gpu in found)
    return found or None


def _ram(text: str) -> int | None:
    match = _SIZE.match(text)
    return int(float(match[1]) * _UNITS[match[2][0]]) if match else None
