"""The prompt for an answer from retrieved memory items: the built-in one, or a file of the user.

    prompt = plain_prompt(Path("mine.txt"))
    prompt.messages(Query("Where does Ada live?"), hits)

A file needs {memories} and {question}. {date} is the date of the question, or empty. A file without part lines is one
user message. A third part, `=== asked ===`, replaces {asked} if the question has a date; without a date {asked} is
empty. The built-in prompts are such files, with a version in their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from assay.core.memory import MemoryItem, Message, Query, SearchHit
from assay.language import prompts

_FOLDER = Path(__file__).with_name("prompts")
PLAIN_PROMPT = _FOLDER / "answer.v2.txt"
CITED_PROMPT = _FOLDER / "cited.v2.txt"
# Token limits for an answer of a few words, and for one of at most 15 words as JSON with citations.
PLAIN_PARAMS: dict[str, Any] = {"temperature": 0, "max_tokens": 64}
CITED_PARAMS: dict[str, Any] = {"temperature": 0, "max_tokens": 256}
_ASKED = "asked"
# A prompt of the user that has this word wants the JSON object with citations.
_CITATIONS = "citations"
_NO_ITEMS = "(none)"

Layout = Literal["lines", "numbered", "dated", "sessions"]
LINES: Layout = "lines"
NUMBERED: Layout = "numbered"
DATED: Layout = "dated"
SESSIONS: Layout = "sessions"
"""How items are listed. `lines`: `- (date) text`, best first. `numbered`: `[1] (date) text`, so that an answer can cite
them. `dated`: `date: text`, best first. `sessions`: below a line with the date of their session, oldest first."""


class MemoryPrompt(Struct, frozen=True, kw_only=True):
    """A prompt that was read and checked. It is read once, so that identity and requests are of the same text."""

    parts: Mapping[str, str]
    """The messages by role, in the order of the file."""
    params: dict[str, Any]
    asked: str = ""
    """The text of {asked} for a question with a date."""
    layout: Layout = LINES
    cites: bool = False
    """Whether the reply should be a JSON object with citations."""
    version: str = ""

    @property
    def fingerprint(self) -> str:
        """Version and hash. They are part of a run's identity: another prompt is another run."""
        # The two layouts of the built-in prompts belong to their versions.
        layout = [] if self.layout in (LINES, NUMBERED) else [self.layout]
        texts = "\0".join([*self.parts, *self.parts.values(), self.asked, *layout])
        return f"{self.version}@{hashlib.sha256(texts.encode()).hexdigest()}"

    @property
    def length(self) -> int:
        """Number of characters, for estimates of tokens."""
        return sum(map(len, self.parts.values()))

    def messages(
        self, question: Query, hits: Sequence[SearchHit], sessions: Sequence[Sequence[Message]] = ()
    ) -> list[dict[str, Any]]:
        """Return the messages with the hits in their layout. `sessions` is the conversation, for the order of time."""
        values = {
            "memories": "\n".join(self._lines(hits, sessions)) or _NO_ITEMS,
            "question": question.text,
            "date": question.date,
            _ASKED: prompts.fill(self.asked, {"date": question.date}) if question.date else "",
        }
        return [{"role": role, "content": prompts.fill(text, values)} for role, text in self.parts.items()]

    def _lines(self, hits: Sequence[SearchHit], sessions: Sequence[Sequence[Message]]) -> list[str]:
        if self.layout == NUMBERED:
            return [numbered_line(number, hit.item) for number, hit in enumerate(hits, 1)]
        if self.layout == SESSIONS:
            return _session_lines(hits, sessions)
        if self.layout == DATED:
            return [f"{hit.item.date}: {hit.item.text}" if hit.item.date else hit.item.text for hit in hits]
        return [f"- {dated_text(hit.item)}" for hit in hits]


def _session_lines(hits: Sequence[SearchHit], sessions: Sequence[Sequence[Message]]) -> list[str]:
    """Return the items in order of time, below a line for each session. Items of unknown time come last."""
    messages = (message.id for session in sessions for message in session)
    positions = {name: place for place, name in enumerate(messages)}

    def place(hit: SearchHit) -> int:
        places = [positions[name] for name in hit.item.sources if name in positions]
        return min(places, default=len(positions))

    lines: list[str] = []
    current: tuple[str, str] | None = None
    number = 0
    for hit in sorted(hits, key=place):
        if current != (hit.item.session, hit.item.date):
            current = (hit.item.session, hit.item.date)
            number += 1
            date = f", {hit.item.date}" if hit.item.date else ""
            lines += [*([""] if lines else []), f"Chat {number}{date}:"]
        lines.append(hit.item.text)
    return lines


def read_prompt(path: Path, params: dict[str, Any], *, layout: Layout) -> MemoryPrompt:
    """Return the prompt of a protocol, which ships with the package."""
    return replace(_read(path, params, own=False), layout=layout)


def plain_prompt(own: Path | None = None) -> MemoryPrompt:
    """Return a prompt for plain answers. Raises InputError with the lines of an invalid file."""
    return _read(own or PLAIN_PROMPT, PLAIN_PARAMS, own=own is not None)


def cited_prompt(own: Path | None = None) -> MemoryPrompt:
    """Return a prompt with numbered items. A file of the user without the word `citations` asks for none."""
    prompt = _read(own or CITED_PROMPT, CITED_PARAMS, own=own is not None)
    return replace(prompt, layout=NUMBERED, cites=any(_CITATIONS in text for text in prompt.parts.values()))


def _read(path: Path, params: dict[str, Any], *, own: bool) -> MemoryPrompt:
    parts = prompts.read_own_parts(path, ("memories", "question"), ("date",), (_ASKED,))
    asked = parts.pop(_ASKED, "")
    return MemoryPrompt(
        parts=parts, params=params, asked=asked + "\n" if asked else "", version="own" if own else path.stem
    )


def dated_text(item: MemoryItem) -> str:
    """Return the text of an item with its date. The model needs the date to resolve words like "yesterday"."""
    return f"({item.date}) {item.text}" if item.date else item.text


def numbered_line(number: int, item: MemoryItem) -> str:
    """Return the line of an item in a prompt whose answers cite items by number."""
    return f"[{number}] {dated_text(item)}"
