"""Removes secrets from text before it is stored.

A secret is recognised by its format, by the key before it, or because it equals a mounted value. Answers to callers,
tool results and the conversation are not redacted. Logs, support reports, the audit trail, session summaries, facts
and learned skills are redacted. Trace spans contain none of this text.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from fleetwright_a2a.redaction.token_shapes import SHAPES

REDACTED: Final = "[REDACTED]"
_DEEPEST: Final = 10
_SHORTEST_SECRET: Final = 8
"""The minimum length of a mounted value that is redacted; a shorter one may be an ordinary word."""

_LOOK_SECONDS: Final = 1.0

# The input is untrusted, so the time must be linear in its length. Therefore, no expression can match the same text in
# two ways, and none restarts inside text that it has already scanned. Each entry has lower-case substrings and an
# expression, and every match of the expression contains one of the substrings. Searching for the substrings first takes
# a fiftieth of the time.
_KINDS: Final = (
    # Requires 24 characters, or 8 with a digit or symbol: "basic authentication" is not a credential.
    (
        ("bearer", "basic"),
        r"(?i:\b(?:bearer|basic)\s{1,4})(?=[\w~+/=.-]{24}|(?=[\w~+/=.-]{8})[A-Za-z~.-]{0,256}[\d+/=_])[\w~+/=.-]++",
    ),
    (("sk-", "sk_", "pk-", "pk_", "rk-", "rk_"), r"\b(?:sk|pk|rk)[-_][A-Za-z0-9][\w-]{14,}+"),
    (("aiza", "ya29.", "gocspx-"), r"\b(?:AIza[\w-]{30,}+|ya29\.[\w-]{20,}+|GOCSPX-[\w-]{20,}+)"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{20,}+"),
    (("github_pat_",), r"\bgithub_pat_\w{20,}+"),
    (("npm_", "pypi-"), r"\b(?:npm_[A-Za-z0-9]{30,}+|pypi-[\w-]{50,}+)"),
    (("hf_", "dop_v1_"), r"\b(?:hf_[A-Za-z0-9]{30,}+|dop_v1_[a-f0-9]{40,}+)"),
    (("whsec_",), r"\bwhsec_[A-Za-z0-9+/=_-]{16,}+"),
    (("sg.",), r"\bSG\.[\w-]{16,}+\.[\w-]{16,}+"),
    (("xox", "xapp-"), r"\bx(?:ox[abeoprs]|app)-[\w-]{10,}+"),
    (
        ("hooks.slack.com", "/api/webhooks"),
        r"\bhttps://(?:hooks\.slack\.com/services|(?:\w{1,10}\.)?discord(?:app)?\.com/api/webhooks)/[\w/-]++",
    ),
    # A signed URL grants access by itself.
    (("sig=", "signature="), r"(?i:(?<=[?&]sig=)|(?<=[?&]signature=)|(?<=x-amz-signature=))[\w%/+=-]{16,}+"),
    (("akia", "asia", "abia", "acca"), r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ((".",), r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}+"),
    # Also matches a truncated token. `\b` would restart behind each dash.
    (("eyj",), r"(?<![\w-])eyJ[\w-]{8,}+(?:\.[\w-]++(?:\.[\w-]*+|\Z)|\.?\Z)"),
    (
        ("-----begin",),
        # The headers of RFC 1421, such as `Proc-Type: 4,ENCRYPTED`, contain single dashes.
        (
            r"(?s:-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----).)*+"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?)"
        ),
    ),
    # Git servers and registries accept a token as the user name.
    (
        ("@",),
        # A password may contain an unescaped slash. If only digits precede the slash, they are a port number.
        (
            r"(?<=://)[^\s/@:]{0,256}:(?:[^\s/]{1,256}|(?!\d{1,5}/)[^\s@\"'<>]{1,256})(?=@)"
            r"|(?i:(?<=http://)|(?<=https://))[^\s/@:]{1,256}(?=@)"
        ),
    ),
)


def _group_signs() -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the substrings, each with its expression, by a character that all of a group contain; empty for none.

    Most texts have few of these characters, and then no substring of the group is searched for.
    """
    grouped: dict[str, list[tuple[str, str]]] = {}
    for signs, kind in (*_KINDS, *SHAPES):
        for sign in signs:
            mark = next((each for each in "_-.~:@<=" if each in sign), "")
            grouped.setdefault(mark, []).append((sign, kind))
    return tuple((mark, tuple(group)) for mark, group in grouped.items())


