"""An environment's code never runs while it is read, and its path is the one it would have."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from envguard.facts.environment import Environment
from envguard.facts.gaps import Gap, GapReason
from envguard.probe.interpreter import start_environment
from envguard.probe.probe_options import ProbeOptions
from tests.probe.environments import StubEnvironment, ask, names, real_python

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
SHADOWED = ("json", "typing", "os", "encodings", "re", "site", "stat", "sys", "linecache", "ast")
MARK = "import builtins, posix\nposix.close(posix.open({mark!r}, posix.O_CREAT | posix.O_WRONLY))\n"


class Place:
    """An environment of one version, and the folders round it that its user may write."""

    def __init__(self, root: Path, version: str, *options: str) -> None:
        self.root, self.version = root, version
        self.mark = root / "mark"
        self.variables = {"HOME": str(root / "home"), "PYTHONUSERBASE": str(root / "user")}
        self.base = real_python(version)
        folder = root / "env"
        words = [self.base, "-m", "venv", "--without-pip", *options, str(folder)]
        subprocess.run(words, check=True, capture_output=True)
        self.python = str(folder / "bin" / "python")
        self.site = folder / "lib" / f"python{version}" / "site-packages"
        self.user = root / "user" / "lib" / f"python{version}" / "site-packages"
        self.user.mkdir(parents=True)

    def code(self) -> str:
        """Code that leaves a mark."""
        return MARK.format(mark=str(self.mark))

    def real_path(self, python: str = "", **variables: str) -> list[str]:
        """What the interpreter itself says that its path is."""
        environ = {"PATH": os.environ["PATH"], **self.variables, **variables}
        code = (
            "import json, sys; own = 0 if getattr(sys.flags, 'safe_path', False) else 1;"
            "sys.stdout.write(json.dumps(sys.path[own:]))"
        )
        words = [python or self.python, "-c", code]
        done = subprocess.run(words, env=environ, capture_output=True, check=True, cwd=self.root)
        found = json.loads(done.stdout)
        assert isinstance(found, list)
        return found

    def describe(self, python: str = "", **variables: str) -> tuple[Environment, tuple[Gap, ...]]:
        """Read it, or another interpreter in the same surroundings."""
        environ = {"PATH": os.environ["PATH"], **self.variables, **variables}
        options = ProbeOptions(environ=environ, timeout_s=30.0)
        return start_environment(python or self.python, options)()

    def read_path(self, python: str = "", **variables: str) -> list[str]:
        """What we read out of it as its path."""
        environment, _ = self.describe(python, **variables)
        assert environment.interpreter is not None
        return list(environment.interpreter.sys_path)


def plant_everywhere(place: Place) -> None:
    """Put code that leaves a mark wherever a start of the interpreter would run it."""
    line = "import os; os.close(os.open({!r}, os.O_CREAT | os.O_WRONLY))\n".format(str(place.mark))
    for folder in (place.site, place.user):
        (folder / "evil.pth").write_text(f"\n# words\n{line}")
        (folder / "tab.pth").write_text(line.replace("import ", "import\t", 1))
        for name in ("sitecustomize", "usercustomize", "json", "typing", "torch"):
            (folder / f"{name}.py").write_text(place.code())
    shadows = place.root / "shadows"
    for name in SHADOWED:
        (shadows / name).mkdir(parents=True)
        (shadows / name / "__init__.py").write_text(place.code())


@pytest.mark.parametrize("options", [(), ("--system-site-packages",)])
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_of_an_environment_runs(
    tmp_path: Path, version: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, version, *options)
    plant_everywhere(place)
    monkeypatch.chdir(tmp_path / "shadows")
    shadows = {"PYTHONPATH": f"{tmp_path / 'shadows'}::relative"}
    start_up = {"PYTHONSTARTUP": str(place.site / "torch.py"), "PYTHONINSPECT": "1"}
    environment, gaps = place.describe(**shadows, **start_up)
    assert not place.mark.exists()
    assert environment.interpreter is not None
    (gap,) = (gap for gap in gaps if gap.fact == "environment.start_up")
    assert gap.reason is GapReason.NOT_ASKED
    found = [place.site / "evil.pth", place.site / "tab.pth", place.site / "sitecustomize.py"]
    assert all(str(path) in gap.detail for path in found)
    assert (str(place.user) in gap.detail) == bool(options)
    with pytest.raises((subprocess.CalledProcessError, ValueError)):  # the plants are live ones
        place.real_path(**shadows)
    assert place.mark.exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_of_the_users_own_site_runs_for_a_system_interpreter(
    tmp_path: Path, version: str
) -> None:
    place = Place(tmp_path, version)
    plant_everywhere(place)
    _, gaps = place.describe(place.base, PYTHONPATH=str(tmp_path / "shadows"))
    assert not place.mark.exists()
    (gap,) = (gap for gap in gaps if gap.fact == "environment.start_up")
    assert str(place.user / "usercustomize.py") in gap.detail


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_runs_in_a_prefix_without_pyvenv_cfg(tmp_path: Path, version: str) -> None:
    place = Place(tmp_path, version)
    python, site = prefix_like_condas(place)
    (site / "evil.pth").write_text(f"import os; open({str(place.mark)!r}, 'w')\n")
    (site / "sitecustomize.py").write_text(place.code())
    environment, _ = place.describe(python)
    assert not place.mark.exists()
    assert environment.interpreter is not None
    assert environment.interpreter.is_conda
    assert environment.interpreter.prefix == str(tmp_path / "conda")
    assert str(site) in environment.interpreter.sys_path


def prefix_like_condas(place: Place) -> tuple[str, Path]:
    """A whole interpreter in a folder of its own; returns its program and its site-packages."""
    code = "import sys; sys.stdout.write(sys.base_prefix)"
    done = subprocess.run([place.base, "-c", code], capture_output=True, text=True, check=True)
    library = f"lib/python{place.version}"
    prefix, source = place.root / "conda", Path(done.stdout, library)
    site = prefix / library / "site-packages"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    site.mkdir(parents=True)
    for path in source.iterdir():
        if path.name != "site-packages":
            (prefix / library / path.name).symlink_to(path)
    program = prefix / "bin" / "python"
    program.write_bytes(Path(place.base).resolve().read_bytes())
    program.chmod(0o755)
    return str(program), site


@pytest.mark.parametrize("options", [(), ("--system-site-packages",)])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_path_is_the_one_that_the_interpreter_would_have(
    tmp_path: Path, version: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, version, *options)
    fill(place)
    monkeypatch.chdir(tmp_path)
    extra = f"{tmp_path / 'extra'}:relative::/nowhere/at/all:{tmp_path / 'extra'}/"
    for variables in (
        {},
        {"PYTHONPATH": extra, "PYTHONSAFEPATH": "1"},
        {"PYTHONNOUSERSITE": "1", "PYTHONPATH": ""},
        {"PYTHONNOUSERSITE": "", "PYTHONUSERBASE": str(tmp_path / "other")},
    ):
        for python in (place.python, place.base):
            real = place.real_path(python, **variables)
            assert place.read_path(python, **variables) == real, (python, variables)


def fill(place: Place) -> None:
    """Put ``.pth`` files of every kind that only add to the path into both kinds of site."""
    (place.root / "relative").mkdir()
    for name in ("one", "two", "extra", "three"):
        (place.root / name).mkdir()
        (place.root / name / "nested.pth").write_text(f"{place.root / 'three'}\n")
    site_line = f"import site; site.addsitedir({str(place.root / 'extra')!r})\n"
    for folder in (place.site, place.user):
        (folder / "a.egg").mkdir()
        (folder / "b.zip").touch()
        lines = f"# words\n\n   \n{place.root / 'one'}\n./a.egg\nb.zip  \nabsent\n{'x' * 5000}\n"
        (folder / "plain.pth").write_bytes(lines.replace("\n", "\r\n").encode())
        (folder / "inner.pth").write_text(site_line)
        (folder / ".hidden.pth").write_text(f"{place.root / 'two'}\n")
        (folder / "bytes.pth").write_bytes(b"/nowhere/\xc3\xa9\n")
        (folder / "easy-install.pth").write_text(
            "import sys; sys.__plen = len(sys.path)\n./a.egg\n"
            f"{place.root / 'two'}\n"
            "import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:]; "
            "p=getattr(sys,'__egginsert',0); sys.path[p:p]=new; sys.__egginsert = p+len(new)\n"
        )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_home_leads_to_its_own_library(tmp_path: Path, version: str) -> None:
    place = Place(tmp_path, version)
    python, site = prefix_like_condas(place)
    home = {"PYTHONHOME": str(tmp_path / "conda")}
    for program in (place.base, place.python, python):
        assert place.read_path(program, **home) == place.real_path(program, **home)
    assert str(site) in place.read_path(place.base, **home)
    environment, (gap,) = ask(place.base, PYTHONHOME=str(tmp_path))
    assert environment == Environment()
    assert f"PYTHONHOME leads to {tmp_path}" in gap.detail


def test_files_that_are_none_hold_nothing_up(env: StubEnvironment, tmp_path: Path) -> None:
    os.mkfifo(env.site / "pipe.pth")
    os.mkfifo(env.install("numpy", "2.1.3") / "direct_url.json")
    (env.site / "folder.pth").mkdir()
    (env.site / "endless.pth").symlink_to("/dev/zero")
    (env.site / "nul.pth").write_text(f"a\0b\n{tmp_path}\n")
    (env.site / "zz.pth").write_text(f"{tmp_path}\n")
    environment, _ = ask(env.python)
    assert names(environment) == ["numpy"]
    assert environment.interpreter is not None
    assert environment.interpreter.sys_path[-2:] == (str(env.site), str(tmp_path))


def test_an_environment_that_needs_too_much_memory_is_a_gap(env: StubEnvironment) -> None:
    env.install("numpy", "2.1.3", origin="[" + "[]," * 300_000 + "[]]")
    environ = {"PATH": os.environ["PATH"]}
    enough = ProbeOptions(environ=environ, memory_bytes=1 << 28)
    assert names(start_environment(env.python, enough)()[0]) == ["numpy"]
    tight = ProbeOptions(environ=environ, memory_bytes=8 << 20)
    environment, (gap,) = start_environment(env.python, tight)()
    assert environment == Environment()
    assert gap.reason is GapReason.UNREADABLE
    assert "given no more memory: the limit is 8 MiB" in gap.detail


def test_an_environment_of_two_thousand_packages_fits_into_the_limit(env: StubEnvironment) -> None:
    for number in range(2000):
        env.install(f"package-{number}", "1.0")
    (env.site / "many.pth").write_text("".join(f"/nowhere/{n}\n" for n in range(2000)))
    options = ProbeOptions(environ={"PATH": os.environ["PATH"]}, memory_bytes=64 << 20)
    environment, _ = start_environment(env.python, options)()
    assert len(names(environment)) == 2000


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        ("__editable___torch_2_9_finder.py", "MAPPING: dict[str, str] = {'a': '/b', 'torch': %r}"),
        ("__editable___torch_2_9_finder.py", 'MAPPING = {\n    "torch": %r,\n}'),
        ("_editable_impl_torch.py", "F.map_module('torch', %r + '')"),
        ("__editables_torch.py", "F.map_module('torch', %r)"),
        ("_torch_editable.py", "install(\n    {'torch': %r}, {}, None)"),
        ("_torch_editable_loader.py", "install({'torch': %r})"),
    ],
)
def test_import_hooks_of_editable_installs_are_read_as_text(
    env: StubEnvironment, tmp_path: Path, hook: str, text: str
) -> None:
    source = env.install_torch("__version__ = '2.9.0a0+git1234567'\ncuda = '12.6'\n", site=tmp_path)
    (env.site / hook).write_text(f"raise SystemExit('it was run')\n{text % str(source)}\n")
    (env.site / "hook.pth").write_text(f"import {hook[:-3]}\n")
    environment, _ = ask(env.python)
    assert environment.torch is not None
    assert environment.torch.location == str(source)


@pytest.mark.parametrize(
    "text",
    [
        "MAPPING = {'torch': __import__('os').abort()}",
        "MAPPING = {'torch': ['/a']}",
        "MAPPING = {'torch': '/nowhere'}",
        "MAPPING = {'torch': '\\x00'}",
        "MAPPING = {'torch': '\\x0'}",
        "MAPPING = {'torch': '" + "x" * 9000 + "'}",
        "MAPPING = " + "{'torch': " * 3000,
        "'torch': \\" * 100_000,
    ],
)
def test_hostile_import_hooks_lead_nowhere(env: StubEnvironment, text: str) -> None:
    (env.site / "__editable___torch_2_9_finder.py").write_text(text)
    environment, (gap,) = ask(env.python)
    assert environment.torch is None
    assert gap.reason is GapReason.ABSENT


def test_the_prefixes_of_a_clusters_start_up_file_are_read(
    env: StubEnvironment, tmp_path: Path
) -> None:
    module = tmp_path / "software" / "torch"
    site = module / env.site.relative_to(env.folder)
    env.install("torch", "2.7.1", site=site)
    text = (
        "import os, site\nfor p in os.environ['EBPYTHONPREFIXES'].split(':'): site.addsitedir(p)\n"
    )
    (env.site / "sitecustomize.py").write_text(text)
    assert names(ask(env.python)[0]) == []
    assert names(ask(env.python, EBPYTHONPREFIXES=str(module))[0]) == ["torch"]
