"""Whole evaluations: five files, two stages, no repeated calls, and gold only for judges."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.errors import InputError, UsageError
from assay.suites.memory.eval.output_files import OutputLines
from assay.suites.memory.eval.result_lines import QaLine, SessionLine

from servers.loopback import LoopbackServer, chat
from support.commands import typed
from support.memory_samples import Samples, aggregate_of, entry_of, lines, sample, subjects_of
from support.memory_talks import MEMORY

FIVE = {
    "pipeline_sessions.jsonl",
    "pipeline_qa.jsonl",
    "session_records.jsonl",
    "qa_records.jsonl",
    "aggregate_metrics.json",
}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_five_files_and_the_run(tmp_path: Path) -> None:
    """No other files are written. Lines are in data order, and records are the same lines with `eval`."""
    samples = Samples(tmp_path, sample("s1", 3), sample("s2", 2))
    run = samples.run()
    assert names(samples.out) == {*FIVE, "assay"}
    assert run.exit_code == 0
    sessions, questions = (lines(samples.out / f"pipeline_{name}.jsonl") for name in ("sessions", "qa"))
    assert [(row["sample_id"], row["session_id"]) for row in sessions] == [
        *[("s1", "S01"), ("s1", "S02"), ("s1", "S03")],
        *[("s2", "S01"), ("s2", "S02")],
    ]
    assert [row["checkpoint_id"] for row in questions] == [
        "probe_1",
        "probe_2",
        "probe_3",
        "probe_1",
        "probe_2",
    ]
    for name, rows, kind in (("session", sessions, SessionLine), ("qa", questions, QaLine)):
        records = lines(samples.out / f"{name}_records.jsonl")
        assert [list(record)[-1] for record in records] == ["eval"] * len(rows)
        assert [{k: v for k, v in record.items() if k != "eval"} for record in records] == rows
        for row in rows:
            assert json.loads(msgspec.json.encode(msgspec.convert(row, kind))) == row


def test_what_a_session_shows(tmp_path: Path) -> None:
    """Each round is an item with its session, captions are part of the text, and cumulative gold grows."""
    samples = Samples(tmp_path)
    samples.run()
    first, second, _ = lines(samples.out / "pipeline_sessions.jsonl")
    assert [item["memory_id"] for item in second["memory_snapshot"]] == ["0", "1", "2", "3"]
    assert [item["session_id"] for item in second["memory_snapshot"]] == ["S01", "S01", "S02", "S02"]
    assert first["memory_snapshot"][0] == {
        "memory_id": "0",
        "text": "user: my pet1x1 of s1 is called Rex1x1\nassistant: I see. (shows a dog1)",
        "session_id": "S01",
        "status": "active",
        "source": "bm25",
        "raw_backend_id": "0",
        "raw_backend_type": "linear",
        "metadata": {},
    }
    assert [delta["op"] for delta in second["memory_delta"]] == ["add", "add"]
    gold = second["gold_state"]
    assert [len(gold[key]) for key in gold if key != "session_id"] == [2, 0, 1, 1]


def test_a_full_memory_is_one_text(tmp_path: Path) -> None:
    """The file has one item, as in the format's example. Citations are the items behind it."""
    samples = Samples(tmp_path)
    samples.run(baseline=["FUMemory"])
    *_, last = lines(samples.out / "pipeline_qa.jsonl")
    (item,) = last["retrieval"]["items"]
    assert (item["rank"], item["memory_id"], item["score"]) == (0, "memgallery:string_bundle", 1.0)
    assert item["raw_backend_id"] is None
    assert item["text"].count("user: ") == 6
    assert last["cited_memories"] == ["user: my pet3x1 of s1 is called Rex3x1\nassistant: I see. (shows a dog3)"]


def test_several_baselines_have_a_folder_each(tmp_path: Path) -> None:
    """One run writes five files into each folder."""
    samples = Samples(tmp_path)
    run = samples.run(baseline=["bm25,FUMemory"])
    assert names(samples.out) == {"bm25", "FUMemory", "assay"}
    assert [names(samples.out / name) for name in ("bm25", "FUMemory")] == [FIVE, FIVE]
    ids = [
        json.loads((samples.out / name / "aggregate_metrics.json").read_text())["baseline_id"]
        for name in subjects_of(run)
    ]
    assert ids == ["bm25", "FUMemory"]


def test_the_same_command_asks_nothing(tmp_path: Path) -> None:
    """The finished run is returned."""
    samples = Samples(tmp_path)
    samples.run()
    before = len(samples.asked())
    assert (samples.run().asked, len(samples.asked())) == (False, before)