_SIGNS: Final = _group_signs()
# A name is followed by an optional quote (escaped in nested JSON), a separator and a value. The value is a quoted text,
# a list, a YAML block or a word. A quoted text without a closing quote extends to the end of the input.
_IS: Final = r"(?P<is>\\{0,16}[\"']?\s{0,4}[:=]\s{0,4})"
_QUOTED: Final = r"(?P<quote>\\{0,16}[\"'])(?:(?!(?<!\\)(?P=quote)).)*+(?:(?P=quote))?"
_LIST: Final = r"[\[{][^\]}]*+[\]}]?"
# The lines of a YAML block after `|` or `>`; in JSON their line breaks are escaped.
_BLOCK: Final = (
    r"[|>][-+\d]{0,2}[ \t]{0,8}"
    r"(?:(?:\r?\n(?:[ \t]++[^\r\n]*+|(?=\r?\n)))++|(?:\\{1,8}n[ \t]++[^\\\"'\r\n]*+)++)"
)
_WORD: Final = r"(?:(?:bearer|basic|digest|token|negotiate)\s{1,4})?[^\s\"',;&}\])]++"
_ASSIGNED: Final = re.compile(
    r"(?P<name>(?:api[-_]?keys?|access[-_]?key(?:[-_]?id)?|account[-_]?key|secret[-_]?key|client[-_]?secret|secrets?|token|"
    r"passw(?:or)?ds?|(?<![a-z])pass|pwd|passphrase|(?:private|signing|encryption)[-_]?key|credentials?|authorization))"
    rf"{_IS}(?P<value>{_QUOTED}|{_LIST}|{_BLOCK}|{_WORD})",
    re.IGNORECASE | re.DOTALL,
)
_NAMES: Final = ("key", "secret", "token", "pass", "pwd", "credential", "authorization")
"""Every name that `_ASSIGNED` matches contains one of these."""
_COOKIES: Final = re.compile(r"(?i)\b(?P<name>(?:set-)?cookie)(?P<is>\s{0,4}:\s{0,4})[^\r\n\"']++")
# The options of a command of curl with a name and a password: also behind other options of one letter, without a space,
# without a name, in quotes that may be escaped, and as items of a list.
_CURL: Final = re.compile(r"\bcurl\b(?:[^\n]|(?<=\\)\n){0,4096}+")
_CURL_LOGIN: Final = re.compile(
    r"(?<![\w-])(?P<option>(?:--(?:proxy-)?user|-[A-Za-z]{0,8}?[uU])(?:\\{0,3}[\"']\s{0,4},)?[\s=\\]{0,8})"
    r"(?:(?P<quote>\\{0,3}[\"'])[^:\"'\n]{0,128}:(?:(?!(?P=quote)).)*+|[^\s:\"'\\]{0,128}:(?!//)[^\s\"'\\]++)"
)
# An element of XML whose name ends like this, also with a prefix and attributes.
_ELEMENT: Final = re.compile(
    r"(?s)(?P<tag><(?:[\w.-]{1,64}:)?[\w-]{0,64}"
    r"(?i:password|passwd|passphrase|secret|token|api[-_]?key|private[-_]?key)"
    r"(?:\s[^<>]{0,512})?(?<!/)>)(?:<!\[CDATA\[(?:(?!\]\]>).){1,4096}+\]\]>|[^<]{1,4096}+)(?=</)"
)
_PLAIN: Final = re.compile(r"[^a-z0-9]")
_SENSITIVE: Final = (
    "authorization",
    "apikey",
    "apikeys",
    "accesskey",
    "accesskeyid",
    "accountkey",
    "secret",
    "secrets",
    "secretkey",
    "token",
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "credential",
    "credentials",
    "cookie",
    "cookies",
)
_PASS: Final = re.compile(r"(?:(?:^|[^A-Za-z])(?i:pass)|[a-z]Pass)$")
"""A key that ends in the word `pass`, such as `DB_PASS` or `dbPass`, but not `compass`."""
_COUNTS: Final = ("pertoken", "maxtoken", "mintoken", "firsttoken")
"""Keys that end like the name of a secret, but hold a number of tokens or seconds."""


