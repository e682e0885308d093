"""The texts of a case page as blocks: each has a heading, is cut if it is long, and can be shown whole by its id."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import groupby

from msgspec import Struct

from assay.core.case_details import (
    AnswerPair,
    AnswerVotes,
    CheckDetail,
    EvidencePiece,
    PromptPiece,
    QuestionHit,
    QuestionTest,
    StepDetail,
    TestDetail,
)
from assay.core.dollars import dollars
from assay.core.report import Table
from assay.core.suite_pages import Section
from assay.core.types import ASK, Call, Request
from assay.store.render.flips import Change, word_changes
from assay.view.text import TextBlock, as_text, preview

# Texts of a check or an item are cut earlier than replies: there are many of them on a page.
_SHORT_CHARS = 600


class PairBlock(Struct, kw_only=True):
    """An expected and a found text. `changes` are their differing words; empty if they have too little in common."""

    name: str
    is_same: bool
    expected: TextBlock | None
    found: TextBlock | None
    changes: list[Change]


class CheckBlock(Struct, kw_only=True):
    """A check with its values cut to a few lines."""

    check: CheckDetail
    expected: str | None
    found: str | None
    changes: list[Change]


class StepTexts(Struct, kw_only=True):
    """A step of a timeline. `start` and `length` are shares of the whole time; `length` is None without a time."""

    step: StepDetail
    start: float
    length: float | None
    input: TextBlock | None
    output: TextBlock | None
    error: TextBlock | None


class TestBlock(Struct, kw_only=True):
    """A test with its timeline and its checks."""

    __test__ = False  # pytest would collect a class whose name starts with Test

    test: TestDetail
    overlap: bool
    """Whether the begin of the steps is not known, because some ran at the same time."""
    steps: list[StepTexts]
    checks: list[CheckBlock]
    failed_checks: int


class VotesBlock(Struct, kw_only=True):
    """How often each answer came, for the filters that read the repeats in the same way."""

    names: str
    total: int
    counts: list[tuple[str, int]]


class ReplyBlock(Struct, kw_only=True):
    """A reply, and how often exactly this reply came."""

    count: int
    blocks: list[TextBlock]
    note: str


class PromptBlock(Struct, kw_only=True):
    """Some texts of a prompt. With a title they are a few-shot example, which is folded."""

    title: str
    texts: list[TextBlock]


class CallBlock(Struct, kw_only=True):
    """A prompt as it was sent, with its different replies, most frequent first."""

    count: int
    prompt: list[PromptBlock]
    params: str
    note: str
    replies: list[ReplyBlock]


class SectionBlock(Struct):
    """One section of the suite."""

    heading: str
    text: TextBlock | None
    table: Table | None


class ItemBlock(Struct, kw_only=True):
    """A retrieved item with its text cut."""

    hit: QuestionHit
    text: str


class EvidenceBlock(Struct, kw_only=True):
    """A piece of evidence with its text cut."""

    piece: EvidencePiece
    text: str


class QuestionTestBlock(Struct, kw_only=True):
    """One test of a question: its answer, and the retrieved items beside the evidence."""

    test: QuestionTest
    answer: TextBlock
    items: list[ItemBlock]
    evidence: list[EvidenceBlock]


class CaseBlocks:
    """Builds the blocks of a page, numbers their texts, and cuts all of them but one."""

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self._count = 0

    def block(self, heading: str, text: str, kind: str = "") -> TextBlock:
        """Return a text under a heading, cut unless the address asks for all of it."""
        self._count += 1
        name = f"text-{self._count}"
        return TextBlock(name, heading, preview(text, whole=name == self._whole), kind)

    def pair(self, pair: AnswerPair) -> PairBlock:
        """Return an expected and a found text with their differing words."""
        expected, found = (
            None if text is None else self.block(heading, text, kind)
            for heading, text, kind in (("expected", pair.expected, ""), ("found", pair.found, "reply"))
        )
        return PairBlock(
            name=pair.name,
            is_same=pair.expected == pair.found,
            expected=expected,
            found=found,
            # Only what is shown is compared: the time of a comparison grows with the square of the words.
            changes=word_changes(expected.text.text, found.text.text) if expected and found else [],
        )

    def test(self, test: TestDetail) -> TestBlock:
        """Return a test with its steps on a common axis of time."""
        known = [step for step in test.steps if step.seconds is not None]
        ends = [(step.start or 0.0) + (step.seconds or 0.0) for step in known]
        total = max(ends, default=0.0)
        steps = []
        for step in test.steps:
            length = step.seconds / total if step.seconds is not None and total else None
            steps.append(
                StepTexts(
                    step=step,
                    start=(step.start or 0.0) / total if total else 0.0,
                    length=length,
                    input=self.block("input", step.input, "user") if step.input else None,
                    output=self.block("output", step.output, "reply") if step.output else None,
                    error=self.block("error", step.error, "failed") if step.error else None,
                )
            )
        return TestBlock(
            test=test,
            overlap=any(step.start is None for step in known),
            steps=steps,
            checks=[_check(check) for check in test.checks],
            failed_checks=sum(check.passed is not True for check in test.checks),
        )

    def votes(self, votes: Sequence[AnswerVotes]) -> list[VotesBlock]:
        """Return the counts of answers. Filters with equal counts share one block."""
        names: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for each in votes:
            names.setdefault(tuple(each.counts), []).append(each.name)
        return [
            VotesBlock(
                names=", ".join(filter(None, filters)),
                total=sum(count for _, count in counts),
                counts=[(_short(text), count) for text, count in counts],
            )
            for counts, filters in names.items()
        ]

    def calls(
        self, calls: Sequence[Call], most: int | None, split: Callable[[Request], Sequence[PromptPiece]]
    ) -> list[CallBlock]:
        """Return the first `most` prompts with their replies. Equal requests are one prompt with several replies.

        `split` finds the few-shot examples of a prompt.
        """
        groups: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            groups.setdefault((call.stage, call.hash), []).append(call)
        return [self._call(group, split) for group in list(groups.values())[:most]]

    def _call(self, group: Sequence[Call], split: Callable[[Request], Sequence[PromptPiece]]) -> CallBlock:
        request = next((call.request for call in group if call.request is not None), None)
        replies: dict[tuple[str, str], list[Call]] = {}
        for call in group:
            replies.setdefault(_reply_key(call), []).append(call)
        first = group[0]
        prompt: list[PromptBlock] = []
        if request is not None:
            # What a scorer asks has no few-shot examples of the task.
            pieces = split(request) if first.stage == ASK else ()
            prompt = self._pieces(pieces, request) if pieces else self._messages(request)
        return CallBlock(
            count=len(group),
            prompt=prompt,
            params=json.dumps(request.shown_params, ensure_ascii=False) if request and request.shown_params else "",
            note="" if first.stage == ASK else f"asked by {first.stage.partition('@')[0]}",
            replies=[
                ReplyBlock(count=len(equal), blocks=self._reply(equal[0]), note=_call_note(equal))
                for equal in sorted(replies.values(), key=len, reverse=True)
            ],
        )

    def _pieces(self, pieces: Sequence[PromptPiece], request: Request) -> list[PromptBlock]:
        """Return a prompt whose few-shot examples are known."""
        blocks = []
        for example, group in groupby(pieces, key=lambda piece: piece.example):
            title = f"Example {example}" if example else ""
            texts = [self.block(each.heading or title, each.text, each.role) for each in group]
            blocks.append(PromptBlock(title=title, texts=texts))
        if request.continuation is not None:
            text = self.block("continuation", request.continuation, "assistant")
            blocks.append(PromptBlock(title="", texts=[text]))
        return blocks

    def _messages(self, request: Request) -> list[PromptBlock]:
        blocks = []
        messages = request.messages or []
        asked = [number for number, message in enumerate(messages) if message.get("role") == "user"]
        last = asked[-1] if asked else 0
        turn = 0
        for number, message in enumerate(messages):
            role = str(message.get("role"))
            turn += role == "user"
            # Examples of a few-shot prompt and earlier turns of a conversation are sent alike.
            heading = f"{role}, turn {turn} before the question" if turn and number < last else role
            blocks.append(self.block(heading, as_text(message.get("content")), role))
        if request.prompt is not None:
            blocks.append(self.block("prompt", request.prompt, "user"))
        if request.continuation is not None:
            blocks.append(self.block("continuation", request.continuation, "assistant"))
        return [PromptBlock(title="", texts=blocks)] if blocks else []

    def _reply(self, call: Call) -> list[TextBlock]:
        response = call.response
        if response is None or call.failure is not None:
            message = f"{call.failure.kind}: {call.failure.message}" if call.failure else "no reply"
            return [self.block("failed", message, "failed")]
        blocks = []
        if response.reasoning:
            blocks.append(self.block("reasoning", response.reasoning, "reasoning"))
        if isinstance(response.data, dict) and "logprob" in response.data:
            greedy = "greedy" if response.data.get("greedy") else "not greedy"
            blocks.append(self.block("log-likelihood", f"{response.data['logprob']:.4f}, {greedy}", "reply"))
        else:
            blocks.append(self.block("reply", response.text, "reply"))
        return blocks

    def sections(self, sections: Sequence[Section]) -> list[SectionBlock]:
        """Return the suite's sections. Lines without a heading go on in the block before them."""
        merged: list[Section] = []
        for section in sections:
            before = merged[-1] if merged else None
            if before and section.text and not section.heading and not section.table and not before.table:
                text = "\n".join(filter(None, (before.text, section.text)))
                merged[-1] = Section(heading=before.heading, text=text)
            else:
                merged.append(section)
        return [
            SectionBlock(each.heading, self.block(each.heading, each.text) if each.text else None, each.table)
            for each in merged
        ]

    def question_test(self, test: QuestionTest) -> QuestionTestBlock:
        """Return a test of a question with its texts."""
        answer = test.error or test.answer or "(no answer)"
        return QuestionTestBlock(
            test=test,
            answer=self.block("error" if test.error else "answer", answer, "failed" if test.error else "reply"),
            items=[ItemBlock(hit=hit, text=_short(hit.text or "")) for hit in test.items],
            evidence=[EvidenceBlock(piece=piece, text=_short(piece.text or "")) for piece in test.evidence],
        )


