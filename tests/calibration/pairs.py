"""Answers made on purpose, by kind: right ones in several styles, and wrong ones of several sorts.

`invented_pairs` needs no data. `reference_pairs` makes answers from the references of labelled rows; they are
never stored. The same input always gives the same pairs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from calibration.labelled import Labelled

RIGHT = ("short", "long", "paraphrase")
"""Kinds of right answers. All other kinds are wrong."""


class Pair(NamedTuple):
    """An answer with its kind and language."""

    kind: str
    language: str
    question: str
    reference: str
    response: str


class Fact(NamedTuple):
    """An invented question. `sentence` has a place for the answer; `others` are wrong answers of the same sort."""

    question: str
    reference: str
    sentence: str
    paraphrase: str
    vague: tuple[str, ...]
    others: tuple[str, ...]
    language: str = "en"


FACTS = (
    Fact(
        "Where did Nora move after university?",
        "Oslo",
        "Nora moved to {}",
        "After her studies she settled in Oslo.",
        ("She moved to a place that she likes.", "Nora moved somewhere in Europe after university."),
        ("Rome", "Bonn", "Lisbon"),
    ),
    Fact(
        "When did Ivan adopt his dog?",
        "12 March 2021",
        "Ivan adopted his dog on {}",
        "He took the puppy home on March 12th, 2021.",
        (
            "Sometime last year.",
            "Ivan adopted his dog in the spring.",
            "It was in 2021, a while after he moved.",
        ),
        ("3 April 2021", "12 May 2021", "30 March 2020"),
    ),
    Fact(
        "When does Priya start her new job?",
        "June 2022",
        "Priya starts her new job in {}",
        "She begins in June of 2022.",
        ("She starts soon.", "Priya starts in the summer of 2022.", "At some point in 2022."),
        ("May 2022", "September 2022", "June 2023"),
    ),
    Fact(
        "Who taught Leo to play the cello?",
        "his aunt Clara",
        "Leo learned the cello from {}",
        "Clara, his aunt, gave him cello lessons.",
        ("Someone in his family.", "A person who is important to him taught Leo to play."),
        ("his uncle Marco", "his neighbor Ines", "his teacher Mr Holt"),
    ),
    Fact(
        "What did Tess bake for the fair?",
        "a lemon tart",
        "For the fair Tess baked {}",
        "Tess made a tart with lemon for the fair.",
        ("Something sweet.", "Tess baked a dessert that everybody at the fair liked."),
        ("a cherry pie", "a carrot cake", "an apple tart"),
    ),
    Fact(
        "How many marathons has Omar run?",
        "seven",
        "Omar has run {} marathons",
        "He finished 7 marathons.",
        ("Omar has run several marathons.", "A few.", "Quite a number of them over the years."),
        ("four", "nine", "twelve"),
    ),
    Fact(
        "How long did Mia stay in Peru?",
        "three weeks",
        "Mia stayed in Peru for {}",
        "Her visit to Peru lasted 21 days.",
        ("Mia stayed for a while.", "A few weeks or so.", "Not very long."),
        ("two weeks", "three months", "five weeks"),
    ),
    Fact(
        "What is Hugo allergic to?",
        "peanuts",
        "Hugo is allergic to {}",
        "Peanuts make him ill.",
        ("Some kind of food.", "Hugo is allergic to something that he eats at times."),
        ("shellfish", "cat hair", "pollen"),
    ),
    Fact(
        "Why did Lena quit the choir?",
        "she had no time because of her night shifts",
        "Lena quit the choir because {}",
        "Working nights left her without enough time for it.",
        ("She had her reasons.", "Lena quit because of something related to her life at home."),
        ("she quarrelled with the conductor", "the rehearsals were boring", "she broke her arm"),
    ),
    Fact(
        "What did Sam buy at the flea market?",
        "an old typewriter",
        "At the flea market Sam bought {}",
        "Sam purchased an antique typewriter there.",
        ("An old thing for his home.", "Sam bought something old at the flea market."),
        ("a brass lamp", "an old bicycle", "a vinyl record"),
    ),
    Fact(
        "Which instrument does Yara practise?",
        "the violin",
        "Yara practises {}",
        "She rehearses on her violin.",
        ("A musical instrument with strings.", "Yara practises an instrument that she enjoys."),
        ("the trumpet", "the harp", "the piano"),
    ),
    Fact(
        "What are the names of Ed's cats?",
        "Milo and Pepper",
        "Ed's cats are called {}",
        "One is Pepper, the other one is Milo.",
        ("They have cute names.", "Ed gave his cats names that he likes."),
        ("Simba and Nala", "Milo and Ginger", "Tom"),
    ),
    Fact(
        "What does Rosa do to relax?",
        "yoga, gardening and reading",
        "To relax, Rosa does {}",
        "She reads, works in her garden and practises yoga.",
        ("She does various things that she enjoys.", "Rosa relaxes with activities related to her hobbies."),
        ("knitting, chess and baking", "swimming", "yoga, boxing and cooking"),
    ),
    Fact(
        "Does Kim still eat meat?",
        "No, she became a vegetarian",
        "{}",
        "No, Kim doesn't; she is vegetarian now.",
        ("Kim thinks about what she eats.", "It depends on the day."),
        ("Yes, she loves steak", "Yes, she eats meat every day"),
    ),
    Fact(
        "Would Jo like a trip to the mountains?",
        "Yes, because she loves hiking",
        "{}",
        "Most likely yes: hikes are her passion.",
        ("Jo has thought about different trips.", "It is hard to say what she would like."),
        ("No, she is afraid of heights", "No, she prefers the sea"),
    ),
    Fact(
        "What was the colour of Finn's first bicycle?",
        "dark green",
        "Finn's first bicycle was {}",
        "It was a bike in a dark shade of green.",
        ("A dark colour that he liked.", "Finn's first bicycle had a nice colour."),
        ("bright red", "light blue", "dark blue"),
    ),
    Fact(
        "What did the doctor advise Paul to do?",
        "sleep more and drink less coffee",
        "The doctor advised Paul to {}",
        "He should get more sleep and cut down on coffee.",
        ("To take better care of himself.", "The doctor gave Paul some advice about his health."),
        ("run every day and avoid sugar", "take a holiday and stop smoking"),
    ),
    Fact(
        "How did Vera feel after the interview?",
        "relieved and proud",
        "After the interview Vera felt {}",
        "She felt a lot of relief and pride.",
        ("Vera had strong feelings after the interview.", "She felt something that she did not expect."),
        ("nervous and sad", "angry and tired"),
    ),
    Fact(
        "Which company hired Dan in 2020?",
        "Blue Harbor Shipping",
        "In 2020 Dan was hired by {}",
        "He got a position with Blue Harbor Shipping.",
        ("A company in the transport business.", "Dan was hired by a well-known company."),
        ("Green Valley Foods", "Blue River Shipping", "Northern Rail"),
    ),
    Fact(
        "Where did Alma hide the key?",
        "under the flower pot on the balcony",
        "Alma hid the key {}",
        "She put it beneath the flowerpot that stands on the balcony.",
        ("Somewhere outside.", "Alma hid the key in a place where nobody would look."),
        ("behind the mirror in the hall", "in the mailbox", "under the mat at the door"),
    ),
    Fact(
        "娜娜大学毕业后搬到了哪里？",
        "成都",
        "娜娜搬到了{}",
        "毕业以后她在成都安家。",
        ("一个她喜欢的地方。", "娜娜搬到了某个大城市。"),
        ("武汉", "广州", "西安"),
        "zh",
    ),
    Fact(
        "小李什么时候收养了他的狗？",
        "2021年3月12日",
        "小李在{}收养了他的狗",
        "3月12日，也就是2021年春天的那天。",
        ("去年的某个时候。", "小李在春天收养了他的狗。", "大约在2021年。"),
        ("2021年4月3日", "2021年5月12日", "2020年3月30日"),
        "zh",
    ),
    Fact(
        "小王跑过几次马拉松？",
        "七次",
        "小王跑过{}马拉松",
        "马拉松他一共跑了7次。",
        ("好几次。", "小王跑过很多马拉松。"),
        ("四次", "九次", "十二次"),
        "zh",
    ),
    Fact(
        "谁教会了阿强拉大提琴？",
        "他的姑姑",
        "{}教会了阿强拉大提琴",
        "是姑姑教他的。",
        ("他家里的某个人。", "一个对他很重要的人。"),
        ("他的邻居", "他的老师", "他的哥哥"),
        "zh",
    ),
    Fact(
        "小美对什么过敏？",
        "花生",
        "小美对{}过敏",
        "她吃花生会生病。",
        ("某种食物。", "小美对一些东西过敏。"),
        ("海鲜", "猫毛", "牛奶"),
        "zh",
    ),
    Fact(
        "小张喜欢喝什么？",
        "绿茶和咖啡",
        "小张喜欢喝{}",
        "咖啡和绿茶他都爱喝。",
        ("他喜欢喝一些热的东西。", "各种饮料。"),
        ("可乐和果汁", "啤酒", "绿茶和牛奶"),
        "zh",
    ),
    Fact(
        "米娅在云南待了多久？",
        "三个星期",
        "米娅在云南待了{}",
        "她在那里一共住了21天。",
        ("她待了一段时间。", "几个星期吧。"),
        ("两个星期", "三个月", "五个星期"),
        "zh",
    ),
    Fact(
        "安安还吃肉吗？",
        "不吃，她成了素食者",
        "{}",
        "不吃了，安安现在吃素食。",
        ("看情况吧。", "安安很注意她吃的东西。"),
        ("吃，她每天都吃肉", "吃，她最喜欢牛排"),
        "zh",
    ),
)

# Sentences around an answer that add detail and do not answer any question of FACTS.
_DETAILS = {
    "en": (
        "This came up in one of their talks about the last years.",
        "It was a topic that they returned to later on, with photos and a lot of laughter.",
    ),
    "zh": ("这是他们聊天时提到的。", "后来他们还看了照片，聊得很开心。"),
}
_JOIN = {
    "en": ("{0} or {1}", "maybe {1}, maybe {0}", "{1}, {0} or {2}", "{0}, {1} or {2}"),
    "zh": ("{0}或者{1}", "也许{1}，也许{0}", "{1}、{0}或者{2}", "{0}、{1}或{2}"),
}
_YEAR = re.compile(r"\d{4}")
# Words by which two references are compared. Years may be equal in two dates that differ.
_CONTENT = re.compile(r"\b(?!\d{4}|the\b|of\b|and\b|in\b|her\b|his\b|with\b|for\b|to\b)\w{2,}|\b\d\b")
_ANSWERS_YES_OR_NO = re.compile(r"^\W*(?:yes|no|not|likely)\b|^不", re.IGNORECASE)
_NOT = {"en": "It was not {}.", "zh": "不是{}。"}
_END = {"en": ".", "zh": "。"}
_QUESTION_WORDS = re.compile(
    r"^(?:\W*(?:what|when|where|who|which|why|how|did|does|do|is|was|has|have|would|might)\b)+", re.IGNORECASE
)
_VAGUE = {
    "when": ("Sometime last year.", "It was at some point in the past, in the warmer months."),
    "where": ("At a place that is special to them.", "Somewhere nearby."),
    "who": ("Someone who is close to them.", "A person whom they trust."),
    "how many": ("A few.", "There were several over time."),
    "how long": ("For quite a while.", "A long time."),
    "": ("Something that means a lot to them.", "It is related to their family and their interests."),
}


def invented_pairs() -> Iterator[Pair]:
    """Yield answers of every kind to the invented questions."""
    for fact in FACTS:
        before, after = _DETAILS[fact.language]
        end = _END[fact.language]

        def pair(kind: str, response: str, fact: Fact = fact) -> Pair:
            return Pair(kind, fact.language, fact.question, fact.reference, response)

        def say(answer: str, fact: Fact = fact, end: str = end) -> str:
            return fact.sentence.format(answer) + end

        yield pair("short", fact.reference.rstrip(".") + end)
        yield pair("short", say(fact.reference))
        yield pair("long", f"{before} {say(fact.reference)} {after}")
        yield pair("paraphrase", fact.paraphrase)
        yield from (pair("vague", text) for text in fact.vague)
        yield from (pair("vague", f"{before} {text} {after}") for text in fact.vague)
        yield from (pair("specific", say(other)) for other in fact.others)
        yield from (pair("specific", f"{before} {say(other)} {after}") for other in fact.others)
        if fact.sentence != "{}":
            names = (fact.reference, *fact.others, *fact.others)
            two, maybe, three, first = (join.format(*names) for join in _JOIN[fact.language])
            yield from (pair("hedged", say(text)) for text in (two, maybe))
            yield from (pair("guesses", say(text)) for text in (three, first))
            yield pair("negation", _NOT[fact.language].format(fact.reference))
        yield from (pair("missing item", say(text)) for text in without_an_item(fact.reference))


def without_an_item(reference: str) -> Iterator[str]:
    """Yield a list of two or more short items without its last item, if the reference is such a list."""
    items = [item.strip() for item in re.split(r",(?!\s*\d{4})|\band\b|、|和", reference) if item.strip(" .")]
    is_short = max((len(item.split()) for item in items), default=0) <= 3
    if len(items) > 1 and is_short and not _ANSWERS_YES_OR_NO.search(reference):
        yield ", ".join(items[:-1])


def reference_pairs(rows: Sequence[Labelled]) -> Iterator[Pair]:
    """Yield answers of most kinds, made from the references of these rows."""
    for row in rows:
        rng = random.Random(row.question)

        def pair(kind: str, response: str, row: Labelled = row) -> Pair:
            return Pair(kind, "en", row.question, row.reference, response)

        before, after = _DETAILS["en"]
        reference = row.reference.rstrip(" .")
        yield pair("short", f"It is {reference}.")
        yield pair("long", f"{before} {reference[:1].upper()}{reference[1:]}. {after}")
        yield from (pair("vague", text) for text in vague_answers(row.question))
        yield from (pair("missing item", text) for text in without_an_item(row.reference))
        words = re.findall(r"[^\W\d]{3,}", reference)
        if len(words) >= 4 and not _YEAR.search(reference):
            # The longer a word, the more it says: these are the words that say least.
            kept = sorted(words, key=len)[: len(words) // 2]
            yield pair(
                "vague with words",
                f"It is something about {' '.join(word for word in words if word in kept)}.",
            )
        others = other_references(row, rows)
        if len(others) < 2:
            continue
        first, second = rng.sample(others, 2)
        yield pair("specific", f"It is {first}.")
        yield pair("specific", f"{before} {second[:1].upper()}{second[1:]}. {after}")
        is_one = len(reference.split()) <= 4 and not re.search(r"\bor\b|, \D", reference)
        if is_one and not _ANSWERS_YES_OR_NO.search(reference):
            for kind, join in zip(("hedged", "hedged", "guesses", "guesses"), _JOIN["en"], strict=True):
                yield pair(kind, f"It is {join.format(reference, first, second)}.")
            yield pair("negation", f"It is not {reference}.")


def other_references(row: Labelled, rows: Sequence[Labelled]) -> list[str]:
    """Return references of the same conversation and category that are as short and have nothing in common with it.

    A reference with a year has only others with a year.
    """
    words = set(_CONTENT.findall(row.reference.lower()))
    found = {
        other.reference.rstrip(" .")
        for other in rows
        if (other.conversation, other.category) == (row.conversation, row.category)
        and len(other.reference.split()) <= max(3, len(row.reference.split()))
        and bool(_YEAR.search(row.reference)) == bool(_YEAR.search(other.reference))
        and not _ANSWERS_YES_OR_NO.search(other.reference)
        and not words & set(_CONTENT.findall(f"{other.reference} {other.question}".lower()))
    }
    return sorted(found)


def vague_answers(question: str) -> Iterator[str]:
    """Yield answers that stay on the topic of the question and say nothing."""
    yield from next(texts for word, texts in _VAGUE.items() if question.lower().startswith(word))
    if re.match(r"\W*(?:what|when|where|who|why|how)", question, re.IGNORECASE):
        topic = _QUESTION_WORDS.sub("", question).strip(" ?")
        yield f"It has to do with {topic}, in various ways."
