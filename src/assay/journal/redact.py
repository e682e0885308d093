"""Keeps secrets out of everything that is written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?$", re.IGNORECASE)
_MARK = b"[redacted]"
MIN_LENGTH = 8
"""Shorter values would hit ordinary text."""


def secrets_from_environment(named: Collection[str] = ()) -> list[str]:
    """The values of variables that are named like secrets, and of those that a run names as its keys."""
    return [value for name, value in os.environ.items() if name in named or _SECRET_NAME.search(name)]


class Redactor:
    """Replaces every secret in a line of JSON, also in its escaped spelling."""

    def __init__(self, secrets: list[str]) -> None:
        spellings = set()
        for secret in secrets:
            if len(secret) >= MIN_LENGTH:
                spellings |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
        # Longest first: a secret that contains another must go as a whole.
        self._secrets = [text.encode() for text in sorted(spellings, key=len, reverse=True)]

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __call__(self, line: bytes) -> bytes:
        for secret in self._secrets:
            if secret in line:
                line = line.replace(secret, _MARK)
        return line
