"""Recorded replies as a model: `script/FILE`.

The file is JSON lines. A line has a `text` (or `error`) and may have a `prompt` (or `messages`) of its own;
the n-th time a prompt is asked, its n-th line answers. Lines without a prompt answer every prompt that has
none of its own. A run's own `calls.jsonl` is such a file too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.core import jsonl
from assay.core.connect import CHAT, TEXT, About, Connection
from assay.core.errors import InputError, ModelError, Problem, UsageError
from assay.core.hashing import file_sha256
from assay.core.types import Failure, Request, Response, Usage

ABOUT = About(
    summary="recorded replies from a file",
    needs="a file of JSON lines: script/FILE",
    can=frozenset({CHAT, TEXT}),
    example="script/replies.jsonl",
)
_ANY = b""


def _key(prompt: str | None, messages: Any) -> bytes:
    return msgspec.json.encode(messages if messages is not None else prompt, order="deterministic")


class ScriptModel:
    """Serves the file; the seed tells which repeat is asked, so order of asking does not matter."""

    can = ABOUT.can

    def __init__(self, connection: Connection) -> None:
        path = Path(connection.name)
        if not path.is_file():
            raise UsageError(f"there is no file {connection.name!r} to take replies from")
        self._path = path
        self.endpoint = f"file:{file_sha256(path)[:16]}"
        self._seed = connection.seed
        self._replies: dict[bytes, list[Response | Failure]] = {}
        self._read(path)

    def _read(self, path: Path) -> None:
        problems: list[Problem] = []
        by_hash: dict[str, bytes] = {}
        for row in jsonl.rows(path, problems):
            if row.value.get("type") in (None, "call"):
                try:
                    key, reply = _entry(row.value, by_hash)
                except (KeyError, TypeError, AttributeError) as error:
                    problems.append(Problem(f"{path}:{row.number}", f"no reply in this line: {error}"))
                    continue
                self._replies.setdefault(key, []).append(reply)
        if problems:
            raise InputError(problems)

    async def send(self, request: Request, seed: int) -> Response:
        """The recorded reply, or a failure that says what is missing."""
        found = self._replies.get(_key(request.prompt, request.messages)) or self._replies.get(_ANY)
        if not found:
            asked = str(request.prompt if request.messages is None else request.messages)
            raise ModelError(Failure("not_recorded", f"{self._path} has no reply to {asked[-80:]!r}"))
        reply = found[(seed - self._seed) % len(found)]
        if isinstance(reply, Failure):
            raise ModelError(reply)
        return reply

    async def close(self) -> None:
        """Nothing to close."""


def _entry(value: dict[str, Any], by_hash: dict[str, bytes]) -> tuple[bytes, Response | Failure]:
    if "hash" in value:
        return _logged_call(value, by_hash)
    has_prompt = "prompt" in value or "messages" in value
    key = _key(value.get("prompt"), value.get("messages")) if has_prompt else _ANY
    if "error" in value:
        return key, Failure("recorded", str(value["error"]))
    return key, Response(str(value["text"]), value.get("finish"))


def _logged_call(value: dict[str, Any], by_hash: dict[str, bytes]) -> tuple[bytes, Response | Failure]:
    if request := value.get("request"):
        by_hash[value["hash"]] = _key(request.get("prompt"), request.get("messages"))
    key = by_hash[value["hash"]]
    if failure := value.get("failure"):
        return key, Failure(failure["kind"], failure["message"])
    response = value["response"]
    usage = response.get("usage") or {}
    return key, Response(
        response["text"], response.get("finish"), Usage(usage.get("input", 0), usage.get("output", 0))
    )


def connect(connection: Connection) -> ScriptModel:
    """Called by the registry."""
    return ScriptModel(connection)
