"""Two cases beside each other: prompts, replies, answers, failures and scores, and what differs in each text.

    diff = compare_cases(left, right)
    for pair in diff.texts:
        pair.name, pair.words      # [Change("same", "It is "), Change("removed", "6"), Change("added", "7")]

The texts are raw: models wrote them. The command line and Markdown escape them in their own way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from assay.core.suite_pages import StoredCase, as_text
from assay.core.types import ASK, Call, Request
from assay.store.render.flips import Change, common_ends, word_changes
from assay.store.render.tables import NOT_MEASURED, TextTable

# Texts with more lines are compared line by line, unless the lines are whole paragraphs.
_MAX_LINES, _LONG_LINE = 6, 200
# difflib needs quadratic time in the lines that differ. A longer middle is shown as removed and added as a whole.
_MAX_DIFFERENT_LINES = 2000
# Lines, or characters, of unchanged text that are shown on each side of a change.
_CONTEXT_LINES, _CONTEXT_CHARS = 3, 200
SKIPPED = "…"


class TextPair(NamedTuple):
    """One text of both cases. None is a text that only the other case has."""

    name: str
    left: str | None
    right: str | None

    @property
    def same(self) -> bool:
        """Whether both cases have the same text."""
        return self.left == self.right

    @property
    def by_line(self) -> bool:
        """Whether to show the lines that differ. Else the words that differ tell more."""
        texts = [text for text in (self.left, self.right) if text is not None]
        lines = max(text.count("\n") + 1 for text in texts)
        return lines > _MAX_LINES and max(map(len, texts)) / lines < _LONG_LINE

    @property
    def lines(self) -> list[Change]:
        """The lines that differ, with unchanged lines around them, in order."""
        if self.left is None or self.right is None:
            kind: Literal["added", "removed"] = "added" if self.left is None else "removed"
            return [Change(kind, line) for line in (self.left or self.right or "").split("\n")]
        return line_changes(self.left, self.right)

    @property
    def words(self) -> list[Change]:
        """The words that differ, with the text around them, in order. Empty if the texts have too little in common."""
        changes = word_changes(self.left or "", self.right or "")
        last = len(changes) - 1
        return [
            _cut_middle(change, at_start=number == 0, at_end=number == last) for number, change in enumerate(changes)
        ]


class CaseDiff(NamedTuple):
    """Two cases: their texts, their scores, and whether they are about the same row of the data."""

    texts: list[TextPair]
    scores: TextTable
    same_row: bool


def compare_cases(left: StoredCase, right: StoredCase) -> CaseDiff:
    """Compare two cases. Texts are paired by their names: the first prompt with the first prompt."""
    left_texts, right_texts = case_texts(left), case_texts(right)
    names = dict.fromkeys([*left_texts, *right_texts])
    pairs = [TextPair(name, left_texts.get(name), right_texts.get(name)) for name in names]
    # An equal row has the same content.
    same_row = left.end.case.partition("~")[0] == right.end.case.partition("~")[0]
    scores = TextTable(["score", "left", "right"], score_rows([left, right]))
    return CaseDiff(pairs, scores, same_row)


def case_texts(case: StoredCase) -> dict[str, str]:
    """Return the texts of a case by name: each prompt with its replies, the answer, the failure, reasons of scores."""
    texts: dict[str, str] = {}
    prompts = 0
    for call in case.calls:
        if call.stage != ASK:
            continue  # what a judge was asked follows from the answer
        if call.request is not None:
            prompts += 1
            texts[f"prompt {prompts}"] = _request_text(call.request)
            texts[f"parameters {prompts}"] = json.dumps(call.request.shown_params, ensure_ascii=False)
        repeat = f", repeat {call.n + 1}" if call.n else ""
        texts |= _reply_texts(call, f"{prompts}{repeat}")
    for record in case.records:
        if record.kind == "answer":
            name = f"answer {record.part}".strip()
            data = record.data
            while isinstance(data, list) and len(data) == 1:
                data = data[0]
            text = as_text(data)
            # The answer of a task is the reply itself.
            if text != texts.get("reply 1"):
                texts[name] = text
    if case.end.failure:
        texts["failure"] = f"{case.end.failure.kind}: {case.end.failure.message}"
    for score in case.scores:
        if score.reason and not score.interim:
            texts[f"reason for {_score_name(score.metric, score.part)}"] = score.reason
    return texts


def prompt_text(call: Call, calls: Sequence[Call]) -> str:
    """Return the whole prompt of a call. Of equal requests, only the first one has it."""
    request = call.request or next((each.request for each in calls if each.hash == call.hash and each.request), None)
    return "" if request is None else _request_text(request)


def _request_text(request: Request) -> str:
    if request.messages is not None:
        return "\n".join(f"[{each.get('role')}]\n{as_text(each.get('content'))}" for each in request.messages)
    text = request.prompt or ""
    return text if request.continuation is None else f"{text}{request.continuation}"


def _reply_texts(call: Call, name: str) -> dict[str, str]:
    response = call.response
    if response is None or call.failure is not None:
        message = f"{call.failure.kind}: {call.failure.message}" if call.failure else "none"
        return {f"reply {name}": f"(failed) {message}"}
    if isinstance(response.data, dict) and "logprob" in response.data:
        return {f"log-likelihood {name}": f"{response.data['logprob']:.4f}"}
    texts = {f"reasoning {name}": response.reasoning} if response.reasoning else {}
    return {**texts, f"reply {name}": response.text}


def _score_name(metric: str, part: str) -> str:
    return f"{metric},{part}" if part else metric


def score_rows(cases: Sequence[StoredCase | None]) -> list[list[str]]:
    """Return a row for each score: its name, and its value in each case; empty for a case that does not have it."""
    sides = [[score for score in case.scores if not score.interim] if case else [] for case in cases]
    counts = [Counter(score.metric for score in scores) for scores in sides]
    cells: dict[str, dict[int, str]] = {}
    for side, scores in enumerate(sides):
        for score in scores:
            value = NOT_MEASURED if score.value is None else f"{score.value:g}"
            status = "" if score.status == "scored" else f" ({score.status})"
            # Two tests of a pipeline have one score each, whose part is the name of the test.
            single = all(count[score.metric] == 1 for count, case in zip(counts, cases, strict=True) if case)
            name = score.metric if single else _score_name(score.metric, score.part)
            cells.setdefault(name, {})[side] = value + status
    return [[name, *(values.get(side, "") for side in range(len(cases)))] for name, values in cells.items()]


def line_changes(before: str, after: str) -> list[Change]:
    """Return the lines that differ with the lines around them. Skipped lines are one change with the text `…`."""
    old, new = before.split("\n"), after.split("\n")
    start, end = common_ends(old, new)
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    changes = [Change("same", line) for line in old[:start]]
    if max(len(middle_old), len(middle_new)) > _MAX_DIFFERENT_LINES:
        changes += [Change("removed", line) for line in middle_old]
        changes += [Change("added", line) for line in middle_new]
    else:
        for kind, i, j, k, m in SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_opcodes():
            if kind == "equal":
                changes += [Change("same", line) for line in middle_old[i:j]]
            else:
                changes += [Change("removed", line) for line in middle_old[i:j]]
                changes += [Change("added", line) for line in middle_new[k:m]]
    changes += [Change("same", line) for line in old[len(old) - end :]]
    return _around_changes(changes)


def _around_changes(lines: Sequence[Change]) -> list[Change]:
    near: set[int] = set()
    for number, line in enumerate(lines):
        if line.kind != "same":
            near.update(range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1))
    shown: list[Change] = []
    for number, line in enumerate(lines):
        if number in near:
            shown.append(line)
        elif not shown or shown[-1].text != SKIPPED or number - 1 in near:
            shown.append(Change("same", SKIPPED))
    return shown


def _cut_middle(change: Change, *, at_start: bool, at_end: bool) -> Change:
    """Return an unchanged text without the part that is far from any change."""
    text = change.text
    sides = 2 - at_start - at_end
    if change.kind != "same" or len(text) <= (sides + 1) * _CONTEXT_CHARS:
        return change
    head = "" if at_start else text[:_CONTEXT_CHARS]
    tail = "" if at_end else text[-_CONTEXT_CHARS:]
    return Change("same", f"{head} {SKIPPED} {tail}")
