"""`--protocol`: the prompts, rules, categories and numbers of a published evaluation, and the flags that override them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.memory import MemoryItem, Message, Query, SearchHit
from assay.core.spec import fields
from assay.suites.memory.test.options import MemoryTestOptions
from assay.suites.memory.test.protocols import find_protocol, protocol_names

from support.memory_talks import file_of, numbers_of

# Both log their prompts with the parameters. The judge answers in the form that its prompt asks for.
MODEL = """
import json
from pathlib import Path

def log(name, messages, params):
    with Path(__file__).with_name(name).open("a") as file:
        file.write(json.dumps([messages[-1]["content"], params]) + "\\n")

def answer(messages, params):
    log("asked.jsonl", messages, params)
    return "No information available" if "crown" in messages[-1]["content"] else "a boat"

def judge(messages, params):
    log("judged.jsonl", messages, params)
    return '{"reasoning": "so", "label": "CORRECT"}' if "label" in messages[-1]["content"] else "yes"
"""


def locomo() -> list[dict[str, Any]]:
    """One conversation in LoCoMo's schema, with a question of three categories."""
    return [
        {
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ann",
                "speaker_b": "Bob",
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [
                    {"speaker": "Ann", "dia_id": "D1:1", "text": "I bought a boat yesterday."},
                    {"speaker": "Bob", "dia_id": "D1:2", "text": "Lovely."},
                ],
            },
            "qa": [
                {"question": "What did Ann buy?", "answer": "a boat", "evidence": ["D1:1"], "category": 4},
                {"question": "When did Ann buy it?", "answer": "7 May", "evidence": ["D1:1"], "category": 2},
                {
                    "question": "Who stole the crown?",
                    "adversarial_answer": "Bob",
                    "evidence": ["D1:2"],
                    "category": 5,
                },
            ],
        }
    ]


def longmemeval() -> list[dict[str, Any]]:
    """One entry for each rule, in LongMemEval's schema. The chats are given newest first."""
    kinds = [
        ("q1", "temporal-reasoning", "2 days"),
        ("q2", "knowledge-update", "a boat"),
        ("q3", "single-session-preference", "They would like hints for sailors."),
        ("q4", "multi-session", "a boat"),
        ("q5_abs", "multi-session", "No crown was mentioned."),
    ]
    return [
        {
            "question_id": name,
            "question_type": kind,
            "question": "Who has the crown?" if name.endswith("_abs") else "What about my boat?",
            "answer": answer,
            "question_date": "2023/06/01 (Thu) 10:00",
            "haystack_session_ids": ["late", "early"],
            "haystack_dates": ["2023/05/30 (Tue) 23:40", "2023/05/20 (Sat) 02:21"],
            "haystack_sessions": [
                [{"role": "user", "content": "My boat is blue now.", "has_answer": True}],
                [{"role": "user", "content": "My boat is red."}],
            ],
            "answer_session_ids": ["late"],
        }
        for name, kind, answer in kinds
    ]


