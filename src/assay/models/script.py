"""Provider `script/FILE`: recorded replies instead of a model.

The file has one JSON object per line:

    {"prompt": "2 + 2 =", "text": "4"}                                      the reply to this prompt
    {"messages": [{"role": "user", "content": "Hi"}], "text": "Hello"}      the reply to these messages
    {"text": "I do not know."}                                              the reply to all other prompts
    {"prompt": "Fail", "error": "overloaded"}                               this prompt fails
    {"prompt": "The sky is", "continuation": " blue", "logprob": -0.4, "greedy": true}

If a prompt has several lines, its n-th request gets the n-th line, and the first line follows the last. The
`calls.jsonl` of a run is such a file too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import InputError, ModelError, Problem, UsageError, similar_file
from assay.core.file_check import did_you_mean
from assay.core.hashing import file_sha256
from assay.core.roles import CHAT, LIKELIHOOD, TEXT, About, Connection
from assay.core.types import Failure, Request, Response, Usage
from assay.files.excerpt import cut_start
from assay.files.json_schema import JsonSchema, complete, described
from assay.files.read import object_lines

ABOUT = About(
    summary="recorded replies from a file",
    needs="a file of JSON lines: script/FILE",
    can=frozenset({CHAT, TEXT, LIKELIHOOD}),
    example="script/replies.jsonl",
    calls_endpoint=False,
)
# Key of the lines without a prompt.
_ANY_PROMPT = b""
# Keys of a hand-written line.
_KEYS = frozenset({"prompt", "messages", "text", "finish", "error", "continuation", "logprob", "greedy"})


class ScriptModel:
    """Serves the replies of a file.

    The seed of a request tells which repeat of the prompt it is. So the replies do not depend on the order of
    the calls, and a continued run gets the same ones.
    """

    def __init__(self, connection: Connection) -> None:
        path = Path(connection.name)
        if not path.is_file():
            raise UsageError(
                f"script/{connection.name}: there is no file {connection.name!r} with replies{similar_file(path)}"
            )
        self._path = path
        self.endpoint = f"file:{file_sha256(path)[:16]}"
        self._seed = connection.seed
        self._replies = _read_file(path)
        has_likelihood = any(
            isinstance(reply, Response) and reply.data is not None
            for replies in self._replies.values()
            for reply in replies
        )
        self.can = ABOUT.can if has_likelihood else ABOUT.can - {LIKELIHOOD}

    async def send(self, request: Request, seed: int) -> Response:
        """Return the recorded reply. Raises ModelError if the file has none."""
        replies = self._replies.get(_prompt_key(msgspec.structs.asdict(request)))
        if not replies and request.continuation is None:
            replies = self._replies.get(_ANY_PROMPT)
        if not replies:
            prompt = str(request.prompt if request.messages is None else request.messages)
            raise ModelError(Failure("not_recorded", f"{self._path} has no reply to {cut_start(prompt, 80)!r}"))
        # The caller sends the run's seed plus the number of the repeat.
        reply = replies[(seed - self._seed) % len(replies)]
        if isinstance(reply, Failure):
            raise ModelError(reply)
        return reply

    async def close(self) -> None:
        """Nothing to close."""


class RepliesCheck(NamedTuple):
    """The number of usable lines of a file of replies, and its problems."""

    lines: int
    problems: list[Problem]


def looks_like_replies(path: Path) -> bool:
    """Return whether the first line of a file is a reply to a prompt, written by hand or logged by a run."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    try:
        row = next(object_lines(path), None)
    except InputError:
        return False
    keys = row.value.keys() if row else frozenset[str]()
    if "hash" in keys:
        return bool(keys & {"response", "failure"})
    return bool(keys & {"prompt", "messages"}) and bool(keys & {"text", "error", "continuation"}) and keys <= _KEYS


def check_replies(path: Path) -> RepliesCheck:
    """Return the number of lines and all problems of a file, for `assay check`. Unknown keys are warnings."""
    problems: list[Problem] = []
    try:
        replies = _read_file(path)
    except InputError as error:
        return RepliesCheck(0, error.problems)
    for row in object_lines(path):
        if "hash" not in row.value and "type" not in row.value:
            for key in row.value.keys() - _KEYS:
                message = f"{key}: there is no such key{did_you_mean(key, sorted(_KEYS))}"
                problems.append(Problem(f"{path}:{row.number}", message, "warning"))
    lines = sum(map(len, replies.values()))
    if not lines:
        problems.append(Problem(str(path), "there is no reply in this file"))
    return RepliesCheck(lines, problems)


