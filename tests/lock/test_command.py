"""``envguard lock`` as a person runs it: exit code, standard output and standard error."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.cli.main import main
from tests.lock.conftest import TARGET, V100
from tests.lock.machine_files import facts
from tests.loopback.index import PASSWORD, Trouble

if TYPE_CHECKING:
    from tests.lock.conftest import Lock
    from tests.loopback.index import LoopbackIndex


def test_lock_goes_to_standard_output_and_talk_to_standard_error(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("torch", *V100, *TARGET) == 0
    out, err = capsys.readouterr()
    document = tomllib.loads(out)
    assert document["tool"]["envguard"]["backend"] == "cu126"
    assert "torch 2.14.1 from cu126 has code for compute capability 7.0" in err
    assert "12 packages locked" in err


def test_two_files_are_written_from_one_resolution(lock: Lock) -> None:
    files = ("-o", "pylock.toml", "-o", "requirements.txt")
    assert lock("torch", "timm", *V100, *TARGET, *files) == 0
    document = tomllib.loads(Path("pylock.toml").read_text())
    requirements = Path("requirements.txt").read_text()
    torch = next(p for p in document["packages"] if p["name"] == "torch")
    assert f"torch @ {torch['wheels'][0]['url']}#sha256=" in requirements


def test_style_and_format_are_options(lock: Lock, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--format", "requirements", "--style", "index", "-q")
    assert lock("torch", *V100, *TARGET, *words) == 0
    out, err = capsys.readouterr()
    assert "torch==2.14.1+cu126 \\\n    --hash=sha256:" in out
    assert err == ""


def test_requirements_file_is_read(lock: Lock, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.txt").write_text("torch<2.11\n-c bounds.txt\ntimm\n")
    Path("bounds.txt").write_text("numpy<2\n")
    assert lock("-r", "in.txt", *V100, *TARGET) == 0
    packages = tomllib.loads(capsys.readouterr().out)["packages"]
    versions = {package["name"]: package["version"] for package in packages}
    assert versions["numpy"] == "1.26.4"
    assert versions["torch"] == "2.10.0+cu129"


def test_lines_that_name_no_release_are_carried_along(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text('[project]\nname = "own"\ndependencies = ["accelerate"]\n')
    Path("requirements.txt").write_text(
        "torch\ngit+https://me:s3cret@git.example/team/helper.git@v1\n-e .\n"
    )
    outputs = ("-o", "pylock.toml", "-o", "requirements.lock.txt")
    assert lock("-r", "requirements.txt", *outputs, *V100, *TARGET) == 0
    said = capsys.readouterr().err
    assert "requirements.txt:2: git+https://" in said
    assert "requirements.txt:3: -e . is carried along" in said
    document = tomllib.loads(Path("pylock.toml").read_text())
    assert {"torch", "accelerate"} <= {package["name"] for package in document["packages"]}
    assert document["tool"]["envguard"]["carried"][1] == "-e ."
    text = Path("requirements.lock.txt").read_text()
    assert "#   pip install --no-deps -e .\n" in text
    assert "s3cret" not in said + text + Path("pylock.toml").read_text()


def test_further_index_gives_only_what_the_default_one_lacks(
    lock: Lock, index: LoopbackIndex
) -> None:
    Path("requirements.txt").write_text(
        f"--extra-index-url {index.address}/further\nown-kernels\nnumpy\ntorch\n"
    )
    assert lock("-r", "requirements.txt", "-o", "pylock.toml", *V100, *TARGET) == 0
    document = tomllib.loads(Path("pylock.toml").read_text())
    found = {package["name"]: package for package in document["packages"]}
    assert found["own-kernels"]["index"] == f"{index.address}/further"
    assert found["numpy"]["version"] == "2.4.1"
    assert found["torch"]["version"] == "2.14.1+cu126"


@pytest.mark.parametrize(
    ("words", "backend", "torch"),
    [
        (("--backend", "cu126"), "cu126", "2.14.1"),
        (("--torch", "2.8.0"), "cu129", "2.8.0"),
        (("--torch", "<2.9"), "cu129", "2.8.0"),
        (("--exclude-newer", "2026-01-31"), "cu129", "2.10.0"),
    ],
)
def test_options_narrow_the_choice(
    lock: Lock,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    backend: str,
    torch: str,
) -> None:
    assert lock("torch", *V100, *TARGET, *words) == 0
    table = tomllib.loads(capsys.readouterr().out)["tool"]["envguard"]
    assert (table["backend"], table["torch"]) == (backend, torch)


def test_machines_from_files_are_all_served(lock: Lock, capsys: pytest.CaptureFixture[str]) -> None:
    for name, gpu, capability, driver in (
        ("old.json", "Tesla V100-SXM2-16GB", "7.0", "535.104.05"),
        ("new.json", "NVIDIA H100 PCIe", "9.0", "580.65.06"),
    ):
        Path(name).write_text(json.dumps(facts(gpu, capability, driver)))
    assert lock("torch", "--machine", "old.json", "--machine", "new.json") == 0
    out, err = capsys.readouterr()
    table = tomllib.loads(out)["tool"]["envguard"]
    assert table["backend"] == "cu126"
    assert [machine["driver"] for machine in table["machines"]] == ["535.104.05", "580.65.06"]
    assert "Python 3.12 is the one that was read" in err


def test_what_is_not_stated_is_said(lock: Lock, capsys: pytest.CaptureFixture[str]) -> None:
    assert lock("torch", "--gpu", "Tesla V100", "--driver", "535.104.05") == 0
    err = capsys.readouterr().err
    assert "note: platform " in err
    assert "is the running interpreter's" in err


@pytest.mark.usefixtures("no_driver")
def test_machine_without_driver_gets_a_cpu_build_and_is_told(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lock("torch") == 0
    out, err = capsys.readouterr()
    assert tomllib.loads(out)["tool"]["envguard"]["backend"] == "cpu"
    assert "a CPU build is locked: there is no NVIDIA GPU" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "nothing to lock"),
        (("torch<<2", *V100), 2, "requirement 'torch<<2' cannot be read"),
        (("-r", "nowhere.txt", *V100), 2, "nowhere.txt: cannot be read"),
        (("torch", "-o", "lock.toml", *V100), 2, "lock.toml: the name says no format"),
        (("torch", "--format", "yaml", *V100), 2, "--format: 'yaml' is none of"),
        (("torch", "--style", "odd", *V100), 2, "--style: 'odd' is none of"),
        (("torch", "--backend", "rocm6", *V100), 2, "--backend: 'rocm6' is not a backend"),
        (("torch", "--driver-fit", "loose", *V100), 2, "--driver-fit: 'loose' is none of"),
        (("torch", "--exclude-newer", "soon", *V100), 2, "--exclude-newer: 'soon'"),
        (("torch", "--torch-index", "here", *V100), 2, "--torch-index: 'here' is not an address"),
        (("torch", "--release-base", "hub", *V100), 2, "--release-base: 'hub' is not an address"),
        (("torch", "--uv", "nowhere/uv", *V100), 3, "uv cannot be started: nowhere/uv"),
        (("torch>=2.15", *V100, *TARGET), 1, "no build of torch>=2.15 serves the machines"),
        (("nosuch", *V100, *TARGET), 3, "has no page for nosuch: 404 Not Found"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    lock: Lock,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert lock(*words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    # Builds are named by their reasons, a line each.
    assert len([line for line in err.strip().splitlines() if " builds, " not in line]) <= 4
    assert "Traceback" not in err


def test_unreachable_index_is_could_not_tell(
    lock: Lock, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--torch-index", "http://127.0.0.1:9/whl/{backend}")
    assert lock("torch", *V100, *TARGET, *words) == 3
    assert "index cannot be read: http://127.0.0.1:9/whl/cu126/torch/" in capsys.readouterr().err


def test_old_uv_is_could_not_tell(
    lock: Lock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old-uv"
    old.write_text("#!/bin/sh\necho 'uv 0.4.0 (d9bd3bc7a 2024-08-28)'\n")
    old.chmod(0o755)
    assert lock("torch", *V100, *TARGET, "--uv", str(old)) == 3
    err = capsys.readouterr().err
    assert f"uv 0.4.0 ({old}) is too old: envguard needs 0.9.30 or newer" in err


@pytest.mark.parametrize("place", ["nowhere/pylock.toml", "folder/pylock.toml"])
def test_target_that_cannot_be_written_is_usage(
    lock: Lock, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    Path("folder/pylock.toml").mkdir(parents=True)
    assert lock("torch", *V100, *TARGET, "-o", place) == 2
    assert f"{place}: cannot be written" in capsys.readouterr().err


@pytest.fixture
def empty_cache(lock: Lock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let uv ask the index for everything: what it has read before would hide the trouble."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty-cache"))


@pytest.mark.usefixtures("empty_cache")
def test_failure_leaves_the_previous_lock_alone(lock: Lock, index: LoopbackIndex) -> None:
    Path("pylock.toml").write_text("the previous one")
    words = ("torch", *V100, *TARGET, "-o", "pylock.toml")
    with index.trouble("/whl", Trouble.BROKEN):
        assert lock(*words) == 3
    assert Path("pylock.toml").read_text() == "the previous one"
    assert [path.name for path in Path().iterdir()] == ["pylock.toml"]
    assert lock(*words) == 0
    assert Path("pylock.toml").read_text().startswith('lock-version = "1.0"')


@pytest.mark.parametrize(
    "trouble", [None, Trouble.BROKEN, Trouble.UNAUTHORIZED, Trouble.FORBIDDEN, Trouble.MISSING]
)
@pytest.mark.usefixtures("empty_cache")
def test_credentials_appear_in_no_output(
    lock: Lock,
    index: LoopbackIndex,
    capsys: pytest.CaptureFixture[str],
    trouble: Trouble | None,
) -> None:
    private = (
        *("--torch-index", f"{index.private_address}/whl/{{backend}}"),
        *("--index-url", f"{index.private_address}/simple"),
        *("-o", "pylock.toml", "-o", "requirements.txt"),
    )
    if trouble is None:
        assert lock("torch", "timm", *V100, *TARGET, *private) == 0
    else:
        with index.trouble("/private", trouble):
            assert lock("torch", "timm", *V100, *TARGET, *private) == 3
    written = [path.read_text() for path in Path().iterdir()]
    assert len(written) == (2 if trouble is None else 0)
    assert not [text for text in (*written, *capsys.readouterr()) if PASSWORD in text]


def test_credentials_of_a_mirror_of_releases_appear_nowhere(
    lock: Lock, index: LoopbackIndex, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine = ("--gpu", "H100 PCIe", "--driver", "570.26", "--glibc", "2.35")
    words = ("--release-base", f"{index.private_address}/gh", "-o", "pylock.toml")
    assert lock("causal-conv1d", *machine, *TARGET, *words, "-o", "requirements.txt") == 0
    written = [path.read_text() for path in Path().iterdir()]
    kept = [path.read_text() for path in (tmp_path / "envguard-cache").rglob("*.json")]
    assert kept
    assert not [text for text in (*written, *kept, *capsys.readouterr()) if PASSWORD in text]
    url = tomllib.loads(written[0] if "lock-version" in written[0] else written[1])
    conv = next(p for p in url["packages"] if p["name"] == "causal-conv1d")
    assert conv["archive"]["url"].startswith(f"{index.address}/private/gh/Dao-AILab/")


def test_the_mirror_of_releases_stands_in_the_lock(
    lock: Lock, index: LoopbackIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """Making it anew, or comparing it, asks the same mirror without being told again."""
    machine = ("--gpu", "H100 PCIe", "--driver", "570.26", "--glibc", "2.35")
    mirror = f"{index.address}/gh"
    assert (
        lock("causal-conv1d", *machine, *TARGET, "--release-base", mirror, "-o", "pylock.toml") == 0
    )
    record = tomllib.loads(Path("pylock.toml").read_text())["tool"]["envguard"]
    assert record["request"]["release_base"] == mirror
    capsys.readouterr()
    assert lock("--check", "pylock.toml", *machine, *TARGET) == 0
    assert "is what the request and the machines give" in capsys.readouterr().err


def test_defaults_come_from_pyproject(
    lock: Lock, index: LoopbackIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text(
        '[tool.envguard]\nbackend = "cu126"\n[tool.envguard.lock]\npython-version = "3.11"\n'
    )
    assert lock("torch", *V100, "--platform", "linux-x86_64") == 0
    table = tomllib.loads(capsys.readouterr().out)["tool"]["envguard"]
    assert (table["backend"], table["python"]) == ("cu126", "3.11")


def test_torch_index_comes_from_the_environment(
    index: LoopbackIndex,
    lock: Lock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ENVGUARD_TORCH_INDEX", f"{index.address}/flat/{{backend}}")
    assert main(["lock", "torch", *V100, *TARGET, "--index-url", index.default]) == 0
    table = tomllib.loads(capsys.readouterr().out)["tool"]["envguard"]
    assert table["index_url"] == f"{index.address}/flat/cu126"
