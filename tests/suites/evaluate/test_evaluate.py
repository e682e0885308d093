"""`assay.evaluate`: what is evaluated, on which rows, and what a user gets back."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import assay
from assay.core.spec import RunSpec, fields

ROWS = [
    {"question": "2+2", "answer": "4", "kind": "sum"},
    {"question": "3+3", "answer": "6", "kind": "sum"},
    {"question": "2*4", "answer": "9", "kind": "product"},
]


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def calculate(question: str) -> str:
    left, operator, right = tuple(question)
    return str(int(left) + int(right) if operator == "+" else int(left) * int(right))


def shout(prompt: str) -> str:
    return prompt.upper()


def test_five_lines_give_a_number_with_interval_and_denominator() -> None:
    run = assay.evaluate(ROWS, answer=calculate, score=[assay.exact_match("answer")], name="sums")
    metric = run["exact_match"]
    assert metric.value == pytest.approx(2 / 3)
    assert (metric.numerator, metric.denominator) == (2, 3)
    assert metric.interval is not None
    assert metric.interval[0] < 2 / 3 < metric.interval[1]
    assert run.exit_code == 0
    assert run.check() is run


# Rows


def frames() -> Iterator[Any]:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    yield pytest.param(pd.DataFrame(ROWS, index=[7, 8, 9]), id="pandas")
    yield pytest.param(pl.DataFrame(ROWS), id="polars")
    yield pytest.param(pa.Table.from_pylist(ROWS), id="arrow")


@pytest.mark.parametrize("rows", [*frames(), pytest.param(iter(ROWS), id="iterator")])
def test_rows_may_be_a_dataframe_or_an_iterator(rows: Any) -> None:
    """The index of a DataFrame is no column."""
    run = assay.evaluate(rows, answer=lambda row: str(sorted(row)), score="exact_match", target="answer")
    assert {case.answer for case in run.cases()} == {"['kind', 'question']"}


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv", "parquet"])
def test_rows_may_be_a_file(suffix: str) -> None:
    path = Path(f"sums.{suffix}")
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif suffix == "json":
        path.write_text(json.dumps(ROWS))
    elif suffix == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        separator = "," if suffix == "csv" else "\t"
        path.write_text("\n".join(separator.join(row) for row in [ROWS[0], *(row.values() for row in ROWS)]))
    run = assay.evaluate(path, answer=calculate, score="exact_match", target="answer")
    assert run["exact_match"].numerator == 2
    assert run.info.spec["options"]["name"] == "sums"


def test_timestamps_with_a_zone_are_the_same_from_parquet_and_from_a_table() -> None:
    """The name of the file has no meaning: it is no pattern, and its folder no column."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"when": pa.array([1_600_000_000_123_456, None], pa.timestamp("us", "UTC"))})
    path = Path("k=1", "[x]*.parquet")
    path.parent.mkdir()
    parquet.write_table(table, path)
    answers = [[case.answer for case in assay.evaluate(rows, answer=lambda row: row).cases()] for rows in (path, table)]
    assert answers[0] == answers[1] == [{"when": "2020-09-13T12:26:40.123456Z"}, {"when": None}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": object()}], r"rows row 1 column 'question': a value of type object has no JSON form"),
        ([{"q": 1}, {"q": {1: {2}, "x": object}}], r"rows row 2 column 'q'"),
        ([{"question": float("inf")}], "infinity is not a JSON value"),
        ([{1: "x"}], "column names are texts, not 1"),
        (["question"], "a row is a dict, not str"),
        ([], "there are no rows"),
        ("rows.txt", "rows are read from .jsonl"),
        ("missing.jsonl", "there is no such file"),
        ({"question": "2+2"}, "rows must be a list of dicts"),
        ([{"question": "\ud800"}], "rows row 1 column 'question': .*surrogates"),
        ([{"\ud800": "x"}], "surrogates"),
        (pd.DataFrame([[1, 2]], columns=["q", "q"]), "two columns are called 'q'"),
        ("twice.csv", "twice.csv: two columns are called 'q'"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_before_the_first_call(rows: Any, message: str) -> None:
    Path("twice.csv").write_text("q,q\n1,2\n")
    with pytest.raises((assay.InputError, assay.UsageError), match=message):
        assay.evaluate(rows, answer=lambda _row: pytest.fail("it was called"), score=[])
    assert not Path("results").exists()


def test_dates_numbers_of_numpy_and_missing_values_become_json() -> None:
    import datetime as dt

    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"day": [pd.Timestamp("2026-01-02"), pd.NaT], "size": [np.float64(1.5), None]})
    rows = [*frame.to_dict(orient="records"), {"day": dt.date(2026, 1, 3), "size": np.int64(4)}]
    run = assay.evaluate(rows, answer=lambda row: row)
    answers = [case.answer for case in run.cases()]
    assert answers[0] == {"day": "2026-01-02T00:00:00", "size": 1.5}
    assert answers[1] == {"day": None, "size": None}
    assert answers[2] == {"day": "2026-01-03", "size": 4}


