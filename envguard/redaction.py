"""What secrets look like, and what is shown in their place: the one place that decides it.

Text is cleaned where it enters values (files, options, variables, command lines) and once more
where it leaves them (reports, errors, records). Host, path, package and version stay. Every
pattern takes linear time and none is bounded: tokens of a few thousand characters are usual.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

T = TypeVar("T")

HIDDEN = "***"

# ---------------------------------------------------------------------------- names


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET_PARTS = _words(
    "token secret secrets password passwords passwd passphrase passwort pwd pw credential "
    "credentials cred creds apikey apikeys apitoken authtoken accesstoken accesskey "
    "secretkey privatekey authorization cookie cookies jwt bearer hftoken "
    "hubtoken dbpass"
)
_SECRET_ENDS = ("password", "passwords", "passwd", "apikey")  # PGPASSWORD is one word
_ALWAYS = _words("password passwords passwd passphrase passwort pwd pw secret")
# Secret only where the value looks drawn at random: `"auth": ...` of Docker, a list of `TOKENS`.
_WEAK = _words("key keys auth tokens")
# A key is secret where the word before it says so: `api_key`, not `sort_key`.
_KEY_OWNERS = _words(
    "api access secret private auth account encryption signing license licence storage "
    "subscription wandb hf service session shared client master ssh deploy webhook app "
    "comet neptune openai anthropic clearml swanlab kaggle fernet"
)
_KEYS_OWNERS = _words("api access secret private")  # `shared_keys` are those of tensors
_KEY_TAILS = _words("states state dim size cache padding proj name names column columns")
_PLACE_TAILS = _words("file files path paths dir folder stdin prompt")
# Tokens that are no secrets: those of a vocabulary, and what is counted of them.
_VOCABULARY = _words(
    "eos bos pad unk mask sep cls image video audio vision special stop start end begin per "
    "max min num first last next new prev previous decoder boi eoi additional response "
    "instruction n each every single extra box tool prompt reserved sos unexpected "
    "placeholder initializer modifier instance trigger concept class prefix suffix middle fim "
    "eot eom eoh eoc lang language newline delimiter separator split break think assistant "
    "system template target"
)
_TAILS = _words(
    "id ids type types count counts length len limit size index idx mask masks embedding "
    "dim budget classification level embeddings accuracy loss dropout shift abstraction"
)
_NAME = re.compile(r"(?:-*+[$+])*+[\w.\[\]-]++")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN_VALUE = re.compile(
    r"(?:true|false|none|null|yes|no|on|off|auto|bearer|basic|\*+|)\Z", re.IGNORECASE
)
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\Z")
_MARK = re.compile(r"(?:<[^<>\s]{1,40}>|\[[A-Z_]{1,20}\])\Z")  # of a vocabulary: `<image>`, `[PAD]`
_RANDOM = re.compile(r"(?=[A-Za-z]{0,15}[0-9])(?=[0-9]{0,15}[A-Za-z])[A-Za-z0-9]{16}")


def is_secret_name(name: str) -> bool:
    """Whether what a variable, an option, a field or a parameter of this name holds is secret.

    Names are cut into words: ``HF_TOKEN``, ``hub-token`` and ``apiKey`` are secret,
    ``tokenizer``, ``eos_token`` and ``max_tokens`` are not.
    """
    return bool(_secret_parts(name))


@lru_cache(maxsize=1024)
def _secret_parts(name: str) -> set[str]:
    if not _NAME.fullmatch(name):
        return set()
    words = _words_of(name)
    around = zip(["", *words], words, [*words[1:], ""], strict=False)
    return {word for before, word, after in around if _is_secret(before, word, after)}


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _PART.findall(name[-200:])]


def _is_secret(before: str, word: str, after: str) -> bool:
    if after in _PLACE_TAILS:
        return False
    if word in {"key", "keys"}:
        owners = _KEY_OWNERS if word == "key" else _KEYS_OWNERS
        return before in owners and after not in _KEY_TAILS
    if word == "token":
        return before not in _VOCABULARY and after not in _TAILS
    is_whole = word in _SECRET_PARTS or word.endswith(_SECRET_ENDS)
    return is_whole or (word == "pass" and not after)


def _is_weak(name: str) -> bool:
    """Whether what a name says is secret where its value looks drawn at random."""
    words = _words_of(name) if _NAME.fullmatch(name) else []
    return bool(words) and words[-1] in _WEAK and "cache" not in words


def _looks_random(value: str) -> bool:
    return _RANDOM.search(value) is not None


def clean_variable(name: str, value: str) -> str:
    """The value of a variable, an option or a field as it may be stored.

    Args:
        name: Decides together with the value.
        value: As it is set.
    """
    return HIDDEN if _hides(name, value) else clean_text(value)


def _hides(name: str, value: str) -> bool:
    """Whether a value is secret by its name; switches and counts are not."""
    parts = _secret_parts(name)
    if not parts:
        return _is_weak(name) and _looks_random(value)
    if _PLAIN_VALUE.match(value) or (parts == {"token"} and _MARK.match(value)):
        return False
    return bool(parts & _ALWAYS) or not _NUMBER.match(value)


# ---------------------------------------------------------------------------- text

_NAMING = (
    *("token", "secret", "passw", "passphrase", "pwd", "_pw", "-pw", "key", "cred", "pass="),
    *("auth", "sig", "cookie", "jwt", "bearer", "pass:", '"pass"', "pass "),
)
_HEADING = ("authorization", "bearer", "basic ", "cookie")
_SHAPED = (
    *("hf_", "sk-", "gsk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("akia", "asia", "eyj", "npm_", "pypi-", "xox", "aiza", "nvapi-", "wandb_v", "dckr_pat_"),
    *("private key", "r8_", "login"),
)


def clean_text(text: str) -> str:
    """A text in which no address, assignment, option, header or known token holds a secret."""
    lower = text.lower()
    text = clean_addresses(text)
    if "@" in text:
        text = _bare_user().sub(r"\1***@", text)
    if any(word in lower for word in _HEADING):
        text = _header().sub(rf"\1{HIDDEN}", text)
        text = _cookie().sub(rf"\1{HIDDEN}", text)
    if any(word in lower for word in _NAMING):
        text = _without_values(text, _assignment(), is_option=False)
        text = _without_values(text, _option(), is_option=True)
        text = _without_values(text, _setting(), is_option=True)
        text = _without_values(text, _pair(), is_option=True)
        text = _parameter().sub(_without_parameter, text)
    if any(word in lower for word in _SHAPED):
        text = _known_token().sub(HIDDEN, text)
        text = _login().sub(rf"\1{HIDDEN}", text)
    if any(word in lower for word in (*_NAMING, "login")):
        text = _random_word().sub(_without_random, text)
    if any(word in lower for word in _PROGRAMS):
        text = _program_option().sub(rf"\1{HIDDEN}", text)
    return text


# Programs that are given passwords by short options, and as words.
_PROGRAMS = ("login", "sshpass", "mysql", "mariadb", "twine", "curl", "wget")


@cache
def _program_option() -> re.Pattern[str]:
    """The password of ``docker login -p``, ``sshpass -p``, ``curl -u user:``, of ``.netrc``."""
    between = r"(?:\s[^\n|;&]{0,100}?)?\s"
    return re.compile(
        rf"(\b(?:login{between}-[pk]\s{{0,9}}|twine{between}-p\s{{1,9}}"
        rf"|sshpass\s{{1,9}}-p\s{{0,9}}|(?:mysql|mysqldump|mariadb){between}-p(?=\S)"
        rf"|(?:curl|wget){between}(?:-u|--user|--proxy-user)[\s=]{{0,9}}[^\s:]{{0,200}}:"
        r"|login\s{1,99}\S{1,200}\s{1,99}password\s{1,99}))(?![-*])[^\s\"']+"
        r"|(?<=echo\s)([\"']?)[^\s\"'|]{1,999}(?=[\"']?\s{0,9}\|\s{0,9}\w{1,99}\slogin\b)"
    )


@cache
def _cookie() -> re.Pattern[str]:
    return re.compile(rf"(\b(?:set-)?cookie:\s*{re.escape(HIDDEN)})[^\n\"'\\]*", re.IGNORECASE)


@cache
def _parameter() -> re.Pattern[str]:
    """A parameter of an address whose beginning is not there."""
    return re.compile(r"(?<=[?&])([\w.-]+)=([^\s\"'`&#<>()\\]+)")


def _without_parameter(match: re.Match[str]) -> str:
    is_secret = _SECRET_PARAMETER.search(match[1]) and not _NUMBER.match(match[2])
    return f"{match[1]}={HIDDEN}" if is_secret else match[0]


@cache
def _random_word() -> re.Pattern[str]:
    """A word that may be drawn at random, without what stands around it."""
    return re.compile(r"(?<![\w/+.=@:#%*-])[A-Za-z0-9_-]{20,}={0,2}(?![\w/+.@:%-])")


def _without_random(match: re.Match[str]) -> str:
    """Cut a random word behind one that says what it is: ``invalid token: ...``."""
    before = match.string[max(0, match.start() - _LONGEST_LEAD) : match.start()]
    is_secret = _looks_random(match[0]) and _lead().search(before)
    return HIDDEN if is_secret else match[0]


_LONGEST_LEAD = 120


@cache
def _lead() -> re.Pattern[str]:
    return re.compile(
        r"(?:(?:token|secret|password|passwd|credentials?|\bkey|(?:api|access|secret)[ _-]?key)"
        r"[\s:=\"'`,]{1,4}(?:(?:is|was|of|value)[\s:\"'`]{1,4})?|\blogin\s[^\n|;&]*)\Z",
        re.IGNORECASE,
    )


@cache
def _bare_user() -> re.Pattern[str]:
    """``user:password@host`` of an address without a scheme."""
    return re.compile(r"(?<![\w/:.+-])([\w.+-]+:)(?!\*)[^\s@/:\"'<>\\]+@(?=[A-Za-z])(?!sha\d)")


@cache
def _header() -> re.Pattern[str]:
    return re.compile(
        r"(\b(?:proxy-)?authorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:(?:bearer|basic|token|digest)\s+)?"
        r"|\bbearer\s+(?=\S{8})|\bbasic\s+(?=[A-Za-z+/]*[0-9=])(?=\S{8})"
        r"|\b(?:set-)?cookie:\s*(?=\S+=))[^\s\"'\\,<>]+",
        re.IGNORECASE,
    )


def _without_values(text: str, heads: re.Pattern[str], *, is_option: bool) -> str:
    """Cut the values behind names that are secret; a value that is kept is looked into as well."""
    kept, done = [], 0
    for head in heads.finditer(text):
        name = head["name"].lstrip("-$")
        if head.start("name") < done or not (is_secret_name(name) or _is_weak(name)):
            continue
        opening, value = _value_at(text, head.end(), is_option=is_option)
        start = head.end() + len(opening)
        if _is_kept(head, opening, value, is_option=is_option):
            continue
        kept += [text[done:start], HIDDEN]
        done = start + len(value)
    return "".join([*kept, text[done:]])


def _value_at(text: str, start: int, *, is_option: bool) -> tuple[str, str]:
    """The quote that stands at a place, if any, and the value behind it."""
    quote = _QUOTE.match(text, start)
    if quote is None:
        value = (_word if is_option else _bare_value)().match(text, start)
        return "", value[0] if value else ""
    begin = quote.end()
    if len(quote[0]) == 1:
        value = _quoted(quote[0]).match(text, begin)
        return quote[0], value[0] if value else ""
    line = text.find("\n", begin)
    found = text.find(quote[0], begin, line if line >= 0 else len(text))
    return quote[0], text[begin : found if found >= 0 else line if line >= 0 else len(text)]


def _is_kept(head: re.Match[str], opening: str, value: str, *, is_option: bool) -> bool:
    """Whether a value behind a secret name stays: a number of JSON, prose, another option."""
    if not value or not _hides(head["name"].lstrip("-$"), value):
        return True
    if head["name"].lower() == "pass" and not head["close"]:
        return "=" not in head["sign"]  # `PASS: test_name`
    if is_option:
        return not opening and (value.startswith("-") or value in _PROSE)
    is_json_number = bool(head["close"]) and not opening and _NUMBER.match(value) is not None
    return is_json_number or ("\n" in head["sign"] and not opening)


@cache
def _assignment() -> re.Pattern[str]:
    """The beginning of ``NAME=value``, ``"name": "value"``, ``name: value``."""
    return re.compile(
        r"(?<![\w.-])(?P<name>[A-Za-z_$-][\w.-]*)(?P<close>\\*[\"']?\]?)"
        r"(?P<sign>\s*(?:=(?!=)|:(?![/:=]))\s*)"
    )


@cache
def _option() -> re.Pattern[str]:
    """The beginning of ``--name value``, also as two words of a serialised list."""
    # From the beginning of a word on, so that no word is gone through twice.
    return re.compile(
        r"(?<![\w.-])(?>[\w.-]*?(?<![\w-])(?P<name>--?[A-Za-z][\w.-]*+))(?P<close>\\*+[\"']?),?\s+"
    )


@cache
def _setting() -> re.Pattern[str]:
    """The beginning of ``setenv NAME value`` and of its like."""
    return re.compile(
        r"(?<![\w-])(?:setenv|setx|ENV|set\s{1,9}-g?x|config(?:ure)?(?:\s{1,9}set)?)\s{1,9}"
        r"(?P<name>[\w.-]+)(?P<close>)\s+(?=[^\s=])"
    )


@cache
def _pair() -> re.Pattern[str]:
    """The beginning of ``"NAME", "value"``, where the value is no name itself."""
    return re.compile(
        r"(?P<mark>[\"'])(?P<name>[A-Za-z_][\w.-]*)(?P<close>(?P=mark)),\s?(?=[\"'](?![a-z_.]*[\"']))"
    )


_QUOTE = re.compile(r"\\*+[\"']")


@cache
def _quoted(quote: str) -> re.Pattern[str]:
    return re.compile(rf"(?:[^{quote}\\\n]|\\.)*")


@cache
def _word() -> re.Pattern[str]:
    return re.compile(r"[^\s\"'`\\]+")


@cache
def _bare_value() -> re.Pattern[str]:
    return re.compile(r"[^\s\"'`,;&|<>(){}\[\]\\][^\s\"'`,;&|<>)}\]\\]*")


# Words that follow the name of an option in a sentence.
_PROSE = _words("is or and in to for of as with not must needs the option are was by")


@cache
def _known_token() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w-])(?:hf_[A-Za-z0-9]{16,}|sk-(?=[A-Za-z_-]*[0-9])[\w-]{16,}|gsk_\w{16,}|gh[pousr]_\w{12,}"
        r"|github_pat_\w{12,}|glpat-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}"
        r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?|npm_\w{16,}|pypi-[\w-]{32,}|xox[a-z]-[\w-]{8,}"
        r"|AIza[\w-]{20,}|nvapi-[\w-]{16,}|wandb_v\d+_\w{16,}|dckr_pat_[\w-]{12,}|r8_\w{24,})"
        r"|(?<=-----BEGIN )[A-Z ]*PRIVATE KEY-----[^-]*"
    )


@cache
def _login() -> re.Pattern[str]:
    return re.compile(r"(\blogin(?:\s+|\((?:key\s*=\s*)?\\*[\"']?))(?!-)[\w-]{12,}")


# ---------------------------------------------------------------------------- addresses

# Parameters that say which thing is meant; the values of all others are cut.
_PLAIN_PARAMETERS = _words(
    "egg subdirectory rev branch tag ref version name platform arch lang format"
)
_FRAGMENT_PARAMETERS = _PLAIN_PARAMETERS | {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"}
_SECRET_PARAMETER = re.compile(
    r"token|secret|password|passwd|signature|sig|key|credential|auth|x-amz-.*", re.IGNORECASE
)
# Parameters without a name, longer than a word.
_LONGEST_BARE = 24


def strip_credentials(url: str) -> str:
    """An address that can still be fetched: without user, password and secret parameters."""
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    kept = [pair for pair in parameters if not _SECRET_PARAMETER.search(pair[0])]
    query = parts.query if len(kept) == len(parameters) else urlencode(kept)
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))


def clean_addresses(text: str) -> str:
    """A text whose addresses keep scheme, host, path and plain parameters, and nothing else.

    Files of pins are read through this: names and versions are never touched by it.
    """
    if ":/" not in text:
        return text
    first, *parts = _scheme_end().split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return first + "".join(sign + _clean_part(part) for sign, part in pairs)


@cache
def _scheme_end() -> re.Pattern[str]:
    # One slash where the address was taken for a path on the way.
    return re.compile(r"(?<=[A-Za-z0-9]{2})(:/{1,2})(?!/)")


@cache
def _end_of_address() -> re.Pattern[str]:
    # A backslash begins an escape of a serialised text, a sequence of a terminal ends a word.
    return re.compile(r"[\s\"'`<>\x00-\x1f]|\\[nrtu\"]")


def _clean_part(part: str) -> str:
    """What follows ``scheme://``: the address up to its end, and the text behind it."""
    part = _USER.sub("", part, count=1)  # whatever signs it holds
    end = _end_of_address().search(part)
    stop = end.start() if end else len(part)
    return _clean_address(part[:stop]) + part[stop:]


