"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.samples import CgroupUse
from envguard.supervise.sampling import find_cgroup, read_cgroup

if TYPE_CHECKING:
    from pathlib import Path


MIB = 2**20


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_version_2_takes_the_tightest_limit_above_and_counts_kills_in_the_own_group(
    tmp_path: Path,
) -> None:
    write(tmp_path / "proc/self", cgroup="0::/job/step\n")
    root = tmp_path / "cg"
    stat = f"anon 1\ninactive_file {100 * MIB}\nshmem {7 * MIB}\n"
    write(
        root / "job",
        memory__max=str(900 * MIB),
        memory__current=str(800 * MIB),
        memory__stat=stat,
        memory__swap__current="0",
    )
    write(
        root / "job/step",
        memory__max="max\n",
        memory__current=str(700 * MIB),
        memory__stat=stat,
        memory__events="low 0\noom 3\noom_kill 2\n",
    )
    files = find_cgroup(tmp_path / "proc", root)
    assert files.folder == root / "job"
    assert read_cgroup(files) == CgroupUse(700 * MIB, 900 * MIB, 0, 7 * MIB, 2)


def test_version_1_reads_the_hierarchical_limit(tmp_path: Path) -> None:
    write(tmp_path / "proc/self", cgroup="4:memory:/x\n0::/\n")
    root = tmp_path / "cg"
    write(
        root / "memory/x",
        memory__usage_in_bytes=str(500 * MIB),
        memory__limit_in_bytes=str(9223372036854771712),
        memory__stat=f"hierarchical_memory_limit {600 * MIB}\ntotal_inactive_file {50 * MIB}\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )
    assert read_cgroup(find_cgroup(tmp_path / "proc", root)) == CgroupUse(
        450 * MIB, 600 * MIB, None, None, 1
    )


def test_a_container_that_sees_its_own_group_as_the_root_is_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/self", cgroup="0::/kubepods/pod1/c1\n")
    write(tmp_path / "cg", memory__current="5", memory__max="10")
    assert read_cgroup(find_cgroup(tmp_path / "proc", tmp_path / "cg")).limit_bytes == 10


def test_no_cgroup_gives_nothing(tmp_path: Path) -> None:
    assert read_cgroup(find_cgroup(tmp_path / "proc", tmp_path / "cg")) == CgroupUse()