def test_a_value_of_pandas_without_a_time_becomes_a_text() -> None:
    frame = pd.DataFrame({"year": pd.period_range("2020", periods=1, freq="Y")})
    assert next(assay.evaluate(frame, answer=lambda year: year).cases()).answer == "2020"


def test_an_answer_of_numpy_is_the_number_and_nan_is_no_answer() -> None:
    import numpy as np

    run = assay.evaluate([{"q": 4}, {"q": np.nan}], answer=lambda q: np.nan if q is None else np.int64(q))
    answers = [(case.answer, case.error_message) for case in run.cases()]
    assert answers[0] == (4, "")
    assert "lambda() returned nan; return the answer" in answers[1][1]


def test_an_argument_that_is_no_text_is_refused() -> None:
    with pytest.raises(assay.UsageError, match="an argument has a character that is no text"):
        assay.evaluate(ROWS, answer=calculate, name="\ud800")


def test_a_parameter_of_a_request_that_is_no_json_is_refused() -> None:
    with pytest.raises(assay.UsageError, match="gen_kwargs and model_args take values of JSON only"):
        assay.evaluate(ROWS, model=str, prompt="x", gen_kwargs={"stop": object()}, target="answer")


def test_rows_are_kept_in_the_run_folder() -> None:
    """`assay.load` shows inputs, gold and answers without the program."""
    run = assay.evaluate(ROWS, answer=calculate, score="exact_match", target="answer")
    case = list(assay.load(run.folder).cases())[2]
    assert case.inputs == {"question": "2*4", "kind": "product"}
    assert case.gold == {"answer": "9"}
    assert case.answer == "8"
    assert case.scores["exact_match"].expected == "9"


# What a function gets


def test_a_function_takes_columns_by_name_the_row_or_all_columns() -> None:
    subjects: dict[str, Callable[..., str]] = {
        "columns": lambda question, kind: f"{question} {kind}",
        "row": lambda row: f"{row['question']} {row['kind']}",
        "one parameter": lambda r: f"{r['question']} {r['kind']}",
        "rest": lambda question, **rest: f"{question} {rest['kind']}",
        "default": lambda question, kind="none", other="x": f"{question} {kind}",
    }
    run = assay.evaluate(ROWS, answer=subjects, target="answer")
    answers = {case.subject: case.answer for case in run.cases() if case.index < len(subjects)}
    assert set(answers.values()) == {"2+2 sum"}
    assert set(answers) == set(subjects)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda question, missing: "",
            r"takes 'missing', but the rows have no such column. Columns it may take: qu",
        ),
        (lambda question, answer: "", r"takes 'answer', which is gold"),
        (lambda row, answer="": "", r"takes 'answer', which is gold"),
    ],
)
def test_a_parameter_that_cannot_be_given_is_refused_before_the_first_call(function: Any, message: str) -> None:
    with pytest.raises(assay.UsageError, match=message):
        assay.evaluate(ROWS, answer=function, target="answer")


