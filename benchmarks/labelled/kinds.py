"""The constructions of every kind of question: how a text is made, and the label that follows from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.labelled.chinese import CHINESE
from benchmarks.labelled.domain import Language, Noise
from benchmarks.labelled.english import ENGLISH
from benchmarks.labelled.facts import Draw, Fact, Scene

SEED = 20240517
Row = dict[str, Any]


class Answer(NamedTuple):
    """A question with its reference and a response."""

    question: str
    reference: str
    response: str


# Answers. "Wrong" is the label where it does not follow whether the answer is made up or incomplete.


def _answer(fact: Fact, draw: Draw, response: str) -> Answer:
    return Answer(fact.question(draw), fact.reference, response)


def _two_parts(scene: Scene, response: Callable[[Fact, Fact], tuple[str, str]]) -> Answer:
    draw, language = scene.draw, scene.language
    first, second = scene.fact, scene.other_domain(scene.fact.name)
    question = language.two_questions.format(a=first.question(draw), b=second.question(draw))
    reference = language.two_values[0].format(a=first.reference, b=second.reference)
    texts = [text for text in draw.shuffled(response(first, second)) if text]
    said = texts[0] if len(texts) == 1 else scene.joined(*texts)
    return Answer(question, reference, said)


def _hedge(scene: Scene, *, right: bool) -> str:
    draw, fact = scene.draw, scene.fact
    others = [value.forms[0] for value in fact.domain.values if value != fact.value]
    candidates = draw.some(others, 2 if right else 3) + ([fact.reference] if right else [])
    a, b, c = draw.shuffled(candidates)
    return draw.pick(scene.language.hedges).format(a=a, b=b, c=c)


def _unknown(scene: Scene, response: str) -> Answer:
    return Answer(scene.fact.question(scene.draw), scene.draw.pick(scene.language.unknown), response)


ANSWERS: Mapping[str, tuple[str, Callable[[Scene], Answer]]] = {
    "value alone": ("Correct", lambda s: _answer(s.fact, s.draw, s.draw.pick(s.fact.value.forms))),
    "sentence": ("Correct", lambda s: _answer(s.fact, s.draw, s.fact.say(s.draw))),
    "other form": ("Correct", lambda s: _answer(s.fact, s.draw, s.fact.other_form(s.draw))),
    "in other words": (
        "Correct",
        lambda s: _answer(s.fact, s.draw, s.draw.pick(s.language.wrappers).format(s=s.fact.say(s.draw))),
    ),
    "long": ("Correct", lambda s: _answer(s.fact, s.draw, s.fact.long(s.draw))),
    "two people": ("Correct", lambda s: _answer(s.fact, s.draw, s.beside_another(s.fact))),
    "two parts": (
        "Correct",
        lambda s: _two_parts(s, lambda first, second: (first.say(s.draw), second.say(s.draw))),
    ),
    "unknown, says so": ("Correct", lambda s: _unknown(s, s.draw.pick(s.language.abstentions))),
    "other value": ("Hallucination", lambda s: _answer(s.fact, s.draw, s.fact.other(s.draw).say(s.draw))),
    "near value": ("Hallucination", lambda s: _answer(s.fact, s.draw, s.fact.near().say(s.draw))),
    "near value, long": ("Hallucination", lambda s: _answer(s.fact, s.draw, s.fact.near().long(s.draw))),
    "negated": (
        "Hallucination",
        lambda s: _answer(s.fact, s.draw, s.fact.fill(s.draw.pick(s.fact.domain.negations))),
    ),
    "people swapped": ("Hallucination", lambda s: _answer(s.fact, s.draw, s.swapped(s.fact))),
    "two parts, one wrong": (
        "Hallucination",
        lambda s: _two_parts(s, lambda first, second: (first.say(s.draw), second.other(s.draw).say(s.draw))),
    ),
    "unknown, made up": ("Hallucination", lambda s: _unknown(s, s.fact.say(s.draw))),
    "several candidates": ("Wrong", lambda s: _answer(s.fact, s.draw, _hedge(s, right=True))),
    "several wrong candidates": ("Wrong", lambda s: _answer(s.fact, s.draw, _hedge(s, right=False))),
    "vague": ("Omission", lambda s: _answer(s.fact, s.draw, s.fact.value.vague)),
    "abstains": ("Omission", lambda s: _answer(s.fact, s.draw, s.draw.pick(s.language.abstentions))),
    "two parts, one missing": (
        "Omission",
        lambda s: _two_parts(s, lambda first, _: (first.say(s.draw), "")),
    ),
}

# Coverage: memories that say a fact, and memories that do not. A construction returns the targets among them.

Targets = tuple[str, ...]
COVERED: Mapping[str, Callable[[Scene, Fact], Targets]] = {
    "plainly said": lambda s, f: (f.fill(f.domain.statements[0]),),
    "in other words": lambda s, f: (f.say(s.draw, avoid=f.fill(f.domain.statements[0])),),
    "other form": lambda s, f: (f.other_form(s.draw),),
    "spoken": lambda s, f: (f.spoken(s.draw),),
    "long": lambda s, f: (f.long(s.draw),),
    "two people": lambda s, f: (s.beside_another(f),),
}
MISSED: Mapping[str, Callable[[Scene, Fact], Targets]] = {
    "other value": lambda s, f: (f.other(s.draw).say(s.draw),),
    "near value": lambda s, f: (f.near().say(s.draw),),
    "other person": lambda s, f: (f.of(s.name()).say(s.draw),),
    "people swapped": lambda s, f: (s.swapped(f),),
    "vague": lambda s, f: (f.vague(s.draw),),
    "only a plan or a relative": lambda s, f: (f.fill(s.draw.pick(f.domain.asides)),),
    "negated": lambda s, f: (f.fill(s.draw.pick(f.domain.negations)),),
    "nothing of it": lambda s, f: (),
}
# Points that are updates: the new fact must be there.
UPDATE_COVERED: Mapping[str, Callable[[Scene, Fact], Targets]] = {
    "update, change told": lambda s, f: (_change(s, f, f.other(s.draw)),),
    "update, beside the old fact": lambda s, f: (f.say(s.draw), f.other(s.draw).say(s.draw)),
}
UPDATE_MISSED: Mapping[str, Callable[[Scene, Fact], Targets]] = {
    "update, only the old fact": lambda s, f: (f.other(s.draw).say(s.draw),),
    "update, old fact and a plan": lambda s, f: (
        f.other(s.draw).say(s.draw),
        f.fill(s.draw.pick(f.domain.asides)),
    ),
}


def _change(scene: Scene, fact: Fact, old: Fact) -> str:
    return fact.fill(scene.draw.pick(fact.domain.changes), old=old.reference)


# Written memories.

TRUE: Mapping[str, Callable[[Scene, Fact], str]] = {
    "in other words": lambda s, f: f.say(s.draw, avoid=f.fill(f.domain.statements[0])),
    "other form": lambda s, f: f.other_form(s.draw),
    "spoken": lambda s, f: f.spoken(s.draw),
    "long": lambda s, f: f.long(s.draw),
}
FABRICATED: Mapping[str, Callable[[Scene, Fact], str]] = {
    "other value": lambda s, f: f.other(s.draw).say(s.draw),
    "near value": lambda s, f: f.near().say(s.draw),
    "negated": lambda s, f: f.fill(s.draw.pick(f.domain.negations)),
    "weighty and new": lambda s, f: s.draw.pick(s.language.weighty).format(n=f.name),
}
IRRELEVANT: Mapping[str, Callable[[Scene, Fact], str]] = {
    "small talk": lambda s, f: s.draw.pick(s.language.small_talk),
    "passing remark": lambda s, f: _noise(s.draw.pick(s.language.noises), s.draw, "statements"),
    "passing remark in a line of talk": lambda s, f: s.language.dialogue.format(
        n=f.name, s=_noise(s.draw.pick(s.language.noises), s.draw, "statements")
    ),
}

# Updates: which memories stand beside the distractors. The first fact is the new one.

UPDATED: Mapping[str, Callable[[Scene, Fact, Fact], Targets]] = {
    "new only": lambda s, new, old: (new.say(s.draw),),
    "new, spoken": lambda s, new, old: (new.spoken(s.draw),),
    "change told": lambda s, new, old: (_change(s, new, old),),
    "old told as past": lambda s, new, old: (new.say(s.draw), old.fill(s.draw.pick(old.domain.past))),
    "old is another person's": lambda s, new, old: (new.say(s.draw), old.of(s.name()).say(s.draw)),
}
BOTH: Mapping[str, Callable[[Scene, Fact, Fact], Targets]] = {
    "both as current": lambda s, new, old: (new.say(s.draw), old.say(s.draw)),
    "both, old one spoken": lambda s, new, old: (new.say(s.draw), old.spoken(s.draw)),
    "both, old one in a long text": lambda s, new, old: (new.say(s.draw), old.long(s.draw)),
    "both, new one in other form": lambda s, new, old: (new.other_form(s.draw), old.say(s.draw)),
}
OUTDATED: Mapping[str, Callable[[Scene, Fact, Fact], Targets]] = {
    "old only": lambda s, new, old: (old.say(s.draw),),
    "neither": lambda s, new, old: (),
    "new only as a plan": lambda s, new, old: (old.say(s.draw), new.fill(s.draw.pick(new.domain.asides))),
    "new is another person's": lambda s, new, old: (old.say(s.draw), new.of(s.name()).say(s.draw)),
    "new negated": lambda s, new, old: (old.say(s.draw), new.fill(s.draw.pick(new.domain.negations))),
    "new only vague": lambda s, new, old: (old.say(s.draw), new.vague(s.draw)),
}

# Interference by a remark in passing. That by a fact uses COVERED and MISSED.


def _noise(noise: Noise, draw: Draw, frames: str, x: str = "", avoid: str = "") -> str:
    choices: Mapping[str, tuple[str, ...]] = noise._asdict()
    texts = [frame.format(x=x or draw.pick(noise.xs)) for frame in choices[frames]]
    text = draw.pick([each for each in texts if each != avoid])
    return text[0].upper() + text[1:]


def _remark(scene: Scene, noise: Noise, construction: str) -> tuple[str, Targets]:
    """Return a remark, and the memories that have it or not."""
    draw = scene.draw
    x = draw.pick(noise.xs)
    other = draw.pick([each for each in noise.xs if each != x])
    content = _noise(noise, draw, "statements", x)
    again = _noise(noise, draw, "statements", x, avoid=content)
    join = "" if scene.language.code == "zh" else " "
    targets: dict[str, Targets] = {
        "remark, same words": (content,),
        "remark, in other words": (again,),
        "remark, in a long text": (join.join((draw.pick(scene.language.openings), again)),),
        "remark, beside a fact": (scene.joined(scene.fact.say(draw), again),),
        "remark, another one": (_noise(noise, draw, "statements", other),),
        "remark, denied": (_noise(noise, draw, "denials", x),),
        "remark, same topic": (_noise(noise, draw, "relatives", x),),
        "remark, nothing of it": (),
    }
    return content, targets[construction]


REMARK_MEMORIZED = (
    "remark, same words",
    "remark, in other words",
    "remark, in a long text",
    "remark, beside a fact",
)
REMARK_REJECTED = ("remark, another one", "remark, denied", "remark, same topic", "remark, nothing of it")


class Builder:
    """Builds the rows of one language. Every construction goes through the domains in turn."""

    def __init__(self, language: Language, draw: Draw) -> None:
        self.language, self.draw = language, draw
        self._domains = draw.shuffled(language.domains)
        self._turn = 0
        self._seen: set[str] = set()

    def scene(self) -> Scene:
        """Return a scene with the next domain."""
        self._turn += 1
        return Scene(self.language, self.draw, self._domains[self._turn % len(self._domains)])

    def rows(self, count: int, make: Callable[[], Row]) -> Iterator[Row]:
        """Yield rows that differ from all rows before."""
        while count:
            row = make()
            text = json.dumps({key: row[key] for key in row if key not in ("category", "cluster")}, ensure_ascii=False)
            if text not in self._seen:
                self._seen.add(text)
                count -= 1
                yield row

    def answers(self, count: int) -> Iterator[Row]:
        """Yield labelled answers, so many of each construction."""
        for name, (label, construct) in ANSWERS.items():

            def make(name: str = name, label: str = label, construct: Callable[[Scene], Answer] = construct) -> Row:
                scene = self.scene()
                return _row("answer", name, scene, **construct(scene)._asdict(), label=label)

            yield from self.rows(count, make)

    def coverage(self, kind: str, count: int, several: int) -> Iterator[Row]:
        """Yield pieces of evidence or points: single ones of each construction, then several in one question."""
        recall = kind == "recall"
        chosen = [
            *((name, "covered", False, make) for name, make in COVERED.items()),
            *((name, "missed", False, make) for name, make in MISSED.items()),
        ]
        if recall:
            chosen += [(name, "covered", True, make) for name, make in UPDATE_COVERED.items()]
            chosen += [(name, "missed", True, make) for name, make in UPDATE_MISSED.items()]

        def item(scene: Scene, fact: Fact, construct: Callable[[Scene, Fact], Targets]) -> tuple[str, Targets]:
            spoken = not recall and self.draw.pick((True, False))
            text = fact.spoken(self.draw) if spoken else fact.fill(fact.domain.statements[0])
            return text, construct(scene, fact)

        def row(category: str, scene: Scene, items: list[tuple[str, Targets, str, bool]]) -> Row:
            targets = [target for _, texts, _, _ in items for target in texts]
            texts: Row = {"points" if recall else "evidence": [text for text, _, _, _ in items]}
            if recall:
                texts["updates"] = [update for _, _, _, update in items]
            texts["memories"] = scene.memories(*targets)
            return _row(kind, category, scene, **texts, labels=[label for _, _, label, _ in items])

        for name, label, update, construct in chosen:

            def single(
                name: str = name,
                label: str = label,
                update: bool = update,
                construct: Callable[[Scene, Fact], Targets] = construct,
            ) -> Row:
                scene = self.scene()
                return row(name, scene, [(*item(scene, scene.fact, construct), label, update)])

            yield from self.rows(count, single)

        def three() -> Row:
            scene = self.scene()
            facts = [scene.fact, scene.other_domain(scene.fact.name), scene.other_domain()]
            items = []
            for fact in facts:
                _, label, update, construct = self.draw.pick(chosen)
                items.append((*item(scene, fact, construct), label, update))
            return row("several items", scene, items)

        yield from self.rows(several, three)

    def correctness(self, count: int, several: int) -> Iterator[Row]:
        """Yield written memories: single ones of each construction, then several in one question."""
        labels = {"correct": TRUE, "hallucination": FABRICATED, "irrelevant": IRRELEVANT}
        chosen = [(name, label, construct) for label, texts in labels.items() for name, construct in texts.items()]

        def row(category: str, picks: list[tuple[str, str, Callable[[Scene, Fact], str]]]) -> Row:
            scene = self.scene()
            facts = [
                scene.fact,
                *(scene.other_domain(scene.fact.name) for _ in range(2)),
                scene.other_domain(),
            ]
            replaced = scene.other_domain(scene.fact.name)
            points = [fact.fill(fact.domain.statements[0]) for fact in facts]
            earlier = [replaced.fill(replaced.domain.statements[0])]
            memories, labels = [], []
            for number, (_, label, construct) in enumerate(picks):
                # One of several memories may be about an earlier session.
                fact = replaced if number == 3 else facts[number % len(facts)]
                memories.append(construct(scene, fact))
                labels.append(label)
            points = self.draw.shuffled(points)
            texts = {"points": points, "earlier_points": earlier, "memories": memories}
            return _row("correctness", category, scene, **texts, labels=labels)

        for pick in chosen:
            yield from self.rows(count, lambda pick=pick: row(pick[0], [pick]))  # type: ignore[misc]
        # With two people of the same domain, each may get the value of the other.
        yield from self.rows(count, self._swapped_memory)
        yield from self.rows(several, lambda: row("several items", self.draw.some(chosen, 4)))

    def _swapped_memory(self) -> Row:
        scene = self.scene()
        first, second = scene.fact, scene.about(scene.domain)
        if second.value == first.value:
            second = second.other(self.draw)
        points = [fact.fill(fact.domain.statements[0]) for fact in (first, second, scene.other_domain(first.name))]
        memory = first.with_value(second.value).say(self.draw)
        texts = {"points": self.draw.shuffled(points), "earlier_points": [], "memories": [memory]}
        return _row("correctness", "people swapped", scene, **texts, labels=["hallucination"])

    def updates(self, counts: Mapping[str, int]) -> Iterator[Row]:
        """Yield changed facts, so many of each construction of a label."""
        for label, constructions in (("updated", UPDATED), ("both", BOTH), ("outdated", OUTDATED)):
            for name, construct in constructions.items():

                def make(
                    label: str = label,
                    name: str = name,
                    construct: Callable[[Scene, Fact, Fact], Targets] = construct,
                ) -> Row:
                    scene = self.scene()
                    new = scene.fact
                    old = new.other(self.draw)
                    first = new.domain.statements[0]
                    texts = {"new": new.fill(first), "old": [old.fill(first)]}
                    memories = scene.memories(*construct(scene, new, old))
                    return _row("update", name, scene, **texts, memories=memories, label=label)

                yield from self.rows(counts[label], make)

    def interference(self, count: int) -> Iterator[Row]:
        """Yield remarks and facts that should not be kept, so many of each construction."""
        for names, label in ((REMARK_MEMORIZED, "memorized"), (REMARK_REJECTED, "rejected")):
            for name in names:

                def remark(name: str = name, label: str = label) -> Row:
                    scene = self.scene()
                    noise = self.draw.pick(self.language.noises)
                    content, targets = _remark(scene, noise, name)
                    row = _row("interference", name, scene, content=content, memories=scene.memories(*targets))
                    return {**row, "cluster": f"{self.language.code}-{noise.name}", "label": label}

                yield from self.rows(count, remark)
        for constructions, label in ((COVERED, "memorized"), (MISSED, "rejected")):
            for name, construct in constructions.items():
                # A memory with a vague word for the content has kept a part of it: no label follows.
                if name == "vague":
                    continue

                def of_fact(
                    name: str = name,
                    label: str = label,
                    construct: Callable[[Scene, Fact], Targets] = construct,
                ) -> Row:
                    scene = self.scene()
                    content = scene.fact.fill(scene.domain.statements[0])
                    memories = scene.memories(*construct(scene, scene.fact))
                    return _row(
                        "interference",
                        f"fact, {name}",
                        scene,
                        content=content,
                        memories=memories,
                        label=label,
                    )

                yield from self.rows(count, of_fact)


def _row(kind: str, category: str, scene: Scene, **fields: Any) -> Row:
    return {"kind": kind, "category": category, "cluster": scene.fact.cluster, **fields}


def labelled_questions() -> Iterator[Row]:
    """Yield all rows, kind by kind, English before Chinese."""
    draw = Draw(SEED)
    english, chinese = Builder(ENGLISH, draw), Builder(CHINESE, draw)
    yield from english.answers(12)
    yield from chinese.answers(8)
    for kind in ("evidence", "recall"):
        yield from english.coverage(kind, 9, 30)
        yield from chinese.coverage(kind, 6, 22)
    yield from english.correctness(12, 26)
    yield from chinese.correctness(8, 18)
    yield from english.updates({"updated": 14, "both": 18, "outdated": 12})
    yield from chinese.updates({"updated": 10, "both": 12, "outdated": 8})
    yield from english.interference(10)
    yield from chinese.interference(7)
