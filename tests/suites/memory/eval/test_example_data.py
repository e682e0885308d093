"""The example samples have the content that their page describes, and every point occurs in its session."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from assay.suites.memory.eval.sample import MemoryPoint, Sample, SampleQuestion, SampleSession
from assay.suites.memory.eval.sample_files import load_samples

from suites.memory.eval.files import EXAMPLES
from support.suite_files import problems_in

SAMPLES = load_samples(EXAMPLES).samples
QUESTIONS = [each for sample in SAMPLES for checkpoint in sample.checkpoints for each in checkpoint.questions]
SESSIONS = [session for sample in SAMPLES for session in sample.sessions]
UNKNOWN = "Not mentioned in memory."
CHINESE = re.compile(r"[\u4e00-\u9fff]")
NUMBERS = "two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|thirty|eighty|first|second|third|twice"
HAN_NUMBERS = "[一二三四五六七八九十百千万]+"
NAMES = re.compile(rf"\d+(?:,\d+)*|(?<=[a-z,] )[A-Z]\w+|\b(?:{NUMBERS})\b|{HAN_NUMBERS}")
MOST_WORDS = 0.6


def is_chinese(sample: Sample) -> bool:
    return all(CHINESE.search(turn.content) for session in sample.sessions for turn in session.turns)


def evidence_sessions(question: SampleQuestion) -> set[str]:
    return {name.split("_")[1] for name in question.evidence}


def test_the_check_reports_nothing() -> None:
    """Neither errors nor warnings, for the folder and for each file."""
    assert problems_in(EXAMPLES) == []
    assert [problems_in(path) for path in sorted(EXAMPLES.glob("*.json"))] == [[]] * 6


def test_samples_sessions_and_questions_are_counted() -> None:
    assert len(SAMPLES) == 6
    assert {len(sample.sessions) for sample in SAMPLES} == {6}
    assert {sum(len(each.questions) for each in sample.checkpoints) for sample in SAMPLES} == {10}
    assert sum(map(is_chinese, SAMPLES)) == 2
    assert all(6 <= len(session.turns) <= 10 for session in SESSIONS)
    assert [path.stem for path in sorted(EXAMPLES.glob("*.json"))] == [each.sample_id for each in SAMPLES]


def test_every_dimension_has_something_to_judge() -> None:
    """Every sample has new points, updates, interference and images."""
    assert sum(len(session.new) for session in SESSIONS) >= 100
    assert sum(len(session.updates) for session in SESSIONS) >= 24
    assert sum(len(session.interference) for session in SESSIONS) >= 12
    for sample in SAMPLES:
        assert all(any(getattr(each, kind) for each in sample.sessions) for kind in ("updates", "interference"))
        assert any(turn.captions for session in sample.sessions for turn in session.turns)


def test_the_page_counts_right() -> None:
    points = (
        [point for each in SESSIONS for point in getattr(each, kind)] for kind in ("new", "updates", "interference")
    )
    counts = [*map(len, points), sum(len(sample.checkpoints) for sample in SAMPLES)]
    assert f"| all | | | {' | '.join(map(str, counts))} |" in (EXAMPLES / "README.md").read_text()


def test_questions_are_of_all_kinds() -> None:
    counts = Counter(question.abbrev for question in QUESTIONS)
    assert counts == {"FR": 12, "MH": 12, "DU": 12, "MB": 12, "MC": 6, "GA": 6}
    assert len({(question.type, question.abbrev) for question in QUESTIONS}) == 6
    assert min(Counter(question.difficulty for question in QUESTIONS).values()) >= 15
    assert {question.difficulty for question in QUESTIONS} == {"easy", "medium", "hard"}


def test_only_unanswerable_questions_have_no_evidence() -> None:
    """Unanswerable questions have no evidence. All evidence of the others exists."""
    assert sum(question.answer == UNKNOWN for question in QUESTIONS) == 12
    for question in QUESTIONS:
        assert (question.answer == UNKNOWN) is (question.abbrev == "MB") is (not question.evidence)
        assert len(question.contents) == len(question.evidence)


def test_many_hops_are_over_several_sessions() -> None:
    assert all(len(evidence_sessions(each)) > 1 for each in QUESTIONS if each.abbrev == "MH")


def test_questions_of_updates_rest_on_updates() -> None:
    updates = {point.content for session in SESSIONS for point in session.updates}
    assert all(updates.issuperset(each.contents) for each in QUESTIONS if each.abbrev in {"DU", "MC"})


def test_a_sample_is_asked_more_than_once() -> None:
    """After the third and the last session, some after the fifth as well."""
    due = [[each.id for each in sample.sessions if sample.questions_after(each.id)] for sample in SAMPLES]
    assert all({"S03", "S06"} <= set(each) for each in due)
    assert sum("S05" in each for each in due) == 2


def test_dates_only_grow() -> None:
    for sample in SAMPLES:
        stamps = [turn.timestamp for session in sample.sessions for turn in session.turns]
        assert stamps == sorted(set(stamps))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.sample_id)
def test_every_point_is_said_in_its_session(sample: Sample) -> None:
    """The session contains all names and numbers of the point, and most of its words."""
    for session in sample.sessions:
        for point in session.points:
            names, share = held(point, session)
            assert not names, (point.memory_id, names)
            assert share >= MOST_WORDS, (point.memory_id, share)


def held(point: MemoryPoint, session: SampleSession) -> tuple[set[str], float]:
    """Return the names and numbers that the session lacks, and the share of the point's words that it has."""
    said = " ".join(" ".join((turn.content, *turn.captions)) for turn in session.turns)
    names = {name.lower() for name in NAMES.findall(point.content)}
    wanted = words(re.sub(r"用户|\buser\b", "", point.content))
    tokens = set(re.findall(rf"\d+(?:,\d+)*|{HAN_NUMBERS}|[a-zê]+", said.lower()))
    return names - tokens, len(wanted & words(said)) / len(wanted)


def words(text: str) -> set[str]:
    """Return prefixes of words; for Chinese, single characters."""
    return {word[:4].lower() for word in re.findall(r"[A-Za-zê]{4,}", text)} | set(CHINESE.findall(text))
