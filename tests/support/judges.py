"""A judge that tests can follow: it is shown a matter as JSON and answers with a label."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from assay.scoring.judging.asking import Asking

from servers.loopback import LoopbackServer, chat

Say = Callable[[dict[str, Any]], str]


class PlainWording:
    """The matter as one JSON object; the reply is `{"label": …}`."""

    fingerprint = "plain.v1"

    def __init__(self) -> None:
        self.params: dict[str, Any] = {"temperature": 0}

    def decided(self, matter: Any) -> None:
        """Everything is asked."""

    def parts(self, matter: Any) -> list[Any]:
        """In one piece."""
        return [matter]

    def messages(self, matter: Any) -> list[dict[str, Any]]:
        """One message."""
        shown = {name: getattr(matter, name) for name in ("question", "reference", "response")}
        return [{"role": "user", "content": json.dumps(shown)}]

    def schema(self, matter: Any) -> dict[str, Any]:
        """Any object."""
        return {"type": "object"}

    def read(self, reply: Any, matter: Any) -> tuple[tuple[str, ...], str]:
        """Only labels of this matter."""
        if not isinstance(reply, dict) or reply.get("label") not in matter.labels:
            raise ValueError("there is no label")
        return (reply["label"],), "as it is"


def plain_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every judge that asks a model is worded like this."""
    monkeypatch.setattr("assay.scoring.judging.panel._asking", lambda _, votes: Asking(PlainWording(), votes))


def label(name: str) -> str:
    """A reply that can be read."""
    return json.dumps({"label": name})


def by_words(shown: dict[str, Any]) -> str:
    """Right is what holds the reference."""
    return label("Correct" if shown["reference"] in shown["response"] else "Hallucination")


class JudgeServer(LoopbackServer):
    """An endpoint at which `say` answers for judges, and `model` for anybody else."""

    def __init__(self, say: Say = by_words, model: Callable[[dict[str, Any]], str] = str) -> None:
        self.say = say
        self.down = ""
        """The end of questions about which judges cannot be asked; none if it is empty."""
        super().__init__(lambda body: self._answer(body, model))

    def _answer(self, body: dict[str, Any], model: Callable[[dict[str, Any]], str]) -> tuple[int, Any]:
        if not body["model"].startswith("judge"):
            return 200, chat(model(body))
        shown = json.loads(body["messages"][-1]["content"])
        if self.down and shown["question"].endswith(self.down):
            return 500, {"error": {"message": "not now"}}
        return 200, chat(self.say(shown))

    def judged(self) -> list[dict[str, Any]]:
        """What was put before judges, in order."""
        return [
            json.loads(body["messages"][-1]["content"])
            for body in self.bodies
            if body["model"].startswith("judge")
        ]
