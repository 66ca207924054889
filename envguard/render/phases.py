"""A memory plan for a person: what is planned, a bar a phase, the lines behind the peaks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envguard.render.page import Style

_WIDTH = 28
_GRADES = {
    "fits": ("fits", "green"),
    "tight": ("tight", "yellow"),
    "breaks": ("BREAKS", "red"),
    "depends": ("depends", "yellow"),
    "unknown": ("", "dim"),
}
# One letter a part, so that a bar shows what it is made of without colour.
_LETTERS = {
    "weights": "w",
    "gradients": "g",
    "master weights": "m",
    "optimizer states": "o",
    "gathered weights": "p",
    "buckets": "b",
    "activations": "a",
    "logits and loss": "l",
    "transient copies": "t",
    "offloaded states": "O",
    "loading": "L",
    "checkpoint copies": "C",
    "CUDA context": "c",
    "NCCL": "n",
    "fragmentation": "f",
    "processes": "P",
}
PARTS = tuple(_LETTERS)
_SIDES = (
    ("gpu", "gpu_gib_per_rank", "GPU, GiB a rank"),
    ("host", "host_gib_per_node", "host, GiB a node"),
)


def plan_lines(extra: Mapping[str, Any], style: Style) -> Iterator[str]:
    """The lines of a plan.

    Args:
        extra: The members of a plan's document: ``job``, ``phases``, ``limits`` ...
        style: How it looks.
    """
    yield from _wrap(_job_words(extra["job"]), style, "job     ")
    yield from _wrap(_limit_words(extra["limits"]), style, "limits  ")
    for words in extra.get("assumptions", ()):
        yield from _wrap(words, style, "assumed ")
    for side, key, title in _SIDES:
        yield ""
        yield from _bars(extra, side, key, title, style)
    yield ""
    yield from _details(extra, style)
    yield from _changes(extra.get("changes", ()), style)
    yield from _sweep(extra.get("sweep", ()), style)
    yield from _estimators(extra.get("estimators", ()), extra["peaks"], style)


def _job_words(job: Mapping[str, Any]) -> str:
    layout = f"{job['gpus']} GPUs" if job["gpus"] > 1 else "1 GPU"
    if job["nodes"] > 1:
        layout += f" on {job['nodes']} nodes"
    parts = [
        f"{job['model']} ({job['parameters'] / 1e9:.4g} B parameters)",
        f"{job['strategy']} on {layout}",
        f"{job['dtype']}, {job['optimizer']}",
        f"{job['micro_batch']} x {job['seq_len']} tokens, recompute {job['recompute']}",
        f"save {job['save']}",
    ]
    if job["lora_rank"]:
        parts.insert(2, f"LoRA rank {job['lora_rank']}, {job['trainable'] / 1e6:.4g} M trained")
    if job["optimizer_on"] != "gpu":
        what = "weights and optimizer" if job["parameters_on"] != "gpu" else "optimizer"
        parts.insert(2, f"{what} offloaded to {job['optimizer_on']}")
    return "; ".join(parts)


def _limit_words(limits: Mapping[str, Any]) -> str:
    gpu, host = limits["gpu_gib"], limits["host_gib"]
    words = "GPU not known" if gpu is None else f"GPU {gpu} GiB, {limits['gpu_usable_gib']} usable"
    if host is None:
        return f"{words}; host not known"
    return f"{words}; host {host} GiB ({limits['host_kind']}), {limits['host_usable_gib']} usable"


def _bars(extra: Mapping[str, Any], side: str, key: str, title: str, style: Style) -> Iterator[str]:
    limit = extra["limits"][f"{side}_usable_gib"]
    phases = extra["phases"]
    full = max([phase[key]["likely"] for phase in phases] + ([limit] if limit else []))
    yield style.paint(f"{title:<26}likely (low to high)", "dim")
    for phase in phases:
        need = phase[key]
        bar = _bar(phase, side, full, limit)
        word, colour = _GRADES[phase[side]]
        figures = f"{need['likely']:>9.1f} ({need['low']:.1f} to {need['high']:.1f})"
        remark = "" if phase["is_part_of_run"] else " (another run)"
        line = f"{phase['phase']:<8}{bar} {figures:<28}{style.paint(word, colour)}"
        yield f"{line}{style.paint(remark, 'dim')}".rstrip()


def _bar(phase: Mapping[str, Any], side: str, full: float, limit: float | None) -> str:
    """One letter a share of the longest bar; ``|`` is the limit."""
    cells = ""
    total = 0.0
    for line in phase["lines"]:
        if line["side"] != side or line["is_reclaimable"]:
            continue
        total += line["gib"]["likely"]
        width = round(total / full * _WIDTH) - len(cells) if full else 0
        cells += _LETTERS.get(line["part"], "?") * max(0, width)
    cells = f"{cells:<{_WIDTH + 1}}"
    if limit is None:
        return cells
    at = min(_WIDTH, round(limit / full * _WIDTH))
    return cells[:at] + "|" + cells[at + 1 :]


def _details(extra: Mapping[str, Any], style: Style) -> Iterator[str]:
    """The lines of the phases that matter, with their formulas; of all when verbose."""
    peaks = extra["peaks"]
    shown = {("gpu", peaks["phase_of_gpu_peak"]), ("host", peaks["phase_of_host_peak"])}
    first = extra["breaks_first"]
    if first is not None:
        shown.add((first["side"], first["phase"]))
    for phase in extra["phases"]:
        for side, key, title in _SIDES:
            if style.is_verbose or (side, phase["phase"]) in shown:
                yield style.paint(f"{phase['phase']}: {title}, {phase[key]['likely']:.2f}", "bold")
                yield from _detail_lines(phase, side, style)


def _detail_lines(phase: Mapping[str, Any], side: str, style: Style) -> Iterator[str]:
    for line in phase["lines"]:
        if line["side"] != side:
            continue
        letter = _LETTERS.get(line["part"], " ")
        amount = line["gib"]
        spread = ""
        if amount["low"] != amount["high"]:
            spread = f"({amount['low']:.1f} to {amount['high']:.1f})"
        note = ", reclaimable: not counted" if line["is_reclaimable"] else ""
        text = f"  {letter} {line['part']:<18}{amount['likely']:>9.2f} {spread:<18}"
        yield f"{text}{style.paint(line['formula'] + note, 'dim')}"
        if style.is_verbose:
            words = f"{line['what']} [{line['expression']}; {line['evidence']}: {line['source']}]"
            yield from _wrap(words, style, " " * 6, "dim")


def _changes(changes: Any, style: Style) -> Iterator[str]:
    if not changes:
        return
    yield ""
    enough = any(change["fits"] for change in changes)
    title = (
        "single changes that make it fit, cheapest first"
        if enough
        else ("no single change is enough; these were tried")
    )
    yield style.paint(title, "bold")
    for change in changes:
        option = f"  {change['option']}" if change["option"] else ""
        gpu, host = change["gpu_gib_per_rank"], change["host_gib_per_node"]
        figures = f"GPU {gpu:>7.1f}  host {host:>8.1f}"
        yield f"  {change['change']:<40}{figures}{style.paint(option, 'cyan')}"


def _sweep(rows: Any, style: Style) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield style.paint(f"{'strategy':<34}{'GPU':>9} in     {'host':>9} in     fits", "bold")
    for row in rows:
        breaks = ", ".join(row["breaks"])
        word = style.paint(f"no: {breaks}", "red") if breaks else style.paint("yes", "green")
        yield (
            f"{row['strategy']:<34}{row['gpu_gib_per_rank']:>9.1f} {row['phase_of_gpu_peak']:<7}"
            f"{row['host_gib_per_node']:>9.1f} {row['phase_of_host_peak']:<7}{word}"
        )


def _estimators(rows: Any, peaks: Mapping[str, Any], style: Style) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield style.paint("other estimators", "bold")
    ours = f"GPU {peaks['gpu_gib_per_rank']} GiB, host {peaks['host_gib_per_node']} GiB"
    yield f"  envguard: {ours}"
    for row in rows:
        figures = ""
        if row["gpu_gib_per_rank"] is not None:
            figures = f" GPU {row['gpu_gib_per_rank']} GiB, host {row['host_gib_per_node']} GiB;"
        yield from _wrap(f"{row['tool']}:{figures} {row['why']}", style, "  ")


def _wrap(text: str, style: Style, first: str, *colours: str) -> Iterator[str]:
    lines = textwrap.wrap(
        text,
        style.width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        yield style.paint(line, *colours) if colours else line
