"""Install lines of Dockerfiles and shell scripts: read as text, never run."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from dataclasses import field, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Manager
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.ingest.conda_env import CondaSpec, locked_of_conda, parse_conda_spec
from envguard.ingest.lockfile import looks_like_dockerfile
from envguard.ingest.pip_list import normalise_name
from envguard.ingest.requirements import Statement, parse_line, read_statements
from envguard.redaction import clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envguard.ingest.lock_entry import Locked
    from envguard.ingest.requirements import Read

SOURCE = "install lines"
_MAX_LINES = 20_000
_MAX_COMMAND = 60_000
_MAX_VALUE = 4_000
_VARIABLE = re.compile(
    r"\$(?:\{(?P<braced>[A-Za-z_]\w{0,80})(?:(?P<kind>:?[-+])(?P<other>[^{}$]{0,300}))?\}"
    r"|(?P<plain>[A-Za-z_]\w{0,80}))"
)
_SUBSTITUTION = re.compile(r"\$\([^()]{0,300}\)|`[^`]{0,300}`")
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w{0,80})=(.{0,4000})", re.DOTALL)
_FROM = re.compile(r"FROM\s+(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_STEP = re.compile(r"(FROM|ARG|ENV|RUN|SHELL|COPY|ADD|WORKDIR)\s+(.*)$", re.IGNORECASE | re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w{1,40})[\"']?")
_TORCH_IMAGE = re.compile(r"(?:docker\.io/)?pytorch/pytorch:([0-9.]+)-cuda([0-9]+)\.([0-9]+)")
_PYTHON_IMAGE = re.compile(r"(?:docker\.io/)?(?:library/)?python:(3\.[0-9]+(?:\.[0-9]+)?)(?:-|$)")
_TAGGED = re.compile(r"(?:docker\.io/)?(vllm/vllm-openai|lmsysorg/sglang):v([0-9][0-9a-z.]*)")
_PACKAGE_OF = {"vllm/vllm-openai": "vllm", "lmsysorg/sglang": "sglang"}
_PYTHON = re.compile(r"(?:\S*/)?(?:python|pypy)[0-9.]*")
_PIP = re.compile(r"(?:\S*/)?pip[0-9.]*")
_CONDA = frozenset({"conda", "mamba", "micromamba", "$MAMBA_EXE"})
_PREFIXES = frozenset({"sudo", "exec", "time", "command", "env", "-E", "then", "do", "else", "if"})
# Options of pip, uv and conda that a word follows which is no requirement.
_TAKES_WORD = frozenset(
    {
        "--target",
        "-t",
        "--prefix",
        "--root",
        "--python",
        "-p",
        "--cache-dir",
        "--python-version",
        "--platform",
        "--abi",
        "--implementation",
        "--progress-bar",
        "--upgrade-strategy",
        "--timeout",
        "--retries",
        "--trusted-host",
        "--log",
        "--src",
        "--proxy",
        "--cert",
        "--client-cert",
        "--exists-action",
        "--index-strategy",
        "--prerelease",
        "--resolution",
        "--config-settings",
        "-C",
        "--no-binary",
        "--only-binary",
        "--report",
        "--group",
        "--extra",
        "--package",
        "--override",
        "--build-constraint",
        "--keyring-provider",
        "--link-mode",
        "--exclude-newer",
        "--no-build-isolation-package",
        "--no-binary-package",
        "--no-build-package",
        "--script",
        "--tag",
        "--branch",
        "--rev",
        "--directory",
        "--project",
        "--name",
        "-n",
        "--root-prefix",
        "--solver",
    }
)
_INDEX = {
    "-i": "--index-url",
    "--index-url": "--index-url",
    "--default-index": "--index-url",
    "--pypi-url": "--index-url",
    "--extra-index-url": "--extra-index-url",
    "--index": "--extra-index-url",
    "-f": "--find-links",
    "--find-links": "--find-links",
}
_TORCH_FAMILY = frozenset({"torch", "torchvision", "torchaudio", "xformers"})


@dataclass(frozen=True, slots=True)
class _Step:
    """One command of a script, with the line where it begins."""

    text: str
    line: int


@dataclass(slots=True)
class _Found:
    """What the lines come down to; a later line overrules an earlier one."""

    statements: list[Statement] = field(default_factory=list)
    specs: list[CondaSpec] = field(default_factory=list)
    options: list[Statement] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    image: str = ""
    python: Version | None = None
    uses_uv: bool = False
    count: int = 0


def parse_install_lines(text: str, name: str, read: Read | None = None) -> Locked:
    """Read the install lines of a Dockerfile, a Containerfile or a shell script.

    Of a Dockerfile the last stage and the stages that it builds on. Versions that ENV, ARG or an
    assignment state are filled in; nothing is run.

    Args:
        text: The whole file.
        name: Of the file, for messages.
        read: Gives the requirements files that it installs; one that is not there is a gap.

    Raises:
        InputError: It installs nothing, as far as the lines tell.
    """
    found = _read(text, name, read)
    if not found.count and not found.image:
        raise InputError(
            f"{name}: holds no install line that is understood",
            hint="lines with pip install, uv pip install, uv add, conda or mamba install are read",
        )
    statements = [*found.options, *_last_of_each(found.statements)]
    locked = locked_of_conda(found.specs, statements, tuple(found.gaps))
    manager = Manager.CONDA if found.specs else Manager.UV if found.uses_uv else Manager.PIP
    python = locked.python or found.python
    return replace(locked, manager=manager, python=python, image=found.image, in_order=True)


def install_statements(text: str, name: str, read: Read | None = None) -> tuple[Statement, ...]:
    """What the install lines ask pip for, as a requirements file would say it.

    Raises:
        InputError: A line is no requirement.
    """
    found = _read(text, name, read)
    return (*found.options, *_last_of_each(found.statements))


def _read(text: str, name: str, read: Read | None) -> _Found:
    found = _Found()
    values: dict[str, str] = {}
    is_docker = looks_like_dockerfile(posixpath.basename(name.replace("\\", "/")).lower())
    for step in _wanted(text, name) if is_docker else _commands(text, name):
        _take(step, values, found, name, read, is_docker=is_docker)
    return found


def _commands(text: str, name: str) -> Iterator[_Step]:
    """Lines with their continuations joined and comments gone."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if number > _MAX_LINES:
            raise InputError(f"{name}: more than {_MAX_LINES} lines")
        if line.lstrip().startswith("#"):
            continue
        first = first or number
        plain = line.rstrip()
        if plain.endswith(("\\", "`")) and len(joined) < _MAX_COMMAND:
            joined += plain[:-1] + " "
            continue
        said = (joined + plain).strip()
        if said:
            yield _Step(said[:_MAX_COMMAND], first)
        joined, first = "", 0
    if joined.strip():
        yield _Step(joined.strip()[:_MAX_COMMAND], first)


