"""Hashes of content: fingerprints of options, hashes of requests and files. They are equal on every machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def fingerprint(value: Any) -> str:
    """Return sixteen hex digits for a JSON-like value. The order of keys does not matter."""
    return hashlib.blake2b(_encode(_with_text_keys(value)), digest_size=8).hexdigest()


def _with_text_keys(value: Any) -> Any:
    """Return the value with every key as text. Keys from YAML may be numbers or booleans, which cannot be sorted."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, (list, tuple)) else value


def request_hash(request: msgspec.Struct) -> str:
    """Return the hash of a request. It has 128 bits, because replies in the call log are found by it alone."""
    return hashlib.blake2b(_encode(request), digest_size=16).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file. It is read in pieces, so large files need no memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