class Lab:
    """A folder with data and the two models."""

    def __init__(self, folder: Path, dataset: str, data: list[dict[str, Any]]) -> None:
        self.folder = folder
        self.dataset = dataset
        (folder / "data.json").write_text(json.dumps(data))
        (folder / "model.py").write_text(MODEL)

    def run(self, protocol: str | None, **options: Any) -> assay.Run:
        """Test bm25 with the judge of the folder."""
        values = {
            "dataset": self.dataset,
            "data": f"{self.folder}/data.json",
            "memory": ["bm25"],
            "model": f"python/{self.folder}/model.py:answer",
            "judge": f"python/{self.folder}/model.py:judge",
            "output_dir": f"{self.folder}/out",
            "protocol": protocol,
            **options,
        }
        return assay.run(assay.spec("memory-test", **values))

    def log(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the prompts of `asked` or `judged` with their parameters, sorted."""
        path = self.folder / f"{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return sorted(tuple(json.loads(line)) for line in lines)


def notices_of(run: assay.Run) -> str:
    """Return the notices of the report."""
    assert run.report is not None
    return "\n".join(run.report.notices)


def test_mem0_leaves_category_5_out_and_judges_generously(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "locomo", locomo())
    run = lab.run("mem0")
    (test,) = file_of(run)["test_results"]
    assert [each["category"] for each in test["questions"]] == [4, 2]
    asked = lab.log("asked")
    assert len(asked) == 2
    assert "\n1:56 pm on 8 May, 2023: Ann: I bought a boat yesterday.\n" in asked[0][0]
    assert "at most six words" in asked[0][0]
    assert asked[0][1]["max_tokens"] == 512
    assert all("be generous" in prompt and "CORRECT or WRONG" in prompt for prompt, _ in lab.log("judged"))
    summary = numbers_of(run)
    assert (summary["protocol"], summary["top_k"]) == ("mem0", 30)
    (judged,) = (each for each in summary["metrics"] if each["metric"] == "judged")
    assert (judged["value"], judged["n"]) == (1.0, 2)
    assert "Protocol mem0: answers of at most six words from 30 items" in notices_of(run)
    assert "Overridden" not in notices_of(run)


def test_locomo_compares_words_and_has_category_5_apart(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "locomo", locomo())
    run = lab.run("locomo", judge=None)
    asked = lab.log("asked")
    assert len(asked) == 3
    assert all(params["max_tokens"] == 32 for _, params in asked)
    assert "write: No information available." in asked[0][0]
    metrics = {each["metric"]: (each["value"], each["n"]) for each in numbers_of(run)["metrics"]}
    assert metrics["f1"] == (0.5, 2)
    assert metrics["abstention"] == (1.0, 1)
    assert "judged" not in metrics
    assert numbers_of(run)["top_k"] == 5
    # The judge is not part of this protocol, so nothing is missing.
    assert "No --judge" not in notices_of(run)


def test_longmemeval_judges_each_type_by_its_rule(tmp_path: Path) -> None:
    """Abstention counts in the accuracy, as one of the questions."""
    lab = Lab(tmp_path, "longmemeval", longmemeval())
    run = lab.run("longmemeval")
    prompts = [prompt for prompt, _ in lab.log("judged")]
    assert len(prompts) == 5
    for words, count in (
        ("off by one", 1),
        ("newest state", 1),
        ("a reply that suits this user", 1),
        ("says the same in other words", 2),
        ("do not contain what the question asks for", 1),
        ("Reply with one word, yes or no.", 5),
    ):
        assert sum(words in prompt for prompt in prompts) == count
    (judged,) = (each for each in numbers_of(run)["metrics"] if each["metric"] == "judged")
    assert (judged["value"], judged["n"]) == (1.0, 5)


def test_longmemeval_shows_chats_in_order_of_time_and_the_date_of_the_question(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "longmemeval", longmemeval()[:1])
    lab.run("longmemeval")
    ((prompt, params),) = lab.log("asked")
    chats = (
        "Chat 1, 2023/05/20 (Sat) 02:21:\nuser: My boat is red.\n\n"
        "Chat 2, 2023/05/30 (Tue) 23:40:\nuser: My boat is blue now.\n"
    )
    assert chats in prompt
    assert "\nToday's date: 2023/06/01 (Thu) 10:00\nQuestion: What about my boat?\n" in prompt
    assert "in two steps" in prompt
    assert params["max_tokens"] == 800


def test_items_of_unknown_time_come_last() -> None:
    """A summary of a memory may name no message that it was made of."""
    protocol = find_protocol("longmemeval")
    assert protocol is not None
    hits = [
        SearchHit(MemoryItem("s", "in short")),
        SearchHit(MemoryItem("b", "later", "S1", "May", sources=("D1:2",))),
        SearchHit(MemoryItem("a", "sooner", "S1", "May", sources=("D1:1",))),
    ]
    sessions = [[Message("D1:1", "sooner"), Message("D1:2", "later")]]
    text = protocol.answer_prompt.messages(Query("q"), hits, sessions)[-1]["content"]
    assert "Chat 1, May:\nsooner\nlater\n\nChat 2:\nin short\n" in text


def test_single_flags_override_the_protocol(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "locomo", locomo())
    (tmp_path / "answer.txt").write_text("Own: {memories} {question}")
    (tmp_path / "judge.txt").write_text("Own label: {question} {reference} {response}")
    run = lab.run(
        "mem0",
        top_k=10,
        ask="when-visible",
        categories=["4", "5"],
        answer_prompt=str(tmp_path / "answer.txt"),
        judge_prompt=str(tmp_path / "judge.txt"),
    )
    assert numbers_of(run)["top_k"] == 10
    assert all(prompt.startswith("Own: ") for prompt, _ in lab.log("asked"))
    assert all(prompt.startswith("Own label: ") for prompt, _ in lab.log("judged"))
    assert {each["category"] for test in file_of(run)["test_results"] for each in test["questions"]} == {4, 5}
    assert "Overridden by --answer-prompt, --judge-prompt, --ask, --top-k, --categories." in notices_of(run)


def test_another_protocol_is_another_run(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "locomo", locomo())
    first = lab.run("mem0")
    calls = len(lab.log("asked"))
    assert lab.run("mem0").folder == first.folder
    assert len(lab.log("asked")) == calls
    assert lab.run("locomo").folder != first.folder
    assert lab.run(None).folder != first.folder


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        (None, "No --judge: the answers are compared by words only, which the protocol does not do."),
        ("offline", "The judge offline has rules of its own instead of the protocol's prompt."),
    ],
)
def test_a_report_says_that_the_judge_of_the_protocol_is_missing(
    tmp_path: Path, judge: str | None, sentence: str
) -> None:
    assert sentence in notices_of(Lab(tmp_path, "locomo", locomo()).run("mem0", judge=judge))


def test_an_unknown_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="protocol.*mem1"):
        Lab(tmp_path, "locomo", locomo()).run("mem1")


def test_the_option_names_every_protocol() -> None:
    (choices,) = (each.plain_type for each in fields(MemoryTestOptions) if each.name == "protocol")
    assert list(get_args(choices)) == protocol_names()


@pytest.mark.parametrize("name", protocol_names())
def test_every_protocol_has_its_page_and_its_name(name: str) -> None:
    protocol = find_protocol(name)
    assert protocol is not None
    assert protocol.name == name
    page = (Path(__file__).parents[4] / "docs" / "protocols.md").read_text("utf-8")
    assert f"## {name}\n" in page
    assert f"| `--top-k` | {protocol.top_k} |" in page
    assert str(protocol.answer_prompt.params["max_tokens"]) in page