def test_other_settings_are_refused(tmp_path: Path) -> None:
    """The message names the options that differ. --fresh overwrites the files."""
    samples = Samples(tmp_path)
    samples.run()
    with pytest.raises(UsageError, match=r"different settings \(top_k\)"):
        samples.run(top_k=2)
    samples.run(top_k=2, fresh=True)
    assert {row["retrieval"]["top_k"] for row in lines(samples.out / "pipeline_qa.jsonl")} == {2}


def test_a_run_whose_files_were_written_over_writes_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report and files then belong to the same run, without any request."""
    monkeypatch.chdir(tmp_path)
    samples = Samples(tmp_path)
    first = samples.run()
    samples.run(top_k=2, fresh=True, output_dir="out")
    prompts = len(samples.asked())
    assert samples.run().folder == first.folder
    assert {row["retrieval"]["top_k"] for row in lines(samples.out / "pipeline_qa.jsonl")} == {5}
    assert (len(samples.asked()), samples.run().asked) == (prompts, False)


def test_foreign_pipeline_files_are_not_overwritten(tmp_path: Path) -> None:
    """Files from another tool, and edited files."""
    samples = Samples(tmp_path)
    samples.run()
    path = samples.out / "pipeline_qa.jsonl"
    changed = path.read_text().replace("Rex1x1", "Max")
    path.write_text(changed)
    with pytest.raises(UsageError, match="--eval-only"):
        samples.run(judge=None, no_judge=True)
    assert path.read_text() == changed


def test_changed_gold_asks_no_model(tmp_path: Path) -> None:
    """Answers stay and are judged by the new gold, which the pipeline files contain."""
    samples = Samples(tmp_path)
    samples.run()
    before = len(samples.asked())
    path = samples.folder / "data" / "s1.json"
    path.write_text(path.read_text().replace('"answer": "Rex1x1"', '"answer": "Bella"'))
    run = samples.run()
    assert len(samples.asked()) == before
    assert lines(samples.out / "pipeline_qa.jsonl")[0]["gold_answer"] == "Bella"
    assert aggregate_of(run)["question_answering"]["correct_ratio"] == pytest.approx(2 / 3)


def test_changed_evidence_asks_no_model(tmp_path: Path) -> None:
    """No memory sees evidence, except `oracle`, for which changed evidence makes another run."""
    samples = Samples(tmp_path)
    oracle = {"baseline": ["oracle"], "output_dir": f"{tmp_path}/told"}
    samples.run()
    samples.run(**oracle)
    before = len(samples.asked())
    path = samples.folder / "data" / "s1.json"
    path.write_text(path.read_text().replace('[{"memory_id": "mp_S02_1"}]', '[{"memory_id": "mp_S01_1"}]'))
    samples.run()
    assert lines(samples.out / "pipeline_qa.jsonl")[1]["gold_evidence_memory_ids"] == ["mp_S01_1"]
    assert len(samples.asked()) == before
    with pytest.raises(UsageError, match="different settings"):
        samples.run(**oracle)


def test_without_a_judge_words_are_compared(tmp_path: Path) -> None:
    """All five files exist. Judged values are null, and the summary has only word scores."""
    samples = Samples(tmp_path)
    run = samples.run(judge=None, no_judge=True)
    assert names(samples.out) == {*FIVE, "assay"}
    entry = entry_of(run)
    assert [metric.name for metric in entry.metrics] == ["f1", "bleu1"]
    assert not entry.judges
    record = lines(samples.out / "qa_records.jsonl")[0]["eval"]
    assert (record["answer_label"], record["answer_is_valid"]) == (None, False)


def test_a_citation_of_nothing_is_dropped_and_counted(tmp_path: Path) -> None:
    """Every answer of this model cites a number that was not retrieved."""
    samples = Samples(tmp_path)
    run = samples.run()
    assert [len(row["cited_memories"]) for row in lines(samples.out / "pipeline_qa.jsonl")] == [1, 1, 1]
    assert entry_of(run).counts["dropped_citations"] == 3


def test_an_own_prompt_may_ask_for_a_plain_answer(tmp_path: Path) -> None:
    """Then nothing is cited, and the coverage of citations is not measured, instead of being 0."""
    prompt = tmp_path / "mine.txt"
    prompt.write_text("{memories}\n\nQuestion: {question}")
    (tmp_path / "plain.py").write_text("def answer(messages, params):\n    return 'Rex1x1'\n")
    samples = Samples(tmp_path)
    run = samples.run(answer_prompt=str(prompt), model=f"python/{tmp_path}/plain.py:answer")
    assert run.exit_code == 0
    rows = lines(samples.out / "qa_records.jsonl")
    assert {row["generated_answer"] for row in rows} == {"Rex1x1"}
    assert [row["eval"]["evidence_hit_rate"] for row in rows] == [None, None, None]
    assert rows[0]["retrieval"]["raw_trace"] == {"baseline": "bm25", "cites": False}
    entry = entry_of(run, "bm25")
    coverage = next(metric for metric in entry.metrics if metric.name == "evidence")
    assert (coverage.value, coverage.left_out) == (None, {"not cited": 3})
    assert "replies_without_json" not in entry.counts
    # The files alone say it too.
    again = samples.run(eval_only=True, fresh=True, dataset="", model="")
    (evidence,) = [metric for metric in entry_of(again, "bm25").metrics if metric.name == "evidence"]
    assert (evidence.value, evidence.left_out) == (None, {"not cited": 3})
    assert typed("import", str(samples.out), "--output-dir", str(tmp_path / "imported")) == 0
    (folder,) = (path.parent for path in (tmp_path / "imported").rglob("run.json"))
    imported = entry_of(assay.load(folder), "bm25")
    (evidence,) = [metric for metric in imported.metrics if metric.name == "evidence"]
    assert (evidence.value, evidence.left_out) == (None, {"not cited": 3})


def test_an_own_prompt_may_ask_for_citations(tmp_path: Path) -> None:
    """With a system part or without. The model of the tests cites as it does for the built-in prompt."""
    prompt = tmp_path / "mine.txt"
    prompt.write_text("{memories}\nGive citations.\nQuestion: {question}")
    samples = Samples(tmp_path)
    run = samples.run(answer_prompt=str(prompt))
    assert aggregate_of(run)["evidence_coverage"] == {
        "hit_rate": 1.0,
        "num_covered": 3,
        "num_total": 3,
    }
    assert samples.asked()[0][0]["content"].startswith("[1] ")


def test_a_wrong_prompt_ends_the_command_before_the_first_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has file and line, and what to write."""
    samples = Samples(tmp_path)
    (tmp_path / "mine.txt").write_text("{memories}\n{quesstion}")
    command = ["memory", "eval", "--dataset", samples.values()["dataset"], "--baseline", "bm25"]
    command += ["--model", samples.values()["model"], "--output-dir", str(samples.out)]
    code = typed(*command, "--answer-prompt", str(tmp_path / "mine.txt"))
    assert (code, samples.asked()) == (2, [])
    err = capsys.readouterr().err
    assert "mine.txt:2: {quesstion} is no placeholder of this prompt; did you mean 'question'?" in err
    assert "mine.txt: the prompt lacks {question}; it needs the placeholders {memories} and {question}" in err


