"""No text that is read reaches a terminal, or a reader's eye, as anything but what it is."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from envguard.cli import out
from envguard.cli.main import main
from envguard.cli.out import say, write_text
from envguard.facts.findings import Status
from envguard.printable import escaped_in_json, one_line, printable, printable_in_colour
from envguard.render import Style, render_report
from tests.crash.logs import LOGS
from tests.render.reports import finding, report

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parent
# A title, a cleared screen and a link as a terminal takes them; marks that turn text about or hide
# it; separators of lines; an invisible tag.
MARK = (
    "\x1b]0;E\x07\x1b[2J\x1b]8;;x\x1b\\\x9b31m\x7f\x85\u202eb\u2066c\u2069\u200e\u061c"
    "\u200b\u200d\u2060\ufeff\xad\u2028\u2029\U000e0041"
)
FORMATS = ("text", "markdown", "github", "junit", "sarif", "json")
WISHES = [["--verbose"], *([f"--format={name}"] for name in FORMATS[1:])]
V100 = ["--gpu", "V100", "--driver", "570.26", "--platform", "linux-x86_64"]
JOB = ["--gpus", "1", "--gpu-memory", "80", "--host-memory", "512"]
Capture = pytest.CaptureFixture[str]


def hostile(text: str) -> set[str]:
    """The characters of a text that no person can see as they are; colours are none of ours."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {c for c in text if unicodedata.category(c) in kinds and c not in "\n\t"}


def shows_nothing_hostile(capsys: Capture, *words: str) -> None:
    assert main(list(words)) in {0, 1, 2, 3}, words
    shown = capsys.readouterr()
    assert shown.out + shown.err, words
    assert hostile(shown.out) == set(), words
    assert hostile(shown.err) == set(), words


def marked(document: Any, mark: str) -> Iterator[Any]:
    """Copies of a document, each with a mark in another one of its texts."""
    match document:
        case str():
            yield document + mark
        case dict():
            for key, value in document.items():
                yield from ({**document, key: copy} for copy in marked(value, mark))
        case list():
            for at, value in enumerate(document):
                yield from ([*document[:at], c, *document[at + 1 :]] for c in marked(value, mark))
        case _:
            return


