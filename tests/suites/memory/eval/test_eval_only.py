"""`--eval-only` calls only the judge, repeats no call, and leaves the pipeline files unchanged."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay.core.errors import InputError, ModelRefused, UsageError
from assay.scoring import offline
from assay.scoring.questions import JudgeQuestion, Verdict

from servers.judging import JudgingServer
from servers.loopback import LoopbackServer
from support.commands import typed
from support.judged_samples import STAGE_ONE, SUBJECT, JudgedSamples, reply, stage_one, stage_two
from support.memory_samples import aggregate_of, entry_of, lines, sample, subjects_of
from support.memory_talks import MEMORY

SEVERAL = "FUMemory,bm25,GAMemory"
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove endpoints, models and keys from the environment."""
    for name in ("MODEL", "BASE_URL", "API_KEY"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
        monkeypatch.delenv(f"OPENAI_{name}_JUDGE", raising=False)
    monkeypatch.delenv("JUDGE_MODEL", raising=False)


@pytest.fixture
def server() -> Iterator[JudgingServer]:
    with JudgingServer(_in_other_words, other=reply) as judging:
        yield judging


def _in_other_words(matter: JudgeQuestion) -> Verdict:
    """Judge like `offline` with another reason, so that records show which judge wrote them."""
    return msgspec.structs.replace(offline.verdict(matter), reason="it seems so")


@pytest.fixture
def judged_samples(tmp_path: Path, server: JudgingServer) -> JudgedSamples:
    """Two samples, with two sessions and with one."""
    return JudgedSamples(tmp_path / "samples", server, sample("s1", 2), sample("s2", 1))


@pytest.mark.parametrize("baselines", ["bm25", SEVERAL])
def test_only_the_second_judge_is_called(judged_samples: JudgedSamples, baselines: str) -> None:
    """Needs neither data nor model. Pipeline files stay untouched, and scores of both judges are kept."""
    first = judged_samples.run(baseline=[baselines])
    files, calls, scored = stage_one(judged_samples.out), judged_samples.calls(), judged_samples.scorers()
    shutil.move(judged_samples.folder / "data", judged_samples.folder / "away")
    second = judged_samples.judged("openai/judge-b")
    assert judged_samples.calls() - calls == {"judge-b": calls["judge-a"]}
    assert stage_one(judged_samples.out) == files
    assert second.folder == first.folder
    (words, judged) = sorted(scored, key=lambda name: name.startswith("judged"))
    (added,) = judged_samples.scorers().keys() - scored.keys()
    assert judged_samples.scorers() == {**scored, added: scored[judged]}
    assert words.startswith("words@")
    assert second.report is not None
    judges = [{judge.name for judge in entry.judges} for entry in second.report.entries]
    assert judges == [{"openai/judge-b"}] * len(baselines.split(","))


@pytest.mark.parametrize("baselines", ["bm25", SEVERAL])
def test_returning_to_the_first_judge_calls_nothing(judged_samples: JudgedSamples, baselines: str) -> None:
    """Its files are restored byte by byte, by `--eval-only` and by the full command."""
    judged_samples.run(baseline=[baselines])
    before = stage_two(judged_samples.out)
    judged_samples.judged("offline")
    assert stage_two(judged_samples.out) != before
    calls = judged_samples.calls()
    for data in ("", f"{judged_samples.folder}/data", f"{judged_samples.folder}/nowhere"):
        judged_samples.judged("openai/judge-a", dataset=data)
        assert (judged_samples.calls(), stage_two(judged_samples.out)) == (calls, before)
    judged_samples.judged("offline")
    judged_samples.run(baseline=[baselines])
    assert (judged_samples.calls(), stage_two(judged_samples.out)) == (calls, before)


def test_a_memory_of_a_file_is_found_again(judged_samples: JudgedSamples) -> None:
    """With or without its path in --baseline, alone or among several. No call is repeated."""
    (judged_samples.folder / "own.py").write_text(MEMORY)
    own = f"{judged_samples.folder}/own.py:Own"
    for baselines in (own, f"bm25,{own}"):
        out = f"{judged_samples.folder}/{len(baselines)}"
        run = judged_samples.run(baseline=[baselines], output_dir=out)
        calls = judged_samples.calls()
        for names in ([baselines], []):
            again = judged_samples.judged("openai/judge-a", baseline=names, output_dir=out)
            assert (again.folder, subjects_of(again)) == (run.folder, subjects_of(run))
        assert judged_samples.calls() == calls


def test_stopped_judging_continues_with_the_rest(judged_samples: JudgedSamples) -> None:
    """After a stop in the middle of judging, received verdicts are not requested again."""
    judged_samples.run(judge="offline")
    files = stage_one(judged_samples.out)
    stopped = judged_samples.judged("openai/judge-b", max_calls=5)
    assert (stopped.exit_code, judged_samples.calls()["judge-b"]) == (3, 5)
    assert judged_samples.judged("openai/judge-b").exit_code == 0
    prompts = judged_samples.said_to("judge-b")
    assert len(prompts) == len(set(prompts))
    assert stage_one(judged_samples.out) == files


@pytest.mark.parametrize("baselines", ["bm25", SEVERAL])
@pytest.mark.parametrize("failure", ["unreachable", "refused", "stopped"])
def test_answers_are_judged_although_their_own_judge_never_judged_them(
    judged_samples: JudgedSamples, failure: str, baselines: str
) -> None:
    """The pipeline files have every sample that is answered. In the end they are those of a run without a failure."""
    undisturbed = judged_samples.run(baseline=[baselines], output_dir=f"{judged_samples.folder}/undisturbed")
    expected = _contents(undisturbed.folder.parent.parent)
    options: Row = {"baseline": [baselines], "open_cases": 1}
    if failure == "unreachable":
        judged_samples.run(**options, judge_base_url="http://127.0.0.1:9/v1", max_retries=0)
    elif failure == "stopped":
        judged_samples.run(**options, judge="offline", max_calls=judged_samples.calls()[SUBJECT] - 1)
    else:
        with (
            LoopbackServer(lambda _: (401, {"error": {"message": "bad key"}})) as locked,
            pytest.raises(ModelRefused, match="401"),
        ):
            judged_samples.run(**options, judge_base_url=locked.url)
    for name, content in _contents(judged_samples.out).items():
        assert set(content.splitlines()) <= set(expected[name].splitlines())
    calls = judged_samples.calls()
    judged = judged_samples.judged("offline")
    assert (judged.exit_code, judged_samples.calls()) == (3, calls)
    assert entry_of(judged, baselines.partition(",")[0]).counts["samples"]
    again = judged_samples.run(baseline=[baselines])
    assert (again.exit_code, again.folder) == (0, judged.folder)
    assert _contents(judged_samples.out) == expected


def _contents(out: Path) -> dict[str, bytes]:
    """Return the content of every pipeline file."""
    return {name: content for name, (content, _) in stage_one(out).items()}


def test_a_sample_that_a_kill_cut_off_is_not_judged(judged_samples: JudgedSamples) -> None:
    """The half line behind the last whole sample is neither an error nor the file of another tool."""
    stopped = judged_samples.run(judge_base_url="http://127.0.0.1:9/v1", max_retries=0, open_cases=1)
    for name in STAGE_ONE:
        with (judged_samples.out / name).open("ab") as file:
            file.write(b'{"sample_id": "s3", "half')
    judged = judged_samples.judged("offline")
    assert judged.folder == stopped.folder
    assert {row["sample_id"] for row in lines(judged_samples.out / STAGE_ONE[0])} == {"s1"}
    assert judged_samples.run().exit_code == 0
    assert {row["sample_id"] for row in lines(judged_samples.out / STAGE_ONE[0])} == {"s1", "s2"}


@pytest.mark.parametrize("failure", ["unreachable", "refused", "stopped"])
def test_a_failed_judge_leaves_a_finished_run_finished(judged_samples: JudgedSamples, failure: str) -> None:
    """The run keeps its state, its report and its files. A later judge and the first command both still work."""
    judged_samples.run(judge="offline")
    run = assay.load(str(judged_samples.out))
    before = stage_two(judged_samples.out)
    calls = judged_samples.calls()
    if failure == "unreachable":
        stopped = judged_samples.judged("openai/judge-b", judge_base_url="http://127.0.0.1:9/v1", max_retries=0)
        assert (stopped.exit_code, "cannot be reached" in stopped.reason) == (3, True)
    elif failure == "stopped":
        assert judged_samples.judged("openai/judge-b", max_calls=2).exit_code == 3
    else:
        with (
            LoopbackServer(lambda _: (401, {"error": {"message": "bad key"}})) as locked,
            pytest.raises(ModelRefused, match="401"),
        ):
            judged_samples.judged("openai/judge-b", judge_base_url=locked.url)
    loaded = assay.load(str(judged_samples.out))
    assert (loaded.folder, loaded.summary.state, loaded.exit_code) == (run.folder, "finished", 0)
    assert loaded.report == run.report
    assert stage_two(judged_samples.out) == before
    assert judged_samples.run(judge="offline").asked is False
    assert judged_samples.calls()[SUBJECT] == calls[SUBJECT]
    assert judged_samples.judged("openai/judge-b").exit_code == 0
    assert stage_two(judged_samples.out) != before


def test_a_failed_judge_does_not_claim_the_files_of_a_later_run(judged_samples: JudgedSamples) -> None:
    """The first run was overwritten by a second one. A failed judge must not make its summary look newer."""
    judged_samples.run(judge="offline")
    later = judged_samples.run(judge="offline", top_k=3, fresh=True)
    files = stage_one(judged_samples.out)
    stopped = judged_samples.run(judge="openai/judge-b", max_calls=2)
    assert (stopped.exit_code, stopped.folder == later.folder) == (3, False)
    assert stage_one(judged_samples.out) == files
    judged_samples.run(judge="offline")
    assert stage_one(judged_samples.out) != files


def test_changed_gold_requests_only_changed_verdicts(judged_samples: JudgedSamples) -> None:
    """Everything is scored again. Only verdicts whose question changed are requested."""
    judged_samples.run()
    calls, scored = judged_samples.calls(), judged_samples.scorers()
    path = judged_samples.folder / "data" / "s1.json"
    path.write_text(path.read_text().replace('"answer": "Rex1x1"', '"answer": "Bella"'))
    answers = aggregate_of(judged_samples.run())["question_answering"]
    assert judged_samples.calls() - calls == {"judge-a": 1}
    assert (answers["num_valid"], answers["correct_ratio"]) == (3, pytest.approx(2 / 3))
    assert sorted(judged_samples.scorers().values()) == sorted([*scored.values()] * 2)
    judged_samples.judged("openai/judge-a")
    assert judged_samples.calls() - calls == {"judge-a": 1}


def test_three_votes_after_one_cost_two_more_calls(judged_samples: JudgedSamples) -> None:
    """The existing vote is one of the three. The scores count as those of another judge."""
    judged_samples.run()
    calls, scored = judged_samples.calls()["judge-a"], judged_samples.scorers()
    judged_samples.judged("openai/judge-a", votes=3)
    assert judged_samples.calls()["judge-a"] == 3 * calls
    assert len(judged_samples.scorers()) == len(scored) + 1
    judged_samples.judged("openai/judge-a")
    assert judged_samples.calls()["judge-a"] == 3 * calls


def test_fresh_judges_again_as_a_new_run(judged_samples: JudgedSamples) -> None:
    """The files become a new run. The run that wrote them is unchanged."""
    run = judged_samples.run()
    calls, before = judged_samples.calls(), stage_two(judged_samples.out)
    fresh = judged_samples.judged("openai/judge-a", fresh=True)
    assert fresh.folder != run.folder
    assert judged_samples.calls() - calls == {"judge-a": calls["judge-a"]}
    assert stage_two(judged_samples.out) == before
    calls = judged_samples.calls()
    assert [judged_samples.judged("openai/judge-a").folder, judged_samples.run().folder] == [run.folder, run.folder]
    assert (judged_samples.calls(), stage_two(judged_samples.out)) == (calls, before)


def test_a_sample_that_failed_stays_failed(tmp_path: Path, server: JudgingServer) -> None:
    """It has no lines, and every judge's report names it with its reason."""
    bad = sample("bad", 2)
    bad["sessions"][1]["dialogue"][0]["content"] = "poison"
    judged_samples = JudgedSamples(tmp_path / "samples", server, bad, sample("good", 2))
    (judged_samples.folder / "own.py").write_text(MEMORY)
    first = entry_of(judged_samples.run(baseline=[f"{judged_samples.folder}/own.py:Own"]), "own")
    assert (first.counts["samples"], first.counts["failed"]) == (1, 1)
    for options in ({}, {"retry_failed": True}):
        second = entry_of(judged_samples.judged("openai/judge-b", **options), "own")
        assert (second.counts, second.examples) == (first.counts, first.examples)
    assert judged_samples.calls()[SUBJECT] == 3


@pytest.mark.parametrize("names", ["bm52", "bm25,STMemory"])
def test_a_run_is_not_judged_under_another_name(judged_samples: JudgedSamples, names: str) -> None:
    """A wrong --baseline would pay for all verdicts again, so it is refused."""
    judged_samples.run()
    calls = judged_samples.calls()
    with pytest.raises(UsageError, match="but --baseline"):
        judged_samples.judged("openai/judge-a", baseline=[names])
    assert judged_samples.calls() == calls


def test_one_of_several_memories_is_judged_as_a_new_run(judged_samples: JudgedSamples) -> None:
    """Only its records change. It becomes a new run, because the first run reports all memories."""
    run = judged_samples.run(baseline=[SEVERAL], judge="offline")
    files, before = stage_one(judged_samples.out), stage_two(judged_samples.out)
    apart = judged_samples.judged("openai/judge-a", baseline=["bm25"])
    assert (subjects_of(apart), apart.folder == run.folder) == (["bm25"], False)
    assert stage_one(judged_samples.out) == files
    changed = {name for name, content in stage_two(judged_samples.out).items() if before[name] != content}
    assert {Path(name).parent.name for name in changed} == {"bm25"}
    assert set(judged_samples.calls()) == {SUBJECT, "judge-a"}
    calls = judged_samples.calls()
    judged_samples.judged("openai/judge-a", baseline=["bm25"])
    assert judged_samples.calls() == calls


@pytest.mark.parametrize("how", ["base_url", "judge_base_url", "OPENAI_BASE_URL", "OPENAI_BASE_URL_JUDGE"])
def test_the_judge_may_have_another_endpoint(
    judged_samples: JudgedSamples, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By flag or by environment. The run stays the same although its model is at another endpoint."""
    run = judged_samples.run(judge="offline")
    with JudgingServer() as elsewhere:
        options: Row = {"base_url": None}
        if how.isupper():
            monkeypatch.setenv(how, elsewhere.url)
        else:
            options[how] = elsewhere.url
        assert judged_samples.judged("openai/judge-b", **options).folder == run.folder
        assert {body["model"] for body in elsewhere.bodies} == {"judge-b"}
    assert set(judged_samples.calls()) == {SUBJECT}


def test_the_default_endpoint_of_the_judge_is_that_of_the_model(judged_samples: JudgedSamples) -> None:
    """The help of --judge-base-url documents this default."""
    judged_samples.run(judge="offline")
    judged_samples.judged("openai/judge-b", base_url=None)
    assert judged_samples.calls()["judge-b"]


def test_a_model_without_endpoint_gives_none_to_the_judge(
    judged_samples: JudgedSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python function has no endpoint. The judge then needs its own endpoint or a key."""
    options = {"model": f"python/{judged_samples.folder}/model.py:answer", "base_url": None}
    judged_samples.run(judge="offline", **options)
    with pytest.raises(UsageError, match="no endpoint and no key"):
        judged_samples.judged("openai/judge-b", base_url=None)
    monkeypatch.setenv("OPENAI_BASE_URL", judged_samples.server.url)
    assert judged_samples.judged("openai/judge-b", base_url=None).exit_code == 0
    assert set(judged_samples.calls()) == {"judge-b"}


def test_missing_pipeline_files_are_reported(judged_samples: JudgedSamples, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 with a message, and no folder is created."""
    for flags in ((), ("--baseline", "bm25"), ("--baseline", SEVERAL)):
        nowhere = str(judged_samples.folder / "nowhere")
        code = typed("memory", "eval", "--output-dir", nowhere, "--eval-only", "--judge", "offline", *flags)
        assert code == 2
        assert "pipeline_sessions.jsonl" in capsys.readouterr().err
        assert not Path(nowhere).exists()


def without(row: Row, key: str) -> Row:
    return {name: value for name, value in row.items() if name != key}


FOREIGN: dict[str, Any] = {
    "extra keys": lambda row: {"tool": {"name": "x"}} | row | {"late": [None, 1.5, "ü"]},
    "no sample_uuid": lambda row: without(row, "sample_uuid"),
    "an eval": lambda row: row | {"eval": {"session_id": "S01", "recall": 0.5}},
    "an eval first": lambda row: {"eval": {"answer_label": "Correct"}} | row,
    "an eval of nothing": lambda row: row | {"eval": None},
    "an eval of another shape": lambda row: row | {"eval": {"recall": "n/a", "answer_label": 3}},
}


class Foreign:
    """A folder with only the two pipeline files, as if from another tool."""

    def __init__(self, judged_samples: JudgedSamples) -> None:
        judged_samples.run(judge="offline")
        self.out = judged_samples.folder / "foreign"
        self.out.mkdir()
        self.rows = [lines(judged_samples.out / name) for name in STAGE_ONE]
        for name in STAGE_ONE:
            shutil.copy(judged_samples.out / name, self.out / name)
        self._samples = judged_samples

    def write(self, sessions: list[Row], questions: list[Row]) -> None:
        for name, rows in zip(STAGE_ONE, (sessions, questions), strict=True):
            (self.out / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    def judged(self, **options: Any) -> Any:
        """Judged, with the files untouched."""
        before = stage_one(self.out)
        run = self._samples.judged("openai/judge-b", output_dir=str(self.out), **options)
        assert stage_one(self.out) == before
        return run

    def records(self) -> list[list[Row]]:
        return [lines(self.out / name) for name in ("session_records.jsonl", "qa_records.jsonl")]


@pytest.fixture
def foreign(judged_samples: JudgedSamples) -> Foreign:
    return Foreign(judged_samples)


def test_files_without_a_run_become_one(
    judged_samples: JudgedSamples, foreign: Foreign, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same figures as in the original folder, only judge calls, and no call when repeated."""
    run = foreign.judged()
    calls = judged_samples.calls()
    assert set(calls) == {SUBJECT, "judge-b"}
    here = judged_samples.judged("openai/judge-b")
    assert aggregate_of(run) == aggregate_of(here)
    assert judged_samples.calls()["judge-b"] == 2 * calls["judge-b"]
    again = foreign.judged()
    assert (again.folder, again.asked) == (run.folder, False)
    for words in ([], ["s1"]):
        assert typed("show", str(foreign.out), *words) == 0
    assert "probe_2/1" in capsys.readouterr().out


@pytest.mark.parametrize("how", FOREIGN)
def test_rows_of_other_tools_are_judged(foreign: Foreign, how: str) -> None:
    """Unknown keys are kept in place. An existing `eval` is replaced and comes last."""
    rows = [[FOREIGN[how](row) for row in kind] for kind in foreign.rows]
    foreign.write(*rows)
    entry = entry_of(foreign.judged())
    assert (entry.counts["sessions"], entry.counts["questions"]) == (3, 3)
    for records, written in zip(foreign.records(), rows, strict=True):
        assert [list(without(record, "eval").items()) for record in records] == [
            list(without(row, "eval").items()) for row in written
        ]
        assert {list(record)[-1] for record in records} == {"eval"}
    assert {record["eval"]["answer_is_valid"] for record in foreign.records()[1]} == {True}


def test_edited_files_are_judged_as_they_are_now(judged_samples: JudgedSamples) -> None:
    """The run that wrote them keeps its scores. The edited files become a new run."""
    run = judged_samples.run()
    before = aggregate_of(run)
    path = judged_samples.out / STAGE_ONE[1]
    path.write_text(path.read_text().replace('"Rex1x1"', '"Bella"'))
    edited = judged_samples.judged("openai/judge-a")
    assert edited.folder != run.folder
    correct = [each["question_answering"]["correct_ratio"] for each in (before, aggregate_of(edited))]
    assert correct == [1.0, pytest.approx(1 / 3)]
    assert judged_samples.calls()[SUBJECT] == 3


def test_samples_may_be_mixed_and_lines_blank(foreign: Foreign) -> None:
    """Lines of a sample need not be adjacent, and the last newline is optional."""
    expected = aggregate_of(foreign.judged())
    sessions, questions = foreign.rows
    foreign.write([sessions[0], sessions[2], sessions[1]], [questions[2], *questions[:2]])
    for name in STAGE_ONE:
        path = foreign.out / name
        path.write_text("\n" + path.read_text().replace("\n", "\r\n \n").rstrip())
    assert aggregate_of(foreign.judged()) == expected
    assert Counter(row["sample_id"] for row in foreign.records()[1]) == {"s1": 2, "s2": 1}


def test_a_sample_may_have_no_questions(foreign: Foreign) -> None:
    """Or only questions. Whatever exists is judged."""
    sessions, questions = foreign.rows
    foreign.write(sessions, questions[2:])
    assert entry_of(foreign.judged()).counts["questions"] == 1
    foreign.write(sessions[2:], questions)
    entry = entry_of(foreign.judged())
    assert (entry.counts["samples"], entry.counts["sessions"]) == (2, 1)
    foreign.write([], [])
    with pytest.raises(UsageError, match="no line"):
        foreign.judged()


def test_the_baseline_name_comes_from_the_flag_or_the_rows(foreign: Foreign) -> None:
    """From --baseline, else from the rows, else `baseline`."""
    assert subjects_of(foreign.judged(baseline=["theirs"])) == ["theirs"]
    sessions, questions = foreign.rows
    nameless = [row | {"retrieval": row["retrieval"] | {"raw_trace": {}}} for row in questions]
    bare = [row | {"memory_snapshot": []} for row in sessions]
    foreign.write(sessions, nameless)
    assert subjects_of(foreign.judged()) == ["bm25"]
    foreign.write(bare, nameless)
    assert subjects_of(foreign.judged()) == ["baseline"]


@pytest.mark.parametrize("baseline", [[], ["bm25"]])
def test_invalid_lines_are_reported_before_the_first_request(
    judged_samples: JudgedSamples, foreign: Foreign, baseline: list[str]
) -> None:
    """The message has file, line and missing key. Exit code 2, and no run folder is created."""
    sessions, questions = foreign.rows
    foreign.write(sessions, [*questions[:2], without(questions[2], "question")])
    calls = judged_samples.calls()
    with pytest.raises(InputError, match=r"pipeline_qa\.jsonl:3: .*`question`") as caught:
        foreign.judged(baseline=baseline)
    assert caught.value.exit_code == 2
    path = foreign.out / STAGE_ONE[0]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"pipeline_sessions\.jsonl:3: .*truncated") as caught:
        foreign.judged(baseline=baseline)
    assert caught.value.exit_code == 2
    assert judged_samples.calls() == calls
    assert not (foreign.out / "assay").exists()