def _wanted(text: str, name: str) -> Iterator[_Step]:
    """The steps of the last stage and of the stages below it, in order."""
    stages: list[tuple[str, list[_Step]]] = [("", [])]
    heredoc = ""
    for step in _commands(text, name):
        if heredoc:
            if step.text == heredoc:
                heredoc = ""
            else:
                stages[-1][1].append(_Step(f"RUN {step.text}", step.line))
            continue
        if match := _FROM.match(step.text):
            stages.append(((match[2] or "").lower(), []))
        stages[-1][1].append(step)
        if step.text[:4].upper() == "RUN " and (opened := _HEREDOC.search(step.text)):
            heredoc = opened[1]
    yield from stages[0][1]
    for position in _chain(stages):
        yield from stages[position][1]


def _chain(stages: list[tuple[str, list[_Step]]]) -> list[int]:
    """Positions of the last stage and of those that it builds on, the lowest first."""
    chain, position = [], len(stages) - 1
    while position > 0:
        chain.append(position)
        match = _FROM.match(stages[position][1][0].text)
        base = match[1].lower() if match else ""
        earlier = [i for i in range(1, position) if stages[i][0] == base and base]
        position = earlier[-1] if earlier else 0
    return chain[::-1]


def _take(
    step: _Step,
    values: dict[str, str],
    found: _Found,
    name: str,
    read: Read | None,
    *,
    is_docker: bool,
) -> None:
    kind, said = "RUN", step.text
    if is_docker:
        match = _STEP.match(step.text)
        if match is None:
            return
        kind, said = match[1].upper(), match[2].strip()
    match kind:
        case "FROM":
            _take_image(
                _filled(said.split()[-1 if " " not in said else 0], values), said, values, found
            )
        case "ARG" | "ENV":
            _take_values(said, values, is_argument=kind == "ARG")
        case "RUN":
            for command in _split(_run_text(said)):
                _take_command(command, step, values, found, name, read)
        case _:
            return


