"""The page of one case: expected and found, steps, questions, verdicts, prompts with their replies, scores, JSON.

What a suite knows about its own format comes from `SuitePages.details`. The blocks of texts are in `case_blocks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from msgspec import Struct

from assay.core.case_details import QuestionDetail, QuestionLine, VerdictDetail, verdict_details
from assay.core.errors import UsageError
from assay.core.suite_pages import StoredCase
from assay.core.types import Failure, Score
from assay.runner import api
from assay.store.comparison.case_pages import FlippedRows
from assay.store.open_run import OpenRun
from assay.store.render.case_diff import prompt_text
from assay.store.runs import origin_of
from assay.view.flipped import compare_address, flipped_rows
from assay.view.pages.case_blocks import (
    CallBlock,
    CaseBlocks,
    PairBlock,
    QuestionTestBlock,
    SectionBlock,
    TestBlock,
    VotesBlock,
)
from assay.view.row_query import RowQuery
from assay.view.site import SITE
from assay.view.text import TextBlock

# Prompts and tests on a page. More are shown on demand: a case may have a thousand of them.
MAX_CALLS, MAX_TESTS = 20, 20
# A conversation has thousands of scores.
MAX_SCORES = 200
# Memories whose answers to a question are shown beside each other.
_MAX_MEMORIES = 8


class JudgeColumn(Struct, kw_only=True):
    """The verdicts of one judge, by what was judged. `counts` is False for a judge that was replaced by another."""

    name: str
    counts: bool
    verdicts: dict[str, VerdictDetail]


class QuestionLife(Struct, kw_only=True):
    """One question as one memory answered it in every test."""

    subject: str
    index: int
    question: QuestionDetail
    test: QuestionTestBlock
    """The test whose answer and retrieved items are shown."""


class RetriedCall(Struct, kw_only=True):
    """A call that needed more than one attempt, or failed."""

    number: int
    try_: int
    attempts: int
    seconds: float
    outcome: str
    traceback: TextBlock | None


class CasePage(Struct, kw_only=True):
    """The values of `case.html`."""

    name: str
    run_title: str
    suite: str
    remark: str
    """Why the page is not the suite's own; empty if it is."""
    index: int
    part: str
    test: str
    """The test of the question that the address names."""
    case: StoredCase
    title: str
    failure: Failure | None
    traceback: TextBlock | None
    lives: list[QuestionLife]
    pairs: list[PairBlock]
    tests: list[TestBlock]
    all_tests: int
    questions: list[QuestionLine]
    judges: list[JudgeColumn]
    judged: list[str]
    """What was judged: the rows of the table of verdicts."""
    votes: list[VotesBlock]
    calls: list[CallBlock]
    all_calls: int
    """Calls of the case. `calls` has equal prompts once."""
    some_calls: int
    """Calls that `calls` shows."""
    retried: list[RetriedCall]
    sections: list[SectionBlock]
    scores: list[Score]
    """The scores that count, at most MAX_SCORES."""
    hidden_scores: int
    raw: TextBlock
    query: RowQuery
    before: str | None
    after: str | None
    """The addresses of the rows before and after this one."""
    here: str
    """The address of this page, up to the parameters that show more."""
    has_sessions: bool
    compared: str
    """The address of this row beside that of the run `query.against`; empty if there is none, or it did not flip."""


async def show(request: web.Request) -> web.StreamResponse:
    """Show a case. `?part=` names a question or a test, `?whole=ID` shows a text that is cut by default."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    name, index = site.name(folder) or "", int(request.match_info["index"])
    query = RowQuery.parse(request.query)
    flipped = await flipped_rows(site, folder, query)
    reader = _CasePageReader(name, index, query, dict(request.query), flipped)
    return site.render("case.html", await site.runs.ask(folder, reader.read))


async def show_raw(request: web.Request) -> web.StreamResponse:
    """Return everything that the journal has about a case, as JSON."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    index = int(request.match_info["index"])
    body = await site.runs.ask(folder, lambda run: _raw(run.case(index)))
    return web.Response(body=body.encode(errors="replace"), content_type="application/json", charset="utf-8")


