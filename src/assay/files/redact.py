"""Keeps secrets out of the journal and the result files.

    redactor = Redactor(secrets_from_environment())
    redactor(line)              # an encoded line of the journal, without secrets
    redactor.redacted(summary)  # a struct, without secrets
    redactor.redact_file(path)  # a result file, rewritten only if it contains a secret

Secrets are the values of environment variables with names such as `*_KEY`, and passwords in variables such as
`HTTPS_PROXY`. `is_secret` says which of these values count: `DEBUG_KEY=response` must not eat an ordinary word.

Many texts are cut before they get here. `excerpt.py` cuts none of them inside a secret, so a text has a whole secret or
nothing of it.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, AnyStr, BinaryIO, TypeVar
from urllib.parse import quote, quote_plus, unquote

import msgspec

from assay.core.envfile import keys_in
from assay.core.params import header_variables
from assay.core.roles import Role

MARK = "[redacted]"
# Shorter values, such as "true" or "secret", occur in ordinary text.
MIN_LENGTH = 8
# From this length on, a value of letters only counts too, such as a password of an app. Few words are as long.
LONG = 16
# Placeholders such as "xxxxxxxxxxxxxxxx" have fewer different characters.
MIN_CHARACTERS = 5

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?$", re.IGNORECASE)
_PASSWORD = re.compile(r"(?:^|//)[^/@:]*:([^/]+)@")
# A word, several words, or a name such as `subject_error`.
_WORDS = re.compile(r"[^\W\d_]+(?:[-_. /][^\W\d_]+)*")
# How keys of common vendors begin. `sk-my-own-server` counts although it is made of words.
_KEY_PREFIX = re.compile(r"(?:sk|pk|rk|gsk|hf|gh[opsur]|glpat|xox[a-z]|nvapi)[-_]")
# Structs inside a line, and the fields by which the journal finds and reads its lines. Their names and values must
# survive even if a secret is as long as "context_overflow".
_STRUCTS = frozenset({"request", "response", "failure", "usage", "end"})
_JOURNAL_WORDS = frozenset({"type", "case", "stage", "hash", "scorer", "status", "kind"})
# Finish reasons that code asks for. An endpoint may write anything else.
_FINISHES = frozenset({"stop", "length", "content_filter", "tool_calls", "max_tokens"})
# Fields with names that people chose. A name that is plain words stays, because lines are grouped by it.
_NAMES = frozenset({"set", "subject", "metric", "part", "model"})
# Bytes of a file in memory at once.
_PIECE = 1 << 20
# Bytes on each side of a secret in which the quotes of a JSON key are looked for. Names are shorter.
_MAX_KEY = 1000
_PERCENT_ESCAPE = re.compile("%[0-9A-F]{2}")
# What encoders of JSON escape besides quotes: PHP, Go, Gson, .NET.
_JSON_ESCAPES = [
    {ord("/"): r"\/"},
    {ord(sign): f"\\u{ord(sign):04x}" for sign in "&<>"},
    {ord(sign): f"\\u{ord(sign):04x}" for sign in "&<>'="},
    {ord(sign): f"\\u{ord(sign):04X}" for sign in "&<>'+`"},
]
_AFTER_KEY = re.compile(rb"\s*:")
StructT = TypeVar("StructT", bound=msgspec.Struct)

# The secrets of every Redactor of this process, as texts may contain them.
_known: set[str] = set()


def is_secret(value: str) -> bool:
    """Return whether the value of a secret's variable is worth redacting: hard to guess, and no ordinary text.

    Not: fewer than 8 characters; fewer than 5 different ones; fewer than 16 that are words or have no letter, unless
    they begin as a vendor's keys do; the path of an existing file, as in `GOOGLE_APPLICATION_CREDENTIALS`.
    """
    if len(value) < MIN_LENGTH or len(set(value)) < MIN_CHARACTERS:
        return False
    ordinary = (_WORDS.fullmatch(value) and not _KEY_PREFIX.match(value)) or not any(map(str.isalpha, value))
    if ordinary and len(value) < LONG:
        return False
    return not (value.startswith(("/", "~/")) and Path(value).expanduser().exists())


def secrets_from_environment(key_names: Collection[str] = ()) -> list[str]:
    """Return the values of variables whose names look like secrets, and of the variables in `key_names`.

    Of a proxy's URL only the password is a secret, as it is written and as it is sent.
    """
    secrets = [value for name, value in os.environ.items() if name in key_names or _SECRET_NAME.search(name)]
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy") and (match := _PASSWORD.search(value)):
            secrets += [match[1], unquote(match[1])]
    return secrets


def secret_variables(roles: Collection[Role], params: dict[str, Any]) -> set[str]:
    """Return the names of the variables whose values the models of a run get as keys, whatever they are called."""
    keys = {role.key for role in roles if role.key}
    return keys.union(header_variables(params), *(header_variables(role.params) for role in roles))


def secrets_of(roles: Collection[Role], params: dict[str, Any]) -> list[str]:
    """Return the values that no file of a run may contain: secrets of the environment, and keys in `.env` files.

    `params` are the run's parameters. Their headers may name further variables.
    """
    secrets = secrets_from_environment(secret_variables(roles, params))
    for file in {role.env_file for role in roles if role.env_file}:
        secrets += keys_in(file).values()
    return secrets


def secret_across(text: str, place: int) -> tuple[int, int] | None:
    """Return start and end of the secret that a cut of the text at `place` would divide; None if there is none.

    Secrets that overlap count as one. Known are those of every Redactor of this process, and of its environment.
    """
    secrets = _known_secrets()
    start = end = place
    while True:
        spans = [
            (at, at + len(secret))
            for secret in secrets
            for edge in {start, end}
            # A text that begins before the edge and ends after it.
            if (at := text.find(secret, max(0, edge - len(secret) + 1), edge + len(secret) - 1)) >= 0
        ]
        if not spans:
            return None if start == end else (start, end)
        start, end = min(start, *(span[0] for span in spans)), max(end, *(span[1] for span in spans))


def longest_secret() -> int:
    """Return the length of the longest text that `secret_across` finds."""
    return max(map(len, _known_secrets()), default=0)


def _known_secrets() -> list[str]:
    _note_environment()
    return list(_known)  # a copy, because another thread may make a Redactor


@cache
def _note_environment() -> None:
    Redactor(secrets_from_environment())


class Redactor:
    """Replaces every secret in texts, also an escaped one.

    Values that are no secret by `is_secret` are left out. A redactor without secrets is falsy, so that callers can
    skip it. From now on `excerpt.py` cuts no text of this process inside one of these secrets.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = {text for secret in filter(is_secret, secrets) for text in _spellings(secret)}
        # As the texts stand in a line of JSON.
        self._encoded = {_encode(_json_text(text)) for text in self._secrets}
        self._shortest_encoded = _shortest(self._encoded)
        _known.update(self._secrets)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __call__(self, line: bytes) -> bytes:
        """Return the line without secrets. Nearly all lines have none: the same object is returned then."""
        for secret in self._shortest_encoded:
            if secret in line:
                break
        else:
            return line
        fields = msgspec.json.decode(line)
        cleaned = self._clean_fields(fields)
        return line if cleaned == fields else msgspec.json.encode(cleaned)

    def redacted(self, value: StructT) -> StructT:
        """Return a struct without secrets. The names of its fields stay."""
        line = msgspec.json.encode(value)
        cleaned = self(line)
        return value if cleaned is line else msgspec.json.decode(cleaned, type=type(value))

    def _clean_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of one of assay's structs without secrets. The field names stay."""
        cleaned: dict[str, Any] = {}
        for name, value in fields.items():
            if name in _STRUCTS and isinstance(value, dict):
                cleaned[name] = self._clean_fields(value)
            elif name in _JOURNAL_WORDS or (name == "finish" and value in _FINISHES):
                cleaned[name] = value
            elif name in _NAMES and isinstance(value, str):
                cleaned[name] = self._clean_name(value)
            else:
                cleaned[name] = self.clean(value)
        return cleaned

    def clean(self, value: Any) -> Any:
        """Return a JSON value of a user, model or endpoint without secrets. Keys that are plain words stay."""
        if isinstance(value, str):
            pieces, copied = [], 0
            for start, end in _find_spans(value, self._secrets):
                pieces += [value[copied:start], MARK]
                copied = end
            return "".join([*pieces, value[copied:]])
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self._clean_name(name): self.clean(item) for name, item in value.items()}
        return value

    def _clean_name(self, name: str) -> str:
        """Return a key without secrets. Keys of plain words stay: code finds values by them."""
        return name if _WORDS.fullmatch(name) else str(self.clean(name))

    def redact_file(self, path: Path) -> bool:
        """Replace the secrets in a file; return whether it had any. In JSON, keys that are plain words stay.

        The file is rewritten only then, under a temporary name. It may be larger than the memory.
        """
        if not self._secrets or not path.is_file():
            return False
        temporary = path.with_name(f".{path.name}.tmp")
        with path.open("rb") as file:
            spans = self._find_secrets(file.fileno(), is_json=path.suffix in (".json", ".jsonl"))
            first = next(spans, None)
            if first is None:
                return False
            temporary.unlink(missing_ok=True)
            try:
                # Other users may not read the copy before it has the permissions of the file.
                with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
                    copied = 0
                    for start, end in chain([first], spans):
                        _copy_bytes(file.fileno(), copy, copied, start)
                        copy.write(MARK.encode())
                        copied = end
                    status = os.fstat(file.fileno())
                    _copy_bytes(file.fileno(), copy, copied, status.st_size)
                    copy.flush()
                    os.fsync(copy.fileno())
                    os.fchmod(copy.fileno(), status.st_mode & 0o777)
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        return True

    def _find_secrets(self, fd: int, *, is_json: bool) -> Iterator[tuple[int, int]]:
        """Yield start and end of each secret in a file, in order."""
        texts = {*self._encoded, *map(_encode, self._secrets)}
        # Some result files are ASCII, with JSON inside a text.
        texts |= {json.dumps(text)[1:-1].encode() for text in self._secrets}
        if not is_json:
            # Imported here, because it imports the HTTP and mail packages of the standard library.
            from xml.sax.saxutils import escape

            # A CSV file doubles quotes. XML escapes more characters in an attribute than in a text.
            for text in self._secrets:
                attribute = escape(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
                others = (text.replace('"', '""'), escape(text), attribute, attribute.replace('"', "&quot;"))
                texts |= set(map(_encode, others))
        shortest, overlap = _shortest(texts), max(map(len, texts))
        last_end = 0
        # Pieces overlap, so that a secret on the border is seen whole.
        for offset in range(0, os.fstat(fd).st_size, _PIECE):
            piece = os.pread(fd, _PIECE + overlap, offset)
            # `in` is many times faster than a search for all places, and nearly all pieces have no secret.
            if not any(text in piece for text in shortest):
                continue
            for place, place_end in _find_spans(piece, texts):
                if place >= _PIECE:
                    break
                start, end = max(offset + place, last_end), offset + place_end
                if start >= end:  # the piece before had it too
                    continue
                last_end = end
                if not (is_json and _is_plain_key(fd, start, end)):
                    yield start, end


def _spellings(secret: str) -> set[str]:
    """Return the secret as texts of users, models and endpoints may contain it."""
    # Python escapes a single quote only in a text that has double quotes too.
    in_python = repr(f"'\"{secret}")[4:-1]
    # A tool's arguments are JSON inside a text. Some encoders escape more than JSON asks for.
    in_json = {json.dumps(secret)[1:-1], _json_text(secret)}
    in_json |= {text.translate(escapes) for text in in_json for escapes in _JSON_ESCAPES}
    # Python leaves `/` in a path, and JavaScript some more characters.
    in_url = {quote(secret, safe=safe, errors="replace") for safe in ("", "/", "!'()*")}
    in_url.add(quote_plus(secret, errors="replace"))
    in_url |= {_PERCENT_ESCAPE.sub(lambda match: match[0].lower(), text) for text in in_url}
    # Pages of errors: template engines write quotes in different ways.
    in_html = {
        html.escape(secret, quote=False).replace('"', double).replace("'", single)
        for double in ('"', "&quot;", "&#34;")
        for single in ("'", "&#x27;", "&#39;", "&apos;")
    }
    # Messages quote values as Python does, and some are brought into one line.
    in_messages = {in_python, in_python.replace("\\'", "'"), " ".join(secret.split())}
    return {secret, *in_json, *in_url, *in_html, *in_messages}


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _encode(text: str) -> bytes:
    # Surrogates are the bytes of a variable that is not UTF-8.
    return text.encode(errors="surrogateescape")


def _shortest(texts: Iterable[bytes]) -> list[bytes]:
    """Return the texts that contain no other one. Whatever has none of them has none of the longer texts either."""
    shortest: list[bytes] = []
    for text in sorted(texts, key=len):
        if not any(other in text for other in shortest):
            shortest.append(text)
    return shortest


def _find_spans(text: AnyStr, secrets: Iterable[AnyStr]) -> list[tuple[int, int]]:
    """Return start and end of each secret: sorted, and secrets that overlap as one."""
    spans = []
    for secret in secrets:
        start = text.find(secret)
        while start >= 0:
            spans.append((start, start + len(secret)))
            start = text.find(secret, start + 1)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _is_plain_key(fd: int, start: int, end: int) -> bool:
    """Return whether these bytes of a JSON file are in a key that is plain words, as `_clean_name` leaves it."""
    first = max(0, start - _MAX_KEY)
    around = os.pread(fd, end + _MAX_KEY - first, first)
    opening = around.rfind(b'"', 0, start - first)
    closing = around.find(b'"', end - first)
    if opening < 0 or closing < 0 or not _AFTER_KEY.match(around, closing + 1):
        return False
    try:
        key = msgspec.json.decode(around[opening : closing + 1], type=str)
    except msgspec.DecodeError:  # one of the two quotes is escaped, so it belongs to a longer text
        return False
    return around[opening - 1 : opening] != b"\\" and _WORDS.fullmatch(key) is not None


def _copy_bytes(fd: int, copy: BinaryIO, start: int, end: int) -> None:
    copy.writelines(os.pread(fd, min(_PIECE, end - offset), offset) for offset in range(start, end, _PIECE))