def test_a_function_that_fails_costs_its_case_and_raises_nothing() -> None:
    def answer(question: str) -> str | None:
        if question == "3+3":
            raise ValueError("no threes")
        return None if question == "2*4" else "4"

    run = assay.evaluate(ROWS, answer=answer, score=["exact_match", lambda answer: len(answer) + 0], target="answer")
    assert run["exact_match"].numerator == 1
    assert run["exact_match"].denominator == 3
    assert run["lambda"].left_out == {"no answer": 2}
    errors = [case.error for case in run.cases(failed=True)]
    assert errors[0] is not None
    assert "no threes" in errors[0].message
    assert "raise ValueError" in errors[0].traceback
    assert errors[1] is not None
    assert "returned None; return the answer" in errors[1].message
    with pytest.raises(assay.CheckFailed, match=r"2 of 3 cases have an error\n.*no threes"):
        run.check()
    assert run.check(max_errors=2) is run


calls = 0


def counted(row: dict[str, str]) -> str:
    global calls  # noqa: PLW0603
    calls += 1
    return "4"


def test_a_function_is_called_once_a_case_and_never_again() -> None:
    before = calls
    for _ in range(2):
        assay.evaluate(ROWS, answer=counted, score="exact_match", target="answer")
    assert calls - before == len(ROWS)


def test_a_function_cannot_change_the_row_of_another() -> None:
    def answer(row: dict[str, Any]) -> str:
        row["question"] = "changed"
        return "x"

    subjects = {"first": answer, "second": lambda row: row["question"]}
    run = assay.evaluate(ROWS, answer=subjects, target="answer", concurrency=1)
    assert [case.answer for case in run.cases(subject="second")] == ["2+2", "3+3", "2*4"]


# Gold


def test_gold_reaches_neither_function_nor_context_nor_key() -> None:
    """Two runs whose rows differ in gold only have the same keys; what the function can reach has no gold in it."""
    seen: list[str] = []

    async def spy(row: Any, ctx: Any) -> str:
        await ctx.ask(str(row))
        reachable = [row, vars(ctx), vars(ctx._ctx), repr(ctx._ctx.case)]
        seen.append(repr(reachable))
        return "x"

    def rows(secret: str) -> list[dict[str, str]]:
        return [{"question": "q", "answer": f"{secret}-one", "also": f"{secret}-two"}]

    keys = []
    for secret in ("gold", "silver"):
        run = assay.evaluate(
            rows(secret),
            answer=spy,
            model=shout,
            score="exact_match",
            target=["answer", "also"],
            name="secret",
            version="1",
        )
        keys += [case.key for case in run.cases()]
        assert "gold-" not in (run.folder / "calls.jsonl").read_text()
    assert seen
    assert not any("gold-" in text or "silver-" in text for text in seen)
    assert len(set(keys)) == 1


def test_a_prompt_that_names_gold_is_refused() -> None:
    with pytest.raises(assay.UsageError, match="the prompt names 'answer', which is gold"):
        assay.evaluate(ROWS, model=shout, prompt="{{ question }} {{ answer }}", score="exact_match", target="answer")


def test_columns_that_scorers_name_are_gold() -> None:
    with pytest.raises(assay.UsageError, match="takes 'answer', which is gold"):
        assay.evaluate(ROWS, answer=lambda answer: answer, score=[assay.exact_match("answer")])


# Models and prompts


def test_a_model_is_asked_with_the_prompt_and_every_call_is_logged() -> None:
    run = assay.evaluate(
        ROWS,
        model=shout,
        prompt="{{ kind }}: {{ question }}",
        system_instruction="Be brief.",
        score=[],
        target="answer",
    )
    case = next(run.cases())
    request = case.calls[0].request
    assert request is not None
    assert request.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "sum: 2+2"},
    ]


