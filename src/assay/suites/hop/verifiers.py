"""Verifiers check the result of an operator.

| verifier | check |
|---|---|
| `reverse` | one call of the verify model: does the result follow from task and context? |
| `cross` | three calls do the task again and vote |
| `tool_choice` | the tool exists and takes the arguments; then `cross` |
| `from_function` | a user's function `(task, context, result) -> (status, reason)`, sync or async |
| `verify_format` | always runs first, without a model call |

To add a verifier, write an async function of a `Claim` and an `Ask` and give it a name in `VERIFIERS`.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import ModelError
from assay.files.excerpt import cut_end
from assay.suites.hop.messages import Messages, TaskText, UnreadableReply, as_text, build_messages, read_object
from assay.suites.hop.reply_formats import VERDICT_SCHEMA, Tool, choice_problem, vote_schema
from assay.suites.hop.result import FAIL, OK, UNCERTAIN, known_status
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError

VOTES = 3
# Smallest share of agreeing votes for OK and for UNCERTAIN; below both a result is FAIL. With three votes:
# 3 of 3 is OK, 2 of 3 is UNCERTAIN, 1 of 3 is FAIL.
OK_SHARE, UNCERTAIN_SHARE = 0.7, 0.4

_BRACKETS = {"{": "}", "[": "]", "(": ")"}
# Larger or deeper texts can exhaust the memory or the stack of Python's parser.
_MAX_LITERAL_CHARACTERS = 100_000
_MAX_LITERAL_BRACKETS = 1_000
_MAX_QUOTE = 60  # characters of a text that a reason quotes

Ask = Callable[[Messages, dict[str, Any]], Awaitable[str]]
"""Calls a model with messages and the JSON schema of the reply. Returns the text; raises ModelError."""


class Verification(NamedTuple):
    """The verdict of a verifier.

    `reason` is feedback for the next attempt of the model. `error` is the type of an exception that a
    user's verifier raised.
    """

    status: str
    reason: str = ""
    error: str | None = None


class Claim(NamedTuple):
    """A result to verify. `text` is task and context for a prompt; `task` and `context` are the original objects."""

    text: TaskText
    result: Any
    task: Any
    context: Any


Verifier = Callable[[Claim, Ask], Awaitable[Verification]]


def find_verifier(name: Any) -> Verifier | None:
    """Return the verifier for a name or a user's function. None means that only the format is checked."""
    if name is None:
        return None
    if isinstance(name, str) and name in VERIFIERS:
        return VERIFIERS[name]
    if callable(name):
        return from_function(name)
    choices = "reverse, cross, format, None, or a function of yours"
    raise ValueError(f"there is no verifier {name!r}; known: {choices}")


async def reverse(claim: Claim, ask: Ask) -> Verification:
    """Ask the verify model, in one call, whether task and context support the result.

    An unreadable reply gives UNCERTAIN, because it says nothing about the result.
    """
    messages = build_messages("reverse", claim.text, {"result": as_text(claim.result)}, [])
    try:
        reply = read_object(await ask(messages, VERDICT_SCHEMA))
    except UnreadableReply as error:
        return Verification(UNCERTAIN, f"the verifier gave no verdict: {error}")
    status = known_status(str(reply.get("verdict")).strip().upper())
    if status is None:
        return Verification(UNCERTAIN, "the verifier gave no verdict that is known")
    return Verification(status, as_text(reply.get("reason", "")))


class Vote(NamedTuple):
    """One vote of `cross`. An unreadable reply counts as a vote against the result."""

    agrees: bool
    reason: str


