"""What the offline judge says of answers, on invented texts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from assay.scoring import offline
from assay.scoring.questions import CORRECT, HALLUCINATION, OMISSION, AnswerQuestion, Verdict

WHEN = "When did Ana move?"


def judged(question: str, reference: str, response: str) -> Verdict:
    return offline.verdict(AnswerQuestion(question, reference, response))


@pytest.mark.parametrize(
    ("question", "reference", "response"),
    [
        (WHEN, "7 May 2023", "Ana moved on May 7th, 2023."),
        (WHEN, "7 May 2023", "2023-05-07"),
        (WHEN, "the week before 9 June 2023", "She moved around 4 June 2023."),
        (WHEN, "May 2023", "On the 9th of May 2023, after a long search."),
        ("安娜什么时候搬家的？", "2023年5月7日", "她在5月7日搬家。"),
        ("How many cats does she have?", "three", "She has 3 cats."),
        ("他有几只猫？", "三只", "他有3只猫"),
        ("How long was it?", "two weeks", "It took 14 days."),
        ("Who came?", "her mother and her brother", "Her mom and brother came."),
        ("Where does she live?", "上海", "她住在上海浦东"),
        ("Does she like tea?", "Yes", "Yes, she likes tea a lot."),
        ("Would she sail again?", "Likely no, because she was seasick", "No, she would rather stay on land."),
        ("Which of them?", "Rome or Oslo", "Probably Oslo."),
        ("What did he bake?", "Blueberry muffins", "He baked muffins with blueberries."),
        ("How long?", "三个星期", "一共21天"),
        ("Does she eat meat?", "No, she is a vegetarian", "We talked about it. No, she is a vegetarian."),
        (
            "How did he describe the work?",
            "Not hard; only dull",
            "The work was dull and he found it easy, not hard.",
        ),
        ("What did she buy?", "an old bike", "She bought a vintage bicycle."),
        ("What does she like?", "tea, coffee and milk", "She likes tea and coffee."),
        ("Which numbers won?", "5 and 7", "The numbers 7 and 5 won."),
        ("Where in the USA is it?", "a small Midwestern town", "It is a small town in the Midwest."),
    ],
)
def test_correct_answers(question: str, reference: str, response: str) -> None:
    """Another form of the same date or number, a longer sentence, a family word, the same yes or no."""
    assert judged(question, reference, response).labels == (CORRECT,)


@pytest.mark.parametrize(
    ("question", "reference", "response", "reason"),
    [
        (WHEN, "7 May 2023", "On 9 May 2023.", "7 May 2023 is not in the answer, which says 9 May 2023"),
        (WHEN, "May 2023", "In June 2023.", "which says June 2023"),
        ("什么时候？", "2023年5月7日", "2023年6月7日", "2023年6月7日"),
        ("How many cats?", "three cats", "four cats", "the number 3 is not in the answer, which says 4"),
        ("有几只猫？", "三只猫", "四只猫", "which says 4"),
        ("What is on offer?", "one-on-one lessons", "one-on-six lessons", "which says 6"),
        ("How long?", "four months", "four years", "another length of time"),
        ("When?", "last Friday", "last Monday", "Friday is not in the answer, which says Monday"),
        ("Does she like tea?", "Yes", "No, she hates tea.", "one says yes, the other no"),
        ("Does she like tea?", "Yes", "She does not like tea.", "one says yes, the other no"),
        ("会来吗？", "会", "不会", "one says yes, the other no"),
        ("What does she like?", "green tea", "She does not drink green tea", "denies"),
        ("Where?", "Oslo", "She lives in Rome.", "0 % of the reference's words"),
        ("What did he drink?", "coconut milk", "He had almond milk.", "another word instead of one"),
        (
            "What happened on the trip?",
            "They visited the old castle with uncle Marco",
            "They visited the old castle on a hill, and their uncle Boris took a lot of photos of it",
            "the name Marco is not in the answer, which says Boris",
        ),
        (
            "What did she buy in May 2023?",
            "a red sofa",
            "She bought a red sofa on 9 May 2022.",
            "9 May 2022 is another year than in the question",
        ),
        ("Does she like music at home?", "Yes", "Ana has a home.", "0 %"),
        (WHEN, "7 May 2023", "It was not on 7 May 2023.", "denies"),
        ("有几只猫？", "三只猫", "不是三只猫。", "denies"),
        ("她住在哪里？", "上海", "北京", "0 % of the reference's words"),
    ],
)
def test_wrong_answers_are_made_up(question: str, reference: str, response: str, reason: str) -> None:
    verdict = judged(question, reference, response)
    assert verdict.labels == (HALLUCINATION,)
    assert reason in verdict.reason


# Each rule with wrong answers that it rejects, and right answers that look alike.
NEGATION = (
    [
        ("Is she a vegetarian?", "She is not vegetarian", "She is vegetarian"),
        ("What does he think of fish?", "He does not like fish", "He likes fish"),
        ("Where is the wine?", "They never keep it in the cellar", "They keep it in the cellar"),
        ("Which instrument does she play?", "the harp", "She does not play the harp."),
        ("他喜欢鱼吗？", "他不喜欢鱼", "他喜欢鱼"),
    ],
    [
        ("Is she a vegetarian?", "She is not vegetarian", "She isn't a vegetarian."),
        ("What food does he dislike?", "He does not like fish", "Fish."),
        ("How is she?", "She is not only tired but hungry", "She is tired and hungry"),
        ("What is the plan?", "She will not move to Rome", "She decided against moving to Rome"),
        ("Why did he not come?", "He was not well", "He was not feeling well"),
        (
            "Which instrument does she play?",
            "the harp",
            "The harp, but she does not take the harp to school.",
        ),
        ("Which instrument does she play?", "the harp", "She does not only play the harp."),
    ],
)
OPPOSITE = (
    [
        ("When did she leave?", "before the wedding", "after the wedding"),
        ("Did she leave before or after the wedding?", "before the wedding", "after the wedding"),
        ("What did he do?", "He stopped smoking", "He started smoking"),
        ("Where is the shop?", "north of the station", "south of the station"),
        ("Who came?", "his older brother", "his younger brother"),
    ],
    [
        ("When did she leave?", "before the wedding", "prior to the wedding"),
        ("What did she do after school?", "She swam before dinner", "After school she swam before dinner."),
        ("What did he do?", "He stopped smoking", "He gave up smoking"),
        ("What did he do?", "He stopped smoking", "He started smoking at 16, but has stopped smoking."),
        ("What changed?", "The price increased", "The price went up and did not decrease"),
    ],
)
DURATION = (
    [
        ("How long did it take?", "an hour", "two hours"),
        ("How long did it take?", "about an hour", "half an hour"),
        ("How long was the trip?", "a week", "three weeks"),
        ("How long was the trip?", "two weeks", "about a week"),
        ("When did she leave?", "She left an hour before dinner", "She left two hours before dinner"),
    ],
    [
        ("How long did it take?", "an hour", "It took 60 minutes"),
        ("How long did it take?", "an hour and a half", "90 minutes"),
        ("How long did it take?", "two and a half hours", "2.5 hours"),
        ("How long was the trip?", "a week", "seven days"),
        ("How long was the trip?", "a month", "about 30 days"),
    ],
)
TIME_OF_DAY = (
    [
        ("When does it open?", "7 am", "7 pm"),
        ("When does it open?", "7 am", "It opens at 19:00."),
        ("When is the call?", "9:30 a.m.", "at 9:30 in the evening"),
        ("他什么时候来？", "上午9点", "下午9点"),
    ],
    [
        ("When does it open?", "7 am", "7 in the morning"),
        ("When does it open?", "7 am", "at 7:00"),
        ("When does it open?", "7 pm", "It opens at 7."),
    ],
)
RATE = (
    [
        ("How often does she swim?", "every day", "every week"),
        ("How often does she swim?", "daily", "once a week"),
        ("How often does she swim?", "three times a week", "three times a day"),
        ("多久一次？", "每天", "每周"),
    ],
    [
        ("How often does she swim?", "every day", "daily"),
        ("How often does she swim?", "every day", "each morning"),
        ("How often does she swim?", "every week", "She swims once a week."),
    ],
)
UNIT = (
    [
        ("How much was it?", "$20", "20 euros"),
        ("How much was it?", "$20", "€20"),
        ("How much was it?", "20%", "$20"),
        ("How far is it?", "5 km", "5 miles"),
        ("How heavy is it?", "3 kg", "3 pounds"),
    ],
    [
        ("How much was it?", "$20", "20 dollars"),
        ("How much was it?", "$20", "20"),
        ("How much was it?", "20", "It cost $20."),
        ("How much was it?", "$1,200", "1200 USD"),
        ("How heavy is it?", "3 kg", "3 kilograms"),
    ],
)
COUNT = (
    [
        ("How many projects have I led?", "2", "You have led 13 projects: 1. A new shop. 2. A market study."),
        ("How many sisters does she have?", "3", "She has 3 dogs and 2 sisters."),
        ("How many sisters does she have?", "7", "On 7 May 2023 she had 2 sisters."),
        ("How many matches has he won?", "four", "He has won five matches and calls the last his fourth."),
    ],
    [
        ("How many projects have I led?", "2", "You have led 2 projects: 1. A new shop. 2. A market study."),
        ("How many projects have I led?", "5", "2 projects in May and 3 projects in June, so 5 in total."),
        ("How many sisters does she have?", "3", "She has 3 sisters and 2 dogs."),
        ("How many dogs does she have?", "3", "3 dogs and 2 sisters"),
        ("How many sisters does she have?", "3", "3 younger sisters"),
        ("How many matches has he won?", "four", "He just won his fourth match."),
    ],
)
YES_WITH_LIMITS = (
    [
        ("Did Ana and Bo both join the dance contest?", "Yes", "Only Bo joined the dance contest."),
        ("Did Ana and Bo both join the dance contest?", "Yes", "Just Bo joined the dance contest."),
    ],
    [("Did Ana and Bo both join the dance contest?", "Yes", "Ana and Bo both joined the dance contest.")],
)
CONTRADICTIONS = {
    "negation": NEGATION,
    "opposite": OPPOSITE,
    "duration": DURATION,
    "time of day": TIME_OF_DAY,
    "rate": RATE,
    "unit": UNIT,
    "count": COUNT,
    "yes with limits": YES_WITH_LIMITS,
}


@pytest.mark.parametrize("rule", CONTRADICTIONS)
def test_contradictions_are_told_from_other_words_for_the_same(rule: str) -> None:
    wrong, right = CONTRADICTIONS[rule]
    assert [each for each in wrong if judged(*each).labels == (CORRECT,)] == []
    assert [each for each in right if judged(*each).labels != (CORRECT,)] == []


@pytest.mark.parametrize(
    ("question", "reference", "response", "reason"),
    [
        ("Where?", "Oslo", "", "the answer is empty"),
        ("Where?", "Oslo", " \n", "the answer is empty"),
        ("Where?", "Oslo", "Not mentioned in memory.", "not known"),
        ("Where?", "Oslo", "I don't know.", "not known"),
        ("哪里？", "上海", "没有提到", "not known"),
        (WHEN, "7 May 2023", "Sometime in spring.", "spring is vaguer than 7 May 2023"),
        (WHEN, "7 May 2023", "In May 2023.", "May 2023 is vaguer than 7 May 2023"),
        (WHEN, "7 May 2023", "After her exam.", "the date 7 May 2023 is not in the answer"),
        ("How many cats?", "three cats", "a few cats", "the number 3 is not in the answer"),
        ("What does she drink?", "tea and coffee", "tea", "1 of 2 parts of the reference"),
        ("What does she drink?", "tea, coffee, milk", "She drinks tea.", "1 of 3 parts of the reference"),
        ("Which shelters?", "the dog shelter, the homeless shelter", "the dog shelter", "1 of 2 parts"),
        (
            "What did she get?",
            "a letter from her late grandmother",
            "something from her grandmother",
            "is vague",
        ),
        ("What does she collect?", "stamps, foreign coins, old maps, tin soldiers", "stamps and coins", "%"),
    ],
)
def test_missing_parts_are_omissions(question: str, reference: str, response: str, reason: str) -> None:
    """Nothing, an abstention, a vaguer answer, a part of the whole."""
    verdict = judged(question, reference, response)
    assert verdict.labels == (OMISSION,)
    assert reason in verdict.reason


@pytest.mark.parametrize(
    "reference",
    ["Not mentioned in memory.", "unknown", "It cannot be determined", "无法得知", "没有提到", ""],
)
def test_unknown_references_accept_only_abstentions(reference: str) -> None:
    """If the reference is unknown or empty, an abstention is correct and any claim is a hallucination."""
    assert judged("Her birthday?", reference, "That was not mentioned.").labels == (CORRECT,)
    assert judged("Her birthday?", reference, "There is nothing about this in my notes.").labels == (CORRECT,)
    assert judged("Her birthday?", reference, "记忆中没有提及。").labels == (CORRECT,)
    assert judged("Her birthday?", reference, "我没有这方面的信息。").labels == (CORRECT,)
    assert judged("Her birthday?", reference, "It is on 7 May.").labels == (HALLUCINATION,)


@pytest.mark.parametrize(
    "reference",
    [
        "You did not mention this information. You mentioned a cat called Tilo, but you never spoke of a hamster.",
        "The information provided is not enough. You mentioned a trip to Rome but not to Oslo.",
        "Based on the chat, there is no information about how the guests of the hotel liked the new breakfast room.",
    ],
)
def test_a_reference_is_unknown_by_its_first_sentence(reference: str) -> None:
    """The rest says what is known instead."""
    assert judged("And the hamster?", reference, "There is no mention of a hamster.").labels == (CORRECT,)
    assert judged("And the hamster?", reference, "It is called Tilo.").labels == (HALLUCINATION,)


@pytest.mark.parametrize("response", ["17 days ago.", "18 days", "It happened seventeen days before, on 3 May 2023."])
def test_one_of_several_acceptable_answers_is_enough(response: str) -> None:
    reference = "17 days ago. 18 days (including the last day) is also acceptable."
    assert judged("How long ago was it?", reference, response).labels == (CORRECT,)
    verdict = judged("How long ago was it?", reference, "19 days ago")
    assert verdict.labels == (HALLUCINATION,)
    assert "compared with '17 days ago.'" in verdict.reason


def test_a_rubric_is_not_judged() -> None:
    """Rules cannot tell whether an answer meets it, and a zero would be a claim."""
    reference = "The user would prefer suggestions that use the tomatoes from her garden. She may not prefer others."
    verdict = judged("What shall I cook?", reference, "A tomato soup from your garden.")
    assert (verdict.status, verdict.labels, verdict.sure) == ("invalid", (), ())
    assert "a judge model can read it" in verdict.reason
    assert judged("What would she like?", "The user would prefer tea", "He would prefer tea.").labels == (CORRECT,)


@pytest.mark.parametrize("reference", ["No, she was given a book", "none", "He is not specifically trained"])
def test_a_no_is_not_an_unknown(reference: str) -> None:
    assert judged("Did she buy it?", reference, "It was not mentioned.").labels == (OMISSION,)


def test_the_better_answer_is_surer() -> None:
    """`sure` orders answers between the labels."""
    reference = "She paints boats and old harbours in Norway"
    said = ["She paints boats and harbours in Norway", "She paints boats", "She sings"]
    sure = [judged("What does she do?", reference, each).sure[0] for each in said]
    assert sure == sorted(sure, reverse=True)
    assert len(set(sure)) == 3


def test_an_abstention_in_an_answer_costs() -> None:
    whole = judged("Where?", "in a small house by the lake", "in a small house by the lake near Oslo")
    part = judged("Where?", "in a small house by the lake", "a small house by the lake, exact place not known")
    assert part.sure[0] < whole.sure[0]


@pytest.mark.parametrize(
    "text",
    [
        *("word " * 20_000, "5 May 2023 " * 5_000, "1" * 90_000, "不" * 20_000, "before x " * 3_000),
        *(
            "7 am every 3 weeks $5 " * 2_000,
            "1. 2) " * 3_000,
            "not so " * 3_000,
            "(" * 20_000,
            " " * 20_000 + "a",
        ),
    ],
)
def test_very_long_texts_are_judged(text: str) -> None:
    assert judged("q", "7 May 2023", text).status == "scored"
    assert judged("How many?", text, f"after x {text[::-1]}").status == "scored"
    assert judged("q", text, text).labels == (CORRECT,)


TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [
            *(
                "yes",
                "no",
                "not",
                "7",
                "May",
                "2023",
                "week before",
                "three",
                "cats",
                "Ana",
                "猫",
                "三",
                "不",
            ),
            *(",", ".", "-", "unknown", "the", "last Friday", "between", "and", "to", "2 weeks"),
            *(
                "an hour",
                "half",
                "am",
                "every",
                "week",
                "$20",
                "€20",
                "1.",
                "2)",
                "how many",
                "before",
                "after",
            ),
            *(
                "around",
                "is also acceptable.",
                "user would prefer",
                "nothing about",
                "mınute",
                "only",
                "每天",
            ),
        ]
    ),
    max_size=9,
).map(" ".join)


@given(TEXTS, TEXTS, TEXTS)
def test_any_texts_get_a_label(question: str, reference: str, response: str) -> None:
    """Never an error; one label with a reason, and a measure from 0 to 1."""
    verdict = judged(question, reference, response)
    assert verdict.status == "scored"
    assert verdict.labels[0] in AnswerQuestion.labels
    assert 0 <= verdict.sure[0] <= 1
    assert verdict.reason


@given(TEXTS, TEXTS)
def test_the_reference_itself_is_correct(question: str, reference: str) -> None:
    """Whatever it says, unless it says nothing."""
    verdict = judged(question, reference, reference)
    assert verdict.labels == ((CORRECT,) if reference.strip() else (OMISSION,))


@given(TEXTS, TEXTS, TEXTS)
def test_the_label_follows_the_measure(question: str, reference: str, response: str) -> None:
    """One threshold decides."""
    verdict = judged(question, reference, response)
    assert (verdict.labels == (CORRECT,)) == (verdict.sure[0] >= 0.42)
