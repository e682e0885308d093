"""The data types that all packages share. All are frozen structs without behaviour.

- Case: one row with one subject. The unit of scheduling.
- Call: one request to a model with its reply. The unit of payment.
- Record: one output of a case, such as an answer.
- Score: one metric's value for a case, or for a part of it.
- End: how one stage of a case ended. A stage counts as done only when its end is in the journal.

The order of fields is the order of keys in the journal's lines, so do not reorder them. Without
`from __future__ import annotations`, the decoders of these types need not compile the text of each type at every start.
"""

from typing import Annotated, Any, Literal, NamedTuple, Self

from msgspec import Meta, Struct, field, to_builtins

Status = Literal["ok", "subject_error", "infra_error"]
ScoreStatus = Literal["scored", "not_applicable", "invalid"]

# Bounds of the numbers by which journal lines refer to each other. A line beyond them is damage: a reader of a forged
# run folder must not reserve memory for a case with the number 10**12.
CaseIndex = Annotated[int, Meta(ge=0, lt=1 << 27)]
CallIndex = Annotated[int, Meta(ge=-1, lt=1 << 27)]
"""The index of a case, or NO_CASE."""
TryNumber = Annotated[int, Meta(ge=0, lt=1 << 31)]
Offset = Annotated[int, Meta(ge=0, lt=1 << 62)]
"""The byte at which a line of the journal begins."""

ASK = "ask"
"""The stage in which the solver runs. Every other stage is named after a scorer's id, or is COMMON."""

COMMON, NO_CASE = "common", -1
"""Stage and case index of calls at the run's shared endpoint, whose case is unknown."""

JUDGE = "judge"
"""The name of scorers whose values come from a judge. Runs with different judges can be compared: `compare` then
leaves out the scores of this scorer. Any other difference between scorers makes `compare` refuse."""

SUBJECT_KINDS = frozenset({"user_code", "refusal", "context_overflow", "failed_step"})
"""Kinds of failures that count against the subject (`subject_error`). All other kinds are `infra_error`."""

BAD_CASE = "bad_case"
"""The kind of failure of a case with bad data, such as a label outside the choices: no request can be made of it."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one call, as the endpoint counted them.

    `cached` is the part of `input` from the endpoint's cache, `reasoning` the part of `output` that was reasoning.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


class Failure(Struct, frozen=True, omit_defaults=True):
    """Why a call or a case has no result. `kind` is a word for programs, `http` is the endpoint's HTTP status.

    `traceback` is set for exceptions of user code. It has only the frames of the user's own files.
    """

    kind: str
    message: str
    where: str = ""
    http: int = 0
    traceback: str = ""

    @property
    def status(self) -> Status:
        """The status of a case that ends with this failure."""
        return "subject_error" if self.kind in SUBJECT_KINDS else "infra_error"


class SdkRequest(Struct, frozen=True, omit_defaults=True):
    """A request of another SDK in its own form, for an endpoint that takes it so: see `models/http/sdk_requests.py`.

    `body` has neither messages nor prompt of a chat or text request: they stand in the Request.
    """

    path: str
    body: dict[str, Any]
    headers: dict[str, Any] = field(default_factory=dict)


class Request(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request to a model. It has no seed and no key, so that repeats of a request are equal.

    With `continuation` it requests a likelihood: of `continuation` after `prompt`, or without a prompt of the whole
    text, window by window. The reply is in `Response.data`: `{"logprob": float, "greedy": bool}`. With `sdk` it is
    passed on in the form of another SDK, and has no `params`.
    """

    model: str
    endpoint: str = ""
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    continuation: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    sdk: SdkRequest | None = None

    @property
    def shown_params(self) -> dict[str, Any]:
        """The parameters for people. Those of another SDK's request are its path, body and headers."""
        shown: dict[str, Any] = self.params if self.sdk is None else to_builtins(self.sdk)
        return shown


class Response(Struct, frozen=True, omit_defaults=True):
    """A model's reply, parsed.

    `data` is a likelihood, or the whole reply to an SDK's request. `reasoning` is what the model wrote before its
    answer, in `<think>` or apart from the text; it is saved but never scored. `cost` is the price in US dollars that
    the endpoint reports, else the price of the tokens by the price table `price_table`, else None. `address` is the
    endpoint's base URL, empty for models without a network. `adapted` says how the request was changed for the
    endpoint, such as "no temperature". `free` is True for a model in a server that assay started: no call costs money.
    `waited` are the seconds that the request waited in this process, for the weights or for a slot of the model. They
    are no part of the call's time, and are not saved.
    """

    text: str
    finish: str | None = None
    usage: Usage | None = None
    data: Any = None
    reasoning: str = ""
    cost: float | None = None
    address: str = ""
    adapted: tuple[str, ...] = ()
    price_table: str = ""
    free: bool = False
    waited: float = 0.0


