"""A secret goes into every input and comes out of no command, format, error or file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from envguard.cli.main import main
from envguard.errors import ExitCode
from envguard.redaction import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# It looks like no known token: only where it stands tells that it is a secret.
SHORT = "Marked9Secret"
# As long as the passwords of AWS CodeArtifact.
LONG = "Marked9Secret" + "eyJ0b2tlbiI6MTIz" * 75
DEFECT = ("check", "defect")
MACHINE = ("--gpu", "Tesla V100", "--driver", "535.104.05")
FORMATS = (
    (),
    ("-v",),
    ("--format", "json"),
    ("--format", "markdown"),
    ("--format", "sarif"),
    ("--format", "junit"),
    ("--format", "github"),
    ("--nagios",),
    ("--redact", "-v"),
)
WHEEL = "torch-2.11.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl"

# Addresses that carry a secret: index, wheel, repository and signed ones.
ADDRESSES = {
    "password": "https://user:{s}@idx.example/simple",
    "user": "https://{s}@idx.example/simple",
    "slash": "https://user:a/{s}@idx.example/simple",
    "token": "https://idx.example/simple?token={s}",
    "unknown parameter": "https://idx.example/simple?zz={s}&b=1",
    "signed": "https://idx.example/w.whl?X-Amz-Credential={s}&X-Amz-Signature={s}#sha256=00",
    "fragment": "https://idx.example/simple#access_token={s}",
    "conda": "https://conda.example/t/{s}/channel",
    "repository": "git+https://user:{s}@git.example/acme/foo.git@abc",
    "ssh": "git+ssh://user:{s}@git.example/acme/foo.git",
}

# File name -> what stands in it, {u} an address with the secret.
FILES = {
    "requirements.txt": "--index-url {u}\n--extra-index-url {u}\ntorch==2.11.0\n",
    "requirements-nested.txt": "-r {u}\n-c {u}\n-e {u}\ntorch==2.11.0+cu128\n",
    "requirements-direct.txt": "torch @ {u}\nfoo @ {u} --hash=sha256:00\n",
    "requirements-broken.txt": "torch==2.11.0\nfoo bar {u}\n",
    "requirements-option.txt": "torch==2.11.0 --index {u}\n",
    "requirements-note.txt": "torch==2.11.0\n    # from {u}\n",
    "pylock.toml": """lock-version = "1.0"
created-by = "x"
[[packages]]
name = "torch"
version = "2.11.0+cu128"
index = "{u}"
[[packages.wheels]]
name = "torch-2.11.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl"
url = "{u}"
hashes = {{sha256 = "aa"}}
[[packages]]
name = "foo"
version = "1"
[packages.vcs]
type = "git"
url = "{u}"
commit-id = "abc"
""",
    "uv.lock": """version = 1
requires-python = ">=3.9"
[[package]]
name = "torch"
version = "2.11.0"
source = {{ registry = "{u}" }}
wheels = [{{ url = "{u}", hash = "sha256:aa" }}]
[[package]]
name = "foo"
version = "1"
source = {{ git = "{u}" }}
[[package]]
name = "bar"
version = "1"
source = {{ url = "{u}" }}
""",
    "poetry.lock": """[[package]]
name = "torch"
version = "2.11.0"
optional = false
python-versions = "*"
files = []
[package.source]
type = "legacy"
url = "{u}"
reference = "x"
[[package]]
name = "foo"
version = "1"
optional = false
python-versions = "*"
files = []
[package.source]
type = "git"
url = "{u}"
reference = "x"
resolved_reference = "abc"
[metadata]
lock-version = "2.0"
python-versions = "*"
content-hash = "x"
""",
    "pdm.lock": """[metadata]
