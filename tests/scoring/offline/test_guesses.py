"""Answers that name several candidates."""

from __future__ import annotations

import pytest

from assay.scoring import offline
from assay.scoring.questions import CORRECT, AnswerQuestion


def label(question: str, reference: str, response: str) -> str:
    return offline.verdict(AnswerQuestion(question, reference, response)).labels[0]


@pytest.mark.parametrize(
    ("question", "reference", "response"),
    [
        ("Where does Ana live?", "Oslo", "Oslo, Rome or Bonn"),
        ("Where does Ana live?", "Oslo", "She lives in Rome or Oslo."),
        ("Where does Ana live?", "Oslo", "Maybe in Rome, maybe in Oslo."),
        ("Where does Ana live?", "Oslo", "It is Oslo, or perhaps Bonn, which is nice too."),
        ("What does she study?", "marine biology", "She studies marine biology or marine law."),
        ("Is it close to the beach or the hills?", "the beach", "It is close to the beach or the hills."),
        ("When did she move?", "7 May 2023", "On 3 May 2023, 7 May 2023 or 9 May 2023."),
        ("When did she move?", "May 2023", "Probably in May or June 2023."),
        ("When did she move?", "May 2023", "In May 2023, or maybe in July 2023."),
        ("How many cats?", "three", "two or three"),
        ("How long was it?", "5 years", "It was 5 or 15 years."),
        ("她住在哪里？", "上海", "北京、上海或者广州"),
        ("她住在哪里？", "上海", "也许在北京，也许在上海。"),
        ("待了多久？", "三个星期", "两个星期或者三个星期"),
    ],
)
def test_several_candidates_are_no_answer(question: str, reference: str, response: str) -> None:
    assert label(question, reference, response) != CORRECT


@pytest.mark.parametrize(
    ("question", "reference", "response"),
    [
        ("Where does Ana live?", "Oslo", "She lives in Oslo, where she works or studies."),
        ("Where does Ana live?", "Oslo", "Oslo. She goes home by bus or by tram."),
        ("Where does Ana live?", "Oslo", "She lives in Oslo, perhaps for two years."),
        ("Where does Ana live?", "Oslo or Rome", "In Rome or Oslo."),
        ("What does she drink?", "tea and coffee", "Tea or coffee, as she told Ben."),
        ("When did she move?", "7 May 2023", "On 7 May 2023, after the exam on 2 May 2023."),
        ("Did she like it or not?", "Yes", "Yes, whether she shows it or not."),
        ("How long was it?", "two weeks", "Two weeks or so."),
        ("她住在哪里？", "上海", "她的家还是在上海。"),
    ],
)
def test_an_or_elsewhere_does_no_harm(question: str, reference: str, response: str) -> None:
    """Between details, between the parts of the reference, or in `or so`."""
    assert label(question, reference, response) == CORRECT
