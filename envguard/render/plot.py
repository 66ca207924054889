"""A memory plan as a picture: stacked bars of every phase, with the limits as lines."""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, Any

from envguard._version import DISTRIBUTION
from envguard.errors import InputError, ToolError
from envguard.files import write_atomically
from envguard.printable import clean_document
from envguard.render.phases import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_KINDS = (".png", ".svg", ".html")
_SIDES = (
    ("gpu", "GPU, GiB a rank"),
    ("host", "host, GiB a node"),
)


def write_plot(extra: Mapping[str, Any], path: Path) -> None:
    """Draw a plan into a file.

    Args:
        extra: The members of a plan's document.
        path: Where to; its suffix chooses png, svg or html (an svg inside a page).

    Raises:
        InputError: Another suffix, or the file cannot be written.
        ToolError: matplotlib is not installed.
    """
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise InputError(f"--plot: {path.name!r} does not end in one of {', '.join(_KINDS)}")
    extra = clean_document(extra)
    picture = _draw(extra, "png" if kind == ".png" else "svg")
    if kind == ".html":
        picture = _page(extra, picture.decode("utf-8")).encode("utf-8")
    try:
        write_atomically(path, picture)
    except OSError as err:
        raise InputError(f"--plot: {path}: cannot be written: {err.strerror or err}") from err


def _draw(extra: Mapping[str, Any], file_format: str) -> bytes:
    try:
        from matplotlib import colormaps, cycler, rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as err:
        raise ToolError(
            "--plot needs matplotlib, which is not installed",
            hint=f"pip install '{DISTRIBUTION}[plot]'",
        ) from err
    figure = Figure(figsize=(11, 6), layout="constrained")
    FigureCanvasAgg(figure)
    with rc_context({"axes.prop_cycle": cycler(color=colormaps["tab20"].colors)}):
        _draw_sides(figure, extra)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=file_format, dpi=120)
    return buffer.getvalue()


def _draw_sides(figure: Any, extra: Mapping[str, Any]) -> None:
    for axes, (side, title) in zip(figure.subplots(1, 2), _SIDES, strict=True):
        _draw_side(axes, extra, side, title)
    figure.suptitle(_title(extra["job"]))


def _title(job: Mapping[str, Any]) -> str:
    return (
        f"{job['parameters'] / 1e9:.4g} B parameters, {job['strategy']} on {job['gpus']} GPUs, "
        f"{job['dtype']}, save {job['save']}"
    )


def _draw_side(axes: Any, extra: Mapping[str, Any], side: str, title: str) -> None:
    phases = extra["phases"]
    names = [phase["phase"] for phase in phases]
    present = {line["part"] for phase in phases for line in _counted(phase, side)}
    base = [0.0] * len(phases)
    for part in (part for part in PARTS if part in present):
        heights = [
            sum(line["gib"]["likely"] for line in _counted(phase, side) if line["part"] == part)
            for phase in phases
        ]
        axes.bar(names, heights, bottom=base, label=part, color=f"C{PARTS.index(part)}")
        base = [low + height for low, height in zip(base, heights, strict=True)]
    limit = extra["limits"][f"{side}_usable_gib"]
    if limit is not None:
        axes.axhline(limit, color="black", linestyle="--", label=f"usable {limit} GiB")
    axes.set_title(title)
    axes.set_ylabel("GiB")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)


def _counted(phase: Mapping[str, Any], side: str) -> list[Mapping[str, Any]]:
    return [n for n in phase["lines"] if n["side"] == side and not n["is_reclaimable"]]


def _page(extra: Mapping[str, Any], svg: str) -> str:
    """A page that needs nothing from elsewhere: the picture and the table behind it."""
    rows = "".join(
        f"<tr><td>{escape(phase['phase'])}</td><td>{escape(line['side'])}</td>"
        f"<td>{escape(line['part'])}</td><td>{line['gib']['likely']:.2f}</td>"
        f"<td><code>{escape(line['formula'])}</code></td><td>{escape(line['what'])}</td></tr>"
        for phase in extra["phases"]
        for line in phase["lines"]
    )
    head = "<tr><th>phase<th>memory<th>part<th>GiB<th>formula<th>what</tr>"
    title = escape(_title(extra["job"]))
    picture = svg[svg.index("<svg") :]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<body>{picture}<table>{head}{rows}</table></body></html>\n"
    )