groups = ["default"]
lock_version = "4.5.0"
[[package]]
name = "torch"
version = "2.11.0"
index = "{u}"
files = [{{ url = "{u}", hash = "sha256:aa" }}]
[[package]]
name = "foo"
version = "1"
git = "{u}"
""",
    "environment.yml": "channels:\n  - {u}\ndependencies:\n  - pip:\n    - torch @ {u}\n",
    "pyproject.toml": '[project]\nname = "x"\nversion = "1"\ndependencies = ["torch @ {u}"]\n',
}

TEXTS = {
    "freeze": "torch==2.11.0+cu128\nfoo @ {u}\nnumpy==1.26.4\n-e {u}\n",
    "list": "Package Version Editable project location\n------- ------- ---\ntorch 2.11.0 {u}\n",
    "collect_env": "PyTorch version: 2.11.0+cu128\nIs CUDA available: False\n"
    "CUDA used to build PyTorch: 12.8\nOS: {u}\nHF_TOKEN={s}\n"
    "Nvidia driver version: {u}\n[pip3] torch==2.11.0+cu128\n",
    "log": "Looking in indexes: {u}\nHF_TOKEN={s}\n--hub_token {s}\nAuthorization: Bearer {s}\n"
    "ERROR: Could not find a version that satisfies the requirement torch=={u}\n"
    "ERROR: No matching distribution found for torch from {u}\n"
    "ERROR: HTTP error 403 while getting {u}\n",
    "traceback": "Traceback (most recent call last):\n"
    '  File "/x/t.py", line 1, in <module>\n    login(token="{s}")\n'
    "OSError: {u} is not a local folder, api_key={s}\n",
    "ansi": "\x1b[31mlogin {u}\x1b[0m\nRuntimeError: CUDA error: out of memory password: {s}\n",
}


@dataclass
class Trial:
    """Runs the program in a folder of its own, and looks for the secret afterwards."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    seen: str = ""

    def run(self, *arguments: str) -> int:
        """Run a command; none of them may fail for a reason of its own."""
        status = main(list(arguments))
        assert status != ExitCode.ENVGUARD_FAILED or arguments == DEFECT
        said = self.capsys.readouterr()
        self.seen += f"$ {' '.join(arguments)[:60]}\n{said.out}{said.err}"
        return status

    def leaks(self, *inputs: str) -> list[str]:
        """Lines with the secret, of what was printed and of every file that is no input."""
        texts = {"output": self.seen.encode()}
        for path in self.folder.rglob("*"):
            if path.is_file() and path.name not in inputs:
                texts[str(path.relative_to(self.folder))] = path.read_bytes()
                texts[f"name {path.name}"] = path.name.encode()
        lines = ((where, line) for where, text in texts.items() for line in text.splitlines())
        mark = SHORT.encode()
        return [
            f"{where}: {line[:300]!r}"
            for where, line in lines
            if line[:2] != b"$ " and mark in line
        ]


@pytest.fixture
def trial(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    no_driver: object,
) -> Trial:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return Trial(tmp_path, capsys)


def filled(text: str, address: str, secret: str) -> str:
    return text.format(u=address.format(s=secret), s=secret)


@pytest.mark.parametrize("kind", ADDRESSES)
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_pins_keeps_its_secrets(trial: Trial, name: str, kind: str) -> None:
    (trial.folder / name).write_text(filled(FILES[name], ADDRESSES[kind], LONG))
    trial.run("check", name, *MACHINE, "--format", "json")
    assert trial.leaks(name) == []


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
def test_no_format_shows_the_secrets_of_a_file(trial: Trial, options: tuple[str, ...]) -> None:
    for name, text in FILES.items():
        (trial.folder / name).write_text(filled(text, ADDRESSES["password"], SHORT))
        trial.run("check", name, *MACHINE, *options)
    trial.run("check", name, *MACHINE, *options, "-o", "out")
    assert trial.leaks(*FILES) == []


@pytest.mark.parametrize("kind", ADDRESSES)
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_keeps_its_secrets(trial: Trial, name: str, kind: str) -> None:
    (trial.folder / "x.txt").write_text(filled(TEXTS[name], ADDRESSES[kind], LONG))
    trial.run("check", "--from", "x.txt", "--format", "json")
    trial.run("diagnose", "x.txt", "--format", "json")
    assert trial.leaks("x.txt") == []


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
def test_no_format_shows_the_secrets_of_a_text(trial: Trial, options: tuple[str, ...]) -> None:
    for name, text in TEXTS.items():
        (trial.folder / name).write_text(filled(text, ADDRESSES["password"], SHORT))
        trial.run("check", "--from", name, *options)
        trial.run("diagnose", name, *options)
    assert trial.leaks(*TEXTS) == []


