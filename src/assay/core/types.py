"""The data every layer speaks: frozen structs, nothing else.

A case is what is scheduled, a call is what is paid, a record is what is read, a score judges records,
an end commits a stage of a case. Field order is the order in the journal's lines.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

Status = Literal["ok", "subject_error", "infra_error"]
ScoreStatus = Literal["scored", "not_applicable", "invalid"]

ASK = "ask"
"""The stage in which a case is solved; every other stage is a scorer's id, or COMMON."""

COMMON, NO_CASE = "common", -1
"""Stage and index of calls at the address that a whole run shares: nobody can say which case made them."""

JUDGE = "judge"
"""The name of scorers that say what a judge says: it may be another one where all other scores compare."""

SUBJECT_KINDS = frozenset({"user_code", "refusal", "context_overflow", "failed_step"})
"""Failures that count against what is evaluated. All others are the infrastructure's."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one call, as the endpoint counted them."""

    input: int = 0
    output: int = 0


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why something has no result. `kind` is a word a program can branch on, `http` the endpoint's status.

    `traceback` is that of user code, with the frames of the user's own files only.
    """

    kind: str
    message: str
    where: str = ""
    http: int = 0
    traceback: str = ""

    @property
    def status(self) -> Status:
        """How a record with this failure ends."""
        return "subject_error" if self.kind in SUBJECT_KINDS else "infra_error"


class Request(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is asked, without seed and secret: two equal requests are the same question.

    `continuation` is the text whose likelihood after `prompt` is asked; without a prompt, that of the whole
    text, window by window. The reply to it is `Response.data`: `{"logprob": float, "greedy": bool}`.
    """

    model: str
    endpoint: str = ""
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    continuation: str | None = None
    params: dict[str, Any] = field(default_factory=dict)


class Response(Struct, frozen=True, omit_defaults=True):
    """A model's reply, parsed.

    `data` holds what only some callers need: the whole reply to a foreign SDK, or a likelihood. `reasoning`
    is what the model wrote before its answer, where the endpoint sends it apart from the text; it is kept
    but never scored. `cost` is what the endpoint charged, in its currency, and None where it does not say.
    `address` is the base URL of the endpoint that answered; models without a network have none.
    """

    text: str
    finish: str | None = None
    usage: Usage | None = None
    data: Any = None
    reasoning: str = ""
    cost: float | None = None
    address: str = ""


class Case(Struct, frozen=True):
    """One unit of work. `inputs` go to the solver, `gold` to scorers only.

    `label` and `tags` are for people: they stand in the journal and change no answer and no score.
    """

    index: int
    key: str
    set: str
    subject: str
    label: str
    inputs: Any
    gold: Any = None
    failure: Failure | None = None
    tags: tuple[str, ...] = ()

    @property
    def head(self) -> tuple[int, str, str, str]:
        """Index, key, set and subject: what every line of a journal about this case begins with."""
        return self.index, self.key, self.set, self.subject


class Call(Struct, frozen=True, omit_defaults=True, tag="call", tag_field="type"):
    """One paid question and its answer. The request stands on the first of equal ones only."""

    index: int
    case: str
    set: str
    subject: str
    stage: str
    try_: int = field(name="try")
    hash: str
    n: int
    request: Request | None = None
    response: Response | None = None
    failure: Failure | None = None
    attempts: int = 1
    seconds: float = 0.0


class Commit(Struct, frozen=True, omit_defaults=True):
    """On the last line of a stage: from here on it counts. `lines` are the offsets of its other lines.

    `label` and `tags` are those of the case, and stand where its asking ends.
    """

    try_: int = field(default=1, name="try")
    status: Status = "ok"
    lines: list[int] = field(default_factory=list)
    failure: Failure | None = None
    usage: Usage | None = None
    calls: int = 0
    seconds: float = 0.0
    label: str = ""
    tags: tuple[str, ...] = ()


class Record(Struct, frozen=True, omit_defaults=True, tag="record", tag_field="type"):
    """One thing a case produced. `part` orders several of a kind, such as "summarise/3"."""

    index: int
    case: str
    set: str
    subject: str
    try_: int = field(name="try")
    kind: str
    part: str = ""
    data: Any = None
    end: Commit | None = None


class Score(Struct, frozen=True, omit_defaults=True, tag="score", tag_field="type"):
    """One judgement. `scorer` is name@fingerprint; `value` is null unless status is "scored".

    `expected` is what was compared with, where the scorer knows it. `label` and `tags` are those of the part
    where a case has several. An `interim` score counts in no metric: a later score of the same question does.
    """

    index: int
    case: str
    set: str
    subject: str
    scorer: str
    metric: str
    part: str = ""
    vote: int = 0
    status: ScoreStatus = "scored"
    value: float | None = None
    reason: str = ""
    data: Any = None
    expected: Any = None
    label: str = ""
    tags: tuple[str, ...] = ()
    interim: bool = False
    end: Commit | None = None


class End(Struct, frozen=True, omit_defaults=True, tag="end", tag_field="type"):
    """How a stage of a case ended: what a Commit says, with the case it says it of.

    In the journal it is a line of its own only where a stage has no other line to carry the commit.
    """

    index: int
    case: str
    set: str
    subject: str
    stage: str
    try_: int = field(name="try")
    status: Status
    lines: list[int]
    failure: Failure | None = None
    usage: Usage | None = None
    calls: int = 0
    seconds: float = 0.0
    label: str = ""
    tags: tuple[str, ...] = ()