class CallTime(NamedTuple):
    """When a call of a case began and ended here, and the seconds that the model took. A log's reply is `replayed`."""

    began: float
    ended: float
    seconds: float
    replayed: bool


class Case(Struct, frozen=True):
    """One row with one subject: the unit of work. `inputs` go to the solver, `gold` to scorers only.

    `label` and `tags` are for reports. They are saved in the journal and change no answer and no score.
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
        """Index, key, set and subject. Every journal line about this case begins with them."""
        return self.index, self.key, self.set, self.subject


class Call(Struct, frozen=True, omit_defaults=True, tag="call", tag_field="type"):
    """One request with its reply or failure. Of equal requests of a case, only the first call has `request`.

    A call with a `failure` has failed. It has a `response` too if the endpoint billed a refusal: its tokens and price.
    """

    index: CallIndex
    case: str
    set: str
    subject: str
    stage: str
    try_: TryNumber = field(name="try")
    hash: str
    n: int
    request: Request | None = None
    response: Response | None = None
    failure: Failure | None = None
    attempts: int = 1
    seconds: float = 0.0


class Commit(Struct, frozen=True, omit_defaults=True):
    """The end of a stage, written on the stage's last line. Without it the stage does not count.

    `lines` are the file offsets of the stage's other lines. `label` and `tags` are the case's; only the ASK stage
    has them.
    """

    try_: TryNumber = field(default=1, name="try")
    status: Status = "ok"
    lines: list[Offset] = field(default_factory=list)
    failure: Failure | None = None
    usage: Usage | None = None
    calls: int = 0
    seconds: float = 0.0
    """How long the code of the stage ran, waiting for permits and retries included. Replies from the log took no time.
    0 means not known. The time of a model is `Call.seconds`."""
    label: str = ""
    tags: tuple[str, ...] = ()
    cost: float | None = None
    """The price in US dollars of calls whose purpose was named, such as those of a judge. None if it is not known."""


CLOSING_KINDS = ("fed", "used", "imported", "document", "row", "tests")
"""Kinds of records that contain no answer. A case that failed may end with one of them."""


class Record(Struct, frozen=True, omit_defaults=True, tag="record", tag_field="type"):
    """One output of a case. `part` tells outputs of one kind apart, such as "summarise/3"."""

    index: CaseIndex
    case: str
    set: str
    subject: str
    try_: TryNumber = field(name="try")
    kind: str
    part: str = ""
    data: Any = None
    end: Commit | None = None


class Score(Struct, frozen=True, omit_defaults=True, tag="score", tag_field="type"):
    """One metric's value for a case or a part of it. `value` is None unless `status` is "scored".

    `scorer` is name@fingerprint. `expected` is the reference that the scorer compared with, if there is one. `label`
    and `tags` describe the part if a case has several. An `interim` score counts in no metric, because a later score
    of the same question does.
    """

    index: CaseIndex
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
    """How a stage of a case ended: a Commit together with its case.

    It is a journal line of its own only if the stage has no other line that could carry the Commit.
    """

    index: CaseIndex
    case: str
    set: str
    subject: str
    stage: str
    try_: TryNumber = field(name="try")
    status: Status
    lines: list[Offset]
    failure: Failure | None = None
    usage: Usage | None = None
    calls: int = 0
    seconds: float = 0.0
    """As in Commit."""
    label: str = ""
    tags: tuple[str, ...] = ()
    cost: float | None = None
    """The price in US dollars of calls whose purpose was named, such as those of a judge. None if it is not known."""

    @classmethod
    def of_line(cls, line: Record | Score, stage: str, commit: Commit) -> Self:
        """Return the end of a stage whose last line has this Commit."""
        # Without names of fields, which take longer than the rest: this and `commit` run for every case.
        return cls(
            line.index,
            line.case,
            line.set,
            line.subject,
            stage,
            commit.try_,
            commit.status,
            commit.lines,
            commit.failure,
            commit.usage,
            commit.calls,
            commit.seconds,
            commit.label,
            commit.tags,
            commit.cost,
        )

    @property
    def commit(self) -> Commit:
        """The Commit that the last line of the stage carries instead of this line."""
        return Commit(
            self.try_,
            self.status,
            self.lines,
            self.failure,
            self.usage,
            self.calls,
            self.seconds,
            self.label,
            self.tags,
            self.cost,
        )

    @property
    def outcome(self) -> str:
        """The status as people read it: "bad_data" for a case that no other start of the run can ask."""
        return "bad_data" if self.failure is not None and self.failure.kind == BAD_CASE else self.status
