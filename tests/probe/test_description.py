"""What is installed in an environment, whole or broken, and the torch among it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from envguard.facts.environment import Accelerator, BuildOrigin, Manager
from envguard.facts.gaps import GapReason
from envguard.facts.versions import CudaVersion
from tests.probe.environments import StubEnvironment, ask, base_python, names


def test_the_build_is_read_from_torchs_own_file(env: StubEnvironment) -> None:
    env.install("torch", "2.7.1")
    folder = env.install_torch()
    environment, gaps = ask(env.python)
    torch = environment.torch
    assert torch is not None
    assert torch.version == Version("2.7.1+cu128")
    assert torch.accelerator is Accelerator.CUDA
    assert torch.cuda == CudaVersion(12, 8)
    assert torch.origin is BuildOrigin.VERSION_FILE
    assert torch.git_version == "e2d141dbde55c2a4370fac5165b0561b6af4798b"
    assert torch.location == str(folder)
    assert gaps == ()


def test_a_torch_earlier_on_the_path_shadows_the_installed_one(
    env: StubEnvironment, tmp_path: Path
) -> None:
    env.install("torch", "2.7.1+cu128")
    env.install_torch()
    other = tmp_path / "other"
    env.install("torch", "2.6.0+cpu", site=other)
    env.install_torch("__version__ = '2.6.0+cpu'\ncuda = None\n", site=other)
    environment, _ = ask(env.python, PYTHONPATH=str(other))
    assert environment.torch is not None
    assert environment.torch.version == Version("2.6.0+cpu")
    assert environment.torch.accelerator is Accelerator.CPU
    found = [(d.name, str(d.version), d.location) for d in environment.distributions or ()]
    assert found == [
        ("torch", "2.6.0+cpu", str(other)),
        ("torch", "2.7.1+cu128", str(env.site)),
    ]
    first = environment.distribution("torch")
    assert first is not None
    assert first.version == Version("2.6.0+cpu")


def test_the_users_own_site_counts_where_python_uses_it(tmp_path: Path) -> None:
    base = StubEnvironment(tmp_path / "unused")
    minor = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    user = tmp_path / "user" / "lib" / minor / "site-packages"
    base.install("envguard-probe-sample", "1.0", site=user)
    python = base_python()  # a virtual environment has no user site
    environment, _ = ask(python, PYTHONUSERBASE=str(tmp_path / "user"))
    assert environment.distribution("envguard-probe-sample") is not None
    environment, _ = ask(python, PYTHONUSERBASE=str(tmp_path / "user"), PYTHONNOUSERSITE="1")
    assert environment.distribution("envguard-probe-sample") is None


def test_folders_of_pth_files_count(env: StubEnvironment, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    env.install("numpy", "1.26.4", site=extra)
    (env.site / "extra.pth").write_text(f"{extra}\n")
    environment, _ = ask(env.python)
    assert names(environment) == ["numpy"]


def test_a_folder_that_is_listed_twice_counts_once(env: StubEnvironment) -> None:
    env.install("numpy", "1.26.4")
    (env.folder / "linked").symlink_to(env.site)
    environment, _ = ask(env.python, PYTHONPATH=str(env.folder / "linked"))
    assert names(environment) == ["numpy"]


def test_two_versions_in_one_folder_are_both_kept(env: StubEnvironment) -> None:
    env.install("torch", "2.6.0")
    env.install("torch", "2.7.1")
    environment, _ = ask(env.python)
    assert [str(d.version) for d in environment.distributions or ()] == ["2.6.0", "2.7.1"]


def test_metadata_wins_over_the_folders_name(env: StubEnvironment) -> None:
    folder = env.install("zope.interface", "7.0")
    folder.rename(env.site / "Zope_Interface-6.9.dist-info")
    environment, gaps = ask(env.python)
    (found,) = environment.distributions or ()
    assert (found.name, found.version) == ("zope-interface", Version("7.0"))
    assert [gap.fact for gap in gaps] == ["environment.torch"]


@pytest.mark.parametrize("metadata", ["", "nonsense\n", "\nName: late\nVersion: 1\n", "\x00\x01"])
def test_broken_metadata_falls_back_to_the_folders_name(
    env: StubEnvironment, metadata: str
) -> None:
    env.install("flash-attn", "2.8.3", metadata=metadata)
    environment, gaps = ask(env.python)
    (found,) = environment.distributions or ()
    assert (found.name, found.version) == ("flash-attn", Version("2.8.3"))
    assert gaps[0].reason is GapReason.UNREADABLE
    folder = "flash_attn-2.8.3.dist-info"
    assert gaps[0].detail.endswith(f"{folder}: its metadata holds no name and version")


def test_a_metadata_folder_without_metadata_is_a_gap(env: StubEnvironment) -> None:
    (env.site / "apex-0.1.dist-info").mkdir()
    environment, gaps = ask(env.python)
    assert names(environment) == ["apex"]
    assert "apex-0.1.dist-info" in gaps[0].detail


def test_a_version_that_is_none_keeps_the_name(env: StubEnvironment) -> None:
    env.install("apex", "0.1-dev-build")
    environment, gaps = ask(env.python)
    (found,) = environment.distributions or ()
    assert (found.name, found.version) == ("apex", None)
    assert gaps[0].fact == "environment.distributions[apex].version"
    assert "'0.1-dev-build'" in gaps[0].detail


def test_names_that_are_no_text_do_no_harm(env: StubEnvironment) -> None:
    bad = os.fsencode(env.site) + b"/bad\xff-1.0.dist-info"
    Path(os.fsdecode(bad)).mkdir()
    env.install("numpy", "2.1.3")
    environment, _ = ask(env.python)
    assert names(environment) == ["bad\ufffd", "numpy"]


def test_remains_of_an_interrupted_uninstall_are_a_gap(env: StubEnvironment) -> None:
    (env.site / "~orch-2.1.0.dist-info").mkdir()
    environment, gaps = ask(env.python)
    assert names(environment) == []
    assert gaps[0].detail.endswith("~orch-2.1.0.dist-info: left behind by an interrupted uninstall")


def test_egg_info_is_read_as_folder_and_as_file(env: StubEnvironment) -> None:
    folder = env.site / "apex-0.1-py3.11.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Name: apex\nVersion: 0.1\n")
    (env.site / "PyYAML-6.0.egg-info").write_text("Name: PyYAML\nVersion: 6.0\n")
    environment, gaps = ask(env.python)
    assert [(d.name, str(d.version)) for d in environment.distributions or ()] == [
        ("apex", "0.1"),
        ("pyyaml", "6.0"),
    ]
    assert [gap.fact for gap in gaps] == ["environment.torch"]


def test_a_development_link_leads_to_the_source(env: StubEnvironment, tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "my_project.egg-info").mkdir(parents=True)
    (source / "my_project.egg-info" / "PKG-INFO").write_text("Name: my-project\nVersion: 3.0\n")
    (env.site / "my-project.egg-link").write_text(f"{source}\n.")
    environment, _ = ask(env.python)
    (found,) = environment.distributions or ()
    assert (found.name, str(found.version)) == ("my-project", "3.0")
    assert found.location == str(source)
    assert found.is_editable is True


def test_a_development_link_to_nowhere_keeps_the_name(env: StubEnvironment) -> None:
    (env.site / "gone.egg-link").write_text("/nowhere/at/all\n.")
    environment, gaps = ask(env.python)
    (found,) = environment.distributions or ()
    assert (found.name, found.version, found.is_editable) == ("gone", None, True)
    assert gaps[0].fact == "environment.distributions[gone].version"


def test_an_editable_install_is_told_by_its_origin(env: StubEnvironment) -> None:
    origin = '{"url": "file:///home/me/trl", "dir_info": {"editable": true}}'
    env.install("trl", "0.9.0", origin=origin)
    environment, _ = ask(env.python)
    found = environment.distribution("trl")
    assert found is not None
    assert found.is_editable is True
    assert found.url == "file:///home/me/trl"


@pytest.mark.parametrize("origin", ["[]", "{", '{"url": 5, "dir_info": []}'])
def test_a_broken_origin_is_left_out(env: StubEnvironment, origin: str) -> None:
    env.install("trl", "0.9.0", origin=origin)
    environment, _ = ask(env.python)
    found = environment.distribution("trl")
    assert found is not None
    assert (found.url, found.is_editable) == (None, False)


def test_an_editable_torch_is_found_behind_its_import_hook(
    env: StubEnvironment, tmp_path: Path
) -> None:
    source = env.install_torch("__version__ = '2.9.0a0+git1234567'\ncuda = '12.6'\n", site=tmp_path)
    (env.site / "__editable___torch_2_9_0_finder.py").write_text(
        f"import sys\nMAPPING: dict[str, str] = {{'torch': {str(source)!r}}}\n"
    )
    environment, _ = ask(env.python)
    assert environment.torch is not None
    assert environment.torch.version == Version("2.9.0a0+git1234567")
    assert environment.torch.cuda == CudaVersion(12, 6)
    assert environment.torch.location == str(source)


def test_metadata_without_the_package_is_a_mismatch(env: StubEnvironment) -> None:
    env.install("torch", "2.7.1+cu128")
    environment, gaps = ask(env.python)
    assert environment.torch is None
    (gap,) = gaps
    assert (gap.fact, gap.reason) == ("environment.torch", GapReason.MISMATCH)
    assert "2.7.1+cu128" in gap.detail


def test_a_version_file_that_says_nothing_falls_back_to_the_metadata(
    env: StubEnvironment,
) -> None:
    env.install("torch", "2.7.1+cu128")
    env.install_torch("# empty\n")
    environment, gaps = ask(env.python)
    assert environment.torch is not None
    assert environment.torch.version == Version("2.7.1+cu128")
    assert environment.torch.origin is BuildOrigin.METADATA
    assert gaps[0].reason is GapReason.UNREADABLE


def test_a_folder_without_init_is_what_an_uninstall_left(env: StubEnvironment) -> None:
    (env.site / "torch" / "lib").mkdir(parents=True)
    environment, gaps = ask(env.python)
    assert environment.torch is None
    assert "yet it is what `import torch` takes" in gaps[0].detail


def test_a_module_named_torch_hides_the_package(env: StubEnvironment, tmp_path: Path) -> None:
    env.install_torch()
    (tmp_path / "torch.py").write_text("")
    environment, gaps = ask(env.python, PYTHONPATH=str(tmp_path))
    assert environment.torch is None
    assert gaps[0].detail.startswith(f"{tmp_path / 'torch.py'} is a single module")


@pytest.mark.parametrize(
    ("installer", "manager"),
    [("pip", Manager.PIP), ("uv", Manager.UV), ("conda", Manager.CONDA), ("other", None)],
)
def test_torchs_installer_is_the_manager(
    env: StubEnvironment, installer: str, manager: Manager | None
) -> None:
    env.install("torch", "2.7.1", installer=installer)
    environment, _ = ask(env.python)
    assert environment.manager is manager


def test_an_environment_that_uv_made_is_uvs(tmp_path: Path) -> None:
    env = StubEnvironment(tmp_path / "env").make("uv = 0.8.15\n")
    environment, _ = ask(env.python)
    assert environment.manager is Manager.UV


def test_the_commonest_installer_decides_without_torch(env: StubEnvironment) -> None:
    env.install("a", "1", installer="pip")
    env.install("b", "1", installer="uv")
    env.install("c", "1", installer="uv")
    environment, _ = ask(env.python)
    assert environment.manager is Manager.UV


def test_conda_packages_that_decide_about_cuda_are_listed(env: StubEnvironment) -> None:
    meta = env.folder / "conda-meta"
    meta.mkdir()
    for name in (
        "history",
        "pytorch-2.5.1-py3.11_cuda12.4_cudnn9.1.0_0.json",
        "cuda-version-12.4-hbda6634_3.json",
        "libstdcxx-ng-14.2.0-h4852527_1.json",
        "tzdata-2024b-hc8b5060_0.json",
        "odd.json",
    ):
        (meta / name).touch()
    environment, _ = ask(env.python)
    assert environment.interpreter is not None
    assert environment.interpreter.is_conda is True
    assert [(d.name, str(d.version), d.installer) for d in environment.distributions or ()] == [
        ("cuda-version", "12.4", "conda"),
        ("libstdcxx-ng", "14.2.0", "conda"),
        ("pytorch", "2.5.1", "conda"),
    ]
    assert environment.manager is Manager.CONDA
