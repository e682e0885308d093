"""LoCoMo: two people who talk over months, in the schema of `locomo10.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from assay.core.nodes import Node
from assay.suites.memory_test.conversation import Conversation, Question, Session, message_id
from assay.suites.memory_test.reading import read
from assay.suites.memory_test.scorer import FIRST, LISTS

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""What the numbers mean; files keep the numbers."""
RULES = {1: LISTS, 3: FIRST}
"""As LoCoMo's own evaluation compares them."""
_ADVERSARIAL = 5
_SESSION = re.compile(r"session_([1-9]\d{0,8})", re.ASCII)


def conversations(path: Path) -> Iterator[Conversation]:
    """The samples of a file; summaries and observations in it are left alone."""
    return read(path, _conversation)


def _conversation(index: int, node: Node) -> Conversation:
    talk = node["conversation"]
    numbered = sorted(
        int(found[1]) for key in talk.mapping() if (found := _SESSION.fullmatch(key)) and key in talk
    )
    sessions = [_session(number, talk) for number in numbered]
    if not any(session.messages for session in sessions):
        talk.note("has no session with a message; they stand under session_1, session_2 and so on")
    questions = [_question(at, question) for at, question in enumerate(node["qa"].objects())]
    return Conversation.of(index, node["sample_id"].filled(), sessions, questions)


def _session(number: int, talk: Node) -> Session:
    """A date without messages is no session; messages may be without a date."""
    key = f"session_{number}"
    date = talk[f"{key}_date_time"].text() if f"{key}_date_time" in talk else ""
    messages = enumerate(talk[key].objects(), 1)
    return Session.of(number, date, [_line(message, message_id(number, at)) for at, message in messages], key)


def _line(node: Node, place: str) -> tuple[str, str]:
    """Who said what. An image is told by what was looked for and by its caption."""
    if "dia_id" in node and (told := node["dia_id"].text()) != place:
        node["dia_id"].note(f"stands at {place} but says {told!r}; evidence counts messages by their place")
    text = node["text"].text()
    seen = [node[key].text() for key in ("query", "blip_caption") if key in node]
    if seen or "img_url" in node:
        text = f"{text} (shows {', which is '.join(seen) or 'an image'})".lstrip()
    return node["speaker"].text(), text


def _question(at: int, node: Node) -> Question:
    """`adversarial_answer` is what a fooled model would say: it is told, and never the reference."""
    category, evidence = node["category"], node["evidence"].texts() if "evidence" in node else []
    if type(category.value) is not int:
        category.note("must be a whole number; LoCoMo has 1 to 5")
    return Question.of(
        node["question"].filled(),
        evidence,
        {key: value for key, value in node.mapping().items() if key not in ("question", "answer")},
        reference=node["answer"].answer() if "answer" in node else None,
        source_index=at,
        abstention=category.value == _ADVERSARIAL,
    )