class _CasePageReader:
    """Reads one page. `values` are the values in its address."""

    def __init__(
        self, name: str, index: int, query: RowQuery, values: dict[str, str], flipped: FlippedRows | None
    ) -> None:
        self._name = name
        self._index = index
        self._query = query
        self._flipped = flipped
        self._part = values.get("part", "")
        # The part of a row is TEST/QUESTION. The row of an early test opens at this test, not at the last one.
        self._test = values.get("test") or self._part.rpartition("/")[0]
        self._all = {kind for kind in ("calls", "tests") if values.get(kind) == "all"}
        self._blocks = CaseBlocks(values.get("whole", ""))

    def read(self, run: OpenRun) -> CasePage:
        whole = case = run.case(self._index)
        end, blocks = case.end, self._blocks
        remarks: list[str] = []
        pages = api.suite_pages(run.info.suite, remarks.append)
        lives: list[QuestionLife] = []
        title = ""
        if pages.has_questions and self._part:
            lives = self._lives(run, case)
            if lives:
                title = lives[0].question.text
            else:
                case = self._only_part(case)
                title = next((score.label for score in case.scores if score.label), "")
        details = pages.details(case)
        tests = details.tests
        if self._part and any(test.name == self._part for test in tests):
            tests = [test for test in tests if test.name == self._part]
        calls = case.calls
        if title:
            calls = [call for call in calls if title in prompt_text(call, calls)] or calls
        scores = [score for score in case.scores if not score.interim][:MAX_SCORES]
        judges = self._judges(run, whole, lambda score: case is whole or score.part == self._part)
        origin = origin_of(run.folder, run.info)
        groups = blocks.calls(
            calls,
            None if "calls" in self._all else MAX_CALLS,
            lambda request: pages.prompt_pieces(request, whole, origin),
        )
        trace = end.failure.traceback if end.failure else ""
        before, after = self._neighbours(run)
        return CasePage(
            name=self._name,
            run_title=run.folder.name,
            suite=run.info.suite,
            remark=" ".join(remarks),
            index=self._index,
            part=self._part,
            test=self._test,
            case=case,
            title=title or (self._part if case is not whole else "") or end.label or end.case,
            failure=end.failure,
            traceback=blocks.block("traceback", trace) if trace else None,
            lives=lives,
            pairs=[blocks.pair(pair) for pair in details.pairs],
            tests=[blocks.test(test) for test in (tests if "tests" in self._all else tests[:MAX_TESTS])],
            all_tests=len(tests),
            questions=details.questions,
            judges=judges,
            judged=list(dict.fromkeys(name for judge in judges for name in judge.verdicts)),
            votes=blocks.votes(details.votes),
            calls=groups,
            all_calls=len(case.calls),
            some_calls=sum(group.count for group in groups),
            retried=self._retried(case),
            sections=blocks.sections(pages.sections(case)),
            scores=scores,
            hidden_scores=len(case.scores) - len(scores),
            raw=blocks.block("JSON of the journal", _raw(whole)),
            query=self._query,
            before=before,
            after=after,
            here=self._query.here + (f"&{urlencode({'part': self._part}, errors='replace')}" if self._part else ""),
            has_sessions=any(record.kind == "session" for record in whole.records),
            compared=compare_address(self._query, self._name, self._index, self._part)
            if self._flipped is not None and self._flipped.changes(self._index, self._part)
            else "",
        )

    def _lives(self, run: OpenRun, case: StoredCase) -> list[QuestionLife]:
        """Return the question of the address as each memory answered it, this case's memory first.

        Empty if the part is no question, such as a session.
        """
        pages = api.suite_pages(run.info.suite)
        origin = origin_of(run.folder, run.info)
        lives = []
        for other in [case, *same_row(run, case)][:_MAX_MEMORIES]:
            question = pages.question_detail(other, self._part, origin)
            if question is None or not question.tests:
                continue
            shown = next((test for test in question.tests if test.test == self._test), question.tests[-1])
            lives.append(
                QuestionLife(
                    subject=other.end.subject,
                    index=other.end.index,
                    question=question,
                    test=self._blocks.question_test(shown),
                )
            )
        return lives

    def _only_part(self, case: StoredCase) -> StoredCase:
        """Return the records and scores of the part, such as a session or a point of a sample.

        Without calls: a prompt does not say which part it is about.
        """
        scores = [score for score in case.scores if score.part == self._part]
        if not scores:
            raise UsageError(f"case {self._index} has no part {self._part!r}")
        records = [record for record in case.records if record.part == self._part]
        return case._replace(records=records, scores=scores, calls=())

    def _judges(self, run: OpenRun, case: StoredCase, is_shown: Callable[[Score], bool]) -> list[JudgeColumn]:
        """Return a column for the judge that counts, and one for each judge that it replaced."""
        report = run.summary()
        names = [judge.name for judge in report.report.judges(case.end.subject)] if report and report.report else []
        verdicts = verdict_details(filter(is_shown, case.scores))
        columns = []
        if verdicts:
            columns.append(_judge_column(" and ".join(dict.fromkeys(names)) or "judge", verdicts, counts=True))
        for scorer, scores in run.earlier_scores(self._index).items():
            models = [call.request.model for call in case.calls if call.stage == scorer and call.request]
            earlier = verdict_details(filter(is_shown, scores))
            if earlier:
                columns.append(_judge_column(models[0] if models else scorer, earlier, counts=False))
        return columns

    def _retried(self, case: StoredCase) -> list[RetriedCall]:
        """Return the calls that were retried or failed, and those of a later try."""
        retried = []
        for number, call in enumerate(case.calls, 1):
            failure = call.failure
            if call.attempts <= 1 and failure is None and call.try_ <= 1:
                continue
            outcome = "reply" if failure is None else f"{failure.kind}: {failure.message}"
            if failure is not None and failure.http:
                outcome += f" (HTTP {failure.http})"
            trace = failure.traceback if failure is not None else ""
            retried.append(
                RetriedCall(
                    number=number,
                    try_=call.try_,
                    attempts=call.attempts,
                    seconds=call.seconds,
                    outcome=outcome,
                    traceback=self._blocks.block("traceback", trace) if trace else None,
                )
            )
        return retried

    def _neighbours(self, run: OpenRun) -> tuple[str | None, str | None]:
        """Return the addresses of the rows before and after this one in the table that the reader came from."""
        if not self._part:
            indexes = self._query.neighbours(run, self._index, self._flipped)
            before, after = (None if index is None else self._address(index, "") for index in indexes)
            return before, after
        table, order = run.table(), run.rows(self._query.selection, self._flipped)
        places = (table.case[order] == self._index).nonzero()[0]
        parts = [row.part for row in table.read(order[places])]
        if self._part not in parts:
            return None, None
        at = int(places[parts.index(self._part)])
        addresses: list[str | None] = []
        for place in (at - 1, at + 1):
            if 0 <= place < len(order):
                (row,) = table.read(order[place : place + 1])
                addresses.append(self._address(row.end.index, row.part))
            else:
                addresses.append(None)
        return addresses[0], addresses[1]

    def _address(self, index: int, part: str) -> str:
        return case_address(self._name, index, self._query, part)


