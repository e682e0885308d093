"""The views that queries see: one vocabulary for the runs of all suites.

Every view is a SELECT over the lines of the journal (`sources.py`) or over the tables of `tables.py`. The order of the
columns is the order in the documentation. A join is left out of a query that reads none of the columns that need it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from assay.journal.line_types import CALLS, RECORDS, SCORES
from assay.store.sql.guard import CheckedQuery


class Relation(Protocol):
    """Returns the SELECT of the counting lines of a journal file: `JournalFiles.relation`."""

    def __call__(self, name: str, suite: str = "", **types: str) -> str: ...


class SqlView(NamedTuple):
    """One view: its columns with their meaning, and the function that writes its SELECT."""

    name: str
    about: str
    columns: dict[str, str]
    select: Callable[[Relation, CheckedQuery], str]


# Columns that all views of cases share.
_HEAD = {
    "run": "name of the run's folder",
    "suite": "task, pipeline, hop, memory-test, memory-eval, calibration, evaluate, or your own",
    "index": "number of the case in data order, from 0",
    "key": "key of the case: a hash of its row, equal in all runs of the same data",
    "set": "data set or task",
    "subject": "what is evaluated: model, variant, profile or memory",
}
_HEAD_SQL = 'run, suite, "index", "case" as key, "set", subject'
# An end is a field of the case's last line, or a line of its own.
_ENDS = "(\"end\" is not null or type = 'end')"


def _end(field: str) -> str:
    return f'coalesce("end".{field}, {field})'


def _text(column: str) -> str:
    """Return the SQL for a JSON value as text: a string without its quotes, anything else as JSON."""
    other = f"when 'NULL' then null else {column}::varchar"
    return f"case json_type({column}) when 'VARCHAR' then {column} ->> '$' {other} end"


def _tokens(usage: str, kind: str) -> str:
    # Usage leaves a count of 0 out. Without usage, the count is unknown.
    return f"case when {usage} is not null then coalesce({usage}.{kind}, 0) end"


# A memory test numbers the questions of a conversation; its part is TEST/QUESTION.
# Of the parts of a memory-eval sample, only questions end in a number: sessions are S01, memory points S01/mp_1.
_QUESTION = """case when suite = 'memory-test' then split_part(part, '/', 2)
  when suite = 'memory-eval' and regexp_matches(part, '/[0-9]+$') then part end"""


def _runs(relation: Relation, query: CheckedQuery) -> str:
    if not query.reads("runs", {"cost"}):
        return "select *, null::double as cost from run_table"
    costs = f"""select run, sum(response.cost) as cost from ({relation(CALLS)})
      where response.cost is not null and (imported or coalesce(attempts, 1) > 0) group by run"""
    return f"select run_table.*, costs.cost from run_table left join ({costs}) costs using (run)"


def _cases(relation: Relation, query: CheckedQuery) -> str:
    return f"""select {_HEAD_SQL}, {_end("label")} as label, coalesce({_end("tags")}, []) as tags,
      coalesce({_end("status")}, 'ok') as status, {_end("failure")}.kind as error_kind,
      {_end("failure")}.message as error, coalesce("end"."try", "try", 1) as "try",
      coalesce({_end("calls")}, 0) as calls, {_tokens(_end("usage"), "input")} as input_tokens,
      {_tokens(_end("usage"), "output")} as output_tokens,
      case when imported then nullif({_end("seconds")}, 0) else coalesce({_end("seconds")}, 0) end as seconds
      from ({relation(RECORDS)}) where {_ENDS}"""


def _failures(relation: Relation, query: CheckedQuery) -> str:
    failure = _end("failure")
    return f"""select {_HEAD_SQL}, {_end("label")} as label, coalesce({_end("tags")}, []) as tags,
      {_end("status")} as status, {failure}.kind as kind, {failure}.message as message,
      {failure}."where" as place, {failure}.http as http, {failure}.traceback as traceback
      from ({relation(RECORDS)}) where {_ENDS} and {_end("status")} <> 'ok'"""


def _answers(relation: Relation, query: CheckedQuery) -> str:
    # A task keeps a list of replies per request, a pipeline its outputs, a function its status and result.
    text = f"""case
      when suite = 'task' and json_type(data, '$[0][0]') is not null then data ->> '$[0][0]'
      when json_type(data) = 'OBJECT' and suite <> 'evaluate'
        then coalesce(data ->> '$.answer', data ->> '$.outputs', data ->> '$.result', data::varchar)
      else {_text("data")} end"""
    return f"""select {_HEAD_SQL}, coalesce(part, '') as part, {_QUESTION} as question, {text} as answer, data
      from ({relation(RECORDS)}) where kind = 'answer'"""


def _steps(relation: Relation, query: CheckedQuery) -> str:
    # A suite of a user may store anything under these names.
    return f"""select {_HEAD_SQL}, part, kind,
      coalesce(data ->> '$.op', regexp_extract(part, '[^/]*$')) as step,
      data ->> '$.status' as status, data ->> '$.output' as output,
      coalesce(data ->> '$.error', data ->> '$.why', data ->> '$.metadata.reason') as error,
      try_cast(coalesce(data ->> '$.attempts', data ->> '$.retry_count') as bigint) as attempts,
      try_cast(data ->> '$.calls' as bigint) as calls,
      try_cast(data ->> '$.tokens.input' as bigint) as input_tokens,
      try_cast(data ->> '$.tokens.output' as bigint) as output_tokens,
      try_cast(coalesce(data ->> '$.seconds', data ->> '$.duration') as double) as seconds, data
      from ({relation(RECORDS)}) where kind not in ('answer', 'fed', 'used', 'imported')"""


def _scores(relation: Relation, query: CheckedQuery) -> str:
    source, tags, label, expected = f"({relation(SCORES)}) s", "s.tags", "s.label", _text("s.expected")
    if query.reads("scores", _OF_FINAL_SCORE):
        # Interim scores leave these columns out: the final scores of the same question have them.
        finals = f"""select number, "index", split_part(part, '/', 2) as question, any_value(tags) as final_tags,
            any_value(label) as final_label, any_value(expected) as final_expected
          from ({relation(SCORES, "memory-test")})
          where type = 'score' and not coalesce(interim, false) group by all"""
        source += f""" left join ({finals}) f on s.interim and s.number = f.number and s."index" = f."index"
          and split_part(s.part, '/', 2) = f.question"""
        tags, label = "coalesce(s.tags, f.final_tags)", "coalesce(s.label, f.final_label)"
        expected = f"coalesce({expected}, {_text('f.final_expected')})"
    if query.reads("scores", _OF_CASE):
        ends = f"""select number, "index", {_end("tags")} as case_tags, {_end("label")} as case_label
          from ({relation(RECORDS, end="STRUCT(label VARCHAR, tags VARCHAR[])")}) where {_ENDS}"""
        source += f' left join ({ends}) c on s.number = c.number and s."index" = c."index"'
        tags, label = f"coalesce({tags}, c.case_tags)", f"coalesce({label}, c.case_label)"
    return f"""select run, suite, s."index", "case" as key, "set", subject, metric, value,
      coalesce(status, 'scored') as status, coalesce(part, '') as part,
      case when parts = 'filters' then part end as filter, {_QUESTION} as question,
      {label} as label, coalesce({tags}, []) as tags, {expected} as expected, reason, scorer,
      coalesce(interim, false) as interim, data
      from {source} where s.type = 'score'"""


_OF_CASE = frozenset({"tags", "label"})
_OF_FINAL_SCORE = _OF_CASE | {"expected"}


def _metrics(relation: Relation, query: CheckedQuery) -> str:
    return "select * from metric_table"


# Several judges may decide one metric, for example of two subjects.
_JUDGES = "select run, metric, string_agg(distinct judge, ', ' order by judge) as judge from judge_table group by all"


def _judgements(relation: Relation, query: CheckedQuery) -> str:
    head = 'run, suite, "index", key, "set", subject'
    scores = _scores(
        relation,
        replace(query, views=frozenset({"scores"})) if query.reads("judgements", _OF_FINAL_SCORE) else query,
    )
    return f"""with scores as ({scores})
      select {head}, metric, judges.judge, part, question, label, tags, value, status,
        coalesce(data ->> '$.label', data ->> '$.labels[0]', data ->> '$.verdict') as verdict, reason,
        data ->> '$.answer' as answer, expected, data -> '$.votes' as votes
      from scores left join ({_JUDGES}) judges using (run, metric)
      where suite <> 'pipeline' and (judges.judge is not null or regexp_matches(scorer, '^judged?@'))
      union all
      select {head}, metric, (select any_value(judge) from judge_table j where j.run = checked.run), part, question,
        label, tags, (chk ->> '$.passed')::boolean::integer::double,
        if(chk ->> '$.passed' is null, 'invalid', 'scored'),
        case chk ->> '$.passed' when 'true' then 'passed' when 'false' then 'failed' end, chk ->> '$.why',
        chk ->> '$.actual', chk ->> '$.expected', null
      from (select *, unnest(from_json(data -> '$.checks', '["JSON"]')) as chk from scores
        where suite = 'pipeline') checked
      where chk ->> '$.kind' = 'judge'"""


def _calls(relation: Relation, query: CheckedQuery) -> str:
    lines = f"({relation(CALLS)})"
    if query.reads("calls", _OF_REQUEST):
        # Of equal requests of a case, only the first call has the request.
        keys = 'number, "index", stage, hash'
        lines = f"""(with lines as ({relation(CALLS)}),
          repeats as materialized (select * from lines where request is null),
          firsts as (select {keys}, any_value(request) as first from lines
            where request is not null and ({keys}) in (select {keys} from repeats) group by {keys})
          select * from lines where request is not null
          union all select repeats.* replace (first as request) from repeats left join firsts using ({keys}))"""
    return f"""select run, suite, nullif("index", -1) as "index", nullif("case", '') as key, nullif("set", '') as "set",
      nullif(subject, '') as subject, stage, "try", request.model as model,
      coalesce(request.prompt, request.messages::varchar) as prompt, request.continuation as continuation,
      coalesce(request.sdk, request.params) as params, case when failure is null then response.text end as reply,
      response.reasoning as reasoning, response.finish as finish,
      failure.kind as error_kind, failure.message as error, failure.http as http,
      coalesce(attempts, 1) as attempts,
      case when coalesce(attempts, 1) = 0 then nullif(seconds, 0) else coalesce(seconds, 0) end as seconds,
      {_tokens("response.usage", "input")} as input_tokens, {_tokens("response.usage", "output")} as output_tokens,
      response.cost as cost, response.price_table as price_table, response.address as address, hash, n,
      response.data as data
      from {lines}"""


_OF_REQUEST = frozenset({"model", "prompt", "continuation", "params"})

_ROW = {
    "part": "part of the case that the score is about: filter, test or question; empty without parts",
    "question": "number of the question in its conversation (memory-test) or CHECKPOINT/NUMBER (memory-eval)",
    "label": "name for people: id of the row or test, text of the question",
    "tags": "tags of the part, else of the case (a list)",
}

VIEWS: dict[str, SqlView] = {
    view.name: view
    for view in [
        SqlView(
            "runs",
            "One row per run.",
            {
                "run": "name of the run's folder; the path if two folders have one name",
                "folder": "path of the run's folder",
                "suite": _HEAD["suite"],
                "name": "name of an evaluation from Python, or of an imported format",
                "model": "the model of --model",
                "state": "finished, incomplete (cases lack answers), stopped, running, unfinished, damaged, unreadable",
                "started": "time of the first start (UTC)",
                "seconds": "duration of all starts",
                "cases": "number of cases that the run has when it is finished",
                "ok": "cases that ended well",
                "subject_error": "cases that failed because of the subject; they count against it",
                "infra_error": "cases without an answer; they are left out and asked again",
                "calls": "calls that were sent, all starts",
                "retries": "attempts beyond the first",
                "failed_calls": "calls without a reply",
                "input_tokens": "tokens of the prompts; NULL if no endpoint counted them",
                "output_tokens": "tokens of the replies; NULL if no endpoint counted them",
                "imported": "format of the file that the run was imported from; NULL for assay's own runs",
                "producer": "program that wrote the imported file",
                "version": "version of assay",
                "command": "the command line (a list)",
                "tags": "tags that people gave the run with `assay note` (a list)",
                "notes": "notes that people wrote, oldest first (a list)",
                "cost": "price of its calls in US dollars, judges included; NULL if no call has a price",
            },
            _runs,
        ),
        SqlView(
            "cases",
            "One row per case that has ended, from its last try.",
            {
                **_HEAD,
                "label": "name for people, such as the id of the row",
                "tags": "tags of the case (a list)",
                "status": "ok, subject_error or infra_error",
                "error_kind": "why it failed, as a word",
                "error": "why it failed, as a sentence",
                "try": "number of the try",
                "calls": "calls of the solver",
                "input_tokens": "tokens of its prompts; NULL if unknown",
                "output_tokens": "tokens of its replies; NULL if unknown",
                "seconds": "duration; NULL if an imported file does not tell",
            },
            _cases,
        ),
        SqlView(
            "answers",
            "One row per answer: per case, per test of a pipeline, per question of a memory suite.",
            {
                **_HEAD,
                "part": "test or question; empty if the case has one answer",
                "question": _ROW["question"],
                "answer": "the answer as text; of several replies to one request the first",
                "data": "the whole record (JSON)",
            },
            _answers,
        ),
        SqlView(
            "steps",
            "One row per step: steps of pipelines and hop functions, sessions of memories.",
            {
                **_HEAD,
                "part": "TEST/STEP in a pipeline, the number of the step in hop, the session in memory-eval",
                "kind": "step, aggregation, skipped or session",
                "step": "name of the step, or operation of hop",
                "status": "ok, failed or skipped in a pipeline; OK or FAIL in hop",
                "output": "output as text",
                "error": "why it failed",
                "attempts": "attempts; retries in hop",
                "calls": "calls of the step",
                "input_tokens": "tokens of its prompts",
                "output_tokens": "tokens of its replies",
                "seconds": "duration",
                "data": "the whole record (JSON)",
            },
            _steps,
        ),
        SqlView(
            "scores",
            "One row per score that counts: of the last try, by the scorers of the last scoring.",
            {
                **_HEAD,
                "metric": "name of the metric",
                "value": "the score; NULL unless status is scored",
                "status": "scored, not_applicable or invalid",
                "part": _ROW["part"],
                "filter": "the part, if parts are filters (task)",
                "question": _ROW["question"],
                "label": _ROW["label"],
                "tags": _ROW["tags"],
                "expected": "the reference as text",
                "reason": "why the scorer decided so",
                "scorer": "name@fingerprint of the scorer",
                "interim": "true if a later test asks the question again; such a score counts in no metric",
                "data": "details of the scorer (JSON)",
            },
            _scores,
        ),
        SqlView(
            "metrics",
            "One row per number of a report, with its denominator and interval. Slices have rows of their own.",
            {
                "run": _HEAD["run"],
                "suite": _HEAD["suite"],
                "entry": "name of the report's entry: a task, variant, profile, memory",
                "subject": "subject of the entry",
                "set": "data set or task of the entry",
                "slice_by": "what the slice is by, such as tag or category; NULL for the whole entry",
                "slice": "name of the slice; NULL for the whole entry",
                "variant": "name of a variant, such as pooled; NULL for the number itself",
                "metric": "name of the metric",
                "filter": "name of the filter (task)",
                "value": "the number; NULL if it was not measured",
                "numerator": "numerator, if the number is a ratio",
                "denominator": "number of units that count",
                "unit": "what the denominator counts",
                "low": "lower end of the 95 % interval",
                "high": "upper end of the 95 % interval",
                "stderr": "standard error",
                "clusters": "number of clusters that the interval rests on",
                "higher_is_better": "direction; NULL if there is none",
                "left_out": "units left out, by reason (JSON)",
                "reason": "why there is no value",
                "warning": "why the value needs care",
            },
            _metrics,
        ),
        SqlView(
            "judgements",
            "One row per verdict of a judge.",
            {
                **_HEAD,
                "metric": "metric that the verdict decides",
                "judge": "id of the judge; NULL until the run is finished",
                **_ROW,
                "value": "the score",
                "status": "scored, not_applicable or invalid",
                "verdict": "the judge's label, such as Correct",
                "reason": "the judge's reason",
                "answer": "the judged answer",
                "expected": "the reference or rubric",
                "votes": "labels with their counts, if the judge votes (JSON)",
            },
            _judgements,
        ),
        SqlView(
            "calls",
            "One row per call, of all tries: every request with its reply or failure.",
            {
                **_HEAD,
                "index": "number of the case; like key, set and subject NULL for calls at the shared address",
                "stage": "ask, the id of a scorer, or common (shared address)",
                "try": "number of the case's try",
                "model": "model of the request",
                "prompt": "prompt, or the messages as JSON",
                "continuation": "text whose likelihood was requested",
                "params": "parameters such as temperature (JSON)",
                "reply": "text of the reply; NULL if the call failed",
                "reasoning": "text that the model wrote before its answer",
                "finish": "finish reason",
                "error_kind": "why it failed, as a word",
                "error": "why it failed, as a sentence",
                "http": "HTTP status of the failure",
                "attempts": "attempts; 0 for a reply of another run",
                "seconds": "duration of the last attempt; NULL if unknown",
                "input_tokens": "tokens of the prompt; NULL if the endpoint did not count them",
                "output_tokens": "tokens of the reply; NULL if the endpoint did not count them",
                "cost": "price in US dollars; NULL if the endpoint reported none and the price table has none",
                "price_table": "date and hash of the table that the price was computed from; NULL if reported",
                "address": "base URL that answered",
                "hash": "hash of the request",
                "n": "number among equal requests of the case, from 0",
                "data": "likelihood, or the reply to an SDK (JSON)",
            },
            _calls,
        ),
        SqlView(
            "failures",
            "One row per case that ended with subject_error or infra_error.",
            {
                **_HEAD,
                "label": "name for people, such as the id of the row",
                "tags": "tags of the case (a list)",
                "status": "subject_error or infra_error",
                "kind": "why it failed, as a word",
                "message": "why it failed, as a sentence",
                "place": "where it failed",
                "http": "HTTP status",
                "traceback": "frames of your own code",
            },
            _failures,
        ),
    ]
}
