"""The page of one case: the prompts as they were sent, the replies, what the suite shows, the scores, and the JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from aiohttp import web
from msgspec import Struct

from assay import api
from assay.core.report import Table
from assay.core.suite import CaseView, Section
from assay.core.types import Call, Failure, Score
from assay.store.open_run import OpenRun
from assay.view.row_query import RowQuery
from assay.view.site import SITE
from assay.view.text import Preview, as_text, preview

# A case of many questions has a call for each of them. More are shown on demand.
MAX_CALLS = 20
# A conversation has thousands of scores.
MAX_SCORES = 200


class TextBlock(Struct):
    """A text with a heading. `id` names it in the address that shows all of it."""

    id: str
    heading: str
    text: Preview
    kind: str = ""


class CallBlock(Struct):
    """One call: the messages as they were sent (empty if they equal those of the call before), and the reply."""

    messages: list[TextBlock]
    is_repeat: bool
    params: str
    reply: list[TextBlock]
    note: str


class SectionBlock(Struct):
    """One section of the suite."""

    heading: str
    text: TextBlock | None
    table: Table | None


class CasePage(Struct, kw_only=True):
    """The values of `case.html`."""

    name: str
    run_title: str
    index: int
    case: CaseView
    title: str
    failure: Failure | None
    traceback: TextBlock | None
    calls: list[CallBlock]
    all_calls: int
    sections: list[SectionBlock]
    scores: list[Score]
    """The scores that count, at most MAX_SCORES."""
    hidden_scores: int
    raw: TextBlock
    query: RowQuery
    before: int | None
    after: int | None
    here: str
    """The address of this page, up to the parameters that show more."""


async def show(request: web.Request) -> web.StreamResponse:
    """Show a case. `?whole=ID` shows a text that is cut by default, `?calls=all` all calls."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    name, index = site.name(folder) or "", int(request.match_info["index"])
    query = RowQuery.parse(request.query)
    whole, all_calls = request.query.get("whole", ""), request.query.get("calls") == "all"

    def read(run: OpenRun) -> CasePage:
        blocks = _CaseBlocks(whole)
        return blocks.page(run, index, name, query, all_calls=all_calls)

    return site.render("case.html", await site.runs.ask(folder, read))


async def show_raw(request: web.Request) -> web.StreamResponse:
    """Return everything that the journal has about a case, as JSON."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    index = int(request.match_info["index"])
    body = await site.runs.ask(folder, lambda run: _raw(run.case(index)))
    return web.Response(body=body.encode(errors="replace"), content_type="application/json", charset="utf-8")


class _CaseBlocks:
    """Builds the blocks of a case page, numbers their texts, and cuts all of them but one."""

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self._count = 0

    def page(self, run: OpenRun, index: int, name: str, query: RowQuery, *, all_calls: bool) -> CasePage:
        case = run.case(index)
        end = case.end
        shown = case.calls if all_calls else case.calls[:MAX_CALLS]
        scores = [score for score in case.scores if not score.interim][:MAX_SCORES]
        before, after = query.neighbours(run, index)
        trace = end.failure.traceback if end.failure else ""
        return CasePage(
            name=name,
            run_title=run.folder.name,
            index=index,
            case=case,
            title=end.label or end.case,
            failure=end.failure,
            traceback=self._block("traceback", trace) if trace else None,
            calls=self._calls(shown),
            all_calls=len(case.calls),
            sections=self._sections(api.case_sections(run.info.suite, case)),
            scores=scores,
            hidden_scores=len(case.scores) - len(scores),
            raw=self._block("JSON of the journal", _raw(case)),
            query=query,
            before=before,
            after=after,
            here=query.here,
        )

    def _block(self, heading: str, text: str, kind: str = "") -> TextBlock:
        self._count += 1
        name = f"text-{self._count}"
        return TextBlock(name, heading, preview(text, whole=name == self._whole), kind)

    def _calls(self, calls: Sequence[Call]) -> list[CallBlock]:
        blocks = []
        for call in calls:
            request = call.request
            messages = []
            if request is not None:
                for message in request.messages or []:
                    role = str(message.get("role"))
                    messages.append(self._block(role, as_text(message.get("content")), role))
                if request.prompt is not None:
                    messages.append(self._block("prompt", request.prompt, "user"))
                if request.continuation is not None:
                    messages.append(self._block("continuation", request.continuation, "assistant"))
            params = json.dumps(request.params, ensure_ascii=False) if request and request.params else ""
            blocks.append(CallBlock(messages, request is None, params, self._reply(call), _call_note(call)))
        return blocks

    def _reply(self, call: Call) -> list[TextBlock]:
        response = call.response
        if response is None:
            message = f"{call.failure.kind}: {call.failure.message}" if call.failure else "no reply"
            return [self._block("failed", message, "failed")]
        blocks = []
        if response.reasoning:
            blocks.append(self._block("reasoning", response.reasoning, "reasoning"))
        if isinstance(response.data, dict) and "logprob" in response.data:
            greedy = "greedy" if response.data.get("greedy") else "not greedy"
            blocks.append(self._block("log-likelihood", f"{response.data['logprob']:.4f}, {greedy}", "reply"))
        else:
            blocks.append(self._block("reply", response.text, "reply"))
        return blocks

    def _sections(self, sections: Sequence[Section]) -> list[SectionBlock]:
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
            SectionBlock(
                each.heading, self._block(each.heading, each.text) if each.text else None, each.table
            )
            for each in merged
        ]


def _call_note(call: Call) -> str:
    parts = [f"{call.seconds:.2f} s"]
    response = call.response
    if response is not None and response.usage is not None:
        parts.append(f"{response.usage.input:,} + {response.usage.output:,} tokens")
    if response is not None and response.finish:
        parts.append(response.finish)
    if call.attempts > 1:
        parts.append(f"{call.attempts} attempts")
    if call.stage != "ask":
        parts.append(f"asked by {call.stage.partition('@')[0]}")
    return ", ".join(parts)


def _raw(case: CaseView) -> str:
    """Return the end, calls, records and scores of a case as indented JSON."""
    parts = {"end": case.end, "calls": case.calls, "records": case.records, "scores": case.scores}
    if case.row is not None:
        parts["row"] = case.row
    return msgspec.json.format(msgspec.json.encode(parts), indent=2).decode()
