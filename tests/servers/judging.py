"""An endpoint that judges: it reads the matter out of a judge's prompt and answers rightly, or as badly as told.

What it judges by is a function of the matter, `offline` unless told otherwise. Prompts of nobody's judge get
`other`. `spoil(matter, attempt)` names one of `SPOILED`, or `429` or `500`, or nothing; the n-th time a prompt arrives is
its n-th attempt.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from assay.language import prompts
from assay.scoring import judges, offline
from assay.scoring.questions import (
    KINDS,
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
    Verdict,
)

from servers.loopback import LoopbackServer, chat

_BLOCK = re.compile(r"^<(\w+) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>$", re.DOTALL | re.MULTILINE)
_UPDATE, _NORMAL = "[update] ", "[normal] "
ONE_LABEL = ("update", "interference", "answer")


def _fewer(reply: dict[str, Any]) -> str:
    labels = dict(list(reply.get("labels", {}).items())[:-1])
    return json.dumps({"reason": reply["reason"]} | ({"labels": labels} if "labels" in reply else {}))


def _wrong(reply: dict[str, Any]) -> str:
    return re.sub(r'"[^"]*"(}+)$', r'"Perfect"\1', json.dumps(reply))


SPOILED: dict[str, Callable[[dict[str, Any]], str]] = {
    "fenced": lambda reply: f"```json\n{json.dumps(reply, indent=1)}\n```",
    "around": lambda reply: f"Sure, this is it:\n```json\n{json.dumps(reply)}\n```\nI hope that helps.",
    "comma": lambda reply: re.sub(r"(}+)$", r",\1", json.dumps(reply)),
    "prose": lambda _: "Hard to say. I would call it fine.",
    "half": lambda reply: json.dumps(reply)[:-5],
    "wrong_label": _wrong,
    "too_few": _fewer,
    "nothing": lambda _: "",
}
"""What becomes of a right reply."""
FORGIVEN = ("fenced", "around", "comma")
"""Those of them that can still be read; `half` ends as a reply does that met its limit of tokens."""

FAILING = ("429", "500")
"""Replies that are none."""


class JudgingServer(LoopbackServer):
    """Keeps every matter that it was asked, in order of arrival."""

    def __init__(
        self,
        judge: Callable[[JudgeQuestion], Verdict] = offline.verdict,
        spoil: Callable[[JudgeQuestion, int], str] = lambda _matter, _attempt: "",
        other: Callable[[dict[str, Any]], str] = lambda _body: "I do not know.",
        **where: Any,
    ) -> None:
        super().__init__(self._answer, **where)
        self.questions: list[JudgeQuestion] = []
        self.judge, self.spoil, self._other = judge, spoil, other
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def asked(self, kind: str) -> int:
        """How many requests of one kind arrived."""
        return [matter.kind for matter in self.questions].count(kind)

    def _answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        messages = body.get("messages") or []
        matter = question_of(messages)
        if matter is None:
            return 200, chat(self._other(body))
        with self._lock:
            self.questions.append(matter)
            self._attempts[messages[-1]["content"]] += 1
            attempt = self._attempts[messages[-1]["content"]]
        return said(matter, self.judge(matter), self.spoil(matter, attempt))


def said(matter: JudgeQuestion, verdict: Verdict, how: str = "") -> tuple[int, Any]:
    """A status and a reply with this verdict, spoiled in some way."""
    if how in FAILING:
        return int(how), {"error": {"message": "not now", "type": "x", "code": None}}
    reply: dict[str, Any] = {"reason": verdict.reason or "so it is"}
    if matter.kind in ONE_LABEL:
        reply["label"] = verdict.labels[0]
    else:
        reply["labels"] = {str(number): label for number, label in enumerate(verdict.labels, 1)}
    told = chat(SPOILED[how](reply) if how else json.dumps(reply))
    if how == "half":
        told["choices"][0]["finish_reason"] = "length"
    return 200, told


def always(label: str) -> Callable[[JudgeQuestion], Verdict]:
    """A judge of answers that has one word for all of them."""
    return lambda _: Verdict((label,))


def by_words(matter: JudgeQuestion) -> Verdict:
    """Of an answer: right is what holds the reference."""
    assert isinstance(matter, AnswerQuestion)
    return Verdict(("Correct" if matter.reference in matter.response else "Hallucination",))


def about(question: str, how: str) -> Callable[[JudgeQuestion, int], str]:
    """Spoils answers to questions with this end, and no others."""
    return lambda matter, _: how if isinstance(matter, AnswerQuestion) and matter.question.endswith(question) else ""


def question_of(messages: list[dict[str, Any]]) -> JudgeQuestion | None:
    """What a judge's prompt asks about; None for the prompts of others."""
    kind = _kinds().get(messages[0]["content"]) if messages else None
    if kind is None:
        return None
    found = {block[1]: block[3] for block in _BLOCK.finditer(messages[-1]["content"])}
    return _MADE[kind](found)


@cache
def _kinds() -> dict[str, str]:
    """Kinds by what their newest prompt says first."""
    folder = Path(judges.__file__).parent
    newest = {kind: max(folder.glob(f"{kind}.v*.txt")) for kind in KINDS}
    return {prompts.read_parts(path)["system"]: kind for kind, path in newest.items()}


def _listed(block: str) -> tuple[str, ...]:
    if block == "(none)":
        return ()
    return tuple(json.loads(line.partition(": ")[2]) for line in block.split("\n"))


def _kept(found: dict[str, str]) -> RecallQuestion:
    points = _listed(found["points"])
    return RecallQuestion(
        tuple(point.removeprefix(_UPDATE).removeprefix(_NORMAL) for point in points),
        tuple(point.startswith(_UPDATE) for point in points),
        _listed(found["memories"]),
    )


_MADE: dict[str, Callable[[dict[str, str]], JudgeQuestion]] = {
    "answer": lambda found: AnswerQuestion(
        found["question"], found["reference"], found["response"], _listed(found["evidence"])
    ),
    "evidence": lambda found: EvidenceQuestion(_listed(found["evidence"]), _listed(found["texts"])),
    "recall": _kept,
    "correctness": lambda found: CorrectnessQuestion(
        _listed(found["points"]), _listed(found["known"]), _listed(found["memories"])
    ),
    "update": lambda found: UpdateQuestion(found["new"], _listed(found["old"]), _listed(found["memories"])),
    "interference": lambda found: InterferenceQuestion(found["content"], _listed(found["memories"])),
}
