"""Take what names a person or a machine out of a report or an error before it goes elsewhere."""

from __future__ import annotations

import ipaddress
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from envguard.redaction import map_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")

_REDACTED = "<redacted>"

# ---------------------------------------------------------------------------- identifiers

_UUID = re.compile(
    r"\b(?:(GPU|MIG)-(?:GPU-)?)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:/\d+/\d+)?\b",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"(?<![\w.+/-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
# Names of nodes, accounts and users stand in variables of schedulers and launchers.
_NAMING_VARIABLES = re.compile(
    r"SLURM_JOB_(?:USER|ACCOUNT|PARTITION|NODELIST)|\w*HOST\w*|\w*NODELIST|\w*_ADDR|USER|LOGNAME|"
    r"\w*_ENDPOINT|HOME"
)

# ---------------------------------------------------------------------------- addresses

# Hosts that everybody knows: where drivers, tables and builds are published.
_PUBLIC = re.compile(
    r"(?:[\w-]+\.)*(?:pytorch\.org|nvidia\.com|github\.com|githubusercontent\.com|huggingface\.co|"
    r"python\.org|pypi\.org|pythonhosted\.org|conda\.io|anaconda\.org|astral\.sh|docker\.com|"
    r"docker\.io|nvcr\.io|ray\.io|vllm\.ai|sglang\.io|microsoft\.com|kernel\.org|kitware\.com|"
    r"google\.com|openshift\.com|oasis-open\.org|docs\.rs|eleuther\.ai|deepspeed\.ai|osc\.edu|"
    r"readthedocs\.io|w3\.org|json-schema\.org|localhost)",
    re.IGNORECASE,
)
_AUTHORITY = re.compile(r"(?<=://)(?P<host>\[[0-9A-Fa-f:.%\w]*\]|[^\s/?#:\"'<>,;)\]]+)")
# A name of two parts or more whose last one is a domain, and no file or module is called so.
_DOMAIN = re.compile(
    r"(?<![\w./@-])(?:[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?\.)+"
    r"(?:com|org|net|edu|gov|mil|int|info|cloud|internal|intranet|local|localdomain|lan|corp|"
    r"home|cluster|example|test|invalid|compute|hpc|eu|de|fr|uk|us|ch|at|nl|it|es|se|no|fi|dk|jp|"
    r"cn|kr|in|au|ca|br|ru|tw|sg|io|ai|dev|co|tech|site|xyz)(?![\w-]|\.\w)",
)
_MODULES = re.compile(r"(?:torch\w*|datasets|fsspec|numpy|scipy|transformers|tensorflow)\..*")
# Where a bare name can be nothing but a host.
_HOST_FIELD = re.compile(
    r"(?P<before>\b(?:host(?:[ _-]?name)?|node(?:[ _-]?name)?|master[ _-]?addr(?:ess)?|"
    r"rdzv[ _-]?endpoint|peer|server|\w*node[ _]?list)[\"']?\s*[:=]\s*[\"']?"
    r"|\bLinux (?=[\w.-]+ \d+\.\d+\.))"
    r"(?P<host>[A-Za-z0-9][\w.-]*(?:\[[\d,-]+\])?)",
    re.IGNORECASE,
)
_SYSLOG = re.compile(
    r"^(?P<before>(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ][\d:.,+-]+Z?) )"
    r"(?P<host>[A-Za-z0-9][\w.-]*)(?= \S+?(?:\[\d+\])?: )",
    re.MULTILINE,
)
# Places where launchers, schedulers and libraries put the name of a node; it is cut wherever it is.
_NODE = r"(?P<host>[A-Za-z](?:[\w.-]{0,250}[A-Za-z0-9])?)"
_NODE_PLACES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"^(?:\[[^\]\n]{{0,40}}\](?:<\w+>)?:? ?)?{_NODE}(?=:\d+:\d+ \[)",  # NCCL
        rf"\[{_NODE}(?=:\d+\] (?:\*\*\*|\[ ?\d|Signal|Failing|Address|PMIX|mca))",  # Open MPI
        rf"\bsrun: error: {_NODE}(?=: tasks? )",
        rf"\b(?:STEP|JOB) \S{{1,40}} ON {_NODE}",
        rf"\bon (?:node|host|machine) (?=\S*\d){_NODE}",
        r"(?:addresses of|onnect(?:ed|ion)? to|resolve|reach) [\[(]?"
        rf"{_NODE}(?=\]?:\d|, \d{{4,5}}\))",  # c10d
        rf"--(?:master[_-]addr|rdzv[_-]endpoint|head[_-]node|host(?:name)?)[= ]{_NODE}",
        rf"^{_NODE}(?= slots=\d)",  # a host file
    )
)
# What is called like a node is one: `gpu-node-03`, `dgx07`, `ip-10-1-2-3`.
_NODE_LIKE = re.compile(
    r"(?<![\w./-])(?:(?:[a-z0-9]{1,30}-){0,8}(?:node|dgx|compute|hpc|login|srv)-?\d+(?:-[a-z0-9]+)*"
    r"|ip(?:-\d{1,3}){4})(?![\w/-]|\.\w)"
)
_USER_FIELD = re.compile(
    r"(?P<before>\b(?:user(?:[ _-]?name)?|logname)[\"']?\s*[:=]\s*[\"']?|\bby user [\"']?|"
    r"\blogged in as:? )(?!(?:root|none|null|user)\b)(?P<user>[A-Za-z_][\w.-]*)",
    re.IGNORECASE,
)
_IPV4 = re.compile(r"(?<![\w.+-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.+-]*[\w+-])")
# Four numbers are a version behind a comparison, a package, a library or the word itself.
_VERSIONED = re.compile(
    r"(?:(?<!<email)(?<!<host)(?<!<path)(?<!<ip)(?<!<redacted)[=<>!~]=?\s*|"
    r"\b(?:torch\w*|driver|nvidia[\w-]*|cu\w+|lib[\w.]*|nccl\w*|npp\w*|nv\w+|tensorrt\w*|version|"
    r"versions|release)[\"']?\s*[:=(]?\s*[\"']?)\Z",
    re.IGNORECASE,
)
_HOST_SIGN = re.compile(
    r"(?<!\w)(?>\w*?(?:addr|host|ip|endpoint|peer))\w*+[\"']?\s*+[:=]++\s*+\Z", re.IGNORECASE
)
_LOOK_BACK = 48
_COLONS = re.compile(r"(?<![\w:.%-])(?:[0-9A-Fa-f.]*+:){2}[0-9A-Fa-f:.]*(?:%\w+)?(?![\w:-])")
_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}:){5}(?:[0-9A-Fa-f]{2})\Z")


