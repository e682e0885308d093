"""All five suites against the server of each dialect: refused questions cost themselves, reasoning is never scored.

In every run one question is filtered, one refused by the model, and one is too long; the others are answered, each with
reasoning that a score must not see. A judge at the same endpoint refuses one of its questions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.spec import RunSpec

from servers.dialects import (
    BROKEN,
    FILTERED,
    KEY,
    OVERFLOW,
    REFUSED,
    Dialect,
    DialectServer,
    Messages,
    Reply,
    Result,
)
from servers.dialects.anthropic import Anthropic
from servers.dialects.every import DIALECTS
from servers.dialects.gemini import Gemini
from servers.dialects.openai import Azure, OpenAIChat, Vllm
from servers.judging import by_words, question_of
from support.commands import run_here
from support.hop_batch import Batch
from support.task_project import as_yaml

FAULTS = {"apples": FILTERED, "pears": REFUSED, "plums": OVERFLOW}
FRUITS = ["figs", "apples", "pears", "plums", "dates"]
WRONG = "Zanzibar"
UNJUDGED = "dates"
"""The judge refuses the question about these."""


def answer(messages: Messages) -> Reply:
    """A judge judges. The model says of the fruit in the question that Bob likes it."""
    system, text = str(messages[0]["content"]), str(messages[-1]["content"])
    thought = f"Is it {WRONG}? No."
    matter = question_of(messages)
    if matter is not None:
        if UNJUDGED in text:
            return Reply(fault=FILTERED)
        verdict = by_words(matter) if matter.kind == "answer" else None
        label = {"label": verdict.labels[0]} if verdict else {}
        return Reply(json.dumps({"reason": "so it is", **label}), thought)
    if "rubric" in system:
        if UNJUDGED in text:
            return Reply(fault=REFUSED)
        return Reply(json.dumps({"reason": "so it is", "passed": True}), thought)
    asked = text.rpartition("uestion:")[2]
    (fruit,) = [each for each in FRUITS if each in asked]
    if fruit in FAULTS:
        return Reply(fault=FAULTS[fruit])
    said = f"Bob likes {fruit}"
    return Reply(json.dumps({"answer": said, "citations": [1]}) if '"citations"' in system + text else said, thought)


def question(fruit: str) -> str:
    return f"Who likes {fruit}?"


def task(folder: Path, server: DialectServer) -> RunSpec:
    """Five documents."""
    docs = [{"q": f"Question: {question(fruit)}", "a": f"Bob likes {fruit}"} for fruit in FRUITS]
    (folder / "t.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    settings = {
        "task": "t",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "t.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "metric_list": [{"metric": "exact_match"}],
        "generation_kwargs": {"until": ["\n\n"], "temperature": 0, "max_gen_toks": 40},
    }
    (folder / "t.yaml").write_text(as_yaml(settings))
    return spec_of("task", folder, server, tasks=[str(folder / "t.yaml")])


def pipeline(folder: Path, server: DialectServer) -> RunSpec:
    """Five tests of one step, each with a rubric."""
    step = {"id": "say", "type": "prompt", "template": "Question: {{ text }}", "params": {"temperature": 0}}
    (folder / "p.yaml").write_text(as_yaml({"id": "p", "steps": [step]}))
    tests = [
        {"id": fruit, "inputs": {"text": question(fruit)}, "expected_outputs": {"say": "judge:It names Bob."}}
        for fruit in FRUITS
    ]
    (folder / "tests.jsonl").write_text("".join(json.dumps(test) + "\n" for test in tests))
    options = {"pipeline": str(folder / "p.yaml"), "testset": [str(folder / "tests.jsonl")]}
    return spec_of("pipeline", folder, server, judge=server.model, **options)


def hop(folder: Path, server: DialectServer) -> RunSpec:
    """Five rows of a function that asks the model once."""
    code = "async def hop(fruit, session):\n"
    code += "    return {'said': await session.model.chat(f'Question: Who likes {fruit}?')}\n"
    rows = [
        {"id": number, "tag": "t", "fruit": fruit, "expected_said": f"Bob likes {fruit}"}
        for number, fruit in enumerate(FRUITS)
    ]
    Batch(folder, code, rows)
    options = {"target": f"{folder}/hop.py:hop", "data": f"{folder}/rows.jsonl"}
    return spec_of("hop", folder, server, **options)


def memory_test(folder: Path, server: DialectServer) -> RunSpec:
    """One conversation with five questions."""
    talk = {
        "id": "a",
        "sessions": [
            {
                "date": "5 May 2024",
                "messages": [{"speaker": "Ann", "text": f"Bob likes {fruit}"} for fruit in FRUITS],
            }
        ],
        "questions": [
            {"question": question(fruit), "answer": f"Bob likes {fruit}", "evidence": [f"D1:{number}"]}
            for number, fruit in enumerate(FRUITS, 1)
        ],
    }
    (folder / "talks.json").write_text(json.dumps([talk]))
    options = {"dataset": "plain", "data": str(folder / "talks.json"), "memory": ["bm25"], "segments": 1}
    return spec_of("memory-test", folder, server, judge=server.model, **options)


def memory_eval(folder: Path, server: DialectServer) -> RunSpec:
    """One session with five questions."""
    sample = {
        "sample_id": "s1",
        "sessions": [
            {
                "_v2_session_id": "S01",
                "dialogue": [
                    {"role": "user", "content": f"Bob likes {fruit}", "timestamp": "2024-05-05"} for fruit in FRUITS
                ],
            }
        ],
        "memory_points": [{"session_id": "S01", "memory_points": []}],
        "qa_checkpoints": [
            {
                "checkpoint_id": "probe_1",
                "covered_sessions": ["S01"],
                "questions": [
                    {
                        "question": question(fruit),
                        "answer": f"Bob likes {fruit}",
                        "evidence": [],
                        "question_type": "factual_recall",
                        "question_type_abbrev": "FR",
                        "difficulty": "easy",
                    }
                    for fruit in FRUITS
                ],
            }
        ],
    }
    (folder / "data").mkdir()
    (folder / "data" / "s1.json").write_text(json.dumps(sample))
    options = {"dataset": str(folder / "data"), "baseline": ["bm25"]}
    return spec_of("memory-eval", folder, server, judge=server.model, **options)


def spec_of(suite: str, folder: Path, server: DialectServer, **options: Any) -> RunSpec:
    """The options of one run at the server."""
    values = {"model": server.model, "base_url": server.url, "output_dir": str(folder / "out"), **options}
    return assay.spec(suite, **values)


SUITES: dict[str, Callable[[Path, DialectServer], RunSpec]] = {
    "task": task,
    "pipeline": pipeline,
    "hop": hop,
    "memory-test": memory_test,
    "memory-eval": memory_eval,
}


# Metric, value, denominator, left out. Refused and overlong questions are wrong answers; a question that the judge
# refused has no verdict.
METRICS: dict[str, list[tuple[str, float, int, dict[str, int]]]] = {
    "task": [("exact_match", 0.4, 5, {})],
    "pipeline": [("pass_rate", 0.25, 4, {"invalid": 1})],
    "hop": [("correct_of_all", 0.4, 5, {}), ("correct_of_completed", 1.0, 2, {})],
    "memory-test": [("judged", 0.25, 4, {"invalid": 1}), ("f1", 0.4, 5, {}), ("exact_match", 0.4, 5, {})],
    "memory-eval": [("answer", 0.25, 4, {"invalid": 1}), ("f1", 0.4, 5, {}), ("bleu1", 0.4, 5, {})],
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("suite", SUITES)
def test_a_refused_question_costs_that_question_and_reasoning_is_not_scored(
    suite: str, dialect: Dialect, tmp_path: Path
) -> None:
    """Nothing is asked again by another start, the endpoint's words are kept by kind, and no file has the key."""
    with DialectServer(dialect, answer) as server:
        spec = SUITES[suite](tmp_path, server)
        run = assay.run(spec)
        assert server.rejected == []
        asked = len(server.seen)
        again = assay.run(spec)
        assert (again.folder, len(server.seen)) == (run.folder, asked)

    summary = run.summary
    assert (summary.infra_error, summary.unscored, summary.state) == (0, 0, "finished")
    assert run.report is not None
    (entry,) = run.report.entries
    metrics = {each.name: (each.name, each.value, each.denominator, each.left_out) for each in entry.metrics}
    assert [metrics[name] for name, *_ in METRICS[suite]] == METRICS[suite]

    overflows = isinstance(dialect, Vllm)
    assert set(summary.failed_calls) == {"context_overflow"} | (set() if overflows else {"refusal"})
    assert all(summary.first_failures[kind] for kind in summary.failed_calls)

    calls = [json.loads(line) for line in (run.folder / "calls.jsonl").read_text().splitlines()[1:]]
    replies = [call["response"] for call in calls if "failure" not in call]
    assert all(WRONG not in reply["text"] for reply in replies)
    billed = [call["response"]["usage"] for call in calls if "response" in call]
    # A refusal with status 200 is billed like a reply.
    refused = [call for call in calls if "failure" in call and not call["failure"].get("http")]
    assert bool(refused) is not overflows
    assert all(call["response"]["usage"] for call in refused)
    assert summary.spent.input_tokens == sum(usage.get("input", 0) for usage in billed)
    assert summary.spent.output_tokens == sum(usage.get("output", 0) for usage in billed)
    hidden = type(dialect) in (OpenAIChat, Azure)  # they count the reasoning and do not send it
    assert all((WRONG in reply.get("reasoning", "")) is not hidden for reply in replies)
    if DIALECTS["sglang"] is not dialect:  # it does not count the reasoning in a text
        assert all(reply["usage"]["reasoning"] > 0 for reply in replies)
        assert summary.spent.reasoning_tokens == sum(usage.get("reasoning", 0) for usage in billed)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
            assert path.name == "calls.jsonl" or WRONG.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("fault", [FILTERED, BROKEN])
