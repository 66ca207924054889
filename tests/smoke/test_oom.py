"""Out-of-memory counters are read from the cgroup that the process is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.smoke.result import OomCounts, read_oom_counts

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = "low 0\nhigh 0\nmax 812\noom 3\noom_kill 2\noom_group_kill 0\n"


def lay_out(folder: Path, cgroup: str, **files: str) -> tuple[Path, Path]:
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "cgroup").write_text(cgroup)
    for path, text in files.items():
        target = folder / "sys" / path.replace("__", "/").replace("_DOT_", ".")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder / "proc", folder / "sys"


def test_version_2_counts_kills_and_limit_hits(tmp_path: Path) -> None:
    proc, sys_fs = lay_out(tmp_path, "0::/user/job\n", user__job__memory_DOT_events=EVENTS)
    assert read_oom_counts(proc, sys_fs) == OomCounts(kills=2, limit_hits=3)


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    proc, sys_fs = lay_out(tmp_path, "0::/../abc\n", memory_DOT_events=EVENTS)
    assert read_oom_counts(proc, sys_fs) == OomCounts(kills=2, limit_hits=3)


def test_version_1_counts_kills_alone(tmp_path: Path) -> None:
    proc, sys_fs = lay_out(
        tmp_path,
        "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n",
        memory__job__memory_DOT_oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
    )
    assert read_oom_counts(proc, sys_fs) == OomCounts(kills=4)


def test_no_cgroup_counts_nothing(tmp_path: Path) -> None:
    assert read_oom_counts(tmp_path / "proc", tmp_path / "sys") == OomCounts()


def test_only_what_was_added_meanwhile_counts() -> None:
    assert OomCounts(5, 2).since(OomCounts(3, 2)) == OomCounts(2, 0)
