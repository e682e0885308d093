"""Keeps secrets out of the journal: values of environment variables that are named like a key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from typing import Any

import msgspec

MARK = "[redacted]"
# Shorter values would also be found in ordinary text.
MIN_LENGTH = 8

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?$", re.IGNORECASE)
# Structs inside a line, and the fields by which the journal finds and reads its lines. Both stay as they are
# even if a variable has the value "response" or "subject_error".
_STRUCTS = frozenset({"request", "response", "failure", "usage", "end"})
_JOURNAL_WORDS = frozenset({"type", "case", "stage", "hash", "scorer", "status", "kind", "finish"})


def secrets_from_environment(named: Collection[str] = ()) -> list[str]:
    """The values of variables that are named like secrets, and of those that a run names as its keys."""
    return [value for name, value in os.environ.items() if name in named or _SECRET_NAME.search(name)]


class Redactor:
    """Replaces every secret in the texts of a JSON line, also in its escaped spelling.

    A redactor without secrets is false, so that lines need not be searched.
    """

    def __init__(self, secrets: list[str]) -> None:
        spellings = set()
        for secret in secrets:
            if len(secret) >= MIN_LENGTH:
                spellings |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
        # Longest first: a secret that contains another must go as a whole.
        self._secrets = sorted(spellings, key=len, reverse=True)
        self._encoded = [text.encode() for text in self._secrets]

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __call__(self, line: bytes) -> bytes:
        """The line without secrets. A line that has none, as nearly all, is returned as it is."""
        for secret in self._encoded:
            if secret in line:
                return msgspec.json.encode(self._clean_fields(msgspec.json.decode(line)))
        return line

    def _clean_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a struct of the journal. Their names are ours and stay."""
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
        """Any JSON of a user, a model or an endpoint, names of fields included."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, MARK)
            return value
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean(item) for name, item in value.items()}
        return value
