from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.installs import (
    check_active_environment,
    check_duplicates,
    check_nvml_module,
    check_torch_is_one,
    check_torch_is_whole,
)
from envguard.checks.wheel import check_torch_present
from envguard.facts.environment import BuildOrigin, Distribution, Manager
from envguard.facts.gaps import Gap, GapReason
from tests.checks.sample import (
    H100,
    distribution,
    environment,
    facts,
    machine,
    run,
    said,
    torch_build,
)

SITE = "/srv/env/lib/python3.12/site-packages"
USER = "/home/a/.local/lib/python3.12/site-packages"
SHADOWED = ("INS001", "shadowed-install", "fail")
MIXED = ("INS002", "wrong-install-active", "fail")
SECOND = ("INS003", "duplicate-distributions", "warn")


@pytest.mark.parametrize(
    ("version", "metadata"),
    [
        ("2.7.1+cu128", "2.7.1+cu128"),
        ("2.7.1+cu126", "2.7.1"),  # PyPI's wheels carry no label in their metadata
        ("2.9.1+cpu", "2.9.1"),
        ("2.7.1", "2.7.1+cu128"),  # a version file that leaves the label out
        ("2.4.0a0+f70bd71a48.nv24.6", "2.4.0a0+f70bd71a48.nv24.6"),
    ],
)
def test_one_torch_described_by_its_metadata(version: str, metadata: str) -> None:
    env = environment(torch_build(version), distribution("torch", metadata))
    assert said(check_torch_is_one, facts(env=env)) == []


def test_another_torch_earlier_on_the_path() -> None:
    torch = torch_build("2.6.0+cu124", location=f"{USER}/torch")
    env = environment(torch, distribution("torch", "2.8.0", SITE))
    (finding,) = run(check_torch_is_one, facts(env=env))
    assert (finding.code, finding.cause, finding.status.value) == SHADOWED
    assert finding.title == (
        f"imports take torch 2.6.0+cu124 from {USER}/torch, the metadata say 2.8.0"
    )
    assert finding.remedy is not None
    assert finding.remedy.command == ("python", "-m", "pip", "uninstall", "-y", "torch")


def test_a_report_shows_two_torches_too() -> None:
    torch = torch_build("2.6.0+cu124", origin=BuildOrigin.REPORT, location=None)
    env = environment(torch, Distribution("torch", torch_build("2.8.0").version))
    assert said(check_torch_is_one, facts(env=env)) == [SHADOWED]


@pytest.mark.parametrize("metadata", ["2.7.1+cu128", "2.8.0+cu128"])
def test_two_installations_mixed_in_one_folder(metadata: str) -> None:
    env = environment(torch_build("2.7.1+cu126"), distribution("torch", metadata, SITE))
    assert said(check_torch_is_one, facts(env=env)) == [MIXED]


def test_a_second_torch_behind_the_one_that_imports_take() -> None:
    env = environment(
        torch_build("2.7.1+cu128"),
        distribution("torch", "2.7.1+cu128", SITE),
        distribution("torch", "2.3.0", "/usr/lib/python3/dist-packages"),
    )
    assert said(check_torch_is_one, facts(env=env)) == [SECOND]


def test_conda_keeps_its_record_of_a_torch_that_pip_replaced() -> None:
    conda = replace(distribution("pytorch", "2.3.1", "/srv/env/conda-meta"), installer="conda")
    env = environment(torch_build("2.7.1+cu128"), conda, distribution("torch", "2.7.1+cu128"))
    (finding,) = run(check_torch_is_one, facts(env=env))
    assert (finding.code, finding.cause, finding.status.value) == SECOND
    assert "the metadata of conda" in finding.detail
    own = replace(conda, version=torch_build("2.7.1").version)
    env = environment(torch_build("2.7.1"), own, distribution("torch", "2.7.1"))
    assert said(check_torch_is_one, facts(env=env)) == []


