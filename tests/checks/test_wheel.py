"""Is torch there, which build is it, and for whose hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.checks.wheel import (
    check_accelerator,
    check_build_published,
    check_c_library,
    check_jetson_build,
    check_python_tag,
    check_torch_present,
)
from envguard.facts.environment import Accelerator, BuildOrigin, Environment, Manager, TorchBuild
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Machine, Platform
from envguard.facts.versions import CudaVersion
from envguard.ingest.stated_pins import add_pins
from envguard.matrix.complete import complete_facts
from tests.checks.sample import (
    H100,
    LINUX,
    distribution,
    environment,
    facts,
    gpu,
    machine,
    pinned,
    run,
    said,
    tables,
    torch_build,
)

if TYPE_CHECKING:
    from envguard.facts.facts import Facts


def pinned_build(version: str) -> Environment:
    build = replace(
        torch_build(version), origin=BuildOrigin.PIN, accelerator=None, cuda=None, location=None
    )
    return environment(build)


@pytest.mark.parametrize("reason", ["crashed", "timed-out", "unreadable", "forbidden"])
def test_an_interpreter_that_does_not_answer_is_not_fine(reason: str) -> None:
    gap = Gap("environment.interpreter", GapReason(reason), "interpreter", "python: it hangs")
    (finding,) = run(check_torch_present, facts(env=Environment(), gaps=(gap,)))
    assert (finding.code, finding.cause) == ("WHL011", "environment-not-read")
    assert finding.status.value == "unknown"
    assert finding.detail == "python: it hangs. What it holds is not known."


def test_folders_that_may_not_be_read_can_hold_torch() -> None:
    gap = Gap("environment.distributions", GapReason.FORBIDDEN, "interpreter", "site: forbidden")
    empty = replace(environment(), torch=None)
    assert said(check_torch_present, facts(env=empty, gaps=(gap,))) == [
        ("WHL011", "environment-not-read", "unknown")
    ]
    assert said(check_torch_present, facts(gaps=(gap,))) == []  # torch was found all the same


@pytest.mark.parametrize(
    ("version", "vendor"), [("2.9.0+rocm6.4", "AMD GPUs (ROCm)"), ("2.9.0+xpu", "Intel GPUs (XPU)")]
)
def test_a_build_for_another_vendor_fails_beside_nvidia_gpus_only(
    version: str, vendor: str
) -> None:
    env = environment(torch_build(version))
    (finding,) = run(check_accelerator, facts(machine(H100), env))
    assert (finding.code, finding.status.value) == ("WHL003", "fail")
    assert f"is a build for {vendor} and uses no NVIDIA GPU: GPU 0" in finding.title
    (finding,) = run(check_accelerator, facts(machine(), env))
    assert finding.status.value == "skip"
    assert finding.title == f"torch {version} is a build for {vendor}"


@pytest.mark.parametrize(
    ("version", "detail", "remedy"),
    [
        ("2.7.1+git1", "Its label, git1, names no CUDA release.", "let envguard read"),
        ("2.99.0", "The tables know torch 1.0.0 to ", "torch==2.99.0+cu..."),
        ("1.8.2", "The tables know torch 1.0.0 to ", "torch==1.8.2+cu..."),
    ],
)
def test_why_a_build_is_not_known(version: str, detail: str, remedy: str) -> None:
    (finding,) = run(check_accelerator, facts(env=pinned_build(version)))
    assert finding.code == "WHL004"
    assert finding.detail.startswith(detail)
    assert finding.remedy is not None
    assert remedy in finding.remedy.text


@pytest.mark.parametrize(
    ("document", "remedy"),
    [
        ("requirements.txt", "pin it in the file, or lock it (`envguard lock -r FILE`)"),
        (None, "let envguard read the installed one: --python PATH"),
    ],
)
def test_a_torch_without_a_version_is_pinned_or_read(document: str | None, remedy: str) -> None:
    env = Environment(torch=TorchBuild(None), document=document)
    (finding,) = run(check_accelerator, facts(env=env))
    assert finding.code == "WHL004"
    assert finding.remedy is not None
    assert finding.remedy.text.startswith(remedy)


def test_without_a_platform_what_each_gets_from_pypi_is_said() -> None:
    base = machine(H100)
    nowhere = replace(base, host=replace(base.host, platform=None))
    (finding,) = run(check_accelerator, facts(nowhere, pinned_build("2.7.1")))
    assert finding.detail == (
        "PyPI serves another build for each platform: cu126 on linux-x86_64, cpu on linux-aarch64."
    )
    assert finding.remedy is not None
    assert finding.remedy.text == "state the platform: --platform linux-x86_64"
    assert base.host.platform == LINUX


def completed(*pins: str) -> Facts:
    return complete_facts(facts(env=add_pins(None, pins)), tables())


@pytest.mark.parametrize(
    ("pins", "version", "cuda"),
    [
        (("torchvision==0.21.0",), "2.6.0", "12.4"),  # PyPI's default build
        (("torchvision==0.21.0+cu118", "torchaudio==2.6.0"), "2.6.0+cu118", "11.8"),
        (("vllm==0.8.5",), "2.6.0", "12.4"),
        (("vllm==0.8.5+precompiled",), "2.6.0", "12.4"),  # a label of its own
    ],
)
def test_a_pin_that_requires_one_torch_brings_it_along(
    pins: tuple[str, ...], version: str, cuda: str
) -> None:
    found = completed(*pins)
    torch = found.environment.torch if found.environment else None
    assert torch is not None
    assert (str(torch.version), str(torch.cuda), torch.origin) == (
        version,
        cuda,
        BuildOrigin.REQUIRED,
    )
    assert said(check_torch_present, found) == [("WHL012", "torch-required-by-pins", "ok")]


@pytest.mark.parametrize(
    "pins", [("deepspeed==0.17.2",), ("torchvision==99.0",), ("peft==0.17.0",)]
)
def test_pins_that_leave_torch_open_bring_none_that_is_known(pins: tuple[str, ...]) -> None:
    (finding,) = run(check_torch_present, completed(*pins))
    assert (finding.code, finding.status.value) == ("WHL001", "ok")
    assert finding.title == "torch is not among the pins: there is nothing to judge"


@pytest.mark.parametrize(
    "pins",
    [
        ("torchvision==0.21.0", "torchaudio==2.8.0"),
        ("torchvision==0.21.0+cu124", "vllm==0.10.0", "xformers==0.0.28.post3"),
    ],
)
def test_pins_that_require_different_torches_fit_no_installation(pins: tuple[str, ...]) -> None:
    (finding,) = run(check_torch_present, completed(*pins))
    assert (finding.code, finding.status.value) == ("WHL013", "fail")
    assert len(finding.evidence) == len(pins)


def test_what_is_installed_brings_nothing_along() -> None:
    """An environment that was read lists everything: its torch is missing."""
    read = replace(add_pins(None, ["torchvision==0.21.0"]), is_open=False)
    found = complete_facts(facts(env=read), tables())
    assert found.environment is not None
    assert found.environment.torch is None
    assert said(check_torch_present, found) == [("WHL001", "nothing-to-judge", "ok")]


CPU = environment(torch_build("2.9.1+cpu"))
NO_L4T = ("GPU006", "jetson-needs-l4t-build", "fail")
SELECTED = ("WHL002", "cpu-wheel-selected", "fail")


def unknown(platform: str, *, driver: str | None = None) -> Machine:
    """A machine of which little is known."""
    on = machine(driver=driver, cuda=None, container=None)
    on = replace(on, gpus=None, driver=replace(on.driver, is_loaded=None))
    return replace(on, host=replace(on.host, platform=Platform.parse(platform)))


def reported(version: str, metadata: str) -> Environment:
    """What collect_env shows: the imported torch and pip's word on it."""
    torch = torch_build(
        version, origin=BuildOrigin.REPORT, location=None, accelerator=Accelerator.CPU
    )
    return environment(torch, distribution("torch", metadata))