@pytest.mark.parametrize("kind", ADDRESSES)
@pytest.mark.parametrize("options", [("-v", "--redact"), ("--format", "json")], ids=" ".join)
def test_an_index_that_is_stated_keeps_its_secrets(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, kind: str, options: tuple[str, ...]
) -> None:
    address = ADDRESSES[kind].format(s=LONG).replace("simple", "{backend}")
    monkeypatch.setenv("ENVGUARD_TORCH_INDEX", address)
    trial.run("check", "torch==2.11.0+cu128", *MACHINE, *options)
    monkeypatch.delenv("ENVGUARD_TORCH_INDEX")
    pins = ("torch==2.11.0+cu128", "--torch-index", address)
    trial.run("diagnose", *pins, "--exit-code", "139", *MACHINE, *options)
    assert trial.leaks() == []


ERRORS: dict[str, Callable[[str, str], list[str]]] = {
    "requirement": lambda u, s: ["lock", f"foo @ {u} b"],
    "by address": lambda u, s: ["lock", f"foo @ {u}"],
    "index": lambda u, s: ["lock", "torch", "--index-url", f"{u} b"],
    "no index": lambda u, s: ["lock", "torch", "--torch-index", u.replace("https", "ftp")],
    "offline": lambda u, s: ["lock", "torch", "--torch-index", u, "--offline", *MACHINE],
    "wheel": lambda u, s: ["check", u],
    "torch wheel": lambda u, s: ["check", f"{u}/{WHEEL}", "--offline"],
    "pin": lambda u, s: ["check", f"torch {u}"],
    "pins": lambda u, s: ["check", f"torch @ {u}", "torch==2", *MACHINE],
    "from": lambda u, s: ["check", "--from", u],
    "inspect": lambda u, s: ["inspect", u],
    "log": lambda u, s: ["diagnose", u],
    "update": lambda u, s: ["matrix", "update", u],
    "tables": lambda u, s: ["check", "torch==2.11.0", "--matrix", u, *MACHINE],
    "gpu": lambda u, s: ["check", "torch==2.11.0", "--gpu", u],
    "driver": lambda u, s: ["check", "torch==2.11.0", "--driver", u],
    "ram": lambda u, s: ["check", "torch==2.11.0", "--ram", u],
    "python": lambda u, s: ["check", "--python", u],
    "output": lambda u, s: ["check", "torch==2.11.0", *MACHINE, "-o", f"missing/{u}"],
    "no option": lambda u, s: ["check", f"--hub-token={s}"],
    "value": lambda u, s: ["check", "--format", f"token={s}"],
    "model": lambda u, s: ["plan", "--model", u, "--gpus", "1", "--gpu-memory", "80"],
    "config": lambda u, s: ["plan", "--params", "7e9", "--config", u, "--gpus", "1"],
    "code": lambda u, s: ["explain", f"token={s}"],
    "command": lambda u, s: ["run", f"/missing/{u}"],
}


@pytest.mark.parametrize("kind", ["password", "token"])
@pytest.mark.parametrize("error", ERRORS)
def test_no_error_shows_a_secret(trial: Trial, error: str, kind: str) -> None:
    arguments = ERRORS[error](ADDRESSES[kind].format(s=LONG), LONG)
    trial.run(*arguments)
    if arguments[0] in {"check", "diagnose"}:
        trial.run(*arguments, "--format", "json", "--redact")
    assert trial.leaks() == []