def _check(check: CheckDetail) -> CheckBlock:
    expected, found = (None if text is None else _short(text) for text in (check.expected, check.found))
    is_wrong = check.passed is False and expected is not None and found is not None
    changes = word_changes(expected or "", found or "") if is_wrong else []
    return CheckBlock(check=check, expected=expected, found=found, changes=changes)


def _short(text: str) -> str:
    return text if len(text) <= _SHORT_CHARS else f"{text[:_SHORT_CHARS]}… ({len(text):,} characters)"


def _reply_key(call: Call) -> tuple[str, str]:
    response = call.response
    if response is None or call.failure is not None:
        return "failed", f"{call.failure.kind}: {call.failure.message}" if call.failure else ""
    if isinstance(response.data, dict) and "logprob" in response.data:
        return "logprob", str(response.data["logprob"])
    return "text", response.text


def _call_note(calls: Sequence[Call]) -> str:
    """Return time, tokens and end of a reply; of equal replies the sums."""
    parts = [f"{sum(call.seconds for call in calls):.2f} s"]
    usages = [call.response.usage for call in calls if call.response is not None and call.response.usage]
    if usages:
        tokens = sum(each.input for each in usages), sum(each.output for each in usages)
        parts.append("{:,} + {:,} tokens".format(*tokens))
    ends = dict.fromkeys(call.response.finish for call in calls if call.response and call.response.finish)
    parts += [str(each) for each in ends]
    attempts = sum(call.attempts for call in calls)
    if attempts > len(calls):
        parts.append(f"{attempts:,} attempts")
    costs = [call.response.cost for call in calls if call.response and call.response.cost is not None]
    if costs:
        parts.append(f"cost {dollars(sum(costs))}")
    return ", ".join(parts)
