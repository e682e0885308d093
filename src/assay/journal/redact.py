"""Keeps secrets out of the journal.

Secrets are the values of environment variables with names such as `*_KEY`, and passwords in variables such as
`HTTPS_PROXY`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

import msgspec

MARK = "[redacted]"
# Shorter values, such as "secret", occur in ordinary text too.
MIN_LENGTH = 8

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?$", re.IGNORECASE)
_PASSWORD = re.compile(r"(?:^|//)[^/@:]*:([^/]+)@")
# Structs inside a line, and the fields by which the journal finds and reads its lines. Their names and values must
# survive even if a secret has the value "response" or "subject_error".
_STRUCTS = frozenset({"request", "response", "failure", "usage", "end"})
_JOURNAL_WORDS = frozenset({"type", "case", "stage", "hash", "scorer", "status", "kind", "finish"})


def secrets_from_environment(key_names: Collection[str] = ()) -> list[str]:
    """Return the values of variables whose names look like secrets, and of the variables in `key_names`.

    Of a proxy's URL only the password is a secret, as it is written and as it is sent.
    """
    secrets = [value for name, value in os.environ.items() if name in key_names or _SECRET_NAME.search(name)]
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy") and (match := _PASSWORD.search(value)):
            secrets += [match[1], unquote(match[1])]
    return secrets


class Redactor:
    """Replaces every secret in the texts of a JSON line, also if JSON escapes some of its characters.

    A redactor without secrets is falsy, so that callers can skip it.
    """

    def __init__(self, secrets: list[str]) -> None:
        spellings = set()
        for secret in secrets:
            if len(secret) >= MIN_LENGTH:
                spellings |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
        # Longest first, so that a secret that contains another one is replaced as a whole.
        self._secrets = sorted(spellings, key=len, reverse=True)
        self._encoded = [text.encode() for text in self._secrets]

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __call__(self, line: bytes) -> bytes:
        """Return the line without secrets. Nearly all lines have none and are returned unchanged."""
        for secret in self._encoded:
            if secret in line:
                return msgspec.json.encode(self._clean_fields(msgspec.json.decode(line)))
        return line

    def _clean_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of one of assay's structs without secrets. The field names stay."""
        cleaned = {}
        for name, value in fields.items():
            if name in _STRUCTS and isinstance(value, dict):
                cleaned[name] = self._clean_fields(value)
            elif name in _JOURNAL_WORDS:
                cleaned[name] = value
            else:
                cleaned[name] = self.clean(value)
        return cleaned

    def clean(self, value: Any) -> Any:
        """Return a JSON value of a user, model or endpoint without secrets, in keys too."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, MARK)
            return value
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean(item) for name, item in value.items()}
        return value
