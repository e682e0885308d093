"""Recorded replies as a model: `script/FILE`.

The file is JSON lines. A line has a `text` (or `error`) and may have a `prompt` (or `messages`) of its own;
the n-th time a prompt is asked, its n-th line answers. Lines without a prompt answer every prompt that has
none of its own. A run's own `calls.jsonl` is such a file too.

Likelihoods are lines with a `continuation`, a `logprob` and `greedy` instead of the `text`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.core import jsonl
from assay.core.connect import CHAT, LIKELIHOOD, TEXT, About, Connection
from assay.core.errors import InputError, ModelError, Problem, UsageError
from assay.core.hashing import file_sha256
from assay.core.types import Failure, Request, Response, Usage

ABOUT = About(
    summary="recorded replies from a file",
    needs="a file of JSON lines: script/FILE",
    can=frozenset({CHAT, TEXT, LIKELIHOOD}),
    example="script/replies.jsonl",
)
_ANY = b""


def _key(value: dict[str, Any]) -> bytes:
    """The question of a line: a likelihood is another question than the prompt it stands after."""
    asked = value["messages"] if value.get("messages") is not None else value.get("prompt")
    if value.get("continuation") is not None:
        asked = {"prompt": asked, "continuation": value["continuation"]}
    return msgspec.json.encode(asked, order="deterministic")


class ScriptModel:
    """Serves the file; the seed tells which repeat is asked, so order of asking does not matter."""

    def __init__(self, connection: Connection) -> None:
        path = Path(connection.name)
        if not path.is_file():
            raise UsageError(f"there is no file {connection.name!r} to take replies from")
        self._path = path
        self.endpoint = f"file:{file_sha256(path)[:16]}"
        self._seed = connection.seed
        self._replies: dict[bytes, list[Response | Failure]] = {}
        self._measured = False
        self._read(path)
        self.can = ABOUT.can if self._measured else ABOUT.can - {LIKELIHOOD}

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
                self._measured |= isinstance(reply, Response) and reply.data is not None
        if problems:
            raise InputError(problems)

    async def send(self, request: Request, seed: int) -> Response:
        """The recorded reply, or a failure that says what is missing."""
        found = self._replies.get(_key(msgspec.structs.asdict(request)))
        if not found and request.continuation is None:
            found = self._replies.get(_ANY)
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
    key = _key(value) if value.keys() & {"prompt", "messages", "continuation"} else _ANY
    if "error" in value:
        return key, Failure("recorded", str(value["error"]))
    if "continuation" in value:
        return key, Response("", data=_likelihood(value))
    return key, Response(str(value["text"]), value.get("finish"))


def _logged_call(value: dict[str, Any], by_hash: dict[str, bytes]) -> tuple[bytes, Response | Failure]:
    if request := value.get("request"):
        by_hash[value["hash"]] = _key(request)
    key = by_hash[value["hash"]]
    if failure := value.get("failure"):
        return key, Failure(failure["kind"], failure["message"])
    response = value["response"]
    usage = response.get("usage") or {}
    told = Usage(usage.get("input", 0), usage.get("output", 0))
    data = response.get("data") or {}
    kept = _likelihood(data) if "logprob" in data else None
    return key, Response(response["text"], response.get("finish"), told, kept, response.get("reasoning", ""))


def _likelihood(value: dict[str, Any]) -> dict[str, Any]:
    logprob, greedy = value["logprob"], value.get("greedy", False)
    if type(logprob) not in (int, float) or type(greedy) is not bool:
        raise TypeError("logprob is a number and greedy is true or false")
    return {"logprob": float(logprob), "greedy": greedy}


def connect(connection: Connection) -> ScriptModel:
    """Called by the registry."""
    return ScriptModel(connection)