def _clean_address(rest: str) -> str:
    hook = _HOOK.match(rest)
    if hook is not None:
        return hook[0] + HIDDEN
    if len(rest) <= _LONGEST_LABEL and not any(s in rest for s in (":", "@", "?", "#", "/t/")):
        return rest
    place, hash_sign, fragment = _without_user(rest).partition("#")
    path, mark, query = place.partition("?")
    if not _FORUM.match(path):
        path = _CONDA_TOKEN.sub(f"/t/{HIDDEN}", path)
    if "=" in fragment:
        fragment = _clean_parameters(fragment, _FRAGMENT_PARAMETERS)
    return path + mark + _clean_parameters(query, _PLAIN_PARAMETERS) + hash_sign + fragment


_USER = re.compile(r"\A[^/\s]*@")
# Longer than a label of a host: a token whose end was cut off.
_LONGEST_LABEL = 63
# Channels of private conda servers carry their token in the path; forums have topics there.
_CONDA_TOKEN = re.compile(r"/t/(?!<)[^/]+")
_FORUM = re.compile(r"(?:[\w-]{1,40}-)?(?:discuss|discourse|forums?|community)\.")
# Whoever has the address of a hook may write there: its path is the secret.
_HOOK = re.compile(
    r"(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|api\.telegram\.org/(?:file/)?bot"
    r"|[\w-]+\.webhook\.office\.com/|open\.feishu\.cn/open-apis/bot/)(?=.)"
)