def _take_image(first: str, said: str, values: Mapping[str, str], found: _Found) -> None:
    match = _FROM.match(f"FROM {said}")
    image = _filled(match[1], values) if match else first
    if found.image and ":" not in image and "/" not in image:
        return  # an earlier stage of the same file
    found.image = image[:300]
    if torch := _TORCH_IMAGE.match(image):
        text = f"torch=={torch[1]}+cu{torch[2]}{torch[3]}"
        found.statements.append(Statement(text, f"FROM {image}", None))
    if tagged := _TAGGED.match(image):
        text = f"{_PACKAGE_OF[tagged[1]]}=={tagged[2]}"
        found.statements.append(Statement(text, f"FROM {image}", None))
    if python := _PYTHON_IMAGE.match(image):
        found.python = Version(python[1])


def _take_values(said: str, values: dict[str, str], *, is_argument: bool) -> None:
    """``ENV A=1 B=2``, ``ENV A 1`` and ``ARG A=1``."""
    words = _words(said)
    if words and "=" not in words[0]:
        if not is_argument and len(words) > 1:
            values[words[0]] = _filled(" ".join(words[1:]), values)
        return
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            values[key] = _filled(value, values)


def _run_text(said: str) -> str:
    """The command of a RUN step without its mounts, also in its form as a list."""
    while match := re.match(r"--(?:mount|network|security)=\S+\s+", said):
        said = said[match.end() :]
    if said.startswith("[") and said.endswith("]"):
        try:
            words = [str(word) for word in json.loads(said)]
        except (ValueError, RecursionError):
            return said
        return words[-1] if words[:1] and words[0].endswith("sh") else shlex.join(words)
    return said


def _split(text: str) -> list[str]:
    """The simple commands of a line: quotes keep their contents together."""
    text = _SUBSTITUTION.sub("$?", text)
    parts, current, quote = [], "", ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in ";&|\n()" and not _is_redirection(text, position):
            parts.append(current)
            current = ""
            continue
        current += character
    return [part.strip() for part in [*parts, current] if part.strip()]


def _is_redirection(text: str, position: int) -> bool:
    """``2>&1`` is one command."""
    return text[position] == "&" and text[position - 1 : position] == ">"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that is never closed
        return text.split()


def _filled(text: str, values: Mapping[str, str]) -> str:
    """The text with the variables that are known; others stay as they are."""

    def value(match: re.Match[str]) -> str:
        known = values.get(match["braced"] or match["plain"])
        kind, other = match["kind"] or "", match["other"] or ""
        if "+" in kind:
            return other if known else ""
        return known if known is not None and (known or ":" not in kind) else (other or match[0])

    return _VARIABLE.sub(value, text)[:_MAX_VALUE]


def _take_command(
    command: str,
    step: _Step,
    values: dict[str, str],
    found: _Found,
    name: str,
    read: Read | None,
) -> None:
    words = _words(command)
    while words and (words[0] in _PREFIXES or _ASSIGNMENT.fullmatch(words[0])):
        if match := _ASSIGNMENT.fullmatch(words[0]):
            values[match[1]] = _filled(match[2], values)
        words = words[1:]
    if words[:1] == ["export"]:
        _take_values(" ".join(map(shlex.quote, words[1:])), values, is_argument=True)
        return
    words = [_filled(word, values) for word in words]
    installer = _installer(words)
    if installer is None:
        return
    kind, rest = installer
    found.count += 1
    where = f"{name}:{step.line}"
    if kind == "conda":
        _take_conda(rest, step, where, found)
    else:
        found.uses_uv = found.uses_uv or kind == "uv"
        _take_pip(rest, step, where, found, name, read)


def _installer(words: list[str]) -> tuple[str, list[str]] | None:
    """Which installer a command runs, and what stands behind ``install`` or ``add``."""
    if not words:
        return None
    head = words[0]
    if _PYTHON.fullmatch(head) and "-m" in words[1:4]:
        at = words.index("-m")
        head, words = (words[at + 1 : at + 2] or [""])[0], words[at + 1 :]
    rest = words[1:]
    if head.rpartition("/")[2] == "uv":
        if rest[:2] == ["pip", "install"]:
            return "uv", rest[2:]
        return ("uv", rest[1:]) if rest[:1] == ["add"] else None
    if _PIP.fullmatch(head) and "install" in rest:
        return "pip", rest[rest.index("install") + 1 :]
    if head.rpartition("/")[2] in _CONDA:
        verb = next((w for w in rest[:6] if w in {"install", "create", "run"}), "")
        if verb == "run":
            return _installer(
                [w for w in rest[rest.index("run") + 1 :] if w != "--no-capture-output"][
                    _skip_name(rest) :
                ]
            )
        return ("conda", rest[rest.index(verb) + 1 :]) if verb else None
    if head in {"poetry", "pdm"} and rest[:1] == ["add"]:
        return "pip", rest[1:]
    return None


