"""The host: release, container, WSL, Jetson."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind, OperatingSystem
from envguard.probe.host import is_wsl, probe_container, probe_host, running_platform

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine


def test_release_and_kernel_are_read(stub_machine: StubMachine) -> None:
    stub_machine.write("/etc/os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.4 LTS"\n')
    stub_machine.write("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    host, gaps = probe_host(stub_machine.options())
    assert host.os_release == "Ubuntu 24.04.4 LTS"
    assert host.kernel == "6.8.0-45-generic"
    assert host.container is ContainerKind.NONE
    assert host.is_wsl is False
    assert host.jetson == ""
    assert gaps == ()


def test_the_vendors_release_file_stands_in(stub_machine: StubMachine) -> None:
    stub_machine.write("/usr/lib/os-release", "PRETTY_NAME='Rocky Linux 9.4'\n")
    host, _ = probe_host(stub_machine.options())
    assert host.os_release == "Rocky Linux 9.4"


def test_without_release_file_there_is_a_gap(stub_machine: StubMachine) -> None:
    host, gaps = probe_host(stub_machine.options())
    assert host.os_release is None
    assert (gaps[0].fact, gaps[0].reason) == ("machine.host.os_release", GapReason.ABSENT)


def test_the_running_platform_is_one_that_torch_is_built_for() -> None:
    platform = running_platform()
    assert platform.system is OperatingSystem.LINUX
    assert platform.arch in {"x86_64", "aarch64"}


@pytest.mark.parametrize(
    "version",
    [
        "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x) (gcc 11.2.0)",
        "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)",
    ],
)
def test_wsl_is_told_by_its_kernel(stub_machine: StubMachine, version: str) -> None:
    stub_machine.write("/proc/version", version)
    assert is_wsl(stub_machine.options())


def test_wsl_is_told_by_its_device(stub_machine: StubMachine) -> None:
    stub_machine.write("/dev/dxg", "")
    assert is_wsl(stub_machine.options())


MARKS = [
    ("/.dockerenv", "", ContainerKind.DOCKER),
    ("/run/.containerenv", "", ContainerKind.PODMAN),
    ("/.singularity.d/runscript", "", ContainerKind.APPTAINER),
    ("/run/secrets/kubernetes.io/serviceaccount/ca.crt", "", ContainerKind.KUBERNETES),
    ("/run/systemd/container", "lxc\n", ContainerKind.LXC),
    ("/run/systemd/container", "systemd-nspawn\n", ContainerKind.OTHER),
    ("/proc/1/cgroup", "12:memory:/kubepods/burstable/pod1/abc\n", ContainerKind.KUBERNETES),
    ("/proc/1/cgroup", "12:memory:/docker/abc\n", ContainerKind.DOCKER),
    ("/proc/1/cgroup", "0::/init.scope\n", ContainerKind.NONE),
]


@pytest.mark.parametrize(("path", "text", "kind"), MARKS)
def test_each_runtime_leaves_its_mark(
    stub_machine: StubMachine, path: str, text: str, kind: ContainerKind
) -> None:
    stub_machine.write(path, text)
    assert probe_container(stub_machine.options()) is kind


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1", ContainerKind.KUBERNETES),
        ("APPTAINER_CONTAINER", "/image.sif", ContainerKind.APPTAINER),
        ("SINGULARITY_CONTAINER", "/image.sif", ContainerKind.APPTAINER),
        ("container", "podman", ContainerKind.PODMAN),
        ("container", "oci", ContainerKind.OTHER),
    ],
)
def test_variables_tell_the_runtime(
    stub_machine: StubMachine, variable: str, value: str, kind: ContainerKind
) -> None:
    stub_machine.environ[variable] = value
    assert probe_container(stub_machine.options()) is kind


def test_a_pod_of_docker_containers_is_kubernetes(stub_machine: StubMachine) -> None:
    stub_machine.write("/.dockerenv", "")
    stub_machine.environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    assert probe_container(stub_machine.options()) is ContainerKind.KUBERNETES


def test_a_jetson_board_is_named(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    host, _ = probe_host(stub_machine.options())
    assert host.jetson == "NVIDIA Jetson AGX Orin Developer Kit"


def test_a_tegra_release_without_model_is_still_a_tegra(stub_machine: StubMachine) -> None:
    stub_machine.write("/etc/nv_tegra_release", "# R36 (release), REVISION: 4.0\n")
    host, _ = probe_host(stub_machine.options())
    assert host.jetson == "NVIDIA Tegra"


def test_another_board_is_no_jetson(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    host, _ = probe_host(stub_machine.options())
    assert host.jetson == ""