def test_a_cpu_build_beside_a_gpu_is_wasted() -> None:
    assert said(check_accelerator, facts(machine(H100), CPU)) == [SELECTED]


def test_a_cpu_build_without_a_gpu_is_right() -> None:
    assert said(check_accelerator, facts(machine(driver=None, cuda=None), CPU)) == [
        ("WHL005", "cpu-build", "ok")
    ]


def test_a_driver_tells_that_there_is_a_gpu() -> None:
    found = facts(unknown("linux-x86_64", driver="550.54.15"), CPU)
    (finding,) = run(check_accelerator, found)
    assert (finding.code, finding.cause, finding.status.value) == SELECTED
    assert finding.title.endswith("is a CPU build beside the NVIDIA driver 550.54.15")


def test_a_jetson_has_a_gpu() -> None:
    on = unknown("linux-aarch64")
    on = replace(on, host=replace(on.host, jetson="NVIDIA Jetson AGX Orin"))
    (finding,) = run(check_accelerator, facts(on, CPU))
    assert (finding.code, finding.cause, finding.status.value) == NO_L4T
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("install torch from NVIDIA's index for this JetPack")


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("Jetson Xavier NX", "7.2", NO_L4T),
        ("Jetson AGX Orin", "8.7", NO_L4T),
        ("Jetson AGX Thor", "11.0", SELECTED),  # builds for ARM servers hold code for it
        ("NVIDIA GH200 480GB", "9.0", SELECTED),
    ],
)
def test_a_board_that_is_only_stated_as_a_gpu(
    name: str, capability: str, expected: tuple[str, str, str]
) -> None:
    on = replace(unknown("linux-aarch64"), gpus=(gpu(name, capability),))
    (finding,) = run(check_accelerator, facts(on, CPU))
    assert (finding.code, finding.cause, finding.status.value) == expected