def _skip_name(words: list[str]) -> int:
    """How many words name the environment of ``conda run -n NAME``."""
    inner = [w for w in words[words.index("run") + 1 :] if w != "--no-capture-output"]
    return 2 if inner[:1] and inner[0] in {"-n", "-p", "--name", "--prefix"} else 0


def _take_pip(
    words: list[str], step: _Step, where: str, found: _Found, name: str, read: Read | None
) -> None:
    """The requirements of one command; its indexes count where it asks for torch."""
    wanted: list[Statement] = []
    options: list[Statement] = []
    position = 0
    while position < len(words):
        word, equals, value = words[position].partition("=")
        if not words[position].startswith("-"):
            wanted += _requirement(words[position], step, where, found)
            position += 1
            continue
        takes = word in _INDEX or word in _TAKES_WORD or word in {"-r", "-c", "-e", "--editable"}
        takes = takes or word in {
            "--requirement",
            "--requirements",
            "--constraint",
            "--torch-backend",
        }
        if takes and not equals:
            value = words[position + 1] if position + 1 < len(words) else ""
            position += 1
        position += 1
        if word in _INDEX:
            address = value.partition("=")[2] if "=" in value.partition("://")[0] else value
            options.append(Statement(address, where, step.line, _INDEX[word]))
        elif word == "--torch-backend" and value and value != "auto":
            url = f"https://download.pytorch.org/whl/{value}"
            options.append(Statement(url, where, step.line, "--extra-index-url"))
        elif word in {"-e", "--editable"} and value:
            wanted.append(Statement(value, where, step.line, "-e"))
        elif word in {"-r", "--requirement", "--requirements", "-c", "--constraint"} and value:
            kind = "-c" if word in {"-c", "--constraint"} else "-r"
            wanted += _of_file(kind, value, where, found, name, read)
    names = {_name_of(said) for said in wanted}
    if names & _TORCH_FAMILY:
        found.options[:] = options
    found.statements += wanted


def _requirement(word: str, step: _Step, where: str, found: _Found) -> Iterator[Statement]:
    """A word as a requirement; what the shell would have to tell is left out, and named."""
    if word.startswith((">", "<", "2>")) or word in {"/dev/null"}:
        return
    if not _is_readable(word, where, step.line):
        detail = say("line {line}: {word} is not read", line=step.line, word=clean_text(word)[:200])
        fact = f"environment.distributions[{normalise_name(word[:60]) or 'unnamed'}]"
        found.gaps.append(Gap(fact, GapReason.NOT_ASKED, "requirements", detail))
        return
    yield Statement(word, where, step.line)


def _is_readable(word: str, where: str, line: int) -> bool:
    """Whether a word is a requirement, and holds nothing that only the shell knows."""
    try:
        parse_line(word, where, line)
    except InputError:
        return False
    return "$" not in word and "`" not in word


def _of_file(
    kind: str, path: str, where: str, found: _Found, name: str, read: Read | None
) -> list[Statement]:
    """A requirements file, looked for as named and beside the script, as it was copied."""
    for place in dict.fromkeys((path.lstrip("/"), posixpath.basename(path))):
        try:
            inner = list(read_statements(f"{kind} {place}", name, read)) if read else []
        except InputError:
            continue
        if inner and inner[0].option not in {"-r", "-c"}:
            return [replace(said, line=None) for said in inner]
    detail = say("{where}: {file} is not there to be read", where=where, file=path[:200])
    found.gaps.append(Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail))
    return []


def _take_conda(words: list[str], step: _Step, where: str, found: _Found) -> None:
    """The requirements of a conda command."""
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            takes = {"-c", "--channel", "-n", "--name", "-p", "--prefix", "-f", "--file"}
            skip = not skip and word in takes
            continue
        try:
            spec = parse_conda_spec(word, step.line, where)
        except InputError:
            continue  # a folder, a redirection
        found.specs[:] = [one for one in found.specs if one.name != spec.name]
        found.specs.append(spec)


def _name_of(said: Statement) -> str:
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", said.text)
    return normalise_name(match[0]) if match and not said.option else ""


def _last_of_each(statements: Iterable[Statement]) -> list[Statement]:
    """A later install of a package replaces an earlier one, where it says which release."""
    kept: list[Statement] = []
    for said in statements:
        name = _name_of(said)
        states_one = "==" in said.text or "@" in said.text or "://" in said.text
        if name and states_one:
            kept = [one for one in kept if _name_of(one) != name]
        kept.append(said)
    return kept