class _Values:
    """The mounted secret values, which are removed wherever they occur."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._longest_first = sorted(set(values), key=len, reverse=True)
        self._any = re.compile("|".join(map(re.escape, self._longest_first)))

    def among(self, text: str) -> bool:
        return any(value in text for value in self._longest_first)

    def taken_out_of(self, text: str) -> str:
        return self._any.sub(REDACTED, text)


class Redactor:
    """Redacts text and JSON values. `files` lists the mounted secrets; it is called at most once a second."""

    def __init__(
        self, files: Callable[[], Iterable[Path]] = tuple, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files
        self._clock = clock
        self._looked: float | None = None
        self._stamp: tuple[tuple[str, int], ...] = ()
        self._values = _Values()

    def __call__(self, value: Any) -> Any:
        """Return the value with secrets replaced; values nested deeper than ten levels are replaced entirely."""
        return self._scrubbed(value, self._known(), depth=0)

    def text(self, text: str) -> str:
        return _scrub(text, self._known())

    def _scrubbed(self, value: Any, known: _Values, *, depth: int) -> Any:
        if isinstance(value, str):
            return _scrub(value, known)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth >= _DEEPEST:
            return REDACTED
        if isinstance(value, Mapping):
            return {
                _scrub(str(key), known): REDACTED
                if _is_sensitive(str(key), below)
                else self._scrubbed(below, known, depth=depth + 1)
                for key, below in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self._scrubbed(below, known, depth=depth + 1) for below in value]
        return _scrub(str(value), known)

    def _known(self) -> _Values:
        """Return the mounted secret values. All files are read again when one of them has changed."""
        now = self._clock()
        if self._looked is not None and now - self._looked < _LOOK_SECONDS:
            return self._values
        self._looked = now
        files = sorted(self._files())
        stamp = tuple((str(path), _changed(path)) for path in files)
        if stamp != self._stamp:
            lines = (line for path in files for line in _lines(path))
            self._values = _Values(line for line in lines if len(line) >= _SHORTEST_SECRET)
            self._stamp = stamp
        return self._values


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []


def _scrub(text: str, known: _Values) -> str:
    if known.among(text):
        text = known.taken_out_of(text)
    folded = text.casefold()
    if kinds := [kind for mark, group in _SIGNS if mark in folded for sign, kind in group if sign in folded]:
        text = _shapes(*dict.fromkeys(kinds)).sub(REDACTED, text)
    if "curl" in folded:
        text = _CURL.sub(lambda command: _CURL_LOGIN.sub(rf"\g<option>{REDACTED}", command[0]), text)
    if "</" in text and any(name in folded for name in _NAMES):
        text = _ELEMENT.sub(rf"\g<tag>{REDACTED}", text)
    if ":" in text or "=" in text:
        if "cookie" in folded:
            text = _COOKIES.sub(_hidden, text)
        if any(name in folded for name in _NAMES):
            text = _ASSIGNED.sub(_hidden, text)
    return text


@lru_cache(maxsize=256)
def _shapes(*kinds: str) -> re.Pattern[str]:
    return re.compile("|".join(kinds))


def _hidden(found: re.Match[str]) -> str:
    return f"{found['name']}{found['is']}{REDACTED}"


def _is_sensitive(key: str, value: Any) -> bool:
    """Return whether the value of this key is a secret. A number is not a secret if the key names a count of tokens."""
    if value is None or isinstance(value, bool):
        return False
    plain = _PLAIN.sub("", key.lower())
    counted = isinstance(value, int | float) and plain.endswith(_COUNTS)
    return (plain.endswith(_SENSITIVE) or _PASS.search(key) is not None) and not counted
