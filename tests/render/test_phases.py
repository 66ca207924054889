from __future__ import annotations

from typing import Any

from envguard.render.page import Style
from envguard.render.phases import PARTS, plan_lines

JOB = {
    "model": "llama", "parameters": 7_600_000_000, "trainable": 7_600_000_000,
    "strategy": "zero2", "gpus": 4, "nodes": 1, "dtype": "bf16", "optimizer": "adamw",
    "optimizer_on": "gpu", "parameters_on": "gpu", "micro_batch": 1, "seq_len": 2048,
    "recompute": "none", "save": "trainer", "lora_rank": None,
}  # fmt: skip


def line(side: str, part: str, likely: float, **changes: object) -> dict[str, Any]:
    amount = {"low": likely, "likely": likely, "high": likely}
    plain = {"side": side, "part": part, "gib": amount, "formula": f"f.{part}", "what": "why"}
    more = {"expression": "2*P", "evidence": "code", "source": "s", "is_reclaimable": False}
    return {**plain, **more, **changes}


def phase(name: str, *lines: dict[str, Any], host: str = "fits") -> dict[str, Any]:
    def total(side: str) -> dict[str, float]:
        size = sum(n["gib"]["likely"] for n in lines if n["side"] == side)
        return {"low": size, "likely": size, "high": size}

    return {"phase": name, "is_part_of_run": name != "resume", "gpu": "fits", "host": host,
            "gpu_gib_per_rank": total("gpu"), "host_gib_per_node": total("host"),
            "lines": list(lines)}  # fmt: skip


def document(**changes: object) -> dict[str, Any]:
    save = phase("save", line("gpu", "weights", 14), line("host", "checkpoint copies", 56),
                 line("host", "file cache", 99, is_reclaimable=True), host="breaks")  # fmt: skip
    plain = {
        "job": JOB,
        "phases": [phase("step", line("gpu", "weights", 14), line("gpu", "activations", 14)), save],
        "limits": {"gpu_gib": 80.0, "gpu_usable_gib": 28.0, "host_gib": None,
                   "host_usable_gib": None, "host_kind": ""},
        "peaks": {"phase_of_gpu_peak": "step", "phase_of_host_peak": "save",
                  "gpu_gib_per_rank": 28.0, "host_gib_per_node": 56.0},
        "breaks_first": {"phase": "save", "side": "host"},
        "assumptions": ["2048 tokens"],
    }  # fmt: skip
    return {**plain, **changes}


def text(**changes: object) -> str:
    return "\n".join(plan_lines(document(**changes), Style()))


def test_a_bar_has_one_letter_a_part_and_a_mark_at_the_limit() -> None:
    bars = [row for row in text().splitlines() if row.startswith("step")]
    assert bars[0].startswith("step    wwwwwwwwwwwwwwaaaaaaaaaaaaaa|")
    assert bars[0].endswith("fits")


def test_reclaimable_memory_is_listed_and_not_drawn() -> None:
    shown = text().splitlines()
    assert any(row.startswith("save    CCCCCC") for row in shown)
    listed = next(row for row in shown if "file cache" in row)
    assert "not counted" in listed


def test_only_peaks_and_the_first_break_are_itemised_unless_verbose() -> None:
    assert "save: GPU" not in text()
    assert "f.checkpoint copies" in text()
    verbose = "\n".join(plan_lines(document(), Style(is_verbose=True)))
    assert "save: GPU, GiB a rank, 14.00" in verbose
    assert "why [2*P; code: s]" in verbose


def test_changes_sweep_and_estimators_follow() -> None:
    change = {"change": "save shards", "option": "--save sharded", "cost": 1, "fits": True,
              "gpu_gib_per_rank": 28.0, "host_gib_per_node": 20.0}  # fmt: skip
    row = {"strategy": "zero3", "gpu_gib_per_rank": 1.0, "phase_of_gpu_peak": "step",
           "host_gib_per_node": 2.0, "phase_of_host_peak": "save", "breaks": []}  # fmt: skip
    other = {"tool": "guess", "gpu_gib_per_rank": 1.5, "host_gib_per_node": 2.5, "why": "because"}
    shown = text(changes=[change], sweep=[row], estimators=[other])
    assert "single changes that make it fit, cheapest first" in shown
    assert "--save sharded" in shown
    assert "guess: GPU 1.5 GiB, host 2.5 GiB; because" in shown
    assert "no single change is enough" in text(changes=[{**change, "fits": False}])


def test_every_part_has_a_letter_of_its_own() -> None:
    from envguard.render.phases import _LETTERS

    assert len(set(_LETTERS.values())) == len(PARTS)
