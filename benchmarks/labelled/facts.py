"""Facts about invented people, and the texts that say them, almost say them, or say something else."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, TypeVar

from benchmarks.labelled.domain import Domain, Language, Value

T = TypeVar("T")
# `a orange bicycle` needs `an`.
_ARTICLE = re.compile(r"\ba(?= [aeiou])")


class Draw:
    """Random choices. They use only `random()`, whose numbers are the same in every version of Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self._random.random() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order."""
        return [item for _, _, item in sorted((self._random.random(), at, item) for at, item in enumerate(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return several different items."""
        return self.shuffled(items)[:count]


class Fact(NamedTuple):
    """A person has a value of a domain."""

    language: Language
    domain: Domain
    name: str
    value: Value

    @property
    def reference(self) -> str:
        """The value in its usual form."""
        return self.value.forms[0]

    @property
    def cluster(self) -> str:
        """Questions with the sentences of one domain are not independent."""
        return f"{self.language.code}-{self.domain.name}"

    def fill(self, frame: str, value: str = "", old: str = "") -> str:
        """Return a frame with person and value. The first letter is a capital."""
        text = frame.format(n=self.name, v=value or self.reference, o=old)
        text = _ARTICLE.sub("an", text)
        return text[0].upper() + text[1:]

    def say(self, draw: Draw, avoid: str = "") -> str:
        """Return the fact in one of its frames, not as in `avoid`."""
        texts = [self.fill(frame) for frame in self.domain.statements]
        return draw.pick([text for text in texts if text != avoid])

    def other_form(self, draw: Draw) -> str:
        """Return the fact with its value in another form, if it has one."""
        return self.fill(draw.pick(self.domain.statements), draw.pick(self.value.forms[1:] or self.value.forms))

    def spoken(self, draw: Draw) -> str:
        """Return a line of a conversation in which the person says it."""
        return self.language.dialogue.format(n=self.name, s=self.fill(draw.pick(self.domain.spoken)))

    def long(self, draw: Draw, text: str = "") -> str:
        """Return a text with a harmless opening, the fact, and details beside it."""
        language = self.language
        parts = [draw.pick(language.openings), text or self.say(draw), *draw.some(self.domain.details, 2)]
        return ("" if language.code == "zh" else " ").join(parts)

    def vague(self, draw: Draw) -> str:
        """Return a memory that has only the vague value."""
        question = self.fill(draw.pick(self.domain.questions))
        return self.language.loose.format(q=question, v=self.value.vague)

    def question(self, draw: Draw) -> str:
        """Return a question about the fact."""
        return self.fill(draw.pick(self.domain.questions))

    def with_value(self, value: Value) -> Fact:
        """Return the same person with another value."""
        return self._replace(value=value)

    def other(self, draw: Draw) -> Fact:
        """Return the same person with a random other value."""
        return self.with_value(draw.pick([value for value in self.domain.values if value != self.value]))

    def near(self) -> Fact:
        """Return the same person with the value that is written most alike: another day, another number."""
        others = [value for value in self.domain.values if value != self.value]
        return self.with_value(max(others, key=lambda value: _likeness(value.forms[0], self.reference)))

    def of(self, name: str) -> Fact:
        """Return the same value for another person."""
        return self._replace(name=name)


class Scene:
    """People and facts of one question. No two facts have the same person and domain."""

    def __init__(self, language: Language, draw: Draw, domain: Domain) -> None:
        self.language, self.draw, self.domain = language, draw, domain
        self._names = draw.shuffled(language.names)
        self._used: set[tuple[str, str]] = set()
        self.fact = self.about(domain)

    def name(self) -> str:
        """Return a person who is not in the scene yet."""
        return self._names.pop()

    def about(self, domain: Domain, name: str = "") -> Fact:
        """Return a fact of a domain, about a new person unless one is named."""
        fact = Fact(self.language, domain, name or self.name(), self.draw.pick(domain.values))
        self._used.add((fact.name, domain.name))
        return fact

    def other_domain(self, name: str = "") -> Fact:
        """Return a fact of another domain, which this person has no fact of yet."""
        free = [each for each in self.language.domains if each != self.domain and (name, each.name) not in self._used]
        return self.about(self.draw.pick(free), name)

    def distractors(self, count: int) -> list[str]:
        """Return memories beside the point: the same person elsewhere, the same domain for others, small talk."""
        texts = []
        for number in range(count):
            if number % 3 == 0:
                texts.append(self.other_domain(self.fact.name).say(self.draw))
            elif number % 3 == 1:
                stranger = self.about(self.domain)
                if stranger.value == self.fact.value:
                    stranger = stranger.other(self.draw)
                texts.append(stranger.say(self.draw))
            else:
                texts.append(self.other_domain().spoken(self.draw))
        return texts

    def memories(self, *targets: str, count: int = 0) -> list[str]:
        """Return the targets among distractors, in random order."""
        return self.draw.shuffled([*targets, *self.distractors(count or self.draw.pick((2, 3, 4, 6, 12)))])

    def joined(self, first: str, second: str) -> str:
        """Return two statements as one memory."""
        return self.draw.pick(self.language.joints).format(a=first, b=second)

    def swapped(self, fact: Fact) -> str:
        """Return a memory that mixes up two people: each has the value of the other."""
        stranger = self.about(fact.domain)
        if stranger.value == fact.value:
            stranger = stranger.other(self.draw)
        mine, theirs = fact.with_value(stranger.value), stranger.with_value(fact.value)
        return self.joined(mine.say(self.draw), theirs.say(self.draw))

    def beside_another(self, fact: Fact) -> str:
        """Return a memory with this fact and that of another person."""
        return self.joined(*self.draw.shuffled([fact.say(self.draw), self.about(fact.domain).say(self.draw)]))


def _likeness(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second, autojunk=False).ratio()