def case_address(name: str, index: int, query: RowQuery, part: str = "") -> str:
    """Return the address of a case, or of a question or test of it, that keeps the filters of the table."""
    address = f"/case/{index}/{name}{query.here}"
    return address + f"&{urlencode({'part': part}, errors='replace')}" if part else address


def same_row(run: OpenRun, case: StoredCase) -> list[StoredCase]:
    """Return the cases of the same row of the data with the other subjects, in the order of the subjects."""
    count = len(run.table().subjects)
    first = case.end.index - case.end.index % count if count else 0
    others = []
    for index in range(first, first + count):
        if index == case.end.index:
            continue
        try:
            other = run.case(index)
        except UsageError:
            continue  # it has not ended
        if (other.end.case, other.end.set) == (case.end.case, case.end.set):
            others.append(other)
    return others


def _judge_column(name: str, verdicts: list[VerdictDetail], *, counts: bool) -> JudgeColumn:
    return JudgeColumn(name=name, counts=counts, verdicts={verdict.name: verdict for verdict in verdicts})


def _raw(case: StoredCase) -> str:
    """Return the end, calls, records and scores of a case as indented JSON."""
    parts: dict[str, Any] = {
        "end": case.end,
        "calls": case.calls,
        "records": case.records,
        "scores": case.scores,
    }
    if case.row is not None:
        parts["row"] = case.row
    return msgspec.json.format(msgspec.json.encode(parts), indent=2).decode()