def test_a_development_install_has_the_version_of_its_last_build() -> None:
    editable = replace(distribution("torch", "2.9.0a0+git1111111"), is_editable=True)
    env = environment(torch_build("2.9.0a0+git2222222"), editable)
    assert said(check_torch_is_one, facts(env=env)) == []


def broken(reason: GapReason, probe: str = "interpreter") -> Gap:
    return Gap("environment.torch", reason, probe, "metadata of torch 2.8.0, but no package torch")


def test_metadata_without_a_package() -> None:
    env = replace(environment(), torch=None)
    found = facts(env=env, gaps=(broken(GapReason.MISMATCH),))
    (finding,) = run(check_torch_is_whole, found)
    assert (finding.code, finding.cause) == ("INS004", "broken-install")
    assert finding.remedy is not None
    assert finding.remedy.command[-2:] == ("torch==2.9.1+cu130", "--force-reinstall")
    assert said(check_torch_present, found) == []


def test_something_else_named_torch() -> None:
    env = replace(environment(), torch=None, manager=Manager.UV)
    found = facts(env=env, gaps=(broken(GapReason.UNREADABLE),))
    (finding,) = run(check_torch_is_whole, found)
    assert (finding.code, finding.cause) == ("INS004", "shadowed-install")
    assert finding.remedy is not None
    assert finding.remedy.command == (
        "uv", "pip", "install", "torch==2.9.1+cu130", "--reinstall",
    )  # fmt: skip


def test_no_torch_at_all_is_nothing_broken() -> None:
    env = replace(environment(), torch=None)
    found = facts(env=env, gaps=(broken(GapReason.ABSENT),))
    assert said(check_torch_is_whole, found) == []
    assert said(check_torch_present, found) == [("WHL001", "nothing-to-judge", "ok")]


def test_two_releases_of_one_package() -> None:
    env = environment(
        None,
        distribution("torchvision", "0.24.1", SITE),
        distribution("torchvision", "0.15.0", "/usr/lib/python3/dist-packages"),
        distribution("numpy", "2.1.0", SITE),
        distribution("numpy", "2.1.0", "/usr/lib/python3/dist-packages"),
        distribution("six", "1.16.0", SITE),
        distribution("six", "1.15.0", "/usr/lib/python3/dist-packages"),
    )
    (finding,) = run(check_duplicates, facts(env=env))
    assert (finding.code, finding.cause, finding.status.value) == SECOND
    assert finding.title == (
        "several releases of one package are installed: torchvision 0.24.1 and 0.15.0"
    )
    assert finding.package == "torchvision"


@pytest.mark.parametrize(("active", "warns"), [(False, True), (True, False), (None, False)])
def test_another_environment_is_active(active: bool | None, warns: bool) -> None:
    env = environment()
    assert env.interpreter is not None
    env = replace(env, interpreter=replace(env.interpreter, is_active=active))
    on = machine(H100, variables={"VIRTUAL_ENV": "/home/a/project/.venv"})
    found = run(check_active_environment, facts(on, env))
    assert [(f.code, f.status.value) for f in found] == ([("INS005", "warn")] if warns else [])
    if warns:
        assert found[0].remedy is not None
        assert found[0].remedy.command[-1] == "/home/a/project/.venv"


@pytest.mark.parametrize(
    ("wrapper", "bindings", "warns"),
    [
        ("11.5.3", "12.575.51", True),
        ("12.0.0", "12.575.51", False),
        ("11.5.3", None, False),
        (None, "12.575.51", False),
    ],
)
def test_two_distributions_bring_the_module_pynvml(
    wrapper: str | None, bindings: str | None, warns: bool
) -> None:
    pairs = (("pynvml", wrapper), ("nvidia-ml-py", bindings))
    env = environment(None, *(distribution(n, v) for n, v in pairs if v is not None))
    expected = [("INS006", "duplicate-nvml-module", "warn")] if warns else []
    assert said(check_nvml_module, facts(env=env)) == expected