def test_gold_reaches_judges_only(tmp_path: Path) -> None:
    """Marks in all gold fields reach no prompt and no query, for any memory."""
    marked: dict[str, Any] = sample()
    for block in marked["memory_points"]:
        for point in block["memory_points"]:
            point |= {"memory_content": "GOLD", "original_memories": ["GOLD"], "memory_type": "GOLD"}
    for checkpoint in marked["qa_checkpoints"]:
        for question in checkpoint["questions"]:
            question |= {"answer": "GOLD", "question_type": "GOLD", "question_type_abbrev": "GOLD"}
            question |= {"difficulty": "GOLD"}
    samples = Samples(tmp_path, marked)
    samples.run(baseline=["bm25,FUMemory,STMemory,oracle,none"])
    assert samples.asked()
    assert "GOLD" not in json.dumps(samples.asked())


def test_sessions_that_are_cut_off(tmp_path: Path) -> None:
    """Checkpoints that need a later session are skipped."""
    samples = Samples(tmp_path)
    samples.run(max_sessions=2)
    assert len(lines(samples.out / "pipeline_sessions.jsonl")) == 2
    assert [row["checkpoint_id"] for row in lines(samples.out / "pipeline_qa.jsonl")] == [
        "probe_1",
        "probe_2",
    ]


@pytest.mark.parametrize(
    ("sessions", "message"),
    [
        (2, "Skipped 1 checkpoint: not covered by --max-sessions 2."),
        (1, "Skipped 2 checkpoints: not covered by --max-sessions 1."),
    ],
)
def test_skipped_checkpoints_are_counted_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sessions: int, message: str
) -> None:
    """The notice has a singular and a plural."""
    samples = Samples(tmp_path)
    values = samples.values()
    flags = ["--max-sessions", str(sessions), "--baseline", "bm25", "--judge", "offline"]
    for name in ("dataset", "model", "output_dir"):
        flags += [f"--{name.replace('_', '-')}", values[name]]
    assert typed("memory", "eval", *flags) == 0
    assert message in capsys.readouterr().err


def test_some_samples(tmp_path: Path) -> None:
    """--sample-id and --smoke choose samples. The message for an unknown id suggests the nearest."""
    samples = Samples(tmp_path, sample("s1", 1), sample("s2", 1))
    samples.run(sample_id=["s2"])
    assert {row["sample_id"] for row in lines(samples.out / "pipeline_qa.jsonl")} == {"s2"}
    samples.run(smoke=True, output_dir=f"{tmp_path}/smoke")
    assert {row["sample_id"] for row in lines(tmp_path / "smoke" / "pipeline_qa.jsonl")} == {"s1"}
    with pytest.raises(UsageError, match="s2"):
        samples.run(sample_id=["s22"], output_dir=f"{tmp_path}/none")