def test_two_prompts_are_compared_side_by_side() -> None:
    prompts = {"plain": "{{ question }}", "polite": "please {{ question }}"}
    run = assay.evaluate(ROWS, model=shout, prompt=prompts, score=lambda answer: answer == "2+2", target="answer")
    assert run.metric("lambda", subject="plain").numerator == 1
    assert run.metric("lambda", subject="polite").numerator == 0


def test_a_prompt_may_be_a_function_that_returns_messages() -> None:
    def prompt(question: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": question}, {"role": "assistant", "content": "hm"}]

    def last(prompt: list[dict[str, str]]) -> str:
        return prompt[-1]["content"]

    run = assay.evaluate(ROWS, model=last, prompt=prompt, target="answer")
    assert {case.answer for case in run.cases()} == {"hm"}


def test_a_prompt_function_that_changes_its_row_changes_no_repeat() -> None:
    def prompt(row: dict[str, str]) -> str:
        return row.pop("question")

    run = assay.evaluate(ROWS[:1], model=lambda prompt: prompt, prompt=prompt, repeats=2, target="answer")
    assert next(run.cases()).answers == [ROWS[0]["question"]] * 2


def test_a_function_asks_a_model_through_its_context() -> None:
    """Sync and async functions use the same names. A continued run asks nothing again."""

    def waits(question: str, ctx: Any) -> str:
        return str(ctx.ask(question, temperature=0)) + "!"

    async def awaits(question: str, ctx: Any) -> str:
        return f"{await ctx.ask([{'role': 'user', 'content': question}])}!"

    run = assay.evaluate(ROWS, answer={"waits": waits, "awaits": awaits}, model=shout, target="answer")
    assert [case.answer for case in run.cases()] == ["2+2!", "2+2!", "3+3!", "3+3!", "2*4!", "2*4!"]
    assert run.summary.spent.calls == 6
    params = [case.calls[0].request.params for case in run.cases() if case.calls[0].request]
    assert params[:2] == [{"temperature": 0}, {}]


@pytest.mark.parametrize(("role", "parameter"), [("", "model"), ("judge", "judge")])
def test_asking_without_a_model_names_the_parameter_that_is_missing(role: str, parameter: str) -> None:
    def ask(question: str, ctx: Any) -> str:
        return str(ctx.ask(question, role=role))

    with pytest.raises(assay.UsageError, match=f"Pass {parameter}='PROVIDER/NAME' to assay.evaluate"):
        assay.evaluate(ROWS, answer=ask, target="answer", version=role)


def test_a_named_model_is_asked(tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    replies.write_text('{"text": "4"}\n')
    run = assay.evaluate(ROWS, model=f"script/{replies}", prompt="{{ question }}", score="exact_match", target="answer")
    assert run["exact_match"].numerator == 1
    assert run.info.spec["model"] == f"script/{replies}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "nothing is evaluated"),
        (
            {"model": shout, "prompt": "{{ nothing }}"},
            "the prompt names 'nothing', but the rows have no such column",
        ),
        ({"model": shout, "prompt": "{{ question"}, "prompt: the template does not compile"),
        ({"answer": shout, "prompt": "x"}, "builds its own prompts: remove prompt="),
        (
            {"answer": {"a": shout}, "model": {"b": shout}},
            "only one of answer, model and prompt may be a mapping",
        ),
        ({"answer": {}}, "the mapping of names is empty"),
        ({"answer": "shout"}, "answer= takes a function, not 'shout'"),
        ({"answer": shout, "target": "anser"}, "there is no column named 'anser'; did you mean 'answer'"),
        ({"answer": shout, "tags": "kidn"}, "tags: the rows have no column 'kidn'"),
        ({"answer": shout, "repeats": 0}, "repeats"),
        ({"answer": shout, "score": "exact_mach"}, "did you mean 'exact_match'"),
        ({"answer": shout, "score": "exact_match"}, "name it: target='COLUMN'"),
        ({"answer": shout, "score": "perplexity"}, "log-likelihoods"),
        ({"answer": shout, "score": "judge", "target": "answer"}, "name it: judge='openai/NAME'"),
        ({"answer": shout, "judge": "offline"}, "no scorer asks it"),
        (
            {"answer": shout, "score": [lambda reply: 1]},
            "a scorer takes any of answer, target, row, ctx, records",
        ),
        ({"answer": shout, "score": [lambda answer, target: 1]}, "name the column of right answers"),
        ({"answer": shout, "score": [3]}, "score= takes functions"),
        ({"answer": shout, "score": [calculate, calculate]}, "a scorer takes any of"),
        ({"model": shout, "target": "question"}, "model= needs a prompt.* such as prompt='{{ answer }}'"),
        ({"model": "smollm2", "prompt": "x"}, "is not a model; write PROVIDER/NAME"),
    ],
)
def test_wrong_arguments_are_refused_before_the_first_call(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(assay.UsageError, match=message):
        assay.evaluate(ROWS, **arguments)
    assert not Path("results").exists()


# The engine


def test_every_option_of_a_run_is_a_parameter_of_the_same_name_and_default() -> None:
    parameters = inspect.signature(assay.evaluate).parameters
    for field in fields(RunSpec):
        if field.name in ("suite", "options", "model"):
            continue
        assert field.name in parameters, field.name
        # An empty mapping is None in a signature.
        default = None if field.default == {} else field.default
        assert parameters[field.name].default == default, field.name
    assert inspect.signature(assay.aevaluate) == inspect.signature(assay.evaluate)


def test_editors_complete_the_parameters() -> None:
    import jedi

    names = {
        completion.name
        for text in ("import assay\nassay.evaluate([], ", "import assay\nawait assay.aevaluate([], ")
        for completion in jedi.Script(text).complete()
    }
    assert {"answer=", "score=", "max_calls=", "retry_failed=", "target="} <= names
    signature = jedi.Script("import assay\nassay.load('x').cases(").get_signatures()
    assert [parameter.name for parameter in signature[0].params] == ["failed", "tag", "subject"]


def test_a_budget_stops_the_run_and_the_same_call_continues_it() -> None:
    codes = []
    for _ in range(3):
        run = assay.evaluate(
            ROWS, model=shout, prompt="{{ question }}", score=[], max_calls=2, concurrency=1, target="answer"
        )
        codes.append(run.exit_code)
    assert codes[0] == 3
    assert codes[-1] == 0
    assert run.summary.state == "finished"
    assert run.summary.spent.calls == 3


def test_a_stopped_run_says_that_a_metric_was_not_measured() -> None:
    run = assay.evaluate(
        ROWS,
        model=shout,
        prompt="{{ question }}",
        score="exact_match",
        target="answer",
        max_calls=1,
        concurrency=1,
    )
    with pytest.raises(assay.UsageError, match="'exact_match' was not measured: the run stopped before its end"):
        run["exact_match"]
    with pytest.raises(assay.CheckFailed, match="the run stopped"):
        run.check()
    assert f"1 of 3 cases · stopped: {run.reason} · results" in str(run)


def test_replies_of_another_run_are_reused() -> None:
    first = assay.evaluate(ROWS[:2], model=shout, prompt="{{ question }}", target="answer")
    again = assay.evaluate(ROWS, model=shout, prompt="{{ question }}", target="answer", reuse=first.folder)
    assert again.summary.this_start["paid"] == 1


def test_repeats_give_the_mean_and_the_chance_that_one_of_k_is_right() -> None:
    def draw(question: str, ctx: Any) -> str:
        return str(ctx.ask(question))

    state = iter(["4", "x", "4", "6", "6", "6", "x", "x", "x"])

    def model(prompt: str) -> str:
        return next(state)

    run = assay.evaluate(
        ROWS,
        answer=draw,
        model=model,
        score="exact_match",
        target="answer",
        repeats=3,
        concurrency=1,
        version="1",
    )
    assert [case.scores["exact_match"].value for case in run.cases()] == [pytest.approx(2 / 3), 1.0, 0.0]
    assert run["exact_match"].value == pytest.approx(5 / 9)
    assert run.report is not None
    curve = run.report.entries[0].curves[0]
    assert [point.metric.value for point in curve.points] == [
        pytest.approx(5 / 9),
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
    ]


def test_tags_group_the_numbers_and_the_cases() -> None:
    run = assay.evaluate(ROWS, answer=calculate, score="exact_match", target="answer", tags="kind")
    assert run.report is not None
    by_tag = {part.name: part.metrics[0].numerator for part in run.report.entries[0].slices}
    assert by_tag == {"sum": 2, "product": 0}
    assert [case.label for case in run.cases(tag="product")] == ["3"]
    assert [case.label for case in run.cases(failed=False)] == ["1", "2"]


def test_a_metric_name_that_is_not_unique_lists_the_ways_to_say_which() -> None:
    run = assay.evaluate(ROWS, answer={"a": calculate, "b": shout_row}, score="exact_match", target="answer")
    with pytest.raises(assay.UsageError, match=r"run.metric\('exact_match', subject='a'\)\n.*subject='b'"):
        run["exact_match"]
    with pytest.raises(assay.UsageError, match="did you mean 'exact_match'"):
        run["exactmatch"]
    assert run.metric("exact_match", subject="b").value == 0


def shout_row(row: dict[str, str]) -> str:
    return row["question"].upper()


def test_a_metric_and_a_run_print_value_interval_and_counts() -> None:
    run = assay.evaluate(ROWS, answer=calculate, score="exact_match", target="answer")
    assert str(run["exact_match"]) == "exact_match 0.667 (0.21–0.94) 2/3"
    assert str(run).splitlines()[0] == "calculate  exact_match 0.667 (0.21–0.94) 2/3"


def test_a_run_is_no_list_but_tells_whether_it_has_a_metric() -> None:
    run = assay.evaluate(ROWS, answer=calculate, score="exact_match", target="answer")
    assert "exact_match" in run
    assert "bleu" not in run
    with pytest.raises(TypeError, match="'Run' object is not iterable"):
        iter(run)  # type: ignore[call-overload]


def test_an_interval_has_the_same_names_after_loading() -> None:
    """The second call returns the finished run from disk."""
    for _ in range(2):
        run = assay.evaluate(ROWS, answer=calculate, score="exact_match", target="answer")
        assert run["exact_match"].interval is not None
        assert run["exact_match"].interval.low == pytest.approx(0.2077, abs=1e-4)


def test_subjects_of_a_run_and_two_runs_are_compared_as_objects() -> None:
    subjects: dict[str, Callable[..., str]] = {"upper": shout_row, "sum": calculate}
    run = assay.evaluate(ROWS, answer=subjects, score="exact_match", target="answer", name="sums")
    comparison = assay.compare(run)
    assert comparison.comparisons[0].rows[0].wins == 2
    assert str(comparison).splitlines() == [
        "upper → sum",
        "  sums exact_match 0.000 → 0.667: +0.667 (-0.27 to 0.94), n=3, won 2, lost 0, p=0.5: unclear",
    ]
    runs = [
        assay.evaluate(ROWS, answer=answer, score="exact_match", target="answer", name="sums")
        for answer in (shout_row, calculate)
    ]
    assert assay.compare(runs).comparisons[0].rows == comparison.comparisons[0].rows


def test_a_case_becomes_a_row_of_a_table() -> None:
    """A name that the row has already gets a prefix."""
    run = assay.evaluate(ROWS, answer=calculate, score="exact_match", target="answer")
    assert [case.to_dict() for case in run.cases(failed=True)] == [
        {
            "question": "2*4",
            "answer": "9",
            "kind": "product",
            "subject": "calculate",
            "case.answer": "8",
            "exact_match": 0.0,
            "error": "",
        }
    ]


def test_runs_with_more_rows_are_compared_on_the_rows_that_both_have() -> None:
    more = [*ROWS, {"question": "9+9", "answer": "18"}]
    target = "answer"
    before = assay.evaluate(ROWS, answer=lambda question: "4", score="exact_match", target=target, name="grows")
    after = assay.evaluate(more, answer=lambda question: "4", score="exact_match", target=target, name="grows")
    (comparison,) = assay.compare(before, after).comparisons
    assert comparison.paired == len(ROWS)
    assert [row.n for row in comparison.rows] == [len(ROWS)]


def test_scores_of_a_changed_scorer_are_not_compared() -> None:
    def near(answer: str, target: str) -> bool:
        return answer == target

    before = assay.evaluate(ROWS, answer=lambda question: "4", score=near, target="answer", name="before")

    def near(answer: str, target: str) -> bool:  # type: ignore[no-redef]
        return answer <= target

    after = assay.evaluate(ROWS, answer=lambda question: "4", score=near, target="answer", name="after")
    assert "no pair has two values; left out: " in str(assay.compare(before, after))


def test_compare_takes_runs_and_names_alone_and_in_a_list() -> None:
    subjects = {"a": lambda question: "4", "b": lambda question: question}
    run = assay.evaluate(ROWS, answer=subjects, score="exact_match", target="answer", name="forms")
    texts = {str(assay.compare(each)) for each in (run, run.folder, str(run.folder), [run])}
    assert len(texts) == 1
    assert repr(assay.compare(run)) == texts.pop()
    with pytest.raises(assay.UsageError, match="name the runs to compare"):
        assay.compare()


def test_numbers_are_readable_in_a_notebook() -> None:
    run = assay.evaluate(ROWS, answer=lambda question: "4", score="exact_match", target="answer", tags="question")
    assert repr(run["exact_match"]) == f"<Metric {run['exact_match']}>"
    assert run.report is not None
    part = run.report.entries[0].slices[0]
    assert str(part) == f"{part.name}: {part.metrics[0]}"


def test_an_unknown_tag_or_subject_is_no_empty_list_of_cases() -> None:
    run = assay.evaluate(ROWS, answer=lambda question: "4", tags="question")
    with pytest.raises(assay.UsageError, match="there is no tag named 'zz'"):
        list(run.cases(tag="zz"))
    with pytest.raises(assay.UsageError, match="there is no subject named 'zz'"):
        list(run.cases(subject="zz"))
    with pytest.raises(assay.UsageError, match="the run has no scorers"):
        run["exact_match"]


def test_a_prompt_without_a_column_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assay.evaluate(ROWS, model=lambda prompt: prompt, prompt="Solve {question}", target="answer", name="braces")
    assert "names no column, so every row sends the same text. A column is written {{ question }}" in (
        capsys.readouterr().err
    )


def test_a_function_as_judge_is_refused_with_the_way_to_name_it() -> None:
    def referee(prompt: str) -> str:
        return prompt

    with pytest.raises(assay.UsageError, match="judge='python/FILE.py:referee'"):
        assay.evaluate(ROWS, answer=str, score="judge", target="answer", judge=referee)  # type: ignore[arg-type]


def test_a_suite_is_named_by_its_name_or_by_the_words_of_its_command() -> None:
    names = ("memory-test", "memory test", "memory_test")
    assert {assay.spec(name, data="talks.json").suite for name in names} == {"memory-test"}
    assert assay.spec("judge calibrate", labels="labels.jsonl").suite == "calibration"


def test_public_names_are_listed_for_completion() -> None:
    assert {"evaluate", "ScorerLike", "FunctionContext"} <= set(dir(assay))
    assert all(hasattr(assay, name) for name in dir(assay))