def with_marks(text: str) -> str:
    """A text with a mark in the middle and at the end of each line."""
    lines = []
    for line in text.splitlines():
        middle = len(line) // 2
        lines += [line, f"{line[:middle]}{MARK}{line[middle:]}", f"{line}{MARK}"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("clean", [printable, one_line])
def test_printable_text_has_nothing_hostile(clean: Any) -> None:
    every = "".join(map(chr, range(0x110000)))
    assert hostile(clean(every)) - set(unassigned(every)) == set()
    assert printable("a\tb\nc é 日本 \xa0 👍") == "a\tb\nc é 日本 \xa0 👍"


def unassigned(every: str) -> Iterator[str]:
    """Marks of scripts, which stand where they are meant: Arabic, Syriac, shorthand, music."""
    scripts = ("ARABIC", "SYRIAC", "KAITHI", "SHORTHAND", "MUSICAL", "EGYPTIAN")
    return (c for c in every if unicodedata.name(c, "").startswith(scripts) and c != "\u061c")


def test_documents_keep_their_values() -> None:
    value = {"a": [f"x{MARK}\udc80", 1, None], "b\u202e": "\x7f"}
    text = escaped_in_json(json.dumps(value, ensure_ascii=False))
    assert hostile(text) == set()
    assert json.loads(text) == value


def test_only_colours_are_left_in_coloured_text() -> None:
    assert printable_in_colour("\x1b[1;31mred\x1b[0m\x1b]0;t\x07\x1b[2J") == (
        "\x1b[1;31mred\x1b[0m?]0;t??[2J"
    )


def test_whatever_is_forgotten_is_caught_where_it_is_written(
    tmp_path: Path, capsys: Capture
) -> None:
    write_text(MARK, None)
    write_text(f"{MARK}\udc80", tmp_path / "a")
    say(f"{MARK}\udc80")
    shown = capsys.readouterr()
    assert hostile(shown.out + shown.err + (tmp_path / "a").read_text("utf-8")) == set()


@pytest.mark.parametrize("words", [[], ["--verbose"], ["--nagios"], ["--quiet"]])
@pytest.mark.parametrize(
    "inputs",
    [
        ["torch==2.7.1+cu128" + MARK],
        ["torch==2.7.1+cu128", "--gpu", MARK, "--compute-capability", "7.0"],
        ["torch==2.7.1+cu128", "--driver", MARK],
        ["--from", f"none{MARK}\udc80"],
        ["torch", "--python-version", MARK],
        ["--matrix", f"none{MARK}"],
        [f"--option{MARK}"],
        [f"requirements{MARK}.txt"],
    ],
)
def test_words(inputs: list[str], words: list[str], capsys: Capture) -> None:
    machine = [] if "--from" in inputs else V100[2:]
    shows_nothing_hostile(capsys, "check", *inputs, *machine, *words)


@pytest.mark.parametrize("command", [f"chec{MARK}", "explain", "matrix", "plan", "inspect", "lock"])
def test_words_of_other_commands(command: str, capsys: Capture) -> None:
    shows_nothing_hostile(capsys, command, f"x{MARK}")
    shows_nothing_hostile(capsys, command, f"--x{MARK}", "--format", "json")


@pytest.mark.parametrize("table", ["torch", "gpus", "packages", MARK])
def test_names_of_tables_and_entries(table: str, capsys: Capture) -> None:
    shows_nothing_hostile(capsys, "matrix", "show", table, f"x{MARK}")


FACTS = TESTS / "machines" / "blackwell-on-the-proprietary-module.json"


def read_in_every_format(capsys: Capture, tmp_path: Path, text: str, *words: str) -> None:
    """Put a text into a file and let a command read it, the file's name last."""
    path = tmp_path / f"{MARK.replace('/', '')}.txt"
    path.write_text(text, encoding="utf-8")
    for wish in WISHES:
        shows_nothing_hostile(capsys, *words, str(path), *wish)


def test_facts(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "facts.json"
    for number, document in enumerate(marked(json.loads(FACTS.read_text("utf-8")), MARK)):
        path.write_text(json.dumps(document))
        shows_nothing_hostile(capsys, "check", "--from", str(path), *WISHES[number % len(WISHES)])


@pytest.mark.parametrize(
    "name", ["collect_env_vllm.txt", "pip_list_columns.txt", "smi_550_table.txt", "smi_csv.txt"]
)
def test_reports(name: str, tmp_path: Path, capsys: Capture) -> None:
    text = with_marks((TESTS / "samples" / "reports" / name).read_text("utf-8"))
    read_in_every_format(capsys, tmp_path, text, "check", "--from")


@pytest.mark.parametrize("name", ["requirements-urls.txt", "pylock.toml"])
def test_lockfiles(name: str, tmp_path: Path, capsys: Capture) -> None:
    text = (TESTS / "samples" / "locks" / name).read_text("utf-8")
    path = tmp_path / f"{name.partition('.')[0]}{Path(name).suffix}"
    for number, line in enumerate(lines := text.splitlines()):
        path.write_text("\n".join([*lines[:number], line + MARK, *lines[number + 1 :]]))
        shows_nothing_hostile(capsys, "check", str(path), *V100, *WISHES[number % len(WISHES)])


@pytest.mark.parametrize("name", ["abi-new-string", "abort", "abi-torch-version"])
def test_logs(name: str, tmp_path: Path, capsys: Capture) -> None:
    text = LOGS[name].read_text("utf-8")
    path = tmp_path / f"{MARK.replace('/', '')}.log"
    path.write_text(text.replace("\n", f"{MARK}\n"), encoding="utf-8")
    shows_nothing_hostile(capsys, "diagnose", str(path), "--verbose")
    shows_nothing_hostile(capsys, "diagnose", str(path), "--format", "json")


def test_a_log_in_every_format(tmp_path: Path, capsys: Capture) -> None:
    text = with_marks(LOGS["abort"].read_text("utf-8"))
    read_in_every_format(capsys, tmp_path, text, "diagnose", "--exit-code", "-9")


@pytest.mark.parametrize("more", [[], ["--sweep"], ["--compare-estimators"]])
def test_models(more: list[str], tmp_path: Path, capsys: Capture) -> None:
    model = {
        "model_type": f"llama{MARK}",
        "architectures": [f"Llama{MARK}"],
        "torch_dtype": f"bfloat16{MARK}",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
    }
    for copy in (model, {**model, "torch_dtype": "bfloat16"}):
        text = json.dumps(copy)
        read_in_every_format(capsys, tmp_path, text, "plan", *JOB, *more, "--model")


def test_training_configurations(tmp_path: Path, capsys: Capture) -> None:
    config = {
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
        "optimizer": {"type": "AdamW"},
        "bf16": {"enabled": True},
        "train_micro_batch_size_per_gpu": "auto",
    }
    words = ["plan", "--params", "7B", *JOB, "--config"]
    for number, document in enumerate(marked(config, MARK)):
        path = tmp_path / "ds.json"
        path.write_text(json.dumps(document))
        shows_nothing_hostile(capsys, *words, str(path), *WISHES[number % len(WISHES)])
    read_in_every_format(capsys, tmp_path, with_marks("a: 1\nb: c\n"), *words)


def test_tables_that_somebody_brought(tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(TESTS.parent / "compat_matrix", tmp_path / "tables")
    path = tmp_path / "tables" / "causes" / "gpu_code.toml"
    hidden = "\u202e\u200b\u2066"  # TOML admits them as they are
    path.write_text(path.read_text("utf-8").replace('title = "', f'title = "{hidden}'), "utf-8")
    tables = ["--matrix", str(tmp_path / "tables")]
    shows_nothing_hostile(capsys, "explain", "GPU001", *tables)
    shows_nothing_hostile(capsys, "explain", "GPU001", "--format", "json", *tables)
    shows_nothing_hostile(capsys, "explain", "GPU", *tables)
    shows_nothing_hostile(capsys, "matrix", "verify", *tables)


def test_defaults_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    text = json.dumps(f"x{MARK}").replace("\\udb40\\udc41", "").replace("\x7f", "")
    for key in ("python", "driver", "fail-on", "format", "torch-index"):
        Path("pyproject.toml").write_text(f"[tool.envguard]\n{key} = {text}\n", "utf-8")
        shows_nothing_hostile(capsys, "check", "torch==2.7.1+cu128", "--gpu", "V100")
        shows_nothing_hostile(capsys, "check", "--help")


def test_variables(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for name in ("ENVGUARD_TORCH_INDEX", "CONDA_OVERRIDE_CUDA", "UV_CUDA_DRIVER_VERSION"):
        monkeypatch.setenv(name, f"https://x{MARK}\udc80/{{backend}}")
        shows_nothing_hostile(capsys, "check", "--help")
        shows_nothing_hostile(capsys, "check", "torch==2.7.1+cu128", *V100, "--verbose")
        shows_nothing_hostile(capsys, "check", "torch==2.7.1+cu128", *V100, "--format", "json")
        monkeypatch.delenv(name)


def test_files_that_are_inspected(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / f"{MARK.replace('/', '')}.so"
    path.write_bytes(b"\x7fELF" + MARK.encode())
    for wish in ([], ["-v"], ["--format", "json"]):
        shows_nothing_hostile(capsys, "inspect", str(path), *wish)


def test_outcome_of_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / f"x{MARK.replace('/', '')}"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    words = ["run", "--no-probe", "--record", str(tmp_path / f"r{MARK.replace('/', '')}")]
    assert main([*words, "--", str(program), MARK]) == 3
    shown = capfd.readouterr()
    assert hostile(shown.out + shown.err) == set()
    assert main([*words, "--", f"{program}x", MARK]) == 127
    assert hostile(capfd.readouterr().err) == set()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(out, "DELAY_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with out.waiting(is_wanted=True) as tell:
        tell(f"[link=https://x.example]torch{MARK}[/link]")
        until = time.monotonic() + 30
        while "[/link]" not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.02)
    shown = screen.getvalue()
    assert "[link=https://x.example]torch?]0;E?" in shown
    own = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", shown)  # the spinner's
    assert hostile(own) == set()


@pytest.mark.parametrize("form", FORMATS)
def test_reports_in_colour(form: str) -> None:
    style = Style(is_coloured=True, is_verbose=True)
    text = render_report(report(finding(Status.FAIL, title=MARK, detail=MARK)), form, style)
    clean = printable_in_colour if form == "text" else escaped_in_json if form == "json" else str
    assert hostile(clean(text).replace("\x1b", "")) == set()