def _public(host: str) -> bool:
    return _PUBLIC.fullmatch(host) is not None or host.startswith(("127.", "<", "{"))


def _without_hosts(text: str) -> str:
    text = _AUTHORITY.sub(lambda m: m[0] if _public(m["host"]) else "<host>", text)
    text = _EMAIL.sub("<email>", text)
    text = _DOMAIN.sub(lambda m: m[0] if _public(m[0]) or _MODULES.match(m[0]) else "<host>", text)
    text = _NODE_LIKE.sub("<host>", text)
    text = _SYSLOG.sub(r"\g<before><host>", text)
    text = _HOST_FIELD.sub(lambda m: m[0] if _public(m["host"]) else f"{m['before']}<host>", text)
    text = _USER_FIELD.sub(rf"\g<before>{_REDACTED}", text)
    text = _IPV4.sub(_without_ipv4, text)
    return _COLONS.sub(_without_ipv6, text)


def _without_ipv4(match: re.Match[str]) -> str:
    before = match.string[max(match.start() - _LOOK_BACK, 0) : match.start()]
    is_version = _VERSIONED.search(before) is not None and _HOST_SIGN.search(before) is None
    is_address = all(int(part) < 256 for part in match[0].split("."))
    return match[0] if is_version or not is_address or _public(match[0]) else "<ip>"


def _without_ipv6(match: re.Match[str]) -> str:
    word = match[0].rstrip(".:") if not match[0].endswith("::") else match[0]
    rest = match[0][len(word) :]
    if _MAC.match(word):
        return f"<mac>{rest}"
    try:
        address = ipaddress.IPv6Address(word)
    except ValueError:
        return match[0]
    # `c10::` and `::` are names of C++; a real address has more to it.
    is_name = word.endswith("::") or word.startswith("::")
    return match[0] if address.is_loopback or (is_name and word.count(":") < 4) else f"<ip>{rest}"


# ---------------------------------------------------------------------------- paths

# What a folder or a file is called, with blanks where the folder goes on behind them.
_PART = r"[^\s/'\"`,;:()<>|\\]+(?:[ ]+[^\s/'\"`,;:()<>|\\=]+){0,4}(?=/)|[^\s/'\"`,;:()<>|\\]+"
_POSIX = re.compile(
    rf"(?:(?<=file://)|(?<=file:)|(?<![\w:/.<>*])|(?<=[A-Za-z0-9_)\]]:)(?<!\w://))(?:~[\w.-]*)?"
    rf"(?P<path>/(?:(?:{_PART})/)+(?P<last>[^\s/'\"`,;:()<>|\\]*))"
)
_QUOTED = re.compile(
    r"(?P<quote>[\"'`])(?P<path>(?:file://)?(?:~[\w.-]*|[A-Za-z]:)?[/\\][^\"'`\n]*)(?P=quote)"
)
_WINDOWS = re.compile(
    r"(?:\b[A-Za-z]:|(?<![\w\\])\\)[\\/]{1,2}(?:[^\\/\s'\":;<>|*?][^\\/\n'\":;<>|*?]*[\\/]{1,2})+"
    r"(?P<last>[^\\/\s'\",;:<>|]*)"
)
_HOMES = re.compile(r"(?:home|homes|users|user|u|people|staff|students)\Z", re.IGNORECASE)
# Folders of the system itself name nobody.
_SYSTEM = re.compile(r"/(?:dev|proc|sys)(?:/|\Z)")
# Last parts that say what is meant; a folder's name may be a person's.
_TELLING = re.compile(
    r".+\.\w+|python[\d.]*|pip[\d.]*|bin|lib|lib64|site-packages|dist-packages|nvcc|torch|cuda.*|"
    r"uv|conda|nvidia-smi|shm|include|nvidia|deepspeed|\.?venv",
    re.IGNORECASE,
)


