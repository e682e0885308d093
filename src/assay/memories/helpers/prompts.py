"""Prompts with which memories ask the model, and the parsers of the replies.

    asker = PromptAsker(context, "GAMemory")
    rating = await asker.rating("importance", 4.0, text="Ann: we got married")

The prompts are text files in `memories/prompts/`. A change of wording gets a new version of the file. The parsers
accept many forms of a reply, and return None for a reply that is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from assay.core.errors import CaseFailed
from assay.core.memory import MemoryContext
from assay.core.types import Failure
from assay.files.excerpt import cut_end
from assay.language import prompts

# Part of the file names and of a run's identity.
VERSION = "v1"
_FOLDER = Path(__file__).parents[1] / "prompts"
_PARAMS: dict[str, Any] = {"temperature": 0}
# Number of characters of an unusable reply that the error message quotes.
_QUOTE_LENGTH = 200

# The scale in a reply such as `7 out of 10`. It is removed, so that 10 is not taken for the rating.
_SCALE = re.compile(r"(?:/|out of|1 to|1-|1–|between 1 and)\s*10\b", re.IGNORECASE)
# A number without a sign, percent sign or further digits, so that -7, 70% and 3.5.1 are no ratings.
_NUMBER = re.compile(r"(?<![\d.\-−])\d+(?:\.\d+)?(?!\.?\d|%)")
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s*")
_WORD = re.compile(r"[^\W\d_]+")
# A call of a function on a line: `name: argument`, `name("argument")` or `name argument`.
_CALL = re.compile(r"[`*]*(?P<name>[A-Za-z]+)[`*]*\s*[:(\s]\s*[\"'“]?(?P<argument>[^\s\"'“].*?)[\"'”]?\)?[`*]*")
_YES, _NO = frozenset({"yes", "true"}), frozenset({"no", "false"})

T = TypeVar("T")


class PromptAsker:
    """Asks the model with the prompts of this package.

    After an unusable reply it asks once more, with a hint. A second unusable reply fails the case.
    """

    def __init__(self, context: MemoryContext, memory: str) -> None:
        self._ask = context.ask
        self._memory = memory

    async def text(self, prompt: str, **values: str) -> str:
        """Return the text of the reply. An empty reply is unusable."""
        return await self._ask_usable(prompt, values, parse_text)

    async def lines(self, prompt: str, number: int, **values: str) -> list[str]:
        """Ask for a list. Returns its lines, at least one and at most `number`."""
        lines = await self._ask_usable(prompt, {**values, "number": str(number)}, parse_lines)
        return lines[:number]

    async def calls(self, prompt: str, names: Sequence[str], number: int, **values: str) -> list[tuple[str, str]]:
        """Ask for calls. Returns (name, argument) pairs, at most `number`; none if the model wants none."""
        calls = await self._ask_usable(prompt, {**values, "number": str(number)}, partial(parse_calls, names=names))
        return calls[:number]

    async def choice(self, prompt: str, **values: str) -> bool:
        """Ask for yes or no. Returns True for yes."""
        return await self._ask_usable(prompt, values, parse_choice)

    async def rating(self, prompt: str, default: float, **values: str) -> float:
        """Ask for a number from 1 to 10. Returns `default` if neither of two replies has such a number."""
        rating, _ = await self._ask_twice(prompt, values, parse_rating)
        return default if rating is None else rating

    async def _ask_usable(self, prompt: str, values: dict[str, str], parse: Callable[[str], T | None]) -> T:
        value, reply = await self._ask_twice(prompt, values, parse)
        if value is None:
            quote = cut_end(reply, _QUOTE_LENGTH)
            message = f"{self._memory} asked for {prompt!r} twice and cannot use the reply {quote!r}"
            raise CaseFailed(Failure("failed_step", f"{message}; a more able model may help", prompt))
        return value

    async def _ask_twice(
        self, prompt: str, values: dict[str, str], parse: Callable[[str], T | None]
    ) -> tuple[T | None, str]:
        """Return the parsed value and the reply. The second attempt adds a hint to the prompt."""
        reply = await self._ask(build_messages(prompt, values), dict(_PARAMS))
        value = parse(reply)
        if value is None:
            reply = await self._ask(build_messages(prompt, values, again=True), dict(_PARAMS))
            value = parse(reply)
        return value, reply


def build_messages(name: str, values: Mapping[str, str], *, again: bool = False) -> list[dict[str, Any]]:
    """Return the chat messages of a prompt. `again` adds the hint of the second attempt."""
    parts = prompts.read_parts(_path(name))
    question = parts["user"]
    if again:
        question += f"\n\n{parts['again']}"
    return [
        {"role": "system", "content": prompts.fill(parts["system"], values)},
        {"role": "user", "content": prompts.fill(question, values)},
    ]


def date_attribute(date: str) -> str:
    """Return ` date="..."` for a tag of a prompt, or an empty text if there is no date."""
    return f' date="{date}"' if date else ""


def prompt_version(*names: str) -> str:
    """Return version and hash of these prompts. A memory names only its own, so others may change."""
    return prompts.prompt_version(VERSION, *map(_path, names))


def _path(name: str) -> Path:
    return _FOLDER / f"{name}.{VERSION}.txt"


def parse_text(reply: str) -> str | None:
    """Return the reply without white space around it, or None if nothing is left."""
    return reply.strip() or None


def parse_lines(reply: str) -> list[str] | None:
    """Return the lines of a reply without bullets and numbers. Lines that end with a colon are left out."""
    lines: list[str] = []
    for raw in (parse_text(reply) or "").splitlines():
        line = _BULLET.sub("", raw).strip()
        if line and not line.endswith((":", "：")):
            lines.append(line)
    return lines or None


def parse_calls(reply: str, names: Sequence[str]) -> list[tuple[str, str]] | None:
    """Return the calls of a reply with lines such as `recall: red car` or `recall("red car")`.

    Other lines are left out. A reply without calls is empty if it says none, else None.
    """
    calls: list[tuple[str, str]] = []
    lines = parse_lines(reply) or []
    for line in lines:
        match = _CALL.fullmatch(line)
        if match and match["name"].lower() in names:
            calls.append((match["name"].lower(), match["argument"]))
    if not calls and not any(_WORD.findall(line.lower()) == ["none"] for line in lines):
        return None
    return calls


def parse_rating(reply: str) -> float | None:
    """Return the only number from 1 to 10 in a reply such as `7`, `7/10` or `I would say 7 out of 10`."""
    text = _SCALE.sub(" ", parse_text(reply) or "")
    numbers = {float(number) for number in _NUMBER.findall(text)}
    if len(numbers) != 1:
        return None
    rating = numbers.pop()
    return rating if 1 <= rating <= 10 else None


def parse_choice(reply: str) -> bool | None:
    """Return True for yes and False for no, read from the first and the last word.

    Returns None if neither word is a choice, or if they contradict each other.
    """
    words = [word.lower() for word in _WORD.findall(parse_text(reply) or "")]
    choices = {word in _YES for word in (*words[:1], *words[-1:]) if word in _YES | _NO}
    return choices.pop() if len(choices) == 1 else None