@pytest.mark.parametrize("platform", ["linux-aarch64", "windows-x86_64"])
@pytest.mark.parametrize(("is_loaded", "status"), [(None, "fail"), (False, "warn")])
def test_pypis_cpu_build_where_the_index_has_better(
    platform: str, is_loaded: bool | None, status: str
) -> None:
    on = unknown(platform)
    on = replace(on, driver=replace(on.driver, is_loaded=is_loaded))
    (finding,) = run(check_accelerator, facts(on, reported("2.9.1+cpu", "2.9.1")))
    assert (finding.code, finding.cause, finding.status.value) == (
        "WHL006",
        "cpu-wheel-selected",
        status,
    )
    assert finding.remedy is not None
    assert finding.remedy.command[:5] == (
        "python",
        "-m",
        "pip",
        "install",
        "torch==2.9.1+cu130",
    )


@pytest.mark.parametrize(
    ("platform", "version", "metadata"),
    [
        ("linux-aarch64", "2.9.1+cpu", "2.9.1+cpu"),  # taken from the CPU index on purpose
        ("linux-x86_64", "2.9.1+cpu", "2.9.1+cpu"),
        ("macos-aarch64", "2.9.1", "2.9.1"),  # no CUDA build exists
    ],
)
def test_a_cpu_build_that_was_chosen_is_no_warning(
    platform: str, version: str, metadata: str
) -> None:
    env = reported(version, metadata)
    assert said(check_accelerator, facts(unknown(platform), env)) == [("WHL005", "cpu-build", "ok")]


def test_condas_cpu_build_did_not_come_from_pypi() -> None:
    env = replace(reported("2.9.1+cpu", "2.9.1"), manager=Manager.CONDA)
    assert said(check_accelerator, facts(unknown("linux-aarch64"), env))[0][0] == "WHL005"


def test_uv_chose_the_cpu_build_by_itself() -> None:
    on = machine(H100, variables={"UV_TORCH_BACKEND": "auto"})
    assert said(check_accelerator, facts(on, CPU)) == [("WHL002", "resolver-auto-backend", "fail")]
    stated = machine(H100, variables={"UV_TORCH_BACKEND": "cpu"})
    assert said(check_accelerator, facts(stated, CPU)) == [SELECTED]


def test_a_required_gpu_makes_every_cpu_build_a_failure() -> None:
    found = facts(machine(driver=None, cuda=None), pinned("2.9.1+cpu"))
    (finding,) = run(check_accelerator, found, require_gpu=True)
    assert finding.title == "torch 2.9.1+cpu is a CPU build where a GPU is required"


def board(model: str) -> Machine:
    on = replace(machine(driver="540.4.0", cuda="12.6"), gpus=None)
    host = replace(on.host, jetson=model, platform=Platform.parse("linux-aarch64"))
    return replace(on, host=host)


@pytest.mark.parametrize(
    ("model", "version", "expected"),
    [
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.9.1+cu126", ("GPU006", "fail")),
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.15.0+cu132", None),
        ("NVIDIA Jetson AGX Thor Developer Kit", "2.9.1+cu130", None),
        ("NVIDIA Tegra", "2.9.1+cu126", ("GPU011", "unknown")),
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.99.0+cu126", ("GPU011", "unknown")),
        ("NVIDIA Jetson AGX Orin Developer Kit", "2.5.0a0+872d972e41.nv24.8", None),
        ("", "2.9.1+cu126", None),
    ],
)
def test_server_builds_on_boards(
    model: str, version: str, expected: tuple[str, str] | None
) -> None:
    found = said(check_jetson_build, facts(board(model), environment(torch_build(version))))
    assert [(code, status) for code, _, status in found] == ([expected] if expected else [])


def test_a_build_of_nvidia_carries_no_label() -> None:
    orin = board("NVIDIA Jetson AGX Orin")
    cuda = CudaVersion(12, 6)
    own = torch_build("2.8.0", cuda=cuda, accelerator=torch_build().accelerator)
    assert said(check_jetson_build, facts(orin, environment(own))) == []
    from_pypi = replace(own, origin=BuildOrigin.PIN)
    assert said(check_jetson_build, facts(orin, environment(from_pypi)))[0][2] == "unknown"


def test_a_listed_gpu_is_judged_by_its_own_capability() -> None:
    on = replace(board("NVIDIA Jetson AGX Orin"), gpus=(H100,))
    assert said(check_jetson_build, facts(on, environment(torch_build("2.9.1+cu126")))) == []