def _without_user(rest: str) -> str:
    """An address without user and password; a password with slashes ends at the last ``@``."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        return rest[authority.rindex("@") + 1 :]
    user, colon, after = authority.partition(":")
    is_host = user.startswith("[") or re.fullmatch(r"\d{0,5}\W*(?:\{.*)?", after) is not None
    if colon and not is_host:
        return rest[rest.rindex("@") + 1 :] if "@" in rest else f"{user}:{HIDDEN}"
    is_label = all(len(label) <= _LONGEST_LABEL for label in authority.split("."))
    return rest if is_label else HIDDEN


def _clean_parameters(query: str, plain: frozenset[str]) -> str:
    pieces = re.split(r"([&;])", query)
    return "".join(_clean_parameter(piece, plain) for piece in pieces)


def _clean_parameter(piece: str, plain: frozenset[str]) -> str:
    name, equals, value = piece.partition("=")
    if not equals:
        return piece if len(piece) <= _LONGEST_BARE else HIDDEN
    bare = value.rstrip(")],.:;")  # of the sentence around it
    if name.lower() in plain or _PLAIN_VALUE.match(bare):
        return piece
    return f"{name}={HIDDEN}{value[len(bare) :]}"


# ---------------------------------------------------------------------------- command lines

_USERS = frozenset({"-u", "-U", "--user", "--proxy-user", "--auth"})


def clean_command(words: Sequence[str]) -> tuple[str, ...]:
    """A command line whose secret values are cut; every word stays where it stands.

    Args:
        words: Program and arguments.
    """
    cleaned = [_clean_word(last, word) for last, word in pairwise(["", *words])]
    for place in range(1, len(words)):
        if cleaned[place] == words[place] and _is_told_by_words(words[: place + 1]):
            cleaned[place] = HIDDEN
    return tuple(cleaned)


_WORDS_BEFORE = 6


def _is_told_by_words(words: Sequence[str]) -> bool:
    """Whether the words before the last one say that it is secret, as those of a line would."""
    *before, word = words[-_WORDS_BEFORE:]
    is_program_near = any(part.rpartition("/")[2] in _PROGRAMS for part in before)
    if not (is_program_near or _looks_random(word)) or any(char.isspace() for char in word):
        return False
    if _PLAIN_VALUE.match(word):
        return False
    line = " ".join(part for part in before if len(part) <= _LONGEST_LEAD and "\n" not in part)
    return not clean_text(f"{line} {word}").endswith(word)


def _clean_word(last: str, word: str) -> str:
    is_option = last.startswith("-") and "=" not in last
    if is_option and not word.startswith("--") and _hides(last.lstrip("-"), word):
        return HIDDEN
    user, colon, password = word.partition(":")
    if last in _USERS and colon and not _NUMBER.match(password):
        return f"{user}:{HIDDEN}"
    name, equals, value = word.partition("=")
    if equals and _hides(name.lstrip("-+~"), value):
        return f"{name}={HIDDEN}"
    return clean_config(word) if word[:1] in {"{", "["} else clean_text(word)


# ---------------------------------------------------------------------------- configuration


def clean_config(text: str) -> str:
    """A configuration text (JSON, YAML, TOML, INI) whose secret values are cut.

    JSON that holds a secret is written anew; everything else keeps its lines.
    """
    if text.lstrip()[:1] in {"{", "["}:
        try:
            document = json.loads(text)
            cleaned = _clean_document(document)
        except (ValueError, RecursionError):
            pass  # not JSON after all: its lines are looked at
        else:
            return (
                text
                if cleaned == document
                else json.dumps(cleaned, indent=2 if "\n" in text else None)
            )
    return clean_text("".join(map(_Lines().clean, text.splitlines(keepends=True))))


def _clean_document(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            owner = next((str(value[k]) for k in ("name", "key") if k in value), "")
            return {
                key: _clean_document(item, _heir(name, owner if key == "value" else str(key)))
                for key, item in value.items()
            }
        case list():
            return [_clean_document(item, name) for item in value]
        case str():
            return clean_variable(name, value)
        case _:
            return value if not _hides(name, str(value)) else HIDDEN


def _heir(parent: str, child: str) -> str:
    """The name that decides: what stands below a secret name is secret."""
    return parent if is_secret_name(parent) else child


_LINE = re.compile(r"(?P<indent>[\s;#]*(?:- )*)(?P<name>[\"']?[\w.-]+[\"']?)(?P<sign>\s*[:=]\s*)")
_SECTION = re.compile(r"\s*+\[++\s*+([^\]\s]*+(?:\s++[^\]\s]++)*+)\s*+\]++\s*+(?:[#;].*)?$")
_BLOCK_ENDS = {"'''": "'''", '"""': '"""', "[": "]", "{": "}"}


class _Lines:
    """Reads YAML, TOML or INI line by line, and knows what belongs to a secret value."""

    def __init__(self) -> None:
        self._column = -1  # of the secret name whose value goes on; -1 for none
        self._closing = ""  # what ends it, where brackets or quotes do
        self._named = ""  # what ``name:`` on the line before says
        self._in_section = False

    def clean(self, line: str) -> str:
        """The line as it may be stored."""
        body = line.rstrip("\r\n")
        ending = line[len(body) :]
        if self._goes_on(body):
            return (" " * _column(body) + HIDDEN if body.strip() else body) + ending
        if section := _SECTION.match(body):
            self._in_section = any(map(is_secret_name, section[1].split(".")))
        match = _LINE.match(body)
        if match is None:
            return line
        value = body[match.end() :].strip()
        if not self._is_secret(match["name"].strip("\"'"), value):
            return line
        self._column, self._closing = _column(body), _closing(value)
        return match[0] + (HIDDEN if value else "") + ending

    def _goes_on(self, body: str) -> bool:
        """Whether a line still belongs to a secret value."""
        if self._closing:
            self._closing = "" if self._closing in body else self._closing
            return True
        is_deeper = _column(body) > self._column or body.lstrip().startswith("- ")
        if self._column >= 0 and (is_deeper or not body.strip()):
            return True
        self._column = -1
        return False

    def _is_secret(self, name: str, value: str) -> bool:
        decisive = self._named if name == "value" and self._named else name
        self._named = value.strip("\"'") if name in {"name", "key"} else ""
        decisive = "secret" if self._in_section else decisive
        plain = value.strip("\"',")
        is_open = not value or bool(_closing(value))
        return is_secret_name(decisive) and (is_open or _hides(decisive, plain))


def _column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _closing(value: str) -> str:
    """What ends a value that goes on over lines by brackets or triple quotes; else empty."""
    for opening, closing in _BLOCK_ENDS.items():
        if value.startswith(opening) and closing not in value[len(opening) :]:
            return closing
    return ""


# ---------------------------------------------------------------------------- values


def clean_value(value: T) -> T:
    """Clean every text inside a frozen value; command lines as such.

    Args:
        value: A dataclass, tuple, mapping or text; versions and enums stay as they are.
    """
    return map_texts(value, clean_text, clean_command, clean_variable)


def map_texts(
    value: T,
    text: Callable[[str], str],
    command: Callable[[Sequence[str]], tuple[str, ...]],
    variable: Callable[[str, str], str],
) -> T:
    """Change every text inside a frozen value; what holds nothing to change stays the same object.

    Args:
        value: A dataclass, tuple, mapping or text; versions and enums stay as they are.
        text: For a text.
        command: For a field that is called ``command``.
        variable: For the value of a pair or of a mapping's entry that has a name.
    """

    def changed(item: Any) -> Any:
        match item:
            case str():
                return text(item)
            case Enum():
                return item
            case (str() as name, str() as held):
                return type(item)((text(name), variable(name, held)))
            case tuple() | list():
                new = [changed(part) for part in item]
                same = all(a is b for a, b in zip(new, item, strict=True))
                return item if same else type(item)(new)
            case Mapping():
                return {
                    key: variable(str(key), part) if isinstance(part, str) else changed(part)
                    for key, part in item.items()
                }
            case _ if is_dataclass(item) and not hasattr(item, "parse"):
                return of_fields(item)
            case _:
                return item

    def of_fields(item: Any) -> Any:
        new = {}
        for field in fields(item):
            old = getattr(item, field.name)
            is_command = field.name == "command" and isinstance(old, tuple)
            now = command(old) if is_command else changed(old)
            if now is not old and now != old:
                new[field.name] = now
        return replace(item, **new) if new else item

    return changed(value)  # type: ignore[no-any-return]  # the shape is kept