def test_missing_options_end_the_command_before_the_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing data, memory, model or key: exit code 2 before the first request."""
    for name in ("OPENAI_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    samples = Samples(tmp_path)
    refused: list[dict[str, Any]] = [
        {"dataset": ""},
        {"baseline": []},
        {"model": ""},
        {"model": "openai/gpt-x"},
        {"judge": "openai/gpt-x"},
        {"judge": "offline", "no_judge": True},
        {"dataset": f"{tmp_path}/nowhere"},
    ]
    for options in refused:
        with pytest.raises((UsageError, InputError)) as caught:
            samples.run(**options)
        assert caught.value.exit_code == 2
    assert not samples.out.exists()


def test_the_model_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_MODEL is the model, and the judge too unless JUDGE_MODEL is set."""
    samples = Samples(tmp_path)
    monkeypatch.setenv("OPENAI_MODEL", f"python/{tmp_path}/model.py:answer")
    monkeypatch.setenv("JUDGE_MODEL", "offline")
    run = samples.run(model="", judge=None)
    assert {judge.name for judge in entry_of(run).judges} == {"offline"}
    assert samples.asked()


def test_an_exception_in_a_memory_fails_only_its_sample(tmp_path: Path) -> None:
    """The report names the sample, which has no lines. The other samples are complete."""
    bad = sample("bad", 2)
    bad["sessions"][1]["dialogue"][0]["content"] = "poison"
    samples = Samples(tmp_path, bad, sample("good", 2))
    (tmp_path / "own.py").write_text(MEMORY)
    run = samples.run(baseline=[f"{tmp_path}/own.py:Own"])
    (failures,) = entry_of(run, "own").examples
    assert [failure.label for failure in failures.shown] == ["sample bad"]
    assert "it is bad" in failures.shown[0].reason
    assert {row["sample_id"] for row in lines(samples.out / "pipeline_sessions.jsonl")} == {"good"}


class _Killed(BaseException):
    """No code of assay catches it."""


def _killed_after(count: int, publish: Callable[[OutputLines], Path]) -> Callable[[OutputLines], Path]:
    """Return a function that publishes so many files, and ends the run at the next."""
    left = [publish] * count

    def publish_or_end(lines: OutputLines) -> Path:
        if not left:
            raise _Killed
        return left.pop()(lines)

    return publish_or_end


@pytest.mark.parametrize("published", [1, 2, 3])
def test_killed_while_files_get_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: int) -> None:
    """Some files are new and others old or missing. The run recognises each of them and continues."""
    samples = Samples(tmp_path)
    for answer in ("Rex1x1", "Bella"):
        path = samples.folder / "data" / "s1.json"
        path.write_text(path.read_text().replace('"answer": "Rex1x1"', f'"answer": "{answer}"'))
        with monkeypatch.context() as killed:
            killed.setattr(OutputLines, "publish", _killed_after(published, OutputLines.publish))
            with pytest.raises(_Killed):
                samples.run()
        assert samples.run().exit_code == 0
        assert names(samples.out) == {*FIVE, "assay"}
        assert lines(samples.out / "pipeline_qa.jsonl")[0]["gold_answer"] == answer
    assert len(samples.asked()) == 3


def test_a_missing_answer_is_not_an_omission(tmp_path: Path) -> None:
    """A sample with a missing answer has no lines. The same command asks only for the missing answer."""
    samples = Samples(tmp_path, sample("s1", 2), sample("s2", 2))
    down = [True]

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        is_last = "pet2x1 of s2" in body["messages"][-1]["content"].rpartition("Question: ")[2]
        return (500, {}) if down and is_last else (200, chat('{"answer": "Rex", "citations": [1]}'))

    with LoopbackServer(answer) as server:
        options = {"model": "openai/fake", "base_url": server.url, "max_retries": 0}
        first = samples.run(**options)
        assert (first.exit_code, entry_of(first).counts["failed"]) == (3, 1)
        assert {row["sample_id"] for row in lines(samples.out / "pipeline_qa.jsonl")} == {"s1"}
        assert aggregate_of(first)["question_answering"]["num_total"] == 2
        down.clear()
        requests = len(server.bodies)
        assert samples.run(**options).exit_code == 0
        assert len(server.bodies) == requests + 1
    rows = lines(samples.out / "pipeline_qa.jsonl")
    assert [(row["sample_id"], row["generated_answer"]) for row in rows] == [
        *[("s1", "Rex"), ("s1", "Rex")],
        *[("s2", "Rex"), ("s2", "Rex")],
    ]