def on(platform: str) -> Machine:
    base = machine(H100)
    return replace(base, host=replace(base.host, platform=Platform.parse(platform)))


@pytest.mark.parametrize(
    ("platform", "version", "code"),
    [
        ("linux-x86_64", "2.7.1+cu128", None),
        ("linux-x86_64", "2.5.1+cu128", "WHL008"),
        ("windows-x86_64", "2.11.0+cu129", "WHL008"),
        ("linux-x86_64", "2.15.0+cu134", None),  # announced, not confirmed
        ("macos-x86_64", "2.7.1+cpu", "WHL007"),
        ("macos-aarch64", "2.7.1+cpu", None),
        ("linux-x86_64", "2.99.0+cu128", None),  # a release that is not recorded
    ],
)
def test_a_pin_names_a_build_that_exists(platform: str, version: str, code: str | None) -> None:
    found = run(check_build_published, facts(on(platform), pinned(version)))
    assert [f.code for f in found] == ([code] if code else [])
    assert all(f.status.value == "fail" for f in found)


def test_the_builds_that_exist_are_named() -> None:
    (finding,) = run(check_build_published, facts(env=pinned("2.5.1+cu128")))
    assert finding.cause == "resolver-local-version"
    assert finding.detail == "torch 2.5.1 is published there as cpu, cu118, cu121, cu124."


def test_what_is_installed_was_published() -> None:
    env = environment(torch_build("2.5.1+cu128"))
    assert said(check_build_published, facts(env=env)) == []
    assert said(check_python_tag, facts(env=env)) == []


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        ("2.5.1+cu128", [("WHL008", "resolver-local-version", "fail")]),  # on no platform
        ("2.5.1+cu124", []),
        ("2.7.1+cu126", []),  # not for linux-aarch64
        ("2.7.1+cu999", [("WHL008", "resolver-local-version", "fail")]),
    ],
)
def test_where_the_platform_is_not_stated_a_build_has_to_be_missing_on_all(
    version: str, codes: list[tuple[str, str, str]]
) -> None:
    base = machine(H100)
    nowhere = replace(base, host=replace(base.host, platform=None))
    assert said(check_build_published, facts(nowhere, pinned(version))) == codes


def test_no_cuda_build_exists_for_macos() -> None:
    (finding,) = run(check_build_published, facts(on("macos-aarch64"), pinned("2.7.1+cu128")))
    assert (finding.cause, finding.status.value) == ("resolver-local-version", "fail")
    assert finding.remedy is not None
    assert finding.remedy.text == "pin torch==2.7.1, or a release that has this build"


@pytest.mark.parametrize(
    ("version", "python", "fails"),
    [
        ("2.5.1+cu124", "3.14", True),
        ("2.5.1+cu124", "3.13", False),
        ("2.5.1+cu124", "3.8", True),
        ("2.15.0+cu132", "3.10", True),
        ("2.15.0+cu132", "3.11", False),
    ],
)
def test_wheels_are_made_for_some_pythons(version: str, python: str, fails: bool) -> None:
    found = facts(env=pinned(version, python=python))
    expected = [("WHL009", "no-wheel-for-python", "fail")] if fails else []
    assert said(check_python_tag, found) == expected


def test_the_nearest_release_for_that_python_is_named() -> None:
    (finding,) = run(check_python_tag, facts(env=pinned("2.5.1+cu124", python="3.14")))
    assert finding.title == ("no wheel of torch 2.5.1+cu124 is published for Python 3.14 (cp314)")
    assert finding.remedy is not None
    assert finding.remedy.text == (
        "use a Python of cp39 cp310 cp311 cp312 cp313, or torch 2.9.0, which has wheels for cp314"
    )


def with_glibc(version: str | None) -> Machine:
    base = machine(H100)
    glibc = Version(version) if version else None
    return replace(base, host=replace(base.host, glibc=glibc))


OLD_GLIBC = [("WHL010", "glibc-too-old", "fail")]


@pytest.mark.parametrize(
    ("glibc", "version", "fails"),
    [
        ("2.17", "2.7.1+cu128", True),
        ("2.28", "2.7.1+cu128", False),
        ("2.17", "2.4.1+cu121", False),
        (None, "2.7.1+cu128", False),
    ],
)
def test_wheels_need_a_c_library(glibc: str | None, version: str, fails: bool) -> None:
    found = facts(with_glibc(glibc), pinned(version))
    assert said(check_c_library, found) == (OLD_GLIBC if fails else [])


def test_musl_runs_no_manylinux_wheel() -> None:
    musl = Gap(
        "machine.host.glibc",
        GapReason.ABSENT,
        "host",
        "this system's C library is not glibc (musl, for instance)",
    )
    assert said(check_c_library, facts(with_glibc(None), pinned("2.7.1+cu128"), gaps=(musl,))) == (
        OLD_GLIBC
    )