async def cross(claim: Claim, ask: Ask) -> Verification:
    """Let three concurrent calls do the task again and vote on whether they agree with the result."""
    messages = build_messages("cross", claim.text, {"result": as_text(claim.result)}, [])
    schema = vote_schema(claim.result)
    # A failed call raises only after the others have returned: they are paid for, so they are logged.
    replies = await asyncio.gather(*(ask(messages, schema) for _ in range(VOTES)), return_exceptions=True)
    votes = []
    for text in replies:
        if isinstance(text, BaseException):
            raise text
        try:
            reply = read_object(text)
        except UnreadableReply as error:
            votes.append(Vote(agrees=False, reason=f"no verdict ({error})"))
        else:
            votes.append(Vote(agrees=reply.get("agrees") is True, reason=as_text(reply.get("reason", ""))))
    return count_votes(votes)


def count_votes(votes: list[Vote]) -> Verification:
    """Return the verdict by the share of agreeing votes. The reason lists those of the disagreeing votes."""
    share = sum(vote.agrees for vote in votes) / len(votes)
    if share >= OK_SHARE:
        return Verification(OK)
    text = f"{share:.0%} of {len(votes)} independent answers agree"
    objections = "; ".join(vote.reason for vote in votes if not vote.agrees and vote.reason)
    status = UNCERTAIN if share >= UNCERTAIN_SHARE else FAIL
    return Verification(status, f"{text}: {objections}" if objections else text)


def tool_choice(tools: Mapping[str, Tool]) -> Verifier:
    """Return a verifier for the choice of a tool. Calls `cross` only if the tool accepts the arguments."""

    async def verify(claim: Claim, ask: Ask) -> Verification:
        if problem := choice_problem(claim.result, tools):
            return Verification(FAIL, problem)
        return await cross(claim, ask)

    return verify


def from_function(function: Callable[..., Any]) -> Verifier:
    """Wrap a user's verifier. If it raises or returns no `(status, reason)`, the result is FAIL."""

    async def verify(claim: Claim, _: Ask) -> Verification:
        try:
            value = await user_function.call(function, (claim.task, claim.context, claim.result))
        except (UserCodeError, ModelError) as error:
            failure = UserCodeError.of(error)
            return Verification(FAIL, failure.message, failure.type_name)
        is_pair = isinstance(value, (tuple, list)) and len(value) == 2
        status = known_status(value[0]) if is_pair else None
        if status is None:
            reason = f"the verifier returned {cut_end(as_text(value), 100)}, not (status, reason)"
            return Verification(FAIL, reason, "TypeError")
        return Verification(status, as_text(value[1]))

    return verify


# By the names that HOP's documents use, and by short ones.
VERIFIERS: dict[str, Verifier | None] = {
    "default": reverse,
    "reverse": reverse,
    "reverse_verify": reverse,
    "cross": cross,
    "forward_cross_verify": cross,
    "format": None,
    "format_verifier": None,
}


def verify_format(result: Any) -> Verification:
    """Return FAIL if a text in the result is a serialised object or list. The reason names the first one.

    A model that writes `{"items": "['a', 'b']"}` meant a list. Code that uses the text would fail.
    """
    for where, text in _texts(result):
        if _is_serialised_container(text):
            quote = cut_end(text, _MAX_QUOTE)
            reason = f"{where} is text that holds an object or a list: {quote!r}; write it as JSON"
            return Verification(FAIL, reason)
    return Verification(OK)


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text in a JSON value with its path, in order. Uses no recursion: a reply may be nested deeply."""
    stack = [("result", value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, str):
            yield where, item
        elif isinstance(item, dict):
            stack.extend((f"{where}.{name}", inner) for name, inner in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend((f"{where}[{index}]", item[index]) for index in reversed(range(len(item))))


def _is_serialised_container(text: str) -> bool:
    """Return True if the text is an object or a list in JSON or Python syntax."""
    text = text.strip()
    if not text or _BRACKETS.get(text[0]) != text[-1]:
        return False
    try:
        return isinstance(msgspec.json.decode(text), (dict, list))
    except (ValueError, RecursionError):
        pass
    if len(text) > _MAX_LITERAL_CHARACTERS or sum(map(text.count, _BRACKETS)) > _MAX_LITERAL_BRACKETS:
        return False
    try:
        return isinstance(ast.literal_eval(text), (dict, list, tuple, set))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