def _tells(parts: Sequence[str], names: frozenset[str]) -> bool:
    """Whether the last part of a path may stay: not a user's home, nor called like a user."""
    last = parts[-1]
    parent = parts[-2] if len(parts) > 1 else ""
    return not _HOMES.match(parent) and last not in names and _TELLING.fullmatch(last) is not None


def _short(path: str, sign: str, names: frozenset[str]) -> str:
    parts = [part for part in re.split(r"[/\\]+", path) if part]
    if not parts or not _tells(parts, names):
        return "<path>"
    return f"<path>{sign}{parts[-1]}"


def _without_paths(text: str, names: frozenset[str]) -> str:
    def quoted(match: re.Match[str]) -> str:
        path = match["path"]
        scheme = "file://" if path.startswith("file://") else ""
        plain = path.removeprefix("file://")
        if plain.count("/") + plain.count("\\") < 2 or _SYSTEM.match(plain):
            return match[0]
        sign = "\\" if "\\" in plain else "/"
        return f"{match['quote']}{scheme}{_short(plain, sign, names)}{match['quote']}"

    def posix(match: re.Match[str]) -> str:
        if _SYSTEM.match(match["path"]):
            return match[0]
        return _short(match["path"], "/", names)

    text = _QUOTED.sub(quoted, text)
    text = _WINDOWS.sub(lambda m: _short(m[0], "\\", names), text)
    return _POSIX.sub(posix, text)


_HOME_OF = re.compile(
    r"(?:/(?:home|homes|Users)/|(?<![\w/.~])~(?=[A-Za-z][\w.-]{0,99}/)|[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2})(?P<name>[^/\\\s'\",;:()<>|]+)"
)
_NOBODY = frozenset(
    {"", "root", "localhost", "user", "users", "home", "public", "Public", "shared"}
)


def _names_in(text: str) -> Iterable[str]:
    """Users and nodes that a text names where nothing else can stand."""
    yield from (match["name"] for match in _HOME_OF.finditer(text))
    for place in _NODE_PLACES:
        nodes = (match["host"] for match in place.finditer(text))
        yield from (node for node in nodes if not _public(node))


def _own_names() -> frozenset[str]:
    """Of this machine and its user."""
    variables = (os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME"))
    return frozenset({platform.node(), Path.home().name, *variables}) - _NOBODY


def redact_text(text: str, names: Iterable[str] = ()) -> str:
    """Replace what names a person or a machine; credentials are gone from it already.

    Args:
        text: Any text.
        names: Users and hosts that are known from elsewhere, beside those that it tells itself.

    Returns:
        The text without UUIDs, absolute paths (a telling last part is kept), user names, e-mail
        and network addresses, and host names other than public ones.
    """
    known = _own_names() | frozenset(names) | frozenset(_names_in(text)) - _NOBODY
    text = _UUID.sub(lambda m: f"{m[1].upper()}-{_REDACTED}" if m[1] else "<uuid>", text)
    text = _without_paths(text, known)
    text = _without_hosts(text)
    for name in sorted(known, key=len, reverse=True):
        if len(name) > 1 and name in text:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", _REDACTED, text)
    return text


def redact(value: T) -> T:
    """Redact every text inside a frozen value, each with the user names that all of them tell.

    Args:
        value: A dataclass, tuple, mapping or text; versions and enums stay as they are.
    """
    names: set[str] = set()

    def noted(text: str) -> str:
        names.update(_names_in(text))
        return text

    map_texts(value, noted, lambda words: tuple(map(noted, words)), lambda _, text: noted(text))
    known = names - _NOBODY

    def text(held: str) -> str:
        return redact_text(held, known)

    def variable(name: str, held: str) -> str:
        return _REDACTED if _NAMING_VARIABLES.fullmatch(name) else text(held)

    return map_texts(value, text, lambda words: tuple(map(text, words)), variable)
