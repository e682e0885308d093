"""Runs of memory test from data to files: who sees evidence, what a failure affects, what is reused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError

from support.memory_talks import Talks, file_of, numbers_of, talk


def test_the_file_has_the_keys_of_the_format(tmp_path: Path) -> None:
    """The file has the format's keys in its order. Additional keys come after them."""
    run = Talks(tmp_path).run(segments=2)
    document = file_of(run)
    assert list(document) == ["experiment_info", "dataset_statistics", "test_summary", "test_results"]
    assert list(document["experiment_info"]) == ["dataset", "task_id", "memory", "model", "sample_id"]
    assert document["test_summary"] == {"total_tests": 2, "test_threshold": "1/2 of total questions"}
    first, second = document["test_results"]
    assert (first["question_range"], first["dialogs_inserted_count"]) == ({"start": 1, "end": 2}, 2)
    assert (second["question_range"], second["dialogs_inserted_count"]) == ({"start": 1, "end": 4}, 4)
    question = first["questions"][0]
    assert list(question)[:3] == ["question_index", "question_text", "predicted_answer"]
    assert question["predicted_answer"] == question["reference_answer"] == "Bob likes fruit1"
    assert (question["evidence"], question["category"]) == (["D1:1"], "plain")
    assert "error" not in question


def test_scores_have_their_denominators(tmp_path: Path) -> None:
    """Scores are those of the last test, where each question counts once. Both summaries have the same numbers."""
    run = Talks(tmp_path, talk(), talk(6, "b")).run(segments=2)
    summary = numbers_of(run)
    metrics = {metric["metric"]: (metric["value"], metric["n"], metric["clusters"]) for metric in summary["metrics"]}
    right = (
        "f1",
        "exact_match",
        "evidence_recall",
        "recall_at_1",
        "recall_at_2",
        "mrr",
        "ndcg",
        "session_recall",
    )
    assert metrics == {**dict.fromkeys(right, (1.0, 10, 2)), "precision": (0.5, 10, 2)}
    assert summary["categories"]["plain"]["f1"]["n"] == 10
    assert [test["dialogs_inserted"] for test in summary["tests"]] == [3.0, 5.0]
    (path,) = [path for path in run.files if path.name == "summary.json"]
    assert json.loads(path.read_text())["metrics"] == json.loads(json.dumps(summary["metrics"]))
    assert any(path.name == "curve.svg" for path in run.files)


def test_evidence_reaches_the_oracle_only(tmp_path: Path) -> None:
    """Neither other memories nor prompts get the evidence."""
    talks = Talks(tmp_path)
    run = talks.run(memory=[talks.own, "oracle"], segments=1)
    assert talks.searched() == [f"who likes fruit{n} []" for n in range(1, 5)]
    assert not any("D1:" in prompt for prompt in talks.asked())
    assert not any("reference" in prompt or "plain" in prompt for prompt in talks.asked())
    oracle = numbers_of(run, "oracle")
    assert oracle["reference"]
    assert {metric["metric"]: metric["value"] for metric in oracle["metrics"]}["evidence_recall"] == 1.0
    files = [path for path in run.files if path.name == "0000.json"]
    infos = [json.loads(path.read_text())["experiment_info"]["memory"] for path in files]
    assert infos == ["own", "oracle (reference)"]


def test_a_failed_insertion_ends_its_conversation_only(tmp_path: Path) -> None:
    """The summary names the failed conversation. The others have their files."""
    talks = Talks(tmp_path, talk(4, "a", "poison"), talk(4, "b"))
    run = talks.run()
    assert [path.name for path in run.files if path.stem.isdigit()] == ["0001.json"]
    assert run.summary.failures == {"user_code": 1}
    summary = numbers_of(run)
    assert (summary["counts"]["conversations"], summary["counts"]["failed"]) == (1, 1)


def test_a_failed_answer_does_not_affect_other_answers(tmp_path: Path) -> None:
    """The failed answer is empty and has an error. The other questions are answered."""
    conversation = talk()
    conversation["questions"][1]["question"] = "boom"
    document = file_of(Talks(tmp_path, conversation).run(segments=1))
    (test,) = document["test_results"]
    answers = [(question["predicted_answer"] == "", "error" in question) for question in test["questions"]]
    assert answers == [(False, False), (True, True), (False, False), (False, False)]


@pytest.mark.parametrize("method", ["add", "search"])
def test_a_hanging_memory_fails_after_the_timeout(tmp_path: Path, method: str) -> None:
    """Storing fails the conversation, a search fails its question. The message names memory and method."""
    talks = Talks(tmp_path)
    code = (tmp_path / "own.py").read_text()
    hanging = f"    def {method}(self, *_):\n        import time\n        time.sleep(600)\n\n"
    (tmp_path / "own.py").write_text(
        code.replace(f"async def {method}(", f"def other_{method}(").replace(f"def {method}(", f"def other_{method}(")
        + "\n"
        + hanging
    )
    run = talks.run(timeout=0.2, segments=1)
    if method == "add":
        assert run.summary.failures == {"user_code": 1}
    else:
        (test,) = file_of(run)["test_results"]
        assert {each["error"] for each in test["questions"]} == {"own.search: it took longer than 0.2 s"}
    assert run.exit_code == 1


def test_answers_may_have_a_prompt_of_ones_own(tmp_path: Path) -> None:
    """It is what the model gets, and another prompt is another run."""
    (tmp_path / "mine.txt").write_text("Lines:\n{memories}\nSay it: {question}")
    talks = Talks(tmp_path)
    run = talks.run(segments=1, answer_prompt=str(tmp_path / "mine.txt"))
    asked = talks.asked()
    assert "Lines:\n- Ann: Bob likes fruit1\n- Ann: Bob likes fruit2\nSay it: who likes fruit1" in asked
    assert talks.run(segments=1, answer_prompt=str(tmp_path / "mine.txt")).folder == run.folder
    assert talks.asked() == asked
    (tmp_path / "mine.txt").write_text("Lines:\n{memories}\nSay it now: {question}")
    assert talks.run(segments=1, answer_prompt=str(tmp_path / "mine.txt")).folder != run.folder


