"""Numbers belong to their cases: ways in which a score could silently be wrong, and is not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import AssayError, InputError, UsageError
from assay.core.report import Metric

from conftest import DOCS, write_docs
from servers.loopback import LoopbackServer, chat

ECHO = "async def answer(prompt, params):\n    return prompt.rsplit('Q: ', 1)[-1].split('?')[0]\n"


@pytest.fixture(autouse=True)
def _here(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sums)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def run(**values: Any) -> assay.Run:
    defaults = {"tasks": ["sums.yaml"], "model": "python/model.py:answer", "output_dir": "out"}
    return assay.run(assay.spec("task", **{**defaults, **values}))


def rewrite(old: str, new: str) -> None:
    path = Path("sums.yaml")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def metric(found: assay.Run) -> Metric:
    assert found.report is not None
    return found.report.entries[0].metrics[0]


def test_the_order_of_tasks_is_part_of_the_ask() -> None:
    """A run of two tasks is not continued by one that has them the other way round."""
    text = Path("sums.yaml").read_text().replace("task: sums", "task: others")
    Path("others.yaml").write_text(text.replace("sums.jsonl", "others.jsonl"))
    write_docs(Path("others.jsonl"), DOCS[3:])
    Path("model.py").write_text(ECHO)
    stopped = run(tasks=["sums.yaml", "others.yaml"], max_calls=4, concurrency=1)
    other = run(tasks=["others.yaml", "sums.yaml"])
    assert other.folder != stopped.folder
    for path in other.files[1:]:
        for row in map(json.loads, path.read_text().splitlines()):
            assert row["resps"] == [[row["doc"]["question"].rstrip("?")]]


def test_a_cancelled_run_leaves_no_worker_behind() -> None:
    """Who gives up waiting gets files and loop back: nothing writes or asks any more."""
    Path("model.py").write_text(
        "import asyncio\n\nasync def answer(p, q):\n    await asyncio.sleep(0.2)\n    return '1'\n"
    )
    spec = assay.spec("task", tasks=["sums.yaml"], model="python/model.py:answer", output_dir="out", concurrency=2)

    async def main() -> assay.Run:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(assay.arun(spec), 0.3)
        assert len(asyncio.all_tasks()) == 1
        return await assay.arun(spec)

    assert asyncio.run(main()).summary.ok == 6


ODD = {
    "usage in text": {**chat("4"), "usage": {"prompt_tokens": "3"}},
    "usage in halves": {**chat("4"), "usage": {"prompt_tokens": 3.5}},
    "finish as a number": {"choices": [{"message": {"content": "4"}, "finish_reason": 1}]},
    "text in parts": {"choices": [{"message": {"content": [{"type": "text", "text": "4"}]}}]},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_but_usable_replies_are_used(name: str) -> None:
    """What can be read is read, and what is logged can be read back."""
    with LoopbackServer(lambda body: (200, ODD[name])) as server:
        found = run(model="openai/m", base_url=server.url)
    assert (found.exit_code, found.summary.ok) == (0, 6)
    assert json.loads(found.files[1].read_text().splitlines()[2])["resps"] == [["4"]]


@pytest.mark.parametrize(
    "reply", [(200, {"choices": [{"message": {"content": 5}}]}), (500, {"error": {"message": {"a": 1}}})]
)
def test_unusable_replies_are_the_endpoints_fault(reply: tuple[int, Any]) -> None:
    """A reply that cannot be used is left out, never scored 0."""
    with LoopbackServer(lambda body: reply) as server:
        found = run(model="openai/m", base_url=server.url, max_retries=0)
    assert (found.exit_code, found.summary.infra_error, metric(found).denominator) == (3, 6, 0)


def test_a_regrade_that_is_cut_off_is_not_shown_as_finished() -> None:
    """From the moment a run is opened again its summary no longer says finished."""
    from assay.journal.earlier_result import EarlierResult
    from assay.journal.run_files import read_summary

    first = run()
    EarlierResult(first.folder).begin(first.summary.score, asks_nothing=False, has_all_lines=True)
    summary = read_summary(first.folder)
    assert summary is not None
    assert summary.state == "unfinished"
    again = run()
    assert (again.asked, again.summary.this_start["paid"], again.summary.state) == (True, 0, "finished")


def test_data_that_changes_under_a_run_is_noticed() -> None:
    """Replies are never put beside documents they do not answer."""
    Path("model.py").write_text(
        "from pathlib import Path\n\n"
        "async def answer(prompt, params):\n"
        "    lines = Path('sums.jsonl').read_text().splitlines()\n"
        "    Path('sums.jsonl').write_text('\\n'.join(sorted(lines, reverse=True)))\n"
        "    return '1'\n"
    )
    found = assay.spec("task", tasks=["sums.yaml"], model="python/model.py:answer", output_dir="out", concurrency=1)
    with pytest.raises(AssayError, match="the data changed"):
        assay.run(found)


def test_a_metric_named_by_path_is_known_by_its_content() -> None:
    """Another code is another score; whole numbers are numbers; NaN is invalid."""
    code = (
        "class M:\n    AGGREGATIONS = ('mean',)\n    HIGHER_IS_BETTER = RIGHT_WRONG = True\n"
        "    @staticmethod\n    def build():\n        return lambda target, answer: {}\n"
    )
    Path("mine.py").write_text(code.format("int(target == answer)"))
    rewrite("metric: exact_match, aggregation: mean", "metric: 'mine.py:M', aggregation: mean")
    rewrite(", ignore_case: true", "")
    first = metric(run())
    assert (first.value, first.numerator, first.denominator) == (0.5, 3, 6)


def test_a_chain_that_ends_in_a_list_is_refused() -> None:
    """A list is never equal to a text: every score would be 0, whatever the model says."""
    rewrite("metadata:", "filter_list: [{name: all, filter: [{function: remove_whitespace}]}]\nmetadata:")
    with pytest.raises(InputError, match=r"sums.yaml:\d+ filter_list.0: the chain 'all' returns a list"):
        run()


def test_word_f1_of_several_targets_is_the_best_of_them() -> None:
    """One shared word of six is not a full score."""
    rewrite("metric: exact_match, aggregation: mean", "metric: f1, aggregation: mean")
    rewrite(", ignore_case: true", "")
    rewrite('doc_to_target: "{{answer}}"', "doc_to_target: \"['4 and two more words', 'nothing']\"")
    Path("model.py").write_text("async def answer(prompt, params):\n    return '4'\n")
    assert metric(run()).value == pytest.approx(2 / 6)


def test_show_reads_the_grading_of_the_summary() -> None:
    """Graded so, otherwise, and so again: cases are shown with the scores of the table."""
    from assay.store.cases import RunCases

    first = run()
    rewrite('doc_to_target: "{{answer}}"', 'doc_to_target: "none"')
    assert metric(run()).value == 0.0
    assert {case.scores[0].expected for case in RunCases(first.folder)} == {"none"}
    rewrite('doc_to_target: "none"', 'doc_to_target: "{{answer}}"')
    assert metric(run()).value == 0.5
    assert [case.scores[0].value for case in RunCases(first.folder)] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("limit", 0),
        ("limit", -3),
        ("max_calls", 0),
        ("num_fewshot", -1),
        ("model_args", "num_concurrent=abc"),
    ],
)
def test_values_out_of_range_are_refused(option: str, value: Any) -> None:
    """A number that makes no sense is wrong use."""
    with pytest.raises(UsageError):
        run(**{option: value})