def test_the_endpoints_words_are_shown_once_for_each_kind_of_failure(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for questions of a conversation that ended well. A rejected request leaves the conversation for later."""
    monkeypatch.setitem(FAULTS, "apples", fault)
    with DialectServer(Anthropic(), answer) as server:
        memory_test(tmp_path, server)
        words = ["memory", "test", "--dataset", "plain", "--data", "talks.json", "--memory", "bm25"]
        words += ["--model", server.model, "--base-url", server.url, "--segments", "1", "--output-dir", "out"]
        ended = run_here([*words, "--concurrency", "1"], tmp_path)
    lines = ended.stdout.splitlines()
    shown = [line.strip() for line in lines if server.root in line]
    refusal = "Output blocked by content filtering policy"
    overflow = f"1 call failed, context_overflow: {server.root} answered 400: prompt is too long: 210000 tokens"
    if fault == FILTERED:
        assert ended.returncode == 0, ended.stderr
        assert shown[0] == f"2 calls failed, refusal, the first: {server.root} answered 400: {refusal}"
        assert shown[1].startswith(overflow)
        assert len(shown) == 2
    else:
        assert ended.returncode == 3
        assert shown[0] == f"1 × rejected: {server.root} answered 400: The request body is not valid JSON"
        assert [line.split(":")[0] for line in shown[1:]] == [
            "1 call failed, refusal",
            "1 call failed, context_overflow",
        ]


def test_a_key_that_a_model_repeats_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from a reply nor from the message of an error, whatever the vendor's variable is called."""
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)

    def telling(messages: Messages) -> Reply:
        reply = answer(messages)
        return reply if reply.fault else Reply(f"The key is {KEY}")

    with DialectServer(TellingGemini(), telling) as server:
        run = assay.run(task(tmp_path, server))
    assert "[redacted]" in run.summary.first_failures["context_overflow"]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in content for content in files)
    assert b"The key is [redacted]" in (run.folder / "calls.jsonl").read_bytes()


class TellingGemini(Gemini):
    """Its message about a prompt that is too long has the key in it."""

    def fault(self, name: str) -> Result:
        if name != OVERFLOW:
            return super().fault(name)
        return 400, {"error": {"code": 400, "message": f"The input token count of {KEY} exceeds the maximum"}}