def test_a_wrong_prompt_is_refused_before_the_first_request(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{memories}")
    talks = Talks(tmp_path)
    with pytest.raises(InputError, match=r"mine\.txt: the prompt lacks \{question\}"):
        talks.run(answer_prompt=str(tmp_path / "mine.txt"))
    (tmp_path / "mine.txt").write_text("{memories} {question}")
    with pytest.raises(UsageError, match="--answer-prompt needs answers, but --no-answer asks for none"):
        talks.run(answer_prompt=str(tmp_path / "mine.txt"), no_answer=True)
    assert talks.asked() == []


def test_only_searching_needs_no_model(tmp_path: Path) -> None:
    """The answers are empty, and only retrieval is scored."""
    run = Talks(tmp_path).run(model="", no_answer=True)
    summary = numbers_of(run)
    names = [metric["metric"] for metric in summary["metrics"]]
    assert names[0] == "evidence_recall"
    assert not {"f1", "exact_match", "judged"} & set(names)
    assert {q["predicted_answer"] for test in file_of(run)["test_results"] for q in test["questions"]} == {""}
    with pytest.raises(UsageError, match="--no-answer"):
        Talks(tmp_path).run(model="")


def test_conversations_are_chosen_by_either_id(tmp_path: Path) -> None:
    talks = Talks(tmp_path, talk(4, "a"), talk(4, "b"), talk(4, "c"))
    run = talks.run(task_id=["0002", "a"])
    assert [path.name for path in run.files if path.stem.isdigit()] == ["0000.json", "0002.json"]
    with pytest.raises(UsageError, match="conversation named 'd'"):
        talks.run(task_id=["d"])


def test_two_runs_of_one_minute_have_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the second run gets a number. The first run finds its own folder again."""
    monkeypatch.setattr("assay.suites.memory.test.sink.time_stamp", lambda _: "251120_1430")
    talks = Talks(tmp_path)
    folders = [{path.parent.name for path in talks.run(segments=segments).files} for segments in (1, 2, 1)]
    assert folders == [{"251120_1430"}, {"251120_1430_2"}, {"251120_1430"}]


def test_a_changed_reference_scores_again_without_calls(tmp_path: Path) -> None:
    talks = Talks(tmp_path)
    talks.run()
    prompts = len(talks.asked())
    conversation = talk()
    conversation["questions"][0]["answer"] = "nothing"
    (tmp_path / "talks.json").write_text(json.dumps([conversation]))
    run = talks.run()
    summary = numbers_of(run)
    assert len(talks.asked()) == prompts
    assert {m["metric"]: m["value"] for m in summary["metrics"]}["exact_match"] == 0.75
    conversation["questions"][0]["abstention"] = True
    (tmp_path / "talks.json").write_text(json.dumps([conversation]))
    summary = numbers_of(talks.run())
    assert len(talks.asked()) == prompts
    assert {m["metric"]: (m["value"], m["n"]) for m in summary["metrics"]}["abstention"] == (0.0, 1)


@pytest.mark.parametrize(("option", "message"), [("memory", "no memory is named"), ("data", "--data is missing")])
def test_a_run_without_a_memory_or_without_data_is_refused(tmp_path: Path, option: str, message: str) -> None:
    values: dict[str, Any] = Talks(tmp_path).values()
    values.pop(option)
    with pytest.raises(UsageError, match=message):
        assay.run(assay.spec("memory-test", **values))


def test_a_bundle_is_one_item_in_the_file(tmp_path: Path) -> None:
    """Evidence recall uses the items behind the text, which the journal has."""
    run = Talks(tmp_path).run(memory=["FUMemory"], segments=2)
    retrieved = [question["retrieved"] for test in file_of(run)["test_results"] for question in test["questions"]]
    assert retrieved == [["memgallery:string_bundle"]] * 6
    summary = numbers_of(run)
    assert {metric["metric"]: metric["value"] for metric in summary["metrics"]}["evidence_recall"] == 1.0


def test_the_summary_says_what_categories_mean(tmp_path: Path) -> None:
    """`category_labels` has the labels. The files keep the numbers of the data."""
    talks = Talks(tmp_path)
    examples = Path(__file__).parents[4] / "examples" / "memory"
    run = talks.run(dataset="locomo", data=f"{examples}/talks.json", memory=["bm25"], no_answer=True, task_id=["0000"])
    (path,) = [path for path in run.files if path.name == "summary.json"]
    summary = json.loads(path.read_text())
    assert summary["category_labels"]["5"] == "adversarial"
    assert summary["categories"]["5"]["evidence_recall"]["n"] > 0
    assert type(file_of(run)["test_results"][0]["questions"][0]["category"]) is int


def test_missing_evidence_is_left_out_of_the_denominator(tmp_path: Path) -> None:
    """Such questions are counted, asked and answered, but have no evidence recall."""
    conversation = talk()
    conversation["questions"][0]["evidence"] = ["D9:9"]
    conversation["questions"][1]["evidence"] = ["D1:2", "D9:9"]
    run = Talks(tmp_path, conversation).run(segments=2)
    summary = numbers_of(run)
    counts = {conversation["metric"]: conversation["n"] for conversation in summary["metrics"]}
    assert (counts["evidence_recall"], counts["f1"]) == (3, 4)
    assert (summary["counts"]["without_evidence"], summary["counts"]["unknown_places"]) == (1, 2)