def connect(connection: Connection) -> ScriptModel:
    """Return the model `script/FILE`. Reads the file."""
    return ScriptModel(connection)


def _read_file(path: Path) -> dict[bytes, list[Response | Failure]]:
    """Return the replies by the key of their prompt. Raises InputError that names all bad lines."""
    replies: dict[bytes, list[Response | Failure]] = {}
    problems: list[Problem] = []
    # In calls.jsonl only the first of several equal calls has the request. The others have its hash only.
    key_by_hash: dict[str, bytes] = {}
    for row in object_lines(path, problems):
        if row.value.get("type") not in (None, "call"):
            continue
        try:
            if "hash" in row.value:
                key, reply = _read_logged_call(row.value, key_by_hash)
            else:
                key, reply = _read_line(row.value)
        except (KeyError, TypeError, AttributeError) as error:
            problems.append(Problem(f"{path}:{row.number}", f"this line has no usable reply: {error}"))
            continue
        replies.setdefault(key, []).append(reply)
    if problems:
        raise InputError(problems)
    return replies


def _read_line(line: dict[str, Any]) -> tuple[bytes, Response | Failure]:
    """Return the key of the prompt, and the reply, of a hand-written line."""
    has_prompt = line.keys() & {"prompt", "messages", "continuation"}
    key = _prompt_key(line) if has_prompt else _ANY_PROMPT
    if "error" in line:
        return key, Failure("recorded", str(line["error"]))
    if "continuation" in line:
        return key, Response("", data=_read_likelihood(line))
    return key, Response(str(line["text"]), line.get("finish"))


def _read_logged_call(line: dict[str, Any], key_by_hash: dict[str, bytes]) -> tuple[bytes, Response | Failure]:
    """Return the key of the prompt, and the reply, of a line of calls.jsonl."""
    request = line.get("request")
    if request:
        key_by_hash[line["hash"]] = _prompt_key(request)
    key = key_by_hash[line["hash"]]
    failure = line.get("failure")
    if failure:
        return key, Failure(failure["kind"], failure["message"])
    response = line["response"]
    tokens = response.get("usage") or {}
    usage = Usage(tokens.get("input", 0), tokens.get("output", 0))
    data = response.get("data") or {}
    likelihood = _read_likelihood(data) if "logprob" in data else None
    # Cost and address are left out: they belong to the recorded call, and this one costs nothing.
    reasoning = response.get("reasoning", "")
    return key, Response(response["text"], response.get("finish"), usage, likelihood, reasoning)


def _read_likelihood(fields: dict[str, Any]) -> dict[str, Any]:
    logprob = fields["logprob"]
    greedy = fields.get("greedy", False)
    if type(logprob) not in (int, float) or type(greedy) is not bool:
        raise TypeError("logprob must be a number, greedy must be true or false")
    return {"logprob": float(logprob), "greedy": greedy}


def _prompt_key(fields: dict[str, Any]) -> bytes:
    """Return the key of a prompt, a list of messages, or a prompt with its continuation."""
    question = fields["messages"] if fields.get("messages") is not None else fields.get("prompt")
    if fields.get("continuation") is not None:
        question = {"prompt": question, "continuation": fields["continuation"]}
    return msgspec.json.encode(question, order="deterministic")


def replies_schema() -> JsonSchema:
    """Return the JSON Schema of a line. Lines of a run's `calls.jsonl` have a `hash` or a `type`, and always fit."""
    likelihood: JsonSchema = {
        "required": ["logprob"],
        "properties": {"logprob": {"type": "number"}, "greedy": {"type": "boolean"}},
    }
    schema: JsonSchema = {
        "title": "Reply",
        "type": "object",
        "properties": {
            "prompt": described({}, "The prompt that the reply belongs to. Without it, all other prompts."),
            "messages": described({}, "The chat messages that the reply belongs to."),
            "text": described({}, "The reply."),
            "finish": described({}, "Why the reply ended, such as stop or length."),
            "error": described({}, "The prompt fails with this message."),
            "continuation": described({}, "A text after the prompt whose likelihood is recorded."),
            "logprob": described({}, "Logarithm of the likelihood of the continuation."),
            "greedy": described({}, "true if greedy decoding would say the continuation."),
        },
        "if": {"not": {"anyOf": [{"required": ["hash"]}, {"required": ["type"]}, {"required": ["error"]}]}},
        "then": {"if": {"required": ["continuation"]}, "then": likelihood, "else": {"required": ["text"]}},
    }
    return complete(schema, "A recorded reply for --model script/FILE.")
