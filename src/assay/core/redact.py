"""Keeps secrets out of the journal and the result files.

    redactor = Redactor(secrets_from_environment())
    redactor(line)              # an encoded line of the journal, without secrets
    redactor.redacted(summary)  # a struct, without secrets
    redactor.redact_file(path)  # a result file, rewritten only if it contains a secret

Secrets are the values of environment variables with names such as `*_KEY`, and passwords in variables such as
`HTTPS_PROXY`. `is_secret` says which of these values count: `DEBUG_KEY=response` must not eat an ordinary word.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, unquote

import msgspec

from assay.core.connect import Role
from assay.core.envfile import keys_in
from assay.core.params import header_variables

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
_JOURNAL_WORDS = frozenset({"type", "case", "stage", "hash", "scorer", "status", "kind", "finish"})
# Fields with names that people chose. A name that is plain words stays, because lines are grouped by it.
_NAMES = frozenset({"set", "subject", "metric", "part", "model"})
# Bytes of a file in memory at once.
_PIECE = 1 << 20
# Bytes on each side of a secret in which the quotes of a JSON key are looked for. Names are shorter.
_MAX_KEY = 1000
_AFTER_KEY = re.compile(rb"\s*:")
StructT = TypeVar("StructT", bound=msgspec.Struct)


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


def secrets_of(roles: Collection[Role], params: dict[str, Any]) -> list[str]:
    """Return the values that no file of a run may contain: secrets of the environment, and keys in `.env` files.

    `params` are the run's parameters. Their headers may name further variables.
    """
    named = {role.key for role in roles if role.key}.union(
        header_variables(params), *(header_variables(role.params) for role in roles)
    )
    secrets = secrets_from_environment(named)
    for file in {role.env_file for role in roles if role.env_file}:
        secrets += keys_in(file).values()
    return secrets


class Redactor:
    """Replaces every secret in texts, also if JSON or a URL escapes some of its characters.

    Values that are no secret by `is_secret` are left out. A redactor without secrets is falsy, so that callers can
    skip it.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = set()
        for secret in filter(is_secret, secrets):
            # A tool's arguments are JSON inside a text, and messages of endpoints quote URLs.
            spellings |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
            spellings.add(quote(secret, safe="", errors="replace"))
        # Longest first, so that a secret that contains another one is replaced as a whole.
        self._secrets = sorted(spellings, key=len, reverse=True)
        # As the texts stand in a line of JSON; some result files are ASCII. Surrogates are the bytes of a variable that
        # is not UTF-8.
        escaped = {
            json.dumps(text, ensure_ascii=is_ascii)[1:-1]
            for text in self._secrets
            for is_ascii in (True, False)
        }
        self._encoded = sorted(
            (text.encode(errors="surrogateescape") for text in escaped), key=len, reverse=True
        )

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __call__(self, line: bytes) -> bytes:
        """Return the line without secrets. Nearly all lines have none: the same object is returned then."""
        for secret in self._encoded:
            if secret in line:
                return msgspec.json.encode(self._clean_fields(msgspec.json.decode(line)))
        return line

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
            elif name in _JOURNAL_WORDS:
                cleaned[name] = value
            elif name in _NAMES and isinstance(value, str):
                cleaned[name] = self._clean_name(value)
            else:
                cleaned[name] = self.clean(value)
        return cleaned

    def clean(self, value: Any) -> Any:
        """Return a JSON value of a user, model or endpoint without secrets. Keys that are plain words stay."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, MARK)
            return value
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
        texts = {*self._encoded, *(text.encode(errors="surrogateescape") for text in self._secrets)}
        # A piece without these has none of the longer texts either.
        shortest = [text for text in texts if not any(other in text for other in texts - {text})]
        ordered = sorted(texts, key=len, reverse=True)
        pattern = re.compile(b"|".join(map(re.escape, ordered)))
        done = 0
        # Pieces overlap, so that a secret on the border is seen whole.
        for offset in range(0, os.fstat(fd).st_size, _PIECE):
            piece = os.pread(fd, _PIECE + len(ordered[0]) - 1, offset)
            # `in` is many times faster than the pattern, and nearly all pieces have no secret.
            if not any(text in piece for text in shortest):
                continue
            for match in pattern.finditer(piece, max(0, done - offset)):
                if match.start() >= _PIECE:
                    break
                start, done = offset + match.start(), offset + match.end()
                if not (is_json and _is_plain_key(fd, start, done)):
                    yield start, done


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
