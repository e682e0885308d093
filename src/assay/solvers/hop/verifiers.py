"""Verifiers: they say whether an operator's result can be believed.

`reverse` asks the verifying model to go backwards from the result, `cross` lets three calls do the task
again, `tool_choice` checks the choice of a tool before it asks others, `from_function` wraps a verifier of the
user: `(task, context, result) -> (status, reason)`, sync or async. `verify_format` always runs and asks nobody.

Another one is an async function of a `Claim` and an `Ask`, with a name in `VERIFIERS`.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.core import user_code
from assay.core.errors import ModelError
from assay.core.hop_result import FAIL, OK, UNCERTAIN, known_status
from assay.core.user_code import UserCodeError
from assay.solvers.hop.formats import VERDICT_SCHEMA, Tool, choice_problem, vote_schema
from assay.solvers.hop.messages import (
    Messages,
    TaskText,
    UnreadableReply,
    as_text,
    build_messages,
    read_object,
    shorten,
)

VOTES = 3
# From this share of votes that agree on, a result is OK; from that one on it is UNCERTAIN, below it FAIL.
OK_SHARE, UNCERTAIN_SHARE = 0.7, 0.4

_BRACKETS = {"{": "}", "[": "]", "(": ")"}
# Python's parser is only given texts that cannot exhaust it.
_MAX_LITERAL_CHARACTERS = 100_000
_MAX_LITERAL_BRACKETS = 1_000
_SHOWN_CHARACTERS = 60

Ask = Callable[[Messages, dict[str, Any]], Awaitable[str]]
"""One call to one model, with the JSON schema of its reply; returns the text. Raises what the call raises."""


class Verification(NamedTuple):
    """`reason` is shown to the model that is asked again. `error` names what a user's verifier raised."""

    status: str
    reason: str = ""
    error: str | None = None


class Claim(NamedTuple):
    """A result that is to be verified, and the task as text. `task` and `context` are as the function gave them."""

    text: TaskText
    result: Any
    task: Any
    context: Any


Verifier = Callable[[Claim, Ask], Awaitable[Verification]]


def find_verifier(name: Any) -> Verifier | None:
    """A verifier by name, or around a function of the user. None: only the format is checked."""
    if name is None:
        return None
    if isinstance(name, str) and name in VERIFIERS:
        return VERIFIERS[name]
    if callable(name):
        return from_function(name)
    known = "reverse, cross, format, None, or a function of yours"
    raise ValueError(f"there is no verifier {name!r}; known: {known}")


async def reverse(claim: Claim, ask: Ask) -> Verification:
    """One call that goes backwards from the result to what would have to be true for it.

    A reply that cannot be read is UNCERTAIN, since the result is not to blame for it.
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
    """A reply that cannot be read agrees with nothing."""

    agrees: bool
    reason: str


async def cross(claim: Claim, ask: Ask) -> Verification:
    """Three calls side by side do the task again and say whether they agree with the result.

    A call that failed raises after the others are back: those are paid.
    """
    messages = build_messages("cross", claim.text, {"result": as_text(claim.result)}, [])
    schema = vote_schema(claim.result)
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
    """By the share of votes that agree, with the reasons of those that do not."""
    share = sum(vote.agrees for vote in votes) / len(votes)
    if share >= OK_SHARE:
        return Verification(OK)
    text = f"{share:.0%} of {len(votes)} independent answers agree"
    against = "; ".join(vote.reason for vote in votes if not vote.agrees and vote.reason)
    status = UNCERTAIN if share >= UNCERTAIN_SHARE else FAIL
    return Verification(status, f"{text}: {against}" if against else text)


def tool_choice(tools: Mapping[str, Tool]) -> Verifier:
    """The tool is offered, it has the arguments it needs, and others would choose it too."""

    async def verify(claim: Claim, ask: Ask) -> Verification:
        if problem := choice_problem(claim.result, tools):
            return Verification(FAIL, problem)
        return await cross(claim, ask)

    return verify


def from_function(function: Callable[..., Any]) -> Verifier:
    """A verifier of the user. One that raises, or answers in another form, fails the result."""

    async def verify(claim: Claim, _: Ask) -> Verification:
        try:
            value = await user_code.call(function, (claim.task, claim.context, claim.result))
        except (UserCodeError, ModelError) as error:
            raised = UserCodeError.of(error)
            return Verification(FAIL, raised.message, raised.type_name)
        is_pair = isinstance(value, (tuple, list)) and len(value) == 2
        status = known_status(value[0]) if is_pair else None
        if status is None:
            reason = f"the verifier returned {as_text(value)[:100]}, not (status, reason)"
            return Verification(FAIL, reason, "TypeError")
        return Verification(status, as_text(value[1]))

    return verify


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
    """Fail if a text of the result is a dict or list in disguise; name the place of the first one.

    A model that writes `{"items": "['a', 'b']"}` meant a list. Code that uses that text would go wrong.
    """
    for where, text in _texts(result):
        if _holds_container(text):
            shown = shorten(text, _SHOWN_CHARACTERS)
            reason = f"{where} is text that holds an object or a list: {shown!r}; write it as JSON"
            return Verification(FAIL, reason)
    return Verification(OK)


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every text in the tree with its place, in order, without recursion: a reply may be nested deeply."""
    stack = [("result", value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, str):
            yield where, item
        elif isinstance(item, dict):
            stack.extend((f"{where}.{name}", inner) for name, inner in reversed(item.items()))
        elif isinstance(item, list):
            stack.extend((f"{where}[{index}]", item[index]) for index in reversed(range(len(item))))


def _holds_container(text: str) -> bool:
    """Whether the text is a dict or a list as JSON or Python writes them."""
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
