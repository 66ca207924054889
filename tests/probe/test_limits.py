"""Host-memory limits: meminfo, cgroups of both versions, nested and in containers."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import GapReason
from envguard.probe.limits import (
    CgroupMount,
    parse_cgroup_mounts,
    parse_cgroup_paths,
    parse_meminfo,
    probe_cgroup,
    probe_limits,
)

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine

GIB = 1024**3
MEMINFO = """\
MemTotal:       263856420 kB
MemFree:         1234567 kB
MemAvailable:   251658240 kB
SwapTotal:       8388604 kB
HugePages_Total:       0
VmallocTotal:   34359738367 kB
"""
UNIFIED = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
LEGACY = (
    "35 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
    "36 31 0:31 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory\n"
)
LEGACY_PATHS = "12:cpu,cpuacct:/job\n5:memory:/slurm/uid_1000/job_7/step_0\n1:name=systemd:/x\n"
NO_LIMIT_V1 = "9223372036854771712\n"


def test_meminfo_is_bytes_by_name() -> None:
    memory = parse_meminfo(MEMINFO)
    assert memory["MemTotal"] == 270188974080
    assert memory["MemAvailable"] == 257698037760
    assert memory["SwapTotal"] == 8589930496
    assert "HugePages_Total" not in memory


def test_a_malformed_meminfo_line_is_left_out() -> None:
    assert parse_meminfo("MemTotal: lots kB\nMemFree: ² kB\nSwapTotal 5 kB\n") == {}


def test_unified_limit_is_the_tightest_of_the_ancestry(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/self/mountinfo", UNIFIED)
    stub_machine.write("/proc/self/cgroup", "0::/user.slice/job/step\n")
    stub_machine.write("/sys/fs/cgroup/user.slice/job/step/memory.max", "max\n")
    stub_machine.write("/sys/fs/cgroup/user.slice/job/memory.max", f"{64 * GIB}\n")
    stub_machine.write("/sys/fs/cgroup/user.slice/memory.max", f"{128 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (2, 64 * GIB)


def test_unified_without_limit_is_none(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/self/mountinfo", UNIFIED)
    stub_machine.write("/proc/self/cgroup", "0::/user.slice\n")
    stub_machine.write("/sys/fs/cgroup/user.slice/memory.max", "max\n")
    assert probe_cgroup(stub_machine.options()) == (2, None)


def test_in_a_cgroup_namespace_the_mount_point_is_the_own_cgroup(
    stub_machine: StubMachine,
) -> None:
    stub_machine.write("/proc/self/mountinfo", UNIFIED)
    stub_machine.write("/proc/self/cgroup", "0::/\n")
    stub_machine.write("/sys/fs/cgroup/memory.max", f"{16 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (2, 16 * GIB)


def test_a_path_that_the_container_does_not_see_falls_back_to_the_mount_point(
    stub_machine: StubMachine,
) -> None:
    stub_machine.write("/proc/self/mountinfo", UNIFIED)
    stub_machine.write("/proc/self/cgroup", "0::/system.slice/docker-abc.scope\n")
    stub_machine.write("/sys/fs/cgroup/memory.max", f"{16 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (2, 16 * GIB)


def test_a_path_outside_the_namespace_falls_back_to_the_mount_point(
    stub_machine: StubMachine,
) -> None:
    stub_machine.write("/proc/self/mountinfo", UNIFIED)
    stub_machine.write("/proc/self/cgroup", "0::/../../other\n")
    stub_machine.write("/sys/fs/cgroup/memory.max", f"{8 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (2, 8 * GIB)


def test_legacy_limit_is_the_tightest_of_the_ancestry(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/self/mountinfo", LEGACY)
    stub_machine.write("/proc/self/cgroup", LEGACY_PATHS)
    base = "/sys/fs/cgroup/memory/slurm/uid_1000"
    stub_machine.write(f"{base}/job_7/step_0/memory.limit_in_bytes", NO_LIMIT_V1)
    stub_machine.write(f"{base}/job_7/memory.limit_in_bytes", f"{96 * GIB}\n")
    stub_machine.write(f"{base}/memory.limit_in_bytes", f"{200 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (1, 96 * GIB)


def test_legacy_without_limit_is_none(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/self/mountinfo", LEGACY)
    stub_machine.write("/proc/self/cgroup", "5:memory:/\n")
    stub_machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT_V1)
    assert probe_cgroup(stub_machine.options()) == (1, None)


def test_a_legacy_ancestor_that_is_not_mounted_counts_too(stub_machine: StubMachine) -> None:
    docker = LEGACY.replace("0:31 / ", "0:31 /docker/abc ")
    stub_machine.write("/proc/self/mountinfo", docker)
    stub_machine.write("/proc/self/cgroup", "5:memory:/docker/abc\n")
    stub_machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", NO_LIMIT_V1)
    stub_machine.write(
        "/sys/fs/cgroup/memory/memory.stat", f"cache 0\nhierarchical_memory_limit {32 * GIB}\n"
    )
    assert probe_cgroup(stub_machine.options()) == (1, 32 * GIB)


def test_a_mounted_part_shows_the_cgroups_below_it(stub_machine: StubMachine) -> None:
    docker = LEGACY.replace("0:31 / ", "0:31 /docker/abc ")
    stub_machine.write("/proc/self/mountinfo", docker)
    stub_machine.write("/proc/self/cgroup", "5:memory:/docker/abc/inner\n")
    stub_machine.write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", f"{4 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (1, 4 * GIB)


def test_hybrid_reads_the_hierarchy_that_has_the_memory_controller(
    stub_machine: StubMachine,
) -> None:
    unified = UNIFIED.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    stub_machine.write("/proc/self/mountinfo", unified + LEGACY)
    stub_machine.write("/proc/self/cgroup", "5:memory:/job\n0::/job\n")
    stub_machine.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{24 * GIB}\n")
    assert probe_cgroup(stub_machine.options()) == (1, 24 * GIB)


def test_without_cgroups_nothing_is_known(stub_machine: StubMachine) -> None:
    assert probe_cgroup(stub_machine.options()) == (None, None)


@pytest.mark.parametrize("text", ["", "-1", "lots", "1" * 40, "١٢٣"])
def test_a_malformed_limit_is_no_limit(stub_machine: StubMachine, text: str) -> None:
    stub_machine.write("/proc/self/mountinfo", UNIFIED)
    stub_machine.write("/proc/self/cgroup", "0::/\n")
    stub_machine.write("/sys/fs/cgroup/memory.max", text)
    assert probe_cgroup(stub_machine.options()) == (2, None)


def test_mount_points_with_spaces_are_unescaped() -> None:
    text = "30 24 0:27 /a\\040b /mnt/c\\040d rw - cgroup2 cgroup2 rw\n"
    assert parse_cgroup_mounts(text) == [CgroupMount(2, "/a b", "/mnt/c d")]


def test_other_mounts_and_broken_lines_are_left_out() -> None:
    text = "1 2 0:3 / / rw - ext4 /dev/sda rw\nnonsense\n30 24 - cgroup2\n" + LEGACY
    assert parse_cgroup_mounts(text) == [CgroupMount(1, "/", "/sys/fs/cgroup/memory")]


def test_cgroup_paths_with_colons_are_whole() -> None:
    assert parse_cgroup_paths("0::/a:b\n") == {2: "/a:b"}


def test_all_limits_together(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/meminfo", MEMINFO)
    (stub_machine.root / "dev/shm").mkdir(parents=True)
    limits, gaps = probe_limits(stub_machine.options())
    assert gaps == ()
    assert limits.ram_bytes == 270188974080
    assert limits.available_bytes == 257698037760
    assert limits.swap_bytes == 8589930496
    stat = os.statvfs(stub_machine.root / "dev/shm")
    assert limits.shm_bytes == stat.f_frsize * stat.f_blocks
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert limits.memlock_bytes == (None if memlock == resource.RLIM_INFINITY else memlock)


def test_missing_files_are_gaps(stub_machine: StubMachine) -> None:
    limits, gaps = probe_limits(stub_machine.options())
    assert limits.ram_bytes is None
    assert {(gap.fact, gap.reason) for gap in gaps} == {
        ("machine.limits.ram_bytes", GapReason.ABSENT),
        ("machine.limits.shm_bytes", GapReason.ABSENT),
    }


def test_a_meminfo_without_total_is_unreadable(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/meminfo", "MemFree: 5 kB\n")
    _, gaps = probe_limits(stub_machine.options())
    assert gaps[0].reason is GapReason.UNREADABLE