def test_a_defect_of_our_own_shows_no_secret(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVGUARD_TRACEBACK", "1")
    monkeypatch.setattr("envguard.cli.main._run", _fail)
    assert trial.run(*DEFECT) == ExitCode.ENVGUARD_FAILED
    assert "RuntimeError" in trial.seen
    assert trial.leaks() == []


def _fail(arguments: list[str], _begin: object) -> int:
    raise RuntimeError(f"{arguments}: {ADDRESSES['password'].format(s=SHORT)}")


def test_standard_input_keeps_its_secrets(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in TEXTS.values():
        raw = filled(text, ADDRESSES["password"], SHORT).encode()
        for command in (["check", "--from", "-"], ["diagnose", "-"]):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
            trial.run(*command, "--format", "json")
    assert trial.leaks() == []


CONFIGS = {
    "ds.json": '{{"hf_token": "{s}", "a": {{"apiKey": "{s}"}}, "u": "{u}"}}',
    "one-line.json": '{{"wandb":{{"api_key":"{s}"}},"keys":{{"secret":["{s}",{{"v":"{s}"}}]}}}}',
    "escaped.json": '{{"pass\\u0077ord": "{s}", "token": "a\\"{s}"}}',
    "broken.json": '{{"hf_token":\n  "{s}", "password": "a b {s}",',
    "train.yaml": "hub_token: {s}\nenv:\n  - HF_TOKEN={s}\n  - name: WANDB_API_KEY\n"
    "    value: {s}\n"
    "password: |\n  first\n  {s}\nsecret: >-\n\n    {s}\nflow: {{token: {s}, b: 'x'}}\n"
    "token:\n  - {s}\nurl: {u}\n",
    "train.toml": "token = '''\n{s}\n'''\n[hub]\napi-key = \"{s}\"\n[secret]\nvalue = \"{s}\"\n",
    "train.ini": "[hub]\ntoken = {s}\npassword: a {s}\n   {s}\nurl = {u}\n",
    "train.cfg": "[x]\nAWS_SECRET_ACCESS_KEY={s}\n; api_key = {s}\n",
}
# Words of a command line; those of one entry stand behind one another.
WORDS = (
    ("--hub_token", "{s}"),
    ("--api-key={s}",),
    ("--wandb.api_key", "{s}"),
    ("HF_TOKEN={s}",),
    ("-e", "NAME_TOKEN={s}"),
    ("hub.token={s}",),
    ("--password", "a {s}"),
    ("-u", "user:{s}"),
    ("-H", "Authorization: Bearer {s}"),
    ("-H", "X-Api-Key: {s}"),
    ("export HF_TOKEN='{s}'; wandb login {s}; python x.py --hub_token {s}",),
    ("--index-url", "{u}"),
    ('{{"hf_token": "{s}"}}',),
)


def _run_everything(trial: Trial, secret: str, status: int, environ: Mapping[str, str]) -> str:
    address = ADDRESSES["password"]
    words = [filled(word, address, secret) for entry in WORDS for word in entry]
    for name, text in CONFIGS.items():
        (trial.folder / name).write_text(filled(text, address, secret))
    command = ["sh", "-c", f"exit {status}", "x", *words, *CONFIGS]
    done = subprocess.run(
        [sys.executable, "-m", "envguard", "run", "--no-probe", "--", *command],
        env={**environ, "HF_ENDPOINT": filled("{u}", address, secret), "NCCL_DEBUG": "INFO"},
        cwd=trial.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    return done.stdout + done.stderr


def test_the_record_of_a_run_holds_no_secret(trial: Trial) -> None:
    for secret in (SHORT, LONG):
        trial.seen += _run_everything(trial, secret, 0, os.environ)
        trial.seen += _run_everything(trial, secret, 137, os.environ)
    record = sorted((trial.folder / ".envguard/runs").iterdir())[-1]
    document = json.loads((record / "run.json").read_text())
    assert document["variables"]["HF_ENDPOINT"] == "https://idx.example/simple"
    assert "--hub_token" in document["command"]
    assert len(list((record / "files").iterdir())) == len(CONFIGS)
    for options in FORMATS:
        trial.run("diagnose", str(record), *options)
    trial.run("run", "--compare")
    assert trial.leaks(*CONFIGS) == []


def test_a_record_with_secrets_is_told_without_them(trial: Trial) -> None:
    """Records of earlier versions hold whole command lines."""
    trial.run("run", "--no-probe", "-q", "--", "sh", "-c", "exit 9")
    (record,) = (trial.folder / ".envguard/runs").iterdir()
    path = record / "run.json"
    document: dict[str, Any] = json.loads(path.read_text())
    document["command"] += [filled(w, ADDRESSES["token"], SHORT) for e in WORDS for w in e]
    document["variables"] = {"HF_ENDPOINT": ADDRESSES["password"].format(s=SHORT)}
    path.write_text(json.dumps(document))
    for options in FORMATS:
        trial.run("diagnose", str(record), *options)
    trial.run("run", "--compare")
    assert trial.leaks("run.json") == []


def test_nothing_that_the_tables_say_is_taken_for_a_secret() -> None:
    folder = Path(__file__).resolve().parents[1] / "compat_matrix"
    for path in folder.rglob("*.toml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert clean_text(line) == line
