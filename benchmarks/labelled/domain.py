"""What the constructed labels are about: domains of facts, and the words of one language."""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """A value of a fact: ways to write it that mean the same, and a vague form that could mean others too."""

    forms: tuple[str, ...]
    vague: str


class Domain(NamedTuple):
    """One attribute of a person. In all frames `{n}` is the person and `{v}` the value.

    Every frame of `statements` says the same fact; `spoken` are the person's own words. `asides` share topic, person
    and value, but do not say the fact: plans, wishes, questions. `past` says that it held once, `negations` that it
    does not hold. In `changes`, `{o}` is the former value.
    """

    name: str
    questions: tuple[str, ...]
    statements: tuple[str, ...]
    spoken: tuple[str, ...]
    asides: tuple[str, ...]
    past: tuple[str, ...]
    negations: tuple[str, ...]
    changes: tuple[str, ...]
    details: tuple[str, ...]
    values: tuple[Value, ...]


class Noise(NamedTuple):
    """Something that a memory should not keep. `{x}` is a name or number that another remark replaces.

    `statements` say it in several ways, `denials` say that it is not so, and `relatives` share its topic only.
    """

    name: str
    statements: tuple[str, ...]
    denials: tuple[str, ...]
    relatives: tuple[str, ...]
    xs: tuple[str, ...]


class Language(NamedTuple):
    """Everything that the sentences of one language need."""

    code: str
    names: tuple[str, ...]
    domains: tuple[Domain, ...]
    noises: tuple[Noise, ...]
    unknown: tuple[str, ...]
    """References that say that nobody can know."""
    abstentions: tuple[str, ...]
    hedges: tuple[str, ...]
    """Answers with three candidates: `{a}`, `{b}`, `{c}`."""
    wrappers: tuple[str, ...]
    """Sentences around an answer: `{s}`."""
    openings: tuple[str, ...]
    """Harmless sentences before a long answer."""
    joints: tuple[str, ...]
    """Two statements in one memory: `{a}`, `{b}`."""
    two_questions: str
    """Two questions in one: `{a}`, `{b}`."""
    two_values: tuple[str, ...]
    weighty: tuple[str, ...]
    """Lasting claims about `{n}` that no domain has."""
    loose: str
    """A memory that has only a vague value: `{q}` is the question, `{v}` the value."""
    small_talk: tuple[str, ...]
    dialogue: str
    """A line of a conversation: `{n}` says `{s}`."""


def values(*lines: str) -> tuple[Value, ...]:
    """Return values from lines such as `seven|7 ~ several`."""
    pairs = [line.partition(" ~ ") for line in lines]
    return tuple(Value(tuple(forms.split("|")), vague) for forms, _, vague in pairs)
